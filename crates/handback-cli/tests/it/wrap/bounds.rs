//! What one caller may have under way, and what ends with it.

use std::fs;

use serde_json::{Value, json};

use super::{ERAS, World, text};
use crate::mcp_client::{Client, Era};

/// More than one client may be asked at a time.
const MANY: usize = 300;

/// Subscriptions of one caller at a time.
const LISTENERS_MAX: usize = 16;

const KEY: &str = "dev.handback/idempotency-key";

fn confirm() -> Value {
    json!({"name": "confirm", "arguments": {"what": "x"}})
}

/// The answer to this question, whatever else comes before.
#[track_caller]
fn answer_to(client: &Client, id: u64) -> Value {
    loop {
        let message = client.receive();
        if message["id"] == id && message["method"].is_null() {
            return message;
        }
    }
}

#[test]
fn a_keyed_call_goes_on_when_its_client_closes() {
    for era in ERAS {
        let world = World::new();
        let call = json!({
            "name": "append", "arguments": {"text": "a", "delay_ms": 3000}, "_meta": {KEY: "k"},
        });
        let mut client = world.client(era);
        client.send("tools/call", call.clone());
        world.until_effect("append");
        assert!(client.close().success());
        let mut client = world.client(era);
        let again = client.ask_with_meta("tools/call", call);
        assert_eq!(text(&again), "appended", "{again}");
        assert_eq!(again["_meta"]["dev.handback/replayed"], true, "{again}");
        assert_eq!(world.effects("append").len(), 1);
    }
}

#[test]
fn a_caller_listens_a_few_times_at_once() {
    let world = World::new();
    let mut client = world.client(Era::Newest);
    let listen = json!({"notifications": {"toolsListChanged": true}});
    for _ in 0..=LISTENERS_MAX {
        client.send("subscriptions/listen", listen.clone());
    }
    let refused = client.receive();
    assert_eq!(refused["error"]["data"]["reason"], "busy", "{refused}");
    assert!(!client.ask_with_meta("tools/list", json!({}))["tools"].is_null());
}

#[test]
fn a_question_that_nobody_here_knows_is_in_the_audit() {
    let world = World::new();
    let audit = world.sandbox.path("audit");
    let flags = ["--audit", audit.to_str().unwrap()];
    let mut client = world.client_with(Era::Newest, &flags, json!({}));
    let id = client.send("other/method", json!({}));
    assert_eq!(answer_to(&client, id)["error"]["code"], -32601);
    client.ask("tools/list", json!({}));
    client.close();
    let lines = fs::read_to_string(&audit).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = lines.iter().map(|line| (&line["name"], &line["decision"])).collect();
    assert_eq!(
        told,
        [(&json!("other/method"), &Value::Null), (&json!("other/method"), &json!("failed"))]
    );
}

#[test]
fn a_client_begins_once() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let id = client.send("initialize", hello);
    assert_eq!(answer_to(&client, id)["error"]["code"], -32600);
    assert_eq!(text(&client.call("look", &json!({"text": "a"}))), "a");
    assert_eq!(world.effects("hello").len(), 1, "one process, and what it was told first");
}

#[test]
fn what_a_server_asks_ends_with_the_call() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    for _ in 0..MANY {
        let id = client.send("tools/call", confirm());
        assert_eq!(client.receive()["method"], "elicitation/create");
        client.write(&json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id},
        }));
    }
    let id = client.send("tools/call", confirm());
    let question = client.receive();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    client.write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}));
    assert_eq!(text(&answer_to(&client, id)["result"]), "confirmed");
}

#[test]
fn a_server_that_does_not_say_in_which_call_it_asks_gets_one_at_a_time() {
    let world = World::speaking("older");
    let mut client = world.client(Era::Newest);
    let slow = |text: &str| json!({"name": "slow", "arguments": {"text": text, "delay_ms": 2000}});
    let first = client.send("tools/call", slow("one"));
    world.until_effect("slow one");
    let asking = client.send("tools/call", confirm());
    // Two are under way: it cannot be told whom the server asks.
    assert_eq!(text(&answer_to(&client, asking)["result"]), "confirmed");
    assert_eq!(world.effects("refused"), ["refused -32601"]);
    assert_eq!(text(&answer_to(&client, first)["result"]), "slow one");
    // From then on, the second waits for the first.
    let second = client.send("tools/call", slow("two"));
    world.until_effect("slow two");
    let asking = client.send("tools/call", confirm());
    // Each is written by itself, and who was first at the server may be second here.
    let answers = [client.receive(), client.receive()];
    let of = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(text(&of(second)["result"]), "slow two");
    assert_eq!(of(asking)["result"]["resultType"], "input_required", "{}", of(asking));
    let record = world.effects("");
    let first = |line: &str| record.iter().position(|it| it == line);
    let last = |line: &str| record.iter().rposition(|it| it == line);
    assert!(first("asks") < first("end slow one"), "two at a time: {record:?}");
    assert!(first("end slow two") < last("asks"), "one at a time: {record:?}");
    assert_eq!(world.effects("asks").len(), 2);
}

