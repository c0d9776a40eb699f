//! Calls that are made once.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use super::{ERAS, World, text};
use crate::mcp_client::{Client, Era};
use crate::support::Sandbox;

const KEY: &str = "dev.handback/idempotency-key";

fn append(key: Option<&str>, more: &Value) -> Value {
    let mut arguments = json!({"text": "a"});
    for (name, value) in more.as_object().unwrap() {
        arguments[name] = value.clone();
    }
    let mut call = json!({"name": "append", "arguments": arguments});
    if let Some(key) = key {
        call["_meta"] = json!({KEY: key});
    }
    call
}

/// Calls, and gives the result.
#[track_caller]
fn ask(client: &mut Client, call: &Value) -> Value {
    client.ask_with_meta("tools/call", call.clone())
}

#[test]
fn the_same_key_is_the_same_call() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let first = ask(&mut client, &append(Some("k"), &json!({})));
        let again = ask(&mut client, &append(Some("k"), &json!({})));
        assert!(first["_meta"]["dev.handback/replayed"].is_null(), "{first}");
        assert_eq!(again["_meta"]["dev.handback/replayed"], true, "{again}");
        assert_eq!((text(&first), text(&again)), ("appended", "appended"));
        assert_eq!(again["x-unknown"], first["x-unknown"]);
        let other = ask(&mut client, &append(Some("k"), &json!({"delay_ms": 1})));
        assert_eq!(other["_meta"]["dev.handback/reason"], "mismatch", "{other}");
        assert_eq!(world.effects("append").len(), 1);
        ask(&mut client, &append(Some("other"), &json!({})));
        ask(&mut client, &append(None, &json!({})));
        assert_eq!(world.effects("append").len(), 3);
    }
}

#[test]
fn a_client_that_left_finds_its_answer() {
    for era in ERAS {
        let world = World::new();
        let call = append(Some("k"), &json!({"delay_ms": 1500}));
        let mut client = world.client(era);
        let id = client.send("tools/call", call.clone());
        world.until_effect("append");
        let cancel = json!({"requestId": id});
        client.write(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}),
        );
        let again = ask(&mut client, &call);
        assert_eq!(text(&again), "appended");
        assert_eq!(again["_meta"]["dev.handback/replayed"], true, "{again}");
        assert_eq!((world.effects("append").len(), world.effects("cancelled").len()), (1, 0));
    }
}

#[test]
fn a_client_that_closed_its_input_finds_its_answer_at_the_next_start() {
    for era in ERAS {
        let world = World::new();
        // Longer than what is still answered.
        let call = append(Some("k"), &json!({"delay_ms": 3000}));
        let mut client = world.client(era);
        client.send("tools/call", call.clone());
        world.until_effect("append");
        assert!(client.close().success());
        let again = ask(&mut world.client(era), &call);
        assert_eq!(text(&again), "appended");
        assert_eq!(again["_meta"]["dev.handback/replayed"], true, "{again}");
        assert_eq!((world.effects("append").len(), world.effects("cancelled").len()), (1, 0));
    }
}

#[test]
fn without_a_key_cancelling_reaches_the_server() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    let id = client.send("tools/call", append(None, &json!({"delay_ms": 60_000})));
    world.until_effect("append");
    let params = json!({"requestId": id});
    client.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    world.until_effect("cancelled");
}

/// Where the wrapping process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    BeforeReserve,
    AfterReserve,
    /// The server did it, and has not answered.
    Acted,
    BeforeRecord,
    AfterRecord,
}

const STAGES: [Stage; 5] = [
    Stage::BeforeReserve,
    Stage::AfterReserve,
    Stage::Acted,
    Stage::BeforeRecord,
    Stage::AfterRecord,
];

impl Stage {
    const fn point(self) -> &'static str {
        match self {
            Self::BeforeReserve => "before-step:1",
            Self::AfterReserve => "after-step:1",
            Self::Acted => "",
            Self::BeforeRecord => "before-step:2",
            Self::AfterRecord => "after-step:2",
        }
    }

    /// Whether the next process knows how the call ended, or that it did not begin.
    const fn is_known(self) -> bool {
        matches!(self, Self::BeforeReserve | Self::AfterRecord)
    }

    /// How often the server has done it by then.
    const fn effects(self) -> usize {
        match self {
            Self::BeforeReserve | Self::AfterReserve => 0,
            Self::Acted | Self::BeforeRecord | Self::AfterRecord => 1,
        }
    }
}

