//! MCP-AQL on the pipeline: walks, and what belongs to one caller.

use std::sync::Arc;
use std::time::Duration;

use handback_collections::sqlite::{SqliteCollection, SqliteOptions};
use handback_identity::VerifiedPrincipal;
use handback_page::aql::{Catalog, Settings};
use handback_server::aql_tools::CALLS_MAX;
use handback_store::held::{HeldOptions, NewValue};
use handback_store::revocations::Revocation;
use handback_token::Handle;
use handback_tool::{Refusal, Registry, Reply};
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, START_MS, alice, bob, list, request};

/// A table of things, and its database.
struct Things {
    folder: tempfile::TempDir,
    db: Connection,
}

impl Things {
    fn new(count: u32, name: impl Fn(u32) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut db = Connection::open(folder.path().join("things.db")).unwrap();
        db.execute_batch(
            "CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT NOT NULL, even INTEGER);
             CREATE INDEX by_name ON things (name);",
        )
        .unwrap();
        let all = db.transaction().unwrap();
        for id in 0..count {
            all.execute("INSERT INTO things VALUES (?1, ?2, ?3)", (id, name(id), id % 2 == 0))
                .unwrap();
        }
        all.commit().unwrap();
        Self { folder, db }
    }

    fn catalog(&self) -> Catalog {
        let file = self.folder.path().join("things.db");
        let things = SqliteCollection::open(file, "things", SqliteOptions::default()).unwrap();
        let mut catalog = Catalog::new();
        catalog.add("things", "", Arc::new(things)).unwrap();
        catalog
    }
}

fn things() -> Things {
    Things::new(250, |id| format!("thing {id:03}"))
}

fn ids(data: &Value) -> Vec<i64> {
    data["items"].as_array().unwrap().iter().map(|item| item["id"].as_i64().unwrap()).collect()
}

fn end(data: &Value) -> String {
    data["pageInfo"]["endCursor"].as_str().unwrap().to_owned()
}

fn alices() -> VerifiedPrincipal {
    alice().principal().clone()
}

fn used(bench: &Bench) -> u64 {
    bench.held.used_bytes(&alices(), START_MS).unwrap()
}

/// Something that is held for Alice.
fn hold(bench: &Bench, kind: &str, bytes: &[u8]) -> String {
    let held = bench.held.put(&alices(), NewValue::new(kind), bytes, &mut rand::rng(), START_MS);
    held.unwrap().handle().unwrap().to_string()
}

fn numbers() -> Value {
    (0..1000).map(|n| json!({"id": n, "third": n % 3 == 0})).collect()
}

#[tokio::test]
async fn a_walk_over_a_table_meets_every_row_once() {
    let things = things();
    let bench = Bench::over(things.catalog());
    let mut params = json!({"filter": {"even": 1}, "sort": {"field": "name", "order": "desc"}});
    let mut met = Vec::new();
    for size in [10, 100, 7, 100].into_iter().cycle() {
        params["first"] = size.into();
        let page = bench.list(alice(), "things", params.clone()).await;
        met.extend(ids(&page));
        if page["pageInfo"]["hasNextPage"] == false {
            break;
        }
        params["after"] = end(&page).into();
    }
    let expected: Vec<_> = (0..250).rev().filter(|id| id % 2 == 0).collect();
    assert_eq!(met, expected);
}

#[tokio::test]
async fn a_cursor_is_of_one_caller_and_one_query() {
    let things = things();
    let bench = Bench::over(things.catalog());
    let page = bench.list(alice(), "things", json!({"first": 10})).await;
    let own = list("things", json!({"first": 10, "after": end(&page)}));
    let refusal = bench.refused(bob(), own.clone()).await;
    assert!(refusal.contains("invalid cursor"), "{refusal}");
    let other = list("things", json!({"first": 10, "after": end(&page), "filter": {"even": 1}}));
    assert_eq!(bench.refused(alice(), other).await, refusal);
    let edited = list("things", json!({"first": 10, "after": "x".repeat(60)}));
    assert_eq!(bench.refused(alice(), edited).await, refusal);
    assert_eq!(ids(&bench.list(alice(), "things", own["params"].clone()).await)[0], 10);
    bench.pass(Duration::from_secs(2 * 86_400));
    let late = bench.refused(alice(), own).await;
    assert!(late.contains("expired cursor"), "{late}");
    let reasons = bench.reasons();
    assert_eq!(reasons[0], "not_opened");
    assert_eq!(reasons.last().unwrap(), "expired");
    assert_eq!(reasons.len(), 4, "{reasons:?}");
}

