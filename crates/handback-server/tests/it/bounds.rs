//! What one client can take of the server.

use std::time::{Duration, Instant};

use handback_server::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Running, config};

#[tokio::test(flavor = "multi_thread")]
async fn headers_and_bodies_are_bounded() {
    let limits = Limits { body_bytes: 1_024, header_bytes: 2_048, ..Limits::default() };
    let server = Running::start(config().limits(limits)).await;
    assert_eq!(server.ask("PUT /v1/stream/a", None, "").await.status, 201);
    let fits = "x".repeat(1_024);
    assert_eq!(server.ask("POST /v1/stream/a", None, &fits).await.status, 204);
    let larger = "x".repeat(1_025);
    assert_eq!(server.ask("POST /v1/stream/a", None, &larger).await.status, 413);
    // Also where the size is not told before.
    let chunked = [("transfer-encoding", "chunked")];
    let chunks = format!("400\r\n{fits}\r\n400\r\n{fits}\r\n0\r\n\r\n");
    let answer = server.ask_with("POST /v1/stream/a", &chunked, &chunks).await;
    assert!(matches!(answer.status, 400 | 413), "{answer:?}");
    let long = "x".repeat(2_048);
    let answer = server.ask_with("GET /healthz", &[("x-long", &long)], "").await;
    assert_eq!(answer.status, 431);
    let read = server.ask("GET /v1/stream/a", None, "").await;
    assert_eq!(read.body.matches('x').count(), 1_024);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_say_nothing_make_room_for_others() {
    let limits = Limits { connections: 200, ..Limits::default() };
    let server = Running::start(config().limits(limits)).await;
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(server.connect().await);
    }
    for _ in 0..5 {
        let start = Instant::now();
        assert_eq!(server.ask("GET /healthz", None, "").await.status, 200);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
    // Whoever says nothing is left in the end, though nobody waits.
    let mut last = server.connect().await;
    let closed = tokio::time::timeout(Duration::from_secs(15), last.read(&mut [0; 1])).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_said_something_is_not_pushed_out() {
    let limits = Limits { connections: 20, ..Limits::default() };
    let server = Running::start(config().limits(limits)).await;
    let mut working = server.connect().await;
    working.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n").await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(server.connect().await);
    }
    assert_eq!(server.ask("GET /healthz", None, "").await.status, 200);
    working.write_all(b"connection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    working.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
