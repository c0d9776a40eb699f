//! Results that are over a client's budget.

/// What a client may get in one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(u64);

impl Budget {
    /// In bytes.
    #[must_use]
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self(40 << 10)
    }
}
