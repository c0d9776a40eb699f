//! A key set is read or refused.
#![no_main]

use handback_identity::jwt::{KeySet, MAX_KEYS};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(keys) = KeySet::parse(data) {
        assert!(keys.len() <= MAX_KEYS);
    }
});
