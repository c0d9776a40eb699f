//! Writing a value piece by piece.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::error::HeldError;
use super::file::FileWriter;
use super::options::Allowance;
use super::row::{Name, Place, Row, State};
use super::store::{Held, Shared, put};
use super::usage::{RowChange, cost};
use super::{CHUNK_BYTES, MAX_IN_STORE_BYTES};
use crate::{Change, Kv, KvBatch, Millis};

/// Bytes that are kept in memory before they are written: a write is a sync, and a chunk is small.
/// What is not longer is written with its row, at once.
const BUFFER_BYTES: usize = MAX_IN_STORE_BYTES;

/// Bytes by which the quota is taken up ahead of what is written.
const GRANT_BYTES: u64 = 4 << 20;

/// How long a writer may pause before what it wrote is taken for left over.
const WRITING_LIFE_MS: Millis = 60 * 60 * 1_000;

const _: () = assert!(BUFFER_BYTES.is_multiple_of(CHUNK_BYTES), "whole chunks are written");

/// A value that is being written. Nobody sees it before [`finish`](Self::finish); if it is dropped
/// before that, nothing is left of it.
#[must_use]
pub struct HeldWriter<S: Kv> {
    shared: Arc<Shared<S>>,
    name: Name,
    /// The row, as it will be.
    row: Row,
    /// How long it lives at least.
    least_ms: Millis,
    allowance: Allowance,
    /// The row as it is stored, once it is.
    stored: Option<Bytes>,
    buffer: Vec<u8>,
    /// Chunks that are written.
    chunks: u64,
    file: Option<FileWriter>,
    is_finished: bool,
    /// When it was last used, for when it is dropped.
    now: Millis,
}

impl<S: Kv> HeldWriter<S> {
    pub(super) const fn new(
        shared: Arc<Shared<S>>,
        name: Name,
        row: Row,
        (least_ms, allowance): (Millis, Allowance),
        now: Millis,
    ) -> Self {
        Self {
            shared,
            name,
            row,
            least_ms,
            allowance,
            stored: None,
            buffer: Vec::new(),
            chunks: 0,
            file: None,
            is_finished: false,
            now,
        }
    }

    /// How many bytes were written so far.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.row.size
    }

    /// Whether nothing was written so far.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.row.size == 0
    }

    /// Adds bytes.
    ///
    /// # Errors
    ///
    /// [`HeldError`]; then drop the writer.
    pub fn write(&mut self, mut bytes: &[u8], now: Millis) -> Result<(), HeldError> {
        self.now = now;
        while !bytes.is_empty() {
            if self.buffer.len() >= BUFFER_BYTES {
                self.flush(now)?;
            }
            let room = BUFFER_BYTES - self.buffer.len();
            let (now_added, rest) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now_added);
            self.row.size += now_added.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// Ends the value, which is held from now on.
    ///
    /// # Errors
    ///
    /// [`HeldError`]; then nothing is held.
    pub fn finish(mut self, now: Millis) -> Result<Held, HeldError> {
        self.now = now;
        let first_life = match self.row.idle_ms {
            0 => Millis::MAX,
            idle_ms => idle_ms.max(self.least_ms),
        };
        let held = Row {
            state: State::Held,
            charged: cost(self.row.size),
            end: now.saturating_add(first_life).min(self.row.last_end),
            ..self.row.clone()
        };
        let beside = match self.stored {
            // All of it is still in the buffer.
            None => self.take_chunks(),
            Some(_) => {
                self.flush(now)?;
                Vec::new()
            }
        };
        if let Some(file) = &mut self.file {
            file.finish()?;
        }
        let held = Row { place: self.row.place, ..held };
        self.change(held, beside, now)?;
        self.is_finished = true;
        if self.name.handle().is_some() {
            self.shared.taken.add(self.row.size);
        }
        Ok(Held { name: self.name.clone(), row: self.row.clone() })
    }

    /// Writes what is in the buffer.
    fn flush(&mut self, now: Millis) -> Result<(), HeldError> {
        let charged = cost(self.row.size);
        if self.stored.is_none() || charged > self.row.charged {
            let writing = Row {
                charged: charged.saturating_add(GRANT_BYTES),
                end: now.saturating_add(WRITING_LIFE_MS),
                ..self.row.clone()
            };
            // Close to the limit, what is needed is enough.
            match self.change(writing.clone(), Vec::new(), now) {
                Err(HeldError::Quota { .. }) => {
                    self.change(Row { charged, ..writing }, Vec::new(), now)?;
                }
                result => result?,
            }
        }
        if self.file.is_none()
            && let Some(folder) = self.shared.folder()
        {
            self.file = Some(FileWriter::create(folder, &self.name)?);
            let is_sealed = self.shared.keys().is_some();
            self.row.place = if is_sealed { Place::SealedFile } else { Place::PlainFile };
        }
        let Some(file) = &mut self.file else {
            let changes = self.take_chunks();
            let batch = KvBatch { conditions: Vec::new(), changes };
            return self.shared.kv.write(&batch, now).map_err(HeldError::of_write);
        };
        for chunk in self.buffer.chunks(CHUNK_BYTES) {
            file.push(self.shared.keys(), self.chunks, chunk)?;
            self.chunks += 1;
        }
        self.buffer.clear();
        Ok(())
    }

    /// What is in the buffer, as values of the store.
    fn take_chunks(&mut self) -> Vec<(Bytes, Change)> {
        let buffer = Bytes::from(std::mem::take(&mut self.buffer));
        let mut changes = Vec::new();
        for at in (0..buffer.len()).step_by(CHUNK_BYTES) {
            let value = buffer.slice(at..buffer.len().min(at + CHUNK_BYTES));
            let change = Change::Put { value, until: Some(self.row.last_end) };
            changes.push((self.name.chunk(self.chunks), change));
            self.chunks += 1;
        }
        changes
    }

    fn change(
        &mut self,
        row: Row,
        beside: Vec<(Bytes, Change)>,
        now: Millis,
    ) -> Result<(), HeldError> {
        let before = if self.stored.is_some() { self.row.charged } else { 0 };
        let change = RowChange {
            name: &self.name,
            old: self.stored.as_ref(),
            change: put(&row),
            charged: (before, row.charged),
            allowance: self.allowance,
            beside,
        };
        self.shared.change_row(change, row.is_metered, now)?;
        self.stored = Some(row.encode());
        self.row = row;
        Ok(())
    }
}

impl<S: Kv> Drop for HeldWriter<S> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        let Some(stored) = &self.stored else { return };
        // First the row: if the store broke while it was finished, it may be held after all. What
        // cannot be ended now is swept later.
        let row = Row { state: State::Writing, place: Place::Store, ..self.row.clone() };
        if let Err(error) = self.shared.end(&self.name, stored, &row, self.now) {
            tracing::debug!(%error, "an unfinished value is left to the sweep");
        }
    }
}

impl<S: Kv> fmt::Debug for HeldWriter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldWriter").field("len", &self.len()).finish_non_exhaustive()
    }
}
