//! Answers to clients that take so much at once and no more.

use std::sync::Arc;

use handback_page::TextCollection;
use handback_page::aql::{Catalog, Settings};
use handback_page::json::InMemory;
use serde_json::{Value, json};

use crate::harness::{Harness, json_collection};

/// The smallest budget that a client can have, and the one that it has unless told otherwise.
const BUDGETS: [usize; 2] = [4 << 10, 40 << 10];

/// An item in ten is larger than the budget.
fn items(budget: usize) -> Vec<Value> {
    let text = |n: usize| "\"ä\\\n".repeat(if n % 10 == 3 { budget / 6 } else { n % 7 * 20 });
    (0..30).map(|n| json!({"id": n, "name": format!("item {n}"), "body": text(n)})).collect()
}

fn harness(budget: usize) -> Harness {
    let mut catalog = Catalog::new();
    let items = items(budget);
    let lines: Vec<_> = items.iter().map(Value::to_string).collect();
    let text = TextCollection::open(InMemory::hashed(lines.join("\n"))).unwrap();
    catalog.add("numbered", "", Arc::new(json_collection(&json!(items), None))).unwrap();
    catalog.add("keyed", "", Arc::new(json_collection(&json!(items), Some("id")))).unwrap();
    catalog.add("lines", "", Arc::new(text)).unwrap();
    let settings = Settings { max_page_size: 1000, ..Settings::default() };
    Harness { budget_bytes: Some(budget), ..Harness::over(catalog, settings) }
}

/// The answer, which is within the budget as MCP carries it.
#[track_caller]
fn ask(harness: &Harness, request: &Value) -> Value {
    let text = harness.answer(request).to_json();
    let carried = Value::from(text.as_str()).to_string().len() - 2;
    let budget = harness.budget_bytes.unwrap();
    assert!(carried <= budget, "{carried} bytes for {budget}: {request}");
    serde_json::from_str(&text).unwrap()
}

fn list(name: &str, params: &Value) -> Value {
    json!({"operation": "list_elements", "element_type": name, "params": params})
}

/// The whole of an item, which may have to be read on.
#[track_caller]
fn whole(harness: &Harness, item: &Value) -> Value {
    let Some(shown) = item.get("$excerpt") else { return item.clone() };
    let mut text = shown["text"].as_str().unwrap().to_owned();
    assert!(!text.is_empty(), "{item}");
    let mut request = shown["read_on"].clone();
    loop {
        let answer = ask(harness, &request);
        let piece = &answer["data"];
        assert_eq!(piece["from"], text.len(), "{answer}");
        text.push_str(piece["text"].as_str().unwrap());
        match piece.get("next") {
            Some(next) => request["params"]["from"] = next.clone(),
            None => break,
        }
    }
    assert_eq!(shown["bytes"], text.len());
    serde_json::from_str(&text).unwrap()
}

/// Every item of a walk, and whether one was shown in part.
#[track_caller]
fn walk(harness: &Harness, name: &str, mut params: Value) -> (Vec<Value>, bool) {
    let (way, side, flag) = match params.get("last") {
        Some(_) => ("before", "startCursor", "hasPreviousPage"),
        None => ("after", "endCursor", "hasNextPage"),
    };
    let (mut all, mut in_part) = (Vec::new(), false);
    loop {
        let answer = ask(harness, &list(name, &params));
        let (data, warnings) = (&answer["data"], answer["warnings"].to_string());
        let shown = data.get("items").or_else(|| data.get("edges")).unwrap_or(&Value::Null);
        let shown = shown.as_array().unwrap_or_else(|| panic!("{answer}"));
        assert!(!shown.is_empty(), "{answer}");
        let node = |item: &Value| item.get("node").unwrap_or(item).clone();
        let page: Vec<_> = shown.iter().map(|item| whole(harness, &node(item))).collect();
        let has_excerpt = shown.iter().any(|item| node(item).get("$excerpt").is_some());
        assert_eq!(warnings.contains("shown in part"), has_excerpt, "{warnings}");
        in_part |= has_excerpt;
        all = if way == "after" { [all, page].concat() } else { [page, all].concat() };
        if data["pageInfo"][flag] == false {
            assert!(!warnings.contains("truncated to"), "{warnings}");
            return (all, in_part);
        }
        assert!(warnings.contains(&format!("'{way}'")), "it says how to go on: {answer}");
        params[way] = data["pageInfo"][side].clone();
    }
}

#[test]
fn a_walk_meets_every_item_once_whatever_the_budget() {
    for budget in BUDGETS {
        let (harness, items) = (harness(budget), items(budget));
        for name in ["numbered", "keyed"] {
            for params in [
                json!({"first": 1000}),
                json!({"first": 1000, "include_edges": true}),
                json!({"last": 1000}),
                json!({"first": 1000, "sort": {"field": "name"}}),
            ] {
                let (mut all, in_part) = walk(&harness, name, params.clone());
                assert!(in_part, "{name} {params}");
                all.sort_by_key(|item| item["id"].as_u64());
                assert!(all == items, "{name} {params}");
            }
        }
        let (lines, in_part) = walk(&harness, "lines", json!({"first": 1000}));
        let numbers: Vec<_> = lines.iter().map(|line| line["line"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=30).collect::<Vec<_>>());
        let same = |(line, item): (&Value, &Value)| {
            let text = item.to_string();
            line["text"] == text
        };
        assert!(in_part && lines.iter().zip(&items).all(same));
    }
}

