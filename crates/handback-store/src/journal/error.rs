//! What goes wrong with a journal.

use crate::StoreError;
use crate::held::HeldError;

/// Why the journal did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The call belongs to somebody else by now: this process was taken for dead, or the call has
    /// ended already. Do not start it; what it did cannot be recorded.
    #[error("the call was taken over")]
    Superseded,
    /// The outcome is longer than [`MAX_INLINE_OUTCOME_BYTES`](super::MAX_INLINE_OUTCOME_BYTES), or than whoever reads it wants.
    #[error("the outcome is too long")]
    TooLong,
    /// An outcome that is held beside its row.
    #[error(transparent)]
    Held(#[from] HeldError),
    /// Others changed the row again and again.
    #[error("too many others write the same row")]
    Contended,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}
