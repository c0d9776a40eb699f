//! A file of identities is read or refused; what was read is written as it was meant.
#![no_main]

use handback_identity::Roster;
use handback_identity::roster::{FIRST_LINE, MAX_ENTRIES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(roster) = Roster::parse(data, "fuzz") {
        assert!(roster.entries().len() <= MAX_ENTRIES);
        let lines: String = roster.entries().iter().map(|entry| format!("{entry}\n")).collect();
        let again = Roster::parse(format!("{FIRST_LINE}\n{lines}").as_bytes(), "fuzz");
        assert_eq!(again.expect("it is read again").entries(), roster.entries());
    }
});
