//! Looking at a token from outside never panics.
#![no_main]

use handback_fuzz::encode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = handback_token::inspect(&String::from_utf8_lossy(data));
    if let Ok(visible) = handback_token::inspect(&encode(data)) {
        assert!(visible.body_bytes < data.len());
    }
});
