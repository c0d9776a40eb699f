//! What parses as a ring can be written, read again and used.
#![no_main]

use handback_token::{KeyRing, Sealer, SealerConfig};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(ring) = KeyRing::parse(text) {
        let again = KeyRing::parse(&ring.dangerous_to_text()).unwrap();
        assert_eq!(again.fingerprint(), ring.fingerprint());
        Sealer::new(&ring, SealerConfig::default()).unwrap();
    }
});
