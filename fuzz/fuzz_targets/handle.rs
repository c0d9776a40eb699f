//! What parses as a handle is its own text.
#![no_main]

use handback_token::Handle;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(handle) = Handle::parse(text) {
        assert_eq!(handle.to_string(), text);
    }
});
