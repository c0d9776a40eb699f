//! After a relay no mark of an upstream is where Handback's are, and no control character in what is shown.
#![no_main]

use bytes::Bytes;
use handback_wire::controls;
use handback_wire::json::Lexer;
use handback_wire::marks::{self, MarkScan, PREFIX, Root, UPSTREAM};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_first() else { return };
    let root = if first & 1 == 0 { Root::Message } else { Root::Error };
    let Ok(tree) = serde_json::from_slice::<Value>(data) else { return };
    let json = Bytes::copy_from_slice(data);
    let moved = marks::moved(&json, root).expect("JSON with few marks");
    // In whatever pieces it comes.
    if marks::may_have(data) {
        let (mut scan, mut lexer) = (MarkScan::new(root), Lexer::new());
        for piece in data.chunks(1 + usize::from(*first)) {
            lexer.feed(piece, &mut scan).expect("JSON");
        }
        lexer.finish(&mut scan).expect("JSON");
        let segments = scan.finish(data.len() as u64).expect("few marks");
        assert_eq!(segments.is_some(), moved.is_some());
    }
    match &moved {
        None => check(&tree, root == Root::Error, false),
        Some(moved) => {
            let moved: Value = serde_json::from_slice(moved).expect("JSON");
            check(&moved, root == Root::Error, true);
        }
    }
    if let Some(replaced) = controls::replaced(&json) {
        let replaced: Value = serde_json::from_slice(&replaced).expect("JSON");
        check_shown(&replaced);
    } else {
        check_shown(&tree);
    }
});

/// No object of marks has one of an upstream.
fn check(tree: &Value, is_error: bool, was_moved: bool) {
    match tree {
        Value::Array(items) => items.iter().for_each(|item| check(item, false, was_moved)),
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value) {
                    ("_meta", Value::Object(meta)) => check_meta(meta, was_moved),
                    ("data", Value::Object(meta)) if is_error => check_meta(meta, was_moved),
                    (
                        "structuredContent" | "inputSchema" | "outputSchema" | "requestedSchema"
                        | "input",
                        _,
                    ) => {}
                    // The names of requests are the upstream's.
                    ("inputRequests", Value::Object(requests)) => {
                        requests.values().for_each(|request| check(request, false, was_moved));
                    }
                    (name, value) => check(value, name == "error", was_moved),
                }
            }
        }
        _ => {}
    }
}

fn check_meta(meta: &serde_json::Map<String, Value>, was_moved: bool) {
    for (name, value) in meta.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        assert!(was_moved && name == UPSTREAM, "{name}");
        let marks = value.as_object().expect("an object");
        assert!(marks.keys().all(|name| name.starts_with(PREFIX)));
    }
}

fn check_shown(tree: &Value) {
    match tree {
        Value::Array(items) => items.iter().for_each(check_shown),
        Value::Object(members) => {
            for (name, value) in members {
                if let (Some(text), "title" | "description" | "instructions") =
                    (value.as_str(), name.as_str())
                {
                    let plain = text.replace("\r\n", "");
                    assert!(
                        plain.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'),
                        "{text:?}"
                    );
                }
                check_shown(value);
            }
        }
        _ => {}
    }
}
