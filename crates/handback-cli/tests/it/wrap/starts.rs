//! Servers that start slowly, or answer the first requests in their own way.

use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::callers::answer;
use super::causes::{quoted, serving, until_written};
use super::{ERAS, text};
use crate::mcp_client::{Client, Era};
use crate::streams::server::request;
use crate::support::Sandbox;

/// A server that starts as its words say.
pub(super) struct Starting {
    pub(super) sandbox: Sandbox,
}

impl Starting {
    /// Programs have a tenth of a second to answer `server/discover` here.
    pub(super) fn new() -> Self {
        Self::in_sandbox(Sandbox::new().set("HANDBACK_TEST_DISCOVERY_MS", "100"))
    }

    /// The same, where programs have as much time as they have everywhere.
    pub(super) fn patient() -> Self {
        Self::in_sandbox(Sandbox::new())
    }

    fn in_sandbox(sandbox: Sandbox) -> Self {
        sandbox.write("starting.py", include_str!("starting.py"));
        sandbox.write("record", "");
        Self { sandbox }
    }

    /// The words of the command.
    pub(super) fn words(&self, words: &str) -> Vec<String> {
        let path = |name: &str| self.sandbox.path(name).to_str().unwrap().to_owned();
        let python = ["/usr/bin/env", "PATH=/usr/local/bin:/usr/bin:/bin", "python3"];
        let words = words.split_whitespace().map(str::to_owned);
        let files = [path("starting.py"), path("record")];
        python.map(str::to_owned).into_iter().chain(files).chain(words).collect()
    }

    fn command(&self, flags: &[&str], words: &str) -> Command {
        let words = self.words(words);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        self.sandbox.command(&[&["wrap"], flags, &words].concat())
    }

    /// A client of what wraps the server, which has said nothing.
    pub(super) fn client(&self, era: Era, flags: &[&str], words: &str) -> Client {
        Client::at(&self.sandbox, self.command(flags, words), era, json!({}))
    }

    pub(super) fn close_gate(&self) {
        self.sandbox.write("record.gate", "");
    }

    pub(super) fn open_gate(&self) {
        fs::remove_file(self.sandbox.path("record.gate")).unwrap();
    }

    /// The lines of the record that begin so.
    pub(super) fn recorded(&self, kind: &str) -> Vec<String> {
        let record = fs::read_to_string(self.sandbox.path("record")).unwrap();
        record.lines().filter(|line| line.starts_with(kind)).map(str::to_owned).collect()
    }
}

/// Requests that a server answers in whatever era it speaks.
#[track_caller]
fn check_works(client: &mut Client, name: &str) {
    let listed = client.ask("tools/list", json!({}));
    assert_eq!(listed["tools"][0]["name"], "greet", "{name}: {listed}");
    for _ in 0..3 {
        let called = client.call("greet", &json!({}));
        assert!(text(&called).starts_with("greet in "), "{name}: {called}");
    }
}

/// What `initialize` is sent with.
pub(super) fn hello() -> Value {
    let info = json!({"name": "test", "version": "1"});
    json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
}

#[test]
fn wound_b2_a_server_that_starts_slowly_is_asked_in_the_process_that_was_started() {
    for (words, is_newer) in [
        ("both gated", false),
        ("both gated silent", false),
        ("older gated", false),
        ("older gated refuses:-32602", false),
        ("newest gated", true),
    ] {
        let world = Starting::new();
        world.close_gate();
        let mut client = world.client(Era::Newest, &[], words);
        let listing = json!({"_meta": {"progressToken": "mine"}});
        let id = client.send("tools/list", listing);
        // By now it has been sent both, and reads neither.
        let progress = client.heard("notifications/progress");
        assert_eq!(progress["progressToken"], "mine", "{words}: {progress}");
        assert!(progress["message"].as_str().unwrap().contains("starting"), "{progress}");
        world.open_gate();
        let listed = client.receive();
        assert_eq!(listed["id"], id, "{words}: {listed}");
        assert!(listed["error"].is_null(), "{words}: {listed}");
        check_works(&mut client, words);
        assert_eq!(world.recorded("start").len(), 1, "{words}");
        assert_eq!(world.recorded("got initialize"), ["got initialize"], "{words}");
        let calls = world.recorded("got tools/call");
        let envelope = if is_newer { "got tools/call envelope" } else { "got tools/call" };
        assert!(!calls.is_empty() && calls.iter().all(|call| call == envelope), "{calls:?}");
        assert!(client.close().success(), "{words}");
    }
}