#[tokio::test]
async fn a_revoked_cursor_and_a_revoked_handle_do_not_open() {
    let things = things();
    let bench = Bench::over(things.catalog());
    let page = bench.list(alice(), "things", json!({"first": 10})).await;
    let handle = hold(&bench, "application/json", b"[1]");
    bench.list(alice(), &handle, json!({})).await;
    let theirs = Revocation::principal(&alices());
    bench.revocations.store().revoke(theirs, START_MS).unwrap();
    bench.pass(Duration::from_secs(2));
    let own = list("things", json!({"first": 10, "after": end(&page)}));
    let refusal = bench.refused(alice(), own).await;
    assert!(refusal.contains("invalid cursor"), "{refusal}");
    let refusal = bench.refused(alice(), list(&handle, json!({}))).await;
    assert!(refusal.contains("invalid handle"), "{refusal}");
    assert_eq!(bench.reasons(), ["revoked", "revoked"]);
}

#[tokio::test]
async fn a_held_result_is_a_collection_of_its_owner() {
    let bench = Bench::over(Catalog::new());
    let handle = hold(&bench, "application/json", numbers().to_string().as_bytes());
    let params = json!({"first": 100, "filter": {"third": true}, "sort": {"field": "id"}});
    let page = bench.list(alice(), &handle, params.clone()).await;
    assert_eq!(page["pageInfo"]["totalCount"], 334);
    let mut next = params;
    next["after"] = end(&page).into();
    assert_eq!(ids(&bench.list(alice(), &handle, next.clone()).await)[0], 300);
    let get = json!({"operation": "get_element", "element_type": handle, "params": {"id": 7}});
    assert_eq!(bench.ask(alice(), get).await["data"], json!({"id": 7, "third": false}));
    let count = json!({"operation": "count_elements", "element_type": handle});
    assert_eq!(bench.ask(alice(), count).await["data"]["count"], 1000);
    let types = json!({"operation": "introspect", "params": {"query": "types", "name": handle}});
    let described = bench.ask(alice(), types.clone()).await;
    assert_eq!(described["data"]["type"]["fields"][0]["name"], "id", "{described}");
    assert_eq!(bench.ask(bob(), types).await["data"]["type"], Value::Null);

    // Somebody else's is unknown, to the byte, with or without its owner's cursor.
    let unknown = Handle::generate(&mut rand::rng()).to_string();
    let refusal = bench.refused(alice(), list(&unknown, json!({}))).await;
    assert!(refusal.contains("invalid handle"), "{refusal}");
    assert_eq!(bench.refused(bob(), list(&handle, json!({}))).await, refusal);
    assert_eq!(bench.refused(bob(), list(&handle, next)).await, refusal);
    let snapshot = list(&handle, json!({"snapshot": true}));
    assert_eq!(bench.refused(bob(), snapshot).await, refusal);

    let last = if handle.ends_with('0') { "1" } else { "0" };
    let wrong = list(&format!("{}{last}", &handle[..29]), json!({}));
    let mistyped = bench.refused(alice(), wrong.clone()).await;
    assert!(mistyped.contains("mistyped handle"), "{mistyped}");
    assert_eq!(bench.refused(bob(), wrong).await, mistyped);

    bench.pass(Duration::from_secs(2 * 3600));
    let late = bench.refused(alice(), list(&handle, json!({}))).await;
    assert!(late.contains("expired handle"), "{late}");
    assert_eq!(bench.refused(bob(), list(&handle, json!({}))).await, refusal);
    let reasons = bench.reasons();
    let told = |reason: &str| reasons.iter().filter(|known| *known == reason).count();
    assert_eq!(
        [told("unknown_handle"), told("mistyped_handle"), told("expired_handle")],
        [5, 2, 1],
        "{reasons:?}"
    );
}

