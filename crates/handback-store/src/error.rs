//! What goes wrong with a store.

/// Why a store did not do what it was asked for. The texts are for operators; none has a key or a
/// value in it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no room. Nothing was written.
    #[error("the disk is full")]
    Full,
    /// It cannot be reached, or does not take writes. Nothing was written.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// A write or a sync failed, and nobody knows what of it is on the disk. Nothing works until
    /// the store was reopened and checked.
    #[error("a write failed: {0}")]
    Broken(String),
    /// What is stored is not what was written.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}

impl StoreError {
    /// Whether nothing of what was asked to be written was written.
    #[must_use]
    pub const fn is_unwritten(&self) -> bool {
        matches!(self, Self::Full | Self::Unavailable(_))
    }
}
