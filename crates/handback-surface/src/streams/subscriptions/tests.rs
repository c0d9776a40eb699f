//! Matching, counted.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use handback_store::{Change, Kv, KvBatch, KvError, Log, MemoryStore, Millis, StoreError};
use handback_stream::{Append, Command, Create, Life, Payload, Reply, SigningKey, StreamName};
use handback_tool::{Quota, Share};
use http_body_util::Full;
use hyper::{Method, Request, StatusCode};

use super::book::{Book, Todo};
use super::making::{Made, NotMade};
use super::slices::Budget;
use super::state::{Config, Kind, Link};
use super::tails::tails;
use super::worker::Worker;
use super::*;
use crate::streams::{Clock, Mode, Streams};

struct World {
    store: Arc<MemoryStore>,
    time: Arc<AtomicU64>,
    streams: Arc<Streams>,
    all: Arc<Subscriptions>,
}

impl World {
    fn new() -> Self {
        Self::over(Arc::new(MemoryStore::new()), Arc::new(AtomicU64::new(1_000)))
    }

    fn over(store: Arc<MemoryStore>, time: Arc<AtomicU64>) -> Self {
        let clock: Clock = {
            let time = Arc::clone(&time);
            Arc::new(move || time.load(Ordering::Relaxed))
        };
        let log = Arc::clone(&store) as Arc<dyn Log>;
        let streams = Streams::open(log, None, clock, Mode::Memory).unwrap();
        let all = open(&store, &streams);
        Self { store, time, streams, all }
    }

    /// With subscriptions in a store that does something.
    fn hooked() -> (Self, Arc<Hooked>) {
        let Self { store, time, streams, all } = Self::new();
        drop(all);
        let kv = Arc::new(Hooked::default());
        let all = open_over(Arc::clone(&kv) as Arc<dyn Kv>, &streams);
        (Self { store, time, streams, all }, kv)
    }

    /// The same store after a restart.
    fn again(self) -> Self {
        let Self { store, time, streams, all } = self;
        drop(all);
        streams.stop();
        Self::over(store, time)
    }

    async fn create(&self, owner: &str, path: &str) {
        let create = Create {
            name: StreamName::new(owner, path).unwrap(),
            content_type: Some("text/plain".to_owned()),
            life: Life::Unlimited,
            closed: false,
            payload: Some(Payload::parse(Bytes::from_static(b"x"), false).unwrap()),
            fork: None,
            key: None,
            incarnation: rand::random(),
        };
        let reply = self.streams.command(Command::Create(Box::new(create)), 0).await.unwrap();
        assert!(matches!(reply, Reply::Created { .. }));
    }

    async fn append(&self, owner: &str, path: &str) {
        let payload = Payload::parse(Bytes::from_static(b"x"), false).unwrap();
        let name = StreamName::new(owner, path).unwrap();
        let append = Append::new(name.id(), Some(payload), false, 1_000);
        self.streams.command(Command::Append(append), 1).await.unwrap();
    }

    async fn delete(&self, owner: &str, path: &str) {
        let name = StreamName::new(owner, path).unwrap();
        let reply = self.streams.command(Command::Delete(name.id()), 0).await.unwrap();
        assert_eq!(reply, Reply::Deleted);
    }

    async fn make(&self, owner: &str, id: &str, pattern: &str) -> Result<Made, NotMade> {
        self.all.make(owner.to_owned(), id.to_owned(), config(pattern)).await
    }

    async fn links(&self, owner: &str, id: &str) -> Vec<(String, u64)> {
        let id = id.to_owned();
        let links = move |_: &Arc<Subscriptions>, book: &mut Book| {
            let links = &book.get(&id).unwrap().links;
            links.iter().map(|(path, link)| (path.clone(), link.acked)).collect()
        };
        self.all.with_book(owner, links).await.unwrap()
    }

    async fn is_complete(&self, owner: &str, id: &str) -> bool {
        let id = id.to_owned();
        let is_complete =
            move |_: &Arc<Subscriptions>, book: &mut Book| !book.get(&id).unwrap().is_incomplete;
        self.all.with_book(owner, is_complete).await.unwrap()
    }

