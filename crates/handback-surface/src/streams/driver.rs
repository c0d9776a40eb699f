//! Drives the hub: one thread that takes what waits, commits it, and answers.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use handback_store::{Log, LogId, ReadLimit, StoreError};
use handback_stream::{
    Command, Commit, Done, Hub, NameId, RecoverError, Reply, Signature, SigningKey, Stored,
    StreamId, View,
};
use tokio::sync::{oneshot, watch};

use super::log;
use super::sweep::Sweep;

/// What tells the time, in milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Bytes of commands that may wait for the writer: what a second of writing clears.
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// What a command counts besides its payload.
const COMMAND_BYTES: usize = 512;

/// Bytes of commands that go into one commit.
const COMMIT_BYTES_MAX: usize = 8 << 20;

/// Commands that go into one commit.
const COMMIT_COMMANDS_MAX: usize = 4096;

/// How often the writer looks for what has outlived its time.
const SWEEP_EVERY_MS: u64 = 250;

/// How often a store that failed is tried again.
const RECOVER_EVERY: Duration = Duration::from_millis(500);

/// How many milliseconds a reader waits for the signature of the last commit.
const SIGNATURE_WAITS: usize = 200;

/// Records kept in memory per stream, for readers at its end.
const TAIL_RECORDS: usize = 64;

/// Bytes of them.
const TAIL_BYTES: usize = 256 << 10;

