//! What a process sees of the disk.

use bytes::Bytes;

use super::disk::{FaultyDisk, Write};
use crate::{Batch, Kv, KvBatch, KvError, Log, LogId, Millis, ReadLimit, Record, StoreError};

/// The engine, for as long as the process that opened it lives.
///
/// # Panics
///
/// A batch whose records do not follow each other panics, so that a simulation ends there and does not
/// take it for one more fault.
#[derive(Debug)]
pub struct FaultyStore {
    pub(super) disk: FaultyDisk,
    pub(super) life: u64,
}

impl FaultyStore {
    /// The disk beneath.
    #[must_use]
    pub const fn disk(&self) -> &FaultyDisk {
        &self.disk
    }
}

impl Log for FaultyStore {
    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut disk = self.disk.lock();
        disk.state(self.life)?.check(batch).expect("batches follow the rules");
        if batch.is_empty() {
            return Ok(());
        }
        disk.write(Write::Log(batch.clone()))
    }

    fn read(&self, log: LogId, from: u64, limit: ReadLimit) -> Result<Vec<Record>, StoreError> {
        Ok(self.disk.lock().state(self.life)?.read(log, from, limit))
    }

    fn last(&self, log: LogId) -> Result<Option<Record>, StoreError> {
        Ok(self.disk.lock().state(self.life)?.last(log))
    }

    fn note(&self, log: LogId) -> Result<Option<Bytes>, StoreError> {
        Ok(self.disk.lock().state(self.life)?.note(log))
    }

    fn noted(&self, after: Option<LogId>, limit: usize) -> Result<Vec<(LogId, Bytes)>, StoreError> {
        Ok(self.disk.lock().state(self.life)?.noted(after, limit))
    }

    fn recover(&self) -> Result<(), StoreError> {
        let mut disk = self.disk.lock();
        match disk.state(self.life) {
            Err(StoreError::Broken(_)) => disk.recover(),
            other => other.map(|_| ()),
        }
    }
}

impl Kv for FaultyStore {
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        Ok(self.disk.lock().state(self.life)?.get(key, now))
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        Ok(self.disk.lock().state(self.life)?.scan(prefix, after, limit, now))
    }

    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        let mut disk = self.disk.lock();
        disk.state(self.life)?.check_values(batch, now)?;
        if batch.changes.is_empty() {
            return Ok(());
        }
        Ok(disk.write(Write::Values(batch.clone()))?)
    }

    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        let mut disk = self.disk.lock();
        let outlived = disk.state(self.life)?.outlived(now, limit);
        let count = outlived.changes.len();
        if count > 0 {
            disk.write(Write::Values(outlived))?;
        }
        Ok(count)
    }
}
