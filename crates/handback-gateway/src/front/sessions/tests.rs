use std::sync::Weak;

use handback_identity::UnixPeers;
use handback_mcp::server::tasks::Tasks;
use handback_mcp::{About, McpServer};
use handback_store::held::{HeldOptions, HeldStore};
use handback_store::journal::{InstanceId, Journal};
use handback_store::revocations::Revocation;
use handback_store::{Kv, MemoryStore};
use handback_token::{KeyRing, Sealer, SealerConfig, UnixTime, ring};
use handback_tool::audit::NoAudit;
use handback_tool::{Clock, Pipeline, PipelineParts, Registry, RevocationWatch};
use http_body_util::BodyExt as _;
use serde_json::json;
use serde_json::value::to_raw_value;

use super::*;
use crate::front::share::SHARE_BYTES_MAX;
use crate::gateway::Gateway;
use crate::options::Options;
use crate::retry::Retries;
use crate::talk::WAITING_MAX;

const NOW_MS: u64 = 1_900_000_000_000;

#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now_ms(&self) -> u64 {
        NOW_MS
    }
}

/// A gateway with nothing behind it but our own tools, and its sessions.
struct World {
    gateway: Gateway,
    sessions: Arc<Sessions>,
}

impl World {
    fn new() -> Self {
        let kv: Arc<dyn Kv> = Arc::new(MemoryStore::new());
        let now = UnixTime::from_secs(NOW_MS / 1000);
        let ring = KeyRing::generate(&mut rand::rng(), ring::Mode::Sealed, now);
        let sealer = Arc::new(Sealer::new(&ring, SealerConfig::default()).unwrap());
        let instance = InstanceId::generate(&mut rand::rng());
        let held = HeldStore::new(Arc::clone(&kv), HeldOptions::new()).unwrap();
        let pipeline = Arc::new(Pipeline::new(PipelineParts {
            registry: Registry::new(),
            sealer: Arc::clone(&sealer),
            journal: Arc::new(Journal::open(Arc::clone(&kv), instance, NOW_MS).unwrap()),
            held: held.clone(),
            revocations: RevocationWatch::new(Arc::clone(&kv), NOW_MS).unwrap(),
            audit: Arc::new(NoAudit),
            clock: Arc::new(Stopped),
            in_flight_max: 100,
            result_bytes_max: 1 << 20,
            counts_recorded: true,
        }));
        let about = About { name: "test".to_owned(), version: "0".to_owned(), instructions: None };
        let retries = Retries::open(Arc::clone(&kv), instance, Arc::new(Stopped)).unwrap();
        let tasks = Tasks::new(kv, held, Arc::new(|| NOW_MS), instance);
        let own = McpServer::new(Arc::clone(&pipeline), about, tasks);
        let ids = EventIds::new(sealer, Arc::new(|| NOW_MS));
        let sessions = Sessions::new(ids, pipeline.gate(), Options::default().sessions);
        let gateway = Gateway::new(Vec::new(), own, pipeline, Options::default(), retries);
        Self { gateway, sessions }
    }

    /// The id of a new session, and the session, which does not live by it.
    async fn begin(&self, caller: &Caller) -> (String, Weak<Session>) {
        let initialize = to_raw_value(&json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }));
        let room = self.sessions.room(caller).unwrap();
        let (out, told) = mpsc::channel(WAITING_MAX);
        let begun = Session::begin(&self.gateway, caller.clone(), &initialize.unwrap(), out).await;
        let (session, _) = begun.unwrap();
        let known = Arc::downgrade(&session);
        (self.sessions.add(caller, room, session, told), known)
    }
}