#[test]
fn wound_b2_only_a_server_of_the_newer_era_gets_its_envelope() {
    for (words, envelope) in [
        ("both", " envelope"),
        ("newest", " envelope"),
        ("both silent", ""),
        ("older", ""),
        ("older refuses:-32602", ""),
        ("older refuses:-32000", ""),
        ("older refuses:-32022", ""),
    ] {
        let world = Starting::new();
        let mut client = world.client(Era::Newest, &[], words);
        check_works(&mut client, words);
        assert_eq!(world.recorded("start").len(), 1, "{words}");
        for method in ["tools/list", "tools/call"] {
            let got = world.recorded(&format!("got {method}"));
            let expected = format!("got {method}{envelope}");
            assert!(got.iter().all(|line| *line == expected), "{words}: {got:?}");
        }
        assert!(client.close().success(), "{words}");
    }
}

#[test]
fn wound_b2_a_server_that_dies_over_an_unknown_request_gets_initialize_first() {
    let world = Starting::patient();
    let mut client = world.client(Era::Newest, &[], "older dies");
    check_works(&mut client, "dies");
    assert_eq!(world.recorded("start").len(), 2);
    // The era is remembered: the next process is sent nothing that it does not know.
    let died = client.call("die", &json!({}));
    assert_eq!(died["_meta"]["dev.handback/reason"], "lost", "{died}");
    check_works(&mut client, "started again");
    assert_eq!(world.recorded("start").len(), 3);
    assert_eq!(world.recorded("got server/discover").len(), 1);
    assert!(client.close().success());
}

#[test]
fn wound_b2_a_remembered_era_is_found_anew_after_an_update() {
    let world = Starting::new();
    let mut client = world.client(Era::Newest, &[], "older");
    check_works(&mut client, "before");
    // The next process refuses `initialize`, and not as an unknown method.
    world.sandbox.write("record.newer", "");
    client.call("die", &json!({}));
    check_works(&mut client, "after");
    assert_eq!(world.recorded("got tools/call").last().unwrap(), "got tools/call envelope");
    assert!(client.close().success());
}

#[test]
fn wound_b2_a_remembered_era_is_found_anew_after_a_process_that_ends_over_it() {
    let world = Starting::patient();
    let mut client = world.client(Era::Newest, &[], "older");
    check_works(&mut client, "before");
    // The next process ends over `initialize`, and does not refuse it.
    world.sandbox.write("record.newer", "dies");
    client.call("die", &json!({}));
    check_works(&mut client, "after");
    assert_eq!(world.recorded("got tools/call").last().unwrap(), "got tools/call envelope");
    // One process was started in the remembered era, and one to find the era.
    assert_eq!(world.recorded("start").len(), 3);
    assert!(client.close().success());
}

#[test]
fn wound_b2_a_shared_server_goes_on_to_start_when_its_first_client_hangs_up() {
    let world = Starting::new();
    world.close_gate();
    let command = quoted(&world.words("older gated"));
    let config = format!("demo = false\n[upstreams.slow]\ncommand = {command}\nshared = true\n");
    let (server, _) = serving(&world.sandbox, &config);
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello()});
    let accept = ("accept", "application/json, text/event-stream");
    let headers = [("content-type", "application/json"), accept];
    let bytes = request(server.address, "POST /mcp", &headers, message.to_string().as_bytes());
    let begin = || {
        let mut stream = server.connect();
        stream.write_all(&bytes).unwrap();
        stream
    };
    let first = begin();
    until_written(&world.sandbox.path("record"), "start");
    drop(first);
    let second = begin();
    for _ in 0..100 {
        assert_eq!(world.recorded("start").len(), 1);
        std::thread::sleep(Duration::from_millis(10));
    }
    world.open_gate();
    let answer = answer(second);
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
    assert_eq!(world.recorded("start").len(), 1);
    assert_eq!(server.stop(), 0);
}

#[test]
fn wound_b2_a_program_that_sends_back_what_it_is_sent_is_no_server() {
    for era in ERAS {
        let world = Starting::patient();
        let command = world.sandbox.command(&["wrap", "cat"]);
        let mut client = Client::at(&world.sandbox, command, era, json!({}));
        let (method, params) = match era {
            Era::Older => ("initialize", hello()),
            Era::Newest => ("tools/list", json!({})),
        };
        client.send(method, params);
        let answer = client.receive();
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("sends back what it is sent"), "{answer}");
        assert_eq!(answer["error"]["data"]["reason"], "unreachable", "{answer}");
        assert_eq!(client.close().code(), Some(6));
    }
}

