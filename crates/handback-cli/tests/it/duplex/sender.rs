//! `handback stream send`, killed in the middle and started again.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::streams::server::Server;
use crate::support::Sandbox;

const LINES: usize = 600;

/// How often it is killed.
const KILLS: u64 = 15;

fn input() -> String {
    (0..LINES).map(|number| format!("line {number:04};\n")).collect()
}

/// What a receiver has, whether lines keep their ends or not.
fn received(server: &Server, key: &str, side: &str) -> String {
    server.read(&format!("__duplex/echo/{key}/{side}")).replace('\n', "")
}

/// Starts a command, and kills it after a while. False if it had ended before.
fn kill(sandbox: &Sandbox, arguments: &[&str], after: Duration) -> bool {
    let mut command = sandbox.command(arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let was_running = child.try_wait().unwrap().is_none();
    let _ = child.kill();
    child.wait().unwrap();
    was_running
}

#[test]
fn a_sender_that_is_killed_goes_on_and_each_line_arrives_once() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    sandbox.write("input", &input());
    let url = format!("http://{}", server.address);
    let send = ["stream", "send", "--handler", "echo", "--key", "k", "--url", &url, "input"];
    let mut killed = 0;
    for round in 0..KILLS {
        killed += u64::from(kill(&sandbox, &send, Duration::from_millis(15 + 11 * round)));
    }
    assert!(killed > 3, "it was not killed in the middle");
    let ran = sandbox.run_words(&send);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let whole = input().replace('\n', "");
    assert_eq!(received(&server, "k", "in"), whole);
    assert_eq!(received(&server, "k", "out"), whole);
    // Once more, whoever did not see that it had come to its end: nothing is sent, and it is told.
    let again = sandbox.run_words(&send);
    assert_eq!((again.code, again.stdout.as_str()), (0, ""), "{}", again.stderr);
    assert!(again.stderr.contains("nothing is sent again"), "{}", again.stderr);
    assert!(again.stderr.contains("600 chunks, 0 events"), "{}", again.stderr);
    assert_eq!(received(&server, "k", "in"), whole);
}

#[test]
fn what_was_interrupted_is_resumed_by_itself() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    sandbox.write("input", &input());
    let url = format!("http://{}", server.address);
    for round in 0..6 {
        let key = format!("k{round}");
        let send = ["stream", "send", "--handler", "echo", "--key", &key, "--url", &url, "input"];
        kill(&sandbox, &send, Duration::from_millis(40 + 15 * round));
    }
    let resumed = sandbox.run_words(&["stream", "resume", "--close", "--output", "json"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    for round in 0..6 {
        let head = format!("GET /v1/stream/__duplex/echo/k{round}/in");
        if server.ask(&head, &[], b"").status == 404 {
            continue; // killed before it reached the server, with nothing read
        }
        let (chunks, events) = (
            received(&server, &format!("k{round}"), "in"),
            received(&server, &format!("k{round}"), "out"),
        );
        assert!(input().replace('\n', "").starts_with(&chunks), "{round}: {chunks}");
        assert_eq!(chunks, events, "{round}");
    }
    // Nothing is left to be resumed.
    let again = sandbox.run_words(&["stream", "resume", "--output", "json"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(again.stdout.contains("\"resumed\":[]"), "{}", again.stdout);
}

/// Sends a line through a relay, and is killed when the server has it, and the end if the input ends.
fn send_and_kill(sandbox: &Sandbox, server: &Server, key: &str, ends: bool) {
    let url = format!("http://{}", server.address);
    let mut command = sandbox.command(&[
        "stream",
        "send",
        "--handler",
        "relay",
        "--key",
        key,
        "--url",
        &url,
        "-",
    ]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take();
    stdin.as_mut().unwrap().write_all(b"line\n").unwrap();
    if ends {
        stdin = None;
    }
    let start = Instant::now();
    loop {
        let path = format!("GET /v1/stream/__duplex/relay/{key}/in");
        let answer = server.ask(&path, &[], b"");
        let is_closed = answer.headers.contains_key("stream-closed");
        if answer.body == b"line\n" && is_closed == ends {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{key} did not arrive");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(stdin);
}

/// What the other end of a relay says.
fn answer(server: &Server, key: &str, is_last: bool) {
    let mut headers = vec![("content-type", "application/octet-stream")];
    headers.extend(is_last.then_some(("stream-closed", "true")));
    let path = format!("POST /v1/stream/__duplex/relay/{key}/out");
    assert_eq!(server.ask(&path, &headers, format!("to {key}").as_bytes()).status, 204);
}

#[test]
fn one_that_waits_for_its_other_end_does_not_hold_up_another() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    let keys = ["a", "b", "c", "d", "e", "f"];
    for key in keys {
        send_and_kill(&sandbox, &server, key, true);
    }
    let mut command = sandbox.command(&["stream", "resume", "--output", "json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (lines, read) = std::sync::mpsc::channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in stdout.lines() {
            lines.send(line.unwrap()).unwrap();
        }
    });
    // In whichever order they are gone on with, it is hardly this one.
    for key in keys {
        answer(&server, key, true);
        let line = read.recv_timeout(Duration::from_secs(20));
        if line.is_err() {
            child.kill().unwrap();
        }
        assert!(line.unwrap().contains(&format!("\"data\":\"to {key}\"")), "{key}");
    }
    assert!(child.wait().unwrap().success());
    let last = read.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(last.matches("\"state\":\"finished\",\"events\":1").count(), keys.len(), "{last}");
}

#[test]
fn events_that_were_printed_are_counted_though_more_may_come() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    send_and_kill(&sandbox, &server, "k", false);
    answer(&server, "k", false);
    let resumed = sandbox.run_words(&["stream", "resume", "--output", "json"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert!(resumed.stdout.contains("\"data\":\"to k\""), "{}", resumed.stdout);
    let counted = "\"key\":\"k\",\"state\":\"open\",\"events\":1";
    assert!(resumed.stdout.contains(counted), "{}", resumed.stdout);
}
