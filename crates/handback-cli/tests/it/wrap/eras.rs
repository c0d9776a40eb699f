//! Clients of one era before servers of the other: what is relayed stays as it was written.

use std::io::Read as _;
use std::net::TcpStream;

use serde_json::{Value, json};

use super::callers::Callers;
use super::tasks::OlderWeb;
use super::{World, text};
use crate::mcp_client::{Client, Era};
use crate::support::Sandbox;

/// A server of the newer era that writes down what it is told.
fn newest() -> World {
    let world = World::speaking("newest");
    world.sandbox.write("upstream.py", include_str!("newest.py"));
    world
}

/// Answers what the client is asked, and gives the answer to its own question.
#[track_caller]
fn answered(client: &mut Client, method: &str, result: &str) -> (String, Value) {
    let question = client.receive_line();
    let asked: Value = serde_json::from_str(&question).unwrap();
    assert_eq!(asked["method"], method, "{question}");
    client.write_line(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, asked["id"]));
    (question, client.receive())
}

#[test]
fn what_an_older_client_says_reaches_a_newer_server_as_it_is_written() {
    let world = newest();
    let mut client = world.client(Era::Older);
    // Numbers that no double is, an exponent, half a character, names in an order of their own.
    let given = concat!(
        r#""name":"ask","arguments":{"method":"elicitation/create","z":123456789012345678901,"#,
        r#""b":1e2,"a":1.50,"huge":1e400,"half":"\ud800"},"x-more":{"b":1.0,"a":2}"#
    );
    client.write_line(&format!(
        r#"{{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{{{given}}}}}"#
    ));
    let result = r#"{"action":"accept","content":{"z":123456789012345678901,"h":1e400}}"#;
    let (question, answer) = answered(&mut client, "elicitation/create", result);
    assert!(question.contains(r#""z":123456789012345678901,"a":1.50"#), "{question}");
    assert_eq!((&answer["id"], text(&answer["result"])), (&json!(99), "done"), "{answer}");
    let calls = world.effects("tools/call");
    assert_eq!(calls.len(), 2, "{calls:?}");
    for call in &calls {
        assert!(call.contains(&format!(r#""params":{{{given},"_meta":{{"#)), "{call}");
    }
    let back = format!(r#""inputResponses":{{"q":{result}}},"requestState":"s\/1"}}"#);
    assert!(calls[1].contains(&back), "{}", calls[1]);
}

#[test]
fn what_an_older_client_says_of_its_question_stays_in_it() {
    let world = newest();
    let mut client = world.client(Era::Older);
    client.write_line(concat!(
        r#"{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"_meta":{"x":1.0,"b":2e1},"#,
        r#""name":"tell","arguments":{}}}"#
    ));
    assert_eq!(text(&client.receive()["result"]), "done");
    let call = &world.effects("tools/call")[0];
    assert!(call.contains(r#""params":{"_meta":{"x":1.0,"b":2e1,"io.model"#), "{call}");
    assert!(call.contains(r#"},"name":"tell","arguments":{}}"#), "{call}");
}

#[test]
fn an_older_client_whose_meta_is_none_is_told_so() {
    let world = newest();
    let mut client = world.client(Era::Older);
    for (meta, code) in [("[]", -32602), ("7", -32602), (r#"{"a":1,"a":2}"#, -32600)] {
        client.write_line(&format!(
            r#"{{"jsonrpc":"2.0","id":99,"method":"completion/complete","params":{{"ref":{{"type":"ref/prompt","name":"greet"}},"argument":{{"name":"a","value":"w"}},"_meta":{meta}}}}}"#
        ));
        let refused = client.receive();
        assert_eq!(refused["error"]["code"], code, "{meta}: {refused}");
    }
    assert!(world.effects("completion/complete").is_empty());
}

#[test]
fn an_older_client_hears_how_far_a_newer_server_is() {
    let world = newest();
    let mut client = world.client(Era::Older);
    let call = json!({"name": "tell", "arguments": {}, "_meta": {"progressToken": "mine"}});
    let id = client.send("tools/call", call);
    let progress = client.heard("notifications/progress");
    assert_eq!(progress, json!({"progressToken": "mine", "progress": 1}));
    let answer = client.receive();
    assert_eq!((&answer["id"], text(&answer["result"])), (&json!(id), "done"));
}

#[test]
fn an_older_client_is_sampled_for_a_newer_server() {
    let world = newest();
    let mut client = world.client_with(Era::Older, &[], json!({"sampling": {}}));
    let call = json!({"name": "ask", "arguments": {"method": "sampling/createMessage"}});
    client.send("tools/call", call);
    let result = r#"{"role":"assistant","content":{"type":"text","text":"yes"},"model":"m"}"#;
    let (_, answer) = answered(&mut client, "sampling/createMessage", result);
    assert_eq!(text(&answer["result"]), "done", "{answer}");
    let calls = world.effects("tools/call");
    assert!(calls[1].contains(&format!(r#""inputResponses":{{"q":{result}}}"#)), "{calls:?}");
    assert!(calls[0].contains(r#"clientCapabilities":{"sampling":{}}"#), "{calls:?}");
}

#[test]
fn a_newer_server_completes_for_an_older_client() {
    let world = newest();
    let mut client = world.client(Era::Older);
    let about = json!({"type": "ref/prompt", "name": "greet"});
    let argument = json!({"name": "who", "value": "w"});
    let told = client.ask("completion/complete", json!({"ref": about, "argument": argument}));
    assert_eq!(told["completion"]["values"], json!(["world"]), "{told}");
}

#[test]
fn a_large_result_of_an_older_server_is_whole_to_a_newer_client() {
    // In memory, and in a file.
    for bytes in [1_000_000, 9 << 20] {
        for budget in ["40KiB", "unlimited"] {
            let world = World::speaking("older");
            let mut client = world.client_with(Era::Newest, &["--budget", budget], json!({}));
            let result = client.call("document", &json!({"bytes": bytes}));
            assert_eq!(result["resultType"], "complete", "{bytes}, {budget}");
            let is_held = result["_meta"]["dev.handback/held"].is_array();
            assert_eq!(is_held, budget != "unlimited", "{bytes}, {budget}");
        }
    }
}

/// Reads until this was said.
#[track_caller]
fn until(stream: &mut TcpStream, said: &str) {
    let mut heard = Vec::new();
    while !String::from_utf8_lossy(&heard).contains(said) {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).unwrap();
        assert!(length > 0, "it ended: {}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&piece[..length]);
    }
}

#[test]
fn a_newer_client_hears_beside_its_call_what_it_asked_for() {
    let world = World::with(Sandbox::new());
    let (_web, url) = OlderWeb::running(&world, include_str!("older_stream.py"));
    let callers = Callers::of(world, &[format!("up={url}")], "");
    let alice = callers.alice.as_str();
    let mut listening = callers.listen_to(alice, r#"{"toolsListChanged":true}"#);
    until(&mut listening, "notifications/subscriptions/acknowledged");
    for (level, logged) in [
        (None, &[][..]),
        (Some("debug"), &["debug", "info", "warning", "error"]),
        (Some("warning"), &["warning", "error"]),
        (Some("emergency"), &[]),
        (Some("loud"), &[]),
    ] {
        let mut params = json!({"arguments": {}, "_meta": {"progressToken": "mine"}});
        if let Some(level) = level {
            params["_meta"]["io.modelcontextprotocol/logLevel"] = level.into();
        }
        let mut stream = callers.begin_to_ask(alice, "tell", params);
        let answer = crate::streams::server::read(&mut stream);
        let body = String::from_utf8(answer.body).unwrap();
        let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
        let mut heard: Vec<Value> =
            events.map(|json| serde_json::from_str(json).unwrap()).collect();
        assert_eq!(text(&heard.pop().unwrap()["result"]), "told", "{body}");
        assert_eq!(heard.pop().unwrap()["params"]["progressToken"], "mine", "{body}");
        let heard: Vec<_> = heard.iter().map(|said| said["params"]["data"].as_str()).collect();
        let logged: Vec<_> = logged.iter().map(|level| Some(*level)).collect();
        assert_eq!(heard, logged, "{level:?}: {body}");
    }
    // That tools have changed is for who listens to it.
    until(&mut listening, "notifications/tools/list_changed");
}
