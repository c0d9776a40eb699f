//! Items that are too long to be read: the others are reached, and these are shown in part.

use std::sync::Arc;

use handback_page::aql::{Catalog, Settings};
use handback_page::{FieldPath, InMemory, JsonCollection, JsonOptions, TextCollection};
use serde_json::{Map, Value, json};

use crate::harness::{Harness, json_collection};

/// Longer items are not read; what is read at once is more.
const LONGEST_BYTES: usize = 64 << 10;

const COUNT: usize = 101;

/// Which of them is long.
const LONG: usize = 50;

fn item(number: usize) -> Value {
    let body = if number == LONG { "\"ä\\\n needle ".repeat(40_000) } else { "hay".to_owned() };
    json!({"id": number, "name": format!("item {number}"), "body": body})
}

fn line(number: usize) -> String {
    if number == LONG { "ä needle ".repeat(60_000) } else { format!("line {}", number + 1) }
}

fn harness(budget_bytes: Option<usize>) -> Harness {
    let items: Vec<_> = (0..COUNT).map(item).collect();
    let members: Map<_, _> =
        items.iter().map(|item| (name_of(&item["id"]), item.clone())).collect();
    let lines: Vec<_> = (0..COUNT).map(line).collect();
    let options = JsonOptions::new().with_longest_item(LONGEST_BYTES);
    let json = |value: &Value, options: &JsonOptions| {
        let text = format!(" {} ", serde_json::to_string_pretty(value).unwrap());
        JsonCollection::open(InMemory::hashed(text), options.clone()).unwrap()
    };
    let text = InMemory::hashed(lines.join("\r\n"));
    let text = TextCollection::open_bounded(text, LONGEST_BYTES).unwrap();
    let keyed = options.clone().with_key(FieldPath::name("id"));
    let whole = options.clone().with_whole_document().with_pointer("/a".parse().unwrap());
    let mut catalog = Catalog::new();
    let mut add = |name, collection| catalog.add(name, "", collection).unwrap();
    add("array", Arc::new(json(&json!(items), &options)));
    add("inner", Arc::new(json(&json!({"a": items}), &whole)));
    add("members", Arc::new(json(&Value::Object(members), &options)));
    add("keyed", Arc::new(json(&json!(items), &keyed)));
    catalog.add("lines", "", Arc::new(text)).unwrap();
    catalog.add("short", "", Arc::new(json_collection(&json!(items), None))).unwrap();
    Harness { budget_bytes, ..Harness::over(catalog, Settings::default()) }
}

fn name_of(id: &Value) -> String {
    format!("m~{:03}", id.as_u64().unwrap())
}

fn request(operation: &str, name: &str, params: &Value) -> Value {
    json!({"operation": operation, "element_type": name, "params": params})
}

/// What a success says.
#[track_caller]
fn ask(harness: &Harness, operation: &str, name: &str, params: &Value) -> Value {
    let answer = harness.ask(&request(operation, name, params));
    assert_eq!(answer["success"], true, "{answer}");
    answer
}

/// Whether an answer says that something was not looked at, and which.
fn unread(answer: &Value) -> Option<&Value> {
    let warnings = answer["warnings"].as_array()?;
    warnings.iter().find_map(|warning| warning["details"].get("unread"))
}

fn is_shown_in_part(answer: &Value) -> bool {
    answer["warnings"].to_string().contains("is shown in part")
}

/// All items of a walk in the order of the collection. Every page says whether one is in part, and
/// whether one was not looked at.
#[track_caller]
fn walk(harness: &Harness, name: &str, mut params: Value, expected: Option<&Value>) -> Vec<Value> {
    let (way, side, flag) = match params.get("last") {
        Some(_) => ("before", "startCursor", "hasPreviousPage"),
        None => ("after", "endCursor", "hasNextPage"),
    };
    let mut all = Vec::new();
    loop {
        let answer = ask(harness, "list_elements", name, &params);
        let page = answer["data"]["items"].as_array().unwrap().clone();
        let has_excerpt = page.iter().any(|item| item.get("$excerpt").is_some());
        assert_eq!(is_shown_in_part(&answer), has_excerpt, "{answer}");
        assert_eq!(unread(&answer), expected, "{answer}");
        assert!(!page.is_empty(), "{answer}");
        all = if way == "after" { [all, page].concat() } else { [page, all].concat() };
        if answer["data"]["pageInfo"][flag] == false {
            return all;
        }
        params[way] = answer["data"]["pageInfo"][side].clone();
    }
}

/// The number of an item that is shown.
fn number(item: &Value) -> usize {
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    match item {
        item if item.get("$excerpt").is_some() => LONG,
        item if item.get("line").is_some() => number(&item["line"]) - 1,
        item if item.get("value").is_some() => number(&item["value"]["id"]),
        item => number(&item["id"]),
    }
}

fn numbers(items: &[Value]) -> Vec<usize> {
    items.iter().map(number).collect()
}

