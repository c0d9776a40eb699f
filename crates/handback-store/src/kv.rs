//! Keys and values, with conditions and an end of life.

use std::fmt;

use bytes::Bytes;

use crate::StoreError;

/// Bytes of a key at most.
pub const MAX_KEY_BYTES: usize = 1024;

/// A time in milliseconds since 1970.
pub type Millis = u64;

/// What is written together, if all conditions hold: all of it or nothing. Engines on several
/// machines place a key by the part in braces, as in `{a}b`; all keys of one batch share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "engines take it apart")]
pub struct KvBatch {
    /// What must be so before.
    pub conditions: Vec<(Bytes, Condition)>,
    /// What is so afterwards.
    pub changes: Vec<(Bytes, Change)>,
}

impl KvBatch {
    /// Refuses keys that no engine takes.
    pub(crate) fn check_keys(&self) -> Result<(), StoreError> {
        let keys = self.conditions.iter().map(|(key, _)| key);
        let mut keys = keys.chain(self.changes.iter().map(|(key, _)| key));
        if keys.any(|key| key.len() > MAX_KEY_BYTES) {
            return Err(StoreError::Unavailable("a key is too long".to_owned()));
        }
        Ok(())
    }
}

/// What must be so of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "engines check each of them")]
pub enum Condition {
    /// It is not there, or its life has ended.
    Absent,
    /// It is there.
    Present,
    /// It has this value.
    Is(Bytes),
}

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "engines do each of them")]
pub enum Change {
    /// It has this value, until then, or for ever.
    Put {
        /// The value.
        value: Bytes,
        /// The first moment at which it is not there any more.
        until: Option<Millis>,
    },
    /// It is not there.
    Remove,
}

/// Why a batch was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvError {
    /// A condition does not hold: that of the key with this number in the batch.
    #[error("condition {0} does not hold")]
    Unmet(usize),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Values by key.
///
/// The functions block. What a write changed is durable when it returns, and read by everyone.
pub trait Kv: fmt::Debug + Send + Sync {
    /// The value of a key.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it cannot be read, or is damaged.
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError>;

    /// Keys that start with `prefix`, in order, after one of them or from the first on, with their
    /// values; at most `limit`.
    ///
    /// # Errors
    ///
    /// As [`Kv::get`].
    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError>;

    /// Writes a batch, if all its conditions hold at one moment.
    ///
    /// # Errors
    ///
    /// [`KvError`]. After [`StoreError::Broken`] as with [`Log::recover`](crate::Log::recover).
    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError>;

    /// Removes what has outlived its time, at most `limit` keys; gives how many were removed.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if that cannot be written.
    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError>;

    /// Waits until what was written so far outlives a crash. Most stores write nothing later than
    /// [`Kv::write`] returns.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it cannot be written.
    fn settle(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
