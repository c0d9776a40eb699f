//! All streams, as the verbs of the protocol use them.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use handback_store::{Log, LogId, ReadLimit, StoreError};
use handback_stream::{
    Command, Commit, Hub, NameId, RecoverError, Reply, Signature, SigningKey, Stored, StreamId,
    StreamQuotas, Uncounted, View,
};
use tokio::sync::watch;

use super::channels::{Channel, Shown};
use super::directory::Directory;
use super::log;
use super::sweep::Sweep;
use super::turns::Turns;
use super::writer::Writer;

/// What tells the time, in milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How many milliseconds a reader waits for the signature of the last commit.
const SIGNATURE_WAITS: usize = 200;

/// All streams, to be used by many at once.
pub struct Streams {
    pub(super) log: Arc<dyn Log>,
    pub(super) sweep: Sweep,
    /// Streams whose stored bytes are to be counted.
    pub(super) uncounted: Mutex<Vec<Uncounted>>,
    shown: Arc<Shown>,
    pub(super) turns: Arc<Turns>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    clock: Clock,
}

/// Why a command was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotTaken {
    /// Too much is waiting.
    #[error("too much is waiting to be written")]
    Busy,
    /// The store does not take writes; why is for operators.
    #[error("the store does not take writes: {0}")]
    ReadOnly(String),
    /// The server is going down.
    #[error("the server is stopping")]
    Stopping,
}

/// Whether writes are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// What is acknowledged is durable.
    Durable,
    /// What is acknowledged lives as long as the process.
    Memory,
    /// Writes are refused, for this reason.
    ReadOnly(String),
}

impl Streams {
    /// The streams of a log. With a key, commits are signed. `mode` is told to callers as long as
    /// writes are taken.
    ///
    /// # Errors
    ///
    /// [`RecoverError`] if what is stored cannot be read, or is damaged.
    pub fn open(
        log: Arc<dyn Log>,
        key: Option<Arc<SigningKey>>,
        clock: Clock,
        mode: Mode,
    ) -> Result<Arc<Self>, RecoverError<StoreError>> {
        Self::open_within(log, key, clock, mode, StreamQuotas::default())
    }

    /// The same, with limits on streams and stored bytes.
    ///
    /// # Errors
    ///
    /// As [`Streams::open`].
    pub fn open_within(
        log: Arc<dyn Log>,
        key: Option<Arc<SigningKey>>,
        clock: Clock,
        mode: Mode,
        quotas: StreamQuotas,
    ) -> Result<Arc<Self>, RecoverError<StoreError>> {
        let (hub, views) = Hub::recover(&mut log::Source(log.as_ref()), key.clone())?;
        let uncounted = Mutex::new(Uncounted::of(&hub));
        let shown = Arc::new(Shown::new(mode.clone(), hub.last_signature()));
        shown.publish(views);
        let writer = Writer::new(Arc::clone(&log), hub, key, Arc::clone(&shown), mode);
        let writer = writer.within(quotas);
        let turns = Turns::new(Arc::clone(&log), Arc::clone(&shown), writer, Arc::clone(&clock));
        let turns = Arc::new(turns);
        // Without threads there is no server.
        let start = |name: &str, run: fn(&Turns)| {
            let turns = Arc::clone(&turns);
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread.spawn(move || run(&turns)).map_err(|error| {
                RecoverError::Read(StoreError::Unavailable(format!("no thread: {error}")))
            })
        };
        let keeper = start("streams", Turns::keep)?;
        let clerk = start("streams-clerk", Turns::serve_crowds).inspect_err(|_| turns.stop())?;
        Ok(Arc::new(Self {
            sweep: Sweep::default(),
            uncounted,
            log,
            shown,
            turns,
            threads: Mutex::new(vec![keeper, clerk]),
            clock,
        }))
    }

