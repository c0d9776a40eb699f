//! A message that passes by in pieces is what it is in memory, and its parts are where they are. The
//! first byte says how it is cut.
#![no_main]

use std::ops::Range;

use handback_fuzz::pieces::pieces;
use handback_wire::Message;
use handback_wire::scan::{Envelope, MAX_DEPTH, Malformed, Scan};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

fuzz_target!(|data: &[u8]| {
    let Some((seed, bytes)) = data.split_first() else { return };
    let whole = scan(&[bytes]);
    let told = told(bytes, &whole);
    for seed in [1, *seed] {
        assert_eq!(self::told(bytes, &scan(&pieces(bytes, seed))), told);
    }
    let expected = Message::read(bytes).ok().map(|message| match message {
        Message::Result { id, result } => {
            told_of("result", Some(id.as_json()), place(bytes, result))
        }
        Message::Error { id, error } => {
            told_of("error", id.as_ref().map(|id| id.as_json()), place(bytes, error))
        }
        Message::Request { id, method, .. } => told_of(&method, Some(id.as_json()), None),
        Message::Notification { method, .. } => told_of(&method, None, None),
        _ => unreachable!("another kind of message"),
    });
    if told != expected {
        let is_deep = bytes.iter().filter(|byte| matches!(byte, b'[' | b'{')).count() > MAX_DEPTH;
        // Half a character in a long name.
        let is_half = bytes.windows(3).any(|three| three.eq_ignore_ascii_case(b"\\ud"));
        assert!(
            (is_deep && told.is_none()) || (is_half && expected.is_none()),
            "{told:?} {expected:?}"
        );
    }
    if whole.is_ok() {
        assert!(serde_json::from_slice::<&RawValue>(bytes).is_ok());
    }
});

fn scan(pieces: &[&[u8]]) -> Result<Envelope, Malformed> {
    let mut scan = Scan::new();
    for piece in pieces {
        scan.push(piece)?;
    }
    scan.finish()
}

type Told = (String, Option<String>, Option<Range<u64>>);

fn told(bytes: &[u8], scanned: &Result<Envelope, Malformed>) -> Option<Told> {
    let envelope = scanned.as_ref().ok()?;
    Some(match envelope.message().ok()? {
        Message::Result { id, .. } => told_of("result", Some(id.as_json()), envelope.result()),
        Message::Error { id, .. } => {
            told_of("error", id.as_ref().map(|id| id.as_json()), envelope.error())
        }
        Message::Request { id, method, .. } => told_of(&method, Some(id.as_json()), None),
        Message::Notification { method, .. } => told_of(&method, None, None),
        other => unreachable!("{other:?} in {} bytes", bytes.len()),
    })
}

fn told_of(what: &str, id: Option<&str>, place: Option<Range<u64>>) -> Told {
    (what.to_owned(), id.map(str::to_owned), place)
}

fn place(bytes: &[u8], raw: &RawValue) -> Option<Range<u64>> {
    let start = raw.get().as_ptr() as usize - bytes.as_ptr() as usize;
    Some(start as u64..(start + raw.get().len()) as u64)
}
