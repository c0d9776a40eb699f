//! Whatever has a fingerprint is JSON, and its canonical form is its own canonical form. Nothing in it is
//! there twice, and what has no fingerprint for that is known to be ambiguous.
#![no_main]

use handback_token::{FingerprintError, canonical_json, canonical_json_of_text, is_unambiguous};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let made = canonical_json_of_text(data, &[]);
    let parsed = serde_json::from_slice::<Value>(data);
    match &made {
        Ok(_) => assert!(is_unambiguous(data)),
        Err(FingerprintError::DuplicateMember) => assert!(!is_unambiguous(data)),
        Err(_) => _ = is_unambiguous(data),
    }
    if let Ok(made) = made {
        assert!(parsed.is_ok(), "accepted what is not JSON");
        assert_eq!(canonical_json_of_text(&made, &[]).as_ref(), Ok(&made));
        assert!(made.len() <= 10 * data.len() + 40, "bounded growth");
    }
    if let Ok(value) = parsed {
        let made = canonical_json(&value, &[]);
        let again: Value = serde_json::from_slice(&made).unwrap();
        assert_eq!(canonical_json(&again, &[]), made);
    }
});
