//! The only place that reads the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use handback_token::UnixTime;

/// The current second. A clock that is set before 1970 reads as 1970.
#[expect(clippy::disallowed_methods, reason = "this is clock.rs")]
pub(crate) fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixTime::from_secs(since.as_secs())
}
