//! An ATD key feeds a ring or the compatibility, never both.
use handback_token::{AtdSigningKey, Mode};

fn main() {
    let key: Option<AtdSigningKey> = None;
    let key = key.unwrap();
    let _ring = key.into_ring(Mode::Sealed);
    let _again = key.into_ring(Mode::Sealed);
}
