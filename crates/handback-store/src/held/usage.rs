//! How much each principal holds.

use bytes::Bytes;

use super::error::HeldError;
use super::options::Allowance;
use super::row::{Name, Row, State, all_rows};
use super::store::Shared;
use crate::coding::Reader;
use crate::{Change, Condition, Kv, KvBatch, KvError, Millis, StoreError};

const VERSION: u8 = 1;

/// What a value counts beyond its bytes: rows take room, too, and small values must not be free.
pub const VALUE_COST_BYTES: u64 = 4 << 10;

/// How often what a principal may hold is what it may hold and owe together. What is owed came of calls
/// that were made: room for one more is looked for before each.
const OWED_QUOTAS: u64 = 2;

/// How long it is known how much somebody holds: longer than anything is held.
const USAGE_LIFE_MS: Millis = super::store::MAX_LIFE_MS + 24 * 60 * 60 * 1_000;

/// How long after a count nobody counts again: who has reached the quota may ask often.
const RECOUNT_PAUSE_MS: Millis = 1_000;

/// How often a row is looked at again that others keep changing: all writers of one principal change
/// the same one.
const MAX_TRIES: usize = 1_000;

/// Rows that are read at once.
pub(super) const PAGE: usize = 256;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    /// At least what is held.
    used: u64,
    /// Changed at every write, so that a count does not miss what came while it counted.
    turn: u64,
    counted_at: Option<Millis>,
}

impl Usage {
    fn encode(self) -> Bytes {
        let mut row = vec![VERSION];
        row.extend_from_slice(&self.used.to_be_bytes());
        row.extend_from_slice(&self.turn.to_be_bytes());
        row.extend_from_slice(&self.counted_at.unwrap_or(NEVER).to_be_bytes());
        Bytes::from(row)
    }

    fn decode(row: Bytes) -> Result<Self, StoreError> {
        let mut reader = Reader::new(row, "what a principal holds");
        if reader.u8()? != VERSION {
            return Err(reader.damaged());
        }
        let (used, turn, counted_at) = (reader.u64()?, reader.u64()?, reader.u64()?);
        reader.end()?;
        Ok(Self { used, turn, counted_at: (counted_at != NEVER).then_some(counted_at) })
    }
}

const NEVER: Millis = Millis::MAX;

/// `h/q/{` owner `}`.
fn key(owner: &str) -> Bytes {
    Bytes::from(format!("h/q/{{{owner}}}"))
}

/// What a value of this size counts.
pub(super) const fn cost(size: u64) -> u64 {
    size.saturating_add(VALUE_COST_BYTES)
}

/// A change of a value's row, with what changes beside it.
pub(super) struct RowChange<'a> {
    pub(super) name: &'a Name,
    /// The row as it is stored, if it is.
    pub(super) old: Option<&'a Bytes>,
    pub(super) change: Change,
    /// What counted before, and what counts afterwards.
    pub(super) charged: (u64, u64),
    pub(super) allowance: Allowance,
    pub(super) beside: Vec<(Bytes, Change)>,
}

impl<S: Kv> Shared<S> {
    /// Changes a row, and what its owner holds, at once. [`HeldError::Gone`] if the row is not what
    /// it was.
    pub(super) fn change_row(
        &self,
        change: RowChange<'_>,
        is_metered: bool,
        now: Millis,
    ) -> Result<(), HeldError> {
        let RowChange { name, old, change, charged: (before, after), allowance, beside } = change;
        let row = name.row();
        let condition = old.map_or(Condition::Absent, |old| Condition::Is(old.clone()));
        let mut batch = KvBatch {
            conditions: vec![(row.clone(), condition)],
            changes: [vec![(row, change)], beside].concat(),
        };
        if !is_metered || before == after {
            return self.kv.write(&batch, now).map_err(HeldError::of_write);
        }
        let usage_key = key(name.owner());
        let (rows, changes) = (batch.conditions.len(), batch.changes.len());
        for _ in 0..MAX_TRIES {
            let (stored, usage) = self.usage(name.owner(), now)?;
            let used = usage.used.saturating_sub(before).saturating_add(after);
            if after > before && used > self.options.per_principal_bytes {
                let is_allowed = match allowance {
                    Allowance::Quota => false,
                    // Without this value: one that is too large by itself is kept, and is the last one.
                    Allowance::HeldAndOwed => {
                        usage.used.saturating_sub(before) <= self.held_and_owed_max()
                    }
                    Allowance::Unlimited => true,
                };
                match self.make_room(name.owner(), &usage, now) {
                    Err(HeldError::Quota { .. }) if is_allowed => {}
                    made => {
                        made?;
                        continue;
                    }
                }
            }
            let next = Usage { used, turn: usage.turn.wrapping_add(1), ..usage };
            batch.conditions.truncate(rows);
            batch.conditions.push((usage_key.clone(), is(stored)));
            batch.changes.truncate(changes);
            batch.changes.push((usage_key.clone(), put(next, now)));
            match self.kv.write(&batch, now) {
                Ok(()) => return Ok(()),
                Err(KvError::Unmet(0)) => return Err(HeldError::Gone),
                Err(KvError::Unmet(_)) => {}
                Err(KvError::Store(error)) => return Err(error.into()),
            }
        }
        Err(contended().into())
    }

