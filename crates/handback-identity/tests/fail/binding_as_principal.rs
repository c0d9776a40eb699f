//! What was stored does not say who is calling now.

use handback_identity::{VerifiedPrincipal, binding};

fn serve(_: &VerifiedPrincipal) {}

fn main() {
    let stored = binding::parse("https://id.example\0alice").unwrap();
    serve(&stored);
    let _: VerifiedPrincipal = stored.into();
}
