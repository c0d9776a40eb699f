//! Misuse that does not build.

#[test]
fn misuse_does_not_build() {
    trybuild::TestCases::new().compile_fail("tests/fail/*.rs");
}
