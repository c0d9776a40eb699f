//! Cuts that are valid by an output schema.

use super::*;

const BUDGET: usize = 10_000;

fn schema(schema: &Value) -> Validator {
    jsonschema::validator_for(schema).unwrap()
}

fn rows(count: usize) -> Value {
    (0..count).map(|id| json!({"id": id, "name": format!("row {id}")})).collect()
}

fn table_schema(rows: Value) -> Value {
    let mut rows = rows;
    rows["type"] = json!("array");
    rows["items"] = json!({
        "type": "object",
        "required": ["id", "name"],
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "required": ["rows", "total"],
        "properties": {"rows": rows, "total": {"type": "integer"}},
        "additionalProperties": false,
    })
}

#[track_caller]
fn refused(outcome: &Outcome) {
    assert_eq!(outcome.shown.get("structuredContent"), None);
    assert_eq!(outcome.shown["isError"], true);
    assert!(outcome.notice().contains("No cut fits the tool's output schema"));
    assert!(outcome.notice().contains("The call was made; do not repeat it."));
}

#[test]
fn a_cut_is_valid() {
    let result = json!({"structuredContent": {"rows": rows(5000), "total": 5000}});
    let outcome = cut_by(&result, BUDGET, Some(&schema(&table_schema(json!({})))));
    assert!(outcome.part().shown > 100);
    assert_eq!(outcome.shown.get("isError"), None);
}

#[test]
fn fewer_items_are_tried() {
    // Not more than eight of the first items are valid together.
    let rule = json!({"maxContains": 8, "contains": {"properties": {"id": {"maximum": 4000}}}});
    let result = json!({"structuredContent": {"rows": rows(5000), "total": 5000}});
    let outcome = cut_by(&result, BUDGET, Some(&schema(&table_schema(rule))));
    assert!((1..=8).contains(&outcome.part().shown), "{}", outcome.part().shown);
    assert_eq!(outcome.shown.get("isError"), None);
}

#[test]
fn no_items_are_the_last_try() {
    let rule = json!({"maxItems": 0});
    let result = json!({"structuredContent": {"rows": rows(5000), "total": 5000}});
    let outcome = cut_by(&result, BUDGET, Some(&schema(&table_schema(rule))));
    assert_eq!(outcome.part().shown, 0);
    assert_eq!(outcome.shown["structuredContent"], json!({"rows": [], "total": 5000}));
}

#[test]
fn if_no_cut_is_valid_the_result_is_an_error_that_says_so() {
    for rule in
        [json!({"minItems": 4000}), json!({"contains": {"properties": {"id": {"const": 4999}}}})]
    {
        let document = json!({"rows": rows(5000), "total": 5000});
        let text = document.to_string();
        let result = json!({
            "content": [{"type": "text", "text": text}],
            "structuredContent": document,
            "isError": false,
        });
        let outcome = cut_by(&result, BUDGET, Some(&schema(&table_schema(rule))));
        refused(&outcome);
        assert_eq!(outcome.shelf.parts.len(), 1);
        // The text is bound by nothing.
        assert!(outcome.bounded.parts[0].shown > 100);
        let said = format!("text and structuredContent, {} of", outcome.bounded.parts[0].shown);
        assert!(outcome.notice().contains(&said), "{}", outcome.notice());
    }
}

#[test]
fn an_item_that_has_to_be_there_is_cut_itself() {
    let rule = json!({
        "type": "object",
        "required": ["items"],
        "properties": {"items": {"type": "array", "minItems": 1, "items": {
            "type": "object", "required": ["id", "text"],
        }}},
    });
    let items = json!([{"id": 1, "text": "x".repeat(30_000)}, {"id": 2, "text": ""}]);
    let result = json!({"structuredContent": {"items": items}});
    let outcome = cut_by(&result, BUDGET, Some(&schema(&rule)));
    assert_eq!(outcome.shown["structuredContent"]["items"][0]["id"], 1);
    assert_eq!(outcome.part().shown, 0);
}

#[test]
fn members_that_have_to_be_there_are_cut_themselves() {
    let names: Vec<_> = (0..60).map(|n| format!("member{n}")).collect();
    let members: serde_json::Map<_, _> =
        names.iter().map(|name| (name.clone(), json!("x".repeat(1000)))).collect();
    let rule = json!({"type": "object", "required": names});
    let outcome = cut_by(&json!({"structuredContent": members}), BUDGET, Some(&schema(&rule)));
    assert_eq!(outcome.shown["structuredContent"].as_object().unwrap().len(), 60);
}

#[test]
fn the_long_text_of_a_document_has_to_be_valid_as_well() {
    let text = "x".repeat(30_000);
    let result = json!({"structuredContent": {"result": text}});
    let string = |rule: Value| json!({"properties": {"result": rule}});
    let outcome = cut_by(&result, BUDGET, Some(&schema(&string(json!({"type": "string"})))));
    assert!(outcome.shown["structuredContent"]["result"].as_str().unwrap().len() > 5000);
    let outcome = cut_by(&result, BUDGET, Some(&schema(&string(json!({"pattern": "^x*$"})))));
    refused(&outcome);
}

#[test]
fn errors_of_the_upstream_are_bound_by_no_schema() {
    let result = json!({"structuredContent": {"trace": rows(5000)}, "isError": true});
    let outcome = cut_by(&result, BUDGET, Some(&schema(&table_schema(json!({})))));
    assert!(outcome.part().shown > 100);
}

#[test]
fn what_is_shown_whole_is_not_looked_at() {
    let text = "x\n".repeat(10_000);
    let result =
        json!({"content": [{"type": "text", "text": text}], "structuredContent": {"odd": 1}});
    let outcome = cut_by(&result, BUDGET, Some(&schema(&table_schema(json!({})))));
    assert_eq!(outcome.shown["structuredContent"], json!({"odd": 1}));
    assert_eq!(outcome.shown.get("isError"), None);
}

#[test]
fn a_result_that_is_held_whole_is_an_error_where_a_schema_wants_content() {
    let rule = schema(&json!({"type": "object"}));
    let large = "x".repeat(20_000);
    let result = format!(r#"{{"content":"{large}","structuredContent":{{}}}}"#);
    refused(&cut_text(&result, BUDGET, Some(&rule), 100));
    let odd = format!(r#"{{"structuredContent":["{large}","\ud800"]}}"#);
    refused(&cut_text(&odd, BUDGET, Some(&rule), 100));
}

proptest! {
    #[test]
    fn what_is_shown_is_valid_or_an_error(
        structured in any_value(),
        required in prop::collection::hash_set("[a-d]", 0..3),
        min_items in 0_u64..4,
        texts in 0_u64..3000,
        budget in 4000_usize..20_000,
    ) {
        let rule = json!({
            "required": required,
            "minItems": min_items,
            "items": {"minItems": min_items, "maxLength": texts},
            "properties": {"a": {"minLength": 3, "minItems": min_items, "maxLength": texts}},
        });
        let result = json!({"content": [], "structuredContent": structured});
        cut_by(&result, budget, Some(&schema(&rule)));
    }
}
