//! What is seen of servers that cannot start, end early, or write to their standard error.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::starts::{Starting, hello};
use super::{ERAS, text};
use crate::mcp_client::{Client, ERRORS, Era};
use crate::streams::server::Server;
use crate::support::{Ran, Sandbox};

/// Far more than a busy machine takes.
const LONG: Duration = Duration::from_secs(60);

/// The error of the first request of a client, which then leaves; and the exit code of what it talked to.
fn first_error(sandbox: &Sandbox, command: Command, era: Era) -> (String, Option<i32>) {
    let mut client = Client::at(sandbox, command, era, json!({}));
    let info = json!({"name": "test", "version": "1"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    match era {
        Era::Older => client.send("initialize", hello),
        Era::Newest => client.send("tools/list", json!({})),
    };
    let answer = client.receive();
    let message = answer["error"]["message"].as_str();
    let message = message.unwrap_or_else(|| panic!("no error: {answer}")).to_owned();
    (message, client.close().code())
}

/// Waits until a file has this text; gives all of it.
#[track_caller]
pub(super) fn until_written(path: &std::path::Path, wanted: &str) -> String {
    let until = Instant::now() + LONG;
    loop {
        let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        if text.contains(wanted) {
            return text;
        }
        assert!(Instant::now() < until, "no `{wanted}` in {text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn wound_b3_stderr_of_a_wrapped_server_is_passed_on_to_the_byte() {
    let world = Starting::patient();
    let mut client = world.client(Era::Older, &[], "both bytes").greeted();
    assert!(text(&client.call("greet", &json!({}))).starts_with("greet"));
    assert!(client.close().success());
    let written = fs::read(world.sandbox.path(ERRORS)).unwrap();
    let sent = b"\xff\x00\x1b[31mred\r\n\n  no end of the line";
    assert!(written.windows(sent.len()).any(|bytes| bytes == sent), "{written:?}");
}

#[test]
fn wound_b3_stderr_is_passed_on_to_its_end() {
    let world = Starting::patient();
    let mut client = world.client(Era::Older, &[], "both lingers").greeted();
    assert!(text(&client.call("greet", &json!({}))).starts_with("greet"));
    assert!(client.close().success());
    let written = fs::read_to_string(world.sandbox.path(ERRORS)).unwrap();
    assert!(written.contains("after the end\n"), "{written}");
}

#[test]
fn wound_b3_the_error_has_the_cause_of_a_server_that_does_not_start() {
    for era in ERAS {
        let world = Starting::patient();
        let sandbox = &world.sandbox;
        sandbox.write("plain", "no program");
        for (words, cause) in [
            (vec!["wrap", "no-such-command", "--data", "x"], "there is no such command"),
            (vec!["wrap", "./plain"], "permission denied"),
        ] {
            let (message, code) = first_error(sandbox, sandbox.command(&words), era);
            assert!(message.contains(cause), "{message}");
            assert_eq!(code, Some(6), "{message}");
            let log = fs::read_to_string(sandbox.path(ERRORS)).unwrap();
            assert!(log.contains(cause) && log.contains("never came up"), "{log}");
        }
        let words = world.words("both mutters:30 ends:3");
        let words: Vec<_> = ["wrap"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let (message, code) = first_error(sandbox, sandbox.command(&words), era);
        assert!(message.contains("exit status: 3"), "{message}");
        // The last twenty lines, and no control characters.
        for (number, is_shown) in [(0, false), (9, false), (10, true), (29, true)] {
            assert_eq!(message.contains(&format!("line {number} \u{fffd}")), is_shown, "{message}");
        }
        assert!(!message.contains(|c: char| c.is_control()), "{message:?}");
        assert_eq!(code, Some(6), "{message}");
    }
}

#[test]
fn wound_b3_a_wrapped_server_that_came_up_ends_well_whatever_became_of_it() {
    for era in ERAS {
        let world = Starting::patient();
        let mut client = world.client(era, &[], "both").greeted();
        let died = client.call("die", &json!({}));
        let told = text(&died);
        assert!(told.contains("exit status: 7") && told.contains("the last words"), "{told}");
        assert!(told.contains("not known"), "{told}");
        assert!(client.close().success());
    }
    // One that nobody wanted was not started.
    let world = Starting::patient();
    assert!(world.client(Era::Newest, &[], "both").close().success());
    assert!(world.recorded("start").is_empty());
}

#[test]
fn wound_b3_a_call_with_a_key_is_told_the_cause_of_its_loss() {
    for era in ERAS {
        let world = Starting::patient();
        let mut client = world.client(era, &[], "both").greeted();
        let meta = json!({"dev.handback/idempotency-key": "k"});
        let call = json!({"name": "die", "arguments": {}, "_meta": meta});
        let died = client.ask("tools/call", call.clone());
        assert_eq!(died["_meta"]["dev.handback/reason"], "ambiguous", "{died}");
        let told = text(&died);
        assert!(told.contains("exit status: 7") && told.contains("the last words"), "{told}");
        assert!(told.ends_with("is not known"), "{told}");
        // The record has no cause, and the server is not asked again.
        let again = client.ask("tools/call", call);
        assert_eq!(again["_meta"]["dev.handback/reason"], "ambiguous", "{again}");
        assert_eq!(world.recorded("got tools/call").len(), 1);
        assert!(client.close().success());
    }
}

/// A gateway that writes its log to a file, and the file.
pub(super) fn serving(sandbox: &Sandbox, config: &str) -> (Server, std::path::PathBuf) {
    let (data, log) = (sandbox.path("data"), sandbox.path("log"));
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("handback.toml"), config).unwrap();
    (Server::start_telling(sandbox, &data, &log), log)
}

pub(super) fn quoted(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
    format!("[{}]", words.join(","))
}

/// The tools that `handback call` lists over MCP.
fn listed(sandbox: &Sandbox, server: &Server) -> Ran {
    let url = format!("http://{}/mcp", server.address);
    sandbox.run_words(&["call", "--list", "--url", &url])
}

#[test]
fn wound_b3_stderr_is_logged_under_the_name_of_its_server_without_secrets() {
    let world = Starting::patient();
    let command = quoted(&world.words("both mutters:2 secret ends:3"));
    let env = "env = { SHOP_KEY = \"sk-0123456789\" }";
    let config = format!("[upstreams.shop]\ncommand = {command}\n{env}\n");
    let (server, log) = serving(&world.sandbox, &config);
    let ran = listed(&world.sandbox, &server);
    assert_eq!(ran.code, 1, "{ran:?}");
    for wanted in ["exit status: 3", "line 1", "bad key …"] {
        assert!(ran.stderr.contains(wanted), "{wanted}: {ran:?}");
    }
    assert!(!ran.stderr.contains("sk-0"), "{ran:?}");
    let log = until_written(&log, "shop on stderr: bad key …");
    assert!(log.contains("shop on stderr: line 0 \u{fffd}[31m"), "{log}");
    assert!(log.contains("exit status: 3"), "{log}");
    assert!(!log.contains("sk-0") && !log.contains('\x1b'), "{log}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn wound_b3_each_of_several_servers_has_its_own_cause() {
    let world = Starting::patient();
    let [quick, exits] = ["both", "both ends:3"].map(|words| quoted(&world.words(words)));
    let config = format!(
        "[upstreams.absent]\ncommand = [\"no-such-command\"]\n[upstreams.exits]\ncommand = {exits}\n\
         [upstreams.quick]\ncommand = {quick}\n"
    );
    let (server, _) = serving(&world.sandbox, &config);
    let ran = listed(&world.sandbox, &server).expect_code(0);
    assert!(ran.stdout.contains("greet"), "{ran:?}");
    let url = format!("http://{}/mcp", server.address);
    let words = ["call", "--list", "--output", "json", "--url", &url];
    let json = world.sandbox.run_words(&words).expect_code(0);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let call = |name: &str| world.sandbox.run_words(&["call", name, "--url", &url]).stderr;
    for told in [ran.stderr, json["unavailable"].to_string(), call("nonsense")] {
        for wanted in ["`absent`", "no such command", "`exits`", "exit status: 3"] {
            assert!(told.contains(wanted), "{wanted}: {told}");
        }
    }
    let told = call("exits__greet");
    assert!(told.contains("exit status: 3") && !told.contains("absent"), "{told}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn wound_b3_lines_of_stderr_are_bounded_in_rate() {
    let world = Starting::patient();
    let command = quoted(&world.words("both mutters:100000"));
    let config = format!("[upstreams.shop]\ncommand = {command}\n");
    let (server, log) = serving(&world.sandbox, &config);
    let began = Instant::now();
    let ran = listed(&world.sandbox, &server).expect_code(0);
    assert!(ran.stdout.contains("greet"), "{ran:?}");
    assert_eq!(server.stop(), 0);
    let lines = fs::read_to_string(log).unwrap().lines().count();
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    assert!((1..=30 * (seconds + 2)).contains(&lines), "{lines} lines in {seconds} s");
}

#[test]
fn wound_b3_upstreams_that_cannot_be_reached_are_warnings_at_the_start() {
    let sandbox = Sandbox::new();
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let config = format!(
        "[upstreams.shop]\nurl = \"http://user:secret@127.0.0.1:{port}/mcp\"\n\
         [upstreams.files]\ncommand = [\"no-such-command\"]\n\
         [[gateway.references]]\nfrom = \"shop\"\nto = \"elsewhere\"\n"
    );
    let (server, log) = serving(&sandbox, &config);
    let shop =
        format!("upstream: shop; address: http://127.0.0.1:{port}/mcp; cause: Connection refused");
    let told = until_written(&log, &shop);
    assert!(!told.contains("secret"), "{told}");
    let files = "upstream: files; address: no-such-command; cause: there is no such command";
    until_written(&log, files);
    until_written(&log, "there is no such upstream; upstream: elsewhere");
    assert_eq!(server.stop(), 0);
}

#[test]
fn wound_b3_an_older_client_hears_that_the_state_of_its_server_is_gone() {
    let world = Starting::patient();
    let mut client = world.client(Era::Older, &[], "both").greeted();
    assert!(text(&client.call("greet", &json!({}))).starts_with("greet"));
    client.call("die", &json!({}));
    client.send("tools/call", json!({"name": "greet", "arguments": {}}));
    let logged = client.heard("notifications/message");
    assert_eq!(logged["level"], "warning", "{logged}");
    let told = logged["data"].as_str().unwrap();
    assert!(told.contains("began anew") && told.contains("gone"), "{told}");
    client.heard("notifications/tools/list_changed");
    assert!(client.close().success());
}

#[test]
fn wound_b3_an_older_client_hears_of_a_restart_at_the_level_that_it_has_set() {
    for words in ["both", "both unlogged"] {
        for (level, is_heard) in [(None, true), (Some("warning"), true), (Some("error"), false)] {
            let world = Starting::patient();
            let mut client = world.client(Era::Older, &[], words);
            let welcome = client.ask("initialize", hello());
            assert!(welcome["capabilities"]["logging"].is_object(), "{words}: {welcome}");
            let id = client.send("logging/setLevel", json!({"level": "loud"}));
            let refused = client.receive();
            let is_refused = refused["error"]["code"] == -32602;
            // The server decides, where it has levels itself.
            assert_eq!((&refused["id"], is_refused), (&json!(id), words != "both"), "{refused}");
            if let Some(level) = level {
                client.ask("logging/setLevel", json!({"level": level}));
            }
            client.call("die", &json!({}));
            client.send("tools/call", json!({"name": "greet", "arguments": {}}));
            // The log message comes before the changed list.
            let mut logged = Vec::new();
            loop {
                let message = client.message();
                match message["method"].as_str() {
                    Some("notifications/tools/list_changed") => break,
                    Some("notifications/message") => logged.push(message),
                    _ => {}
                }
            }
            assert_eq!(logged.len(), usize::from(is_heard), "{words}, {level:?}: {logged:?}");
            // The server gets the level only if it has log messages.
            let is_passed = !world.recorded("got logging/setLevel").is_empty();
            assert_eq!(is_passed, words == "both", "{words}");
            assert!(client.close().success());
        }
    }
}

#[test]
fn wound_b5_a_command_is_wrapped_without_a_separator() {
    let world = Starting::patient();
    let words = world.words("both --data elsewhere --name other -- --help");
    for separator in [&[][..], &["--"]] {
        let words = words.iter().map(String::as_str);
        let all = ["wrap", "--budget", "1KiB"].into_iter().chain(separator.iter().copied());
        let all: Vec<_> = all.chain(words).collect();
        let command = world.sandbox.command(&all);
        let mut client = Client::at(&world.sandbox, command, Era::Older, json!({})).greeted();
        let called = client.call("greet", &json!({}));
        let process = text(&called).strip_prefix("greet in ").unwrap();
        // All of it is the command's own.
        let given = fs::read(format!("/proc/{process}/cmdline")).unwrap();
        let given: Vec<_> = given.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let end = ["both", "--data", "elsewhere", "--name", "other", "--", "--help", ""];
        assert!(given.ends_with(&end.map(Into::into)), "{given:?}");
        assert!(client.close().success());
    }
    assert!(!world.sandbox.path("elsewhere").exists());
}

#[test]
fn wound_b5_options_of_wrap_come_before_the_command() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run_words(&["wrap", "--bogus", "cat"]).expect_code(2);
    assert!(ran.stderr.contains("--bogus"), "{ran:?}");
    let ran = sandbox.run_words(&["wrap", "--connect", "http://127.0.0.1:1", "cat"]).expect_code(2);
    assert!(ran.stderr.contains("--connect takes no command"), "{ran:?}");
    sandbox.run_words(&["wrap"]).expect_code(2);
}
