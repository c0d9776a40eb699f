//! Held values that go from one call to another without passing through the client.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{ERAS, World, aql, text};

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
    for (wrong, says) in [
        (json!(format!("$held:{mistyped}")), "mistyped"),
        (json!("$held:h0000"), "invalid"),
        (json!({"$held": handle, "more": 1}), "nothing else"),
        (json!({"$held": handle, "path": "/a"}), "text"),
        (json!({"$held": 7}), "string"),
    ] {
        let refused = client.call("write_document", &json!({"text": wrong}));
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(text(&refused).contains(says), "{says}: {refused}");
    }
    assert!(world.effects("write").is_empty());
    // A text that only mentions it is a text.
    let written = client.call("write_document", &json!({"text": "how to write $held: so"}));
    assert_eq!(text(&written), "written");
}
