//! What an upstream hands out and takes back, on its way through.

use serde_json::{Value, json};

use super::{ERAS, World};
use crate::mcp_client::Era;

#[test]
fn lists_are_whole_and_their_cursors_are_ours() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let first = client.ask("tools/list", json!({}));
        let cursor = first["nextCursor"].as_str().unwrap().to_owned();
        assert_ne!(cursor, "half", "the upstream's own is not shown");
        let second = client.ask("tools/list", json!({"cursor": cursor}));
        assert_eq!(second["nextCursor"], Value::Null);
        let names: Vec<_> = [first["tools"].clone(), second["tools"].clone()]
            .iter()
            .flat_map(|tools| tools.as_array().unwrap().clone())
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(names[..3], ["append", "look", "rows"]);
        assert!(names.contains(&"mcp_aql_read".to_owned()), "{names:?}");
        client.send("tools/list", json!({"cursor": "half"}));
        let refused = client.receive();
        assert_eq!(refused["error"]["data"]["reason"], "invalid", "{refused}");
    }
}

#[test]
fn the_state_of_an_exchange_is_sealed() {
    let world = World::new();
    let mut client = world.client(Era::Newest);
    let call = json!({"name": "confirm", "arguments": {"what": "x"}});
    let asked = client.ask("tools/call", call.clone());
    let state = asked["requestState"].as_str().unwrap().to_owned();
    assert!(!asked.to_string().contains("upstream-state"), "{asked}");
    let mut back = call.clone();
    back["requestState"] = state.clone().into();
    back["inputResponses"] = json!({"q": {"action": "accept", "content": {"sure": true}}});
    let confirmed = client.ask("tools/call", back.clone());
    assert_eq!(super::text(&confirmed), "confirmed upstream-state:x");
    // Of other arguments, or changed, it is none.
    let mut other = back.clone();
    other["arguments"]["what"] = "y".into();
    let mut changed = back;
    let (start, instead) = (&state[..20], if state[20..].starts_with('A') { "B" } else { "A" });
    changed["requestState"] = format!("{start}{instead}{}", &state[21..]).into();
    let mut bare = call;
    bare["requestState"] = "upstream-state:x".into();
    for wrong in [other, changed, bare] {
        client.send("tools/call", wrong);
        let refused = client.receive();
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert_eq!(refused["error"]["data"]["reason"], "invalid", "{refused}");
    }
    assert_eq!(world.effects("confirm").len(), 1);
}

#[test]
fn an_older_client_is_asked_by_the_server_itself() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    let id = client.send("tools/call", json!({"name": "confirm", "arguments": {"what": "x"}}));
    let question = client.receive();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}});
    client.write(&answer);
    let answer = client.receive();
    assert_eq!((&answer["id"], super::text(&answer["result"])), (&json!(id), "confirmed"));
    assert_eq!(world.effects("confirm"), ["confirm accept"]);
}

#[test]
fn what_a_server_takes_back_the_client_knows_by_its_number() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    client.send("tools/call", json!({"name": "confirm", "arguments": {"what": "x"}}));
    let question = client.receive();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    client.send("tools/call", json!({"name": "take_back", "arguments": {}}));
    let taken_back = client.heard("notifications/cancelled");
    assert_eq!(taken_back, json!({"requestId": question["id"], "reason": "too late"}));
}

#[test]
fn a_newer_client_answers_an_older_server() {
    let world = World::speaking("older");
    let mut client = world.client(Era::Newest);
    let tools = client.ask("tools/list", json!({}));
    assert_eq!(
        (&tools["resultType"], &tools["cacheScope"]),
        (&json!("complete"), &json!("private"))
    );
    let call = json!({"name": "confirm", "arguments": {"what": "x"}});
    let asked = client.ask("tools/call", call.clone());
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let (name, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    let mut back = call;
    back["requestState"] = asked["requestState"].clone();
    back["inputResponses"] = json!({name: {"action": "accept"}});
    let confirmed = client.ask("tools/call", back.clone());
    assert_eq!(
        (super::text(&confirmed), &confirmed["resultType"]),
        ("confirmed", &json!("complete"))
    );
    assert_eq!(world.effects("confirm"), ["confirm accept"]);
    // It has gone on: there is nothing to come back to.
    let gone = client.ask("tools/call", back);
    assert_eq!(gone["_meta"]["dev.handback/reason"], "ambiguous", "{gone}");
    assert_eq!(world.effects("confirm").len(), 1);
}

#[test]
fn a_newer_client_that_cannot_be_asked_is_not() {
    let world = World::speaking("older");
    let mut client = world.client_with(Era::Newest, &[], json!({}));
    let result = client.call("confirm", &json!({"what": "x"}));
    assert_eq!(super::text(&result), "confirmed");
    assert_eq!(world.effects("confirm"), ["confirm None"], "the server was told that it cannot");
}

#[test]
fn an_older_client_answers_a_newer_server() {
    let world = World::speaking("newest");
    let mut client = world.client(Era::Older);
    let id = client.send("tools/call", json!({"name": "confirm", "arguments": {"what": "x"}}));
    let question = client.receive();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    client.write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}));
    let answer = client.receive();
    assert_eq!(answer["id"], id, "{answer}");
    assert_eq!(super::text(&answer["result"]), "confirmed upstream-state:x");
    assert_eq!(world.effects("confirm"), ["confirm upstream-state:x accept"]);
}

