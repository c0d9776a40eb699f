//! There is no default key.
use handback_token::{KeyRing, MasterKey};

fn main() {
    let _key = MasterKey::default();
    let _ring = KeyRing::default();
}
