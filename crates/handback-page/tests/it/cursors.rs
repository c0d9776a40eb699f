//! Cursors that do not belong: tampered, foreign, expired, other people's.

use handback_page::aql::{Endpoint, Inside, Settings};
use handback_token::{
    Caller, Context, Cursor, KeyRing, Mode, Operation, Reason, Sealer, SealerConfig, UnixTime,
    args_fingerprint,
};
use serde_json::{Value, json};

use crate::harness::{Harness, NOW, cursor, json_collection};

/// A request of every operation that takes a cursor, without it.
fn requests() -> Vec<Value> {
    vec![
        json!({"operation": "list_collections", "params": {"first": 1}}),
        json!({"operation": "list_elements", "params": {"element_type": "items", "first": 1}}),
        json!({
            "operation": "search_elements",
            "params": {"element_type": "items", "query": "e_0", "first": 1},
        }),
        json!({
            "operation": "query_elements",
            "params": {
                "element_type": "items",
                "filter": {"even": true},
                "sort": {"field": "n", "order": "desc"},
                "first": 1,
            },
        }),
        json!({"operation": "list_elements", "params": {"element_type": "text", "first": 1}}),
        json!({"operation": "list_elements", "params": {"element_type": "people", "first": 1}}),
        json!({
            "operation": "list_elements",
            "params": {"element_type": "items", "first": 1, "snapshot": true},
        }),
    ]
}

fn with_after(request: &Value, after: &str) -> Value {
    let mut request = request.clone();
    request["params"]["after"] = after.into();
    request
}

#[track_caller]
fn check_refused(harness: &Harness, request: &Value, actual: &str, inside: &Inside) {
    let answer = harness.answer(request);
    let failure = answer.failure().unwrap_or_else(|| panic!("{request}: {}", answer.to_json()));
    assert_eq!(failure.code().as_str(), "VALIDATION_INVALID_TYPE");
    let details = Value::Object(failure.details().clone());
    assert_eq!(
        details,
        json!({
            "param_name": "after",
            "expected_type": "cursor",
            "actual_type": actual,
            "hint": "Start again without 'after', with the same filter and sort",
        })
    );
    assert_eq!(failure.inside(), Some(inside), "{request}");
    assert!(!answer.is_error(), "a caller can do something about it");
}

fn end_cursor(harness: &Harness, request: &Value) -> String {
    cursor(&harness.ask(request)["data"], "endCursor").to_owned()
}

#[test]
fn every_edit_of_a_cursor_is_refused_on_every_operation() {
    let harness = Harness::new();
    for request in requests() {
        let good = end_cursor(&harness, &request);
        assert_eq!(harness.ask(&with_after(&request, &good))["success"], true);
        for position in 0..good.len() {
            let mut edited = good.clone().into_bytes();
            edited[position] = if edited[position] == b'A' { b'B' } else { b'A' };
            let edited = String::from_utf8(edited).unwrap();
            let answer = harness.answer(&with_after(&request, &edited));
            let failure = answer.failure().expect("an edited cursor is refused");
            assert_eq!(failure.details()["actual_type"], "invalid cursor");
        }
        for len in 0..good.len() {
            let answer = harness.answer(&with_after(&request, &good[..len]));
            assert!(answer.failure().is_some());
        }
        let not_opened = Inside::Cursor(Reason::NotOpened);
        let mut edited = good.clone();
        let middle = good.len() / 2;
        let other = if &good[middle..=middle] == "A" { "B" } else { "A" };
        edited.replace_range(middle..=middle, other);
        check_refused(&harness, &with_after(&request, &edited), "invalid cursor", &not_opened);
    }
}

#[test]
fn a_cursor_of_one_query_is_refused_by_every_other() {
    let harness = Harness::new();
    let requests = requests();
    for (number, from) in requests.iter().enumerate() {
        let good = end_cursor(&harness, from);
        for (other, to) in requests.iter().enumerate() {
            if other != number {
                let inside = Inside::Cursor(Reason::NotOpened);
                check_refused(&harness, &with_after(to, &good), "invalid cursor", &inside);
            }
        }
    }
}

#[test]
fn a_cursor_is_for_the_caller_it_was_given_to() {
    let mut harness = Harness::new();
    for request in requests() {
        harness.caller = Caller::dangerous_identified("https://id.example", "alice");
        let good = end_cursor(&harness, &request);
        for caller in [
            Caller::dangerous_identified("https://id.example", "bob"),
            Caller::dangerous_identified("https://other.example", "alice"),
            Caller::UNAUTHENTICATED,
        ] {
            harness.caller = caller;
            let inside = Inside::Cursor(Reason::NotOpened);
            check_refused(&harness, &with_after(&request, &good), "invalid cursor", &inside);
        }
    }
}

#[test]
fn an_expired_cursor_says_so_and_one_of_a_retired_key_too() {
    let mut harness = Harness::new();
    for request in requests() {
        harness.now = NOW;
        let good = end_cursor(&harness, &request);
        harness.now = UnixTime::from_secs(NOW.as_secs() + 1100);
        let inside = Inside::Cursor(Reason::Expired);
        check_refused(&harness, &with_after(&request, &good), "expired cursor", &inside);
    }
}

#[test]
fn a_cursor_of_another_ring_is_refused() {
    let mut harness = Harness::new();
    let request = &requests()[1];
    let good = end_cursor(&harness, request);
    let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, NOW);
    harness.sealer = Sealer::new(&ring, SealerConfig::default()).unwrap();
    let inside = Inside::Cursor(Reason::NotOpened);
    check_refused(&harness, &with_after(request, &good), "invalid cursor", &inside);
}

