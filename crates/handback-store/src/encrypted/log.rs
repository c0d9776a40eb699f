//! Logs, encrypted.

use bytes::Bytes;

use super::Encrypted;
use super::key::{Keys, Kind};
use crate::{Batch, LOG_ID_BYTES, Log, LogId, ReadLimit, Record, StoreError};

impl<S: Log> Log for Encrypted<S> {
    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut sealed = Batch {
            records: Vec::with_capacity(batch.records.len()),
            notes: Vec::with_capacity(batch.notes.len()),
            removed: batch.removed.clone(),
            dropped: batch.dropped.clone(),
        };
        for record in &batch.records {
            let owner = record_owner(record.log, record.number);
            let bytes = self.keys.seal(Kind::Record, &owner, &[], &record.bytes)?;
            sealed.records.push(Record { bytes, ..*record });
        }
        for (log, note) in &batch.notes {
            sealed.notes.push((*log, self.keys.seal(Kind::Note, log.as_bytes(), &[], note)?));
        }
        self.inner.commit(&sealed)
    }

    fn read(&self, log: LogId, from: u64, limit: ReadLimit) -> Result<Vec<Record>, StoreError> {
        // Stored records are longer than what they say, so that the engine may stop early.
        let mut records = Vec::new();
        let mut total = 0_usize;
        let mut from = from;
        loop {
            let left = ReadLimit {
                records: limit.records - records.len(),
                bytes: limit.bytes.saturating_sub(total),
            };
            let page = self.inner.read(log, from, left)?;
            let stored: usize = page.iter().map(|record| record.bytes.len()).sum();
            let stopped_early = stored > left.bytes;
            for record in page {
                let record = open_record(&self.keys, log, record)?;
                total = total.saturating_add(record.bytes.len());
                from = record.number.saturating_add(1);
                records.push(record);
                if total > limit.bytes {
                    return Ok(records);
                }
            }
            if !stopped_early {
                return Ok(records);
            }
        }
    }

    fn last(&self, log: LogId) -> Result<Option<Record>, StoreError> {
        let last = self.inner.last(log)?;
        last.map(|record| open_record(&self.keys, log, record)).transpose()
    }

    fn note(&self, log: LogId) -> Result<Option<Bytes>, StoreError> {
        let note = self.inner.note(log)?;
        note.map(|note| self.keys.open(Kind::Note, log.as_bytes(), &note)).transpose()
    }

    fn noted(&self, after: Option<LogId>, limit: usize) -> Result<Vec<(LogId, Bytes)>, StoreError> {
        let notes = self.inner.noted(after, limit)?.into_iter();
        notes
            .map(|(log, note)| Ok((log, self.keys.open(Kind::Note, log.as_bytes(), &note)?)))
            .collect()
    }

    fn recover(&self) -> Result<(), StoreError> {
        self.inner.recover()
    }
}

fn open_record(keys: &Keys, log: LogId, record: Record) -> Result<Record, StoreError> {
    let owner = record_owner(log, record.number);
    let bytes = keys.open(Kind::Record, &owner, &record.bytes)?;
    Ok(Record { log, number: record.number, bytes })
}

fn record_owner(log: LogId, number: u64) -> [u8; LOG_ID_BYTES + 8] {
    let mut owner = [0; LOG_ID_BYTES + 8];
    let (head, tail) = owner.split_at_mut(LOG_ID_BYTES);
    head.copy_from_slice(log.as_bytes());
    tail.copy_from_slice(&number.to_be_bytes());
    owner
}
