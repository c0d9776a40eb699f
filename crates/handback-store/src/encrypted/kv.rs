//! Values, encrypted.

use bytes::{Buf, Bytes};

use super::Encrypted;
use super::key::{Keys, Kind, damaged};
use crate::{Change, Condition, Kv, KvBatch, KvError, Millis, StoreError};

/// How often a batch is tried whose conditions another writer keeps changing beneath.
const MAX_TRIES: usize = 100;

/// The end of a life that has none.
const FOR_EVER: Millis = Millis::MAX;

impl<S: Kv> Kv for Encrypted<S> {
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        let stored = self.inner.get(key, now)?;
        stored.map(|stored| open_value(&self.keys, key, &stored, now)).transpose()
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let found = self.inner.scan(prefix, after, limit, now)?.into_iter();
        found
            .map(|(key, stored)| {
                let value = open_value(&self.keys, &key, &stored, now)?;
                Ok((key, value))
            })
            .collect()
    }

    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        batch.check_keys()?;
        let changes = batch.changes.iter().map(|(key, change)| self.seal_change(key, change));
        let mut sealed = KvBatch {
            conditions: Vec::with_capacity(batch.conditions.len()),
            changes: changes.collect::<Result<_, _>>()?,
        };
        for _ in 0..MAX_TRIES {
            sealed.conditions.clear();
            for (number, (key, condition)) in batch.conditions.iter().enumerate() {
                let condition = match condition {
                    Condition::Is(value) => {
                        Condition::Is(self.find(key, value, now)?.ok_or(KvError::Unmet(number))?)
                    }
                    other => other.clone(),
                };
                sealed.conditions.push((key.clone(), condition));
            }
            match self.inner.write(&sealed, now) {
                // The same value may have been written again since it was read, and encrypted
                // anew. Another look tells.
                Err(KvError::Unmet(number)) if is_comparison(batch, number) => {}
                result => return result,
            }
        }
        Err(StoreError::Unavailable("too many others write the same key".to_owned()).into())
    }

    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        self.inner.sweep(now, limit)
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.inner.settle()
    }
}

impl<S: Kv> Encrypted<S> {
    fn seal_change(&self, key: &Bytes, change: &Change) -> Result<(Bytes, Change), StoreError> {
        let change = match change {
            Change::Put { value, until } => {
                let front = until.unwrap_or(FOR_EVER).to_be_bytes();
                let value = self.keys.seal(Kind::Value, key, &front, value)?;
                Change::Put { value, until: *until }
            }
            Change::Remove => Change::Remove,
        };
        Ok((key.clone(), change))
    }

    /// What is stored of a key, if its value is this one.
    fn find(&self, key: &[u8], value: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        let Some(stored) = self.inner.get(key, now)? else { return Ok(None) };
        Ok((open_value(&self.keys, key, &stored, now)? == value).then_some(stored))
    }
}

fn open_value(keys: &Keys, key: &[u8], stored: &[u8], now: Millis) -> Result<Bytes, StoreError> {
    let mut value = keys.open(Kind::Value, key, stored)?;
    let until = value.try_get_u64().map_err(|_| damaged())?;
    // The engine would not have given it.
    if until != FOR_EVER && now >= until {
        return Err(damaged());
    }
    Ok(value)
}

fn is_comparison(batch: &KvBatch, number: usize) -> bool {
    matches!(batch.conditions.get(number), Some((_, Condition::Is(_))))
}
