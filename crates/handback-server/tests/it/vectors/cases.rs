//! The cases of `vectors/pagination-v1.json`, and the collections that they are about. The tests of
//! the command run them, too.

use serde_json::{Map, Value, json};

const VECTORS: &str = include_str!("../../../../../vectors/pagination-v1.json");

/// The requests, in order, and what must come of them.
pub(crate) fn cases() -> Vec<Value> {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let cases = vectors["cases"].as_array().unwrap().clone();
    assert!(cases.len() > 60, "{} cases", cases.len());
    cases
}

/// The collection `items`, whose key is `id`.
pub(crate) fn items() -> Value {
    let item = |n: u64| {
        let half = if n.is_multiple_of(2) { json!(n / 2) } else { Value::Null };
        let even = n.is_multiple_of(2);
        json!({"id": format!("e_{n:03}"), "n": n, "group": n % 3, "even": even, "half": half})
    };
    (0..45).map(item).collect()
}

/// The collection `people`, which has no key.
pub(crate) fn people() -> Value {
    json!([
        {"name": "Ada", "age": 36, "address": {"city": "London"}, "tags": ["math", "admin"]},
        {"name": "Grace", "age": 85, "address": {"city": "Arlington"}, "tags": []},
        {"name": "Edsger", "age": null, "address": {"city": "Nuenen"}, "tags": ["admin"]},
        {"name": "Barbara", "address": null},
        {"name": "alan", "age": 41.5, "address": {"city": "Wilmslow"}, "tags": ["math"]},
    ])
}

/// One run of the cases: later ones go on from the answers of earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Run {
    earlier: Map<String, Value>,
}

impl Run {
    /// What a case asks.
    pub(crate) fn request(&self, case: &Value) -> Value {
        filled(&case["request"], &self.earlier)
    }

    /// Compares what came with what must.
    #[track_caller]
    pub(crate) fn judge(&mut self, label: &str, case: &Value, answer: Value) {
        let name = case["name"].as_str().unwrap();
        if let Some(expected) = case.get("ids") {
            let items = answer["data"]["items"].as_array().cloned().unwrap_or_default();
            let ids: Vec<_> = items.iter().map(|item| item["id"].clone()).collect();
            assert_eq!(*expected, json!(ids), "{label}, {name}: {answer}");
        }
        let missing = missing(&case["answer"], Some(&answer));
        assert_eq!(missing, None, "{label}, {name}: {answer}");
        self.earlier.insert(name.to_owned(), answer);
    }
}

/// A request with the cursors of earlier answers in the place of `$start` and `$end`.
fn filled(value: &Value, earlier: &Map<String, Value>) -> Value {
    match value {
        Value::Object(members) => {
            let of = |tag, which| {
                let name = members.get(tag)?.as_str()?;
                Some(earlier[name]["data"]["pageInfo"][which].clone())
            };
            let cursor = of("$start", "startCursor").or_else(|| of("$end", "endCursor"));
            cursor.unwrap_or_else(|| {
                members.iter().map(|(name, value)| (name.clone(), filled(value, earlier))).collect()
            })
        }
        Value::Array(values) => values.iter().map(|value| filled(value, earlier)).collect(),
        other => other.clone(),
    }
}

/// What of `expected` is not in `found`.
fn missing(expected: &Value, found: Option<&Value>) -> Option<String> {
    match (expected, found) {
        (Value::String(word), None) if word == "$absent" => None,
        (Value::String(word), Some(Value::String(_))) if word == "$cursor" => None,
        (Value::Object(expected), Some(Value::Object(found))) => {
            expected.iter().find_map(|(name, value)| {
                Some(format!("{name}: {}", missing(value, found.get(name))?))
            })
        }
        (expected, found) => {
            (Some(expected) != found).then(|| format!("{expected} is expected, not {found:?}"))
        }
    }
}
