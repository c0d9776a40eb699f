//! Where the server for these tests is.

use std::env::VarError;

/// The URL of a server on which schemas can be made, if there is one.
///
/// # Panics
///
/// If there must be one, and there is none.
pub(super) fn server() -> Option<String> {
    if let Some(url) = variable("HANDBACK_TEST_POSTGRES") {
        return Some(url);
    }
    let required = variable("HANDBACK_TEST_REQUIRE").unwrap_or_default();
    assert!(!required.contains("postgres"), "HANDBACK_TEST_POSTGRES is not set");
    #[expect(clippy::print_stderr, reason = "a test that does nothing must not look like one")]
    {
        eprintln!("SKIPPED: needs a PostgreSQL server, and HANDBACK_TEST_POSTGRES is not set");
    }
    None
}

fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "this is the config.rs of the tests")]
    match std::env::var(name) {
        Ok(value) => Some(value),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(_)) => panic!("{name} is not UTF-8"),
    }
}
