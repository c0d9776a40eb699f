//! Misuse that the types rule out.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/fail/*.rs");
}
