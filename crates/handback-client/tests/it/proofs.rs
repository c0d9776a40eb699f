//! Events that are proved, and servers that lie.

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use handback_client::Keys;
use handback_client::duplex::{Duplex, DuplexError, DuplexOptions};
use handback_stream::duplex::{ClientFrame, Event, EventBody, Proof, ServerFrame};
use handback_stream::{CommitProof, Head, Offset, Path, SigningKey, StreamId};

use crate::script::{Peer, Script, end};

const STREAM: StreamId = StreamId::from_bytes([7; 24]);

fn key() -> SigningKey {
    SigningKey::from_seed(&[5; 32]).unwrap()
}

/// A stream of events as a server has it: each record in a commit of its own.
#[derive(Clone)]
struct Log {
    records: Vec<Bytes>,
    heads: Vec<Head>,
}

impl Log {
    fn new() -> Self {
        Self::of("__duplex/echo/key/out")
    }

    /// The first record: a path, and an owner and a content type without characters.
    fn of(path: &str) -> Self {
        let mut log = Self { records: Vec::new(), heads: Vec::new() };
        let length = u32::try_from(path.len()).unwrap().to_be_bytes();
        log.push(0, 0, &[&[0; 4], &length[..], path.as_bytes(), &[0; 8]].concat());
        log
    }

    fn push(&mut self, kind: u8, flags: u8, payload: &[u8]) {
        let record = [&[1, kind, flags][..], &[0; 8], payload].concat();
        let number = self.records.len() as u64;
        let before = self.heads.last().copied().unwrap_or(Head::from_bytes([0; 32]));
        self.heads.push(before.after(STREAM, number, &record));
        self.records.push(record.into());
    }

    fn data(&mut self, text: &str) {
        self.push(1, 0, &[&[0; 4], text.as_bytes()].concat());
    }

    fn end(&mut self) {
        self.push(2, 1, &[]);
    }

    fn event(&self, number: usize) -> ServerFrame {
        let event_id = Offset::after(number as u64).to_string();
        let record = self.records[number].clone();
        let body = EventBody::Record { number: number as u64, record };
        ServerFrame::Event(Event { event_id, body })
    }

    fn proof(&self, number: usize, signer: &SigningKey) -> ServerFrame {
        let (commit, time, number64) = (number as u64, 1_u64, number as u64);
        let head = self.heads[number];
        let mut root = Context::new(&SHA256);
        for part in [&[0][..], STREAM.as_bytes(), &number64.to_be_bytes(), head.as_bytes()] {
            root.update(part);
        }
        let root = root.finish();
        let parts =
            [b"handback/v1/commit", &commit.to_be_bytes()[..], &time.to_be_bytes(), root.as_ref()];
        let signature = signer.sign(&parts.concat());
        let path = Path::default();
        let commit = CommitProof { commit, time, number: number64, head, path, signature };
        ServerFrame::Proof(Box::new(Proof { commit, key: signer.public().id() }))
    }

    async fn tell(&self, peer: &mut Peer, from: usize) {
        for number in from..self.records.len() {
            peer.say(self.event(number)).await;
            peer.say(self.proof(number, &key())).await;
        }
    }
}

pub(crate) fn any_proof() -> ServerFrame {
    Log::new().proof(0, &key())
}

pub(crate) fn any_record() -> ServerFrame {
    Log::new().event(0)
}

fn verifying(script: &Script) -> DuplexOptions {
    script.options().verify(Keys::Given(vec![*key().public()]))
}

async fn text(duplex: &Duplex) -> String {
    let event = duplex.next_event().await.unwrap().unwrap();
    assert!(event.proved_number().is_some());
    String::from_utf8(event.data().to_vec()).unwrap()
}

#[tokio::test]
async fn events_are_handed_out_when_they_are_proved() {
    let script = Script::start().await;
    let duplex = Duplex::open(verifying(&script)).await.unwrap();
    let (mut peer, hello) = script.welcome(0, 1).await;
    assert!(hello.proofs);
    let mut log = Log::new();
    log.data("one");
    log.data("");
    log.data("two");
    for number in 0..3 {
        peer.say(log.event(number)).await;
    }
    let waiting = tokio::time::timeout(crate::script::MOMENT, duplex.next_event()).await;
    assert!(waiting.is_err(), "nothing is proved yet");
    // One proof is for all before it.
    peer.say(log.proof(2, &key())).await;
    assert_eq!(text(&duplex).await, "one");
    log.end();
    log.tell(&mut peer, 3).await;
    peer.say(end()).await;
    assert_eq!(text(&duplex).await, "two");
    assert!(duplex.next_event().await.unwrap().is_none());
}