    /// Has all records of all streams acknowledged, and the wake over.
    async fn ack_all(&self, owner: &str, id: &str) {
        let id = id.to_owned();
        let ack = move |all: &Arc<Subscriptions>, book: &mut Book| {
            let subscription = book.get_mut(&id).unwrap();
            let tails = tails(&all.streams, &subscription.owner);
            for (path, link) in &mut subscription.links {
                link.acked = tails(path).unwrap_or(0);
            }
            subscription.wake = None;
            all.rows.store(subscription, 1_000).unwrap();
        };
        self.all.with_book(owner, ack).await.unwrap();
    }

    fn matches(&self) -> u64 {
        self.all.slices.counts.matches.load(Ordering::SeqCst)
    }

    /// Waits until everything was matched.
    async fn settle(&self, owner: &str) {
        while !self.is_settled(owner).await {
            self.all.catch_up(owner).await;
        }
    }

    async fn is_settled(&self, owner: &str) -> bool {
        let Some(owner) = self.all.owners.get(owner) else { return true };
        let book = owner.book.lock().await;
        book.todo.is_empty() && !owner.namespace.has_changes()
    }
}

/// A store that does something before the next subscription of ada is written.
#[derive(Default)]
struct Hooked {
    store: MemoryStore,
    hook: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Hooked {
    fn set(&self, hook: impl FnOnce() + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    fn is_set(&self) -> bool {
        self.hook.lock().unwrap().is_some()
    }
}

impl Kv for Hooked {
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        self.store.get(key, now)
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        Kv::scan(&self.store, prefix, after, limit, now)
    }

    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        let is_of_ada = batch.changes.iter().any(|(_, change)| match change {
            Change::Put { value, .. } => {
                String::from_utf8_lossy(value).contains(r#""owner":"ada""#)
            }
            Change::Remove => false,
        });
        let hook = is_of_ada.then(|| self.hook.lock().unwrap().take()).flatten();
        if let Some(hook) = hook {
            hook();
        }
        self.store.write(batch, now)
    }

    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        Kv::sweep(&self.store, now, limit)
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooked")
    }
}

/// Waits until something is so, with nothing done for it.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("in 20 seconds");
}

fn open(store: &Arc<MemoryStore>, streams: &Arc<Streams>) -> Arc<Subscriptions> {
    open_over(Arc::clone(store) as Arc<dyn Kv>, streams)
}

fn open_over(kv: Arc<dyn Kv>, streams: &Arc<Streams>) -> Arc<Subscriptions> {
    let quotas = SubscriptionQuotas {
        count: Quota::new(80, Share::default()),
        bytes: Quota::new(64 << 20, Share::default()),
    };
    let parts = Parts {
        kv,
        key: SigningKey::from_seed(&[7; 32]).unwrap(),
        targets: WebhookTargets::loopback(),
        base: "http://127.0.0.1:1".to_owned(),
        quotas,
    };
    Subscriptions::open(Arc::clone(streams), parts).unwrap()
}

