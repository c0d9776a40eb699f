//! Many events in one commit, to a client that keeps only what is proved.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use handback_client::Keys;
use handback_client::duplex::{Duplex, DuplexOptions};

use crate::streams::server::Server;
use crate::support::Sandbox;

/// More than flow control lets through at once.
const EVENTS: usize = 150;

#[test]
fn a_commit_of_many_events_is_sent_whole() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let options = DuplexOptions::new(format!("http://{}", server.address))
        .idempotency_key("k")
        .verify(Keys::Server);
    let duplex = runtime.block_on(async {
        let duplex = Duplex::open(options).await.unwrap();
        duplex.send("hello").await.unwrap();
        // The streams are there once the chunk is.
        while duplex.pending() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        duplex
    });
    let together = Arc::new(Barrier::new(EVENTS));
    std::thread::scope(|scope| {
        for number in 0..EVENTS {
            let (together, server) = (Arc::clone(&together), &server);
            scope.spawn(move || {
                together.wait();
                let line = "POST /v1/stream/__duplex/relay/k/out";
                let headers = [("content-type", "application/octet-stream")];
                let answer = server.ask(line, &headers, format!("{number}").as_bytes());
                assert_eq!(answer.status, 204);
            });
        }
    });
    let received = runtime.block_on(async {
        let mut received = BTreeSet::new();
        while received.len() < EVENTS {
            let next = tokio::time::timeout(Duration::from_secs(30), duplex.next_event());
            let event = next.await.expect("it stands still").unwrap().unwrap();
            assert!(received.insert(event.data().to_vec()), "an event came twice");
            duplex.ack(&event).await.unwrap();
        }
        received.len()
    });
    assert_eq!(received, EVENTS);
}
