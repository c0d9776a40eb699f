//! What goes wrong with a journal.

use super::MAX_INLINE_OUTCOME_BYTES;
use crate::StoreError;

/// Why the journal did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The call belongs to somebody else by now: this process was taken for dead, or the call has
    /// ended already. Do not start it; what it did cannot be recorded.
    #[error("the call was taken over")]
    Superseded,
    /// The outcome belongs into a blob.
    #[error("the outcome is longer than {MAX_INLINE_OUTCOME_BYTES} bytes")]
    TooLong,
    /// Others changed the row again and again.
    #[error("too many others write the same row")]
    Contended,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}