/// An older server that asks for roots before it tells what it has.
const ASKS_IN_A_LIST: &str = r#"
import json, sys
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
listing = None
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        say(id=message["id"], result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "asking", "version": "1"}})
    elif message.get("method") == "tools/list":
        listing = message["id"]
        say(id="roots", method="roots/list")
    elif message.get("id") == "roots":
        say(id=listing, result={"tools": [{"name": f"told{message['error']['code']}", "inputSchema": {"type": "object"}}]})
    elif "id" in message:
        say(id=message["id"], error={"code": -32601, "message": "no such method"})
"#;

#[test]
fn nobody_is_asked_in_a_list() {
    let world = World::new();
    world.sandbox.write("upstream.py", ASKS_IN_A_LIST);
    let mut client = world.client_with(Era::Newest, &[], json!({"roots": {}}));
    let listed = client.ask("tools/list", json!({}));
    assert_eq!(listed["tools"][0]["name"], "told-32601", "{listed}");
}

/// A newer server that tells of changes until it ends.
const LISTENED_TO: &str = r#"
import json, os, sys
seen = set()
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "server/discover":
        say(id=number, result={"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "told", "version": "1"},
            "ttlMs": 0, "cacheScope": "public"})
    elif method == "subscriptions/listen":
        say(method="notifications/subscriptions/acknowledged", params={
            "_meta": {"io.modelcontextprotocol/subscriptionId": str(number)}, "notifications": {"toolsListChanged": True}})
    elif method != "tools/call" and number is not None:
        say(id=number, error={"code": -32601, "message": "no such method"})
    seen.add(method)
    if {"subscriptions/listen", "tools/call"} <= seen:
        os._exit(3)
"#;

#[test]
fn who_listens_is_told_that_a_server_went_away() {
    let world = World::new();
    world.sandbox.write("upstream.py", LISTENED_TO);
    let mut client = world.client(Era::Newest);
    let listening =
        client.send("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let died = client.send("tools/call", json!({"name": "x", "arguments": {}}));
    let ended = [client.receive(), client.receive()];
    let of = |id: u64| ended.iter().find(|message| message["id"] == id).unwrap();
    assert_eq!(of(listening)["error"]["data"]["reason"], "lost", "{ended:?}");
    assert_eq!(of(died)["result"]["isError"], true, "{ended:?}");
}

/// An older server that asks something in a call and does not wait for it.
const ASKS_IN_PASSING: &str = r#"
import json, sys
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
calling, known = None, None
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        say(id=number, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "asking", "version": "1"}})
    elif method == "tools/call":
        say(id=number, result={"content": [{"type": "text", "text": f"known: {known}"}]}) if known else say(id="q", method="roots/list")
        if not known:
            say(id=number, result={"content": [{"type": "text", "text": "nothing yet"}]})
    elif number == "q":
        known = message["result"]["roots"][0]["uri"]
    elif number is not None and method:
        say(id=number, error={"code": -32601, "message": "no such method"})
"#;

#[test]
fn what_a_server_asked_in_passing_is_answered_after_the_call() {
    let world = World::new();
    world.sandbox.write("upstream.py", ASKS_IN_PASSING);
    let mut client = world.client_with(Era::Older, &[], json!({"roots": {}}));
    let call = json!({"name": "x", "arguments": {}});
    let id = client.send("tools/call", call.clone());
    let question = client.receive();
    assert_eq!(question["method"], "roots/list", "{question}");
    assert_eq!(text(&answer_to(&client, id)["result"]), "nothing yet");
    let roots = json!({"roots": [{"uri": "file:///here"}]});
    client.write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": roots}));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let id = client.send("tools/call", call.clone());
        let known = answer_to(&client, id);
        if text(&known["result"]) == "known: file:///here" {
            return;
        }
        assert!(std::time::Instant::now() < until, "{known}");
    }
}