fn caller(number: u32) -> Caller {
    UnixPeers::new("test").unwrap().caller(number)
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn what_nobody_uses_ends_although_nobody_comes() {
    let world = World::new();
    let caller = caller(1);
    let (id, session) = world.begin(&caller).await;
    for _ in 0..2 {
        tokio::time::sleep(IDLE - SECOND).await;
        assert!(world.sessions.find(&id, &caller).await.is_some());
    }
    tokio::time::sleep(IDLE + SWEEP_PERIOD).await;
    assert!(session.upgrade().is_none(), "its lines are open");
    assert!(lock(&world.sessions.places).is_empty());
    assert!(world.sessions.find(&id, &caller).await.is_none());
}

const MEGABYTE: Bytes = Bytes::from_static(&[b'x'; 1 << 20]);

#[test]
fn of_what_nobody_reads_the_latest_is_kept() {
    let stream = Stream::begin(0, &Arc::default());
    for _ in 0..100 {
        stream.push(MEGABYTE);
        assert!(lock(&stream.state).bytes <= UNSENT_BYTES_MAX);
    }
    let kept = UNSENT_BYTES_MAX / MEGABYTE.len();
    assert_eq!(stream.get(0).0.unwrap().0, 100 - kept);
    // What was sent makes room first.
    for number in 101 - kept..100 {
        assert_eq!(stream.get(number).0.unwrap().0, number);
    }
    assert!(lock(&stream.state).bytes <= KEPT_BYTES_MAX);
}

#[test]
fn an_answer_is_kept_until_it_is_sent() {
    let stream = Stream::begin(1, &Arc::default());
    for _ in 0..100 {
        stream.push(MEGABYTE);
    }
    let answer = Bytes::from(vec![b'x'; 2 * UNSENT_BYTES_MAX]);
    stream.end(answer.clone(), Delivery::default());
    assert_eq!(stream.get(0), (Some((100, answer)), false));
    assert_eq!(stream.get(101), (None, true));
    assert_eq!(lock(&stream.state).bytes, 0);
}

impl Stream {
    /// What the next reader would be given.
    fn get(&self, number: usize) -> (Option<(usize, Bytes)>, bool) {
        self.change(|state| state.get(number))
    }
}

#[test]
fn a_message_is_for_one_of_those_who_read() {
    let stream = Stream::begin(0, &Arc::default());
    let told = |text: &'static str| Bytes::from_static(text.as_bytes());
    let (mut one, mut other) = (Reader::of(&stream), Reader::of(&stream));
    stream.push(told("a"));
    assert_eq!(one.get(0), (None, false), "another one came after it");
    assert_eq!(other.get(0), (Some((0, told("a"))), false));
    drop(other);
    assert_eq!(one.get(0), (None, false), "it was sent to the other one");
    stream.push(told("b"));
    assert_eq!(one.get(0), (Some((1, told("b"))), false));
    // Who says what it has seen last, and comes back, is sent it once more.
    let mut back = Reader::of(&stream);
    assert_eq!(back.get(1), (Some((1, told("b"))), false));
    stream.end(told("c"), Delivery::default());
    assert_eq!(one.get(2), (None, false), "it may be left with it");
    assert_eq!(back.get(2), (Some((2, told("c"))), false));
    assert_eq!((one.get(2), back.get(3)), ((None, true), (None, true)));
}

#[test]
fn a_few_read_one_stream_at_a_time() {
    let stream = Stream::begin(0, &Arc::default());
    let mut readers: Vec<_> = (0..=READERS_MAX).map(|_| Reader::of(&stream)).collect();
    assert_eq!(readers[0].get(0), (None, true), "it is ended");
    assert_eq!(readers[1].get(0), (None, false));
    stream.push(MEGABYTE);
    assert!(readers[READERS_MAX].get(0).0.is_some());
}

/// Streams of one caller, and what they keep.
struct Streams {
    share: Arc<Share>,
    all: Vec<Arc<Stream>>,
}

impl Streams {
    fn new(count: u64) -> Self {
        let share = Arc::default();
        let all = (1..=count).map(|number| Stream::begin(number, &share)).collect();
        Self { share, all }
    }

    /// Ends every stream with an answer of eight megabytes.
    fn answer(&self) {
        for stream in &self.all {
            stream.end(Bytes::from(vec![b'x'; UNSENT_BYTES_MAX]), Delivery::default());
            assert!(self.share.bytes() <= SHARE_BYTES_MAX + UNSENT_BYTES_MAX);
        }
    }

    /// Those whose answer is there to come back to.
    fn there(&self) -> Vec<bool> {
        self.all.iter().map(|stream| stream.has(0)).collect()
    }
}

#[test]
fn of_all_answers_that_nobody_takes_the_latest_are_kept() {
    let streams = Streams::new(40);
    streams.answer();
    let there = streams.there();
    let first = there.iter().position(|is_there| *is_there).unwrap();
    assert!((30..36).contains(&first), "{there:?}");
    assert!(there[first..].iter().all(|is_there| *is_there), "{there:?}");
    // They are gone, and nobody is told that they were taken.
    assert_eq!(streams.all[0].get(0), (None, true));
    let kept: usize = streams.all.iter().map(|stream| lock(&stream.state).bytes).sum();
    assert_eq!(kept, streams.share.bytes());
    let Streams { share, all } = streams;
    drop(all);
    assert_eq!(share.bytes(), 0, "with its stream, what is kept goes as well");
}

#[test]
fn the_answer_that_somebody_reads_is_kept() {
    let streams = Streams::new(40);
    let reader = Reader::of(&streams.all[3]);
    streams.answer();
    assert!(streams.there()[3] && !streams.there()[2]);
    assert_eq!(streams.all[3].get(0).0.unwrap().1.len(), UNSENT_BYTES_MAX);
    drop(reader);
    let others = (0..8).map(|number| Stream::begin(100 + number, &streams.share)).collect();
    Streams { share: Arc::clone(&streams.share), all: others }.answer();
    assert!(!streams.there()[3], "nobody reads it any more");
}

#[test]
fn what_was_sent_makes_room_before_what_was_not() {
    let unsent = Streams::new(1);
    unsent.answer();
    let of_share = |count: u64| {
        let all = (0..count).map(|number| Stream::begin(number, &unsent.share)).collect();
        Streams { share: Arc::clone(&unsent.share), all }
    };
    let sent = of_share(40);
    for stream in &sent.all {
        stream.push(MEGABYTE);
        assert!(stream.get(0).0.is_some());
    }
    let more = of_share(3);
    more.answer();
    let gone = sent.there().iter().filter(|is_there| !**is_there).count();
    assert_eq!(gone, 24, "down to three quarters");
    assert_eq!((unsent.there(), more.there()), (vec![true], vec![true; 3]));
}

/// A stream of a session that somebody reads, who is asked `again` whether it may.
async fn read_on(
    world: &World,
    (id, caller): (&str, &Caller),
    again: Option<Again>,
) -> UnsyncBoxBody<Bytes, Infallible> {
    let known = world.sessions.find(id, caller).await.unwrap();
    let (reader, seen) = known.standalone();
    let watch = world.sessions.watch(&known, id, caller, again);
    reading(reader, seen, Duration::from_secs(15), watch, |_, _| None)
}

/// How many frames come before the end, which is within a minute.
async fn frames(body: UnsyncBoxBody<Bytes, Infallible>) -> usize {
    let mut body = body;
    let mut frames = 0;
    let all = async {
        while body.frame().await.is_some() {
            frames += 1;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.expect("it goes on");
    frames
}

#[tokio::test(start_paused = true)]
async fn what_is_open_ends_when_it_is_revoked() {
    for is_session in [true, false] {
        let world = World::new();
        let (alice, bob) = (caller(1), caller(2));
        let (of_alice, session) = world.begin(&alice).await;
        let (of_bob, other) = world.begin(&bob).await;
        let body = read_on(&world, (&of_alice, &alice), None).await;
        let mut others = read_on(&world, (&of_bob, &bob), None).await;
        let revocation = match is_session {
            true => Revocation::session(&of_alice),
            false => Revocation::principal(alice.principal()),
        };
        let watch = world.sessions.gate.revocations().clone();
        let begun = Instant::now();
        let revoked = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            watch.revoke(revocation, NOW_MS).await.unwrap();
            // What comes after it is not for who was reading.
            let known = lock(&world.sessions.known).get(&of_alice).cloned().unwrap();
            tokio::time::sleep(2 * LOOK_PERIOD).await;
            known.standalone.push(MEGABYTE);
        };
        let (read, ()) = tokio::join!(frames(body), revoked);
        assert_eq!(read, 1, "only where it begins");
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        tokio::time::sleep(2 * SWEEP_PERIOD).await;
        assert!(session.upgrade().is_none(), "its lines are open");
        assert!(other.upgrade().is_some() && others.frame().await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_open_ends_with_who_would_not_be_let_in() {
    let world = World::new();
    let alice = caller(1);
    let (id, _) = world.begin(&alice).await;
    let times = Arc::new(AtomicU64::new(0));
    let again = {
        let times = Arc::clone(&times);
        Again(Arc::new(move || {
            let is_good = times.fetch_add(1, Ordering::Relaxed) < 1;
            Box::pin(std::future::ready(is_good))
        }))
    };
    let body = read_on(&world, (&id, &alice), Some(again)).await;
    let read = frames(body).await;
    assert!((2..=3).contains(&read), "a comment before the second answer: {read}");
    assert_eq!(times.load(Ordering::Relaxed), 2);
    assert!(world.sessions.find(&id, &alice).await.is_some(), "with another one, it goes on");
}
