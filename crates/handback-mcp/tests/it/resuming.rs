//! Clients of the old era that come back for the rest.

use std::sync::atomic::Ordering;

use handback_mcp::events::EVENT_LIFE_MS;
use hyper::StatusCode;

use crate::handler::Seen;
use crate::world::{World, call, ids, initialize};

const ALICE: Option<u32> = Some(1);
const BOB: Option<u32> = Some(2);

/// Starts a call, and leaves after its first news; gives the id of that event.
async fn cut_off(world: &World, session: &str) -> String {
    let mut open = world.post(ALICE, &call("wait", Some(5))).session(session).open().await;
    let text = open.until("notifications/progress").await;
    open.hang_up();
    let id = (*ids(&text).last().unwrap()).to_owned();
    Seen::reaches(&world.seen.started, 1).await;
    id
}

#[tokio::test]
async fn hanging_up_is_not_cancelling_and_the_answer_is_picked_up() {
    let world = World::new().await;
    let session = world.begin(ALICE).await;
    let id = cut_off(&world, &session).await;
    world.seen.go.notify_one();
    Seen::reaches(&world.seen.finished, 1).await;
    assert_eq!(world.seen.cancelled.load(Ordering::SeqCst), 0);
    let rest = world.get(ALICE).session(&session).header("last-event-id", &id).send().await;
    assert!(rest.body.contains(r#""text":"waited""#), "{rest:?}");
    assert!(!rest.body.contains("notifications/progress"), "that was there already");
}

#[tokio::test]
async fn who_comes_back_early_waits_for_the_answer() {
    let world = World::new().await;
    let session = world.begin(ALICE).await;
    let id = cut_off(&world, &session).await;
    let mut rest = world.get(ALICE).session(&session).header("last-event-id", &id).open().await;
    assert_eq!(rest.response.status(), StatusCode::OK);
    world.seen.go.notify_one();
    rest.until(r#""text":"waited""#).await;
}

#[tokio::test]
async fn an_answer_outlives_the_process() {
    let world = World::new().await;
    let session = world.begin(ALICE).await;
    let id = cut_off(&world, &session).await;
    world.seen.go.notify_one();
    Seen::reaches(&world.seen.finished, 1).await;
    let again = world.again().await;
    let rest = again.get(ALICE).session(&session).header("last-event-id", &id).send().await;
    assert!(rest.body.contains(r#""text":"waited""#), "{rest:?}");
}

#[tokio::test]
async fn event_ids_are_tokens_of_their_owner_and_session() {
    let world = World::new().await;
    let session = world.begin(ALICE).await;
    let id = cut_off(&world, &session).await;
    world.seen.go.notify_one();
    Seen::reaches(&world.seen.finished, 1).await;

    let others = world.begin(BOB).await;
    let other = world.begin(ALICE).await;
    let mut edited = id.clone();
    edited.replace_range(20..21, if id.get(20..21) == Some("A") { "B" } else { "A" });
    let mut refusals = Vec::new();
    for (user, session, id) in [
        (BOB, &others, id.as_str()),
        (ALICE, &other, id.as_str()),
        (ALICE, &session, edited.as_str()),
        (ALICE, &session, "0"),
        (ALICE, &session, "1/2"),
    ] {
        let ask = world.get(user).session(session).header("last-event-id", id);
        refusals.push(ask.send().await);
    }
    for refusal in &refusals {
        assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
        assert_eq!(refusal.to_compare(), refusals[0].to_compare());
    }
    let foreign = world.get(BOB).session(&session).header("last-event-id", &id).send().await;
    assert_eq!(foreign.status, StatusCode::NOT_FOUND);
    let rest = world.get(ALICE).session(&session).header("last-event-id", &id).send().await;
    assert!(rest.body.contains(r#""text":"waited""#), "the owner's is untouched");
}

#[tokio::test]
async fn an_event_id_ends() {
    let world = World::new().await;
    let session = world.begin(ALICE).await;
    let id = cut_off(&world, &session).await;
    world.pass(EVENT_LIFE_MS + 200_000);
    let late = world.get(ALICE).session(&session).header("last-event-id", &id).send().await;
    assert_eq!((late.status, late.body.as_str()), (StatusCode::GONE, "expired event id"));
}

#[tokio::test]
async fn what_leads_nowhere_has_no_id() {
    let world = World::new().await;
    let answer = world.post(ALICE, &initialize()).send().await;
    assert!(answer.body.contains("serverInfo"));
    assert_eq!(ids(&answer.body), [""; 0]);
}

#[tokio::test]
async fn no_session_no_events() {
    let world = World::new().await;
    let session = world.begin(ALICE).await;
    let id = cut_off(&world, &session).await;
    let answer = world.get(ALICE).header("last-event-id", &id).send().await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let modern = world.get(ALICE).header("last-event-id", &id).session(&session);
    let modern = modern.header("mcp-protocol-version", "2026-07-28").send().await;
    assert_eq!(modern.status, StatusCode::METHOD_NOT_ALLOWED);
    world.seen.go.notify_one();
}
