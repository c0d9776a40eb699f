//! What waits to be written.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::{Pending, SubmitError, WriterOptions};
use crate::{Batch, LogId};

pub(super) struct Queue {
    options: WriterOptions,
    waiting: Mutex<Waiting>,
    /// Told when something is queued while the writer sleeps, and when the queue is closed.
    changed: Condvar,
}

struct Waiting {
    items: VecDeque<(usize, Pending)>,
    bytes: usize,
    is_open: bool,
    writer_sleeps: bool,
}

/// What is committed together.
pub(super) struct Group {
    pub(super) batch: Batch,
    pub(super) done: Vec<Done>,
}

pub(super) type Done = Box<dyn FnOnce(Result<(), crate::StoreError>) + Send>;

impl Queue {
    pub(super) fn new(options: WriterOptions) -> Self {
        let waiting =
            Waiting { items: VecDeque::new(), bytes: 0, is_open: true, writer_sleeps: false };
        Self { options, waiting: Mutex::new(waiting), changed: Condvar::new() }
    }

    pub(super) fn push(&self, pending: Pending) -> Result<(), SubmitError> {
        let bytes = pending.batch.cost_bytes();
        let mut waiting = self.lock();
        if !waiting.is_open {
            return Err(SubmitError::Stopped(pending));
        }
        // One that is longer than the bound is taken when nothing else waits: it could never go in
        // otherwise.
        if waiting.bytes.saturating_add(bytes) > self.options.queued_bytes && waiting.bytes > 0 {
            return Err(SubmitError::Busy(pending));
        }
        waiting.bytes += bytes;
        waiting.items.push_back((bytes, pending));
        // A writer that is awake looks by itself; waking it again would cost every caller.
        let wake = std::mem::take(&mut waiting.writer_sleeps);
        drop(waiting);
        if wake {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Takes no more.
    pub(super) fn close(&self) {
        self.lock().is_open = false;
        self.changed.notify_all();
    }

    /// Waits for work, and takes as much as goes into one commit. `None` when there is none and never
    /// will be.
    pub(super) fn take(&self) -> Option<Group> {
        let mut waiting = self.lock();
        while waiting.items.is_empty() {
            if !waiting.is_open {
                return None;
            }
            waiting.writer_sleeps = true;
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let (items, bytes) = self.take_items(&mut waiting);
        waiting.bytes -= bytes;
        drop(waiting);
        Some(Group::merge(items))
    }

    fn take_items(&self, waiting: &mut Waiting) -> (Vec<Pending>, usize) {
        let mut taken = Vec::new();
        let mut bytes = 0_usize;
        let mut rows = 0_usize;
        let mut logs = Logs::default();
        while let Some((item_bytes, item)) = waiting.items.front() {
            let item_rows = row_count(&item.batch);
            let has_room = bytes.saturating_add(*item_bytes) <= self.options.commit_bytes
                && rows.saturating_add(item_rows) <= self.options.commit_items;
            let fits = has_room && logs.agree_with(&item.batch);
            if !fits && !taken.is_empty() {
                break;
            }
            let Some((item_bytes, item)) = waiting.items.pop_front() else { break };
            logs.add(&item.batch);
            bytes += item_bytes;
            rows += item_rows;
            taken.push(item);
        }
        (taken, bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.lock();
        f.debug_struct("Queue")
            .field("items", &waiting.items.len())
            .field("bytes", &waiting.bytes)
            .field("is_open", &waiting.is_open)
            .finish_non_exhaustive()
    }
}

impl Group {
    fn merge(items: Vec<Pending>) -> Self {
        let mut done = Vec::with_capacity(items.len());
        let mut batch = Batch::default();
        for mut item in items {
            done.push(item.done);
            if batch.is_empty() {
                batch = item.batch;
                continue;
            }
            batch.records.append(&mut item.batch.records);
            batch.notes.append(&mut item.batch.notes);
            batch.removed.append(&mut item.batch.removed);
        }
        Self { batch, done }
    }
}

/// Which logs a group removes, and which it writes to: no log may be both, since a removal takes
/// what was there before the whole batch. Kept only once something is removed, which is rare.
#[derive(Default)]
struct Logs {
    removed: HashSet<LogId>,
    written: Vec<LogId>,
}

impl Logs {
    fn add(&mut self, batch: &Batch) {
        self.removed.extend(&batch.removed);
        self.written.extend(written(batch));
    }

    fn agree_with(&self, batch: &Batch) -> bool {
        let no_write_after_removal =
            self.removed.is_empty() || !written(batch).any(|log| self.removed.contains(&log));
        let no_removal_after_write =
            !batch.removed.iter().any(|removed| self.written.contains(removed));
        no_write_after_removal && no_removal_after_write
    }
}

fn written(batch: &Batch) -> impl Iterator<Item = LogId> {
    let records = batch.records.iter().map(|record| record.log);
    records.chain(batch.notes.iter().map(|(log, _)| *log))
}

fn row_count(batch: &Batch) -> usize {
    batch.records.len() + batch.notes.len() + batch.removed.len()
}
