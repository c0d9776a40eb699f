use std::time::Duration;

use handback_store::revocations::Revocation;
use handback_token::{Outside, Reason};
use handback_tool::Refusal;
use serde_json::{Value, json};

use crate::bench::{Bench, START_MS, alice, bob, carried, carried_on, items, nobody};

fn refused(reason: Reason) -> Refusal {
    Refusal::Continuation { outside: reason.outside(), reason }
}

#[tokio::test]
async fn a_walk_meets_every_item_once() {
    let bench = Bench::new();
    let args = json!({"from": 5, "below": 15});
    let (mut all, mut next) = items(bench.call(alice(), "numbers", args.clone()).await.unwrap());
    while let Some(cursor) = next {
        let page = bench.page(alice(), "numbers", args.clone(), &cursor).await.unwrap();
        let (more, after) = items(page);
        all.extend(more);
        next = after;
    }
    assert_eq!(all, (5..15).map(Value::from).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_cursor_is_of_one_caller_one_tool_and_one_query() {
    let bench = Bench::new();
    let args = json!({"from": 0, "below": 9});
    let (_, next) = items(bench.call(alice(), "numbers", args.clone()).await.unwrap());
    let cursor = next.unwrap();
    let not_opened = refused(Reason::NotOpened);
    let other = json!({"from": 0, "below": 10});
    let check = async |caller, name, args, expected: &Refusal| {
        let refusal = bench.page(caller, name, args, &cursor).await.unwrap_err();
        assert_eq!(&refusal, expected);
        assert_eq!(refusal.to_string(), "invalid continuation");
    };
    check(bob(), "numbers", args.clone(), &not_opened).await;
    check(nobody(), "numbers", args.clone(), &not_opened).await;
    check(alice(), "others", args.clone(), &not_opened).await;
    check(alice(), "numbers", other, &not_opened).await;
    check(alice(), "act", json!({}), &not_opened).await;
    // What may differ may differ, and the victim's cursor is as good as before.
    let wider = json!({"from": 0, "below": 9, "page_size": 5});
    let (page, _) = items(bench.page(alice(), "numbers", wider, &cursor).await.unwrap());
    assert_eq!(page, (3..8).map(Value::from).collect::<Vec<_>>());
}

#[tokio::test]
async fn another_server_does_not_take_it() {
    let (here, there) = (Bench::new(), Bench::new());
    let args = json!({"from": 0, "below": 9});
    let (_, next) = items(here.call(alice(), "numbers", args.clone()).await.unwrap());
    let refusal = there.page(alice(), "numbers", args, &next.unwrap()).await.unwrap_err();
    assert_eq!(refusal, refused(Reason::NotOpened));
}

#[tokio::test]
async fn edited_and_cut_cursors_are_refused_at_every_place() {
    let bench = Bench::new();
    let args = json!({"from": 0, "below": 9});
    let (_, next) = items(bench.call(alice(), "numbers", args.clone()).await.unwrap());
    let cursor = next.unwrap();
    for at in 0..cursor.len() {
        let mut edited = cursor.clone().into_bytes();
        edited[at] = if edited[at] == b'A' { b'B' } else { b'A' };
        let edited = String::from_utf8(edited).unwrap();
        for text in [&edited, &cursor[..at]] {
            let refusal = bench.page(alice(), "numbers", args.clone(), text).await.unwrap_err();
            let Refusal::Continuation { outside, .. } = refusal else { panic!("{refusal:?}") };
            assert_eq!(outside, Outside::Invalid, "{at}");
        }
    }
}

#[tokio::test]
async fn an_old_cursor_has_expired() {
    let bench = Bench::new();
    let args = json!({"from": 0, "below": 9});
    let (_, next) = items(bench.call(alice(), "numbers", args.clone()).await.unwrap());
    bench.pass(Duration::from_secs(18 * 60));
    let refusal = bench.page(alice(), "numbers", args, &next.unwrap()).await.unwrap_err();
    assert_eq!(refusal, refused(Reason::Expired));
}

#[tokio::test]
async fn arguments_travel_in_the_cursor_where_they_do_not_come_again() {
    let bench = Bench::new();
    let args = json!({"from": 0, "below": 8});
    let first = bench.pipeline.call(carried(alice(), "numbers", args.clone())).await.unwrap();
    let (mut all, mut next) = items(first);
    let first_cursor = next.clone().unwrap();
    while let Some(cursor) = next {
        let page = bench.pipeline.call(carried_on(alice(), "numbers", &cursor)).await.unwrap();
        let (more, after) = items(page);
        all.extend(more);
        next = after;
    }
    assert_eq!(all, (0..8).map(Value::from).collect::<Vec<_>>());
    // Such a cursor is good on such surfaces only, and only for its owner.
    let refusal = bench.page(alice(), "numbers", args.clone(), &first_cursor).await.unwrap_err();
    assert_eq!(refusal, refused(Reason::NotOpened));
    let (_, given) = items(bench.call(alice(), "numbers", args).await.unwrap());
    for (caller, cursor) in [(bob(), first_cursor), (alice(), given.unwrap())] {
        let refusal =
            bench.pipeline.call(carried_on(caller, "numbers", &cursor)).await.unwrap_err();
        assert_eq!(refusal, refused(Reason::NotOpened));
    }
}

#[tokio::test]
async fn what_does_not_fit_a_cursor_is_kept() {
    let bench = Bench::new();
    let args = json!({"from": 0, "below": 9, "padding": 1000});
    let (_, next) = items(bench.call(alice(), "numbers", args.clone()).await.unwrap());
    let cursor = next.unwrap();
    assert!(cursor.len() <= 512, "{}", cursor.len());
    let (page, _) = items(bench.page(alice(), "numbers", args.clone(), &cursor).await.unwrap());
    assert_eq!(page, [3, 4, 5].map(Value::from));
    let refusal = bench.page(bob(), "numbers", args.clone(), &cursor).await.unwrap_err();
    assert_eq!(refusal, refused(Reason::NotOpened));
    // More than the caller may have kept is told at once.
    let args = json!({"from": 0, "below": 9, "padding": 20_000_000});
    assert_eq!(bench.call(alice(), "numbers", args).await.unwrap_err(), Refusal::TooLarge);
}

#[tokio::test]
async fn what_is_revoked_is_invalid_within_a_second() {
    for revocation in [
        Revocation::principal(alice().principal()),
        Revocation::principal_before(alice().principal(), START_MS + 60_000),
        Revocation::before(START_MS + 60_000),
    ] {
        let bench = Bench::new();
        let args = json!({"from": 0, "below": 9});
        let (_, next) = items(bench.call(alice(), "numbers", args.clone()).await.unwrap());
        let cursor = next.unwrap();
        bench.revocations.store().revoke(revocation, START_MS).unwrap();
        bench.pass(Duration::from_secs(1));
        let refusal = bench.page(alice(), "numbers", args.clone(), &cursor).await.unwrap_err();
        assert_eq!(refusal, refused(Reason::Revoked), "{revocation:?}");
    }
}

#[tokio::test]
async fn bad_arguments_are_told() {
    let bench = Bench::new();
    for (args, expected) in [
        (json!({"from": 0}), "\"below\" is a required property"),
        (json!({"from": "x", "below": 1}), "`/from`"),
        (json!([]), "the arguments"),
        (json!({"from": 0, "below": 1, "other": 2}), "other"),
    ] {
        let refusal = bench.call(alice(), "numbers", args).await.unwrap_err();
        let Refusal::BadArguments(message) = refusal else { panic!("{refusal:?}") };
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(bench.call(alice(), "nothing", json!({})).await.unwrap_err(), Refusal::NotFound);
}