#[test]
fn what_is_left_out_of_items_needs_no_room() {
    let (harness, items) = (harness(BUDGETS[1]), items(BUDGETS[1]));
    let answer =
        ask(&harness, &list("numbered", &json!({"first": 1000, "fields": ["id", "name"]})));
    assert_eq!(answer["data"]["items"].as_array().unwrap().len(), 30, "{answer}");
    assert!(answer.get("warnings").is_none(), "{answer}");
    // What is chosen and too large is read on with the same choice.
    let (all, in_part) = walk(&harness, "keyed", json!({"first": 1000, "fields": ["body"]}));
    assert!(in_part);
    assert!(all.iter().zip(&items).all(|(item, whole)| *item == json!({"body": whole["body"]})));
}

#[test]
fn an_element_that_is_too_large_comes_as_a_piece_and_says_how_to_go_on() {
    for budget in BUDGETS {
        let (harness, items) = (harness(budget), items(budget));
        for (name, params, expected) in [
            ("numbered", json!({"id": 13}), items[13].clone()),
            ("keyed", json!({"id": 13}), items[13].clone()),
            ("numbered", json!({"pointer": "/13"}), items[13].clone()),
            ("numbered", json!({"pointer": "/13/body"}), items[13]["body"].clone()),
            ("numbered", json!({"pointer": ""}), json!(items)),
        ] {
            let get = json!({"operation": "get_element", "element_type": name, "params": params});
            let answer = ask(&harness, &get);
            assert_eq!(answer["warnings"][0]["code"], "VALIDATION_TRUNCATED_WARNING", "{answer}");
            assert!(answer["data"]["$excerpt"]["text"].as_str().unwrap().len() > 200, "{answer}");
            assert!(whole(&harness, &answer["data"]) == expected, "{name} {params}");
        }
        let get = json!({"operation": "get_element", "element_type": "numbered", "id": 2});
        assert_eq!(ask(&harness, &get)["data"], items[2], "it fits");
    }
}

#[test]
fn offsets_go_on_where_a_page_was_cut_and_numbers_are_refused() {
    let (harness, items) = (harness(BUDGETS[1]), items(BUDGETS[1]));
    let mut all = Vec::new();
    loop {
        let page = json!({"limit": 1000, "offset": all.len()});
        let answer = ask(&harness, &list("numbered", &page));
        let shown = answer["data"]["items"].as_array().unwrap();
        all.extend(shown.iter().map(|item| whole(&harness, item)));
        if answer["data"]["pagination"]["has_more"] == false {
            break;
        }
    }
    assert!(all == items);
    let answer = ask(&harness, &list("numbered", &json!({"page": 1, "page_size": 30})));
    let details = &answer["error"]["details"];
    assert_eq!(
        (&details["limit_type"], &details["limit_value"]),
        (&json!("response_size"), &json!(40_960))
    );
}

#[test]
fn of_a_batch_the_first_operations_are_made_and_the_others_named() {
    for budget in BUDGETS {
        let (harness, items) = (harness(budget), items(budget));
        let get =
            |id: usize| json!({"operation": "get_element", "element_type": "keyed", "id": id});
        let mut todo: Vec<_> = (0..30).collect();
        let mut seen = Vec::new();
        while !todo.is_empty() {
            let operations: Vec<_> = todo.iter().map(|id| get(*id)).collect();
            let answer = ask(&harness, &json!({"operations": operations}));
            let results = answer["results"].as_array().unwrap();
            assert!(!results.is_empty(), "{answer}");
            let rest = todo.split_off(results.len());
            let cut = &answer["warnings"][0]["details"];
            let expected = if rest.is_empty() { Value::Null } else { json!(results.len()) };
            assert_eq!(cut["truncated_count"], expected, "{answer}");
            seen.extend(results.iter().map(|result| whole(&harness, &result["result"]["data"])));
            todo = rest;
        }
        assert!(seen == items);
    }
}

#[test]
fn a_failure_is_within_the_budget_as_well() {
    let harness = harness(BUDGETS[0]);
    let many: serde_json::Map<_, _> =
        (0..200).map(|n| (format!("\"unknown\" {n} {}", "x".repeat(60)), json!(n))).collect();
    for request in [
        list("numbered", &json!(many)),
        list("numbered", &json!({"sort": {"field": "nope"}})),
        json!({"operation": "introspect", "params": {"query": "operations"}}),
    ] {
        let answer = ask(&harness, &request);
        assert!(answer["error"]["code"].is_string() || answer["success"] == true, "{answer}");
    }
}

#[test]
fn a_client_without_a_budget_gets_what_it_always_got() {
    let items = items(BUDGETS[1]);
    let harness = Harness { budget_bytes: None, ..harness(BUDGETS[1]) };
    let answer = harness.ask(&list("numbered", &json!({"first": 1000})));
    assert!(answer["data"]["items"] == json!(items));
    assert!(answer.get("warnings").is_none());
}
