//! Held values that are made of others: edits and patches, on the pipeline and a real store.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use handback_gateway::note::HeldNote;
use handback_gateway::reference::{self, HeldValues, Resolution, Rules};
use handback_gateway::schema::{BoundedValidator, ForeignSchema};
use handback_identity::Caller;
use handback_page::aql::{Catalog, MAX_DERIVED_BYTES, Settings};
use handback_store::held::{HeldOptions, NewValue};
use handback_store::revocations::Revocation;
use handback_token::Handle;
use handback_tool::{Registry, Reply};
use serde_json::{Value, json};

use crate::bench::{Bench, START_MS, alice, bob};

const JSON: &str = "application/json";

fn bench() -> Bench {
    Bench::over(Catalog::new())
}

/// Something that an upstream gave to Alice.
fn hold(bench: &Bench, kind: &str, items: &str, bytes: &[u8]) -> String {
    let note = HeldNote {
        upstream: Some("files".to_owned()),
        tool: "read_file".to_owned(),
        items: items.to_owned(),
        media: None,
    };
    let new = NewValue::new(kind).note(note.to_bytes());
    let held = bench.held.put(alice().principal(), new, bytes, &mut rand::rng(), START_MS);
    held.unwrap().handle().unwrap().to_string()
}

/// What is held for Alice: its kind, its note, its text.
fn held(bench: &Bench, handle: &str) -> (String, HeldNote, String) {
    let handle = Handle::parse(handle).unwrap();
    let found = bench.held.look_up(handle, alice().principal(), START_MS).unwrap().found().unwrap();
    let reader = bench.held.read(&found, START_MS).unwrap();
    let bytes = reader.read_whole(usize::MAX).unwrap().unwrap();
    let text = String::from_utf8(bytes).unwrap();
    (found.kind().to_owned(), HeldNote::read(found.note()), text)
}

fn request(handle: &str, params: Value) -> Value {
    json!({"operation": "derive_element", "element_type": handle, "params": params})
}

async fn answer(bench: &Bench, who: Caller, handle: &str, params: Value) -> Value {
    let text = bench.text(who, "mcp_aql_create", request(handle, params)).await;
    serde_json::from_str(&text).unwrap()
}

/// The handle of what is derived for Alice.
async fn derive(bench: &Bench, handle: &str, params: Value) -> String {
    let answer = answer(bench, alice(), handle, params).await;
    assert_eq!(answer["success"], true, "{answer}");
    answer["data"]["handle"].as_str().unwrap().to_owned()
}

/// What is said when nothing is derived.
async fn refused(bench: &Bench, who: Caller, handle: &str, params: Value) -> Value {
    let used = bench.held.used_bytes(alice().principal(), START_MS).unwrap();
    let answer = answer(bench, who, handle, params).await;
    assert_eq!(answer["success"], false, "{answer}");
    assert_eq!(bench.held.used_bytes(alice().principal(), START_MS).unwrap(), used);
    answer["error"].clone()
}

#[tokio::test]
async fn a_text_is_edited_into_a_new_one() {
    let bench = bench();
    let source = hold(&bench, "text/markdown", "", "# Draft\n\none two two\n".as_bytes());
    let edits = json!([
        {"old": "Draft", "new": "Final \u{e9}"},
        {"old": "two", "new": "2", "count": 2},
        {"old": "\n", "new": "\r\n", "count": "all"},
    ]);
    let answer = answer(&bench, alice(), &source, json!({"edits": edits})).await;
    let data = &answer["data"];
    let expected = "# Final \u{e9}\r\n\r\none 2 2\r\n";
    assert_eq!(data["kind"], "text/markdown");
    assert_eq!(data["bytes"], expected.len());
    assert_eq!(data["expires_at"], START_MS / 1000 + 3600);
    let handle = data["handle"].as_str().unwrap();
    let (kind, note, text) = held(&bench, handle);
    assert_eq!((kind.as_str(), text.as_str()), ("text/markdown", expected));
    assert_eq!((note.upstream.as_deref(), note.tool.as_str()), (Some("files"), "read_file"));
    assert_eq!(held(&bench, &source).2, "# Draft\n\none two two\n", "the source stays");
    // It is a collection like every other.
    let page = bench.list(alice(), handle, json!({"filter": {"line": 3}})).await;
    assert_eq!(page["items"], json!([{"line": 3, "text": "one 2 2"}]));
}

