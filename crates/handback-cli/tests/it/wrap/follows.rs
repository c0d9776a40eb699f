//! What clients of one era follow at servers of the other.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::callers::Callers;
use super::news::Listening;
use super::{World, text};
use crate::mcp_client::{Client, Era};
use crate::support::Sandbox;

/// More than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

const UPDATED: &str = "notifications/resources/updated";
const CHANGED: &str = "notifications/tools/list_changed";

/// A server that tells of changes, of this era.
fn speaking(era: &'static str) -> World {
    let world = World::speaking(era);
    world.sandbox.write("upstream.py", include_str!("follows.py"));
    world
}

fn change(client: &mut Client, arguments: &Value) -> u64 {
    client.send("tools/call", json!({"name": "change", "arguments": arguments}))
}

/// Waits until the server has done this so often.
#[track_caller]
fn until(world: &World, effect: &str, times: usize) {
    let begun = Instant::now();
    while world.effects(effect).len() < times {
        assert!(begun.elapsed() < LONG, "{effect}: {:?}", world.effects(""));
        thread::sleep(Duration::from_millis(10));
    }
}

/// Everything that is told before the answer to this question, and a moment after it.
fn told(client: &mut Client, id: u64) -> Vec<String> {
    // The answer may be faster than what is told on another way.
    thread::sleep(Duration::from_secs(1));
    let after = client.send("ping", json!({}));
    let mut told = Vec::new();
    let mut open = vec![id, after];
    while !open.is_empty() {
        let message = client.message();
        match message["method"].as_str() {
            Some(method) => told.push(method.to_owned()),
            None => open.retain(|id| message["id"] != *id),
        }
    }
    told
}

#[test]
fn an_older_client_follows_what_changes_at_a_newer_server() {
    let world = speaking("newest");
    let mut client = world.client(Era::Older);
    until(&world, "listen", 1);
    client.ask("resources/subscribe", json!({"uri": "x:mine"}));
    assert_eq!(world.effects("listen"), ["listen ", "listen x:mine"]);
    change(&mut client, &json!({}));
    let updated = client.heard(UPDATED);
    assert_eq!(updated, json!({"uri": "x:mine"}), "as older servers say it");
    until(&world, "end ", 1);
    let id = change(&mut client, &json!({}));
    let heard = told(&mut client, id);
    let times = |method: &str| heard.iter().filter(|told| *told == method).count();
    assert_eq!((times(UPDATED), times(CHANGED)), (1, 1), "{heard:?}");
    // What the server does not tell of is not promised.
    let id = client.send("resources/subscribe", json!({"uri": "y:other"}));
    let refused = loop {
        let message = client.receive();
        if message["id"] == id {
            break message;
        }
    };
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    client.ask("resources/unsubscribe", json!({"uri": "x:mine"}));
    let id = change(&mut client, &json!({}));
    let heard = told(&mut client, id);
    assert!(heard.iter().any(|told| told == CHANGED), "{heard:?}");
    assert!(heard.iter().all(|told| told != UPDATED), "{heard:?}");
    drop(client);
}

#[test]
fn what_was_missed_is_told_of_when_it_is_heard_again() {
    let world = speaking("newest");
    let mut client = world.client(Era::Older);
    until(&world, "listen", 1);
    client.ask("resources/subscribe", json!({"uri": "x:mine"}));
    // The server ends what is listened to, and changes after that.
    change(&mut client, &json!({"end": true}));
    assert_eq!(client.heard(CHANGED), Value::Null);
    assert_eq!(client.heard(UPDATED), json!({"uri": "x:mine"}));
    assert_eq!(world.effects("listen").last().unwrap(), "listen x:mine");
}

#[test]
fn a_newer_server_is_told_how_much_an_older_client_wants_logged() {
    let world = speaking("newest");
    let mut client = world.client(Era::Older);
    assert_eq!(text(&client.call("change", &json!({}))), "changed");
    client.ask("logging/setLevel", json!({"level": "warning"}));
    assert_eq!(text(&client.call("change", &json!({}))), "changed");
    assert_eq!(world.effects("call"), ["call None", "call warning"]);
    let id = client.send("logging/setLevel", json!({"level": "loud"}));
    let refused = client.receive();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(id), &json!(-32602)));
}

#[test]
fn an_older_server_is_told_when_nobody_follows_any_more() {
    let world = speaking("older");
    let mut client = world.client(Era::Newest);
    let listen = |client: &mut Client, uris: &[&str]| {
        let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": uris});
        let id = client.send("subscriptions/listen", json!({"notifications": wanted}));
        client.heard("notifications/subscriptions/acknowledged");
        id
    };
    let end = |client: &mut Client, id: u64| {
        client.write(&json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id},
        }));
    };
    let one = listen(&mut client, &["x:both", "x:one"]);
    let other = listen(&mut client, &["x:both"]);
    end(&mut client, one);
    until(&world, "leave x:one", 1);
    assert_eq!(world.effects("leave"), ["leave x:one"], "the other one still follows it");
    change(&mut client, &json!({}));
    assert_eq!(client.heard(UPDATED)["uri"], "x:both");
    end(&mut client, other);
    until(&world, "leave x:both", 1);
    assert_eq!(world.effects("leave").len(), 2);
}