#[test]
fn a_sealed_payload_that_is_no_place_of_the_order_is_refused() {
    let harness = Harness::new();
    let request = json!({
        "operation": "list_elements",
        "params": {"element_type": "items", "first": 1},
    });
    // What only the server itself could seal, and never does.
    let collection = harness.engine.catalog().collection("items").unwrap();
    let identity = collection.schema().unwrap().identity();
    let bound_to = json!({"operation": "list_elements", "params": {}, "collection": identity});
    let fingerprint = args_fingerprint(&bound_to);
    let context =
        Context::new(harness.caller, Operation::Query).name("items").arguments(&fingerprint);
    let bound = harness.sealer.bind::<Cursor>(&context).unwrap();
    for payload in [
        &b""[..],
        b"\x00",
        b"\x01",
        b"\x01\x00",
        b"\x01\x03\x02",
        b"\x01\x05\x01x\x05\x01x",
        b"\x02short",
        b"\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    ] {
        let token = bound.seal(&mut rand::rng(), NOW, payload).unwrap();
        let answer = harness.answer(&with_after(&request, token.as_str()));
        // A key of another kind is a place like any other: before or after all items.
        if let Some(failure) = answer.failure() {
            assert_eq!(failure.details()["actual_type"], "invalid cursor", "{payload:?}");
        }
    }
    let kept = [&[2][..], &[7; 16]].concat();
    let token = bound.seal(&mut rand::rng(), NOW, &kept).unwrap();
    let inside = Inside::CursorOutlived;
    check_refused(&harness, &with_after(&request, token.as_str()), "expired cursor", &inside);
}

#[test]
fn a_place_that_is_too_long_for_a_cursor_is_kept_and_found_again() {
    use std::sync::Arc;

    use handback_page::aql::Catalog;

    let long = |n: i32| format!("{}{n}", "x".repeat(2000));
    let items: Vec<_> = (0..5).map(|n| json!({"id": n, "name": long(n)})).collect();
    let mut catalog = Catalog::new();
    let collection = json_collection(&json!(items), Some("id"));
    catalog.add("items", "", Arc::new(collection)).unwrap();
    let mut harness = Harness::over(catalog, Settings::default());
    let params = json!({"first": 2, "sort": {"field": "name", "order": "desc"}, "fields": ["id"]});
    let page = harness.list(params.clone());
    assert_eq!(page["items"], json!([{"id": 4}, {"id": 3}]));
    let after = cursor(&page, "endCursor").to_owned();
    assert!(after.len() < 128, "{}", after.len());
    let mut next = params;
    next["after"] = after.into();
    assert_eq!(harness.list(next.clone())["items"], json!([{"id": 2}, {"id": 1}]));
    harness.caller = Caller::UNAUTHENTICATED;
    harness.refused(next);
}

#[test]
fn a_long_place_is_kept_once_however_often_its_page_is_asked_for() {
    let long = |n: i32| format!("{}{n}", "x".repeat(200_000));
    let items: Vec<_> = (0..3).map(|n| json!({"id": n, "name": long(n)})).collect();
    let mut catalog = handback_page::aql::Catalog::new();
    let collection = json_collection(&json!(items), Some("id"));
    catalog.add("items", "", std::sync::Arc::new(collection)).unwrap();
    let harness = Harness::over(catalog, Settings::default());
    let params = json!({"first": 2, "sort": {"field": "name"}, "fields": ["id"]});
    // More than would fit on the shelf of 64 MiB, one beside the other.
    for _ in 0..200 {
        assert_eq!(harness.list(params.clone())["items"], json!([{"id": 0}, {"id": 1}]));
    }
}

#[test]
fn a_snapshot_stays_as_it_was_and_ends() {
    let mut harness = Harness::with(Settings { snapshot_ttl_s: 600, ..Settings::default() });
    let params = json!({
        "first": 10,
        "snapshot": true,
        "filter": {"even": true},
        "sort": {"field": "n", "order": "desc"},
        "fields": ["n"],
    });
    let page = harness.list(params.clone());
    assert_eq!(page["items"][0], json!({"n": 44}));
    assert_eq!(page["pageInfo"]["totalCount"], 23);
    let mut next = params.clone();
    next["after"] = cursor(&page, "endCursor").into();
    let second = harness.list(next.clone());
    assert_eq!(second["items"][0], json!({"n": 24}));
    assert_eq!(second["pageInfo"]["hasPreviousPage"], true);
    let mut back = params;
    back["first"] = Value::Null;
    back["last"] = 10.into();
    back["before"] = cursor(&second, "startCursor").into();
    assert_eq!(harness.list(back)["items"], page["items"]);
    harness.now = UnixTime::from_secs(NOW.as_secs() + 700);
    let error = harness.refused(next);
    assert_eq!(error["details"]["actual_type"], "expired cursor");
    let empty = harness.page("list_elements", "empty", json!({"snapshot": true}));
    assert_eq!(empty["items"], json!([]));
    harness.refused(json!({"snapshot": true, "page": 1}));
}

#[test]
fn a_snapshot_that_is_too_large_is_refused() {
    let harness = Harness::with(Settings { snapshot_bytes: 1000, ..Settings::default() });
    let error = harness.refused(json!({"snapshot": true}));
    assert_eq!(error["code"], "VALIDATION_PAYLOAD_TOO_LARGE");
    assert_eq!(error["details"]["limit_value"], 1000);
}

#[test]
fn single_mode_opens_the_same_cursors() {
    let mut harness = Harness::new();
    let request = &requests()[1];
    let good = end_cursor(&harness, request);
    harness.endpoint = Endpoint::Single;
    assert_eq!(harness.ask(&with_after(request, &good))["success"], true);
}
