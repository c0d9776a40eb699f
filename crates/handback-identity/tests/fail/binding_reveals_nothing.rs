//! A stored binding can be compared, and nothing else.

use handback_identity::binding;

fn main() {
    let stored = binding::parse("https://id.example\0alice").unwrap();
    let _ = stored.issuer();
    let _ = stored.subject();
    let _ = stored.bound;
    let _ = stored.to_string();
    let _ = stored.matches("https://id.example\0alice");
}
