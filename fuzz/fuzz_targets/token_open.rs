//! No text and no bytes open without the key, and none of them panics.
#![no_main]

use handback_fuzz::{NOW, SEALERS, context, encode};
use handback_token::{Cursor, Resume, State};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let raw = String::from_utf8_lossy(data);
    for text in [raw.as_ref(), &encode(data)] {
        for sealer in SEALERS.iter() {
            assert!(sealer.bind::<Cursor>(&context()).unwrap().open(text, NOW).is_err());
            assert!(sealer.bind::<State>(&context()).unwrap().open(text, NOW).is_err());
            assert!(sealer.bind::<Resume>(&context()).unwrap().open(text, NOW).is_err());
        }
    }
});
