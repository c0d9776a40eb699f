//! The other operations, batches, limits, and the words of every message.

use std::sync::Arc;

use handback_page::aql::{Catalog, Endpoint, Limits, Settings};
use serde_json::{Value, json};

use crate::harness::{Harness, json_collection};

#[test]
fn get_reads_one_element_by_key_or_number() {
    let harness = Harness::new();
    let get = |collection: &str, id: Value| {
        harness.ask(
            &json!({"operation": "get_element", "element_type": collection, "params": {"id": id}}),
        )
    };
    assert_eq!(get("items", json!("e_007"))["data"]["n"], 7);
    assert_eq!(get("people", json!(1))["data"]["name"], "Grace");
    assert_eq!(get("text", json!(2))["data"], json!({"line": 2, "text": "Two"}));
    for (collection, id) in
        [("items", json!("e_999")), ("people", json!(99)), ("text", json!(0)), ("items", json!(7))]
    {
        let answer = get(collection, id);
        assert_eq!(answer["error"]["code"], "NOT_FOUND_RESOURCE", "{answer}");
        assert_eq!(answer["error"]["details"]["resource_type"], "element");
    }
    for (collection, id) in [
        ("people", json!("x")),
        ("people", json!(-1)),
        ("text", json!("2")),
        ("text", json!({"a": 1})),
    ] {
        let answer = get(collection, id);
        assert_eq!(answer["error"]["code"], "VALIDATION_INVALID_TYPE", "{answer}");
        assert_eq!(answer["error"]["details"]["param_name"], "id");
    }
    let request = json!({
        "operation": "get_element",
        "element_type": "people",
        "params": {"id": 0, "fields": ["name"]},
    });
    assert_eq!(harness.ask(&request)["data"], json!({"name": "Ada"}));
}

#[test]
fn count_counts_what_matches() {
    let harness = Harness::new();
    let count = |collection: &str, params: Value| {
        let request =
            json!({"operation": "count_elements", "element_type": collection, "params": params});
        harness.ask(&request)["data"].clone()
    };
    assert_eq!(count("items", json!({})), json!({"count": 45}));
    assert_eq!(count("items", json!({"filter": {"even": true}})), json!({"count": 23}));
    assert_eq!(count("text", json!({"query": "TWO"})), json!({"count": 2}));
    assert_eq!(count("empty", json!({})), json!({"count": 0}));
}

#[test]
fn search_finds_any_of_the_words_in_either_case() {
    let harness = Harness::new();
    let search = |collection: &str, query: &str| {
        let data = harness.page("search_elements", collection, json!({"query": query}));
        data["items"].as_array().unwrap().len()
    };
    assert_eq!(search("text", "two"), 2);
    assert_eq!(search("text", "ONE three"), 2);
    assert_eq!(search("people", "london ARLING"), 2);
    assert_eq!(search("people", "nobody"), 0);
    assert_eq!(search("people", "  "), 5);
}

#[test]
fn a_batch_answers_in_order_and_goes_on_after_a_failure() {
    let harness = Harness::new();
    let answer = harness.ask(&json!({"operations": [
        {"operation": "count_elements", "params": {"element_type": "items"}},
        {"operation": "nope"},
        {"operation": "list_elements", "params": {"element_type": "items", "first": 5000}},
        {"operation": "list_elements", "params": {"element_type": "items", "stream": true}},
        17,
    ]}));
    assert_eq!(answer["success"], true);
    assert_eq!(answer["data"], Value::Null);
    assert_eq!(answer["summary"], json!({"total": 5, "succeeded": 2, "failed": 3}));
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results[0]["result"], json!({"success": true, "data": {"count": 45}}));
    assert_eq!(results[1]["result"]["error"]["code"], "NOT_FOUND_OPERATION");
    assert_eq!(results[2]["result"]["data"]["items"].as_array().unwrap().len(), 45);
    assert!(results[2]["result"].get("warnings").is_none());
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result["index"], index);
        assert!(result["operation"].is_string());
    }
    for request in [
        json!({"operations": []}),
        json!({"operations": {}}),
        json!({"operations": vec![json!({"operation": "introspect"}); 101]}),
        json!({"operations": [{"operation": "introspect"}], "zz": 1}),
    ] {
        let answer = harness.ask(&request);
        assert_eq!(answer["success"], false);
        assert!(answer["error"].get("details").is_none(), "{answer}");
    }
}

