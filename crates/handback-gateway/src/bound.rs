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

impl std::str::FromStr for Budget {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}
