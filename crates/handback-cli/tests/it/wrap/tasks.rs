//! Calls that take long, for clients that know tasks.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::callers::Callers;
use super::{World, aql, text};
use crate::mcp_client::{Client, Era};
use crate::support::Sandbox;

/// More than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// When a call becomes a task.
const SLOW_AFTER: Duration = Duration::from_secs(2);

fn knows_tasks() -> Value {
    json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

fn append(delay_ms: u64) -> Value {
    json!({"name": "append", "arguments": {"text": "a", "delay_ms": delay_ms}})
}

/// The id of the task that a call became.
#[track_caller]
fn task_of(result: &Value) -> String {
    assert_eq!(result["resultType"], "task", "{result}");
    result["taskId"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

/// The result of a task, once it is completed.
pub(super) fn result_of(client: &mut Client, task: &str) -> Value {
    until(client, task, &["completed"]).0["result"].clone()
}

/// What is said of a task once it has one of these states, as it was written.
fn until(client: &mut Client, task: &str, status: &[&str]) -> (Value, String) {
    let begun = Instant::now();
    loop {
        client.send("tasks/get", json!({"taskId": task}));
        let line = client.receive_line();
        let told: Value = serde_json::from_str(&line).unwrap();
        let state = told["result"]["status"].as_str().unwrap_or_else(|| panic!("{line}"));
        if status.contains(&state) {
            return (told["result"].clone(), line);
        }
        assert!(begun.elapsed() < LONG, "{line}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_slow_call_becomes_a_task() {
    for speaks in ["both", "older"] {
        let world = World::speaking(speaks);
        let mut client = world.client_with(Era::Newest, &[], knows_tasks());
        let hello = client.ask("server/discover", json!({}));
        let extensions = &hello["capabilities"]["extensions"];
        assert!(extensions["io.modelcontextprotocol/tasks"].is_object(), "{hello}");
        let called = client.ask("tools/call", append(4000));
        let task = task_of(&called);
        assert_eq!(called["status"], "working");
        let (told, line) = until(&mut client, &task, &["completed"]);
        assert_eq!(text(&told["result"]), "appended", "{told}");
        // As the server wrote it.
        assert!(line.contains(r#""x-unknown":{"b":1.50,"a":1e2}"#), "{line}");
        assert_eq!(world.effects("append").len(), 1);
    }
}

#[test]
fn a_call_that_is_fast_or_whose_client_knows_no_tasks_is_none() {
    let world = World::new();
    let mut client = world.client_with(Era::Newest, &[], knows_tasks());
    assert_eq!(text(&client.ask("tools/call", append(0))), "appended");
    drop(client);
    let mut client = world.client(Era::Newest);
    assert_eq!(text(&client.ask("tools/call", append(3000))), "appended");
}

#[test]
fn the_connection_of_a_call_that_takes_long_is_kept_alive() {
    let callers = Callers::before(&[("up", "both")], "");
    let begun = Instant::now();
    // Something is said every 15 seconds: first that there will be events, then a comment.
    let mut stream = callers.begin_to_ask(&callers.alice, "append", append(31_000));
    let answer = crate::streams::server::read(&mut stream);
    assert!(begun.elapsed() >= Duration::from_secs(31), "{answer:?}");
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    let body = String::from_utf8(answer.body).unwrap();
    let (comments, answer) = body.split_once("data: ").unwrap_or_else(|| panic!("{body}"));
    assert_eq!(comments, ":\n\n");
    assert!(answer.contains("appended"), "{answer}");
}

#[test]
fn a_task_asks_and_goes_on() {
    let world = World::new();
    world.sandbox.write("handback.toml", "[[gateway.tools]]\ntools = \"confirm\"\nlong = true\n");
    let config = world.sandbox.path("handback.toml");
    let flags = ["--config", config.to_str().unwrap()];
    let mut client = world.client_with(Era::Newest, &flags, knows_tasks());
    let called = client.call("confirm", &json!({"what": "x"}));
    let task = task_of(&called);
    let (asked, _) = until(&mut client, &task, &["input_required"]);
    assert_eq!(asked["inputRequests"]["q"]["method"], "elicitation/create", "{asked}");
    assert!(world.effects("confirm").is_empty());
    let answers = json!({"taskId": task, "inputResponses": {"q": {"action": "accept"}}});
    client.ask("tasks/update", answers);
    let (told, _) = until(&mut client, &task, &["completed", "failed"]);
    assert_eq!(text(&told["result"]), "confirmed upstream-state:x", "{told}");
    assert_eq!(world.effects("confirm"), ["confirm upstream-state:x accept"]);
}

/// Of a server that is being started nobody knows yet whether it makes tasks itself.
#[test]
fn the_time_to_a_task_runs_while_the_server_is_started() {
    let world = World::speaking("both gated");
    let mut client = world.client_with(Era::Newest, &[], knows_tasks());
    world.sandbox.write("record.gate", "");
    let id = client.send("tools/call", append(600_000));
    world.until_effect("held server/discover");
    std::thread::sleep(SLOW_AFTER + Duration::from_secs(1));
    std::fs::remove_file(world.sandbox.path("record.gate")).unwrap();
    let opened = Instant::now();
    let told = client.receive();
    assert_eq!(told["id"], id, "{told}");
    task_of(&told["result"]);
    assert!(opened.elapsed() < SLOW_AFTER, "{:?}", opened.elapsed());
}

#[test]
fn what_a_caller_may_not_make_becomes_no_task() {
    let rules = "[[gateway.tools]]\ntools = \"append\"\nlong = true\n\
                 [[permissions.rules]]\ndeny = [\"a__append\"]\nsubjects = [\"bob\"]\n\
                 [limits]\ncalls_per_caller = 1\n";
    let callers = Callers::before(&[("a", "both"), ("b", "both")], rules);
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    let ask = |who: &str, tool: &str, key: Option<&str>| {
        let mut call = append(600_000);
        call["name"] = tool.into();
        key.into_iter().for_each(|key| call["_meta"]["dev.handback/idempotency-key"] = key.into());
        callers.ask_of(who, "tools/call", tool, call, knows_tasks())
    };
    // One that it may not use is one that is not there.
    let denied = ask(bob, "a__append", None);
    assert_eq!(denied["error"]["code"], -32602, "{denied}");
    assert_eq!(denied, ask(bob, "a__never", None));
    let wrong = ask(alice, "a__append", Some("no key: it has spaces"));
    assert_eq!(wrong["result"]["_meta"]["dev.handback/reason"], "bad_key", "{wrong}");
    // Its limits count before there is a task.
    task_of(&ask(alice, "a__append", None)["result"]);
    let busy = ask(alice, "a__append", None);
    assert_eq!(busy["result"]["_meta"]["dev.handback/reason"], "busy", "{busy}");
    task_of(&ask(bob, "b__append", None)["result"]);
    callers.world.until_effect("append");
    assert!(callers.world.effects("append").len() <= 2);
}

#[test]
fn a_task_that_is_cancelled_is_cancelled_at_the_server() {
    let world = World::new();
    let mut client = world.client_with(Era::Newest, &[], knows_tasks());
    let task = task_of(&client.ask("tools/call", append(600_000)));
    client.ask("tasks/cancel", json!({"taskId": task}));
    until(&mut client, &task, &["cancelled"]);
    world.until_effect("cancelled");
}

#[test]
fn a_call_with_a_key_is_one_whatever_became_of_its_task() {
    let world = World::new();
    let mut client = world.client_with(Era::Newest, &[], knows_tasks());
    let mut call = append(4000);
    call["_meta"] = json!({"dev.handback/idempotency-key": "k"});
    let task = task_of(&client.ask("tools/call", call.clone()));
    client.ask("tasks/cancel", json!({"taskId": task}));
    until(&mut client, &task, &["cancelled"]);
    // It runs to its record, and the next try finds it, or becomes a task that does.
    let mut again = client.ask("tools/call", call);
    if again["resultType"] == "task" {
        let (told, _) = until(&mut client, &task_of(&again), &["completed"]);
        again = told["result"].clone();
    }
    assert_eq!(text(&again), "appended", "{again}");
    assert_eq!((world.effects("append").len(), world.effects("cancelled").len()), (1, 0));
}

/// The disk takes nothing while it ends.
#[cfg(target_os = "linux")]
#[test]
fn a_task_whose_end_cannot_be_written_down_does_not_stay_at_work() {
    let world = World::new();
    let mut client = world.client_with(Era::Newest, &[], knows_tasks());
    let task = task_of(&client.ask("tools/call", append(4000)));
    crate::support::limit_files(client.pid(), Some(0));
    // By then it has ended.
    std::thread::sleep(Duration::from_secs(5));
    crate::support::limit_files(client.pid(), None);
    let begun = Instant::now();
    let told = loop {
        client.send("tasks/get", json!({"taskId": task}));
        let told = client.receive();
        match told["error"]["data"]["reason"].as_str() {
            Some("unavailable") => assert!(begun.elapsed() < LONG, "{told}"),
            Some(_) => panic!("{told}"),
            None => break told["result"].clone(),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    // What could not be written then may have been written when it could.
    match told["status"].as_str() {
        Some("completed") => assert_eq!(text(&told["result"]), "appended"),
        Some("failed") => assert_eq!(told["error"]["data"]["reason"], "ambiguous", "{told}"),
        _ => panic!("{told}"),
    }
    assert_eq!(world.effects("append").len(), 1);
}

#[test]
fn the_task_of_one_is_nothing_to_the_other() {
    let callers = Callers::before(&[("up", "both")], "");
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    let called = callers.ask_of(alice, "tools/call", "append", append(3000), knows_tasks());
    let task = task_of(&called["result"]);
    let get = |who: &str, task: &str| {
        callers.ask_of(who, "tasks/get", task, json!({"taskId": task}), knows_tasks())
    };
    let never = handback_token::Handle::generate(&mut rand::rng()).to_string();
    let foreign = get(bob, &task);
    assert_eq!(foreign["error"]["data"]["reason"], "invalid", "{foreign}");
    assert_eq!(foreign, get(bob, &never));
    let mut cancelled =
        callers.ask_of(bob, "tasks/cancel", &task, json!({"taskId": task}), knows_tasks());
    assert_eq!(cancelled["error"].take(), foreign["error"]);
    assert!(get(alice, &task)["result"]["status"].is_string());
    assert!(callers.world.effects("cancelled").is_empty());
}

#[test]
fn the_result_of_a_servers_own_task_keeps_to_the_budget() {
    let world = World::speaking("newest tasks");
    let mut client = world.client_with(Era::Newest, &[], knows_tasks());
    let mut told_of = |bytes: usize| {
        let task = task_of(&client.call("chore", &json!({"bytes": bytes})));
        client.send("tasks/get", json!({"taskId": task}));
        (task, client.receive())
    };
    let (task, told) = told_of(1000);
    assert_eq!(
        (&told["result"]["taskId"], &told["result"]["status"]),
        (&json!(task), &json!("completed"))
    );
    assert_eq!(text(&told["result"]["result"]).len(), 1000);
    // Over the budget, over what is in memory of an answer, and over what is passed on.
    for bytes in [400_000, 9 << 20, 65 << 20] {
        let (_, told) = told_of(bytes);
        assert!(told.to_string().len() < 80_000, "{} bytes", told.to_string().len());
        let held = &told["result"]["result"]["_meta"]["dev.handback/held"][0];
        assert!(held["bytes"].as_u64().unwrap() >= bytes as u64, "{told}");
    }
}

#[test]
fn the_result_of_an_older_task_is_one_of_its_tool() {
    let world = World::speaking("both tasks");
    let rows = "[[gateway.tools]]\ntools = \"rows\"\nbudget = \"1MiB\"\n";
    world.sandbox.write("handback.toml", rows);
    let config = world.sandbox.path("handback.toml");
    let flags = ["--config", config.to_str().unwrap()];
    let mut client = world.client_with(Era::Older, &flags, knows_tasks());
    let mut held_of = |tool: &str, task: &str| {
        let params =
            json!({"name": tool, "arguments": {"count": 1, "bytes": 1}, "task": {"id": task}});
        let called = client.ask("tools/call", params);
        assert_eq!(called["task"]["taskId"], task, "{called}");
        client.ask("tasks/result", json!({"taskId": task}))["_meta"]["dev.handback/held"].clone()
    };
    assert!(held_of("document", "chore-100000")[0]["handle"].is_string());
    assert!(held_of("rows", "chore-100001").is_null(), "it has a budget of its own");
}

#[test]
fn the_result_of_a_servers_own_task_is_held_once() {
    for (era, method) in [(Era::Newest, "tasks/get"), (Era::Older, "tasks/result")] {
        let world = World::speaking("both tasks");
        // For one of it there is room, and not for a second.
        world.sandbox.write("handback.toml", "[held]\nbytes_per_caller = 1048576\n");
        let config = world.sandbox.path("handback.toml");
        let flags = ["--config", config.to_str().unwrap()];
        let mut client = world.client_with(era, &flags, knows_tasks());
        let task_for = |client: &mut Client, bytes: usize| match era {
            Era::Newest => task_of(&client.call("chore", &json!({"bytes": bytes}))),
            _ => format!("chore-{bytes}"),
        };
        let task = task_for(&mut client, 600_000);
        let read = |client: &mut Client, task: &str| {
            let told = client.ask_with_meta(method, json!({"taskId": task}));
            let result = if method == "tasks/get" { &told["result"] } else { &told };
            let held = result["_meta"]["dev.handback/held"].clone();
            assert!(held[0]["handle"].is_string(), "{told}");
            held
        };
        let held = read(&mut client, &task);
        for _ in 0..9 {
            assert_eq!(read(&mut client, &task), held);
        }
        let listed = json!({"operation": "list_collections", "params": {}});
        let listed = aql(&mut client, "mcp_aql_read", &listed).to_string();
        assert!(listed.contains(held[0]["handle"].as_str().unwrap()), "{listed}");
        let other = task_for(&mut client, 100_000);
        assert_ne!(read(&mut client, &other), held, "another task is another one");
    }
}

/// A server of the older era over HTTP, which is ended when it is dropped.
pub(super) struct OlderWeb(Child);

impl OlderWeb {
    /// It, and where it is.
    fn start(world: &World) -> (Self, String) {
        Self::running(world, include_str!("older_web.py"))
    }

    /// The same of a program that prints its port.
    pub(super) fn running(world: &World, program: &str) -> (Self, String) {
        world.sandbox.write("older_web.py", program);
        let mut process = Command::new("/usr/bin/env")
            .args(["PATH=/usr/local/bin:/usr/bin:/bin", "python3"])
            .args([world.sandbox.path("older_web.py"), world.sandbox.path("record")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        (Self(process), format!("http://127.0.0.1:{}/", port.trim()))
    }
}

impl Drop for OlderWeb {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_task_of_the_older_era_is_that_of_its_session() {
    let world = World::with(Sandbox::new());
    let (_web, url) = OlderWeb::start(&world);
    let callers = Callers::of(world, &[format!("up={url}")], "");
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    let (first, second, third) = (callers.begin(alice), callers.begin(alice), callers.begin(bob));
    let call = json!({"name": "chore", "arguments": {}, "task": {}});
    let called = callers.ask_in(alice, &first, "tools/call", call);
    let task = called["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{called}"));
    let ask = |who: &str, session: &str, method: &str, task: &str| {
        callers.ask_in(who, session, method, json!({"taskId": task}))
    };
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        for (who, session) in [(alice, &second), (bob, &third)] {
            let foreign = ask(who, session, method, task);
            assert_eq!(foreign["error"]["data"]["reason"], "invalid", "{foreign}");
            assert_eq!(foreign, ask(who, session, method, "task-never"));
        }
    }
    assert!(callers.world.effects("tasks/").is_empty());
    let own = ask(alice, &first, "tasks/get", task);
    assert_eq!(own["result"]["status"], "completed", "{own}");
    assert_eq!(callers.world.effects("tasks/"), [format!("tasks/get {task}")]);
}

#[test]
fn a_task_of_a_process_that_all_share_is_that_of_who_was_given_it() {
    let callers = Callers::before(&[("up", "newest tasks")], "");
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    let call = json!({"name": "chore", "arguments": {"bytes": 10}});
    let called = callers.ask_of(alice, "tools/call", "chore", call, knows_tasks());
    let task = task_of(&called["result"]);
    assert_ne!(task, "chore-10");
    let session = callers.begin(bob);
    for method in ["tasks/get", "tasks/cancel", "tasks/result", "tasks/update"] {
        for id in ["chore-10", "chore-11", task.as_str()] {
            let foreign = callers.ask_in(bob, &session, method, json!({"taskId": id}));
            assert_eq!(foreign["error"]["data"]["reason"], "invalid", "{method}: {foreign}");
        }
    }
    callers.ask_in(bob, &session, "tasks/list", json!({}));
    assert!(callers.world.effects("state").is_empty(), "{:?}", callers.world.effects("state"));
}

#[test]
fn a_task_of_a_server_ends_for_a_caller_that_is_revoked() {
    let callers = Callers::before(&[("up", "newest tasks")], "");
    let alice = callers.alice.as_str();
    let call = json!({"name": "chore", "arguments": {"bytes": 10}});
    let called = callers.ask_of(alice, "tools/call", "chore", call, knows_tasks());
    let task = task_of(&called["result"]);
    let get = || callers.ask_of(alice, "tasks/get", &task, json!({"taskId": task}), knows_tasks());
    assert_eq!(get()["result"]["status"], "completed");
    // What was given out until now.
    callers.revoke_until_now();
    let begun = Instant::now();
    loop {
        let told = get();
        if told["error"]["data"]["reason"] == "invalid" {
            break;
        }
        assert!(begun.elapsed() < LONG, "{told}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_name_of_a_task_is_given_to_who_holds_as_much_as_may_be() {
    let callers =
        Callers::before(&[("up", "newest tasks")], "[held]\nbytes_per_caller = 1048576\n");
    let alice = callers.alice.as_str();
    let held = callers.ask(alice, "document", json!({"arguments": {"bytes": 900_000}}));
    assert!(held["result"]["_meta"]["dev.handback/held"].is_array(), "{held}");
    let full = callers.ask(alice, "document", json!({"arguments": {"bytes": 900_000}}));
    assert_eq!(full["result"]["_meta"]["dev.handback/reason"], "not_held", "{full}");
    let chore = |who: &str, bytes: usize| {
        let call = json!({"name": "chore", "arguments": {"bytes": bytes}});
        callers.ask_of(who, "tools/call", "chore", call, knows_tasks())
    };
    // More than fit into what is left.
    for bytes in 0..60 {
        task_of(&chore(alice, bytes)["result"]);
    }
    // There is an end to it, before the server is asked: each takes more than 4,096 of 2 MiB.
    let refused = (60..512)
        .map(|bytes| chore(alice, bytes))
        .find(|told| told["result"]["resultType"] != "task");
    let refused = refused.expect("there is an end");
    assert_eq!(refused["result"]["_meta"]["dev.handback/reason"], "quota", "{refused}");
    task_of(&chore(&callers.bob, 0)["result"]);
    let read = callers.ask(alice, "document", json!({"arguments": {"bytes": 10}}));
    assert!(read["result"]["_meta"]["dev.handback/reason"].is_null(), "{read}");
}

#[test]
fn a_task_of_a_server_has_one_id_for_its_caller() {
    let callers = Callers::before(&[("up", "newest tasks")], "");
    let task = |who: &str, bytes: usize| {
        let key = json!({"dev.handback/idempotency-key": bytes.to_string()});
        let call = json!({"name": "chore", "arguments": {"bytes": bytes}, "_meta": key});
        let called = callers.ask_of(who, "tools/call", "chore", call, knows_tasks());
        (task_of(&called["result"]), called["result"]["_meta"]["dev.handback/replayed"] == true)
    };
    let (first, is_replay) = task(&callers.alice, 10);
    assert!(!is_replay);
    assert_eq!(task(&callers.alice, 10), (first.clone(), true), "a replay is of the same task");
    assert_ne!(task(&callers.alice, 11).0, first);
    let other = task(&callers.bob, 10).0;
    assert_ne!(other, first);
    let told =
        callers.ask_of(&callers.bob, "tasks/get", &first, json!({"taskId": first}), knows_tasks());
    assert_eq!(told["error"]["data"]["reason"], "invalid", "{told}");
}

#[test]
fn who_has_read_the_result_of_a_task_has_its_answer() {
    let world = World::new();
    let rule = "[[gateway.tools]]\ntools = \"append\"\nlong = true\nretry = \"identical\"\n";
    world.sandbox.write("handback.toml", rule);
    let config = world.sandbox.path("handback.toml");
    let flags = ["--config", config.to_str().unwrap()];
    let mut client = world.client_with(Era::Newest, &flags, knows_tasks());
    let task = task_of(&client.ask("tools/call", append(0)));
    // Nobody has read it: an identical call is another try.
    let begun = Instant::now();
    while world.effects("append").is_empty() {
        assert!(begun.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(10));
    }
    let again = task_of(&client.ask("tools/call", append(0)));
    let (told, _) = until(&mut client, &again, &["completed"]);
    assert_eq!(told["result"]["_meta"]["dev.handback/replayed"], true, "{told}");
    until(&mut client, &task, &["completed"]);
    let another = task_of(&client.ask("tools/call", append(0)));
    let (told, _) = until(&mut client, &another, &["completed"]);
    assert!(told["result"]["_meta"]["dev.handback/replayed"].is_null(), "{told}");
    assert_eq!(world.effects("append").len(), 2);
}

#[test]
fn who_may_not_use_a_tool_any_more_has_none_of_its_tasks() {
    let upstreams = [("up", "newest tasks"), ("plain", "both")];
    let long = "[[gateway.tools]]\ntools = \"append\"\nlong = true\n";
    let callers = Callers::before(&upstreams, long);
    let alice = callers.alice.clone();
    let chore = json!({"name": "chore", "arguments": {"bytes": 10}});
    let of_server = callers.ask_of(&alice, "tools/call", "chore", chore, knows_tasks());
    let mut call = append(0);
    call["name"] = "plain__append".into();
    let own = callers.ask_of(&alice, "tools/call", "plain__append", call, knows_tasks());
    let tasks = [task_of(&of_server["result"]), task_of(&own["result"])];
    let about = |callers: &Callers, method: &str, task: &str| {
        let params = json!({"taskId": task, "inputResponses": {}});
        callers.ask_of(&alice, method, task, params, knows_tasks())
    };
    for task in &tasks {
        let begun = Instant::now();
        while about(&callers, "tasks/get", task)["result"]["status"] != "completed" {
            assert!(begun.elapsed() < LONG);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    // By the names that their servers have for the tools.
    let denied = "[[permissions.rules]]\ndeny = [\"chore\", \"append\"]\nsubjects = [\"alice\"]\n";
    let callers = callers.now_with(&upstreams, &format!("{long}{denied}"));
    let before = callers.world.effects("state").len();
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for (task, never) in tasks.iter().zip([
            format!("t{:032x}", 1),
            handback_token::Handle::generate(&mut rand::rng()).to_string(),
        ]) {
            let refused = about(&callers, method, task);
            assert_eq!(refused["error"]["data"]["reason"], "invalid", "{method}: {refused}");
            assert_eq!(refused, about(&callers, method, &never), "{method}");
        }
    }
    assert_eq!(callers.world.effects("state").len(), before, "no server was asked");
    // It is there for who may.
    let callers = callers.now_with(&upstreams, long);
    for task in &tasks {
        let told = about(&callers, "tasks/get", task);
        assert_eq!(told["result"]["status"], "completed", "{told}");
    }
}

#[test]
fn what_is_configured_for_a_tool_holds_for_its_tasks_by_every_name() {
    let rule = "[[gateway.tools]]\ntools = \"chore\"\nbudget = \"unlimited\"\n";
    let callers = Callers::before(&[("a", "newest tasks"), ("b", "newest tasks")], rule);
    let alice = callers.alice.as_str();
    let call = json!({"name": "b__chore", "arguments": {"bytes": 100_000}});
    let called = callers.ask_of(alice, "tools/call", "b__chore", call, knows_tasks());
    let task = task_of(&called["result"]);
    let told = callers.ask_of(alice, "tasks/get", &task, json!({"taskId": task}), knows_tasks());
    assert_eq!(text(&told["result"]["result"]).len(), 100_000);
}

/// The least quota that can be configured.
const QUOTA: usize = 1 << 20;

#[test]
fn wound_a10_results_of_tasks_count_in_what_their_caller_holds() {
    // Under and over 64 KiB.
    for bytes in [20_000, 100_000] {
        let world = World::new();
        let settings = format!(
            "[gateway]\nbudget = \"unlimited\"\n[held]\nbytes_per_caller = {QUOTA}\n\
             [[gateway.tools]]\ntools = \"document\"\nlong = true\n"
        );
        world.sandbox.write("handback.toml", &settings);
        let config = world.sandbox.path("handback.toml");
        let flags = ["--config", config.to_str().unwrap()];
        let mut client = world.client_with(Era::Newest, &flags, knows_tasks());
        let mut tasks = Vec::new();
        let (most, mut kept) = (5 * 2 * QUOTA / bytes, 0);
        let made = (0..most).find_map(|_| {
            let called = client.call("document", &json!({"bytes": bytes}));
            match called["resultType"].as_str() {
                Some("task") => {
                    let task = task_of(&called);
                    let (told, _) = until(&mut client, &task, &["completed", "failed"]);
                    assert_eq!(told["status"], "completed", "{told}");
                    tasks.push((task, told["result"].to_string().len()));
                    kept += told["result"].to_string().len();
                    None
                }
                // A call that ends before it became a task is answered with its result.
                _ if kept < QUOTA => None,
                _ => Some(called),
            }
        });
        // Once what is kept is twice the quota, a call is answered where it was made.
        let made = made.unwrap_or_else(|| panic!("{} tasks of {bytes} bytes", tasks.len()));
        assert!(text(&made).len() > bytes / 2, "the call is made all the same");
        assert!(
            (QUOTA..=2 * QUOTA + bytes).contains(&kept),
            "{kept} bytes in {} tasks",
            tasks.len()
        );
        // What was given before is still there.
        let (first, size) = &tasks[0];
        let (told, _) = until(&mut client, first, &["completed"]);
        assert_eq!(told["result"].to_string().len(), *size);
    }
}

#[test]
fn wound_a10_a_task_ends_with_what_it_came_to() {
    let world = World::new();
    let settings = "[held]\nidle_s = 2\nlongest_s = 2\n\
                    [[gateway.tools]]\ntools = \"look\"\nlong = true\n";
    world.sandbox.write("handback.toml", settings);
    let config = world.sandbox.path("handback.toml");
    let flags = ["--config", config.to_str().unwrap()];
    let mut client = world.client_with(Era::Newest, &flags, knows_tasks());
    let called = client.call("look", &json!({"text": "x"}));
    let task = task_of(&called);
    let (told, _) = until(&mut client, &task, &["completed"]);
    let ttl = told["ttlMs"].as_u64().unwrap();
    assert!((2_000..60_000).contains(&ttl), "{told}");
    // It never says that it is there without its result.
    let begun = Instant::now();
    loop {
        client.send("tasks/get", json!({"taskId": task}));
        let told = client.receive();
        if told["error"].is_object() {
            assert_eq!(told["error"]["message"], "there is no such task", "{told}");
            break;
        }
        assert_eq!(text(&told["result"]["result"]), "x", "{told}");
        assert!(begun.elapsed() < LONG, "it is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn wound_a10_a_task_that_asks_lives_as_long_as_answers_are_taken() {
    let world = World::new();
    let settings = "[held]\nidle_s = 2\nlongest_s = 2\n\
                    [[gateway.tools]]\ntools = \"confirm\"\nlong = true\n";
    world.sandbox.write("handback.toml", settings);
    let config = world.sandbox.path("handback.toml");
    let flags = ["--config", config.to_str().unwrap()];
    let mut client = world.client_with(Era::Newest, &flags, knows_tasks());
    let task = task_of(&client.call("confirm", &json!({"what": "x"})));
    let (asked, _) = until(&mut client, &task, &["input_required"]);
    // The life of a state, which its answers come with.
    assert!(asked["ttlMs"].as_u64().unwrap() >= 300_000, "{asked}");
}
