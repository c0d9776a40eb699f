//! A session is of use to who began it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use handback_mcp::FrontOptions;
use handback_store::sessions::SessionOptions;
use hyper::StatusCode;
use serde_json::json;

use crate::handler::Seen;
use crate::world::{World, call, initialize, until};

const ALICE: Option<u32> = Some(1);
const BOB: Option<u32> = Some(2);
const NOBODY: Option<u32> = None;

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

#[tokio::test]
async fn the_caller_is_known_to_handlers() {
    let world = World::new().await;
    for (user, name) in [(ALICE, "1"), (BOB, "2"), (NOBODY, "nobody")] {
        let session = world.begin(user).await;
        let answer = world.whoami(user, &session).await;
        assert!(answer.body.contains(&format!(r#""text":"{name}""#)), "{answer:?}");
    }
}

#[tokio::test]
async fn another_gets_the_answer_for_a_session_that_never_was() {
    let world = World::new().await;
    for (owner, other) in [(ALICE, BOB), (ALICE, NOBODY), (NOBODY, ALICE)] {
        let session = world.begin(owner).await;
        for message in [
            call("whoami", None),
            initialize(),
            json!({ "jsonrpc": "2.0", "id": 1,
            "result": {} }),
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": 2 } }),
        ] {
            let foreign = world.post(other, &message).session(&session).send().await;
            let unknown = world.post(other, &message).session(UNKNOWN).send().await;
            assert_eq!(foreign.status, StatusCode::NOT_FOUND);
            assert_eq!(foreign.to_compare(), unknown.to_compare());
        }
        let foreign = world.get(other).session(&session).send().await;
        let unknown = world.get(other).session(UNKNOWN).send().await;
        assert_eq!(foreign.status, StatusCode::NOT_FOUND);
        assert_eq!(foreign.to_compare(), unknown.to_compare());
        let foreign = world.delete(other).session(&session).send().await;
        let unknown = world.delete(other).session(UNKNOWN).send().await;
        assert_eq!(foreign.status, StatusCode::NOT_FOUND);
        assert_eq!(foreign.to_compare(), unknown.to_compare());
        let own = world.whoami(owner, &session).await;
        assert_eq!(own.status, StatusCode::OK, "the session is untouched");
    }
}

#[tokio::test]
async fn the_owner_can_end_a_session_once() {
    let world = World::new().await;
    let session = world.begin(ALICE).await;
    assert_eq!(world.delete(ALICE).session(&session).send().await.status, StatusCode::ACCEPTED);
    assert_eq!(world.whoami(ALICE, &session).await.status, StatusCode::NOT_FOUND);
    assert_eq!(world.delete(ALICE).session(&session).send().await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn one_session_cannot_hide_behind_another() {
    let world = World::new().await;
    let (own, foreign) = (world.begin(BOB).await, world.begin(ALICE).await);
    for (first, second) in [(&own, &foreign), (&foreign, &own)] {
        let message = call("whoami", None);
        let answer = world.post(BOB, &message).session(first).session(second).send().await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn a_session_outlives_its_process_and_keeps_its_owner() {
    let world = World::new().await;
    let session = world.begin(ALICE).await;
    let again = world.again().await;
    assert_eq!(again.whoami(BOB, &session).await.status, StatusCode::NOT_FOUND);
    let own = again.whoami(ALICE, &session).await;
    assert!(own.body.contains(r#""text":"1""#), "{own:?}");
    assert_eq!(again.delete(ALICE).session(&session).send().await.status, StatusCode::ACCEPTED);
    // The first process has it in memory, and does not serve it any more.
    assert_eq!(world.whoami(ALICE, &session).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_session_ends_when_its_time_is_over() {
    let world = World::new().await;
    let session = world.begin(ALICE).await;
    for minutes in [20, 29] {
        world.pass(minutes * 60 * 1000);
        assert_eq!(world.whoami(ALICE, &session).await.status, StatusCode::OK);
    }
    world.pass(31 * 60 * 1000);
    assert_eq!(world.whoami(ALICE, &session).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn absent_is_not_unreachable() {
    let world = World::new().await;
    let session = world.begin(ALICE).await;
    world.store_is_broken(true);
    for answer in [
        world.whoami(ALICE, &session).await,
        world.whoami(BOB, &session).await,
        world.get(ALICE).session(&session).send().await,
        world.delete(ALICE).session(&session).send().await,
        world.post(ALICE, &initialize()).send().await,
    ] {
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(!answer.body.contains("secret"), "{answer:?}");
        assert!(!answer.headers.contains_key("mcp-session-id"));
    }
    world.store_is_broken(false);
    assert_eq!(world.whoami(ALICE, &session).await.status, StatusCode::OK);
}

/// One session for each caller, and two for all.
fn few() -> FrontOptions {
    let sessions = SessionOptions::new().per_principal(1);
    let live = handback_tool::Quota::new(2, handback_tool::Share::WHOLE);
    FrontOptions { sessions, live, ..FrontOptions::default() }
}

#[tokio::test]
async fn a_session_has_its_owner_also_if_who_began_it_hung_up() {
    let world = World::with(few()).await;
    world.seen.is_slow_to_begin.store(true, Ordering::SeqCst);
    let ask = world.post(ALICE, &initialize());
    ask.hang_up_after(Seen::reaches(&world.seen.begun, 1)).await;
    world.left().await;
    world.seen.is_slow_to_begin.store(false, Ordering::SeqCst);
    world.seen.go.notify_one();
    until(|| world.sessions_of(ALICE) == 1).await;
    let another = world.post(ALICE, &initialize()).send().await;
    assert_eq!(another.status, StatusCode::SERVICE_UNAVAILABLE, "it is the caller's one session");
    world.begin(BOB).await;
}

#[tokio::test]
async fn a_session_without_an_owner_ends_also_if_who_began_it_hung_up() {
    let world = World::with(few()).await;
    let session = world.begin(ALICE).await;
    // One too many for this caller: the store is about to say so.
    world.switch.hold(true);
    let ask = world.post(ALICE, &initialize());
    ask.hang_up_after(Seen::reaches(&world.switch.held, 1)).await;
    world.left().await;
    world.switch.hold(false);
    let begun = async {
        while world.post(BOB, &initialize()).send().await.status != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let begun = tokio::time::timeout(Duration::from_secs(20), begun).await;
    assert!(begun.is_ok(), "what nobody owns takes the place of others");
    assert_eq!((world.sessions_of(ALICE), world.sessions_of(BOB)), (1, 1));
    assert_eq!(world.whoami(ALICE, &session).await.status, StatusCode::OK);
}