/// Kills the wrapping process at a stage, and asks again.
fn check_killed(stage: Stage, era: Era) {
    let what = format!("{stage:?} {era:?}");
    let sandbox = Sandbox::new().set("HANDBACK_TEST_KILL_AT", stage.point());
    let world = World::with(sandbox);
    let mut client = world.client(era);
    let delay_ms = if stage == Stage::Acted { 60_000 } else { 0 };
    let call = append(Some("k"), &json!({"delay_ms": delay_ms}));
    client.send("tools/call", call.clone());
    if stage == Stage::Acted {
        world.until_effect("append");
        client.kill();
    } else {
        // It kills itself.
        assert!(!client.ended().success(), "{what}");
    }
    assert_eq!(world.effects("append").len(), stage.effects(), "{what}");
    let world = World { sandbox: world.sandbox.set("HANDBACK_TEST_KILL_AT", ""), speaks: "both" };
    let mut client = world.client(era);
    for round in 0..2 {
        let again = ask(&mut client, &call);
        let reason = again["_meta"]["dev.handback/reason"].as_str();
        if stage.is_known() {
            assert_eq!((reason, text(&again)), (None, "appended"), "{what}: {again}");
            let is_replay = stage == Stage::AfterRecord || round > 0;
            let mark = &again["_meta"]["dev.handback/replayed"];
            assert_eq!(mark == &json!(true), is_replay, "{what}: {again}");
            assert_eq!(world.effects("append").len(), 1, "{what}");
        } else {
            assert_eq!(reason, Some("ambiguous"), "{what}: {again}");
            assert!(text(&again).contains("is not known"), "{what}: {again}");
            assert_eq!(world.effects("append").len(), stage.effects(), "{what}");
        }
    }
}

#[test]
fn killed_at_every_stage_there_is_one_effect_or_it_says_that_it_does_not_know() {
    for stage in STAGES {
        for era in ERAS {
            check_killed(stage, era);
        }
    }
}

#[test]
fn a_server_that_dies_in_a_call_leaves_no_doubt_unsaid() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let call = append(Some("k"), &json!({"die": true}));
        let first = ask(&mut client, &call);
        assert_eq!(first["_meta"]["dev.handback/reason"], "ambiguous", "{first}");
        let again = ask(&mut client, &call);
        assert_eq!(again["_meta"]["dev.handback/reason"], "ambiguous", "{again}");
        assert_eq!(world.effects("append").len(), 1);
        // It is started again for what comes next.
        let next = ask(&mut client, &append(Some("next"), &json!({})));
        assert_eq!(text(&next), "appended");
    }
}

/// Flags with which identical calls are tries of one.
fn identical(world: &World) -> [String; 2] {
    let rule = "[[gateway.tools]]\ntools = \"append\"\nretry = \"identical\"\n";
    world.sandbox.write("handback.toml", rule);
    ["--config".to_owned(), world.sandbox.path("handback.toml").to_str().unwrap().to_owned()]
}

/// A client whose identical calls are tries of one.
fn retrying_identical(world: &World) -> Client {
    retrying_identical_in(world, Era::Older)
}

fn retrying_identical_in(world: &World, era: Era) -> Client {
    let flags = identical(world);
    world.client_with(era, &flags.each_ref().map(String::as_str), json!({}))
}

/// A client that is killed while the server is at its call: nobody has the other ends of the pipes any
/// more. Waits for the end of what wraps the server.
fn killed_in_call(world: &World, era: Era, call: &Value) {
    let flags = identical(world);
    let mut command = world.command(&flags.each_ref().map(String::as_str));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut wrap = command.spawn().unwrap();
    let mut input = wrap.stdin.take().unwrap();
    let mut output = BufReader::new(wrap.stdout.take().unwrap());
    let client = json!({"name": "test", "version": "1"});
    let mut params = call.clone();
    if era == Era::Older {
        let hello =
            json!({"protocolVersion": "2025-11-25", "clientInfo": client, "capabilities": {}});
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello});
        writeln!(input, "{hello}").unwrap();
        output.read_line(&mut String::new()).unwrap();
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        writeln!(input, "{told}").unwrap();
    } else {
        for (name, value) in [
            ("protocolVersion", json!("2026-07-28")),
            ("clientInfo", client),
            ("clientCapabilities", json!({})),
        ] {
            params["_meta"][format!("io.modelcontextprotocol/{name}")] = value;
        }
    }
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
    writeln!(input, "{call}").unwrap();
    world.until_effect("append");
    drop((input, output));
    assert!(wrap.wait().unwrap().success());
}