#[test]
fn state_that_is_no_text_is_refused() {
    let world = World::new();
    let mut client = world.client(Era::Newest);
    for state in [json!(5), json!({"a": 1}), json!(["x"])] {
        let call = json!({"name": "confirm", "arguments": {"what": "x"}, "requestState": state});
        client.send("tools/call", call);
        let refused = client.receive();
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    assert!(world.effects("confirm").is_empty());
}

#[test]
fn what_a_server_asks_is_passed_on_however_large_it_is() {
    for speaks in ["both", "older"] {
        let world = World::speaking(speaks);
        let mut client = world.client(Era::Newest);
        let call = json!({"name": "confirm", "arguments": {"what": "x", "bytes": 100_000}});
        let asked = client.ask("tools/call", call.clone());
        assert_eq!(asked["resultType"], "input_required", "{speaks}");
        let (name, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert!(question["params"]["message"].as_str().unwrap().len() > 100_000, "{speaks}");
        let mut back = call;
        back["requestState"] = asked["requestState"].clone();
        back["inputResponses"] = json!({name: {"action": "accept"}});
        let confirmed = client.ask("tools/call", back);
        assert!(super::text(&confirmed).starts_with("confirmed"), "{speaks}: {confirmed}");
    }
    // More than anybody answers is told, and not a part of it.
    let world = World::new();
    let mut client = world.client(Era::Newest);
    let call = json!({"name": "confirm", "arguments": {"what": "x", "bytes": 9 << 20}});
    let refused = client.ask("tools/call", call);
    assert_eq!(refused["_meta"]["dev.handback/reason"], "too_large", "{refused}");
    // And nothing of it is held.
    let listed = json!({"operation": "list_collections", "params": {}});
    let listed = super::aql(&mut client, "mcp_aql_read", &listed).to_string();
    assert!(!listed.contains("confirm"), "{listed}");
}

#[test]
fn what_is_answered_once_is_answered_with_its_state() {
    let world = World::new();
    let rule = "[[gateway.tools]]\ntools = \"confirm\"\nsingle_use = true\n";
    world.sandbox.write("handback.toml", rule);
    let config = world.sandbox.path("handback.toml");
    let flags = ["--config", config.to_str().unwrap()];
    let mut client = world.client_with(Era::Newest, &flags, json!({"elicitation": {}}));
    let call = json!({"name": "confirm", "arguments": {"what": "x", "stateless": true}});
    let asked = client.ask("tools/call", call.clone());
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let mut back = call;
    back["inputResponses"] = json!({"q": {"action": "accept"}});
    // Without its state, nothing was asked.
    let bare = client.ask("tools/call", back.clone());
    assert_eq!(bare["resultType"], "input_required", "{bare}");
    assert!(world.effects("confirm").is_empty());
    let mut with_state = back.clone();
    with_state["requestState"] = asked["requestState"].clone();
    let confirmed = client.ask("tools/call", with_state.clone());
    assert_eq!(super::text(&confirmed), "confirmed None", "{confirmed}");
    for again in [with_state, back] {
        client.ask("tools/call", again);
        assert_eq!(world.effects("confirm").len(), 1);
    }
}

#[test]
fn a_question_to_a_client_that_left_is_no_answer_of_it() {
    let world = World::speaking("newest");
    let mut client = world.client(Era::Older);
    let call = json!({
        "name": "confirm",
        "arguments": {"what": "x"},
        "_meta": {"dev.handback/idempotency-key": "k"},
    });
    let id = client.send("tools/call", call.clone());
    let question = client.receive();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let params = json!({"requestId": id});
    client.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    // The call is cancelled, and what it waited for is asked of nobody.
    drop(client);
    let mut client = world.client(Era::Older);
    let again = client.ask_with_meta("tools/call", call);
    assert_eq!(again["_meta"]["dev.handback/reason"], "ambiguous", "{again}");
}