#[tokio::test]
async fn a_patch_changes_what_it_names_and_no_other_byte() {
    let bench = bench();
    let text = "{\n  \"items\": [\n    {\"id\": 1, \"price\": 1.50},\n    {\"id\": 2, \"price\": \
                12345678901234567890}\n  ],\n  \"next\": null\n}\n";
    let source = hold(&bench, JSON, "/items", text.as_bytes());
    let patch = json!([
        {"op": "test", "path": "/items/0/id", "value": 1},
        {"op": "replace", "path": "/items/0/id", "value": 7},
        {"op": "add", "path": "/items/-", "value": {"id": 3}},
        {"op": "copy", "from": "/items/1/price", "path": "/most"},
        {"op": "move", "from": "/next", "path": "/last"},
        {"op": "remove", "path": "/items/1"},
    ]);
    let handle = derive(&bench, &source, json!({"patch": patch})).await;
    let (kind, note, derived) = held(&bench, &handle);
    assert_eq!(kind, JSON);
    assert_eq!((note.upstream.as_deref(), note.items.as_str()), (Some("files"), "/items"));
    let expected = "{\n  \"items\": [\n    {\"id\": 7, \"price\": 1.50},\n    {\"id\":3}\n  ],\n  \
                    \"most\": 12345678901234567890,\n  \"last\": null\n}\n";
    assert_eq!(derived, expected);
    // Where the items are no more, the whole value is what is read.
    let patch = json!({"op": "remove", "path": "/items"});
    let without = derive(&bench, &handle, json!({"patch": patch})).await;
    let (_, note, _) = held(&bench, &without);
    assert_eq!((note.upstream.as_deref(), note.items.as_str()), (Some("files"), ""));
}

