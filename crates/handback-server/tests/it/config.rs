//! The only place of these tests that reads the environment.

use std::path::PathBuf;

/// How a process that a test starts learns what to work on.
pub(crate) const DIRECTORY: &str = "HANDBACK_SERVER_TEST_DIRECTORY";

/// What to work on, in a process that a test started. In another one there is nothing.
#[expect(clippy::disallowed_methods, reason = "this is config.rs")]
pub(crate) fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// How a process that a test starts learns what to do with how large a value.
pub(crate) const LARGE: &str = "HANDBACK_SERVER_TEST_LARGE";

/// What to do with how large a value, in a process that a test started.
#[expect(clippy::disallowed_methods, reason = "this is config.rs")]
pub(crate) fn large() -> Option<String> {
    std::env::var(LARGE).ok()
}

/// How many megabytes large values have: more in a soak.
#[expect(clippy::disallowed_methods, reason = "this is config.rs")]
pub(crate) fn large_sizes() -> Vec<u64> {
    let sizes = std::env::var("HANDBACK_TEST_LARGE_MB").unwrap_or_else(|_| "32".to_owned());
    sizes.split(',').map(|size| size.parse().unwrap()).collect()
}

/// How often a server is killed: more in a soak.
#[expect(clippy::disallowed_methods, reason = "this is config.rs")]
pub(crate) fn kills() -> usize {
    std::env::var("HANDBACK_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(40)
}