    /// The time, in milliseconds since 1970.
    #[must_use]
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Has a command done. What it answers is durable.
    ///
    /// # Errors
    ///
    /// [`NotTaken`] if it was not done. After [`NotTaken::ReadOnly`] it may have been done: a retry
    /// with the same producer sequence finds out.
    pub async fn command(&self, command: Command, payload: usize) -> Result<Reply, NotTaken> {
        let (answer, is_alone) = self.turns.queue.push(command, payload)?;
        if is_alone {
            self.turns.attend();
        }
        answer.await.unwrap_or_else(|_| Err(self.turns.queue.dropped()))
    }

    /// Has a command wait, and nobody come for it.
    #[cfg(test)]
    pub(super) fn push_for_tests(&self, command: Command) -> (super::queue::Answer, bool) {
        self.turns.queue.push(command, 0).unwrap()
    }

    /// A stream as it is now.
    #[must_use]
    pub fn view(&self, name: NameId) -> Option<View> {
        self.shown.channel(name).and_then(|channel| channel.view.borrow().clone())
    }

    /// A stream, with what tells of its changes.
    #[must_use]
    pub fn watch(&self, name: NameId) -> Option<watch::Receiver<Option<View>>> {
        let receiver = self.shown.channel(name)?.view.subscribe();
        let is_there = receiver.borrow().is_some();
        is_there.then_some(receiver)
    }

    /// What readers of a stream share.
    pub(super) fn channel(&self, name: NameId) -> Option<Arc<Channel>> {
        self.shown.channel(name)
    }

    /// All streams of all owners that are not deleted.
    #[must_use]
    pub fn all(&self) -> Vec<View> {
        self.shown.views().into_iter().filter(|view| !view.deleted).collect()
    }

    /// All streams, also those that are kept for their forks only.
    pub(super) fn ids(&self) -> HashSet<StreamId> {
        self.shown.views().iter().map(|view| view.meta.id()).collect()
    }

    /// The paths of all streams that can be read.
    pub(super) fn directory(&self) -> &Directory {
        &self.shown.directory
    }

    /// Whether writes are taken.
    #[must_use]
    pub fn mode(&self) -> watch::Receiver<Mode> {
        self.shown.mode.subscribe()
    }

    /// The records of a stream after a number, up to what the view shows, and not more than
    /// `limit`; each with its number.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if they cannot be read.
    pub async fn read(
        self: &Arc<Self>,
        view: &View,
        after: u64,
        limit: ReadLimit,
    ) -> Result<Vec<(u64, Stored)>, StoreError> {
        if after >= view.number {
            return Ok(Vec::new());
        }
        let name = view.meta.id().name();
        if let Some(channel) = self.shown.channel(name)
            && let Some(found) = lock(&channel.tail).after(view, after, limit)
        {
            return decoded(view.meta.id(), found);
        }
        let (this, view) = (Arc::clone(self), view.clone());
        let read = tokio::task::spawn_blocking(move || this.read_stored(&view, after, limit));
        read.await.unwrap_or_else(|_| Err(StoreError::Unavailable("reading was stopped".into())))
    }

    fn read_stored(
        &self,
        view: &View,
        after: u64,
        limit: ReadLimit,
    ) -> Result<Vec<(u64, Stored)>, StoreError> {
        let mut found: Vec<(u64, Bytes)> = Vec::new();
        let (mut after, mut bytes) = (after, 0);
        while after < view.number && found.len() < limit.records && bytes < limit.bytes {
            let segment = view.meta.segment_after(after);
            let upto = segment.upto.unwrap_or(view.number).min(view.number);
            let limit = ReadLimit {
                records: (limit.records - found.len())
                    .min(usize::try_from(upto - segment.after).unwrap_or(usize::MAX)),
                bytes: limit.bytes - bytes,
            };
            let id = LogId::from_bytes(*segment.id.as_bytes());
            let records = self.log.read(id, segment.after + 1, limit)?;
            let Some(last) = records.last() else {
                return Err(StoreError::Damaged(format!("records of {} are missing", segment.id)));
            };
            after = last.number;
            bytes += records.iter().map(|record| record.bytes.len()).sum::<usize>();
            found.extend(records.into_iter().map(|record| (record.number, record.bytes)));
        }
        decoded(view.meta.id(), found)
    }

