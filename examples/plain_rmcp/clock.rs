//! The time, for tokens.

use std::time::SystemTime;

use handback_token::UnixTime;

#[expect(clippy::disallowed_methods, reason = "this is clock.rs")]
pub(crate) fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    UnixTime::from_secs(since.unwrap_or_default().as_secs())
}
