//! `vectors/pagination-v1.json`, through the tools on the pipeline.

use std::sync::Arc;

use handback_page::aql::{Catalog, Mode, Settings};
use handback_page::json::{InMemory, JsonCollection, JsonOptions};
use handback_page::{Collection, FieldPath};
use handback_store::held::HeldOptions;
use handback_tool::Registry;
use serde_json::{Map, Value, json};

use crate::bench::{Bench, alice};

const VECTORS: &str = include_str!("../../../../vectors/pagination-v1.json");

fn collection(value: &Value, key: Option<&str>) -> Arc<dyn Collection> {
    let options =
        key.map_or_else(JsonOptions::new, |key| JsonOptions::new().with_key(FieldPath::name(key)));
    Arc::new(JsonCollection::open(InMemory::hashed(value.to_string()), options).unwrap())
}

/// The collections that the vectors are about.
fn catalog() -> Catalog {
    let item = |n: u64| {
        let half = if n.is_multiple_of(2) { json!(n / 2) } else { Value::Null };
        let even = n.is_multiple_of(2);
        json!({"id": format!("e_{n:03}"), "n": n, "group": n % 3, "even": even, "half": half})
    };
    let items: Vec<_> = (0..45).map(item).collect();
    let people = json!([
        {"name": "Ada", "age": 36, "address": {"city": "London"}, "tags": ["math", "admin"]},
        {"name": "Grace", "age": 85, "address": {"city": "Arlington"}, "tags": []},
        {"name": "Edsger", "age": null, "address": {"city": "Nuenen"}, "tags": ["admin"]},
        {"name": "Barbara", "address": null},
        {"name": "alan", "age": 41.5, "address": {"city": "Wilmslow"}, "tags": ["math"]},
    ]);
    let mut catalog = Catalog::new();
    catalog.add("items", "", collection(&json!(items), Some("id"))).unwrap();
    catalog.add("people", "", collection(&people, None)).unwrap();
    catalog.add("empty", "", collection(&json!([]), None)).unwrap();
    catalog
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

#[tokio::test]
async fn every_vector_holds_through_both_tools() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let settings = Settings { mode: Mode::All, ..Settings::default() };
    let bench = Bench::with(Registry::new(), catalog(), settings, HeldOptions::new());
    let cases = vectors["cases"].as_array().unwrap();
    assert!(cases.len() > 60, "{} cases", cases.len());
    for tool in ["mcp_aql_read", "mcp_aql"] {
        let mut earlier = Map::new();
        for case in cases {
            let name = case["name"].as_str().unwrap();
            let text = bench.text(alice(), tool, filled(&case["request"], &earlier)).await;
            let answer: Value = serde_json::from_str(&text).unwrap();
            if let Some(expected) = case.get("ids") {
                let items = answer["data"]["items"].as_array().cloned().unwrap_or_default();
                let ids: Vec<_> = items.iter().map(|item| item["id"].clone()).collect();
                assert_eq!(*expected, json!(ids), "{tool}, {name}: {answer}");
            }
            let missing = missing(&case["answer"], Some(&answer));
            assert_eq!(missing, None, "{tool}, {name}: {answer}");
            earlier.insert(name.to_owned(), answer);
        }
    }
}
