//! The only place of these tests that reads the environment.

/// Where there is a Postgres to test with. Without one the test is skipped, loudly, or fails where
/// one is required.
#[expect(clippy::disallowed_methods, reason = "this is config.rs")]
#[expect(clippy::print_stderr, reason = "a test that is left out must be seen")]
pub(crate) fn postgres() -> Option<String> {
    match std::env::var("HANDBACK_TEST_POSTGRES") {
        Ok(url) => Some(url),
        Err(_) => {
            let required = std::env::var("HANDBACK_TEST_REQUIRE").unwrap_or_default();
            assert!(!required.contains("postgres"), "HANDBACK_TEST_POSTGRES is not set");
            eprintln!("SKIPPED: HANDBACK_TEST_POSTGRES is not set; `cargo xtask test` sets it");
            None
        }
    }
}

/// How often a server is killed: more in a soak.
#[expect(clippy::disallowed_methods, reason = "this is config.rs")]
pub(crate) fn kills() -> u64 {
    std::env::var("HANDBACK_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(40)
}

/// How many megabytes large results have: more in a soak.
#[expect(clippy::disallowed_methods, reason = "this is config.rs")]
pub(crate) fn large_sizes() -> Vec<u64> {
    let sizes = std::env::var("HANDBACK_TEST_LARGE_MB").unwrap_or_else(|_| "24".to_owned());
    sizes.split(',').map(|size| size.parse().unwrap()).collect()
}