#[tokio::test]
async fn callers_see_their_own_held_results_and_no_others() {
    let things = things();
    let bench = Bench::over(things.catalog());
    let handle = hold(&bench, "application/json", b"[1,2]");
    let ask = json!({"operation": "list_collections"});
    let names = |answer: Value| -> Vec<String> {
        let items = answer["data"]["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let answer = bench.ask(alice(), ask.clone()).await;
    assert_eq!(answer["data"]["items"][0]["bytes"], 5, "{answer}");
    assert_eq!(names(answer), [handle.as_str(), "things"]);
    assert_eq!(names(bench.ask(bob(), ask.clone()).await), ["things"]);
    // A list that is cut says so.
    for _ in 0..1000 {
        hold(&bench, "application/json", b"[]");
    }
    let answer = bench.ask(alice(), ask).await;
    assert_eq!(answer["data"]["pageInfo"]["totalCount"], 1001);
    assert_eq!(answer["warnings"][0]["code"], "VALIDATION_TRUNCATED_WARNING", "{answer}");
}

#[tokio::test]
async fn held_text_is_lines_and_held_nonsense_is_a_failed_call() {
    let bench = Bench::over(Catalog::new());
    let text = hold(&bench, "text/plain", b"one\ntwo\n");
    let page = bench.list(alice(), &text, json!({})).await;
    assert_eq!(page["pageInfo"]["totalCount"], 2, "{page}");
    let broken = hold(&bench, "application/json", b"[1,");
    let answer = bench.call(alice(), "mcp_aql_read", list(&broken, json!({}))).await.unwrap();
    let Reply::Failed { message, data, .. } = answer.reply else { panic!("{answer:?}") };
    assert_eq!(serde_json::from_str::<Value>(&message).ok(), data);
    assert_eq!(data.unwrap()["error"]["code"], "INTERNAL_ERROR");
}

#[tokio::test]
async fn more_held_results_than_are_kept_open_can_be_read() {
    let bench = Bench::over(Catalog::new());
    let handles: Vec<_> =
        (0..40).map(|n| hold(&bench, "application/json", format!("[{n}]").as_bytes())).collect();
    for _ in 0..2 {
        for (n, handle) in handles.iter().enumerate() {
            let page = bench.list(alice(), handle, json!({})).await;
            assert_eq!(page["items"], json!([n]));
        }
    }
}

#[tokio::test]
async fn a_snapshot_is_held_for_its_caller() {
    let things = things();
    let bench = Bench::over(things.catalog());
    assert_eq!(used(&bench), 0);
    let mut params = json!({"first": 100, "snapshot": true, "fields": ["id"]});
    let page = bench.list(alice(), "things", params.clone()).await;
    let taken = used(&bench);
    assert!(taken > 250 * 10, "{taken}");
    things.db.execute_batch("DELETE FROM things").unwrap();
    params["after"] = end(&page).into();
    let refusal = bench.refused(bob(), list("things", params.clone())).await;
    assert!(refusal.contains("invalid cursor"), "{refusal}");
    let second = bench.list(alice(), "things", params.clone()).await;
    assert_eq!(ids(&second), (100..200).collect::<Vec<_>>());
    assert_eq!(used(&bench), taken, "one copy is enough for a walk");
    bench.pass(Duration::from_secs(3601));
    let late = bench.refused(alice(), list("things", params)).await;
    assert!(late.contains("expired cursor"), "{late}");
}

#[tokio::test]
async fn a_snapshot_has_room_in_the_quota_of_its_caller_or_is_refused() {
    let things = things();
    let options = HeldOptions::new().per_principal_bytes(20_000);
    let bench = Bench::with(Registry::new(), things.catalog(), Settings::default(), options);
    let ask = list("things", json!({"first": 1, "snapshot": true}));
    assert_eq!(bench.ask(alice(), ask.clone()).await["success"], true);
    let refusal = bench.refused(alice(), ask.clone()).await;
    assert!(refusal.contains("VALIDATION_PAYLOAD_TOO_LARGE"), "{refusal}");
    assert_eq!(bench.ask(bob(), ask.clone()).await["success"], true, "others have their own");
    bench.pass(Duration::from_secs(3601));
    assert_eq!(bench.ask(alice(), ask).await["success"], true, "what ended makes room");
}

#[tokio::test]
async fn a_long_place_is_held_once_for_its_caller() {
    let things = Things::new(5, |id| format!("{}{id}", "x".repeat(2_000)));
    let bench = Bench::over(things.catalog());
    let params = json!({"first": 2, "sort": {"field": "name"}, "fields": ["id"]});
    let page = bench.list(alice(), "things", params.clone()).await;
    let taken = used(&bench);
    assert!(taken > 2 * 2_000, "{taken}");
    for _ in 0..5 {
        bench.list(alice(), "things", params.clone()).await;
    }
    assert_eq!(used(&bench), taken);
    let mut next = params;
    next["after"] = end(&page).into();
    assert_eq!(ids(&bench.list(alice(), "things", next.clone()).await), [2, 3]);
    let refusal = bench.refused(bob(), list("things", next.clone())).await;
    assert!(refusal.contains("invalid cursor"), "{refusal}");
    // Bob's own one is his own, though it says the same.
    let page = bench.list(bob(), "things", json!({"first": 2, "sort": {"field": "name"}})).await;
    assert_eq!(ids(&page), [0, 1]);
    bench.pass(Duration::from_secs(600));
    bench.list(alice(), "things", next).await;
}

#[tokio::test]
async fn a_page_that_waits_comes_when_there_is_something() {
    let things = things();
    let bench = Bench::over(things.catalog());
    let page = bench.list(alice(), "things", json!({"last": 1})).await;
    let params =
        json!({"first": 5, "after": end(&page), "stream": true, "poll_interval_ms": 20_000});
    let asked = bench.list(alice(), "things", params.clone());
    let (page, ()) = tokio::join!(asked, async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        things.db.execute_batch("INSERT INTO things VALUES (1000, 'new', 1)").unwrap();
    });
    assert_eq!(ids(&page), [1000]);
}

#[tokio::test]
async fn pages_that_wait_can_be_cancelled_and_hold_no_room() {
    let things = things();
    let bench = Bench::over(things.catalog());
    let cancel = CancellationToken::new();
    let waits = |who: u32| {
        let who = handback_identity::UnixPeers::new("test").unwrap().caller(who);
        let params = json!({
            "first": 5,
            "filter": {"id": -1},
            "stream": true,
            "poll_interval_ms": 60_000,
        });
        let ask = list("things", params);
        bench.pipeline.call(request(who, "mcp_aql_read", ask).cancel(cancel.clone()))
    };
    // More than there is room for at a time, of several callers.
    let many = u32::try_from(CALLS_MAX).unwrap() * 2;
    let all = futures_util::future::join_all((0..many).map(|n| waits(100 + n / 4)));
    let (ended, ()) = tokio::join!(all, async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let page = tokio::time::timeout(
            Duration::from_secs(10),
            bench.list(alice(), "things", json!({"first": 1})),
        );
        assert_eq!(ids(&page.await.unwrap()), [0]);
        cancel.cancel();
    });
    assert!(ended.iter().all(|ended| *ended == Err(Refusal::Cancelled)));
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said_in_the_envelope() {
    let bench = Bench::over(Catalog::new());
    let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
    for (args, code) in [
        (json!({}), "VALIDATION_MISSING_PARAM"),
        (json!([]), "VALIDATION_INVALID_TYPE"),
        (json!({"operation": 7}), "VALIDATION_INVALID_TYPE"),
        (json!({"operation": "drop_everything"}), "NOT_FOUND_OPERATION"),
        (list("nothing", json!({})), "NOT_FOUND_RESOURCE"),
        (json!({"operation": "introspect", "params": {"query": "x"}}), "VALIDATION_INVALID_TYPE"),
        (list("nothing", json!({"filter": deep})), "VALIDATION_PAYLOAD_TOO_LARGE"),
    ] {
        let refusal = bench.refused(alice(), args.clone()).await;
        assert!(refusal.contains(code), "{args}: {refusal}");
    }
}

#[tokio::test]
async fn the_tools_say_what_they_are() {
    let bench = Bench::over(Catalog::new());
    let caller = alice();
    let visible: Vec<_> = bench.pipeline.registry().visible(&caller).collect();
    let [read, create] = visible.as_slice() else { panic!("{visible:?}") };
    for (tool, name, reads) in [(read, "mcp_aql_read", true), (create, "mcp_aql_create", false)] {
        assert_eq!(tool.name(), name);
        assert!(tool.description().contains("introspect") && !tool.is_paginated());
        assert_eq!(tool.schema()["properties"]["operation"]["type"], "string");
        let hints = json!({"readOnlyHint": reads, "destructiveHint": false});
        assert_eq!(tool.extra_members()["annotations"], hints);
    }
}
