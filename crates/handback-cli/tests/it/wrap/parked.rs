//! Calls of newer clients that wait for an answer of theirs, at servers of the older era.

use std::fs;

use serde_json::{Value, json};

use super::{World, text};
use crate::mcp_client::Era;

/// With a key, and without one.
const KEYS: [Option<&str>; 2] = [Some("k"), None];

fn confirm(key: Option<&str>) -> Value {
    let mut call = json!({"name": "confirm", "arguments": {"what": "x"}});
    if let Some(key) = key {
        call["_meta"] = json!({"dev.handback/idempotency-key": key});
    }
    call
}

/// The call with what came back, but for the answers.
fn with_state(call: &Value, asked: &Value) -> Value {
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let mut back = call.clone();
    back["requestState"] = asked["requestState"].clone();
    back
}

/// The same with an answer.
fn back(call: &Value, asked: &Value) -> Value {
    let mut back = with_state(call, asked);
    let (name, _) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    back["inputResponses"] = json!({name: {"action": "accept"}});
    back
}

/// Nobody knows what became of it, for this reason.
#[track_caller]
fn is_unknown(told: &Value, reason: &str) {
    assert_eq!(told["_meta"]["dev.handback/reason"], reason, "{told}");
    assert_eq!(told["isError"], true, "{told}");
    assert!(told["_meta"]["dev.handback/replayed"].is_null(), "that is no answer: {told}");
    assert!(text(told).ends_with("is not known"), "{told}");
}

#[test]
fn of_a_parked_call_whose_program_is_gone_nobody_knows() {
    for key in KEYS {
        let world = World::speaking("older");
        let mut client = world.client(Era::Newest);
        let call = confirm(key);
        let asked = client.ask("tools/call", call.clone());
        // It does not come back.
        fs::remove_file(world.sandbox.path("upstream.py")).unwrap();
        client.call("wrong", &json!({"how": "die"}));
        let back = back(&call, &asked);
        let told = client.ask("tools/call", back.clone());
        is_unknown(&told, if key.is_some() { "ambiguous" } else { "lost" });
        if key.is_some() {
            is_unknown(&client.ask("tools/call", back), "ambiguous");
        }
        assert_eq!((world.effects("asks").len(), world.effects("confirm").len()), (1, 0));
    }
}

#[test]
fn of_a_parked_call_nobody_knows_after_a_restart() {
    for key in KEYS {
        let world = World::speaking("older");
        let mut client = world.client(Era::Newest);
        let call = confirm(key);
        let asked = client.ask("tools/call", call.clone());
        client.kill();
        for _ in 0..2 {
            let mut client = world.client(Era::Newest);
            for _ in 0..2 {
                is_unknown(&client.ask("tools/call", back(&call, &asked)), "ambiguous");
            }
            client.kill();
        }
        assert_eq!((world.effects("asks").len(), world.effects("confirm").len()), (1, 0));
    }
}

#[test]
fn who_comes_back_without_an_answer_is_asked_again() {
    for key in KEYS {
        let world = World::speaking("older");
        let mut client = world.client(Era::Newest);
        let call = confirm(key);
        let mut asked = client.ask("tools/call", call.clone());
        for answers in [Value::Null, json!({}), json!({"other": {"action": "accept"}})] {
            let mut bare = with_state(&call, &asked);
            if !answers.is_null() {
                bare["inputResponses"] = answers;
            }
            let again = client.ask("tools/call", bare);
            assert_eq!(again["inputRequests"], asked["inputRequests"], "{again}");
            asked = again;
        }
        let confirmed = client.ask("tools/call", back(&call, &asked));
        assert_eq!(text(&confirmed), "confirmed", "{confirmed}");
        assert_eq!(world.effects("confirm"), ["confirm accept"]);
        assert!(world.effects("refused").is_empty(), "the server was told nothing before");
    }
}
