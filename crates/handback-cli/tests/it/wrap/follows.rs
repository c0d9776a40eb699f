//! What clients of one era follow at servers of the other.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::World;
use crate::mcp_client::{Client, Era};

/// More than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

const UPDATED: &str = "notifications/resources/updated";

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