async fn refusal(frames: impl IntoIterator<Item = ServerFrame>) -> DuplexError {
    let script = Script::start().await;
    let duplex = Duplex::open(verifying(&script)).await.unwrap();
    let (mut peer, _) = script.welcome(0, 1).await;
    for frame in frames {
        peer.say(frame).await;
    }
    let why = duplex.finished().await.unwrap_err();
    assert!(duplex.next_event().await.is_err(), "nothing is handed out");
    why
}

#[tokio::test]
async fn lies_are_refused() {
    let mut log = Log::new();
    log.data("one");
    let mut other = Log::new();
    other.data("two");
    let stranger = SigningKey::from_seed(&[6; 32]).unwrap();
    let unproved = |why| matches!(why, DuplexError::Unproved(_));
    assert!(unproved(refusal([log.event(0), other.event(1), log.proof(1, &key())]).await));
    assert!(unproved(refusal([log.event(1)]).await), "the first record is missing");
    assert!(unproved(refusal([log.event(0), log.event(0)]).await));
    assert!(unproved(refusal([log.event(0), log.event(1), end()]).await), "a cut tail");
    assert!(unproved(refusal([end()]).await));
    let elsewhere = Log::of("__duplex/echo/other/out");
    let why = refusal([elsewhere.event(0), elsewhere.proof(0, &key())]).await;
    assert!(matches!(why, DuplexError::Misbehaved(_)), "{why:?}");
    let why = refusal([log.event(0), log.proof(0, &stranger)]).await;
    assert!(matches!(why, DuplexError::UnknownKey(_)), "{why:?}");
}

/// A connection with events, of which the first was acknowledged, and that was cut then.
async fn interrupted(script: &Script, log: &Log) -> Duplex {
    let duplex = Duplex::open(verifying(script)).await.unwrap();
    let (mut peer, _) = script.welcome(0, 1).await;
    log.tell(&mut peer, 0).await;
    let event = duplex.next_event().await.unwrap().unwrap();
    duplex.ack(&event).await.unwrap();
    let id = Offset::after(1).to_string();
    assert_eq!(peer.hear().await, Some(ClientFrame::Ack { event_id: Some(id) }));
    assert_eq!(text(&duplex).await, "two");
    duplex
}

#[tokio::test]
async fn it_goes_on_behind_the_head_that_was_kept() {
    let script = Script::start().await;
    let mut log = Log::new();
    log.data("one");
    log.data("two");
    let duplex = interrupted(&script, &log).await;
    log.data("three");
    log.end();
    let (mut peer, hello) = script.welcome(0, 2).await;
    assert_eq!(hello.event_id, Some(Offset::after(1).to_string()));
    log.tell(&mut peer, 2).await;
    peer.say(end()).await;
    assert_eq!(text(&duplex).await, "three");
    assert!(duplex.next_event().await.unwrap().is_none());
}

#[tokio::test]
async fn a_server_that_went_back_is_noticed() {
    let script = Script::start().await;
    let mut log = Log::new();
    log.data("one");
    let mut other = log.clone();
    log.data("two");
    other.data("TWO");
    other.data("three");
    let duplex = interrupted(&script, &log).await;
    let (mut peer, _) = script.welcome(0, 2).await;
    other.tell(&mut peer, 2).await;
    let why = duplex.finished().await.unwrap_err();
    assert!(matches!(why, DuplexError::RolledBack { number: 2 }), "{why:?}");
}

#[tokio::test]
async fn an_end_before_what_was_proved_is_noticed() {
    let script = Script::start().await;
    let mut log = Log::new();
    log.data("one");
    let mut other = log.clone();
    log.data("two");
    log.data("three");
    other.end();
    let duplex = interrupted(&script, &log).await;
    assert_eq!(text(&duplex).await, "three");
    let (mut peer, _) = script.welcome(0, 2).await;
    other.tell(&mut peer, 2).await;
    peer.say(end()).await;
    let why = duplex.finished().await.unwrap_err();
    assert!(matches!(why, DuplexError::RolledBack { .. }), "{why:?}");
}
