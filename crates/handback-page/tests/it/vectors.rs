//! `vectors/pagination-v1.json`: requests and what must come of them, in any language.

use serde_json::{Map, Value};

use crate::harness::Harness;

const VECTORS: &str = include_str!("../../../../vectors/pagination-v1.json");

/// Replaces `{"$start": NAME}` and `{"$end": NAME}` by the cursors of an earlier case.
fn with_cursors(value: &Value, earlier: &Map<String, Value>) -> Value {
    match value {
        Value::Object(members) => {
            if let Some((tag, Value::String(name))) = members.iter().next()
                && let Some(which) = match tag.as_str() {
                    "$start" => Some("startCursor"),
                    "$end" => Some("endCursor"),
                    _ => None,
                }
            {
                return earlier[name]["data"]["pageInfo"][which].clone();
            }
            members.iter().map(|(k, v)| (k.clone(), with_cursors(v, earlier))).collect()
        }
        Value::Array(values) => values.iter().map(|v| with_cursors(v, earlier)).collect(),
        other => other.clone(),
    }
}

/// Whether `found` has everything of `expected`; `"$absent"` stands for no member, and
/// `"$cursor"` for any cursor.
fn check(expected: &Value, found: Option<&Value>, path: &str) {
    match (expected, found) {
        (Value::String(word), None) if word == "$absent" => {}
        (Value::String(word), Some(Value::String(cursor))) if word == "$cursor" => {
            let is_url_safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            assert!(!cursor.is_empty() && cursor.chars().all(is_url_safe), "{path}: {cursor}");
            assert!(cursor.len() <= 512, "{path}");
        }
        (Value::Object(expected), Some(Value::Object(found))) => {
            for (name, value) in expected {
                check(value, found.get(name), &format!("{path}.{name}"));
            }
        }
        (expected, found) => assert_eq!(Some(expected), found, "{path}"),
    }
}

#[test]
fn every_vector_holds() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let harness = Harness::new();
    let mut earlier = Map::new();
    let cases = vectors["cases"].as_array().unwrap();
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let request = with_cursors(&case["request"], &earlier);
        let answer = harness.ask(&request);
        if let Some(expected) = case.get("ids") {
            let list = answer["data"].get("items").unwrap_or(&Value::Null);
            let found: Vec<_> =
                list.as_array().unwrap_or(&vec![]).iter().map(|item| item["id"].clone()).collect();
            assert_eq!(*expected, Value::Array(found), "{name}: {answer}");
        }
        check(&case["answer"], Some(&answer), name);
        earlier.insert(name.to_owned(), answer);
    }
    assert!(cases.len() > 60, "{} cases", cases.len());
}
