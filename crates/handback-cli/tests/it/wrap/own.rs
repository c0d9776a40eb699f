//! Our own tools, with a server that is not ours beside them: what they promise alone they promise here.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::callers::{Callers, answer};
use super::{ERAS, World, text};

const KEY: &str = "dev.handback/idempotency-key";

/// More than anything here takes on a busy machine, and less than the page waits.
const SOON: Duration = Duration::from_secs(40);

/// A page of these rows that waits for a minute, as there is no such row.
fn waiting_page(rows: &Value) -> Value {
    let handle = &rows["_meta"]["dev.handback/held"][0]["handle"];
    assert!(handle.is_string(), "{rows}");
    let wait = json!({"filter": {"id": -1}, "stream": true, "poll_interval_ms": 60_000});
    json!({"operation": "list_elements", "element_type": handle, "params": wait})
}

#[test]
fn a_key_in_a_header_is_that_of_our_own_tools_as_well() {
    let callers = Callers::before(&[("up", "both")], "");
    let alice = callers.alice.as_str();
    let document = callers.ask(alice, "document", json!({"arguments": {"bytes": 100_000}}));
    let handle = &document["result"]["_meta"]["dev.handback/held"][0]["handle"];
    let edits = json!([{"old": "line 000001 of", "new": "LINE 1 of"}]);
    let derive =
        json!({"operation": "derive_element", "element_type": handle, "params": {"edits": edits}});
    let session = callers.begin(alice);
    for (number, session) in [None, Some(session.as_str())].into_iter().enumerate() {
        let call = |headers: &[(&str, &str)], meta: Value| {
            let mut params = json!({"arguments": derive});
            if meta != json!({}) {
                params["_meta"] = meta;
            }
            answer(callers.begin_saying((alice, session), headers, params, "mcp_aql_create"))
        };
        let is_replay = |told: &Value| told["result"]["_meta"]["dev.handback/replayed"] == true;
        for header in ["idempotency-key", "x-idempotency-key"] {
            let key = format!("{header}-{number}");
            let headers = [(header, key.as_str())];
            let first = call(&headers, json!({}));
            assert!(text(&first["result"]).contains("\"success\":true"), "{first}");
            assert!(!is_replay(&first), "{first}");
            // It may be said in both places, and not differently.
            for meta in [json!({}), json!({KEY: key})] {
                let again = call(&headers, meta);
                assert!(is_replay(&again), "{again}");
                assert_eq!(text(&again["result"]), text(&first["result"]));
            }
            assert!(is_replay(&call(&[], json!({KEY: key}))));
            let two = call(&headers, json!({KEY: "another"}));
            assert_eq!(two["error"]["code"], -32602, "{two}");
            let another = call(&[], json!({}));
            assert_ne!(text(&another["result"]), text(&first["result"]), "it is made anew");
        }
        // Some older clients write what they leave out.
        if session.is_some() {
            let headers = [("idempotency-key", "null-meta")];
            assert!(!is_replay(&call(&headers, Value::Null)));
            assert!(is_replay(&call(&headers, Value::Null)));
        }
    }
}

#[test]
fn a_cancelled_call_of_our_own_tools_ends_and_gets_no_answer() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let page = waiting_page(&client.call("rows", &json!({"count": 5000})));
        let begun = Instant::now();
        let id = client.send("tools/call", json!({"name": "mcp_aql_read", "arguments": page}));
        std::thread::sleep(Duration::from_millis(500));
        let params = json!({"requestId": id});
        client.write(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
        );
        let next = client.send("tools/call", json!({"name": "look", "arguments": {"text": "x"}}));
        let told = client.receive();
        assert_eq!(told["id"], next, "of {id} there is nothing: {told}");
        assert!(begun.elapsed() < SOON, "{era:?}: {:?}", begun.elapsed());
    }
}

#[test]
fn wound_b4_over_http_a_cancelled_call_ends_without_a_message() {
    let callers = Callers::before(&[("up", "both")], "");
    let alice = callers.alice.as_str();
    let session = callers.begin(alice);
    let params = json!({"arguments": {"text": "x", "delay_ms": 60_000}});
    let mut open = callers.begin_saying((alice, Some(&session)), &[], params, "slow");
    callers.world.until_effect("slow x");
    callers.tell_in(alice, &session, "notifications/cancelled", json!({"requestId": 7}));
    let answer = crate::streams::server::read(&mut open);
    let body = String::from_utf8(answer.body).unwrap();
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    assert!(!body.contains("result") && !body.contains("error"), "{body}");
}

#[test]
fn with_its_session_a_call_of_our_own_tools_ends() {
    let callers = Callers::before(&[("up", "both")], "");
    let alice = callers.alice.as_str();
    let rows = callers.ask(alice, "rows", json!({"arguments": {"count": 5000}}));
    let page = waiting_page(&rows["result"]);
    let cancelled =
        || callers.number("handback_calls_total{surface=\"mcp\",outcome=\"cancelled\"}");
    for number in 0..2 {
        let session = callers.begin(alice);
        let begun = Instant::now();
        let params = json!({"arguments": page});
        let open = callers.begin_saying((alice, Some(&session)), &[], params, "mcp_aql_read");
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(cancelled(), number);
        match number {
            0 => {
                let params = json!({"requestId": 7});
                callers.tell_in(alice, &session, "notifications/cancelled", params);
            }
            _ => callers.end(alice, &session),
        }
        // It has ended where it is made.
        while cancelled() == number {
            assert!(begun.elapsed() < SOON, "{number}");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(open);
    }
}