#[tokio::test]
async fn a_string_of_a_json_value_is_edited_as_text() {
    let bench = bench();
    let text = r#"{"content":[{"type":"text","text":"a \"draft\"\nof\u00e9 1.50"}],"n":1.50}"#;
    let source = hold(&bench, JSON, "", text.as_bytes());
    let edits = json!({"old": "\"draft\"\n", "new": "final "});
    let params = json!({"edits": edits, "path": "/content/0/text"});
    let handle = derive(&bench, &source, params).await;
    let expected = r#"{"content":[{"type":"text","text":"a final ofé 1.50"}],"n":1.50}"#;
    assert_eq!(held(&bench, &handle).2, expected);
    let whole = hold(&bench, JSON, "", br#" "draft" "#);
    let handle = derive(&bench, &whole, json!({"edits": {"old": "draft", "new": "\"\\"}})).await;
    assert_eq!(held(&bench, &handle).2, r#" "\"\\" "#);
}

#[tokio::test]
async fn what_cannot_be_derived_says_why_and_leaves_nothing() {
    let bench = bench();
    let text = hold(&bench, "text/plain", "", b"one two two");
    let json = hold(&bench, JSON, "", br#"{"a":[1],"t":"x"}"#);
    let edit = |old: &str| json!({"edits": {"old": old, "new": "-"}});
    let patch = |operation: Value| json!({"patch": [operation]});
    for (handle, params, code, name) in [
        (&text, json!({}), "VALIDATION_MISSING_PARAM", "edits"),
        (&text, edit("two"), "VALIDATION_INVALID_TYPE", "edits[0].old"),
        (&text, edit("three"), "VALIDATION_INVALID_TYPE", "edits[0].old"),
        (&text, edit(""), "VALIDATION_INVALID_TYPE", "edits[0].old"),
        (&text, json!({"edits": []}), "VALIDATION_INVALID_TYPE", "edits"),
        (&text, json!({"edits": [1]}), "VALIDATION_INVALID_TYPE", "edits"),
        (
            &text,
            json!({"edits": {"old": "one", "new": "1"}, "path": ""}),
            "VALIDATION_INVALID_TYPE",
            "path",
        ),
        (&text, patch(json!({"op": "remove", "path": "/a"})), "VALIDATION_INVALID_TYPE", "patch"),
        (
            &text,
            json!({"edits": {"old": "one", "new": "1"}, "patch": []}),
            "VALIDATION_INVALID_TYPE",
            "patch",
        ),
        (&text, json!({"edit": []}), "VALIDATION_UNKNOWN_PARAM", ""),
        (&json, edit("x"), "VALIDATION_INVALID_TYPE", "path"),
        (
            &json,
            json!({"edits": {"old": "x", "new": ""}, "path": "/a"}),
            "VALIDATION_INVALID_TYPE",
            "path",
        ),
        (
            &json,
            json!({"edits": {"old": "x", "new": ""}, "path": "/b"}),
            "VALIDATION_INVALID_TYPE",
            "path",
        ),
        (
            &json,
            json!({"edits": {"old": "x", "new": ""}, "path": "t"}),
            "VALIDATION_INVALID_TYPE",
            "path",
        ),
        (&json, json!({"patch": [], "path": "/t"}), "VALIDATION_INVALID_TYPE", "path"),
        (
            &json,
            patch(json!({"op": "test", "path": "/t", "value": "y"})),
            "VALIDATION_INVALID_TYPE",
            "patch[0].value",
        ),
        (
            &json,
            patch(json!({"op": "remove", "path": "/b"})),
            "VALIDATION_INVALID_TYPE",
            "patch[0].path",
        ),
        (
            &json,
            patch(json!({"op": "move", "from": "/b", "path": "/c"})),
            "VALIDATION_INVALID_TYPE",
            "patch[0].from",
        ),
        (
            &json,
            patch(json!({"op": "delete", "path": "/t"})),
            "VALIDATION_INVALID_TYPE",
            "patch[0].op",
        ),
        (
            &json,
            patch(json!({"op": "add", "path": "a", "value": 1})),
            "VALIDATION_INVALID_TYPE",
            "patch[0].path",
        ),
    ] {
        let error = refused(&bench, alice(), handle, params.clone()).await;
        assert_eq!(error["code"], code, "{params}: {error}");
        let told = error["details"]["param_name"].as_str().unwrap_or_default();
        assert_eq!(told, name, "{params}: {error}");
    }
    let error = refused(&bench, alice(), &text, edit("two")).await;
    assert_eq!(
        error["message"],
        "Parameter 'edits[0].old' expected 'text occurring 1 times', got 'text occurring 2 times'"
    );
    // All or nothing.
    let operations = json!({"patch": [
        {"op": "replace", "path": "/t", "value": "changed"},
        {"op": "test", "path": "/a/0", "value": 2},
    ]});
    let error = refused(&bench, alice(), &json, operations).await;
    assert_eq!(error["details"]["param_name"], "patch[1].value", "{error}");
    let broken = hold(&bench, JSON, "", br#"{"a":1"#);
    let request = request(&broken, patch(json!({"op": "remove", "path": "/a"})));
    let answer = bench.call(alice(), "mcp_aql_create", request).await.unwrap();
    assert!(matches!(answer.reply, Reply::Failed { .. }), "{answer:?}");
}

#[tokio::test]
async fn only_the_owner_of_a_value_derives_from_it() {
    let bench = bench();
    let source = hold(&bench, "text/plain", "", b"one");
    let params = json!({"edits": {"old": "one", "new": "1"}});
    let unknown = Handle::generate(&mut rand::rng()).to_string();
    let nothing = refused(&bench, alice(), &unknown, params.clone()).await;
    assert_eq!(nothing["details"]["actual_type"], "invalid handle");
    assert_eq!(refused(&bench, bob(), &source, params.clone()).await, nothing);
    // Not even whether an edit would fit.
    let other = json!({"edits": {"old": "three", "new": "3"}});
    assert_eq!(refused(&bench, bob(), &source, other).await, nothing);
    let wrong = format!("{}{}", &source[..29], if source.ends_with('0') { '1' } else { '0' });
    let mistyped = refused(&bench, bob(), &wrong, params.clone()).await;
    assert_eq!(mistyped["details"]["actual_type"], "mistyped handle");
    let derived = derive(&bench, &source, params.clone()).await;
    assert_eq!(bench.list(alice(), &derived, json!({})).await["items"][0]["text"], "1");
    let theirs = json!({"edits": {"old": "1", "new": "2"}});
    assert_eq!(refused(&bench, bob(), &derived, theirs).await, nothing, "it is Alice's");
    assert_eq!(bench.held.used_bytes(bob().principal(), START_MS).unwrap(), 0);
    let read = bench.text(alice(), "mcp_aql_read", request(&source, params.clone())).await;
    assert!(read.contains("VALIDATION_ENDPOINT_MISMATCH"), "{read}");
    bench.pass(Duration::from_secs(2 * 3600));
    let late = refused(&bench, alice(), &source, params.clone()).await;
    assert_eq!(late["details"]["actual_type"], "expired handle");
    assert_eq!(refused(&bench, bob(), &source, params).await, nothing);
    let reasons = bench.reasons();
    let told = |reason: &str| reasons.iter().filter(|known| *known == reason).count();
    assert_eq!(
        [told("unknown_handle"), told("mistyped_handle"), told("expired_handle")],
        [5, 1, 1],
        "{reasons:?}"
    );
}

#[tokio::test]
async fn nothing_is_derived_of_what_was_revoked() {
    let bench = bench();
    let source = hold(&bench, "text/plain", "", b"one");
    let theirs = Revocation::principal(alice().principal());
    bench.revocations.store().revoke(theirs, START_MS).unwrap();
    bench.pass(Duration::from_secs(2));
    let params = json!({"edits": {"old": "one", "new": "1"}});
    let error = refused(&bench, alice(), &source, params).await;
    assert_eq!(error["details"]["actual_type"], "invalid handle");
    assert_eq!(bench.reasons(), ["revoked"]);
}

#[tokio::test]
async fn what_is_derived_counts_for_its_owner() {
    let options = HeldOptions::new().per_principal_bytes(100_000);
    let bench = Bench::with(Registry::new(), Catalog::new(), Settings::default(), options);
    let source = hold(&bench, "text/plain", "", &vec![b'a'; 40_000]);
    let params = |times: usize| {
        let new = "b".repeat(times);
        json!({"edits": {"old": "a".repeat(40_000), "new": new}})
    };
    derive(&bench, &source, params(10_000)).await;
    let error = refused(&bench, alice(), &source, params(60_000)).await;
    assert_eq!(error["code"], "VALIDATION_PAYLOAD_TOO_LARGE");
    assert_eq!(error["details"]["limit_type"], "held_size", "{error}");
    derive(&bench, &source, params(10_000)).await;
}

#[tokio::test]
async fn source_and_result_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let options = HeldOptions::new().per_principal_bytes(1 << 30).folder(folder.path());
    let bench = Bench::with(Registry::new(), Catalog::new(), Settings::default(), options);
    let large = vec![b'x'; MAX_DERIVED_BYTES + 1];
    let source = hold(&bench, "text/plain", "", &large);
    let params = json!({"edits": {"old": "x", "new": "", "count": "all"}});
    let error = refused(&bench, alice(), &source, params.clone()).await;
    assert_eq!(error["details"]["limit_type"], "source_size", "{error}");
    let source = hold(&bench, "text/plain", "", &large[1..]);
    let error = {
        let grow = json!({"edits": {"old": "x", "new": "xx", "count": "all"}});
        refused(&bench, alice(), &source, grow).await
    };
    assert_eq!(error["details"]["limit_type"], "derived_size", "{error}");
    assert_eq!(held(&bench, &derive(&bench, &source, params).await).2, "");
}

#[tokio::test]
async fn a_batch_derives_and_the_single_tool_does_as_well() {
    let settings = Settings { mode: handback_page::aql::Mode::Single, ..Settings::default() };
    let bench = Bench::with(Registry::new(), Catalog::new(), settings, HeldOptions::new());
    let source = hold(&bench, "text/plain", "", b"one");
    let change = |new: &str| request(&source, json!({"edits": {"old": "one", "new": new}}));
    let batch = json!({"operations": [
        change("1"),
        {"operation": "count_elements", "element_type": source},
        change("2"),
    ]});
    let answer = bench.text(alice(), "mcp_aql", batch).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["summary"]["succeeded"], 3, "{answer}");
    for (at, expected) in [(0, "1"), (2, "2")] {
        let handle = answer["results"][at]["result"]["data"]["handle"].as_str().unwrap();
        assert_eq!(held(&bench, handle).2, expected);
    }
}

/// Fetch, edit, write back: what the client reads and writes meanwhile has nothing of the document.
#[tokio::test]
async fn a_large_document_is_edited_and_passed_on_without_passing_through_the_client() {
    let bench = bench();
    let lines: String =
        (0..8_000).map(|n| format!("Line {n} of the document, as it was.\n")).collect();
    let document = format!("{lines}The total is 17.\n");
    assert!(document.len() > 300_000);
    let result = json!({"content": [{"type": "text", "text": document}]}).to_string();
    let source = hold(&bench, JSON, "", result.as_bytes());
    let params = json!({
        "path": "/content/0/text",
        "edits": [
            {"old": "The total is 17.", "new": "The total is 18."},
            {"old": "as it was", "new": "as it is now", "count": "all"},
        ],
    });
    let asked = request(&source, params);
    let answered = bench.text(alice(), "mcp_aql_create", asked.clone()).await;
    let answer: Value = serde_json::from_str(&answered).unwrap();
    let handle = answer["data"]["handle"].as_str().unwrap();
    let written = json!({
        "path": "/tmp/document.txt",
        "content": format!("$held:{handle}#/content/0/text"),
    });
    let written = written.to_string();
    let through_the_client = asked.to_string().len() + answered.len() + written.len();
    assert!(through_the_client < 1_000, "{through_the_client}");

    // What the gateway does with the call.
    let caller = alice();
    let revocations = bench.revocations.current(START_MS).await;
    let mut values = HeldValues::of(caller.principal(), &bench.held, &revocations, START_MS);
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    });
    let schema = ForeignSchema::of(&schema, &AtomicBool::new(false)).unwrap();
    let schema = BoundedValidator::new(Arc::new(schema));
    let rules = Rules::default();
    let to = |upstream| reference::Call {
        upstream,
        tool: "write_file",
        rules: &rules,
        schema: Some(&schema),
    };
    let resolution = reference::resolve(&written, &to("files"), &mut values).unwrap();
    let Resolution { arguments, resolved } = resolution;
    let arguments: Value = serde_json::from_str(&arguments).unwrap();
    let edited = document.replace("The total is 17.", "The total is 18.");
    assert_eq!(arguments["content"], edited.replace("as it was", "as it is now"));
    let [line] = resolved.as_slice() else { panic!("{resolved:?}") };
    assert_eq!(
        (line.from_upstream.as_deref(), line.from_tool.as_str()),
        (Some("files"), "read_file")
    );
    assert!(line.bytes > 300_000, "{line:?}");
    // It came from there, and goes nowhere else.
    let error = reference::resolve(&written, &to("mail"), &mut values).unwrap_err();
    assert_eq!(error.reason(), "direction");
}
