//! `handback stream` against a real server.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use super::server::Server;
use crate::support::{Ran, Sandbox};

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

fn run(sandbox: &Sandbox, server: &Server, line: &str) -> Ran {
    sandbox.run(&format!("stream {line} --url {}", url(server)))
}

fn ok(sandbox: &Sandbox, server: &Server, line: &str) -> Value {
    let ran = run(sandbox, server, &format!("{line} --output json")).expect_code(0);
    serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap()
}

#[test]
fn a_stream_is_made_written_read_and_verified() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    assert_eq!(ok(&sandbox, &server, "create logs --content-type text/plain")["is_new"], true);
    assert_eq!(ok(&sandbox, &server, "create logs --content-type text/plain")["is_new"], false);
    sandbox.write("one", "one\n");
    sandbox.write("two", "two\n");
    assert_eq!(ok(&sandbox, &server, "append logs one")["bytes"], 4);
    let again = "append logs two --producer p --epoch 0 --seq 0";
    assert_eq!(ok(&sandbox, &server, again)["is_duplicate"], false);
    assert_eq!(ok(&sandbox, &server, again)["is_duplicate"], true);
    assert_eq!(run(&sandbox, &server, "tail logs").expect_code(0).stdout, "one\ntwo\n");
    let line = ok(&sandbox, &server, "tail logs");
    assert_eq!(
        (line["data"].as_str(), line["is_closed"].as_bool()),
        (Some("one\ntwo\n"), Some(false))
    );
    let verified = ok(&sandbox, &server, "verify logs --kept-head head");
    assert_eq!(
        (verified["records"].as_u64(), verified["is_closed"].as_bool()),
        (Some(3), Some(false))
    );
    // The last commit may be signed a moment later.
    assert!(verified["proved"].as_u64().unwrap() >= 1);
    ok(&sandbox, &server, "append logs one --close");
    let closed = ok(&sandbox, &server, "verify logs --kept-head head");
    assert_eq!(closed["records"], 4);
    let followed = run(&sandbox, &server, "tail logs --follow").expect_code(0);
    assert_eq!(followed.stdout, "one\ntwo\none\n");
    run(&sandbox, &server, "append logs one").expect_code(1);
    run(&sandbox, &server, "tail nothing").expect_code(1);
}

#[test]
fn what_is_not_proved_has_an_exit_code_of_its_own() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    sandbox.write("one", "one\n");
    ok(&sandbox, &server, "create logs");
    ok(&sandbox, &server, "append logs one");
    ok(&sandbox, &server, "append logs one");
    ok(&sandbox, &server, "verify logs --kept-head head");
    run(&sandbox, &server, "verify logs --key-id 0000000000000000").expect_code(4);
    // Another head than the one that was kept: as if the server had gone back.
    let head = fs::read_to_string(sandbox.path("head")).unwrap();
    let mut kept: Value = serde_json::from_str(&head).unwrap();
    kept["head"] = "00".repeat(32).into();
    sandbox.write("head", &kept.to_string());
    let ran = run(&sandbox, &server, "verify logs --kept-head head").expect_code(4);
    assert!(ran.stderr.contains("has gone back"), "{}", ran.stderr);
    kept["number"] = 99.into();
    sandbox.write("head", &kept.to_string());
    run(&sandbox, &server, "verify logs --kept-head head").expect_code(4);
    // It is not overwritten by what is not proved.
    assert!(fs::read_to_string(sandbox.path("head")).unwrap().contains("99"));
}

#[test]
fn a_stream_with_a_key_needs_it() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    sandbox.write("key", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n");
    sandbox.write("one", "one\n");
    ok(&sandbox, &server, "create secret --stream-key-file key");
    ok(&sandbox, &server, "append secret one --stream-key-file key");
    let shown = run(&sandbox, &server, "tail secret --stream-key-file key").expect_code(0);
    assert_eq!(shown.stdout, "one\n");
    let ran = run(&sandbox, &server, "tail secret").expect_code(1);
    assert!(ran.stderr.contains("--stream-key-file"), "{}", ran.stderr);
    ok(&sandbox, &server, "verify secret");
    sandbox.write("bad", "AAEC\n");
    run(&sandbox, &server, "tail secret --stream-key-file bad").expect_code(1);
}

#[test]
fn a_file_comes_back_from_an_echo() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    let text: String = (0..500).map(|number| format!("line {number}\n")).collect();
    sandbox.write("text", &text);
    for more in ["", "--verify", "--pieces 100", "--pieces 100 --verify"] {
        let ran = run(&sandbox, &server, &format!("send text --handler echo {more}"));
        assert_eq!(ran.expect_code(0).stdout, text, "{more}");
    }
    sandbox.write("key", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8");
    let line = "send text --handler echo --verify --stream-key-file key";
    assert_eq!(run(&sandbox, &server, line).expect_code(0).stdout, text);
    let end = ok(&sandbox, &server, "send text --handler echo");
    assert_eq!((end["chunks"].as_u64(), end["events"].as_u64()), (Some(500), Some(500)));
    run(&sandbox, &server, "send text --handler nobody").expect_code(1);
    let left = fs::read_dir(sandbox.path(".local/share/handback/client/duplex")).unwrap().count();
    assert_eq!(left, 1, "what was refused is kept to be looked at");
}

/// Starts `send` from stdin, waits until events of the first lines are there, and kills it.
fn killed(sandbox: &Sandbox, server: &Server) {
    let url = url(server);
    let words = ["stream", "send", "-", "--handler", "echo", "--key", "k", "--url", &url];
    let mut send = sandbox.command(&words);
    let send = send.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut send = send.spawn().unwrap();
    let mut input = send.stdin.take().unwrap();
    input.write_all(b"one\ntwo\n").unwrap();
    let mut events = BufReader::new(send.stdout.take().unwrap()).lines();
    assert_eq!(events.next().unwrap().unwrap(), "one");
    assert_eq!(events.next().unwrap().unwrap(), "two");
    // The acknowledgement of the last one is written after it was printed.
    std::thread::sleep(Duration::from_millis(300));
    send.kill().unwrap();
    send.wait().unwrap();
}

#[test]
fn a_send_that_was_killed_is_resumed() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    killed(&sandbox, &server);
    // Nothing more is known of its input: it is left open, or ended.
    let ran = sandbox.run("stream resume --output json").expect_code(0);
    let told: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&told["resumed"][0]["key"], &told["resumed"][0]["state"]),
        (&"k".into(), &"open".into())
    );
    let ran = sandbox.run("stream resume --close --output json").expect_code(0);
    let told: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(told["resumed"][0]["state"], "finished", "{}", ran.stdout);
    let ran = sandbox.run("stream resume --output json").expect_code(0);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(told["resumed"].as_array().unwrap().len(), 0);
}

#[test]
fn a_send_that_was_killed_goes_on_with_the_same_input() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    killed(&sandbox, &server);
    sandbox.write("all", "one\ntwo\nthree\n");
    let ran = run(&sandbox, &server, "send all --handler echo --key k").expect_code(0);
    assert_eq!(ran.stdout, "three\n", "the others were printed before");
}
