//! The clock: published crates read it themselves, so tests beside them must too.

use std::time::{SystemTime, UNIX_EPOCH};

use handback_token::UnixTime;

/// Now.
pub fn now() -> UnixTime {
    UnixTime::from_secs(now_ms() / 1000)
}

/// Now, in milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