#[test]
fn a_walk_meets_every_item_once_in_either_direction() {
    let all: Vec<_> = (0..COUNT).collect();
    for budget in [None, Some(4 << 10), Some(40 << 10)] {
        let harness = harness(budget);
        for name in ["array", "inner", "members", "lines"] {
            for size in [1, 7, 50, 51, 100] {
                for side in ["first", "last"] {
                    let params = json!({side: size});
                    assert_eq!(numbers(&walk(&harness, name, params, None)), all, "{name} {size}");
                }
            }
            let offset = json!({"offset": LONG - 1, "limit": 3});
            let answer = ask(&harness, "list_elements", name, &offset);
            let items = answer["data"]["items"].as_array().unwrap();
            let expected = [LONG - 1, LONG, LONG + 1];
            // The smallest page ends before it, and says so.
            let shown = if budget == Some(4 << 10) { items.len() } else { expected.len() };
            assert_eq!(numbers(items), expected[..shown], "{answer}");
            assert_eq!(answer["data"]["pagination"]["has_more"], true);
        }
    }
}

#[test]
fn what_is_shown_in_part_says_how_to_read_on() {
    let harness = harness(None);
    for name in ["array", "inner", "members", "lines"] {
        let answer = ask(&harness, "list_elements", name, &json!({"offset": LONG, "limit": 1}));
        let shown = &answer["data"]["items"][0]["$excerpt"];
        let mut text = shown["text"].as_str().unwrap().to_owned();
        assert_eq!(shown["next"], text.len(), "{answer}");
        let bytes = usize::try_from(shown["bytes"].as_u64().unwrap()).unwrap();
        let mut request = shown["read_on"].clone();
        while text.len() < bytes {
            let answer = harness.ask(&request);
            text.push_str(answer["data"]["text"].as_str().unwrap_or_else(|| panic!("{answer}")));
            match answer["data"].get("next") {
                Some(next) => request["params"]["from"] = next.clone(),
                None => break,
            }
        }
        let (kind, pointer) = (shown["kind"].as_str().unwrap(), shown.get("pointer"));
        match name {
            "lines" => {
                assert_eq!((kind, &shown["id"]), ("text", &json!(LONG + 1)), "{answer}");
                // Behind the line, other lines follow.
                assert_eq!((&text[..bytes], bytes), (line(LONG).as_str(), line(LONG).len()));
            }
            "members" => {
                // Its value was read, and the object around it has one byte more.
                text.push('}');
                let value: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(value["key"], name_of(&json!(LONG)));
                assert_eq!((&value["value"], kind, text.len()), (&item(LONG), "object", bytes));
            }
            _ => {
                let value: Value = serde_json::from_str(&text).unwrap();
                assert_eq!((value, kind, text.len()), (item(LONG), "object", bytes));
                let expected = if name == "inner" { "/a/50" } else { "/50" };
                assert_eq!(pointer, Some(&json!(expected)));
            }
        }
    }
}

#[test]
fn a_search_finds_what_lies_behind_and_says_what_it_left_out() {
    let harness = harness(None);
    for (name, which) in [
        ("array", json!([LONG])),
        ("inner", json!([LONG])),
        ("members", json!([LONG])),
        ("keyed", json!([LONG])),
        ("lines", json!([LONG + 1])),
    ] {
        let query = if name == "lines" { "100" } else { "99" };
        let answer = ask(&harness, "query_elements", name, &json!({"query": query}));
        assert_eq!(numbers(answer["data"]["items"].as_array().unwrap()), [99], "{answer}");
        assert_eq!(unread(&answer), Some(&which), "{answer}");
        assert!(!is_shown_in_part(&answer), "{answer}");
        // What is only in the long one is not found, and not denied.
        for operation in ["count_elements", "query_elements"] {
            let answer = ask(&harness, operation, name, &json!({"query": "needle"}));
            assert_eq!(unread(&answer), Some(&which), "{answer}");
        }
        let answer = ask(&harness, "count_elements", name, &json!({"query": query}));
        assert_eq!((&answer["data"]["count"], unread(&answer)), (&json!(1), Some(&which)));
        let count = ask(&harness, "count_elements", name, &json!({}));
        let is_left_out = name == "keyed";
        assert_eq!(count["data"]["count"], COUNT - usize::from(is_left_out), "{count}");
        assert_eq!(unread(&count).is_some(), is_left_out, "{count}");
    }
    let answer = ask(&harness, "query_elements", "short", &json!({"query": "needle"}));
    assert_eq!(numbers(answer["data"]["items"].as_array().unwrap()), [LONG]);
    assert!(answer.get("warnings").is_none(), "{answer}");
}

