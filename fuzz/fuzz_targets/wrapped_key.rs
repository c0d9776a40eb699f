//! No text unwraps without the key.
#![no_main]

use handback_fuzz::{KEY, encode};
use handback_token::{DataKey, KeyRing, MasterKey, Mode, WrappedKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let ring = KeyRing::from_secret(&MasterKey::from_bytes(&KEY).unwrap(), Mode::Sealed);
    for text in [String::from_utf8_lossy(data).into_owned(), encode(data)] {
        if let Ok(wrapped) = WrappedKey::parse(&text) {
            assert_eq!(wrapped.to_text(), text);
            assert!(ring.unwrap_key::<DataKey>("store", &wrapped).is_err());
        }
    }
});