#[test]
fn an_answer_that_no_pipe_took_waits_for_the_identical_call() {
    for era in ERAS {
        let world = World::new();
        // It is answered before what wraps the server has ended.
        let call = append(None, &json!({"delay_ms": 500}));
        killed_in_call(&world, era, &call);
        let mut client = retrying_identical_in(&world, era);
        let again = ask(&mut client, &call);
        assert_eq!(text(&again), "appended");
        assert_eq!(again["_meta"]["dev.handback/replayed"], true, "{again}");
        assert_eq!((world.effects("append").len(), world.effects("cancelled").len()), (1, 0));
        // Who has the answer makes another call, at once and at the next start.
        let another = ask(&mut client, &call);
        assert!(another["_meta"]["dev.handback/replayed"].is_null(), "{another}");
        assert!(client.close().success());
        ask(&mut retrying_identical_in(&world, era), &call);
        assert_eq!(world.effects("append").len(), 3);
    }
}

#[test]
fn where_it_is_configured_an_identical_call_is_another_try() {
    let world = World::new();
    let mut client = retrying_identical(&world);
    let call = append(None, &json!({"delay_ms": 1500}));
    let id = client.send("tools/call", call.clone());
    world.until_effect("append");
    let params = json!({"requestId": id});
    client.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    let again = ask(&mut client, &call);
    assert_eq!(text(&again), "appended");
    assert_eq!(world.effects("append").len(), 1, "the answer was not delivered");
    let how = again["_meta"]["dev.handback/again"].as_str().unwrap();
    assert!(how.contains("the same call") && !how.contains("key"), "{how}");
    let another = ask(&mut client, &call);
    assert!(another["_meta"]["dev.handback/replayed"].is_null(), "{another}");
    assert_eq!(world.effects("append").len(), 2, "the answer was delivered");
}

#[test]
fn after_a_refusal_an_identical_call_is_another_try_of_it() {
    let world = World::new();
    let mut client = retrying_identical(&world);
    let call = append(None, &json!({"die": true}));
    for _ in 0..2 {
        let refused = ask(&mut client, &call);
        assert_eq!(refused["_meta"]["dev.handback/reason"], "ambiguous", "{refused}");
        assert_eq!(world.effects("append").len(), 1, "it is not known that nothing happened");
        // Nobody gave a key.
        assert!(text(&refused).contains("identical") && !text(&refused).contains("key"));
    }
}

#[test]
fn what_was_too_large_is_said_to_be_replayed() {
    for era in ERAS {
        let world = World::new();
        world.sandbox.write("handback.toml", "[limits]\nresult_bytes = 2097152\n");
        let (config, audit) = (world.sandbox.path("handback.toml"), world.sandbox.path("audit"));
        let flags = ["--config", config.to_str().unwrap(), "--audit", audit.to_str().unwrap()];
        let mut client = world.client_with(era, &flags, json!({}));
        let arguments = json!({"bytes": 3_000_000});
        let call = json!({"name": "document", "arguments": arguments, "_meta": {KEY: "k"}});
        let (first, again) = (ask(&mut client, &call), ask(&mut client, &call));
        for told in [&first, &again] {
            assert_eq!(told["_meta"]["dev.handback/reason"], "too_large", "{told}");
        }
        assert!(first["_meta"]["dev.handback/replayed"].is_null(), "{first}");
        assert_eq!(again["_meta"]["dev.handback/replayed"], true, "{again}");
        client.close();
        let ends = audited(&audit, "end");
        let ends: Vec<_> = ends.iter().filter(|line| line["name"] == "document").collect();
        let decisions: Vec<_> = ends.iter().map(|line| &line["decision"]).collect();
        assert_eq!(decisions, ["refused", "replayed"]);
    }
}

/// The lines of the audit of one kind.
fn audited(audit: &std::path::Path, event: &str) -> Vec<Value> {
    let lines = std::fs::read_to_string(audit).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["event"] == event).collect()
}

#[test]
fn what_is_not_sent_is_not_in_the_audit_as_sent() {
    let world = World::new();
    let audit = world.sandbox.path("audit");
    let flags = ["--audit", audit.to_str().unwrap()];
    let mut client = world.client_with(Era::Newest, &flags, json!({}));
    let document = json!({"name": "document", "arguments": {"bytes": 100_000}});
    let document = ask(&mut client, &document);
    let handle = document["_meta"]["dev.handback/held"][0]["handle"].as_str().unwrap();
    let text = format!("$held:{handle}");
    for arguments in [json!({"text": text}), json!({"text": text}), json!({"text": text, "n": 1})] {
        let meta = json!({KEY: "k"});
        ask(&mut client, &json!({"name": "write_document", "arguments": arguments, "_meta": meta}));
    }
    client.close();
    assert_eq!(world.effects("write").len(), 1);
    let passed = audited(&audit, "reference");
    assert_eq!(passed.len(), 1, "{passed:?}");
    let ends = audited(&audit, "end");
    let ends: Vec<_> = ends.iter().filter(|line| line["name"] == "write_document").collect();
    assert_eq!(passed[0]["call"], ends[0]["call"], "of the one that was made");
}

