//! Cuts that are valid by an output schema.

use super::*;

const BUDGET: usize = 10_000;

fn schema(schema: &Value) -> Rule {
    Rule::of(schema)
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
    let string = |rule: Value| json!({"properties": {"result": rule}, "required": ["result"]});
    let outcome = cut_by(&result, BUDGET, Some(&schema(&string(json!({"type": "string"})))));
    assert!(outcome.shown["structuredContent"]["result"].as_str().unwrap().len() > 5000);
    let outcome = cut_by(&result, BUDGET, Some(&schema(&string(json!({"pattern": "^x*$"})))));
    refused(&outcome);
}

#[test]
fn what_is_beside_a_long_text_is_held_if_it_is_not_shown() {
    let document = json!({"id": 4711, "status": "created", "body": "line\n".repeat(12_000)});
    let body = |rule: Value| json!({"properties": {"body": rule}, "required": ["body"]});
    let rules = [
        body(json!({"pattern": "^(line\n)*$"})),
        body(json!({"minLength": 50_000})),
        json!({"properties": {"id": {"type": "string"}}, "required": ["id"]}),
        // What a schema is taken for that cannot be used.
        json!(false),
    ];
    let texts = [json!("done"), document["body"].clone(), json!(document.to_string())];
    for (rule, text) in rules.iter().flat_map(|rule| texts.iter().map(move |text| (rule, text))) {
        let result = json!({
            "content": [{"type": "text", "text": text}],
            "structuredContent": document,
        });
        let outcome = cut_by(&result, BUDGET, Some(&schema(rule)));
        refused(&outcome);
        let is_it = |part: &&Part| part.path.to_string() == "/structuredContent";
        let part = outcome.bounded.parts.iter().find(is_it).unwrap();
        assert_eq!((part.kind, part.inside.to_string().as_str()), (JSON, ""));
        assert_eq!(outcome.held(part), document.to_string().as_bytes());
        assert_eq!(restored(&result, &outcome), result);
    }
}

#[test]
fn a_shorter_start_of_the_long_text_is_tried() {
    let document = json!({"id": 4711, "body": "x".repeat(30_000)});
    let rule = json!({
        "properties": {"body": {"type": "string", "minLength": 1, "maxLength": 600}},
        "required": ["id", "body"],
    });
    let result = json!({"content": [], "structuredContent": document});
    let outcome = cut_by(&result, BUDGET, Some(&schema(&rule)));
    assert_eq!(outcome.shown["structuredContent"]["id"], 4711);
    assert_eq!(outcome.shown.get("isError"), None);
    assert_eq!(restored(&result, &outcome), result);
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

/// The result as it was: what is shown, and in its place what is held. Texts that are JSON have no
/// white space, and there is no `_meta`. Whether it is an error may have changed.
fn restored(original: &Value, outcome: &Outcome) -> Value {
    let mut result = outcome.shown.clone();
    let mut parts = outcome.bounded.parts.iter();
    if let Some(whole) = parts.clone().find(|part| part.path.tokens().is_empty()) {
        return serde_json::from_slice(outcome.held(whole)).unwrap();
    }
    let members = result.as_object_mut().unwrap();
    members.remove("_meta");
    members.remove("isError");
    if let Some(is_error) = original.get("isError") {
        members.insert("isError".to_owned(), is_error.clone());
    }
    if !outcome.bounded.parts.is_empty() {
        members["content"].as_array_mut().unwrap().remove(0);
    }
    parts.try_for_each(|part| restore(&mut result, part, outcome.held(part))).unwrap();
    result
}

fn restore(result: &mut Value, part: &Part, held: &[u8]) -> Result<(), String> {
    let held_text = String::from_utf8(held.to_vec()).unwrap();
    let is_text = part.path.tokens().last().is_some_and(|name| name == "text");
    let inside = part.inside.to_string();
    let names = part.path.tokens();
    if let [name] = names {
        // It may not be there at all.
        result.as_object_mut().unwrap().entry(name.as_str()).or_insert(Value::Null);
    }
    let path = part.path.to_string();
    let place = result.pointer_mut(&path).ok_or_else(|| format!("{path} is not there"))?;
    let held = if part.kind == JSON {
        serde_json::from_str(&held_text).unwrap()
    } else {
        Value::from(held_text)
    };
    let value = if inside.is_empty() {
        held
    } else {
        let mut around = match place.as_str().filter(|_| is_text) {
            Some(text) => serde_json::from_str(text).unwrap(),
            None => place.clone(),
        };
        let inner = around.pointer_mut(&inside);
        *inner.ok_or_else(|| format!("what is around {path} {inside} is lost"))? = held;
        around
    };
    let is_quoted = is_text && (part.kind == JSON || !inside.is_empty());
    *place = if is_quoted { value.to_string().into() } else { value };
    Ok(())
}

/// A small document with a text that may be long.
fn any_record() -> impl Strategy<Value = Value> {
    let text = ("[a-zé\n\"]{1,20}", 0_usize..1500).prop_map(|(text, count)| text.repeat(count));
    let small = prop_oneof![
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,30}".prop_map(Value::from),
        prop::collection::vec(any::<bool>(), 0..4).prop_map(Value::from),
    ];
    let members = prop::collection::hash_map("[a-e]", small, 0..5);
    (members, text, any::<bool>()).prop_map(|(members, text, is_deep)| {
        let mut record: Value = json!(members);
        record["body"] = if is_deep { json!({"log": text}) } else { json!(text) };
        record
    })
}

/// Schemas that a document, or its cut, may satisfy or not; the last is for one that is of no use.
fn any_rule() -> impl Strategy<Value = Value> {
    let of_text = prop_oneof![
        Just(json!({})),
        Just(json!({"type": "string"})),
        Just(json!({"type": "array"})),
        Just(json!({"pattern": "^[a-zé\n\"]*$"})),
        (0_u64..20_000).prop_map(|length| json!({"minLength": length})),
        (0_u64..20_000).prop_map(|length| json!({"maxLength": length})),
    ];
    let names = prop::collection::hash_set(prop_oneof![Just("body".to_owned()), "[a-e]"], 0..3);
    let other = prop_oneof![Just(json!({})), Just(json!({"type": "integer"}))];
    let rule = (of_text, names, other, 0_u64..4).prop_map(|(text, names, other, least)| {
        json!({
            "required": names,
            "minProperties": least,
            "properties": {"body": {"allOf": [text], "properties": {"log": text}}, "a": other},
        })
    });
    prop_oneof![6 => rule, 1 => Just(json!(true)), 1 => Just(json!(false))]
}

proptest! {
    #[test]
    fn what_is_not_shown_is_held_whatever_the_schema(
        structured in prop_oneof![3 => any_record(), 1 => any_value()],
        rule in any_rule(),
        text in 0..4,
        more in any_text(),
        budget in 4000_usize..20_000,
    ) {
        let text = match text {
            0 => structured.to_string(),
            1 => structured["body"].as_str().unwrap_or_default().to_owned(),
            2 => json!({"n": 1, "text": more}).to_string(),
            _ => more,
        };
        let result = json!({
            "content": [{"type": "text", "text": text}],
            "structuredContent": structured,
        });
        let outcome = cut_by(&result, budget, Some(&schema(&rule)));
        prop_assert_eq!(restored(&result, &outcome), result);
    }

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
