//! Logs: numbered records that are appended in atomic, durable batches.

use std::fmt;

use bytes::Bytes;

use crate::StoreError;

/// Bytes of a log's name.
pub const LOG_ID_BYTES: usize = 24;

/// Which log. Logs exist by having records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogId([u8; LOG_ID_BYTES]);

impl LogId {
    /// The log of this name.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; LOG_ID_BYTES]) -> Self {
        Self(bytes)
    }

    /// The name.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; LOG_ID_BYTES] {
        &self.0
    }
}

impl fmt::Debug for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What is written together: all of it or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "engines take it apart")]
pub struct Batch {
    /// Records. No number of a log is written twice.
    pub records: Vec<Record>,
    /// Notes that replace what was noted of a log before.
    pub notes: Vec<(LogId, Bytes)>,
    /// Logs whose records are removed, with their notes: all records that were there before this
    /// batch. A log that is removed is not written to in the same batch.
    pub removed: Vec<LogId>,
    /// Single records that are taken out of their logs, which then have gaps. The last record of a
    /// log is not one of them, nor any of a log that is removed.
    pub dropped: Vec<(LogId, u64)>,
}

impl Batch {
    /// Whether there is nothing to write.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.records.is_empty()
            && self.notes.is_empty()
            && self.removed.is_empty()
            && self.dropped.is_empty()
    }

    /// About how many bytes it takes to write it.
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        let records: usize = self.records.iter().map(|record| record.bytes.len()).sum();
        let notes: usize = self.notes.iter().map(|(_, note)| note.len()).sum();
        let gone = self.removed.len() + self.dropped.len();
        let rows = self.records.len() + self.notes.len() + gone;
        records.saturating_add(notes).saturating_add(rows.saturating_mul(ROW_BYTES))
    }
}

/// What a row costs besides its value: the name of the log, the number, and what an engine adds.
const ROW_BYTES: usize = 64;

/// One record of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "engines take it apart")]
pub struct Record {
    /// Which log.
    pub log: LogId,
    /// Its number. The first record of a log may have any; each further one has the next.
    pub number: u64,
    /// What it says.
    pub bytes: Bytes,
}

/// How much to read.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal")]
pub struct ReadLimit {
    /// At most so many records.
    pub records: usize,
    /// Once the records are longer than this together, no more are read. The first is always read.
    pub bytes: usize,
}

/// Appended records, by number.
///
/// The functions block: on memory, a disk, or another machine. What was committed is read by
/// everyone at once; what was not is never read, also after a crash.
pub trait Log: fmt::Debug + Send + Sync {
    /// Writes a batch. When this returns `Ok`, all of it survives a crash of the process, of the
    /// machine, and a loss of power. When it returns an error, either all or nothing of it was
    /// written: [`StoreError::is_unwritten`] says of which errors that it was nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. After [`StoreError::Broken`] every call fails until [`Log::recover`],
    /// but for [`Log::read`] and [`Log::last`], which may go on: with what was acknowledged, and
    /// perhaps what was not.
    fn commit(&self, batch: &Batch) -> Result<(), StoreError>;

    /// The records of a log from a number on, in order. A log that does not exist has none.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if they cannot be read, or are damaged.
    fn read(&self, log: LogId, from: u64, limit: ReadLimit) -> Result<Vec<Record>, StoreError>;

    /// The last record of a log.
    ///
    /// # Errors
    ///
    /// As [`Log::read`].
    fn last(&self, log: LogId) -> Result<Option<Record>, StoreError>;

    /// The note of a log.
    ///
    /// # Errors
    ///
    /// As [`Log::read`].
    fn note(&self, log: LogId) -> Result<Option<Bytes>, StoreError>;

    /// All logs that have a note, after one or from the first on, at most `limit`, in the order of
    /// their names; each with its note.
    ///
    /// # Errors
    ///
    /// As [`Log::read`].
    fn noted(&self, after: Option<LogId>, limit: usize) -> Result<Vec<(LogId, Bytes)>, StoreError>;

    /// After [`StoreError::Broken`] or [`StoreError::Full`]: reopens and checks what is stored.
    /// When it returns `Ok`, reading and writing work again, and show what a restart would show.
    /// Without trouble it does nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the cause is still there.
    fn recover(&self) -> Result<(), StoreError>;
}
