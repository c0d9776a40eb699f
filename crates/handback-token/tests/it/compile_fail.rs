//! Misuse that does not build.

#[test]
fn misuse_does_not_build() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/fail/*.rs");
    #[cfg(feature = "compat")]
    cases.compile_fail("tests/fail_compat/*.rs");
}
