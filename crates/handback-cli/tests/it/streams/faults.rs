//! Servers that die at named points, stand still, or have wrong clocks.

use rustix::process::{Pid, Signal, kill_process};

use super::server::Server;
use crate::support::Sandbox;

fn with(name: &str, value: &str) -> Sandbox {
    Sandbox::new().set(name, value)
}

/// Appends until the server dies, then asks the next one. Gives how often a retry was needed.
fn survives(point: &str) -> u64 {
    let plain = Sandbox::new();
    let data = plain.path("data");
    Server::start(&plain, &data).create("s");
    let mut expected = String::new();
    let mut retries = 0;
    for number in 1..=6 {
        let killing = with("HANDBACK_TEST_KILL_AT", &format!("{point}:{number}"));
        // The ring is that of the data directory.
        let server = Server::start(&killing, &data);
        let mut acked = Vec::new();
        let first = expected.matches(';').count() as u64;
        for seq in first..first + 6 {
            let text = format!("{seq};");
            match server.produce("s", 0, seq, &text).status {
                200 => acked.push(text),
                0 => break,
                other => panic!("{other}"),
            }
        }
        drop(server);
        let server = Server::start(&plain, &data);
        let there = server.read("s");
        expected.extend(acked);
        assert!(there.starts_with(&expected), "{point}:{number}: {there} without {expected}");
        // What was under way is there once, whether it was before or is only now.
        let seq = expected.matches(';').count() as u64;
        let text = format!("{seq};");
        let again = server.produce("s", 0, seq, &text).status;
        assert!(matches!(again, 200 | 204), "{again}");
        retries += u64::from(again == 204);
        expected.push_str(&text);
        assert_eq!(server.read("s"), expected, "{point}:{number}");
    }
    retries
}

#[test]
fn who_dies_before_a_commit_has_done_nothing() {
    assert_eq!(survives("before-commit"), 0);
}

#[test]
fn who_dies_after_a_commit_has_done_it_though_nobody_was_told() {
    assert!(survives("after-commit") >= 5);
}

#[test]
fn who_stood_still_while_another_took_over_writes_nothing() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    server.create("s");
    assert_eq!(server.produce("s", 1, 0, "a").status, 200);
    // The server stands still with a request of the old owner in its socket.
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let late = std::thread::scope(|scope| {
        let zombie = scope.spawn(|| server.produce("s", 1, 1, "zombie"));
        std::thread::sleep(std::time::Duration::from_millis(100));
        kill_process(pid, Signal::CONT).unwrap();
        zombie.join().unwrap()
    });
    assert_eq!(late.status, 200, "nobody had taken over yet");
    assert_eq!(server.produce("s", 2, 0, "b").status, 200);
    kill_process(pid, Signal::STOP).unwrap();
    let late = std::thread::scope(|scope| {
        let zombie = scope.spawn(|| server.produce("s", 1, 2, "zombie"));
        std::thread::sleep(std::time::Duration::from_millis(100));
        kill_process(pid, Signal::CONT).unwrap();
        zombie.join().unwrap()
    });
    assert_eq!(late.status, 403);
    assert_eq!(server.read("s"), "azombieb");
}

#[test]
fn clocks_that_jump_lose_and_repeat_nothing() {
    const HOURS_3: i64 = 3 * 3600 * 1000;
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    server.create("s");
    assert_eq!(server.produce("s", 0, 0, "0;").status, 200);
    drop(server);
    let mut expected = "0;".to_owned();
    for (seq, offset) in (1..).zip([HOURS_3, -HOURS_3, 0, -2 * HOURS_3, HOURS_3]) {
        let moved = with("HANDBACK_TEST_CLOCK_MS", &offset.to_string());
        let server = Server::start(&moved, &data);
        assert_eq!(server.read("s"), expected);
        assert_eq!(server.produce("s", 0, seq - 1, "again").status, 204);
        let text = format!("{seq};");
        assert_eq!(server.produce("s", 0, seq, &text).status, 200);
        expected.push_str(&text);
        assert_eq!(server.read("s"), expected);
    }
}

#[test]
fn a_ticket_is_late_after_its_time_and_not_before() {
    const MINUTE: i64 = 60 * 1000;
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    server.create("s");
    let headers = [("producer-id", "hb:p"), ("producer-acquire", "true")];
    let acquired = server.ask("POST /v1/stream/s", &headers, b"");
    let (epoch, ticket) =
        (&acquired.headers["producer-epoch"], &acquired.headers["producer-ticket"]);
    drop(server);
    let append = |minutes: i64, seq: &str| {
        let moved = with("HANDBACK_TEST_CLOCK_MS", &(minutes * MINUTE).to_string());
        let server = Server::start(&moved, &data);
        let headers = [
            ("content-type", "text/plain"),
            ("producer-id", "hb:p"),
            ("producer-epoch", epoch.as_str()),
            ("producer-seq", seq),
            ("producer-ticket", ticket.as_str()),
        ];
        server.ask("POST /v1/stream/s", &headers, b"x")
    };
    let early = append(1, "0");
    assert_eq!(early.status, 200);
    assert!(!early.headers.contains_key("producer-ticket"), "it is not time for another one");
    let later = append(10, "1");
    assert_eq!(later.status, 200);
    assert!(later.headers.contains_key("producer-ticket"));
    let late = append(17, "2");
    assert_eq!(late.status, 410);
    assert!(String::from_utf8_lossy(&late.body).contains("expired ticket"));
    // What was issued in the future of this clock is refused as well, if it is far.
    assert_eq!(append(-150, "2").status, 400);
}

/// A write that the system refuses in its middle: the limit is on the size of files.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_may_not_grow_is_no_end_and_loses_nothing() {
    use std::time::{Duration, Instant};

    use crate::support::limit_files;

    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    server.create("s");
    let limit = |bytes| limit_files(server.pid(), bytes);
    let text = |seq: u64| format!("{seq:04};{}", "x".repeat(2000));
    let mut expected = String::new();
    let mut seq = 0;
    for round in 0..6 {
        assert_eq!(server.produce("s", 0, seq, &text(seq)).status, 200);
        expected.push_str(&text(seq));
        seq += 1;
        // So much is in the journal, all of which is one file.
        let journal = std::fs::read(data.join("store/fjall/0.jnl")).unwrap();
        let end = journal.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
        limit(Some(end + 300 * round));
        assert_eq!(server.produce("s", 0, seq, &text(seq)).status, 503, "{round}");
        assert_eq!(server.ask("GET /readyz", &[], b"").status, 503, "{round}");
        assert_eq!(server.read("s"), expected, "{round}");
        limit(None);
        let start = Instant::now();
        loop {
            // What was refused may be there all the same: then it is a retry.
            match server.produce("s", 0, seq, &text(seq)).status {
                200 | 204 => break,
                503 if start.elapsed() < Duration::from_secs(20) => {}
                other => panic!("{round}: {other}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        expected.push_str(&text(seq));
        seq += 1;
        assert_eq!(server.read("s"), expected, "{round}");
    }
    server.kill();
    let server = Server::start(&sandbox, &data);
    assert_eq!(server.read("s"), expected);
}
