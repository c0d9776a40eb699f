//! A key set is read or refused.
#![no_main]

use handback_identity::jwt::KeySet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(keys) = KeySet::parse(data) {
        assert_eq!(keys.is_empty(), keys.len() == 0);
    }
});