#[test]
fn filters_do_not_take_what_is_not_known_for_missing() {
    let harness = harness(None);
    for filter in [
        json!({"body": "hay"}),
        json!({"body": {"ne": "x"}}),
        json!({"not": {"body": "x"}}),
        json!({"nope": {"is_null": true}}),
    ] {
        let answer = ask(&harness, "count_elements", "array", &json!({"filter": filter}));
        assert_eq!(answer["data"]["count"], COUNT - 1, "{filter}");
        assert_eq!(unread(&answer), Some(&json!([LONG])), "{filter}");
    }
    // The number of a line is known without reading it.
    let near = json!({"filter": {"line": {"gte": LONG, "lte": LONG + 2}}});
    let answer = ask(&harness, "list_elements", "lines", &near);
    assert_eq!(numbers(answer["data"]["items"].as_array().unwrap()), [LONG - 1, LONG, LONG + 1]);
    assert!(unread(&answer).is_none() && is_shown_in_part(&answer), "{answer}");
    let filter = json!({"filter": {"text": {"ne": "line 1"}}});
    let answer = ask(&harness, "count_elements", "lines", &filter);
    assert_eq!(
        (&answer["data"]["count"], unread(&answer)),
        (&json!(COUNT - 2), Some(&json!([51])))
    );
}

#[test]
fn an_order_has_it_where_nothing_is_to_be_sorted_by() {
    let harness = harness(None);
    let last: Vec<_> = (0..COUNT).filter(|n| *n != LONG).chain([LONG]).collect();
    for size in [1, 10, 100] {
        for side in ["first", "last"] {
            let params = json!({side: size, "sort": {"field": "id"}});
            let all = walk(&harness, "array", params, Some(&json!([LONG])));
            assert_eq!(numbers(&all), last);
            let params = json!({side: size, "sort": {"field": "text"}});
            let all = walk(&harness, "lines", params, Some(&json!([LONG + 1])));
            assert_eq!((all.len(), number(&all[COUNT - 1])), (COUNT, LONG));
            let params = json!({side: size, "sort": {"field": "line", "order": "desc"}});
            let all = walk(&harness, "lines", params, None);
            assert_eq!(numbers(&all), (0..COUNT).rev().collect::<Vec<_>>());
            // Where the key of an item is not known, it has no place.
            let all = walk(&harness, "keyed", json!({side: size}), Some(&json!([LONG])));
            assert_eq!(numbers(&all), last[..COUNT - 1]);
        }
    }
}

#[test]
fn an_element_that_is_too_long_comes_in_part_or_in_pieces() {
    let harness = harness(None);
    for (name, id) in [("array", LONG), ("lines", LONG + 1)] {
        let answer = ask(&harness, "get_element", name, &json!({"id": id}));
        assert!(answer["data"]["$excerpt"]["text"].as_str().unwrap().len() > 4000, "{answer}");
        assert!(answer["data"]["$excerpt"].get("read_on").is_some() && is_shown_in_part(&answer));
    }
    let piece = json!({"id": LONG, "from": 1, "length": 8});
    let answer = ask(&harness, "get_element", "array", &piece);
    assert_eq!(answer["data"]["from"], 1);
    assert_eq!(answer["data"]["text"].as_str().unwrap().len(), 8, "{answer}");
    for (name, params) in [
        ("lines", json!({"id": LONG + 1, "from": 1})),
        ("array", json!({"id": LONG, "from": 1, "fields": ["id"]})),
        // It may be this one.
        ("keyed", json!({"id": LONG})),
    ] {
        let answer = harness.ask(&request("get_element", name, &params));
        assert_eq!(answer["error"]["details"]["limit_type"], "item_size", "{answer}");
        assert_eq!(answer["error"]["details"]["limit_value"], LONGEST_BYTES, "{answer}");
    }
    let answer = harness.ask(&request("get_element", "lines", &json!({"id": COUNT + 1})));
    assert_eq!(answer["error"]["code"], "NOT_FOUND_RESOURCE", "{answer}");
}

#[test]
fn snapshots_and_batches_say_what_they_left_out() {
    let harness = harness(None);
    let mut params = json!({"first": 60, "snapshot": true});
    let mut all = Vec::new();
    for more in [true, false] {
        let answer = ask(&harness, "list_elements", "array", &params);
        assert_eq!(unread(&answer), Some(&json!([LONG])), "{answer}");
        all.extend(answer["data"]["items"].as_array().unwrap().clone());
        assert_eq!(answer["data"]["pageInfo"]["hasNextPage"], more, "{answer}");
        params["after"] = answer["data"]["pageInfo"]["endCursor"].clone();
    }
    assert_eq!(numbers(&all), (0..COUNT).filter(|n| *n != LONG).collect::<Vec<_>>());
    let search = |name| request("search_elements", name, &json!({"query": "99"}));
    let batch = json!({"operations": [search("short"), search("array"), search("lines")]});
    for budget_bytes in [None, Some(40 << 10)] {
        let harness = Harness { budget_bytes, ..self::harness(None) };
        let answer = harness.ask(&batch);
        assert_eq!(answer["summary"]["succeeded"], 3, "{answer}");
        assert_eq!(unread(&answer), Some(&json!([1, 2])), "{answer}");
    }
}
