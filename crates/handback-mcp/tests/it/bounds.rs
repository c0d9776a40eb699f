//! What is turned away before rmcp sees it, and by rmcp.

use handback_mcp::bounds::{MAX_BODY_BYTES, MAX_JSON_DEPTH};
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::world::{World, call, initialize};

const ALICE: Option<u32> = Some(1);

async fn answer_to(world: &World, body: impl Into<bytes::Bytes>) -> (StatusCode, i64) {
    let answer = world.post(ALICE, &json!({})).body(body).send().await;
    let error: Value = serde_json::from_str(&answer.body).unwrap();
    (answer.status, error["error"]["code"].as_i64().unwrap())
}

#[tokio::test]
async fn a_body_has_an_end() {
    let world = World::new().await;
    let long = vec![b' '; MAX_BODY_BYTES + 1];
    let answer = world.post(ALICE, &json!({})).body(long).open().await;
    assert_eq!(answer.response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_body_has_a_bottom() {
    let world = World::new().await;
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let (status, code) = answer_to(&world, nested(MAX_JSON_DEPTH + 1)).await;
    assert_eq!((status, code), (StatusCode::BAD_REQUEST, -32600));
    let mut message = call("whoami", None);
    message["params"]["arguments"] =
        serde_json::from_str(&format!(r#"{{"a": {}}}"#, nested(MAX_JSON_DEPTH - 3))).unwrap();
    let session = world.begin(ALICE).await;
    let answer = world.post(ALICE, &message).session(&session).send().await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn what_is_not_json_is_said_to_be_none() {
    let world = World::new().await;
    for body in ["", "{", "nope", "{} {}"] {
        assert_eq!(answer_to(&world, body).await, (StatusCode::BAD_REQUEST, -32700), "{body}");
    }
}

#[tokio::test]
async fn pages_of_other_origins_may_not_ask() {
    let world = World::new().await;
    for (origin, status) in [
        ("http://localhost:3000", StatusCode::OK),
        ("http://evil.example", StatusCode::FORBIDDEN),
        ("https://localhost.evil.example", StatusCode::FORBIDDEN),
        ("null", StatusCode::FORBIDDEN),
    ] {
        let answer = world.post(ALICE, &initialize()).header("origin", origin).send().await;
        assert_eq!(answer.status, status, "{origin}");
    }
}

#[tokio::test]
async fn without_a_session_only_the_handshake_is_heard() {
    let world = World::new().await;
    let answer = world.post(ALICE, &call("whoami", None)).send().await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(world.get(ALICE).send().await.status, StatusCode::BAD_REQUEST);
}
