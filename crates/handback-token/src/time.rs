//! Points in time, as this crate takes them.

/// Seconds since 1970-01-01 UTC.
///
/// Nothing in this crate reads a clock: every function that depends on the time takes it as an
/// argument, so that tests choose it and a caller reads the clock once per call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(u64);

impl UnixTime {
    /// The point `seconds` after 1970-01-01 UTC.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Seconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0
    }

    /// This point and `seconds` more; the end of time if there is no such point.
    #[must_use]
    pub const fn plus(self, seconds: u64) -> Self {
        Self(self.0.saturating_add(seconds))
    }
}

impl From<u32> for UnixTime {
    fn from(seconds: u32) -> Self {
        Self(u64::from(seconds))
    }
}

/// Clocks of two replicas may differ by this much without a token being refused.
pub const CLOCK_SKEW_S: u64 = 60;
