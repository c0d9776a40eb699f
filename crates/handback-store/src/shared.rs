//! A store that several own, or that is borrowed, is a store.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Batch, Kv, KvBatch, KvError, Log, LogId, Millis, ReadLimit, Record, StoreError};

impl<S: Log + ?Sized> Log for Arc<S> {
    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        (**self).commit(batch)
    }

    fn read(&self, log: LogId, from: u64, limit: ReadLimit) -> Result<Vec<Record>, StoreError> {
        (**self).read(log, from, limit)
    }

    fn last(&self, log: LogId) -> Result<Option<Record>, StoreError> {
        (**self).last(log)
    }

    fn note(&self, log: LogId) -> Result<Option<Bytes>, StoreError> {
        (**self).note(log)
    }

    fn noted(&self, after: Option<LogId>, limit: usize) -> Result<Vec<(LogId, Bytes)>, StoreError> {
        (**self).noted(after, limit)
    }

    fn recover(&self) -> Result<(), StoreError> {
        (**self).recover()
    }
}

impl<S: Kv + ?Sized> Kv for Arc<S> {
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        (**self).get(key, now)
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        (**self).scan(prefix, after, limit, now)
    }

    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        (**self).write(batch, now)
    }

    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        (**self).sweep(now, limit)
    }

    fn settle(&self) -> Result<(), StoreError> {
        (**self).settle()
    }
}

impl<S: Kv + ?Sized> Kv for &S {
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        (**self).get(key, now)
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        (**self).scan(prefix, after, limit, now)
    }

    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        (**self).write(batch, now)
    }

    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        (**self).sweep(now, limit)
    }

    fn settle(&self) -> Result<(), StoreError> {
        (**self).settle()
    }
}
