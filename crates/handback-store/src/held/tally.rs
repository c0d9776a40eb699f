//! How much is held of everybody, for operators.

use std::sync::atomic::{AtomicU64, Ordering};

use super::error::HeldError;
use super::row::{Name, ROWS, Row, State};
use super::store::HeldStore;
use super::usage::PAGE;
use crate::{Kv, Millis};

/// What was taken in by this process, under handles.
#[derive(Debug, Default)]
pub(super) struct Taken {
    values: AtomicU64,
    bytes: AtomicU64,
}

impl Taken {
    pub(super) fn add(&self, bytes: u64) {
        self.values.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// How much is held under handles, and how much was taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldTally {
    /// Values that this process took in.
    pub taken_values: u64,
    /// Their bytes.
    pub taken_bytes: u64,
    /// Values that are held now, whoever took them in.
    pub values: u64,
    /// Their bytes.
    pub bytes: u64,
    /// There are more rows than were looked at: more may be held than is counted.
    pub has_more: bool,
}

impl<S: Kv> HeldStore<S> {
    /// Counts what is held, looking at no more than `limit` rows. Whose it is is not looked at.
    ///
    /// # Errors
    ///
    /// [`HeldError`].
    pub fn tally(&self, limit: usize, now: Millis) -> Result<HeldTally, HeldError> {
        let taken = &self.shared.taken;
        let mut tally = HeldTally {
            taken_values: taken.values.load(Ordering::Relaxed),
            taken_bytes: taken.bytes.load(Ordering::Relaxed),
            ..HeldTally::default()
        };
        let mut after = None;
        let mut left = limit;
        loop {
            let wanted = PAGE.min(left);
            let page = self.shared.kv.scan(ROWS, after.as_deref(), wanted, now)?;
            for (key, stored) in &page {
                let name = Name::parse_row(key).ok_or(HeldError::Damaged)?;
                let row = Row::decode(stored.clone())?;
                if name.handle().is_some() && row.state == State::Held && now < row.end {
                    tally.values += 1;
                    tally.bytes = tally.bytes.saturating_add(row.size);
                }
            }
            left -= page.len();
            if page.len() < wanted {
                return Ok(tally);
            }
            if left == 0 {
                return Ok(HeldTally { has_more: true, ..tally });
            }
            after = page.last().map(|(key, _)| key.clone());
        }
    }
}
