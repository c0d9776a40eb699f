//! ATD cursors: any text, and any body behind a tag that verifies.
#![no_main]

use std::sync::LazyLock;

use handback_fuzz::{KEY, NOW, acceptance, context, encode, mac};
use handback_token::AtdSigningKey;
use handback_token::compat::atd::AtdCursors;
use libfuzzer_sys::fuzz_target;

static CURSORS: LazyLock<AtdCursors> = LazyLock::new(|| {
    let key = AtdSigningKey::from_text(&encode(&KEY)).unwrap();
    AtdCursors::new(key, [0; 8], acceptance())
});

fuzz_target!(|data: &[u8]| {
    assert!(CURSORS.open(&String::from_utf8_lossy(data), &context(), NOW).is_err());
    let signed = encode(&[data, &mac(&[data])].concat());
    let _ = CURSORS.open(&signed, &context(), NOW);
});
