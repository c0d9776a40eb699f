//! The only place that reads the clock.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

/// What time it is: for what is kept, since a restart has no other clock.
pub trait Clock: Debug + Send + Sync {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;
}

/// The clock of the machine. One that is set before 1970 reads as 1970.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is clock.rs")]
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
