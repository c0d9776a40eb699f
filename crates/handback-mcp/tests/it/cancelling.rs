//! In the new era hanging up cancels.

use std::sync::atomic::Ordering;

use hyper::StatusCode;

use crate::handler::Seen;
use crate::world::{World, modern_call};

const ALICE: Option<u32> = Some(1);

#[tokio::test]
async fn a_call_is_answered_without_a_session() {
    let world = World::new().await;
    let ask = world.post(ALICE, &modern_call("whoami", None)).modern("tools/call", "whoami");
    let answer = ask.send().await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body.contains(r#""text":"1""#), "{answer:?}");
    assert!(answer.body.contains(r#""resultType":"complete""#), "{answer:?}");
    assert!(!answer.headers.contains_key("mcp-session-id"));
}

#[tokio::test]
async fn hanging_up_before_any_news_cancels() {
    let world = World::new().await;
    let ask = world.post(ALICE, &modern_call("wait", None)).modern("tools/call", "wait");
    ask.hang_up_after(Seen::reaches(&world.seen.started, 1)).await;
    Seen::reaches(&world.seen.cancelled, 1).await;
}

#[tokio::test]
async fn hanging_up_in_the_middle_cancels() {
    let world = World::new().await;
    let ask = world.post(ALICE, &modern_call("wait", Some(5))).modern("tools/call", "wait");
    let mut open = ask.open().await;
    open.until("notifications/progress").await;
    assert_eq!(world.seen.cancelled.load(Ordering::SeqCst), 0);
    open.hang_up();
    Seen::reaches(&world.seen.cancelled, 1).await;
}

#[tokio::test]
async fn a_silent_call_keeps_its_connection_and_can_still_be_left() {
    let world = World::new().await;
    let ask = || world.post(ALICE, &modern_call("wait", None)).modern("tools/call", "wait");
    let mut open = ask().open().await;
    assert_eq!(open.response.status(), StatusCode::OK);
    open.until(":\n\n:\n\n").await;
    world.seen.go.notify_one();
    open.until(r#""text":"waited""#).await;
    let mut open = ask().open().await;
    open.until(":\n\n").await;
    open.hang_up();
    Seen::reaches(&world.seen.cancelled, 1).await;
}

#[tokio::test]
async fn sessions_mean_nothing_here() {
    let world = World::new().await;
    let ask = world.post(ALICE, &modern_call("whoami", None)).modern("tools/call", "whoami");
    let answer = ask.session("another's").send().await;
    assert_eq!(answer.status, StatusCode::OK);
    let delete = world.delete(ALICE).header("mcp-protocol-version", "2026-07-28");
    assert_eq!(delete.session("x").send().await.status, StatusCode::METHOD_NOT_ALLOWED);
}
