//! Answers that are as large as they may be, and numbers that are larger than most.

use std::sync::Arc;

use handback_page::FieldPath;
use handback_page::aql::{Catalog, Limits, Settings};
use handback_page::json::{InMemory, JsonCollection, JsonOptions};
use serde_json::{Value, json};

use crate::harness::{Harness, json_collection};

/// The smallest answer that can be configured.
const ANSWER_BYTES: usize = 1_000_000;

fn settings() -> Settings {
    let limits = Limits { response_bytes: ANSWER_BYTES, ..Limits::default() };
    Settings { limits, batch_operations: 1000, ..Settings::default() }
}

fn over(collection: JsonCollection) -> Harness {
    let mut catalog = Catalog::new();
    catalog.add("t", "", Arc::new(collection)).unwrap();
    Harness::over(catalog, settings())
}

fn from_text(json: &'static str, options: JsonOptions) -> Harness {
    over(JsonCollection::open(InMemory::hashed(json), options).unwrap())
}

#[track_caller]
fn bounded(harness: &Harness, request: &Value) -> Value {
    let text = harness.answer(request).to_json();
    assert!(text.len() <= ANSWER_BYTES, "{} bytes", text.len());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_batch_is_bounded_whatever_its_operations_are() {
    let members: serde_json::Map<String, Value> =
        (0..190).map(|n| (format!("{n:03}{}", "x".repeat(60)), "y".repeat(300).into())).collect();
    let items = vec![Value::Object(members); 20];
    let harness = over(json_collection(&json!(items), None));
    let name = "\"\u{10ffff}".repeat(50);
    let unknown: serde_json::Map<String, Value> =
        (0..20).map(|n| (format!("{n}{name}"), 1.into())).collect();
    for operation in [
        json!({"operation": "list_elements", "params": {"element_type": "t", "first": 50}}),
        json!({"operation": "list_elements", "params": {"element_type": "t", "first": 0}}),
        json!({"operation": "get_element", "params": {"element_type": "t", "id": 1}}),
        json!({"operation": "introspect", "params": {"query": "operations"}}),
        json!({"operation": "introspect", "params": {"query": "types", "name": "t"}}),
        json!({"operation": "count_elements", "params": {"element_type": "t"}}),
        json!({"operation": "list_collections"}),
        json!({"operation": "list_elements", "params": unknown}),
        json!({"operation": name}),
        json!(5),
    ] {
        for count in [1, 100, 1000] {
            let request = json!({"operations": vec![&operation; count]});
            if request.to_string().len() > Limits::default().request_bytes {
                continue;
            }
            let answer = bounded(&harness, &request);
            let results = answer["results"].as_array().unwrap();
            assert_eq!(results.len(), count, "{operation}");
            assert_eq!(answer["summary"]["total"], count);
            assert!(results.iter().all(|result| result["result"]["success"].is_boolean()));
        }
    }
}

#[test]
fn a_numbered_page_is_refused_rather_than_cut() {
    let items: Vec<_> = (0..30).map(|n| json!({"n": n, "v": "x".repeat(99_000)})).collect();
    let harness = over(json_collection(&json!(items), None));
    let list = |params: Value| json!({"operation": "list_elements", "element_type": "t", "params": params});
    let answer = bounded(&harness, &list(json!({"page": 1, "page_size": 20})));
    assert_eq!(answer["error"]["code"], "VALIDATION_PAYLOAD_TOO_LARGE");
    assert!(answer["error"]["details"]["hint"].as_str().unwrap().contains("'after'"));
    let mut seen = 0;
    loop {
        let answer = bounded(&harness, &list(json!({"limit": 20, "offset": seen})));
        let (items, pagination) = (&answer["data"]["items"], &answer["data"]["pagination"]);
        let returned = pagination["returned"].as_u64().unwrap();
        assert_eq!(items[0]["n"], seen);
        assert_eq!(items.as_array().unwrap().len() as u64, returned);
        seen += returned;
        assert_eq!(pagination["has_more"], seen < 30);
        if seen == 30 {
            break;
        }
    }
}

#[test]
fn an_element_leaves_room_for_what_is_around_it() {
    let items = json!(["x".repeat(ANSWER_BYTES - 2), "x".repeat(ANSWER_BYTES - 30), "x"]);
    let harness = over(json_collection(&items, None));
    let get = |id: u32| {
        let request = json!({"operation": "get_element", "element_type": "t", "id": id});
        bounded(&harness, &request)
    };
    assert_eq!(get(0)["error"]["code"], "VALIDATION_PAYLOAD_TOO_LARGE");
    assert_eq!(get(1)["error"]["code"], "VALIDATION_PAYLOAD_TOO_LARGE");
    assert_eq!(get(2)["data"], "x");
}

#[test]
fn integers_beyond_64_bits_are_compared_exactly() {
    let harness = from_text(
        r#"[{"id":1,"n":18446744073709551617},{"id":2,"n":18446744073709551616},
            {"id":3,"n":123456789012345678901234567890},{"id":4,"n":1.8446744073709551616e19},
            {"id":5,"n":[18446744073709551617]}]"#,
        JsonOptions::new(),
    );
    let ids = |filter: &str| -> Vec<Value> {
        let answer = harness.ask_text(&format!(
            r#"{{"operation":"list_elements","element_type":"t","params":{{"filter":{{"n":{filter}}}}}}}"#
        ));
        let items = answer["data"]["items"].as_array().unwrap_or_else(|| panic!("{answer}"));
        items.iter().map(|item| item["id"].clone()).collect()
    };
    for (filter, expected) in [
        ("18446744073709551617", &[1][..]),
        (r#"{"$integer":"18446744073709551617"}"#, &[1]),
        ("18446744073709551616", &[2, 4]),
        ("18446744073709551616.0", &[2, 4]),
        (r#"{"gt":18446744073709551616}"#, &[1, 3]),
        (r#"{"lte":{"$integer":"18446744073709551616"}}"#, &[2, 4]),
        (r#"{"in":[123456789012345678901234567890,5]}"#, &[3]),
        (r#"{"contains":18446744073709551617}"#, &[5]),
        (r#"{"contains":18446744073709551616}"#, &[]),
    ] {
        assert_eq!(ids(filter), expected, "{filter}");
    }
    let beyond = harness.ask_text(
        r#"{"operation":"list_elements","element_type":"t","params":{"filter":
            {"n":999999999999999999999999999999999999999999}}}"#,
    );
    assert_eq!(beyond["error"]["details"]["actual_type"], "malformed or too large value");
}

#[test]
fn keys_beyond_64_bits_are_told_apart() {
    let options = JsonOptions::new().with_key(FieldPath::name("id"));
    let harness = from_text(
        r#"[{"id":18446744073709551617,"v":1},{"id":18446744073709551616,"v":0}]"#,
        options,
    );
    let request =
        json!({"operation": "list_elements", "element_type": "t", "params": {"first": 1}});
    let page = harness.ask(&request);
    assert_eq!(page["data"]["items"][0]["v"], 0, "{page}");
    let after = &page["data"]["pageInfo"]["endCursor"];
    let request = json!({"operation": "list_elements", "element_type": "t",
        "params": {"first": 1, "after": after}});
    assert_eq!(harness.ask(&request)["data"]["items"][0]["v"], 1);
    let get = r#"{"operation":"get_element","element_type":"t","id":18446744073709551617}"#;
    assert_eq!(harness.ask_text(get)["data"]["v"], 1);
}

#[test]
fn a_key_in_a_member_is_shown_by_every_preset() {
    let path = FieldPath::from_parts(vec!["a".to_owned(), "b".to_owned()]);
    let harness = from_text(
        r#"[{"a":{"b":2,"c":0},"x":"p"},{"a":{"b":1,"c":0},"x":"q","y":1}]"#,
        JsonOptions::new().with_key(path),
    );
    let first = |params: Value| {
        let request = json!({"operation": "list_elements", "element_type": "t", "params": params});
        harness.ask(&request)["data"]["items"][0].clone()
    };
    for snapshot in [false, true] {
        let minimal = json!({"a": {"b": 1}, "x": "q"});
        assert_eq!(first(json!({"fields": "minimal", "snapshot": snapshot})), minimal);
        let asked = json!({"fields": ["a.b"], "snapshot": snapshot});
        assert_eq!(first(asked), json!({"a": {"b": 1}}));
    }
    let get = json!({"operation": "get_element", "element_type": "t", "id": 2});
    assert_eq!(harness.ask(&get)["data"]["x"], "p");
}

#[test]
fn the_number_of_an_element_is_a_number_however_it_is_written() {
    let harness = over(json_collection(&json!(["a", "b"]), None));
    let get = |id: Value| {
        harness.ask(&json!({"operation": "get_element", "element_type": "t", "id": id}))
    };
    for id in [json!(1), json!(1.0), json!({"$integer": "1"})] {
        assert_eq!(get(id)["data"], "b");
    }
    for id in [json!(2), json!(1e300), json!({"$integer": "99999999999999999999999"})] {
        assert_eq!(get(id)["error"]["code"], "NOT_FOUND_RESOURCE");
    }
    for id in [json!(-1), json!(0.5), json!("0"), json!(true), json!({"a": 1})] {
        assert_eq!(get(id)["error"]["code"], "VALIDATION_INVALID_TYPE");
    }
}

#[test]
fn lines_show_the_fields_that_are_asked_for() {
    let harness = Harness::new();
    let items = |params| harness.page("list_elements", "text", params)["items"].clone();
    assert_eq!(items(json!({"fields": ["line"], "first": 1})), json!([{"line": 1}]));
    assert_eq!(items(json!({"fields": [], "first": 1})), json!([{}]));
    let get = json!({"operation": "get_element", "element_type": "text",
        "params": {"id": 2, "fields": ["text"]}});
    assert_eq!(harness.ask(&get)["data"], json!({"text": "Two"}));
}

#[test]
fn a_search_without_words_finds_everything() {
    let harness = Harness::new();
    let page = harness.page("search_elements", "text", json!({"query": " \t "}));
    assert_eq!(page["pageInfo"]["totalCount"], 3);
}

#[test]
fn one_fault_is_told_in_the_order_of_the_specification() {
    let harness = Harness::new();
    let many: Vec<_> = (0..9).map(|n| json!({"field": format!("f{n}")})).collect();
    let tests: Vec<_> = (0..256).map(|n| json!({"nope": n})).collect();
    let words: Vec<_> = (0..33).map(|n| format!("w{n}")).collect();
    let words = words.join(" ");
    for (params, told) in [
        // Size, before all others.
        (json!({"sort": many, "filter": {"nope": 1}, "first": "x"}), "sort_keys"),
        (json!({"filter": {"or": tests}, "first": 1, "last": 1}), "filter_nodes"),
        (json!({"fields": vec!["x"; 257], "filter": {"nope": 1}}), "array_elements"),
        // Then types, ranges and combinations.
        (json!({"first": "x", "filter": {"line": "x"}}), "first"),
        (json!({"first": 1, "last": 1, "filter": {"line": "x"}}), "pagination"),
        (json!({"fields": "all", "filter": {"nope": 1}}), "fields"),
        // Then types inside of them, then names.
        (json!({"filter": {"nope": 1, "line": "x"}, "sort": {"field": "nope"}}), "filter.line"),
        (json!({"filter": {"nope": 1}, "sort": {"field": "nor", "order": "up"}}), "sort.order"),
        (json!({"sort": [{"field": "nope"}, {"field": "line", "nulls": 1}]}), "sort.nulls"),
        (json!({"filter": {"nope": 1}, "sort": {"field": "nor"}}), "filter.nope"),
        (json!({"sort": {"field": "nor"}, "first": 1, "after": "x"}), "sort.field"),
        (json!({"sort": {"field": "text"}, "first": 1, "after": "x"}), "after"),
    ] {
        let request =
            json!({"operation": "list_elements", "element_type": "text", "params": params});
        let details = harness.ask(&request)["error"]["details"].clone();
        let found = details.get("limit_type").unwrap_or_else(|| &details["param_name"]);
        assert_eq!(found, told, "{params}");
    }
    let request = json!({"operation": "search_elements", "params": {"query": words}});
    assert_eq!(harness.ask(&request)["error"]["details"]["limit_type"], "search_words");
}

#[test]
fn fourteen_lists_fit_into_each_other() {
    let harness = Harness::new();
    let nested = |levels| (0..levels).fold(json!({"n": 7}), |inner, _| json!({"and": [inner]}));
    assert_eq!(harness.list(json!({"filter": nested(14)}))["items"][0]["n"], 7);
    let details = harness.refused(json!({"filter": nested(15)}))["details"].clone();
    assert_eq!(
        (&details["limit_type"], &details["limit_value"]),
        (&json!("nesting_depth"), &json!(32))
    );
    let nots = |levels| (0..levels).fold(json!({"n": 7}), |inner, _| json!({"not": inner}));
    assert_eq!(harness.list(json!({"filter": nots(14)}))["items"][0]["n"], 7);
    let details = harness.refused(json!({"filter": nots(16)}))["details"].clone();
    assert_eq!(
        (&details["limit_type"], &details["limit_value"]),
        (&json!("nesting_depth"), &json!(16))
    );
}