/// A world with servers of the newer era that tell of changes, as the flag has them: each with its name,
/// its script, and the resources that it lists.
fn several(servers: &[(&str, &str, &str)]) -> (World, Vec<String>) {
    let world = World::with(Sandbox::new());
    world.sandbox.write("follows.py", include_str!("follows.py"));
    let path = |name: &str| world.sandbox.path(name).to_str().unwrap().to_owned();
    let python = "/usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin python3";
    let record = path("record");
    let command = |(name, script, listed): &(&str, &str, &str)| {
        format!("{name}={python} {} {record} newest {listed}", path(script))
    };
    let upstreams = servers.iter().map(command).collect();
    (world, upstreams)
}

/// Has a server tell everybody who listens that a resource changed.
#[track_caller]
fn tell(callers: &Callers, tool: &str, uri: &str) {
    let told = callers.ask(&callers.alice, tool, json!({"arguments": {"tell": uri}}));
    assert_eq!(text(&told["result"]), "told", "{told}");
}

/// Everything that is told until this resource changed.
#[track_caller]
fn until_updated(listening: &mut Listening, uri: &str) -> Vec<(String, Value)> {
    let mut heard = Vec::new();
    loop {
        let (method, params) = listening.next();
        if method == UPDATED && params["uri"] == uri {
            return heard;
        }
        heard.push((method, params["uri"].clone()));
    }
}

#[test]
fn a_server_tells_of_its_own_resources_only() {
    let (world, upstreams) =
        several(&[("a", "follows.py", "x:a x:both"), ("b", "follows.py", "x:b x:both")]);
    let callers = Callers::of(world, &upstreams, "");
    let alice = callers.alice.as_str();
    let tools = callers.tools(alice);
    for tool in ["a__change", "b__change"] {
        assert!(tools.iter().any(|name| name == tool), "{tools:?}");
    }
    let wanted = json!({"resourceSubscriptions": ["x:a", "x:both", "x:b", "x:never"]});
    let (mut listening, _) = Listening::to(&callers, alice, &wanted);
    until(&callers.world, "listen", 2);
    let mut asked = callers.world.effects("listen");
    asked.sort();
    assert_eq!(asked, ["listen x:a,x:both", "listen x:b"], "nobody learns what another one has");
    // Parts of what is followed are told of. After that, both have acknowledged.
    for (tool, uri) in [("a__change", "x:a/1"), ("b__change", "x:b/1")] {
        tell(&callers, tool, uri);
        until_updated(&mut listening, uri);
    }
    for uri in ["x:a", "x:both", "x:a/1", "x:never", "y:other"] {
        tell(&callers, "b__change", uri);
    }
    tell(&callers, "b__change", "x:b");
    assert_eq!(until_updated(&mut listening, "x:b"), [], "none of it is its own to tell");
    tell(&callers, "a__change", "x:both");
    assert_eq!(until_updated(&mut listening, "x:both"), []);
}

#[test]
fn a_server_that_was_not_there_is_heard_once_it_is() {
    let (world, upstreams) = several(&[("a", "follows.py", "x:a"), ("late", "late.py", "x:late")]);
    let callers = Callers::of(world, &upstreams, "");
    let alice = callers.alice.as_str();
    let has = |name: &str| callers.tools(alice).iter().any(|known| known == name);
    assert!(has("change"), "there is one of them");
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["x:a", "x:late"]});
    let (mut listening, _) = Listening::to(&callers, alice, &wanted);
    until(&callers.world, "listen x:a", 1);
    tell(&callers, "change", "x:a/1");
    until_updated(&mut listening, "x:a/1");
    callers.world.sandbox.write("late.py", include_str!("follows.py"));
    // What it has may have changed, and so may the names of what the other one has.
    let heard = until_updated(&mut listening, "x:late");
    assert_eq!(heard, [(CHANGED.to_owned(), Value::Null)]);
    assert_eq!(callers.world.effects("listen x:late"), ["listen x:late"]);
    let begun = Instant::now();
    while !(has("a__change") && has("late__change")) {
        assert!(begun.elapsed() < LONG, "{:?}", callers.tools(alice));
        thread::sleep(Duration::from_millis(200));
    }
    // From then on it is heard as the other one is.
    tell(&callers, "late__change", "x:late/1");
    assert_eq!(until_updated(&mut listening, "x:late/1"), []);
}

#[test]
fn an_older_client_is_told_of_a_server_that_was_not_there() {
    let (world, upstreams) = several(&[("a", "follows.py", ""), ("late", "late.py", "")]);
    let flags: Vec<_> = upstreams.iter().flat_map(|one| ["--upstream", one.as_str()]).collect();
    let flags = [&["--no-demo"], flags.as_slice()].concat();
    let client = Client::start(&world.sandbox, &flags, Era::Older, json!({}));
    let mut client = client.patient(LONG);
    until(&world, "listen", 1);
    world.sandbox.write("late.py", include_str!("follows.py"));
    client.heard(CHANGED);
    until(&world, "listen", 2);
    // Longer than what was looked at stays as it is.
    thread::sleep(Duration::from_secs(2));
    let told = client.call("a__change", &json!({"tell": "x:never"}));
    assert_eq!(text(&told), "told", "by its new name");
    client.send("tools/call", json!({"name": "late__change", "arguments": {}}));
    assert_eq!(client.heard(CHANGED), Value::Null);
}

#[test]
fn a_server_that_does_not_tell_is_not_asked_again() {
    let callers = Callers::before(&[("a", "newest"), ("b", "newest")], "");
    let _listening = callers.listen_to(&callers.alice, r#"{"toolsListChanged":true}"#);
    until(&callers.world, "listen", 2);
    // Several times as long as one that is not there is left alone at first.
    thread::sleep(Duration::from_secs(3));
    assert_eq!(callers.world.effects("listen").len(), 2);
}
