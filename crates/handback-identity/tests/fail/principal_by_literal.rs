//! A principal comes from a validator or a listener, not from its fields.

use handback_identity::VerifiedPrincipal;

fn main() {
    let _ = VerifiedPrincipal { bound: None };
}
