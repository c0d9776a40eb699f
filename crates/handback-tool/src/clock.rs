//! Time, as the one who runs the server gives it.

use std::fmt;

use handback_token::UnixTime;

/// Tells the time.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Seconds since 1970.
    fn now(&self) -> UnixTime {
        UnixTime::from_secs(self.now_ms() / 1000)
    }
}
