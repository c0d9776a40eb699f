//! A stored binding splits in one way or not at all.
#![no_main]

use handback_identity::binding;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if binding::parse(text).is_some() {
        let (iss, sub) = text.split_once('\0').expect("a bound form has a NUL");
        assert_eq!(binding::format(iss, sub).as_deref(), Ok(text));
        assert!(!binding::is_unauthenticated(text));
    }
});
