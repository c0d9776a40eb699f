//! Any JSON as a filter is refused, or matches and does not match the same items as its double
//! negation.
#![no_main]

use handback_fuzz::pages::ask;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fn count(filter: &Value) -> Option<u64> {
    let request = json!({
        "operation": "count_elements",
        "element_type": "items",
        "params": {"filter": filter},
    });
    let answer: Value = serde_json::from_str(&ask(request.to_string().as_bytes())).ok()?;
    answer["data"]["count"].as_u64()
}

fuzz_target!(|data: &[u8]| {
    let Ok(filter) = serde_json::from_slice::<Value>(data) else { return };
    let Some(found) = count(&filter) else { return };
    if let Some(others) = count(&json!({"not": filter})) {
        assert_eq!(found + others, 5, "two truth values: {filter}");
    }
});