#[test]
fn wound_b2_the_time_of_a_start_is_bounded() {
    for era in ERAS {
        let world = Starting::new();
        world.close_gate();
        let mut client = world.client(era, &["--start-s", "1"], "both gated mutters:2");
        let (method, params) = match era {
            Era::Older => ("initialize", hello()),
            Era::Newest => ("tools/list", json!({})),
        };
        client.send(method, params);
        let answer = client.receive();
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("within 1 s"), "{answer}");
        assert!(message.contains("line 1"), "{answer}");
        assert_eq!(client.close().code(), Some(6));
    }
}

/// A client of a gateway before a server that is there, `quick`, and `slow`, which waits for its gate.
fn before_two(world: &Starting, more: &str) -> Client {
    let quoted = |words: &str| {
        let words: Vec<_> = world.words(words).iter().map(|word| format!("{word:?}")).collect();
        format!("[{}]", words.join(","))
    };
    let config = format!(
        "demo = false\n[upstreams.quick]\ncommand = {}\n[upstreams.slow]\ncommand = {}\n{more}",
        quoted("both"),
        quoted("both gated")
    );
    world.sandbox.write("handback.toml", &config);
    let path = world.sandbox.path("handback.toml");
    let flags = ["--config", path.to_str().unwrap()];
    Client::silent(&world.sandbox, &flags, Era::Newest, json!({}))
}

#[test]
fn wound_a8_a_denied_name_is_looked_for_like_one_that_nobody_has() {
    let world = Starting::new();
    world.close_gate();
    let rules = "[[permissions.rules]]\ndeny = [\"die\"]\n";
    let mut client = before_two(&world, rules);
    let listed = client.ask("tools/list", json!({})).to_string();
    assert!(listed.contains("greet") && !listed.contains("\"die\""), "{listed}");
    let call = |client: &mut Client, name: &str| {
        client.send("tools/call", json!({"name": name, "arguments": {}}))
    };
    // The server that is starting may have either of them.
    let refused = [call(&mut client, "die"), call(&mut client, "never")];
    let greeted = call(&mut client, "greet");
    assert_eq!(client.receive()["id"], greeted);
    world.open_gate();
    let mut answers = [client.receive(), client.receive()];
    answers.sort_by_key(|answer| answer["id"] != refused[0]);
    assert_eq!(answers[0]["id"], refused[0], "{answers:?}");
    assert_eq!(answers[0]["error"]["code"], -32602, "{answers:?}");
    assert_eq!(answers[0]["error"], answers[1]["error"]);
}

#[test]
fn wound_b2_a_server_that_came_up_when_nobody_waited_is_called_at_once() {
    let world = Starting::new();
    world.close_gate();
    let mut client = before_two(&world, "");
    // The other one is listed after ten seconds.
    let listed = client.ask("tools/list", json!({}));
    assert!(!listed.to_string().contains("slow"), "{listed}");
    world.open_gate();
    let started = std::time::Instant::now();
    while world.recorded("got server/discover").len() < 2 {
        assert!(started.elapsed() < Duration::from_secs(30));
        client.call("greet", &json!({}));
    }
    client.call("greet", &json!({}));
    let result = client.call("slow__late", &json!({}));
    assert!(text(&result).starts_with("late in "), "{result}");
    assert_eq!(world.recorded("start").len(), 2);
}

#[test]
fn wound_b2_a_call_waits_for_one_of_several_servers_that_is_starting() {
    let world = Starting::new();
    world.close_gate();
    let mut client = before_two(&world, "");
    let id = client.send("tools/call", json!({"name": "slow__late", "arguments": {}}));
    // The tools of the other one do not wait for it.
    let listed = client.send("tools/list", json!({}));
    let answer = client.receive();
    assert_eq!(answer["id"], listed, "{answer}");
    let tools = answer["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "greet"), "{answer}");
    world.open_gate();
    let answer = client.receive();
    assert_eq!(answer["id"], id, "{answer}");
    assert!(text(&answer["result"]).starts_with("late in "), "{answer}");
}
