//! An Authorization header is read or refused.
#![no_main]

use handback_identity::Bearer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(bearer) = Bearer::find([data]) {
        let text = bearer.dangerous_text();
        assert!(!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(data.ends_with(text.as_bytes()));
    }
});
