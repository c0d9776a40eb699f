//! Calls that are made once.

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
    let world = World::new();
    let call = append(Some("k"), &json!({"delay_ms": 1500}));
    let mut client = world.client(Era::Older);
    client.send("tools/call", call.clone());
    world.until_effect("append");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    client.write(&cancel);
    let again = ask(&mut client, &call);
    assert_eq!(text(&again), "appended");
    assert_eq!((world.effects("append").len(), world.effects("cancelled").len()), (1, 0));
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

/// Kills the wrapping process at a stage, and asks again.
fn check_killed(stage: &str) {
    let sandbox = Sandbox::new().set("HANDBACK_TEST_KILL_AT", stage);
    let world = World::with(sandbox);
    let mut client = world.client(Era::Older);
    client.send("tools/call", append(Some("k"), &json!({})));
    client.ended();
    let before = world.effects("append").len();
    assert!(before <= 1, "{stage}");
    let world = World { sandbox: world.sandbox.set("HANDBACK_TEST_KILL_AT", ""), speaks: "both" };
    let mut client = world.client(Era::Older);
    let again = ask(&mut client, &append(Some("k"), &json!({})));
    let reason = again["_meta"]["dev.handback/reason"].as_str();
    match reason {
        Some("ambiguous") => assert_eq!(world.effects("append").len(), before, "{stage}"),
        None => assert_eq!(world.effects("append").len(), 1, "{stage}"),
        Some(other) => panic!("{stage}: {other}"),
    }
}

#[test]
fn killed_at_every_stage_there_is_one_effect_or_it_says_that_it_does_not_know() {
    for stage in ["before-step:1", "after-step:1", "before-step:2", "after-step:2"] {
        check_killed(stage);
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

/// A client whose identical calls are tries of one.
fn retrying_identical(world: &World) -> Client {
    let rule = "[[gateway.tools]]\ntools = \"append\"\nretry = \"identical\"\n";
    world.sandbox.write("handback.toml", rule);
    let config = world.sandbox.path("handback.toml");
    world.client_with(Era::Older, &["--config", config.to_str().unwrap()], json!({}))
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
    }
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
