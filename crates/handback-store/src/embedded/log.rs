//! Logs on the embedded engine.

use std::collections::BTreeSet;

use bytes::Bytes;
use fjall::{OwnedWriteBatch, Readable, Snapshot};

use super::MAX_REMOVED_PER_COMMIT;
use super::database::Tables;
use super::rows::{log_of, record_key, record_number, unreadable};
use super::store::EmbeddedStore;
use crate::{Batch, Log, LogId, ReadLimit, Record, StoreError};

impl Log for EmbeddedStore {
    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let _turn = self.log_turn();
        if !(batch.records.is_empty() && batch.notes.is_empty()) {
            self.space.check(batch.cost_bytes())?;
        }
        self.finish_removals(batch)?;
        let tables = self.tables()?;
        let gone = batch.removed.len() + batch.dropped.len();
        let rows = batch.records.len() + batch.notes.len() + gone;
        let mut write = tables.batch(rows);
        plan_removals(&tables, &batch.removed, &mut write)?;
        for (log, number) in &batch.dropped {
            write.remove(&tables.records, record_key(*log, *number));
        }
        for record in &batch.records {
            let key = record_key(record.log, record.number);
            write.insert(&tables.records, key, record.bytes.as_ref());
        }
        for (log, note) in last_notes(batch) {
            write.insert(&tables.notes, log.as_bytes(), note.as_ref());
        }
        self.commit_rows(tables, write)
    }

    fn read(&self, log: LogId, from: u64, limit: ReadLimit) -> Result<Vec<Record>, StoreError> {
        let tables = self.tables_to_read()?;
        let snapshot = tables.snapshot();
        let mut records = Vec::new();
        if is_removed(&tables, &snapshot, log)? {
            return Ok(records);
        }
        let range = record_key(log, from)..=record_key(log, u64::MAX);
        let mut total = 0_usize;
        for row in snapshot.range(&tables.records, range).take(limit.records) {
            let record = record(log, row)?;
            total = total.saturating_add(record.bytes.len());
            records.push(record);
            if total > limit.bytes {
                break;
            }
        }
        Ok(records)
    }

    fn last(&self, log: LogId) -> Result<Option<Record>, StoreError> {
        let tables = self.tables_to_read()?;
        let snapshot = tables.snapshot();
        if is_removed(&tables, &snapshot, log)? {
            return Ok(None);
        }
        let range = record_key(log, 0)..=record_key(log, u64::MAX);
        snapshot.range(&tables.records, range).next_back().map(|row| record(log, row)).transpose()
    }

    fn note(&self, log: LogId) -> Result<Option<Bytes>, StoreError> {
        let tables = self.tables()?;
        let note = tables.snapshot().get(&tables.notes, log.as_bytes()).map_err(unreadable)?;
        Ok(note.map(|note| Bytes::copy_from_slice(&note)))
    }

    fn noted(&self, after: Option<LogId>, limit: usize) -> Result<Vec<(LogId, Bytes)>, StoreError> {
        use std::ops::Bound::{Excluded, Unbounded};
        let tables = self.tables()?;
        let start = after.as_ref().map_or(Unbounded, |after| Excluded(after.as_bytes()));
        let notes = tables.snapshot().range::<&[u8; 24], _>(&tables.notes, (start, Unbounded));
        let note = |row: fjall::Guard| {
            let (log, note) = row.into_inner().map_err(unreadable)?;
            Ok((log_of(&log)?, Bytes::copy_from_slice(&note)))
        };
        notes.take(limit).map(note).collect()
    }

    fn recover(&self) -> Result<(), StoreError> {
        self.reopen()
    }
}

impl EmbeddedStore {
    /// Takes away the records of removed logs; at most `limit`. Gives how many were there.
    pub(super) fn sweep_records(&self, limit: usize) -> Result<usize, StoreError> {
        let mut swept = 0;
        while swept < limit {
            let _turn = self.log_turn();
            let tables = self.tables()?;
            let Some(row) = tables.snapshot().first_key_value(&tables.removed) else { break };
            let log = log_of(&row.key().map_err(unreadable)?)?;
            drop(tables);
            swept += self.take_away(log, MAX_REMOVED_PER_COMMIT.min(limit - swept))?;
        }
        Ok(swept)
    }

    /// Before something is written to a log of which there are still removed records.
    fn finish_removals(&self, batch: &Batch) -> Result<(), StoreError> {
        let tables = self.tables()?;
        let snapshot = tables.snapshot();
        if snapshot.is_empty(&tables.removed).map_err(unreadable)? {
            return Ok(());
        }
        let written: BTreeSet<LogId> = batch.records.iter().map(|record| record.log).collect();
        let mut unfinished = Vec::new();
        for log in written {
            if is_removed(&tables, &snapshot, log)? {
                unfinished.push(log);
            }
        }
        drop(tables);
        for log in unfinished {
            while self.take_away(log, MAX_REMOVED_PER_COMMIT)? == MAX_REMOVED_PER_COMMIT {}
        }
        Ok(())
    }

    /// Takes away up to `limit` records of a removed log, and its name with the last of them.
    fn take_away(&self, log: LogId, limit: usize) -> Result<usize, StoreError> {
        let tables = self.tables()?;
        let mut write = tables.batch(limit + 1);
        let range = record_key(log, 0)..=record_key(log, u64::MAX);
        for row in tables.snapshot().range(&tables.records, range).take(limit) {
            write.remove(&tables.records, row.key().map_err(unreadable)?);
        }
        let removed = write.len();
        if removed < limit {
            write.remove(&tables.removed, log.as_bytes());
        }
        self.commit_rows(tables, write)?;
        Ok(removed)
    }
}

/// Removes logs in the batch itself, if they are short; otherwise names them.
fn plan_removals(
    tables: &Tables,
    removed: &[LogId],
    write: &mut OwnedWriteBatch,
) -> Result<(), StoreError> {
    if removed.is_empty() {
        return Ok(());
    }
    let snapshot = tables.snapshot();
    let mut left = MAX_REMOVED_PER_COMMIT;
    for log in removed.iter().copied().collect::<BTreeSet<_>>() {
        write.remove(&tables.notes, log.as_bytes());
        if is_removed(tables, &snapshot, log)? {
            continue;
        }
        let range = record_key(log, 0)..=record_key(log, u64::MAX);
        let rows = snapshot.range(&tables.records, range).take(left + 1);
        let keys: Vec<_> =
            rows.map(fjall::Guard::key).collect::<Result<_, _>>().map_err(unreadable)?;
        if keys.len() > left {
            write.insert(&tables.removed, log.as_bytes(), []);
            continue;
        }
        left -= keys.len();
        for key in keys {
            write.remove(&tables.records, key);
        }
    }
    Ok(())
}

fn is_removed(tables: &Tables, snapshot: &Snapshot, log: LogId) -> Result<bool, StoreError> {
    snapshot.contains_key(&tables.removed, log.as_bytes()).map_err(unreadable)
}

fn record(log: LogId, row: fjall::Guard) -> Result<Record, StoreError> {
    let (key, value) = row.into_inner().map_err(unreadable)?;
    let number = record_number(&key)?;
    Ok(Record { log, number, bytes: Bytes::copy_from_slice(&value) })
}

/// The last note of each log: within one batch, a tree knows no order of two writes to one key.
fn last_notes(batch: &Batch) -> impl Iterator<Item = &(LogId, Bytes)> {
    let mut seen = BTreeSet::new();
    batch.notes.iter().rev().filter(move |(log, _)| seen.insert(*log))
}
