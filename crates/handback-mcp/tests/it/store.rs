//! A store that can be out of reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use handback_store::{Kv, KvBatch, KvError, MemoryStore, Millis, StoreError};

#[derive(Debug, Default)]
pub(crate) struct Breakable {
    inner: MemoryStore,
    pub(crate) is_broken: Arc<AtomicBool>,
}

impl Breakable {
    fn check(&self) -> Result<(), StoreError> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("the secret address does not answer".to_owned()));
        }
        Ok(())
    }
}

impl Kv for Breakable {
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        self.check()?;
        self.inner.get(key, now)
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.check()?;
        self.inner.scan(prefix, after, limit, now)
    }

    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        self.check()?;
        self.inner.write(batch, now)
    }

    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        self.check()?;
        self.inner.sweep(now, limit)
    }
}
