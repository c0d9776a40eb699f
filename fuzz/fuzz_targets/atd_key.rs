//! A value of `ATD_CURSOR_SIGNING_KEY` is a key or is refused.
#![no_main]

use handback_token::{AtdSigningKey, Mode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(key) = AtdSigningKey::from_text(text) {
        assert_eq!(key.into_ring(Mode::Sealed).slots().count(), 1);
    }
});
