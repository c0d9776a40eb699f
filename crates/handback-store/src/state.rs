//! Logs and values in memory: what the memory engine and the fault-injecting one are made of.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use bytes::Bytes;

use crate::{
    Batch, Change, Condition, KvBatch, KvError, LogId, Millis, ReadLimit, Record, StoreError,
};

/// All that a store holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    logs: BTreeMap<LogId, Numbered>,
    notes: BTreeMap<LogId, Bytes>,
    values: BTreeMap<Bytes, Value>,
}

/// The records of one log, of which there is at least one.
#[derive(Clone, Debug)]
struct Numbered {
    first: u64,
    /// Those that were dropped are gone.
    records: Vec<Option<Bytes>>,
}

#[derive(Clone, Debug)]
struct Value {
    bytes: Bytes,
    until: Option<Millis>,
}

impl State {
    /// Refuses a batch that breaks the rules of [`Batch`]: its numbers must follow.
    pub(crate) fn check(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut next: HashMap<LogId, u64> = HashMap::with_capacity(batch.records.len().min(16));
        for record in &batch.records {
            let expected =
                next.get(&record.log).copied().or_else(|| self.logs.get(&record.log)?.next());
            if expected.is_some_and(|expected| expected != record.number) {
                return Err(misuse("a record does not follow the last one of its log"));
            }
            let Some(following) = record.number.checked_add(1) else {
                return Err(misuse("a log is at its end"));
            };
            next.insert(record.log, following);
        }
        if batch
            .removed
            .iter()
            .any(|log| next.contains_key(log) || batch.notes.iter().any(|(noted, _)| noted == log))
        {
            return Err(misuse("a log is removed and written to at once"));
        }
        let is_last = |(log, number): &(LogId, u64)| {
            let next = self.logs.get(log).and_then(Numbered::next);
            next.is_some_and(|next| number.saturating_add(1) >= next)
        };
        if batch.dropped.iter().any(is_last) {
            return Err(misuse("the last record of a log is dropped"));
        }
        Ok(())
    }

    /// Writes a batch that was checked.
    pub(crate) fn apply(&mut self, batch: &Batch) {
        for log in &batch.removed {
            self.logs.remove(log);
            self.notes.remove(log);
        }
        for (log, number) in &batch.dropped {
            let Some(log) = self.logs.get_mut(log) else { continue };
            let place = number.checked_sub(log.first).and_then(|place| usize::try_from(place).ok());
            if let Some(record) = place.and_then(|place| log.records.get_mut(place)) {
                *record = None;
            }
        }
        for record in &batch.records {
            let log = self
                .logs
                .entry(record.log)
                .or_insert_with(|| Numbered { first: record.number, records: Vec::new() });
            log.records.push(Some(record.bytes.clone()));
        }
        for (log, note) in &batch.notes {
            self.notes.insert(*log, note.clone());
        }
    }

    pub(crate) fn read(&self, log: LogId, from: u64, limit: ReadLimit) -> Vec<Record> {
        let Some(numbered) = self.logs.get(&log) else { return Vec::new() };
        let mut total = 0_usize;
        let mut records = Vec::new();
        for (number, bytes) in numbered.from(from).take(limit.records) {
            records.push(Record { log, number, bytes: bytes.clone() });
            total = total.saturating_add(bytes.len());
            if total > limit.bytes {
                break;
            }
        }
        records
    }

    pub(crate) fn last(&self, log: LogId) -> Option<Record> {
        let numbered = self.logs.get(&log)?;
        let bytes = numbered.records.last()?.clone()?;
        Some(Record { log, number: numbered.next()?.checked_sub(1)?, bytes })
    }

    pub(crate) fn note(&self, log: LogId) -> Option<Bytes> {
        self.notes.get(&log).cloned()
    }

    pub(crate) fn noted(&self, after: Option<LogId>, limit: usize) -> Vec<(LogId, Bytes)> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let notes = self.notes.range((start, Bound::Unbounded));
        notes.take(limit).map(|(log, note)| (*log, note.clone())).collect()
    }

    pub(crate) fn get(&self, key: &[u8], now: Millis) -> Option<Bytes> {
        let value = self.values.get(key)?;
        value.is_alive(now).then(|| value.bytes.clone())
    }

    pub(crate) fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Vec<(Bytes, Bytes)> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        self.values
            .range::<[u8], _>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(_, value)| value.is_alive(now))
            .take(limit)
            .map(|(key, value)| (key.clone(), value.bytes.clone()))
            .collect()
    }

    /// Whether all conditions hold, and no key is too long.
    pub(crate) fn check_values(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        batch.check_keys()?;
        let unmet =
            |(key, condition): &(Bytes, Condition)| !condition.holds(self.get(key, now).as_deref());
        batch.conditions.iter().position(unmet).map_or(Ok(()), |number| Err(KvError::Unmet(number)))
    }

    /// Makes the changes of a batch that was checked.
    pub(crate) fn apply_values(&mut self, batch: &KvBatch) {
        for (key, change) in &batch.changes {
            match change {
                Change::Put { value, until } => {
                    let value = Value { bytes: value.clone(), until: *until };
                    self.values.insert(key.clone(), value);
                }
                Change::Remove => {
                    self.values.remove(key);
                }
            }
        }
    }

    /// What is left of keys that have outlived their time.
    pub(crate) fn outlived(&self, now: Millis, limit: usize) -> KvBatch {
        let dead = self.values.iter().filter(|(_, value)| !value.is_alive(now));
        let changes = dead.take(limit).map(|(key, _)| (key.clone(), Change::Remove)).collect();
        KvBatch { conditions: Vec::new(), changes }
    }
}

impl Numbered {
    fn next(&self) -> Option<u64> {
        self.first.checked_add(u64::try_from(self.records.len()).ok()?)
    }

    fn from(&self, from: u64) -> impl Iterator<Item = (u64, &Bytes)> {
        let skipped = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let records = (self.first..).zip(&self.records).skip(skipped);
        records.filter_map(|(number, bytes)| Some((number, bytes.as_ref()?)))
    }
}

impl Value {
    fn is_alive(&self, now: Millis) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

impl Condition {
    /// Whether it holds of a key with this value.
    pub(crate) fn holds(&self, value: Option<&[u8]>) -> bool {
        match self {
            Self::Absent => value.is_none(),
            Self::Present => value.is_some(),
            Self::Is(wanted) => value.is_some_and(|value| value == wanted),
        }
    }
}

fn misuse(what: &str) -> StoreError {
    StoreError::Unavailable(what.to_owned())
}
