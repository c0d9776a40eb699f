//! Every text goes through a header and comes back, and the value of a header stands for one text, which
//! no other encoded value stands for.
#![no_main]

use handback_wire::header::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    let value = encode(text);
    assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~')));
    assert_eq!(value.trim(), value);
    assert_eq!(decode(&value).as_deref(), Some(text));
    if let Some(decoded) = decode(text) {
        let is_encoded = decoded != text;
        let again = encode(&decoded);
        // What needs no encoding may come encoded nevertheless.
        assert!(!is_encoded || again == text || again == decoded);
    }
});
