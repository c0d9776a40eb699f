//! Values that are there at once, and reach another store a little later.
//!
//! For what is good to have after a crash but not worth a sync: a write is seen by everyone who asks
//! here as soon as it returns, and a thread carries what has changed to the store behind, all of it in
//! one batch. A crash loses the last of it, never the middle: what was written later is not there
//! without what was written before.
//!
//! Rejected: a memory of its own with a copy on the disk. It would have its own rules for what is
//! there; this is a [`Kv`], and passes the tests of every other one.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;

use crate::{Change, Condition, Kv, KvBatch, KvError, Millis, StoreError};

/// How long changes are gathered before they are carried away together. It is what a crash may cost,
/// besides the time of a sync.
const GATHER: Duration = Duration::from_millis(20);

/// How long the store behind is left alone after it failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Bytes that wait at most. Whoever wants to write more waits for the store behind, as without this.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// What a change takes in memory besides its key and its value, about.
const CHANGE_BYTES: usize = 128;

/// A store in front of another one, which is written behind. Dropping it writes what waits.
///
/// Nobody else may write the keys that are written here, and the engine behind has to take keys of
/// several calls in one batch.
#[derive(Debug)]
pub struct Behind<S: Kv + 'static> {
    shared: Arc<Shared<S>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<S> {
    inner: S,
    waiting: Mutex<Waiting>,
    /// There is something to do, or there is a hurry.
    woken: Condvar,
    /// A round has ended.
    ended: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// What becomes of which key.
    changes: BTreeMap<Bytes, Change>,
    bytes: usize,
    /// What is being carried away, and is not yet known to have arrived.
    leaving: Arc<BTreeMap<Bytes, Change>>,
    /// How many rounds have ended, and why the last one did not carry anything away.
    rounds: u64,
    failed: Option<StoreError>,
    /// The time of the last write.
    now: Millis,
    is_hurried: bool,
    is_closed: bool,
}

/// Only what it counts: keys and values are not shown.
impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Waiting({} changes, {} bytes)", self.changes.len(), self.bytes)
    }
}

impl<S: Kv + 'static> Behind<S> {
    /// In front of `inner`.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn new(inner: S) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            inner,
            waiting: Mutex::default(),
            woken: Condvar::new(),
            ended: Condvar::new(),
        });
        let worker = Arc::clone(&shared);
        let thread = thread::Builder::new().name("behind".to_owned());
        let thread = thread.spawn(move || worker.carry())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Waits until all that was written so far is in the store behind.
    ///
    /// # Errors
    ///
    /// [`StoreError`] of the store behind. What was written here stays here, and is tried again.
    pub fn flush(&self) -> Result<(), StoreError> {
        let waiting = self.shared.lock();
        if waiting.changes.is_empty() && waiting.leaving.is_empty() {
            return Ok(());
        }
        self.shared.next_round(waiting).1
    }

    /// Writes what has no conditions, without waiting for anything. Gives whether there was room.
    #[must_use]
    pub fn offer(&self, batch: &KvBatch) -> bool {
        let mut waiting = self.shared.lock();
        let has_room = waiting.bytes < WAITING_BYTES_MAX && batch.check_keys().is_ok();
        if has_room {
            waiting.take(batch);
        }
        drop(waiting);
        self.shared.woken.notify_all();
        has_room
    }
}

impl<S: Kv + 'static> Drop for Behind<S> {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.woken.notify_all();
        if let Some(thread) = self.thread.take() {
            // It says itself what went wrong.
            let _ = thread.join();
        }
    }
}

impl<S: Kv + 'static> Kv for Behind<S> {
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        let waiting = self.shared.lock();
        match waiting.change(key) {
            Some(change) => Ok(value_of(change, now)),
            None => {
                drop(waiting);
                self.shared.inner.get(key, now)
            }
        }
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.flush()?;
        self.shared.inner.scan(prefix, after, limit, now)
    }

    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        batch.check_keys()?;
        let mut waiting = self.shared.lock();
        while waiting.bytes >= WAITING_BYTES_MAX {
            let (freed, ended) = self.shared.next_round(waiting);
            ended?;
            waiting = freed;
        }
        for (number, (key, condition)) in batch.conditions.iter().enumerate() {
            let value = match waiting.change(key) {
                Some(change) => value_of(change, now),
                None => self.shared.inner.get(key, now)?,
            };
            let holds = match condition {
                Condition::Absent => value.is_none(),
                Condition::Present => value.is_some(),
                Condition::Is(wanted) => value.as_ref() == Some(wanted),
            };
            if !holds {
                return Err(KvError::Unmet(number));
            }
        }
        waiting.take(batch);
        waiting.now = waiting.now.max(now);
        drop(waiting);
        self.shared.woken.notify_all();
        Ok(())
    }

    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        self.flush()?;
        self.shared.inner.sweep(now, limit)
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.flush()?;
        self.shared.inner.settle()
    }
}