    /// Records of one log from a number on, up to another.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if they cannot be read, or there are none.
    pub fn stored(
        &self,
        id: StreamId,
        from: u64,
        upto: u64,
        limit: ReadLimit,
    ) -> Result<Vec<(u64, Stored)>, StoreError> {
        let records = self.log.read(LogId::from_bytes(*id.as_bytes()), from, limit)?;
        let found: Vec<_> = records
            .into_iter()
            .filter(|record| record.number <= upto)
            .map(|record| (record.number, record.bytes))
            .collect();
        if found.is_empty() {
            return Err(StoreError::Damaged(format!("record {from} of {id} is missing")));
        }
        decoded(id, found)
    }

    /// The stored record of a number, also the first one.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it cannot be read.
    pub fn record(&self, view: &View, number: u64) -> Result<Option<Stored>, StoreError> {
        let segments = view.meta.segments();
        let holds = |segment: &&handback_stream::Segment| {
            number >= segment.after && segment.upto.is_none_or(|upto| number <= upto)
        };
        let Some(segment) = segments.iter().find(holds) else { return Ok(None) };
        let id = LogId::from_bytes(*segment.id.as_bytes());
        let limit = ReadLimit { records: 1, bytes: 1 };
        let found = self.log.read(id, number, limit)?;
        Ok(found.first().filter(|r| r.number == number).and_then(|r| Stored::decode(&r.bytes)))
    }

