//! Tokens and duplexes that are too old.

use std::sync::Arc;
use std::time::Duration;

use handback_store::MemoryStore;
use handback_stream::duplex::{Code, ServerFrame};
use handback_surface::duplex::DuplexSettings;

use crate::world::{HOUR, MINUTE, World, again, hello};

async fn world() -> World {
    World::new(Arc::new(MemoryStore::new())).await
}

/// Tokens are renewed many times a second.
async fn renewing() -> World {
    let mut settings = DuplexSettings::default();
    settings.resume_ttl = Duration::from_millis(300);
    World::with(Arc::new(MemoryStore::new()), settings).await
}

#[tokio::test]
async fn a_token_is_good_for_fifteen_minutes() {
    let world = world().await;
    let (mut client, first) = world.open(hello("k")).await;
    client.chunk(0, "x").await;
    client.event().await;
    drop(client);
    world.pass(15 * MINUTE - 2000);
    let (client, second) = world.open(again("k", &first.token)).await;
    assert_eq!(second.next_seqno, 1);
    drop(client);
    // The first one is still the last that was presented, and is late.
    // Clocks may differ by a minute.
    world.pass(MINUTE + 4000);
    assert_eq!(world.try_open(again("k", &first.token)).await.err(), Some(Code::Expired));
    let (_client, third) = world.open(again("k", &second.token)).await;
    assert_eq!(third.in_stream, first.in_stream);
    // One that is not right says nothing of its age.
    let mut edited = first.token.clone();
    edited.resume_token.replace_range(20..21, "!");
    assert_eq!(world.try_open(again("k", &edited)).await.err(), Some(Code::Invalid));
}

#[tokio::test]
async fn the_key_alone_is_good_for_fifteen_minutes_after_the_last_use() {
    let world = world().await;
    let (_, first) = world.open(hello("k")).await;
    world.pass(14 * MINUTE);
    let (_, second) = world.open(hello("k")).await;
    assert_eq!((second.generation, second.in_stream), (2, first.in_stream));
    world.pass(14 * MINUTE);
    let (mut client, third) = world.open(hello("k")).await;
    assert_eq!(third.generation, 3);
    // The last use is now: what a connection does at its start is done.
    client.chunk(0, "x").await;
    client.event().await;
    drop(client);
    world.pass(15 * MINUTE + 2000);
    assert_eq!(world.try_open(hello("k")).await.err(), Some(Code::Expired));
}

#[tokio::test]
async fn no_token_is_good_for_a_duplex_of_two_hours() {
    let world = world().await;
    let (_, welcome) = world.open(hello("k")).await;
    let mut token = welcome.token;
    for _ in 0..11 {
        world.pass(10 * MINUTE);
        token = world.open(again("k", &token)).await.1.token;
    }
    world.pass(9 * MINUTE);
    let (_client, welcome) = world.open(again("k", &token)).await;
    assert!(welcome.token.resume_expires_in_ms <= MINUTE, "{welcome:?}");
    world.pass(2 * MINUTE);
    assert_eq!(world.try_open(again("k", &welcome.token)).await.err(), Some(Code::Expired));
    assert_eq!(world.try_open(again("k", &token)).await.err(), Some(Code::Expired));
    assert_eq!(world.try_open(hello("k")).await.err(), Some(Code::Expired));
}

#[tokio::test]
async fn a_key_can_be_used_again_after_a_day() {
    let world = world().await;
    let (mut client, first) = world.open(hello("k")).await;
    client.chunk(0, "x").await;
    client.event().await;
    drop(client);
    world.pass(23 * HOUR);
    assert_eq!(world.try_open(hello("k")).await.err(), Some(Code::Expired));
    world.pass(2 * HOUR);
    assert_eq!(world.try_open(again("k", &first.token)).await.err(), Some(Code::Expired));
    let (mut client, later) = world.open(hello("k")).await;
    assert_eq!((later.generation, later.next_seqno), (1, 0));
    assert_ne!(later.in_stream, first.in_stream);
    assert_eq!(world.try_open(again("k", &first.token)).await.err(), Some(Code::Expired));
    client.chunk(0, "y").await;
    assert_eq!(client.event().await.1, "y");
}

#[tokio::test]
async fn a_duplex_that_expires_under_its_connection_ends_it() {
    let world = world().await;
    let (mut client, _) = world.open(hello("k")).await;
    client.chunk(0, "x").await;
    client.event().await;
    world.pass(25 * HOUR);
    assert_eq!(client.error().await.0, Code::Expired);
    // Its handler is gone with it: the next one has another.
    let (mut client, welcome) = world.open(hello("k")).await;
    assert_eq!(welcome.next_seqno, 0);
    client.chunk(0, "y").await;
    assert_eq!(client.event().await.1, "y");
}

#[tokio::test]
async fn a_connection_is_not_cut_because_its_duplex_is_old() {
    let world = renewing().await;
    let (client, welcome) = world.open(hello("k")).await;
    drop(client);
    let (mut client, _) = world.open(again("k", &welcome.token)).await;
    client.token().await;
    world.pass(2 * HOUR + MINUTE);
    // Several renewals are due meanwhile.
    tokio::time::sleep(Duration::from_millis(500)).await;
    client.chunk(0, "x").await;
    assert_eq!(client.event().await.1, "x");
    let late = tokio::time::timeout(Duration::from_millis(500), client.token()).await;
    assert!(late.is_err(), "a token that nobody can use");
}

#[tokio::test]
async fn a_token_says_what_was_acknowledged_and_not_what_was_sent() {
    let world = renewing().await;
    let mut client = world.connect(&[("x-idempotency-key", "k")]).await;
    assert!(matches!(client.frame().await, Some(ServerFrame::Welcome(_))));
    for seqno in 0..3 {
        client.chunk(seqno, "x").await;
        client.event().await;
    }
    let token = client.token().await;
    drop(client);
    // The client may have lost them: it says itself what it has.
    let (mut client, welcome) = world.open(again("k", &token)).await;
    assert_eq!(welcome.event_id, None);
    let (first, _) = client.event().await;
    client.event().await;
    client.say(handback_stream::duplex::ClientFrame::Ack { event_id: Some(first.clone()) }).await;
    // A token of before may still be on its way.
    client.token().await;
    let token = client.token().await;
    let (_client, welcome) = world.open(again("k", &token)).await;
    assert_eq!(welcome.event_id, Some(first));
}
