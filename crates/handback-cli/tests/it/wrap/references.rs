//! Held values that go from one call to another without passing through the client.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{ERAS, World, aql, text};
use crate::mcp_client::Era;

fn held(result: &Value) -> String {
    result["_meta"]["dev.handback/held"][0]["handle"].as_str().unwrap().to_owned()
}

/// What the server's `document` is.
fn document(bytes: usize) -> String {
    (0..bytes.div_ceil(40))
        .map(|line| format!("line {line:06} of a document, some text\n"))
        .collect()
}

#[test]
fn a_document_is_fetched_edited_and_written_back() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let result = client.call("document", &json!({"bytes": 300_000}));
        let handle = held(&result);
        let edits = json!([{"old": "line 004000 of", "new": "LINE 4000, EDITED, of"}]);
        let derive = json!({"operation": "derive_element", "element_type": handle, "params": {"edits": edits}});
        let derived = aql(&mut client, "mcp_aql_create", &derive);
        let derived = derived["handle"].as_str().unwrap().to_owned();
        let written = client.call("write_document", &json!({"text": format!("$held:{derived}")}));
        assert_eq!(text(&written), "written", "{written}");
        let expected = document(300_000).replace("line 004000 of", "LINE 4000, EDITED, of");
        let hash: [u8; 32] = Sha256::digest(expected.as_bytes()).into();
        let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(world.effects("write"), [format!("write {} {hash}", expected.len())]);
        let passed: usize = [result, written].iter().map(|result| result.to_string().len()).sum();
        assert!(passed < 50_000, "{passed} bytes went through the client");
    }
}

#[test]
fn what_names_nothing_does_not_reach_the_server() {
    let world = World::new();
    let mut client = world.client(ERAS[0]);
    let result = client.call("document", &json!({"bytes": 300_000}));
    let handle = held(&result);
    let mistyped = format!("{}{}", &handle[..29], if handle.ends_with('0') { '1' } else { '0' });
    for (wrong, says, reason) in [
        (json!(format!("$held:{mistyped}")), "mistyped", "mistyped"),
        (json!("$held:h0000"), "invalid", "invalid"),
        (json!({"$held": handle, "more": 1}), "nothing else", "bad_arguments"),
        (json!({"$held": handle, "path": "/a"}), "text", "bad_arguments"),
        (json!({"$held": 7}), "string", "bad_arguments"),
    ] {
        let refused = client.call("write_document", &json!({"text": wrong}));
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(text(&refused).contains(says), "{says}: {refused}");
        assert_eq!(refused["_meta"]["dev.handback/reason"], reason, "{refused}");
    }
    assert!(world.effects("write").is_empty());
    // A text that only mentions it is a text.
    let written = client.call("write_document", &json!({"text": "how to write $held: so"}));
    assert_eq!(text(&written), "written");
}

#[test]
fn what_no_schema_can_check_does_not_reach_the_server() {
    for era in ERAS {
        let world = World::speaking("both odd");
        let mut client = world.client(era);
        let handle = held(&client.call("document", &json!({"bytes": 300_000})));
        let refused = client.call("odd", &json!({"text": format!("$held:{handle}")}));
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(text(&refused).contains("that of this one cannot be used"), "{refused}");
        assert!(world.effects("odd").is_empty());
        // What the client says itself is the server's to check.
        let result = client.call("odd", &json!({"text": "a text with $held: in it", "count": 3}));
        assert_eq!(result["structuredContent"]["rows"], json!([0, 1, 2]), "{result}");
        // Of what is cut, nobody knows whether it is valid.
        let result = client.call("odd", &json!({"count": 50_000}));
        assert_eq!(
            (&result["isError"], &result["structuredContent"]),
            (&json!(true), &Value::Null)
        );
        assert!(text(&result).contains(&held(&result)), "{result}");
    }
}

#[test]
fn a_call_that_was_made_has_its_answer_when_what_it_refers_to_is_gone() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    let handle = held(&client.call("document", &json!({"bytes": 300_000})));
    let arguments = json!({"text": format!("$held:{handle}")});
    let key = json!({"dev.handback/idempotency-key": "k"});
    let call = json!({"name": "write_document", "arguments": arguments, "_meta": key});
    let first = client.ask("tools/call", call.clone());
    assert_eq!(text(&first), "written", "{first}");
    assert!(client.close().success());
    let later = world.sandbox.set("HANDBACK_TEST_CLOCK_MS", (3 * 60 * 60 * 1000).to_string());
    let world = World { sandbox: later, speaks: "both" };
    let mut client = world.client(Era::Older);
    let gone = client.call("write_document", &arguments);
    assert!(text(&gone).contains("expired"), "{gone}");
    assert_eq!(gone["_meta"]["dev.handback/reason"], "expired", "{gone}");
    let again = client.ask("tools/call", call.clone());
    assert_eq!((text(&again), &again["_meta"]["dev.handback/replayed"]), ("written", &json!(true)));
    // Under a key that nothing was made with, there is nothing to give.
    let mut other = call;
    other["_meta"]["dev.handback/idempotency-key"] = "other".into();
    let refused = client.ask("tools/call", other);
    assert!(text(&refused).contains("expired"), "{refused}");
    assert_eq!(refused["_meta"]["dev.handback/reason"], "expired", "{refused}");
    assert_eq!(world.effects("write").len(), 1);
}
