//! A store that can be out of reach, or slow.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;
use handback_store::{Kv, KvBatch, KvError, MemoryStore, Millis, StoreError};

#[derive(Debug, Default)]
pub(crate) struct Breakable {
    inner: MemoryStore,
    pub(crate) switch: Arc<Switch>,
}

/// What a store does when it is asked.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    pub(crate) is_broken: AtomicBool,
    is_held: Mutex<bool>,
    let_go: Condvar,
    /// How many questions had to wait.
    pub(crate) held: AtomicU64,
}

impl Switch {
    /// Lets questions wait, or go on.
    pub(crate) fn hold(&self, is_held: bool) {
        *self.is_held.lock().unwrap() = is_held;
        self.let_go.notify_all();
    }

    fn pass(&self) {
        let is_held = self.is_held.lock().unwrap();
        if *is_held {
            self.held.fetch_add(1, Ordering::SeqCst);
        }
        drop(self.let_go.wait_while(is_held, |is_held| *is_held).unwrap());
    }
}

impl Breakable {
    fn check(&self) -> Result<(), StoreError> {
        self.switch.pass();
        if self.switch.is_broken.load(Ordering::SeqCst) {
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