    /// How many bytes count for an owner.
    pub(super) fn used(&self, owner: &str, now: Millis) -> Result<u64, StoreError> {
        Ok(self.usage(owner, now)?.1.used)
    }

    /// Whether an owner may owe more.
    pub(super) fn may_owe(&self, owner: &str, now: Millis) -> Result<bool, HeldError> {
        let most = self.held_and_owed_max();
        let (_, usage) = self.usage(owner, now)?;
        if usage.used <= most {
            return Ok(true);
        }
        match self.make_room(owner, &usage, now) {
            // It was counted a moment ago.
            Err(HeldError::Quota { .. }) => Ok(false),
            made => {
                made?;
                Ok(self.used(owner, now)? <= most)
            }
        }
    }

    /// Bytes that an owner may hold and owe together.
    const fn held_and_owed_max(&self) -> u64 {
        self.options.per_principal_bytes.saturating_mul(OWED_QUOTAS)
    }

    /// Ends what has outlived its time, and counts what is left.
    fn make_room(&self, owner: &str, usage: &Usage, now: Millis) -> Result<(), HeldError> {
        let is_recent = usage
            .counted_at
            .is_some_and(|counted_at| now < counted_at.saturating_add(RECOUNT_PAUSE_MS));
        if is_recent {
            return Err(HeldError::Quota { limit: self.options.per_principal_bytes });
        }
        self.each_row(owner, now, |name, stored, row| {
            if row.state != State::Ended && row.end <= now {
                self.end(&name, &stored, &row, now)?;
            }
            Ok(())
        })?;
        for _ in 0..MAX_TRIES {
            let (stored, usage) = self.usage(owner, now)?;
            let mut used = 0_u64;
            self.each_row(owner, now, |_, _, row| {
                used = used.saturating_add(if row.is_counted() { row.charged } else { 0 });
                Ok(())
            })?;
            let next = Usage { used, turn: usage.turn.wrapping_add(1), counted_at: Some(now) };
            let batch = KvBatch {
                conditions: vec![(key(owner), is(stored))],
                changes: vec![(key(owner), put(next, now))],
            };
            match self.kv.write(&batch, now) {
                Ok(()) => return Ok(()),
                Err(KvError::Unmet(_)) => {}
                Err(KvError::Store(error)) => return Err(error.into()),
            }
        }
        Err(contended().into())
    }

    fn each_row(
        &self,
        owner: &str,
        now: Millis,
        mut visit: impl FnMut(Name, Bytes, Row) -> Result<(), HeldError>,
    ) -> Result<(), HeldError> {
        let prefix = all_rows(owner);
        let mut after: Option<Bytes> = None;
        loop {
            let page = self.kv.scan(prefix.as_bytes(), after.as_deref(), PAGE, now)?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|(key, _)| key.clone());
            for (key, stored) in page {
                let name = Name::parse_row(&key).ok_or(HeldError::Damaged)?;
                let row = Row::decode(stored.clone())?;
                visit(name, stored, row)?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    fn usage(&self, owner: &str, now: Millis) -> Result<(Option<Bytes>, Usage), StoreError> {
        let stored = self.kv.get(&key(owner), now)?;
        let usage = stored.clone().map(Usage::decode).transpose()?.unwrap_or_default();
        Ok((stored, usage))
    }
}

fn is(stored: Option<Bytes>) -> Condition {
    stored.map_or(Condition::Absent, Condition::Is)
}

fn put(usage: Usage, now: Millis) -> Change {
    Change::Put { value: usage.encode(), until: Some(now.saturating_add(USAGE_LIFE_MS)) }
}

fn contended() -> StoreError {
    StoreError::Unavailable("too many others hold values for the same caller".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::coding::damage::damaged;

    fn rows() -> Vec<Bytes> {
        let row = |counted_at| Usage { used: 1, turn: 2, counted_at }.encode();
        [None, Some(3)].map(row).to_vec()
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_the_same(row in damaged(rows())) {
            if let Ok(read) = Usage::decode(row.clone()) {
                prop_assert_eq!(read.encode(), row);
            }
        }
    }
}
