//! A stream of events is the same however it is cut, what the book says of it, and remembered in
//! bounded memory. The first byte says how it is cut.
#![no_main]

use std::time::Duration;

use bytes::Bytes;
use handback_fuzz::pieces::pieces;
use handback_wire::sse::{Event, Parser, Piece, VALUE_BYTES_MAX};
use libfuzzer_sys::fuzz_target;

const BYTEWISE_MAX: usize = 512;

/// What an event says: kind, id, time, data.
type Told = (Vec<u8>, Option<Vec<u8>>, Option<Duration>, Vec<u8>);

fuzz_target!(|data: &[u8]| {
    let Some((seed, stream)) = data.split_first() else { return };
    let whole = events(&[stream]);
    assert_eq!(whole, by_the_book(stream));
    // A piece for every byte of a long stream takes most of the time there is.
    if stream.len() <= BYTEWISE_MAX {
        assert_eq!(events(&pieces(stream, 1)), whole);
    }
    assert_eq!(events(&pieces(stream, *seed)), whole);
});

fn events(pieces: &[&[u8]]) -> Vec<Told> {
    let mut parser = Parser::default();
    let (mut events, mut data) = (Vec::new(), Vec::new());
    for piece in pieces.iter().map(Some).chain([None]) {
        match piece {
            Some(piece) => parser.push(Bytes::copy_from_slice(piece)),
            None => parser.end(),
        }
        while let Some(piece) = parser.next_piece() {
            match piece {
                Piece::Data(piece) => data.extend_from_slice(&piece),
                Piece::End(Event { kind, id, retry, .. }) => {
                    assert!(kind.len() <= VALUE_BYTES_MAX + 1);
                    assert!(id.as_ref().is_none_or(|id| id.len() <= VALUE_BYTES_MAX));
                    events.push((kind, id, retry, std::mem::take(&mut data)));
                }
            }
        }
    }
    events
}

/// Lines first, then fields.
fn by_the_book(stream: &[u8]) -> Vec<Told> {
    let stream = stream.strip_prefix("\u{feff}".as_bytes()).unwrap_or(stream);
    let mut lines = vec![Vec::new()];
    let mut bytes = stream.iter().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\r' => {
                bytes.next_if_eq(&&b'\n');
                lines.push(Vec::new());
            }
            b'\n' => lines.push(Vec::new()),
            other => lines.last_mut().expect("a line").push(*other),
        }
    }
    // The end of the stream ends the last event.
    lines.push(Vec::new());
    let mut events = Vec::new();
    let (mut kind, mut id, mut retry, mut data) = (None, None, None, None::<Vec<u8>>);
    for line in lines {
        if line.is_empty() {
            let event = (kind.take(), id.take(), retry.take(), data.take());
            if event != (None, None, None, None) {
                let (kind, id, retry, data) = event;
                events.push((kind.unwrap_or_default(), id, retry, data.unwrap_or_default()));
            }
            continue;
        }
        let at = line.iter().position(|byte| *byte == b':');
        let (name, value) = at.map_or((&line[..], &[][..]), |at| (&line[..at], &line[at + 1..]));
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let is_short = value.len() <= VALUE_BYTES_MAX;
        match name {
            b"data" => match &mut data {
                Some(data) => data.extend([b"\n", value].concat()),
                None => data = Some(value.to_vec()),
            },
            b"event" => kind = Some(value[..value.len().min(VALUE_BYTES_MAX + 1)].to_vec()),
            b"id" if is_short && !value.contains(&0) => id = Some(value.to_vec()),
            b"retry" if is_short && value.iter().all(u8::is_ascii_digit) => {
                let number = str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
                retry = number.map(Duration::from_millis).or(retry);
            }
            _ => {}
        }
    }
    events
}
