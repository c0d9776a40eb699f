//! Revocations in a store.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::row::{COUNTS_KEY, Counts, PREFIX, Revocation, key, number_of};
use super::snapshot::{Listed, Revocations};
use super::{MAX_REVOCATIONS, REVOCATION_LIFE_MS, STALE_AFTER_MS};
use crate::{Change, Condition, Kv, KvBatch, KvError, Millis, StoreError};

/// How often a number is drawn again that others draw, too. People revoke; they do not compete.
const MAX_TRIES: usize = 64;

/// Revocations that are read at once.
const PAGE: usize = 1_000;

/// Where revocations are kept.
#[derive(Debug)]
pub struct RevocationStore<S> {
    kv: S,
}

/// Why nothing was revoked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RevocationError {
    /// There are [`MAX_REVOCATIONS`].
    #[error("there are {MAX_REVOCATIONS} revocations; use a cut-off")]
    TooMany,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<S: Kv> RevocationStore<S> {
    /// Revocations in this store.
    pub const fn new(kv: S) -> Self {
        Self { kv }
    }

    /// Revokes. Gives the number of the revocation, by which it can be lifted.
    ///
    /// # Errors
    ///
    /// [`RevocationError`].
    pub fn revoke(&self, revocation: Revocation, now: Millis) -> Result<u64, RevocationError> {
        let until = now.saturating_add(REVOCATION_LIFE_MS);
        for _ in 0..MAX_TRIES {
            let (stored, counts) = self.counts(now)?;
            if self.is_full(&counts, now)? {
                return Err(RevocationError::TooMany);
            }
            let number = counts.added.saturating_add(1);
            let added = Counts { added: number, ..counts };
            let change = Change::Put { value: revocation.encode(until), until: Some(until) };
            if self.write(stored, added, (key(number), change), now)? {
                return Ok(number);
            }
        }
        Err(contended().into())
    }

    /// Takes a revocation back. Gives whether there was one with this number.
    ///
    /// # Errors
    ///
    /// [`RevocationError`].
    pub fn lift(&self, number: u64, now: Millis) -> Result<bool, RevocationError> {
        for _ in 0..MAX_TRIES {
            let (stored, counts) = self.counts(now)?;
            if self.kv.get(&key(number), now)?.is_none() {
                return Ok(false);
            }
            let lifted = Counts { lifted: counts.lifted.saturating_add(1), ..counts };
            if self.write(stored, lifted, (key(number), Change::Remove), now)? {
                return Ok(true);
            }
        }
        Err(contended().into())
    }

    /// All revocations.
    ///
    /// # Errors
    ///
    /// [`RevocationError`].
    pub fn load(&self, now: Millis) -> Result<Revocations, RevocationError> {
        let (_, counts) = self.counts(now)?;
        self.load_since(counts, 0, HashMap::new(), now)
    }

    /// What was loaded before, brought up to date. Costs one read while nothing was added.
    ///
    /// # Errors
    ///
    /// [`RevocationError`]; then what was loaded before is as good as it was.
    pub fn refresh(&self, old: &Revocations, now: Millis) -> Result<Revocations, RevocationError> {
        let (_, counts) = self.counts(now)?;
        let listed = &old.listed;
        // What had ended by a clock that went back since may not have ended.
        let is_back = now.saturating_add(STALE_AFTER_MS) < old.loaded_at;
        if is_back || counts.lifted != listed.counts.lifted || counts.added < listed.counts.added {
            return self.load_since(counts, 0, HashMap::new(), now);
        }
        let has_ended = listed.first_end.is_some_and(|end| end <= now);
        if counts.added == listed.counts.added && !has_ended {
            return Ok(Revocations { loaded_at: now, listed: Arc::clone(listed) });
        }
        let alive = listed.all.iter().filter(|(_, (_, until))| now < *until);
        let alive = alive.map(|(number, listed)| (*number, *listed)).collect();
        self.load_since(counts, listed.counts.added, alive, now)
    }

    /// Adds those after a number. What is added meanwhile may be seen: it is read again next time,
    /// as `counts` were read before.
    fn load_since(
        &self,
        counts: Counts,
        number: u64,
        mut listed: HashMap<u64, (Revocation, Millis)>,
        now: Millis,
    ) -> Result<Revocations, RevocationError> {
        let mut after = key(number);
        loop {
            let page = self.kv.scan(PREFIX, Some(&after), PAGE, now)?;
            let Some((last, _)) = page.last() else { break };
            after = last.clone();
            let is_last = page.len() < PAGE;
            for (key, row) in page {
                let number = number_of(&key).ok_or_else(unreadable)?;
                listed.insert(number, Revocation::decode(row)?);
            }
            if is_last {
                break;
            }
        }
        Ok(Revocations { loaded_at: now, listed: Arc::new(Listed::new(counts, listed)) })
    }

    fn counts(&self, now: Millis) -> Result<(Option<Bytes>, Counts), StoreError> {
        let stored = self.kv.get(COUNTS_KEY, now)?;
        let counts = stored.clone().map(Counts::decode).transpose()?.unwrap_or_default();
        Ok((stored, counts))
    }

    /// Whether there is no room. As long as few were ever made, nobody needs to count.
    fn is_full(&self, counts: &Counts, now: Millis) -> Result<bool, StoreError> {
        if counts.added < MAX_REVOCATIONS as u64 {
            return Ok(false);
        }
        Ok(self.kv.scan(PREFIX, None, MAX_REVOCATIONS, now)?.len() >= MAX_REVOCATIONS)
    }

    /// Changes one row, and the numbers with it. Gives whether nobody was faster.
    fn write(
        &self,
        stored: Option<Bytes>,
        counts: Counts,
        change: (Bytes, Change),
        now: Millis,
    ) -> Result<bool, StoreError> {
        let counts_key = Bytes::from_static(COUNTS_KEY);
        let condition = stored.map_or(Condition::Absent, Condition::Is);
        let counted = Change::Put { value: counts.encode(), until: None };
        let batch = KvBatch {
            conditions: vec![(counts_key.clone(), condition)],
            changes: vec![(counts_key, counted), change],
        };
        match self.kv.write(&batch, now) {
            Ok(()) => Ok(true),
            Err(KvError::Unmet(_)) => Ok(false),
            Err(KvError::Store(error)) => Err(error),
        }
    }
}

fn unreadable() -> StoreError {
    StoreError::Damaged("a revocation has no such name".to_owned())
}

fn contended() -> StoreError {
    StoreError::Unavailable("too many others revoke at the same time".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    #[test]
    fn what_ended_too_early_comes_back_with_the_clock() {
        let store = RevocationStore::new(MemoryStore::new());
        store.revoke(Revocation::session("a"), 0).unwrap();
        let known = store.load(0).unwrap();
        let ahead = store.refresh(&known, REVOCATION_LIFE_MS).unwrap();
        assert!(ahead.is_empty());
        let back = store.refresh(&ahead, 1).unwrap();
        assert_eq!((back.len(), back.loaded_at()), (1, 1));
    }
}
