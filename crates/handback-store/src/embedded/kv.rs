//! Values on the embedded engine.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use bytes::Bytes;
use fjall::{Readable, Snapshot};

use super::MAX_REMOVED_PER_COMMIT;
use super::database::Tables;
use super::rows::{Value, end_of_life_key, ended, ended_key, key_of, unreadable, value_key};
use super::store::{EmbeddedStore, tend_watermark};
use crate::{Change, Kv, KvBatch, KvError, MAX_KEY_BYTES, Millis, StoreError};

impl Kv for EmbeddedStore {
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        let tables = self.tables()?;
        let value = value(&tables, &tables.snapshot(), key)?;
        Ok(value.filter(|value| value.is_alive(now)).map(|value| value.bytes))
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let tables = self.tables()?;
        if prefix.len() > MAX_KEY_BYTES {
            return Ok(Vec::new());
        }
        let row_prefix = value_key(prefix);
        let start = match after {
            // No key is longer, so that what is cut off makes no difference.
            Some(after) if after >= prefix => {
                Excluded(value_key(after.get(..=MAX_KEY_BYTES).unwrap_or(after)))
            }
            _ => Included(row_prefix.clone()),
        };
        let mut found = Vec::new();
        let rows = tables.snapshot().range(&tables.values, (start, Unbounded));
        for row in rows {
            if found.len() >= limit {
                break;
            }
            let (row_key, row) = row.into_inner().map_err(unreadable)?;
            if !row_key.starts_with(&row_prefix) {
                break;
            }
            let value = Value::decode(&row)?;
            if value.is_alive(now) {
                found.push((Bytes::copy_from_slice(key_of(&row_key)?), value.bytes));
            }
        }
        Ok(found)
    }

    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        batch.check_keys()?;
        let _turn = self.kv_turn();
        let tables = self.tables()?;
        let snapshot = tables.snapshot();
        for (number, (key, condition)) in batch.conditions.iter().enumerate() {
            let value = value(&tables, &snapshot, key)?.filter(|value| value.is_alive(now));
            if !condition.holds(value.as_ref().map(|value| value.bytes.as_ref())) {
                return Err(KvError::Unmet(number));
            }
        }
        let changes: BTreeMap<&Bytes, &Change> =
            batch.changes.iter().map(|(key, change)| (key, change)).collect();
        let added: usize = changes.values().map(|change| change.cost_bytes()).sum();
        if added > 0 {
            self.space.check(added)?;
        }
        let mut write = tables.batch(changes.len() * 2);
        for (key, change) in changes {
            let old_until = value(&tables, &snapshot, key)?.and_then(|old| old.until);
            let new_until = match change {
                Change::Put { value, until } => {
                    write.insert(&tables.values, value_key(key), Value::encode(value, *until));
                    *until
                }
                Change::Remove => {
                    write.remove(&tables.values, value_key(key));
                    None
                }
            };
            if old_until == new_until {
                continue;
            }
            if let Some(until) = old_until {
                write.remove(&tables.values, end_of_life_key(until, key));
            }
            if let Some(until) = new_until {
                write.insert(&tables.values, end_of_life_key(until, key), []);
            }
        }
        Ok(self.commit_rows(tables, write)?)
    }

    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        if let Err(error) = tend_watermark(self) {
            tracing::warn!(%error, "the watermark was not synced");
        }
        let mut swept = 0;
        while swept < limit {
            let chunk = MAX_REMOVED_PER_COMMIT.min(limit - swept);
            let removed = self.sweep_values(now, chunk)?;
            swept += removed;
            if removed < chunk {
                break;
            }
        }
        Ok(swept + self.sweep_records(limit - swept)?)
    }
}

impl EmbeddedStore {
    fn sweep_values(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        let _turn = self.kv_turn();
        let tables = self.tables()?;
        let mut write = tables.batch(limit * 2);
        let mut removed = 0;
        for row in tables.snapshot().range(&tables.values, ended(now)).take(limit) {
            let row = row.key().map_err(unreadable)?;
            write.remove(&tables.values, value_key(ended_key(&row)?));
            write.remove(&tables.values, row);
            removed += 1;
        }
        self.commit_rows(tables, write)?;
        Ok(removed)
    }
}

impl Change {
    fn cost_bytes(&self) -> usize {
        match self {
            Self::Put { value, .. } => value.len() + MAX_KEY_BYTES,
            Self::Remove => 0,
        }
    }
}

fn value(tables: &Tables, snapshot: &Snapshot, key: &[u8]) -> Result<Option<Value>, StoreError> {
    if key.len() > MAX_KEY_BYTES {
        return Ok(None);
    }
    let row = snapshot.get(&tables.values, value_key(key)).map_err(unreadable)?;
    row.map(|row| Value::decode(&row)).transpose()
}