#[test]
fn another_endpoint_is_refused() {
    let mut harness = Harness::new();
    harness.endpoint = Endpoint::Delete;
    let answer = harness.ask(&json!({"operation": "list_elements", "element_type": "items"}));
    assert_eq!(answer["error"]["code"], "VALIDATION_ENDPOINT_MISMATCH");
    assert_eq!(
        answer["error"]["details"],
        json!({
            "operation": "list_elements",
            "expected_endpoint": "read",
            "actual_endpoint": "delete",
        })
    );
}

#[test]
fn nothing_is_derived_where_nothing_is_held() {
    let mut harness = Harness::new();
    let handle = handback_token::Handle::from_bytes([7; 16]).to_string();
    let mut derive = json!({
        "operation": "derive_element",
        "element_type": handle,
        "params": {"edits": {"old": "a", "new": "b"}},
    });
    let answer = harness.ask(&derive);
    assert_eq!(answer["error"]["code"], "VALIDATION_ENDPOINT_MISMATCH");
    assert_eq!(answer["error"]["details"]["expected_endpoint"], "create");
    harness.endpoint = Endpoint::Create;
    assert_eq!(harness.ask(&derive)["error"]["code"], "NOT_FOUND_RESOURCE");
    derive["element_type"] = "items".into();
    let error = harness.ask(&derive)["error"].clone();
    assert_eq!(
        error["message"],
        "Parameter 'element_type' expected 'handle of a held value', got 'other name'"
    );
    let read = harness.ask(&json!({"operation": "list_elements", "element_type": "items"}));
    assert_eq!(read["error"]["code"], "VALIDATION_ENDPOINT_MISMATCH");
}

