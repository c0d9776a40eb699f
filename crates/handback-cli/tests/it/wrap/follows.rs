//! What clients of one era follow at servers of the other.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{World, text};
use crate::mcp_client::{Client, Era};

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
