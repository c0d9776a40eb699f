//! A share for each identified caller of what is counted for all callers.

mod audit;
mod beside;
mod programs;
mod stage;

use handback_server::Limits;

use self::stage::{ADA, BOB, Stage, check_refused, quarters};
use crate::support::{Running, config};

const EVENTS: &str = "GET /v1/stream/s?live=sse&offset=now";

#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_a_caller_at_its_share_of_websockets_leaves_the_rest_to_others() {
    let stage = Stage::new(Limits { websockets: 8, ..quarters() }).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(stage.web_socket(ADA).await);
        assert_eq!(held.last().unwrap().status, 101);
    }
    let refused = stage.web_socket(ADA).await;
    assert_eq!(refused.status, 429, "{}", refused.head);
    let bobs = [stage.web_socket(BOB).await, stage.web_socket(BOB).await];
    assert!(bobs.iter().all(|socket| socket.status == 101));
    stage.check_audit("WebSocket connections");
    held.pop();
    stage.until(async || stage.web_socket(ADA).await.status == 101).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_a_caller_at_its_share_of_event_streams_leaves_the_rest_to_others() {
    let stage = Stage::new(Limits { event_streams: 8, ..quarters() }).await;
    for who in [ADA, BOB] {
        assert_eq!(stage.ask(who, "PUT /v1/stream/s", "").await.status, 201);
    }
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(stage.hold(ADA, EVENTS, &[]).await);
        assert_eq!(held.last().unwrap().status, 200);
    }
    check_refused(&stage.ask(ADA, EVENTS, "").await, 429, "event streams");
    let spelled = "GET /v1/stream/s?live=%73se&offset=now";
    assert_eq!(stage.hold(ADA, spelled, &[]).await.status, 429);
    // Streams of MCP are counted with them.
    let accept = [("accept", "text/event-stream")];
    check_refused(&stage.ask_with(ADA, "GET /mcp", &accept, "").await, 429, "event streams");
    let listen = [("accept", "text/event-stream"), ("mcp-method", "subscriptions/listen")];
    check_refused(&stage.ask_with(ADA, "POST /mcp", &listen, "{}").await, 429, "event streams");
    check_refused(
        &stage.ask_with(ADA, "POST /v1/tools/echo/run", &accept, "{}").await,
        429,
        "event streams",
    );
    let spelled = [("accept", "Text/Event-Stream")];
    check_refused(
        &stage.ask_with(ADA, "POST /v1/tools/echo/run", &spelled, "{}").await,
        429,
        "event streams",
    );
    let bobs = [stage.hold(BOB, EVENTS, &[]).await, stage.hold(BOB, EVENTS, &[]).await];
    assert!(bobs.iter().all(|stream| stream.status == 200));
    // What is no event stream goes on.
    assert_eq!(stage.ask(ADA, "GET /v1/stream/s", "").await.status, 200);
    stage.check_audit("event streams");
    held.pop();
    stage.until(async || stage.hold(ADA, EVENTS, &[]).await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_a_caller_at_its_share_of_requests_leaves_connections_to_others() {
    let stage = Stage::new(Limits { connections: 24, ..quarters() }).await;
    for who in [ADA, BOB] {
        assert_eq!(stage.ask(who, "PUT /v1/stream/s", "").await.status, 201);
    }
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(stage.hold(ADA, EVENTS, &[]).await);
        assert_eq!(held.last().unwrap().status, 200);
    }
    for _ in 0..20 {
        check_refused(&stage.ask(ADA, "GET /v1/stream/s", "").await, 429, "requests in flight");
        assert_eq!(stage.ask(BOB, "GET /v1/stream/s", "").await.status, 200);
    }
    stage.check_audit("requests in flight");
    held.pop();
    stage.until(async || stage.ask(ADA, "GET /v1/stream/s", "").await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_a_caller_at_its_share_of_streams_leaves_the_rest_to_others() {
    let stage = Stage::new(Limits { streams: 8, ..quarters() }).await;
    let put = async |who, name: &str| stage.ask(who, &format!("PUT /v1/stream/{name}"), "").await;
    for name in ["a", "b"] {
        assert_eq!(put(ADA, name).await.status, 201);
    }
    check_refused(&put(ADA, "c").await, 507, "streams");
    // A stream that is there is no other one.
    assert_eq!(put(ADA, "b").await.status, 200);
    for name in ["a", "b"] {
        assert_eq!(put(BOB, name).await.status, 201);
    }
    stage.check_audit("streams");
    assert_eq!(stage.ask(ADA, "DELETE /v1/stream/a", "").await.status, 204);
    assert_eq!(put(ADA, "c").await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_a_caller_at_its_share_of_stored_bytes_leaves_the_rest_to_others() {
    let stage = Stage::new(Limits { stream_bytes: 40_000, ..quarters() }).await;
    for who in [ADA, BOB] {
        assert_eq!(stage.ask(who, "PUT /v1/stream/s", "").await.status, 201);
    }
    let piece = "x".repeat(3_000);
    let append = async |who| stage.ask(who, "POST /v1/stream/s", &piece).await;
    for _ in 0..3 {
        assert_eq!(append(ADA).await.status, 204);
    }
    for _ in 0..3 {
        check_refused(&append(ADA).await, 507, "stored bytes");
    }
    // A stream with content is as large as one that content is appended to.
    let created = stage.ask(ADA, "PUT /v1/stream/t", &piece).await;
    check_refused(&created, 507, "stored bytes");
    for _ in 0..3 {
        assert_eq!(append(BOB).await.status, 204);
    }
    stage.check_audit("stored bytes of streams");
    // It can be closed, read and deleted.
    let closed = [("stream-closed", "true")];
    assert_eq!(stage.ask_with(ADA, "POST /v1/stream/s", &closed, "").await.status, 204);
    assert_eq!(stage.ask(ADA, "GET /v1/stream/s", "").await.body.len(), 9_000);
    assert_eq!(stage.ask(ADA, "DELETE /v1/stream/s", "").await.status, 204);
    assert_eq!(stage.ask(ADA, "PUT /v1/stream/s", &piece).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_a_caller_at_its_share_of_sessions_leaves_the_rest_to_others() {
    let stage = Stage::new(Limits { sessions: 8, ..quarters() }).await;
    let mut adas = Vec::new();
    for _ in 0..2 {
        let answer = stage.begin(ADA).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        adas.push(answer.headers["mcp-session-id"].clone());
    }
    for _ in 0..3 {
        let refused = stage.begin(ADA).await;
        assert_eq!(refused.status, 429, "{refused:?}");
        assert_eq!(refused.body, "the caller's share of sessions is used up");
    }
    for _ in 0..2 {
        assert_eq!(stage.begin(BOB).await.status, 200);
    }
    stage.check_audit("sessions");
    assert!(stage.end(ADA, &adas[0]).await.status < 300);
    stage.until(async || stage.begin(ADA).await.status == 200).await;
}

/// Without identities there is one caller, and nobody to leave anything to.
#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_without_identities_one_caller_has_all() {
    let server = Running::start(config().limits(Limits { streams: 8, ..quarters() })).await;
    for number in 0..8 {
        let answer = server.ask(&format!("PUT /v1/stream/{number}"), None, "").await;
        assert_eq!(answer.status, 201);
    }
    let refused = server.ask("PUT /v1/stream/8", None, "").await;
    assert_eq!(refused.status, 507, "{refused:?}");
    // With one caller, its share is the total.
    assert!(refused.body.contains("CALLER_SHARE"), "{refused:?}");
}