fn config(pattern: &str) -> Config {
    let config = Config {
        kind: Kind::PullWake,
        pattern: Some(pattern.to_owned()),
        streams: Vec::new(),
        webhook: None,
        wake_stream: Some("wakes".to_owned()),
        lease_ttl_ms: None,
        description: None,
    };
    config.checked().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wound_a2_a_new_stream_is_matched_once_with_the_patterns_of_its_owner() {
    let world = World::new();
    for n in 0..10 {
        assert_eq!(world.make("ada", &n.to_string(), "jobs/*").await.unwrap(), Made::New);
        assert_eq!(world.make("bob", &n.to_string(), "jobs/*").await.unwrap(), Made::New);
    }
    for n in 0..50 {
        world.create("ada", &format!("jobs/{n}")).await;
        world.create("nobody", &format!("jobs/{n}")).await;
    }
    world.settle("ada").await;
    assert_eq!(world.matches(), 10 * 50);
    assert_eq!(world.links("ada", "3").await.len(), 50);
    for n in 0..500 {
        world.append("ada", &format!("jobs/{}", n % 50)).await;
    }
    world.settle("ada").await;
    assert_eq!(world.matches(), 10 * 50);
    assert!(world.links("bob", "3").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wound_a2_a_new_subscription_is_matched_once_with_the_streams_below_its_prefix() {
    let world = World::new();
    for n in 0..300 {
        world.create("ada", &format!("a/{n}")).await;
        world.create("ada", &format!("b/{n}")).await;
        world.create("bob", &format!("b/{n}")).await;
    }
    world.make("ada", "s", "b/*").await.unwrap();
    assert_eq!(world.matches(), 300);
    let links = world.links("ada", "s").await;
    assert_eq!(links.len(), 300);
    assert!(links.iter().all(|(_, acked)| *acked == 1), "streams that were there are not new");
    world.append("ada", "b/1").await;
    world.settle("ada").await;
    assert_eq!(world.make("ada", "s", "b/*").await.unwrap(), Made::Known);
    assert_eq!(world.matches(), 300);
}

/// Patterns and paths that nearly match at every segment: dozens of slices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wound_a2_matching_lets_other_owners_in() {
    let world = World::new();
    let namespace = world.streams.directory().namespace("ada");
    let path = vec!["a"; 500].join("/");
    for n in 0..300 {
        namespace.add(&format!("{path}/{n}"), 0);
    }
    let expensive = format!("**/{}/b", vec!["a"; 240].join("/"));
    let all = Arc::clone(&world.all);
    let long = tokio::spawn(async move {
        all.make("ada".to_owned(), "long".to_owned(), config(&expensive)).await
    });
    while world.matches() == 0 {
        tokio::task::yield_now().await;
    }
    world.create("bob", "jobs/1").await;
    world.make("bob", "s", "jobs/*").await.unwrap();
    world.create("bob", "jobs/2").await;
    world.settle("bob").await;
    assert_eq!(world.links("bob", "s").await, [("jobs/1".to_owned(), 1), ("jobs/2".to_owned(), 0)]);
    assert!(!long.is_finished(), "bob did not wait for ada");
    assert!(world.matches() < 300);
    // So do other requests of the same owner.
    let other = |_: &Arc<Subscriptions>, book: &mut Book| book.get("long").is_none();
    assert!(world.all.with_book("ada", other).await.unwrap(), "nobody sees half of it");
    long.await.unwrap().unwrap();
    assert_eq!(world.all.slices.counts.matches.load(Ordering::SeqCst), 300 + 2);
    let steps = world.all.slices.counts.steps.load(Ordering::SeqCst);
    assert!(steps < 302 * 244 * 504, "{steps}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wound_a2_a_restart_matches_only_streams_that_are_new_since() {
    let world = World::new();
    for n in 0..40 {
        world.create("ada", &format!("old/{n}")).await;
    }
    world.time.store(2_000, Ordering::Relaxed);
    world.make("ada", "s", "**").await.unwrap();
    world.time.store(3_000, Ordering::Relaxed);
    // A stream that was created just before the end, and is in no subscription yet.
    let World { store, time, streams, all } = world;
    drop(all);
    let world = World { all: open(&Arc::new(MemoryStore::new()), &streams), store, time, streams };
    world.create("ada", "new").await;
    let world = world.again();
    world.settle("ada").await;
    assert_eq!(world.matches(), 1);
    let links = world.links("ada", "s").await;
    assert_eq!(links.len(), 41);
    assert!(links.contains(&("new".to_owned(), 0)), "all of it is new");
    let world = world.again();
    world.settle("ada").await;
    assert_eq!(world.matches(), 0);
    assert_eq!(world.links("ada", "s").await.len(), 41);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wound_a2_one_owner_at_its_quota_leaves_room_for_others() {
    let world = World::new();
    for n in 0..10 {
        world.make("ada", &n.to_string(), "**").await.unwrap();
    }
    let refused = world.make("ada", "10", "**").await;
    assert!(matches!(refused, Err(NotMade::Exhausted(_))), "{refused:?}");
    world.make("bob", "0", "**").await.unwrap();
    assert_eq!(world.all.quotas.count.used(), 11);
    let world = world.again();
    assert_eq!(world.all.quotas.count.used_by_stored("ada"), 10);
    assert!(matches!(world.make("ada", "10", "**").await, Err(NotMade::Exhausted(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pattern_over_more_streams_than_its_owner_may_follow_is_refused_whole() {
    let world = World::new();
    let namespace = world.streams.directory().namespace("ada");
    world.create("ada", "jobs/0").await;
    for n in 1..=10_000 {
        namespace.add(&format!("jobs/{n}"), 0);
    }
    // The streams of the index are not there, but one.
    world.make("ada", "s", "jobs/*").await.unwrap();
    assert_eq!(world.links("ada", "s").await.len(), 1);
    let used = world.all.quotas.bytes.used_by_stored("ada");
    let _held = world.all.quotas.bytes.charge_stored("ada", (8 << 20) - used - 5_000).unwrap();
    for n in 0..20 {
        world.create("ada", &format!("jobs/new/{n}")).await;
    }
    let refused = world.make("ada", "t", "jobs/**").await;
    assert!(matches!(refused, Err(NotMade::Exhausted(_))), "{refused:?}");
    assert_eq!(world.all.quotas.bytes.used_by_stored("ada"), (8 << 20) - 5_000);
    assert_eq!(world.all.quotas.count.used_by_stored("ada"), 1);
}

/// Without a pause, the task that matches would keep the only thread that could give the locks back.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn wound_a2_taken_locks_leave_the_thread_to_others() {
    let world = World::new();
    for owner in ["ada", "bob"] {
        world.make(owner, "s", "jobs/*").await.unwrap();
    }
    let mut taken = Vec::new();
    for owner in ["ada", "bob"] {
        let owner = world.all.owners.get(owner).unwrap();
        taken.push(Arc::clone(&owner.book).lock_owned().await);
        owner.namespace.add("jobs/1", 0);
    }
    // Longer than the pauses of the task. This thread is not the runtime's.
    std::thread::sleep(Duration::from_millis(90));
    let (done, is_done) = mpsc::channel();
    tokio::spawn(async move { done.send(()) });
    let ran = is_done.recv_timeout(Duration::from_secs(10));
    drop(taken);
    assert!(ran.is_ok(), "the only thread of the runtime is taken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_at_one_stream_replaces_no_look_at_all_streams() {
    let world = World::new();
    world.make("ada", "s", "jobs/*").await.unwrap();
    world.settle("ada").await;
    let look = |all: &Arc<Subscriptions>, book: &mut Book| {
        let key = ("ada".into(), "s".to_owned());
        all.agenda.set(key.clone(), Some(1_500));
        all.look(book, "s", Some("wakes"));
        all.agenda.take_due(1_500) == Some(key)
    };
    assert!(world.all.with_book("ada", look).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_ends_in_a_look_at_one_stream_wakes_for_all() {
    let world = World::new();
    world.make("ada", "s", "jobs/*").await.unwrap();
    world.create("ada", "jobs/1").await;
    world.settle("ada").await;
    let look = |all: &Arc<Subscriptions>, book: &mut Book| {
        let wake = book.get_mut("s").unwrap().wake.as_mut().unwrap();
        wake.holder = Some("w".to_owned());
        wake.lease_until_ms = Some(1_000);
        all.look(book, "s", Some("wakes"));
        book.get("s").unwrap().wake.as_ref().map(|wake| wake.generation)
    };
    assert_eq!(world.all.with_book("ada", look).await.unwrap(), Some(2));
}

/// A wake reads and stores every stream that its subscription follows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wound_a2_looks_at_large_subscriptions_take_a_slice_each() {
    let world = World::new();
    for id in ["s", "t"] {
        world.make("ada", id, "jobs/*").await.unwrap();
    }
    world.settle("ada").await;
    let owner = world.all.owners.get("ada").unwrap();
    let mut book = Arc::clone(&owner.book).lock_owned().await;
    for id in ["s", "t"] {
        for n in 0..1_000 {
            let link = Link { explicit: false, acked: 0, stream: None };
            book.link(id, &format!("jobs/{n}"), link).unwrap();
        }
        book.todo.push_back(Todo::Look { id: id.to_owned(), path: None });
    }
    let all = Arc::clone(&world.all);
    let slice = move |budget: &mut Budget| {
        let mut after = Vec::new();
        let (all, owner) = (&all, &*owner);
        let mut worker = Worker { all, owner, book: &mut book, budget, after: &mut after };
        (worker.run(), after.len(), book.todo.len())
    };
    assert_eq!(world.all.slices.run(slice).await, Some((true, 1, 1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wound_a2_a_panic_in_a_slice_ends_no_matching_but_its_own() {
    let (world, kv) = World::hooked();
    for owner in ["ada", "bob"] {
        world.make(owner, "s", "jobs/*").await.unwrap();
    }
    kv.set(|| panic!("as the test wants it"));
    world.create("ada", "jobs/1").await;
    until(async || !kv.is_set()).await;
    world.create("bob", "jobs/1").await;
    world.create("ada", "jobs/2").await;
    until(async || world.links("bob", "s").await.len() == 1).await;
    until(async || world.links("ada", "s").await.len() == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wound_a2_a_slow_write_for_one_owner_leaves_the_turn_to_others() {
    let (world, kv) = World::hooked();
    world.make("ada", "s", "jobs/*").await.unwrap();
    let (release, released) = mpsc::channel::<()>();
    kv.set(move || {
        let _ = released.recv_timeout(Duration::from_secs(60));
    });
    world.create("ada", "jobs/1").await;
    until(async || !kv.is_set()).await;
    let made = async {
        world.make("bob", "s", "jobs/*").await.unwrap();
        world.create("bob", "jobs/1").await;
        world.all.catch_up("bob").await;
        world.links("bob", "s").await.len()
    };
    let made = tokio::time::timeout(Duration::from_secs(20), made).await;
    drop(release);
    assert_eq!(made.expect("bob did not wait for ada"), 1);
    until(async || world.links("ada", "s").await.len() == 1).await;
}

fn named(pattern: &str, path: &str) -> Config {
    Config { streams: vec![path.to_owned()], ..config(pattern) }.checked().unwrap()
}

fn link(path: &str, acked: u64) -> (String, u64) {
    (path.to_owned(), acked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wound_a2_streams_that_ended_leave_their_room_to_others() {
    let world = World::new();
    world.make("ada", "s", "jobs/*").await.unwrap();
    let bytes = &world.all.quotas.bytes;
    let before = bytes.used_by_stored("ada");
    // Room for two links.
    let held = bytes.charge_stored("ada", (8 << 20) - before - 1_100).unwrap();
    for n in 1..=3 {
        world.create("ada", &format!("jobs/{n}")).await;
        world.settle("ada").await;
    }
    assert_eq!(world.links("ada", "s").await, [link("jobs/1", 0), link("jobs/2", 0)]);
    assert!(!world.is_complete("ada", "s").await);
    world.delete("ada", "jobs/1").await;
    let followed = [link("jobs/2", 0), link("jobs/3", 0)];
    until(async || world.links("ada", "s").await == followed).await;
    until(async || world.is_complete("ada", "s").await).await;
    for n in 2..=3 {
        world.delete("ada", &format!("jobs/{n}")).await;
    }
    world.settle("ada").await;
    drop(held);
    assert_eq!(bytes.used_by_stored("ada"), before);
    assert!(world.links("ada", "s").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_among_more_than_are_noted_is_found() {
    let world = World::new();
    world.make("ada", "s", "jobs/*").await.unwrap();
    world.create("ada", "jobs/1").await;
    world.settle("ada").await;
    let owner = world.all.owners.get("ada").unwrap();
    let book = Arc::clone(&owner.book).lock_owned().await;
    for n in 0..5_000 {
        owner.namespace.add(&n.to_string(), 1_000);
        owner.namespace.remove(&n.to_string());
    }
    world.delete("ada", "jobs/1").await;
    drop(book);
    world.settle("ada").await;
    assert!(world.links("ada", "s").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_in_the_place_of_another_is_followed_from_its_first_record_on() {
    let world = World::new();
    let paths = ["jobs/1", "named"];
    for path in paths {
        world.create("ada", path).await;
        world.append("ada", path).await;
    }
    let made = world.all.make("ada".to_owned(), "s".to_owned(), named("jobs/*", "named")).await;
    made.unwrap();
    assert_eq!(world.links("ada", "s").await, [link("jobs/1", 2), link("named", 2)]);
    for path in paths {
        world.delete("ada", path).await;
    }
    world.settle("ada").await;
    // A path that was named stays, as before its first stream.
    assert_eq!(world.links("ada", "s").await, [link("named", 0)]);
    for path in paths {
        world.create("ada", path).await;
        world.settle("ada").await;
        let is_woken = |_: &Arc<Subscriptions>, book: &mut Book| {
            book.get("s").is_some_and(|known| known.is_busy())
        };
        assert!(world.all.with_book("ada", is_woken).await.unwrap(), "{path}");
        world.ack_all("ada", "s").await;
    }
    // Without a moment at which the path has no stream for the subscription.
    let owner = world.all.owners.get("ada").unwrap();
    let book = Arc::clone(&owner.book).lock_owned().await;
    for path in paths {
        world.delete("ada", path).await;
        world.create("ada", path).await;
    }
    drop(book);
    world.settle("ada").await;
    assert_eq!(world.links("ada", "s").await, [link("jobs/1", 0), link("named", 0)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wake_acks_nothing_of_the_stream_that_came_after_it() {
    let world = World::new();
    world.make("ada", "s", "jobs/*").await.unwrap();
    world.create("ada", "jobs/1").await;
    world.settle("ada").await;
    world.delete("ada", "jobs/1").await;
    world.create("ada", "jobs/1").await;
    world.settle("ada").await;
    let done = |_: &Arc<Subscriptions>, book: &mut Book| {
        book.get_mut("s").unwrap().ack_snapshot();
    };
    world.all.with_book("ada", done).await.unwrap();
    assert_eq!(world.links("ada", "s").await, [link("jobs/1", 0)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_finds_streams_that_ended_or_came_anew() {
    let world = World::new();
    let made = world.all.make("ada".to_owned(), "s".to_owned(), named("jobs/*", "named")).await;
    made.unwrap();
    for path in ["jobs/1", "jobs/2", "jobs/3", "named"] {
        world.create("ada", path).await;
    }
    world.settle("ada").await;
    world.ack_all("ada", "s").await;
    // Changes that no subscription gets to know before the end.
    let World { store, time, streams, all } = world;
    drop(all);
    let world = World { all: open(&Arc::new(MemoryStore::new()), &streams), store, time, streams };
    for path in ["jobs/1", "jobs/2", "named"] {
        world.delete("ada", path).await;
    }
    world.create("ada", "jobs/2").await;
    let world = world.again();
    world.settle("ada").await;
    let links = world.links("ada", "s").await;
    assert_eq!(links, [link("jobs/2", 0), link("jobs/3", 1), link("named", 0)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_without_a_stream_is_followed_only_while_it_is_named() {
    let world = World::new();
    let made = world.all.make("ada".to_owned(), "s".to_owned(), named("jobs/*", "jobs/1")).await;
    made.unwrap();
    assert_eq!(world.links("ada", "s").await, [link("jobs/1", 0)]);
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.method_mut() = Method::DELETE;
    let answer = world.all.handle(request, "subscriptions/s/streams/jobs%2F1", "ada").await;
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    assert!(world.links("ada", "s").await.is_empty());
}
