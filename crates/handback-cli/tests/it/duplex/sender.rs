//! `handback stream send`, killed in the middle and started again.

use std::process::Stdio;
use std::time::Duration;

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