/// An older server that asks something right after it was greeted, and ends.
const ASKS_AND_ENDS: &str = r#"
import json, os, sys
with open(sys.argv[1], "a") as record:
    record.write("start\n")
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}), flush=True)
        os._exit(0)
"#;

#[test]
fn a_server_that_ends_is_started_when_it_is_wanted() {
    let world = World::new();
    world.sandbox.write("upstream.py", ASKS_AND_ENDS);
    let client = world.client_with(Era::Older, &[], json!({"roots": {}}));
    // Long enough for many starts.
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(world.effects("start").len(), 1);
    drop(client);
}

#[test]
fn a_call_without_a_key_is_cancelled_when_its_client_closes() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        client.send(
            "tools/call",
            json!({"name": "append", "arguments": {"text": "a", "delay_ms": 600_000}}),
        );
        world.until_effect("append");
        assert!(client.close().success());
        assert_eq!(world.effects("cancelled").len(), 1);
    }
}

/// An older server that tells of a change after each call.
const TELLS: &str = r#"
import json, sys
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
followed = []
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        say(id=number, result={"protocolVersion": "2025-11-25", "serverInfo": {"name": "tells", "version": "1"},
            "capabilities": {"tools": {"listChanged": True}, "prompts": {}, "resources": {"subscribe": True}}})
    elif method == "resources/subscribe":
        followed.append(message["params"]["uri"])
        say(id=number, result={})
    elif method == "tools/call":
        say(method="notifications/prompts/list_changed")
        for uri in ["x:other", *followed]:
            say(method="notifications/resources/updated", params={"uri": uri})
        say(method="notifications/tools/list_changed")
        say(id=number, result={"content": []})
    elif number is not None:
        say(id=number, error={"code": -32601, "message": "no such method"})
"#;

#[test]
fn a_newer_client_hears_what_changes_at_an_older_server() {
    const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
    let world = World::new();
    world.sandbox.write("upstream.py", TELLS);
    let mut client = world.client(Era::Newest);
    let wanted = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["x:mine"],
    });
    let id = client.send("subscriptions/listen", json!({"notifications": wanted}));
    let told = client.heard("notifications/subscriptions/acknowledged");
    assert_eq!(told["_meta"][SUBSCRIPTION], id, "{told}");
    assert_eq!(told["notifications"]["toolsListChanged"], true, "{told}");
    assert_eq!(told["notifications"]["resourceSubscriptions"], json!(["x:mine"]), "{told}");
    client.send("tools/call", json!({"name": "x", "arguments": {}}));
    let updated = client.heard("notifications/resources/updated");
    assert_eq!((&updated["uri"], &updated["_meta"][SUBSCRIPTION]), (&json!("x:mine"), &json!(id)));
    let changed = client.heard("notifications/tools/list_changed");
    assert_eq!(changed["_meta"][SUBSCRIPTION], id, "{changed}");
}

#[test]
fn what_readers_differ_about_is_not_passed_on() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let odd = r#"{"n":1e999,"text":"a","text":"b"}"#;
        client.write_line(&format!(
            r#"{{"jsonrpc":"2.0","id":"twice","method":"tools/call","params":{{"name":"append","arguments":{odd}}}}}"#
        ));
        let told = client.receive();
        assert_eq!(
            (&told["id"], &told["error"]["code"]),
            (&json!("twice"), &json!(-32600)),
            "{told}"
        );
        assert_eq!(text(&client.call("look", &json!({"text": "x"}))), "x");
        assert!(world.effects("append").is_empty());
    }
}

/// Has a client with messages of so many bytes at most.
fn with_body_bytes(world: &World, era: Era, bytes: usize) -> Client {
    world.sandbox.write("handback.toml", &format!("[limits]\nbody_bytes = {bytes}\n"));
    let config = world.sandbox.path("handback.toml");
    world.client_with(era, &["--config", config.to_str().unwrap()], json!({}))
}

