//! What becomes of programs when nobody needs them any more.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::shared::Served;
use super::{ERAS, World, text};
use crate::mcp_client::{Client, Era};

/// How long a program may be there that was told to go.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Less than what calls that are recorded have to come to their record once their client has left: the
/// server was not waited for until then.
const RECORDED_WITHIN: Duration = Duration::from_secs(25);

/// The processes of the upstream, and of what it started, that end only by force.
#[track_caller]
fn stubborn(world: &World) -> Vec<u32> {
    world.until_effect("process");
    let number = |line: &String| line.rsplit_once(' ').unwrap().1.parse().unwrap();
    world.effects("process").iter().map(number).collect()
}

#[track_caller]
fn until_gone(processes: &[u32]) {
    let until = Instant::now() + GONE_WITHIN;
    for process in processes {
        // Nobody may have asked yet what became of it.
        let is_there = || {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
        };
        while is_there() {
            assert!(Instant::now() < until, "{process} is left");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn with_the_end_of_its_input_a_wrapped_server_ends() {
    for era in ERAS {
        let world = World::speaking("both stubborn");
        let mut client = world.client(era);
        assert_eq!(text(&client.call("look", &json!({"text": "a"}))), "a");
        let processes = stubborn(&world);
        assert!(client.close().success());
        until_gone(&processes);
    }
}

#[test]
fn with_the_end_of_its_input_a_server_ends_that_says_nothing() {
    let world = World::speaking("mute");
    let command = world.command(&[]);
    let mut client = Client::at(&world.sandbox, command, Era::Older, json!({}));
    client.send(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }),
    );
    world.until_effect("start");
    let left = Instant::now();
    // It never came up.
    assert_eq!(client.close().code(), Some(6));
    // Nobody waited for the server to say hello, which may take two minutes.
    assert!(left.elapsed() < RECORDED_WITHIN, "{:?}", left.elapsed());
}

#[test]
fn with_a_signal_a_wrapped_server_ends() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let world = World::speaking("both stubborn");
        let mut client = world.client(Era::Older);
        assert_eq!(text(&client.call("look", &json!({"text": "a"}))), "a");
        let processes = stubborn(&world);
        let wrap = Pid::from_raw(i32::try_from(client.pid()).unwrap()).unwrap();
        kill_process(wrap, signal).unwrap();
        until_gone(&processes);
        // It ended by itself, and not by the signal.
        assert!(client.close().success(), "{signal:?}");
    }
}

#[test]
fn with_the_gateway_its_servers_end() {
    let served = Served::before("older stubborn", "");
    // One for a session, and one for a caller without.
    let session = served.begin(&served.alice);
    assert_eq!(text(&session.call("look", &json!({"text": "a"}))), "a");
    assert_eq!(text(&served.call(&served.bob, "look", &json!({"text": "b"}))), "b");
    drop(session);
    let Served { world, server, .. } = served;
    let processes = stubborn(&world);
    assert!(processes.len() >= 4, "{processes:?}");
    assert_eq!(server.stop(), 0);
    until_gone(&processes);
}

#[test]
fn a_server_that_asks_a_client_who_has_left_is_told_so_at_once() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    // With a key the call goes on; what it asks is asked when nobody is there.
    client.send(
        "tools/call",
        json!({
            "name": "confirm",
            "arguments": {"what": "x", "delay_ms": 3000},
            "_meta": {"dev.handback/idempotency-key": "k"},
        }),
    );
    world.until_effect("asks");
    let left = Instant::now();
    assert!(client.close().success());
    assert_eq!(world.effects("refused"), ["refused -32601"]);
    assert_eq!(world.effects("confirm"), ["confirm None"], "the call came to its end");
    assert!(left.elapsed() < RECORDED_WITHIN, "{:?}", left.elapsed());
}
