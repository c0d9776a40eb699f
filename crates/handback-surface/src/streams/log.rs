//! Between what a hub says and what a log takes.

use bytes::Bytes;
use handback_store::{Batch, Log, LogId, ReadLimit, Record as LogRecord, StoreError};
use handback_stream::{Recovery, StreamId, Write};

/// Records read from the store at a time when a stream is recovered.
const RECOVER_LIMIT: ReadLimit = ReadLimit { records: 1024, bytes: 4 << 20 };

/// A write of a hub as the log takes it.
#[must_use]
pub fn batch(write: Write) -> Batch {
    let log = |id: StreamId| LogId::from_bytes(*id.as_bytes());
    let record = |(id, number, bytes)| LogRecord { log: log(id), number, bytes };
    Batch {
        records: write.records.into_iter().map(record).collect(),
        notes: write.notes.into_iter().map(|(id, note)| (log(id), note)).collect(),
        removed: write.removed.into_iter().map(log).collect(),
        dropped: Vec::new(),
    }
}

/// The stream of a log.
#[must_use]
pub const fn stream(log: LogId) -> StreamId {
    StreamId::from_bytes(*log.as_bytes())
}

/// What a hub is recovered from.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "made from a log")]
pub struct Source<'a>(pub &'a dyn Log);

/// Notes read at a time.
const NOTES_PER_READ: usize = 1024;

impl Recovery for Source<'_> {
    type Error = StoreError;

    fn notes(&mut self) -> Result<Vec<(StreamId, Bytes)>, StoreError> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let some = self.0.noted(after, NOTES_PER_READ)?;
            let Some((last, _)) = some.last() else { return Ok(all) };
            after = Some(*last);
            all.extend(some.into_iter().map(|(log, note)| (stream(log), note)));
        }
    }

    fn records(&mut self, log: StreamId, from: u64) -> Result<Vec<(u64, Bytes)>, StoreError> {
        let records = self.0.read(LogId::from_bytes(*log.as_bytes()), from, RECOVER_LIMIT)?;
        Ok(records.into_iter().map(|record| (record.number, record.bytes)).collect())
    }

    fn last(&mut self, log: StreamId) -> Result<Option<(u64, Bytes)>, StoreError> {
        let last = self.0.last(LogId::from_bytes(*log.as_bytes()))?;
        Ok(last.map(|record| (record.number, record.bytes)))
    }
}
