//! Pages that are cut because the answer would be too large.

use serde_json::{Value, json};

use super::support::TestDb;
use crate::engine::{ANSWER_BYTES, Asker};

/// Rows of which ten are too much for an answer.
fn long_rows(count: u32) -> TestDb {
    TestDb::new(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         INSERT INTO t SELECT i, printf('%.*c', 99000, 'x') FROM n;",
    ))
}

fn ids(page: &Value) -> Vec<i64> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_i64().unwrap()).collect()
}

#[test]
fn a_walk_goes_on_where_a_page_was_cut() {
    let db = long_rows(30);
    let asker = Asker::new(db.open("t"));
    for (size, cursor, end, more) in [
        ("first", "after", "endCursor", "hasNextPage"),
        ("last", "before", "startCursor", "hasPreviousPage"),
    ] {
        let mut params = json!({size: 30});
        let mut seen = Vec::new();
        loop {
            let page = asker.page(&params);
            assert!(ids(&page).len() < 10);
            seen.extend(ids(&page));
            if page["pageInfo"][more] == false {
                break;
            }
            params[cursor] = page["pageInfo"][end].clone();
        }
        seen.sort_unstable();
        assert_eq!(seen, (1..=30).collect::<Vec<_>>());
    }
}

#[test]
fn a_numbered_page_is_refused_rather_than_cut() {
    let db = long_rows(30);
    let asker = Asker::new(db.open("t"));
    let list = |params: Value| {
        json!({"operation": "list_elements", "params": {"element_type": "t", "page": 2,
            "page_size": params["page_size"], "fields": params["fields"]}})
    };
    let refused = |answer: &Value| {
        assert_eq!(answer["error"]["code"], "VALIDATION_PAYLOAD_TOO_LARGE", "{answer}");
        assert!(answer["error"]["details"]["hint"].as_str().unwrap().contains("'page_size'"));
    };
    refused(&asker.ask(&list(json!({"page_size": 20}))));
    let batch = json!({"operations": [list(json!({"page_size": 20}))]});
    refused(&asker.ask(&batch)["results"][0]["result"]);
    let page = &asker.ask(&list(json!({"page_size": 5})))["data"];
    assert_eq!((ids(page), &page["pagination"]["has_more"]), ((6..=10).collect(), &json!(true)));
    let page = &asker.ask(&list(json!({"page_size": 20, "fields": ["id"]})))["data"];
    assert_eq!((ids(page), &page["pagination"]["has_more"]), ((21..=30).collect(), &json!(false)));
}

#[test]
fn whoever_goes_on_after_what_was_returned_loses_nothing() {
    let db = long_rows(30);
    let asker = Asker::new(db.open("t"));
    for in_batch in [false, true] {
        let mut seen = Vec::new();
        loop {
            let params = json!({"element_type": "t", "limit": 20, "offset": seen.len()});
            let request = json!({"operation": "list_elements", "params": params});
            let page = match in_batch {
                false => asker.ask(&request)["data"].clone(),
                true => {
                    let answer = asker.ask(&json!({"operations": [request]}));
                    answer["results"][0]["result"]["data"].clone()
                }
            };
            let pagination = &page["pagination"];
            assert_eq!(pagination["returned"], ids(&page).len());
            seen.extend(ids(&page));
            assert_eq!(pagination["has_more"], seen.len() < 30);
            if pagination["has_more"] == false {
                break;
            }
        }
        assert_eq!(seen, (1..=30).collect::<Vec<_>>());
    }
}

#[test]
fn pages_that_are_cut_in_a_batch_say_that_there_is_more() {
    let db = long_rows(20);
    let asker = Asker::new(db.open("t"));
    let list = |params: Value| json!({"operation": "list_elements", "element_type": "t", "params": params});
    let batch = json!({"operations": [
        list(json!({"first": 15})),
        list(json!({"first": 15})),
        list(json!({"last": 3, "fields": ["id"]})),
    ]});
    let answer = asker.ask(&batch);
    let result = |number: usize| &answer["results"][number]["result"];
    assert_eq!(result(0)["data"]["pageInfo"]["hasNextPage"], true);
    assert!(ids(&result(0)["data"]).len() < 15);
    assert_eq!(result(1)["error"]["code"], "VALIDATION_PAYLOAD_TOO_LARGE");
}

#[test]
fn an_element_leaves_room_for_what_is_around_it() {
    let db = TestDb::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)");
    for (id, len) in [(1, ANSWER_BYTES - 20), (2, ANSWER_BYTES - 100), (3, ANSWER_BYTES - 2000)] {
        db.execute(&format!("INSERT INTO t VALUES ({id}, printf('%.*c', {len}, 'x'))"));
    }
    let asker = Asker::new(db.open("t"));
    let get = |id: i64, fields: Value| {
        asker.ask(&json!({"operation": "get_element", "element_type": "t",
            "params": {"id": id, "preset": fields}}))
    };
    assert_eq!(get(1, json!("full"))["error"]["code"], "VALIDATION_PAYLOAD_TOO_LARGE");
    assert_eq!(get(2, json!("full"))["error"]["code"], "VALIDATION_PAYLOAD_TOO_LARGE");
    assert_eq!(get(3, json!("full"))["data"]["id"], 3);
}
