//! An ATD key feeds a ring or the compatibility, never both.
use handback_token::compat::Acceptance;
use handback_token::compat::atd::AtdCursors;
use handback_token::{AtdSigningKey, Mode};

fn both(key: AtdSigningKey, acceptance: Acceptance) {
    let _ring = key.into_ring(Mode::Sealed);
    let _cursors = AtdCursors::new(key, [0; 8], acceptance);
}

fn main() {}