/// All streams, to be used by many at once.
pub struct Streams {
    pub(super) log: Arc<dyn Log>,
    pub(super) sweep: Sweep,
    shared: Arc<Shared>,
    commands: Mutex<Option<mpsc::Sender<Waiting>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
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

struct Waiting {
    command: Command,
    bytes: usize,
    reply: oneshot::Sender<Result<Reply, NotTaken>>,
}

/// What the writer shows to readers.
struct Shared {
    channels: RwLock<HashMap<NameId, Arc<Channel>>>,
    queued: AtomicUsize,
    mode: watch::Sender<Mode>,
    /// Readers that wait are to end.
    closing: watch::Sender<bool>,
    /// The last one, which is stored with the next commit only.
    signature: Mutex<Option<Signature>>,
    /// Counts commits that changed what readers see.
    changes: watch::Sender<u64>,
}

/// What readers of one stream wait on.
struct Channel {
    view: watch::Sender<Option<View>>,
    tail: Mutex<Tail>,
}

/// The last records of a stream.
#[derive(Default)]
struct Tail {
    /// Of which stream: a name may get another one.
    id: Option<StreamId>,
    records: VecDeque<(u64, Bytes)>,
    bytes: usize,
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
        let (hub, views) = Hub::recover(&mut log::Source(log.as_ref()), key.clone())?;
        let shared = Arc::new(Shared {
            channels: RwLock::default(),
            queued: AtomicUsize::new(0),
            mode: watch::Sender::new(mode.clone()),
            closing: watch::Sender::new(false),
            signature: Mutex::new(hub.last_signature()),
            changes: watch::Sender::new(0),
        });
        shared.publish(views);
        let (sender, commands) = mpsc::channel();
        let writer = Writer {
            log: Arc::clone(&log),
            hub,
            key,
            shared: Arc::clone(&shared),
            clock: Arc::clone(&clock),
            commands,
            mode,
        };
        let thread = std::thread::Builder::new().name("streams".to_owned());
        // Without a thread there is no server; nothing was started yet.
        let handle = thread.spawn(move || writer.run()).map_err(|error| {
            RecoverError::Read(StoreError::Unavailable(format!("no thread: {error}")))
        })?;
        Ok(Arc::new(Self {
            sweep: Sweep::default(),
            log,
            shared,
            commands: Mutex::new(Some(sender)),
            writer: Mutex::new(Some(handle)),
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
        let bytes = payload + COMMAND_BYTES;
        if self.shared.queued.fetch_add(bytes, Ordering::Relaxed) > QUEUE_BYTES_MAX {
            self.shared.queued.fetch_sub(bytes, Ordering::Relaxed);
            return Err(NotTaken::Busy);
        }
        let (reply, answer) = oneshot::channel();
        let sent = match &*lock(&self.commands) {
            Some(sender) => sender.send(Waiting { command, bytes, reply }).is_ok(),
            None => false,
        };
        if !sent {
            self.shared.queued.fetch_sub(bytes, Ordering::Relaxed);
            return Err(NotTaken::Stopping);
        }
        answer.await.unwrap_or(Err(NotTaken::Stopping))
    }

    /// A stream as it is now.
    #[must_use]
    pub fn view(&self, name: NameId) -> Option<View> {
        self.shared.channel(name).and_then(|channel| channel.view.borrow().clone())
    }

    /// A stream, with what tells of its changes.
    #[must_use]
    pub fn watch(&self, name: NameId) -> Option<watch::Receiver<Option<View>>> {
        let receiver = self.shared.channel(name)?.view.subscribe();
        let is_there = receiver.borrow().is_some();
        is_there.then_some(receiver)
    }

    /// Paths of all streams of an owner that are not deleted, with how far they go.
    #[must_use]
    pub fn all(&self) -> Vec<View> {
        let channels = self.shared.channels.read().unwrap_or_else(PoisonError::into_inner);
        let views = channels.values().filter_map(|channel| channel.view.borrow().clone());
        views.filter(|view| !view.deleted).collect()
    }

    /// All streams, also those that are kept for their forks only.
    pub(super) fn ids(&self) -> HashSet<StreamId> {
        let channels = self.shared.channels.read().unwrap_or_else(PoisonError::into_inner);
        let ids = channels
            .values()
            .filter_map(|channel| channel.view.borrow().as_ref().map(|view| view.meta.id()));
        ids.collect()
    }

    /// Tells whenever a stream has changed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Whether writes are taken.
    #[must_use]
    pub fn mode(&self) -> watch::Receiver<Mode> {
        self.shared.mode.subscribe()
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
        if let Some(channel) = self.shared.channel(name)
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
            let last = *lock(&self.shared.signature);
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
        self.shared.closing.send_replace(true);
    }

    /// Tells when waiting is to end.
    #[must_use]
    pub fn closing(&self) -> watch::Receiver<bool> {
        self.shared.closing.subscribe()
    }

    /// Takes no more commands, and waits until those that were taken are done.
    pub fn stop(&self) {
        drop(lock(&self.commands).take());
        if let Some(writer) = lock(&self.writer).take() {
            let _ = writer.join();
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn channel(&self, name: NameId) -> Option<Arc<Channel>> {
        let channels = self.channels.read().unwrap_or_else(PoisonError::into_inner);
        channels.get(&name).map(Arc::clone)
    }

    fn publish(&self, views: Vec<(NameId, Option<View>)>) {
        for (name, view) in views {
            match (self.channel(name), view) {
                (Some(channel), Some(view)) => {
                    channel.view.send_replace(Some(view));
                }
                (Some(channel), None) => {
                    channel.view.send_replace(None);
                    let mut channels =
                        self.channels.write().unwrap_or_else(PoisonError::into_inner);
                    channels.remove(&name);
                }
                (None, Some(view)) => {
                    let view = watch::Sender::new(Some(view));
                    let channel = Arc::new(Channel { view, tail: Mutex::default() });
                    let mut channels =
                        self.channels.write().unwrap_or_else(PoisonError::into_inner);
                    channels.insert(name, channel);
                }
                (None, None) => {}
            }
        }
    }
}

impl Tail {
    fn push(&mut self, id: StreamId, number: u64, bytes: Bytes) {
        let follows = self.records.back().is_none_or(|(last, _)| last + 1 == number);
        if self.id != Some(id) || !follows {
            *self = Self { id: Some(id), ..Self::default() };
        }
        self.bytes += bytes.len();
        self.records.push_back((number, bytes));
        while self.records.len() > TAIL_RECORDS || self.bytes > TAIL_BYTES {
            let Some((_, bytes)) = self.records.pop_front() else { break };
            self.bytes -= bytes.len();
        }
    }

    /// What is wanted, if all of it is here.
    fn after(&self, view: &View, after: u64, limit: ReadLimit) -> Option<Vec<(u64, Bytes)>> {
        if self.id != Some(view.meta.id()) {
            return None;
        }
        let (first, _) = self.records.front()?;
        let skipped = usize::try_from((after + 1).checked_sub(*first)?).ok()?;
        let mut bytes = 0;
        let wanted = self.records.iter().skip(skipped).take(limit.records).take_while(|(n, b)| {
            let fits = *n <= view.number && bytes <= limit.bytes;
            bytes += b.len();
            fits
        });
        let wanted: Vec<_> = wanted.cloned().collect();
        (!wanted.is_empty()).then_some(wanted)
    }
}

/// The thread.
struct Writer {
    log: Arc<dyn Log>,
    hub: Hub,
    key: Option<Arc<SigningKey>>,
    shared: Arc<Shared>,
    clock: Clock,
    commands: mpsc::Receiver<Waiting>,
    /// While writes are taken.
    mode: Mode,
}

impl Writer {
    fn run(mut self) {
        let mut swept = (self.clock)();
        loop {
            let first = match self.commands.recv_timeout(Duration::from_millis(SWEEP_EVERY_MS)) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let now = (self.clock)();
            let mut replies = Vec::new();
            let mut bytes = 0;
            let mut next = first;
            while let Some(waiting) = next.take() {
                bytes += waiting.bytes;
                let ticket = replies.len() as u64;
                replies.push(waiting.reply);
                self.hub.submit(ticket, waiting.command, now);
                if bytes < COMMIT_BYTES_MAX && replies.len() < COMMIT_COMMANDS_MAX {
                    next = self.commands.try_recv().ok();
                }
            }
            self.shared.queued.fetch_sub(bytes, Ordering::Relaxed);
            if now.saturating_sub(swept) >= SWEEP_EVERY_MS {
                swept = now;
                self.hub.sweep(now);
                // Others write to the store as well, and may have broken it.
                if let Err(error) = self.log.recover() {
                    self.shared.mode.send_replace(Mode::ReadOnly(error.to_string()));
                }
            }
            match self.commit(now) {
                Ok(done) => {
                    self.taking_writes();
                    if !done.published.is_empty() {
                        self.shared.publish(done.published);
                        self.shared.changes.send_modify(|count| *count += 1);
                    }
                    for ((_, reply), waiting) in done.replies.into_iter().zip(replies) {
                        let _ = waiting.send(Ok(reply));
                    }
                    if let Some(signature) = self.hub.sign() {
                        *lock(&self.shared.signature) = Some(signature);
                    }
                }
                Err(error) => {
                    let reason = error.to_string();
                    tracing::error!(%reason, "the store does not take writes");
                    self.shared.mode.send_replace(Mode::ReadOnly(reason.clone()));
                    for waiting in replies {
                        let _ = waiting.send(Err(NotTaken::ReadOnly(reason.clone())));
                    }
                    if !self.recover() {
                        return;
                    }
                }
            }
        }
    }

    /// Says so again, if it was said otherwise and the store has come back by itself.
    fn taking_writes(&self) {
        if *self.shared.mode.borrow() != self.mode && self.log.recover().is_ok() {
            self.shared.mode.send_replace(self.mode.clone());
        }
    }

    fn commit(&mut self, now: u64) -> Result<Done, StoreError> {
        if let Some(write) = self.hub.take_write(now) {
            let batch = log::batch(&write);
            self.log.commit(&batch)?;
            for (id, number, bytes) in write.records {
                let is_genesis = Stored::decode(&bytes).is_none_or(|stored| stored.is_genesis());
                if !is_genesis && let Some(channel) = self.shared.channel(id.name()) {
                    lock(&channel.tail).push(id, number, bytes);
                }
            }
        }
        Ok(self.hub.committed())
    }

    /// Refuses commands until the store works again. False if there will be no more.
    fn recover(&mut self) -> bool {
        loop {
            match self.reopened() {
                Ok(()) => {
                    tracing::info!("the store takes writes again");
                    self.shared.mode.send_replace(self.mode.clone());
                    return true;
                }
                Err(error) => {
                    let reason = error.to_string();
                    tracing::debug!(%reason, "the store still does not take writes");
                    let before = self.shared.mode.borrow().clone();
                    if before != Mode::ReadOnly(reason.clone()) {
                        self.shared.mode.send_replace(Mode::ReadOnly(reason.clone()));
                    }
                    if !self.refuse(&reason) {
                        return false;
                    }
                }
            }
        }
    }

    fn reopened(&mut self) -> Result<(), RecoverError<StoreError>> {
        self.log.recover()?;
        let (hub, views) = Hub::recover(&mut log::Source(self.log.as_ref()), self.key.clone())?;
        self.hub = hub;
        // What is there now may be more than was shown, never less.
        let known: Vec<_> = {
            let channels = self.shared.channels.read().unwrap_or_else(PoisonError::into_inner);
            channels.iter().map(|(name, channel)| (*name, Arc::clone(channel))).collect()
        };
        for (name, channel) in known {
            *lock(&channel.tail) = Tail::default();
            if !views.iter().any(|(there, _)| *there == name) {
                self.shared.publish(vec![(name, None)]);
            }
        }
        self.shared.publish(views);
        Ok(())
    }

    /// Answers what comes for a while. False if nothing will come any more.
    fn refuse(&self, reason: &str) -> bool {
        let deadline = std::time::Instant::now() + RECOVER_EVERY;
        loop {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            match self.commands.recv_timeout(left) {
                Ok(waiting) => {
                    self.shared.queued.fetch_sub(waiting.bytes, Ordering::Relaxed);
                    let _ = waiting.reply.send(Err(NotTaken::ReadOnly(reason.to_owned())));
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

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