#[test]
fn an_error_that_is_replayed_says_so() {
    let world = World::new();
    let mut client = world.client(Era::Newest);
    let call = json!({"name": "nothing", "arguments": {}, "_meta": {KEY: "k"}});
    let mut told = || {
        client.send("tools/call", call.clone());
        let mut told = client.receive();
        told["error"].take()
    };
    let (first, again) = (told(), told());
    assert_eq!(first["code"], -32601, "{first}");
    assert!(first["data"]["dev.handback/replayed"].is_null(), "{first}");
    assert_eq!(again["data"]["dev.handback/replayed"], true, "{again}");
    assert_eq!((&again["code"], &again["message"]), (&first["code"], &first["message"]));
}

/// Whatever stands in the place of the mark stays, beside it.
#[test]
fn a_replay_says_so_whatever_the_server_gave() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let all = [json!("no"), Value::Null, json!([1, "a"]), json!(5), json!({"a": 1})];
        for (number, data) in all.into_iter().enumerate() {
            let arguments = json!({"how": format!("refuse {data}")});
            let meta = json!({KEY: number.to_string()});
            let call = json!({"name": "wrong", "arguments": arguments, "_meta": meta});
            let mut told = || {
                client.send("tools/call", call.clone());
                client.receive()["error"].take()
            };
            let (first, mut again) = (told(), told());
            assert_eq!(first["data"], data, "{first}");
            assert_eq!((&again["code"], &again["message"]), (&first["code"], &first["message"]));
            let marks = again["data"].as_object_mut().unwrap_or_else(|| panic!("{first}"));
            assert_eq!(marks.remove("dev.handback/replayed"), Some(json!(true)));
            assert!(marks.remove("dev.handback/again").is_some());
            let kept = match data.is_object() {
                true => data,
                false => json!({"dev.handback/data": data}),
            };
            assert_eq!(again["data"], kept);
        }
        let call = json!({"name": "wrong", "arguments": {"how": "null"}, "_meta": {KEY: "null"}});
        assert!(ask(&mut client, &call)["_meta"].is_null());
        let again = ask(&mut client, &call);
        assert_eq!(again["_meta"]["dev.handback/replayed"], true, "{again}");
        assert!(again["_meta"].as_object().unwrap().contains_key("dev.handback/data"), "{again}");
    }
}

#[test]
fn clients_of_one_command_are_told_apart_by_their_names() {
    let world = World::new();
    let call = append(Some("k"), &json!({}));
    let client = |name: &str| world.client_with(Era::Older, &["--name", name], json!({}));
    let (mut first, mut second) = (client("first"), client("second"));
    ask(&mut second, &call);
    ask(&mut first, &call);
    assert_eq!(world.effects("append").len(), 2, "each has a record of its own");
    drop((first, second));
    // Whoever comes first finds its own.
    let again = ask(&mut client("second"), &call);
    assert_eq!(again["_meta"]["dev.handback/replayed"], true, "{again}");
    assert_eq!(world.effects("append").len(), 2);
}

#[test]
fn a_large_answer_waits_for_the_next_try() {
    for era in ERAS {
        let world = World::new();
        world.sandbox.write("handback.toml", "[held]\nidle_s = 1\nlongest_s = 1\n");
        let config = world.sandbox.path("handback.toml");
        let flags = ["--config", config.to_str().unwrap()];
        let mut client = world.client_with(era, &flags, json!({}));
        let rows = |key: Option<&str>| {
            let mut call = json!({"name": "rows", "arguments": {"count": 5000}});
            key.into_iter().for_each(|key| call["_meta"] = json!({KEY: key}));
            call
        };
        let unkeyed = ask(&mut client, &rows(None));
        let first = ask(&mut client, &rows(Some("k")));
        // What nobody could ask for again is gone by then.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let again = ask(&mut client, &rows(Some("k")));
        assert_eq!(again["_meta"]["dev.handback/replayed"], true, "{again}");
        let held = |result: &Value| result["_meta"]["dev.handback/held"][0].clone();
        assert_eq!(held(&again), held(&first));
        let count = |client: &mut Client, result: &Value| {
            let handle = held(result)["handle"].clone();
            let counted = json!({"operation": "count_elements", "element_type": handle});
            let answer = client.call("mcp_aql_read", &counted);
            serde_json::from_str::<Value>(text(&answer)).unwrap()
        };
        assert_eq!(count(&mut client, &unkeyed)["success"], false);
        assert_eq!(count(&mut client, &again)["data"]["count"], 5000);
    }
}
