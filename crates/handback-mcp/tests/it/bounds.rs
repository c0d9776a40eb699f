//! What is turned away before rmcp sees it, and by rmcp.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use handback_mcp::bounds::{BODY_TIME, MAX_BODY_BYTES, MAX_JSON_DEPTH};
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

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

/// Sends a head and one byte of a body, and then nothing; gives all that is said to that.
fn one_byte(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    // Of real time, of which the server needs none.
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!("POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-length: 2\r\n\r\n");
    stream.write_all(format!("{head}{{").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_given_up() {
    let world = World::new().await;
    let began = Instant::now();
    let (sender, answer) = oneshot::channel();
    // The client's time is not the server's, which passes as soon as nothing else happens.
    std::thread::spawn(move || sender.send(one_byte(world.address)));
    let answer = answer.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("-32600"), "{answer}");
    assert_eq!(began.elapsed().as_secs(), BODY_TIME.as_secs());
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
