//! The clock: published crates read it themselves, so tests beside them must too.

use std::time::{SystemTime, UNIX_EPOCH};

use handback_token::UnixTime;

/// Now.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixTime::from_secs(since.map_or(0, |since| since.as_secs()))
}