#[test]
fn a_page_that_is_too_large_is_cut_at_an_item_and_goes_on() {
    use std::sync::Arc;

    use handback_page::aql::Catalog;

    let big = |n: usize| json!({"id": format!("e_{n:03}"), "body": "x".repeat(200_000)});
    let items: Vec<_> = (0..12).map(big).collect();
    let mut catalog = Catalog::new();
    let collection = json_collection(&json!(items), Some("id"));
    catalog.add("items", "", Arc::new(collection)).unwrap();
    let limits = Limits { response_bytes: 1_000_000, ..Limits::default() };
    let harness = Harness::over(catalog, Settings { limits, ..Settings::default() });
    let mut met = Vec::new();
    let mut params = json!({"first": 10});
    loop {
        let request =
            json!({"operation": "list_elements", "element_type": "items", "params": params});
        let text = harness.answer(&request).to_json();
        assert!(text.len() <= 1_000_000, "{}", text.len());
        let answer: Value = serde_json::from_str(&text).unwrap();
        let shown = answer["data"]["items"].as_array().unwrap();
        met.extend(shown.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        let info = &answer["data"]["pageInfo"];
        if info["hasNextPage"] == false {
            break;
        }
        assert_eq!(answer["warnings"][0]["code"], "VALIDATION_TRUNCATED_WARNING");
        params["after"] = info["endCursor"].clone();
    }
    assert_eq!(met, (0..12).map(|n| format!("e_{n:03}")).collect::<Vec<_>>());
    let back = harness.list(json!({"last": 10}));
    let shown = back["items"].as_array().unwrap();
    assert_eq!(shown.last().unwrap()["id"], "e_011");
    assert_eq!(back["pageInfo"]["hasPreviousPage"], true);
    assert_eq!(back["pageInfo"]["hasNextPage"], false);
}

#[test]
fn one_item_that_is_too_large_is_an_error() {
    use std::sync::Arc;

    use handback_page::aql::Catalog;

    let items = json!([{"id": "e_000", "body": "x".repeat(1_500_000)}]);
    let mut catalog = Catalog::new();
    let collection = json_collection(&items, Some("id"));
    catalog.add("items", "", Arc::new(collection)).unwrap();
    let limits = Limits { response_bytes: 1_000_000, ..Limits::default() };
    let harness = Harness::over(catalog, Settings { limits, ..Settings::default() });
    let error = harness.refused(json!({}));
    assert_eq!(error["code"], "VALIDATION_PAYLOAD_TOO_LARGE");
    assert_eq!(error["details"]["limit_type"], "response_size");
    assert_eq!(error["details"]["limit_value"], 1_000_000);
    assert!(error["details"]["actual_value"].as_u64().is_none_or(|actual| actual > 1_000_000));
    assert_eq!(harness.list(json!({"fields": ["id"]}))["items"], json!([{"id": "e_000"}]));
}

/// Requests that fail in every way there is.
fn failing() -> Vec<Value> {
    let list = |params: Value| json!({"operation": "list_elements", "element_type": "text", "params": params});
    let mut requests = vec![
        json!(17),
        json!({}),
        json!({"operation": 1}),
        json!({"operation": "nope"}),
        json!({"operation": "list_elements"}),
        json!({"operation": "list_elements", "element_type": "nope"}),
        json!({"operation": "list_elements", "params": 1}),
        json!({"operation": "get_element", "element_type": "text", "params": {"id": 99}}),
        json!({"operation": "get_element", "element_type": "text", "params": {"id": "x"}}),
        json!({"operation": "introspect", "params": {"query": "x"}}),
        json!({"operations": 1}),
    ];
    let bad = [
        json!({"first": -1}),
        json!({"first": 2.5}),
        json!({"first": "10"}),
        json!({"after": "x"}),
        json!({"before": "x"}),
        json!({"after": "x", "before": "y"}),
        json!({"first": 1, "last": 1}),
        json!({"first": 1, "before": "x"}),
        json!({"last": 1, "after": "x"}),
        json!({"first": 1, "after": "!!bad!!"}),
        json!({"last": 1, "before": "!!bad!!"}),
        json!({"first": 1, "page": 1}),
        json!({"page": 0}),
        json!({"stream": true, "last": 1}),
        json!({"stream": true, "poll_interval_ms": 1}),
        json!({"poll_interval_ms": 1000}),
        json!({"snapshot": true, "offset": 1}),
        json!({"sort": {}}),
        json!({"sort": {"field": "nope"}}),
        json!({"sort": {"field": "line", "order": "x"}}),
        json!({"sort": {"field": "line", "nulls": "x"}}),
        json!({"filter": {"nope": 1}}),
        json!({"filter": {"line": "x"}}),
        json!({"filter": {"line": {"nope": 1}}}),
        json!({"filter": {"and": 1}}),
        json!({"filter": {"line": {"in": vec![1; 1001]}}}),
        json!({"fields": "nope"}),
        json!({"fields": vec!["x"; 300]}),
        json!({"sort": vec![json!({"field": "line"}); 9]}),
        json!({"zz_unknown": 1}),
        json!({"preset": "nope"}),
    ];
    requests.extend(bad.into_iter().map(list));
    requests
}

/// What the specification's suite takes for leaks, and what would be one here.
fn leaks(message: &str) -> Option<String> {
    let lower = message.to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let at = words.iter().take(words.len().saturating_sub(1)).find(|word| word.ends_with("at"));
    let parts = [
        "typeerror",
        "referenceerror",
        "syntaxerror",
        "/src/",
        "/node_modules/",
        ".ts:",
        ".js:",
        "panicked",
        ".rs",
        "handback",
        "serde",
        "select ",
        "::",
        "line ",
        "option",
    ];
    at.map(|word| (*word).to_owned())
        .or_else(|| parts.iter().find(|part| lower.contains(*part)).map(|part| (*part).to_owned()))
}

#[test]
fn no_message_leaks_or_reads_like_a_stack_trace() {
    let harness = Harness::new();
    for request in failing() {
        let answer = harness.ask(&request);
        assert_eq!(answer["success"], false, "{request}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert_eq!(leaks(message), None, "{message}");
        let hint = answer["error"]["details"]["hint"].as_str().unwrap_or_default();
        assert_eq!(leaks(hint), None, "{hint}");
    }
    assert!(leaks("must be at least 1").is_some());
    assert!(leaks("Invalid cursor format for x").is_some());
}

#[test]
fn bytes_that_are_no_request_are_refused() {
    let harness = Harness::new();
    let mut rng = rand::rng();
    for (bytes, code) in [
        (&b"\xff"[..], "VALIDATION_INVALID_ENCODING"),
        (b"", "VALIDATION_INVALID_TYPE"),
        (b"{\"operation\":\"introspect\",\"operation\":\"introspect\"}", "VALIDATION_INVALID_TYPE"),
        (&b"[".repeat(100), "VALIDATION_PAYLOAD_TOO_LARGE"),
        (&b" ".repeat(1_000_001), "VALIDATION_PAYLOAD_TOO_LARGE"),
    ] {
        let answer =
            harness.engine.answer_bytes(&harness.call(), bytes, &mut rng).answer().unwrap();
        assert_eq!(answer.failure().unwrap().code().as_str(), code);
    }
}

#[test]
fn a_batch_has_the_limit_of_one_answer() {
    use std::sync::Arc;

    use handback_page::aql::Catalog;

    let items = json!([{"id": "e_000", "body": "x".repeat(400_000)}]);
    let mut catalog = Catalog::new();
    catalog.add("items", "", Arc::new(json_collection(&items, Some("id")))).unwrap();
    let limits = Limits { response_bytes: 1_000_000, ..Limits::default() };
    let harness = Harness::over(catalog, Settings { limits, ..Settings::default() });
    for operation in ["get_element", "list_elements"] {
        let mut params = json!({"element_type": "items"});
        if operation == "get_element" {
            params["id"] = "e_000".into();
        }
        let one = json!({"operation": operation, "params": params});
        let text = harness.answer(&json!({"operations": vec![one; 20]})).to_json();
        assert!(text.len() <= 1_000_000, "{}", text.len());
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["summary"], json!({"total": 20, "succeeded": 2, "failed": 18}));
    }
}

fn by_pointer(harness: &Harness, collection: &str, params: Value) -> Value {
    harness.ask(&json!({"operation": "get_element", "element_type": collection, "params": params}))
}

#[test]
fn a_value_is_read_by_its_pointer() {
    let harness = Harness::new();
    let at = |pointer: &str| by_pointer(&harness, "items", json!({"pointer": pointer}));
    assert_eq!(at("/17/id")["data"], "e_017");
    assert_eq!(at("/1/half")["data"], Value::Null);
    assert_eq!(at("/44")["data"]["n"], 44);
    assert_eq!(at("")["data"].as_array().unwrap().len(), 45);
    for pointer in ["/45", "/0/nope", "/-", "/0/id/0"] {
        let answer = at(pointer);
        assert_eq!(answer["error"]["code"], "NOT_FOUND_RESOURCE", "{answer}");
        assert_eq!(answer["error"]["details"]["resource_id"], pointer);
    }
    let answer = at("17");
    assert_eq!(answer["error"]["details"]["param_name"], "pointer", "{answer}");
    assert_eq!(answer["error"]["details"]["expected_type"], "JSON pointer");
    // Text has only the whole.
    let text = |pointer: &str| by_pointer(&harness, "text", json!({"pointer": pointer}));
    assert_eq!(text("")["data"], "one\nTwo\nthree two\n");
    assert_eq!(text("/0")["error"]["code"], "NOT_FOUND_RESOURCE");
}

#[test]
fn a_pointer_goes_alone() {
    let harness = Harness::new();
    for params in [
        json!({"pointer": "/1", "id": 1}),
        json!({"pointer": "/1", "fields": ["id"]}),
        json!({"pointer": "/1", "preset": "full"}),
    ] {
        let answer = by_pointer(&harness, "items", params.clone());
        assert_eq!(answer["error"]["code"], "VALIDATION_INVALID_TYPE", "{params}");
        assert!(answer["error"]["details"]["hint"].is_string(), "{answer}");
    }
    let answer = by_pointer(&harness, "items", json!({}));
    assert_eq!(answer["error"]["details"]["param_name"], "id", "{answer}");
    assert_eq!(answer["error"]["code"], "VALIDATION_MISSING_PARAM");
}

#[test]
fn a_value_that_is_too_large_is_read_in_pieces() {
    let long = "ä\"\n".repeat(500_000);
    let items = json!([{"body": long, "list": vec!["x".repeat(1000); 2000]}]);
    let mut catalog = Catalog::new();
    catalog.add("items", "", Arc::new(json_collection(&items, None))).unwrap();
    let limits = Limits { response_bytes: 1_000_000, ..Limits::default() };
    let harness = Harness::over(catalog, Settings { limits, ..Settings::default() });
    let expected = items[0]["body"].to_string();
    let answer = by_pointer(&harness, "items", json!({"pointer": "/0/body"}));
    let details = &answer["error"]["details"];
    assert_eq!(answer["error"]["code"], "VALIDATION_PAYLOAD_TOO_LARGE", "{answer}");
    assert_eq!(details["actual_value"], expected.len(), "{answer}");
    assert_eq!((&details["kind"], &details["limit_value"]), (&json!("string"), &json!(1_000_000)));
    assert_eq!(
        details["hint"],
        "Ask once more to read its text in pieces with 'from' and 'length'"
    );
    let (mut text, mut params) = (String::new(), json!({"pointer": "/0/body", "from": 0}));
    loop {
        let piece = by_pointer(&harness, "items", params.clone())["data"].clone();
        assert_eq!((&piece["from"], &piece["bytes"]), (&json!(text.len()), &json!(expected.len())));
        text.push_str(piece["text"].as_str().unwrap());
        match piece.get("next") {
            Some(next) => params["from"] = next.clone(),
            None => break,
        }
        // As long as fits, for once.
        params["length"] = if text.len() % 3 == 0 { json!(u64::MAX) } else { json!(1000) };
    }
    assert!(text == expected);
    let list = by_pointer(&harness, "items", json!({"pointer": "/0/list"}));
    assert_eq!(list["error"]["details"]["kind"], "array", "{list}");
}

#[test]
fn an_element_is_read_in_pieces_by_its_key() {
    let harness = Harness::new();
    let whole = by_pointer(&harness, "items", json!({"id": "e_007"}))["data"].clone();
    for fields in [json!(null), json!(["n", "id"])] {
        let mut params = json!({"id": "e_007", "fields": fields, "from": 0, "length": 7});
        let mut text = String::new();
        loop {
            let piece = by_pointer(&harness, "items", params.clone())["data"].clone();
            assert_eq!((&piece["kind"], &piece["from"]), (&json!("object"), &json!(text.len())));
            text.push_str(piece["text"].as_str().unwrap());
            match piece.get("next") {
                Some(next) => params["from"] = next.clone(),
                None => break,
            }
        }
        let expected = match fields {
            Value::Null => whole.clone(),
            _ => json!({"id": "e_007", "n": 7}),
        };
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    }
    let none = by_pointer(&harness, "items", json!({"id": "e_999", "from": 0}));
    assert_eq!(none["error"]["code"], "NOT_FOUND_RESOURCE", "{none}");
}
