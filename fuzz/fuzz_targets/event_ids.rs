//! Ids in a stream of events are replaced, and nothing else is, however the stream is cut. The first byte
//! says how.
#![no_main]

use handback_fuzz::pieces::pieces;
use handback_wire::event_ids::Lines;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((seed, stream)) = data.split_first() else { return };
    let cut = |how: u8| {
        let mut lines = Lines::new(other);
        pieces(stream, how).into_iter().map(|piece| lines.push(piece)).collect::<Vec<_>>().concat()
    };
    let whole = Lines::new(other).push(stream);
    assert_eq!(cut(*seed), whole);
    assert_eq!(cut(1), whole);
    // Line by line, of those that are over.
    let mut expected = Vec::new();
    for line in stream.split_inclusive(|byte| *byte == b'\n') {
        let is_over = line.ends_with(b"\n");
        match line.strip_prefix(b"id:") {
            Some(id) if is_over => {
                let id = str::from_utf8(id).unwrap_or_default();
                let id = id.strip_prefix(' ').unwrap_or(id).trim_end_matches(['\r', '\n']);
                if let Some(id) = other(id) {
                    expected.extend_from_slice(format!("id: {id}\n").as_bytes());
                }
            }
            Some(_) => {}
            // It may become one.
            None if !is_over && b"id:".starts_with(line) => {}
            None => expected.extend_from_slice(line),
        }
    }
    assert_eq!(whole, expected);
});

fn other(id: &str) -> Option<String> {
    (id != "0").then(|| format!("<{}>", id.len()))
}