impl<S: Kv> Shared<S> {
    /// Has everything that waits carried away now, and gives what came of that.
    fn next_round<'a>(
        &'a self,
        mut waiting: MutexGuard<'a, Waiting>,
    ) -> (MutexGuard<'a, Waiting>, Result<(), StoreError>) {
        // What is on its way has left without what came after it.
        let rounds =
            u64::from(!waiting.leaving.is_empty()) + u64::from(!waiting.changes.is_empty());
        let wanted = waiting.rounds + rounds;
        waiting.is_hurried = true;
        self.woken.notify_all();
        let over = self.ended.wait_while(waiting, |waiting| waiting.rounds < wanted);
        let waiting = over.unwrap_or_else(PoisonError::into_inner);
        let ended = waiting.failed.clone().map_or(Ok(()), Err);
        (waiting, ended)
    }

    /// Carries changes to the store behind until this is closed.
    fn carry(&self) {
        while let Some((changes, now)) = self.gathered() {
            let batch = KvBatch {
                conditions: Vec::new(),
                changes: changes
                    .iter()
                    .map(|(key, change)| (key.clone(), change.clone()))
                    .collect(),
            };
            let write = AssertUnwindSafe(|| self.inner.write(&batch, now));
            let failed = match panic::catch_unwind(write) {
                Ok(Ok(())) => None,
                Ok(Err(KvError::Store(error))) => Some(error),
                Ok(Err(KvError::Unmet(_))) => {
                    Some(StoreError::Unavailable("a condition that was not set".to_owned()))
                }
                Err(_) => Some(StoreError::Broken("the store behind failed".to_owned())),
            };
            if let Some(error) = &failed {
                tracing::warn!(%error, "what is written behind was not written");
            }
            drop((batch, changes));
            if !self.end_round(failed) {
                return;
            }
        }
    }

    /// What is to be carried away, once there is something; nothing, when all is over.
    fn gathered(&self) -> Option<(Arc<BTreeMap<Bytes, Change>>, Millis)> {
        let is_idle = |waiting: &mut Waiting| waiting.changes.is_empty() && !waiting.is_closed;
        let waiting = self.woken.wait_while(self.lock(), is_idle);
        let waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let mut waiting = self.unless_hurried(waiting, GATHER);
        waiting.is_hurried = false;
        if waiting.changes.is_empty() {
            return None;
        }
        waiting.leaving = Arc::new(std::mem::take(&mut waiting.changes));
        Some((Arc::clone(&waiting.leaving), waiting.now))
    }

    /// Gives whether to go on.
    fn end_round(&self, failed: Option<StoreError>) -> bool {
        let mut waiting = self.lock();
        let left = std::mem::take(&mut waiting.leaving);
        if failed.is_some() {
            // What has changed since then counts.
            for (key, change) in Arc::unwrap_or_clone(left) {
                waiting.changes.entry(key).or_insert(change);
            }
        }
        waiting.bytes = waiting.changes.iter().map(|(key, change)| size_of(key, change)).sum();
        waiting.rounds += 1;
        let has_failed = failed.is_some();
        waiting.failed = failed;
        self.ended.notify_all();
        if has_failed {
            waiting = self.unless_hurried(waiting, PAUSE);
        }
        // Nobody waits for a store that does not work.
        !(has_failed && waiting.is_closed)
    }

    /// Waits that long, or until somebody waits for this.
    fn unless_hurried<'a>(
        &'a self,
        waiting: MutexGuard<'a, Waiting>,
        time: Duration,
    ) -> MutexGuard<'a, Waiting> {
        let is_calm = |waiting: &mut Waiting| !waiting.is_hurried && !waiting.is_closed;
        let waited = self.woken.wait_timeout_while(waiting, time, is_calm);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// What becomes of a key, if it is not known behind yet.
    fn change(&self, key: &[u8]) -> Option<&Change> {
        self.changes.get(key).or_else(|| self.leaving.get(key))
    }

    fn take(&mut self, batch: &KvBatch) {
        for (key, change) in &batch.changes {
            self.bytes += size_of(key, change);
            if let Some(replaced) = self.changes.insert(key.clone(), change.clone()) {
                self.bytes -= size_of(key, &replaced);
            }
        }
    }
}

fn value_of(change: &Change, now: Millis) -> Option<Bytes> {
    match change {
        Change::Put { value, until } if until.is_none_or(|until| now < until) => {
            Some(value.clone())
        }
        Change::Put { .. } | Change::Remove => None,
    }
}

fn size_of(key: &Bytes, change: &Change) -> usize {
    let value = match change {
        Change::Put { value, .. } => value.len(),
        Change::Remove => 0,
    };
    CHANGE_BYTES + key.len() + value
}
