//! The only place of these tests that reads the environment.

use std::path::PathBuf;

/// How a process that a test starts learns what to work on.
pub(crate) const DIRECTORY: &str = "HANDBACK_SERVER_TEST_DIRECTORY";

/// What to work on, in a process that a test started. In another one there is nothing.
#[expect(clippy::disallowed_methods, reason = "this is config.rs")]
pub(crate) fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// How often a server is killed: more in a soak.
#[expect(clippy::disallowed_methods, reason = "this is config.rs")]
pub(crate) fn kills() -> usize {
    std::env::var("HANDBACK_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(40)
}
