//! The only place of these tests that reads the clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// The current second, as an issuer writes it.
pub(crate) fn now() -> u64 {
    now_ms() / 1000
}

/// The current millisecond.
#[expect(clippy::disallowed_methods, reason = "this is clock.rs")]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}