    /// A commit, and its signature: nothing if commits were not signed then. Blocks.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it cannot be read.
    pub fn commit(&self, number: u64) -> Result<Option<(Commit, Signature)>, StoreError> {
        let one = |id: StreamId| -> Result<Option<Bytes>, StoreError> {
            let limit = ReadLimit { records: 1, bytes: 1 };
            let found = self.log.read(LogId::from_bytes(*id.as_bytes()), number, limit)?;
            Ok(found.into_iter().find(|r| r.number == number).map(|r| r.bytes))
        };
        let damaged = || StoreError::Damaged(format!("commit {number}"));
        let Some(commit) = one(StreamId::COMMITS)? else { return Ok(None) };
        let commit = Commit::decode(number, &commit).ok_or_else(damaged)?;
        // The last one is signed after it was acknowledged: some microseconds later.
        for _ in 0..SIGNATURE_WAITS {
            let last = *lock(&self.shown.signature);
            if let Some(last) = last.filter(|last| last.commit == number) {
                return Ok(Some((commit, last)));
            }
            if let Some(bytes) = one(StreamId::SIGNATURES)? {
                let signature = Signature::decode(number, &bytes).ok_or_else(damaged)?;
                return Ok(Some((commit, signature)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(None)
    }

    /// Ends the waiting of readers: the server is going down.
    pub fn close_readers(&self) {
        self.shown.closing.send_replace(true);
    }

    /// Tells when waiting is to end.
    #[must_use]
    pub fn closing(&self) -> watch::Receiver<bool> {
        self.shown.closing.subscribe()
    }

    /// Takes no more commands, and waits until those that were taken are done. Some may be answered a
    /// moment later.
    pub fn stop(&self) {
        self.turns.stop();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").field("log", &self.log).finish_non_exhaustive()
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.stop();
    }
}

fn decoded(id: StreamId, found: Vec<(u64, Bytes)>) -> Result<Vec<(u64, Stored)>, StoreError> {
    let decode = |(number, bytes): (u64, Bytes)| {
        let stored = Stored::decode(&bytes);
        let damaged = || StoreError::Damaged(format!("record {number} of {id}"));
        stored.map(|stored| (number, stored)).ok_or_else(damaged)
    };
    found.into_iter().map(decode).collect()
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use handback_store::MemoryStore;
    use handback_stream::{
        Append, Create, Fork, Found, Life, Payload, Record, Refusal, StreamName,
    };

    use super::*;

    const LIMIT: ReadLimit = ReadLimit { records: 100, bytes: 1 << 20 };

    fn streams() -> (Arc<Streams>, Arc<AtomicU64>) {
        let time = Arc::new(AtomicU64::new(1000));
        let clock: Clock = {
            let time = Arc::clone(&time);
            Arc::new(move || time.load(Ordering::Relaxed))
        };
        let streams = Streams::open(Arc::new(MemoryStore::new()), None, clock, Mode::Memory);
        (streams.unwrap(), time)
    }

    fn name(path: &str) -> StreamName {
        StreamName::new("owner", path).unwrap()
    }

    fn creation(path: &str, life: Life) -> Create {
        Create {
            name: name(path),
            content_type: Some("text/plain".to_owned()),
            life,
            closed: false,
            payload: None,
            fork: None,
            key: None,
            incarnation: rand::random(),
        }
    }

    fn append(path: &str, text: &'static str) -> Append {
        let payload = Payload::parse(Bytes::from_static(text.as_bytes()), false).unwrap();
        Append::new(name(path).id(), Some(payload), false, 1000)
    }

    async fn read(streams: &Arc<Streams>, path: &str, after: u64) -> String {
        let view = streams.view(name(path).id()).unwrap();
        let records = streams.read(&view, after, LIMIT).await.unwrap();
        let text = |(_, stored): (u64, Stored)| {
            let record = Record::decode(&stored.record).unwrap();
            let bytes = record.payload().map(|payload| payload.bytes.to_vec());
            String::from_utf8(bytes.unwrap_or_default()).unwrap()
        };
        records.into_iter().map(text).collect()
    }

    #[tokio::test]
    async fn a_stream_shows_nothing_of_another_one_that_had_its_name() {
        let (streams, time) = streams();
        let create = |create| Command::Create(Box::new(create));
        streams.command(create(creation("src", Life::Unlimited)), 0).await.unwrap();
        for text in ["S1", "S2", "S3", "S4", "S5"] {
            streams.command(Command::Append(append("src", text)), 0).await.unwrap();
        }
        streams.command(create(creation("x", Life::Until(5000))), 0).await.unwrap();
        for text in ["O1", "O2", "O3", "O4"] {
            streams.command(Command::Append(append("x", text)), 0).await.unwrap();
        }
        assert_eq!(read(&streams, "x", 2).await, "O3O4");
        // Its end and the new one are in the same commit.
        time.store(5000, Ordering::Relaxed);
        let source = streams.view(name("src").id()).unwrap();
        let found = Found { id: source.meta.id(), number: 5, head: source.head, part: None };
        let fork = Fork { source: name("src").id(), number: Some(5), part: 0, found: Ok(found) };
        let forked = Create { fork: Some(fork), ..creation("x", Life::Unlimited) };
        streams.command(create(forked), 0).await.unwrap();
        assert_eq!(read(&streams, "x", 0).await, "S1S2S3S4S5");
        assert_eq!(read(&streams, "x", 2).await, "S3S4S5");
        assert_eq!(read(&streams, "x", 4).await, "S5");
        streams.command(Command::Append(append("x", "new")), 0).await.unwrap();
        assert_eq!(read(&streams, "x", 4).await, "S5new");
        assert_eq!(read(&streams, "x", 5).await, "new");
    }

    #[tokio::test]
    async fn an_append_goes_to_the_stream_that_was_looked_at_or_to_none() {
        let (streams, _) = streams();
        let create = |path| Command::Create(Box::new(creation(path, Life::Unlimited)));
        streams.command(create("x"), 0).await.unwrap();
        let seen = streams.view(name("x").id()).unwrap().meta.id();
        streams.command(Command::Delete(name("x").id()), 0).await.unwrap();
        streams.command(create("x"), 0).await.unwrap();
        let reply = streams.command(Command::Append(append("x", "a").to(seen)), 0).await;
        assert_eq!(reply, Ok(Reply::Refused(Refusal::NotFound)));
        let now = streams.view(name("x").id()).unwrap().meta.id();
        let reply = streams.command(Command::Append(append("x", "a").to(now)), 0).await;
        assert!(matches!(reply, Ok(Reply::Appended(_))));
    }
}
