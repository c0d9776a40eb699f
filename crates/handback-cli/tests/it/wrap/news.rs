//! What becomes of tasks of servers, for who follows them.

use std::io::{BufRead as _, BufReader, Lines};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::callers::Callers;
use super::{World, text};
use crate::support::Sandbox;

const TOLD: &str = "notifications/tasks";
const CHANGED: &str = "notifications/tools/list_changed";

fn knows_tasks() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// Callers of a gateway before two servers that make tasks.
fn callers() -> Callers {
    let world = World::with(Sandbox::new());
    world.sandbox.write("chores.py", include_str!("chores.py"));
    let path = |name: &str| world.sandbox.path(name).to_str().unwrap().to_owned();
    let (script, record) = (path("chores.py"), path("record"));
    let python = "/usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin python3";
    let upstreams = ["a", "b"].map(|name| format!("{name}={python} {script} {record} of-{name}"));
    Callers::of(world, &upstreams, "")
}

/// Begins a task at a server; gives the id that its caller knows.
#[track_caller]
fn begin(callers: &Callers, who: &str, server: &str, task: &str) -> String {
    let tool = format!("{server}__begin");
    let params = json!({"name": tool, "arguments": {"task": task}});
    let called = callers.ask_of(who, "tools/call", &tool, params, knows_tasks());
    called["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{called}")).to_owned()
}

fn finish(callers: &Callers, who: &str, server: &str, task: &str, bytes: usize) {
    let params = json!({"arguments": {"task": task, "bytes": bytes}});
    let called = callers.ask(who, &format!("{server}__finish"), params);
    assert_eq!(text(&called["result"]), "finished", "{called}");
}

/// What one who listens is told.
pub(super) struct Listening(Lines<BufReader<TcpStream>>);

impl Listening {
    /// Listens; gives what is acknowledged.
    fn begin(callers: &Callers, who: &str, tasks: &[&str]) -> (Self, Value) {
        Self::to(callers, who, &json!({"toolsListChanged": true, "taskIds": tasks}))
    }

    /// Listens to this.
    pub(super) fn to(callers: &Callers, who: &str, wanted: &Value) -> (Self, Value) {
        let stream = callers.listen_as(who, &wanted.to_string(), knows_tasks());
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut listening = Self(BufReader::new(stream).lines());
        let (method, params) = listening.next();
        assert_eq!(method, "notifications/subscriptions/acknowledged", "{params}");
        (listening, params["notifications"].clone())
    }

    /// The next notification.
    #[track_caller]
    pub(super) fn next(&mut self) -> (String, Value) {
        loop {
            let line = self.0.next().expect("it goes on").unwrap();
            let Some(json) = line.strip_prefix("data: ") else { continue };
            let mut message: Value = serde_json::from_str(json).unwrap();
            let method = message["method"].as_str().unwrap_or_else(|| panic!("{message}"));
            return (method.to_owned(), message["params"].take());
        }
    }
}

#[test]
fn who_follows_a_task_hears_what_becomes_of_it_and_nobody_else() {
    let callers = callers();
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    let hers = [begin(&callers, alice, "a", "one"), begin(&callers, alice, "b", "two")];
    let his = begin(&callers, bob, "a", "three");
    let own = handback_token::Handle::generate(&mut rand::rng()).to_string();
    let never = format!("t{:032x}", 1);
    let (mut of_alice, accepted) = Listening::begin(
        &callers,
        alice,
        &[&hers[0], "of-a-one", &his, &own, &never, &hers[1], &hers[0]],
    );
    let mut ids: Vec<_> = accepted["taskIds"].as_array().unwrap().iter().collect();
    ids.sort_by_key(|id| hers.iter().position(|known| *id == known.as_str()));
    assert_eq!(ids, [hers[0].as_str(), hers[1].as_str()], "{accepted}");
    let mut followed = callers.world.effects("follows");
    followed.sort();
    assert_eq!(followed, ["follows of-a of-a-one", "follows of-b of-b-two"]);
    // By no name does another one follow it.
    let (mut of_bob, accepted) =
        Listening::begin(&callers, bob, &[&hers[0], "of-a-one", "of-a-three"]);
    assert_eq!(accepted, json!({"toolsListChanged": true}));
    finish(&callers, alice, "a", "one", 10);
    let (method, told) = of_alice.next();
    assert_eq!((method.as_str(), &told["status"]), (TOLD, &json!("completed")), "{told}");
    assert_eq!(told["taskId"], hers[0].as_str(), "{told}");
    assert_eq!(text(&told["result"]).len(), 10);
    assert_eq!(of_alice.next().0, CHANGED);
    assert_eq!(of_bob.next().0, CHANGED, "nothing of the task before");
    // Nor does she hear of what is not hers.
    finish(&callers, bob, "a", "three", 10);
    assert_eq!(of_alice.next().0, CHANGED);
}

#[test]
fn what_is_told_of_a_task_keeps_to_the_budget() {
    let callers = callers();
    let alice = callers.alice.as_str();
    let task = begin(&callers, alice, "b", "large");
    let (mut listening, _) = Listening::begin(&callers, alice, &[&task]);
    finish(&callers, alice, "b", "large", 400_000);
    let (method, told) = listening.next();
    assert_eq!(method, TOLD);
    assert!(told.to_string().len() < 80_000, "{} bytes", told.to_string().len());
    let held = |told: &Value| told["result"]["_meta"]["dev.handback/held"].clone();
    assert!(held(&told)[0]["handle"].is_string(), "{told}");
    // It is held once, however it is read.
    let params = json!({"taskId": task});
    let asked = callers.ask_of(alice, "tasks/get", &task, params, knows_tasks());
    assert_eq!(held(&asked["result"]), held(&told));
}

#[test]
fn who_does_not_know_tasks_follows_none() {
    let callers = callers();
    let task = begin(&callers, &callers.alice, "a", "one");
    let wanted = json!({"toolsListChanged": true, "taskIds": [task]}).to_string();
    let _listening = callers.listen_to(&callers.alice, &wanted);
    callers.world.until_effect("follows of-a");
    assert_eq!(callers.world.effects("follows of-a"), ["follows of-a "]);
    for wrong in [r#"{"taskIds":"x"}"#, r#"{"taskIds":["x",5]}"#, r#"{"taskIds":[],"taskIds":[]}"#]
    {
        let answer = crate::streams::server::read(&mut callers.listen_to(&callers.alice, wrong));
        let body = String::from_utf8(answer.body).unwrap();
        assert!(body.contains("\"error\""), "{wrong}: {body}");
    }
}
