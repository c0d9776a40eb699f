//! Stores that fail.

use std::sync::Arc;
use std::time::Duration;

use handback_store::faulty::{Fault, FaultPlan, FaultyDisk};
use handback_stream::duplex::{ClientFrame, Code, EventBody, Mode, ServerFrame};

use crate::world::{World, again, hello};

/// About three seconds without writes: recovery is tried twice a second.
const BROKEN: Fault = Fault::Broken { stuck: 6 };

#[tokio::test]
async fn without_writes_events_are_sent_and_chunks_refused_until_they_come_back() {
    let disk = FaultyDisk::new(FaultPlan::new(1));
    let world = World::new(Arc::new(disk.open())).await;
    let (mut client, first) = world.open(hello("k")).await;
    client.chunk(0, "zero").await;
    let (kept, _) = client.event().await;
    client.chunk(1, "one").await;
    client.event().await;
    disk.plan(disk.writes(), BROKEN);
    client.chunk(2, "two").await;
    let (code, retry) = client.error().await;
    assert_eq!((code, retry), (Code::ReadOnly, Some(1000)));
    let hello_again = || handback_stream::duplex::Hello {
        event_id: Some(kept.clone()),
        ..again("k", &first.token)
    };
    // Each of these is refused, and has no effect.
    let frames = [
        ClientFrame::Chunk { seqno: 2, data: "two".into() },
        ClientFrame::Close,
        ClientFrame::Abort,
    ];
    for frame in frames {
        let (mut client, welcome) = world.open(hello_again()).await;
        assert_eq!(welcome.mode, Mode::ReadOnly, "{frame:?}");
        assert!(welcome.reason.is_some() && welcome.retry_after_ms.is_some());
        assert_eq!(welcome.generation, first.generation);
        assert_eq!(client.event().await.1, "one", "{frame:?}");
        client.say(frame).await;
        assert_eq!(client.error().await, (Code::ReadOnly, Some(1000)));
    }
    // A duplex that is not there yet cannot be created.
    assert_eq!(world.try_open(hello("new")).await.err(), Some(Code::ReadOnly));
    // One that is opened now does not write later, either: it is no generation of its own.
    let (mut reader, welcome) = world.open(hello_again()).await;
    assert_eq!(welcome.mode, Mode::ReadOnly);
    let mut mode = world.streams.mode();
    mode.wait_for(|mode| *mode == handback_surface::streams::Mode::Durable).await.unwrap();
    reader.say(ClientFrame::Close).await;
    assert_eq!(reader.error().await.0, Code::ReadOnly);
    let (mut client, welcome) = world.open(hello_again()).await;
    assert_eq!(welcome.mode, Mode::Durable);
    // The one that failed may be there or not.
    for seqno in welcome.next_seqno..4 {
        client.chunk(seqno, ["zero", "one", "two", "three"][seqno as usize]).await;
    }
    client.say(ClientFrame::Close).await;
    for text in ["one", "two", "three"] {
        assert_eq!(client.event().await.1, text);
    }
    loop {
        match client.frame().await {
            Some(ServerFrame::End { aborted, .. }) => break assert!(!aborted),
            Some(ServerFrame::Ack { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_chunk_is_echoed_once_by_a_store_that_fails_often() {
    for seed in 0..4 {
        let disk = FaultyDisk::new(FaultPlan::new(seed));
        let world = World::new(Arc::new(disk.open())).await;
        let mut next = hello("k");
        let mut kept: Vec<(String, String)> = Vec::new();
        let mut acked = 0;
        let mut tries = 0u64;
        while kept.len() < 40 {
            tries += 1;
            assert!(tries < 400, "seed {seed}: {kept:?}");
            // Each connection meets a fault some writes later: of its own, or of the handler.
            let fault = [Fault::Full, Fault::Unavailable, Fault::Broken { stuck: 0 }];
            let fault = fault[usize::try_from(tries % 3).unwrap()];
            disk.plan(disk.writes() + 1 + (tries * 7 + seed) % 9, fault);
            let Ok((mut client, welcome)) = world.try_open(next.clone()).await else {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            };
            assert!(welcome.next_seqno >= acked, "seed {seed}: an acknowledged chunk is lost");
            for seqno in welcome.next_seqno..40 {
                client.chunk(seqno, &seqno.to_string()).await;
            }
            let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
            while kept.len() < 40 {
                let heard = tokio::time::timeout_at(deadline, client.frame()).await;
                let heard = heard.unwrap_or_else(|_| {
                    panic!("seed {seed}: nothing comes after {} events", kept.len())
                });
                match heard {
                    Some(ServerFrame::Ack { seqno }) => acked = acked.max(seqno + 1),
                    Some(ServerFrame::Event(event)) => {
                        let EventBody::Data(data) = event.body else { panic!("a record") };
                        let event_id = Some(event.event_id.clone());
                        client.say(ClientFrame::Ack { event_id }).await;
                        let text = String::from_utf8(data.to_vec()).unwrap();
                        kept.push((event.event_id, text));
                    }
                    Some(ServerFrame::Token(_)) => {}
                    _ => break,
                }
            }
            next = again("k", &welcome.token);
            next.event_id = kept.last().map(|(id, _)| id.clone());
        }
        let texts: Vec<_> = kept.into_iter().map(|(_, text)| text).collect();
        let expected: Vec<_> = (0..40).map(|seqno| seqno.to_string()).collect();
        assert_eq!(texts, expected, "seed {seed}");
    }
}
