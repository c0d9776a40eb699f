//! The engine that keeps nothing.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

use crate::state::State;
use crate::{Batch, Kv, KvBatch, KvError, Log, LogId, Millis, ReadLimit, Record, StoreError};

/// Logs and values in memory. What it holds ends with it; it never fails.
///
/// It checks that records follow each other, which engines on a disk take on trust.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: RwLock<State>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    // A batch is checked before it is applied, so a panic leaves no half of it behind.
    fn shared(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log for MemoryStore {
    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut state = self.alone();
        state.check(batch)?;
        state.apply(batch);
        Ok(())
    }

    fn read(&self, log: LogId, from: u64, limit: ReadLimit) -> Result<Vec<Record>, StoreError> {
        Ok(self.shared().read(log, from, limit))
    }

    fn last(&self, log: LogId) -> Result<Option<Record>, StoreError> {
        Ok(self.shared().last(log))
    }

    fn note(&self, log: LogId) -> Result<Option<Bytes>, StoreError> {
        Ok(self.shared().note(log))
    }

    fn noted(&self, after: Option<LogId>, limit: usize) -> Result<Vec<(LogId, Bytes)>, StoreError> {
        Ok(self.shared().noted(after, limit))
    }

    fn recover(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Kv for MemoryStore {
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        Ok(self.shared().get(key, now))
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        Ok(self.shared().scan(prefix, after, limit, now))
    }

    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        let mut state = self.alone();
        state.check_values(batch, now)?;
        state.apply_values(batch);
        Ok(())
    }

    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        let mut state = self.alone();
        let outlived = state.outlived(now, limit);
        state.apply_values(&outlived);
        Ok(outlived.changes.len())
    }
}
