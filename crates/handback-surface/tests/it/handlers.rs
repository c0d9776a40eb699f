//! Handlers of one's own, good ones and bad ones.

use std::sync::Arc;

use bytes::Bytes;
use handback_store::MemoryStore;
use handback_stream::duplex::{
    CHUNK_BYTES_MAX, Chunk, ClientFrame, DuplexHandler, EVENT_BYTES_PER_CHUNK_MAX,
    EVENTS_PER_CHUNK_MAX, EventBody, ServerFrame,
};
use handback_surface::duplex::DuplexSettings;

use crate::world::{Client, World, hello};

/// Does what a chunk says.
#[derive(Debug, Default)]
struct Obedient {
    heard: usize,
}

impl DuplexHandler for Obedient {
    fn chunk(&mut self, chunk: Chunk) -> Vec<Bytes> {
        self.heard += 1;
        let text = String::from_utf8(chunk.data.to_vec()).unwrap();
        let (what, count) = text.split_once(' ').unwrap_or((&text, "1"));
        let count = count.parse().unwrap();
        match what {
            "count" => vec![self.heard.to_string().into()],
            "many" => vec![Bytes::from_static(b"x"); count],
            "large" => vec![vec![b'x'; count].into()],
            "heavy" => vec![vec![b'x'; CHUNK_BYTES_MAX].into(); count],
            _ => panic!("as told"),
        }
    }

    fn close(&mut self) -> Vec<Bytes> {
        assert!(self.heard != 2, "as told");
        vec![Bytes::from_static(b"closed")]
    }

    fn wants_history(&self) -> bool {
        true
    }

    fn recall(&mut self, _chunk: Chunk) {
        self.heard += 1;
    }
}

async fn world() -> World {
    let settings = DuplexSettings::default().handler("echo", || Box::new(Obedient::default()));
    World::with(Arc::new(MemoryStore::new()), settings).await
}

/// All events, and whether it was aborted.
async fn rest(client: &mut Client) -> (Vec<String>, bool) {
    let mut events = Vec::new();
    loop {
        match client.frame().await {
            Some(ServerFrame::Event(event)) => {
                let EventBody::Data(data) = event.body else { panic!("a record") };
                events.push(String::from_utf8(data.to_vec()).unwrap());
                if events.len().is_multiple_of(50) || data.len() > 1 {
                    client.say(ClientFrame::Ack { event_id: Some(event.event_id) }).await;
                }
            }
            Some(ServerFrame::Ack { .. } | ServerFrame::Token(_)) => {}
            Some(ServerFrame::End { aborted, .. }) => return (events, aborted),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_handler_of_ones_own_consumes_and_ends() {
    let world = world().await;
    let (mut client, _) = world.open(hello("k")).await;
    for seqno in 0..3 {
        client.chunk(seqno, "count").await;
    }
    client.say(ClientFrame::Close).await;
    let expected = ["1", "2", "3", "closed"].map(str::to_owned);
    assert_eq!(rest(&mut client).await, (expected.to_vec(), false));
}

#[tokio::test]
async fn all_that_it_may_make_arrives() {
    let world = world().await;
    let (mut client, _) = world.open(hello("k")).await;
    client.chunk(0, &format!("many {EVENTS_PER_CHUNK_MAX}")).await;
    client.chunk(1, &format!("large {CHUNK_BYTES_MAX}")).await;
    client.chunk(2, "count").await;
    client.say(ClientFrame::Close).await;
    let (events, aborted) = rest(&mut client).await;
    assert_eq!(events.len(), EVENTS_PER_CHUNK_MAX + 3);
    assert_eq!(events[EVENTS_PER_CHUNK_MAX].len(), CHUNK_BYTES_MAX);
    assert_eq!(&events[EVENTS_PER_CHUNK_MAX + 1..], ["3", "closed"]);
    assert!(!aborted);
}

#[tokio::test]
async fn a_handler_that_fails_ends_its_duplex_and_no_other() {
    let world = world().await;
    let (mut other, _) = world.open(hello("other")).await;
    let bad = [
        "panic".to_owned(),
        format!("many {}", EVENTS_PER_CHUNK_MAX + 1),
        format!("large {}", CHUNK_BYTES_MAX + 1),
        format!("heavy {}", EVENT_BYTES_PER_CHUNK_MAX / CHUNK_BYTES_MAX + 1),
    ];
    for (number, chunk) in bad.iter().enumerate() {
        let key = format!("k{number}");
        let (mut client, _) = world.open(hello(&key)).await;
        client.chunk(0, "count").await;
        client.chunk(1, chunk).await;
        client.chunk(2, "count").await;
        // What was made before is there, nothing after it, and it stays so.
        assert_eq!(rest(&mut client).await, (vec!["1".to_owned()], true), "{chunk}");
        let (mut client, _) = world.open(hello(&key)).await;
        assert_eq!(rest(&mut client).await, (vec!["1".to_owned()], true), "{chunk}");
    }
    // At the end, too.
    let (mut client, _) = world.open(hello("close")).await;
    client.chunk(0, "count").await;
    client.chunk(1, "count").await;
    client.say(ClientFrame::Close).await;
    assert_eq!(rest(&mut client).await, (vec!["1".to_owned(), "2".to_owned()], true));
    other.chunk(0, "count").await;
    assert_eq!(other.event().await.1, "1");
}