#[test]
fn a_message_that_is_too_long_is_refused_and_nothing_else() {
    for era in ERAS {
        let world = World::new();
        let mut client = with_body_bytes(&world, era, 65_536);
        let slow = json!({"name": "slow", "arguments": {"text": "a", "delay_ms": 500}});
        let slow = client.send("tools/call", slow);
        world.until_effect("slow");
        let long = "x".repeat(1_000_000);
        let asks = format!(r#""method":"tools/call","params":{{"name":"append","text":"{long}"}}"#);
        let mut told = Vec::new();
        for (line, id) in [
            (format!(r#"{{"jsonrpc":"2.0","id":"first",{asks}}}"#), json!("first")),
            (format!(r#"{{{asks},"jsonrpc":"2.0","id":"last"}}"#), json!("last")),
            (long.clone(), Value::Null),
        ] {
            client.write_line(&line);
            while !told.iter().any(|message: &Value| message["id"] == id) {
                told.push(client.receive());
            }
            let refused = told.iter().find(|message| message["id"] == id).unwrap();
            assert_eq!(refused["error"]["code"], -32600, "{refused}");
            let message = refused["error"]["message"].as_str().unwrap();
            assert_eq!(message, "the message has more than 65536 bytes");
        }
        // What was under way goes on, and so does the client.
        while !told.iter().any(|message| message["id"] == slow) {
            told.push(client.receive());
        }
        let slow = told.iter().find(|message| message["id"] == slow).unwrap();
        assert_eq!(text(&slow["result"]), "slow a");
        assert_eq!(text(&client.call("look", &json!({"text": "x"}))), "x");
        assert!(world.effects("append").is_empty());
        assert!(client.close().success());
    }
}

#[test]
fn messages_are_as_long_as_the_configuration_says() {
    for era in ERAS {
        let world = World::new();
        let mut client = with_body_bytes(&world, era, 16 << 20);
        let document = json!({"text": "x".repeat(6_000_000)});
        assert_eq!(text(&client.call("write_document", &document)), "written");
        assert!(world.effects("write")[0].starts_with("write 6000000 "));
    }
}

#[test]
fn what_is_nested_too_deeply_is_said_to_be() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    let deep = format!("{}{}", "[".repeat(2_000), "]".repeat(2_000));
    client.write_line(&format!(
        r#"{{"jsonrpc":"2.0","id":"deep","method":"tools/call","params":{{"name":"look","arguments":{{"a":{deep}}}}}}}"#
    ));
    let told = client.receive();
    assert_eq!((&told["id"], &told["error"]["code"]), (&json!("deep"), &json!(-32600)), "{told}");
    assert_eq!(told["error"]["message"], "the message is nested too deeply");
}

/// How much an older server says at once in a call.
const TOLD: usize = 2_000;

/// An older server that says much at once in a call.
const TELLS_AT_ONCE: &str = r#"
import json, sys
def line(**message):
    return json.dumps({"jsonrpc": "2.0", **message}) + "\n"
for text in sys.stdin:
    message = json.loads(text)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        said = line(id=number, result={"protocolVersion": "2025-11-25", "serverInfo": {"name": "tells", "version": "1"},
            "capabilities": {"tools": {}, "resources": {"subscribe": True}, "logging": {}}})
    elif method == "tools/call":
        token = message["params"]["_meta"]["progressToken"]
        told = [line(method="notifications/resources/updated", params={"uri": f"x:{n}"})
            + line(method="notifications/progress", params={"progressToken": token, "progress": n}) for n in range(2000)]
        said = "".join(told) + line(id=number, result={"content": [{"type": "text", "text": "told"}]})
    elif number is not None and method:
        said = line(id=number, error={"code": -32601, "message": "no such method"})
    else:
        continue
    sys.stdout.write(said)
    sys.stdout.flush()
"#;

#[test]
fn a_client_that_listens_hears_all_that_is_said_at_once() {
    let world = World::new();
    world.sandbox.write("upstream.py", TELLS_AT_ONCE);
    let mut client = world.client(Era::Older);
    let call = json!({"name": "x", "arguments": {}, "_meta": {"progressToken": "t"}});
    let id = client.send("tools/call", call);
    let (mut updated, mut progress, mut is_answered) = (0, 0, false);
    while updated < TOLD || progress < TOLD || !is_answered {
        let message = client.message();
        let params = &message["params"];
        match message["method"].as_str() {
            Some("notifications/resources/updated") => {
                assert_eq!(params["uri"], format!("x:{updated}"), "in their order");
                updated += 1;
            }
            Some("notifications/progress") => {
                assert!(!is_answered, "it comes before the answer");
                assert_eq!(
                    (&params["progress"], &params["progressToken"]),
                    (&json!(progress), &json!("t"))
                );
                progress += 1;
            }
            Some(_) => {}
            None => {
                assert_eq!(message["id"], id, "{message}");
                assert_eq!(text(&message["result"]), "told");
                is_answered = true;
            }
        }
    }
}
