//! The only place of these tests that reads the clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// The current second, as an issuer writes it.
#[expect(clippy::disallowed_methods, reason = "this is clock.rs")]
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}
