//! What goes wrong with held values.

use std::io;

use crate::{KvError, StoreError};

/// Why a value was not held, or cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeldError {
    /// The principal holds as much as it may.
    #[error("no more than {limit} bytes are held for one caller")]
    Quota {
        /// How much it may hold.
        limit: u64,
    },
    /// The kind or the note is too long.
    #[error("the description of a value is too long")]
    Description,
    /// The value ended, or was removed, while it was written or read.
    #[error("the value is gone")]
    Gone,
    /// What is on the disk is not what was written.
    #[error("a held value is damaged")]
    Damaged,
    /// A file.
    #[error("a file of a held value failed")]
    File(#[source] io::Error),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl HeldError {
    /// From a write that depends on a row that should be there.
    pub(super) fn of_write(error: KvError) -> Self {
        match error {
            KvError::Unmet(_) => Self::Gone,
            KvError::Store(error) => Self::Store(error),
        }
    }
}

impl From<io::Error> for HeldError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Store(StoreError::Full)
            }
            _ => Self::File(error),
        }
    }
}
