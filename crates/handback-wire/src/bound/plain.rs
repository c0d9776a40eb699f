//! Text that is no JSON: its lines.

use super::digest::{Digest, TextDigest};
use crate::json::utf8;

/// What is known of a text.
#[derive(Debug)]
pub(super) struct Plain {
    /// Its start.
    start: Vec<u8>,
    /// How many bytes it has.
    pub(super) bytes: u64,
    /// How many lines it has: the last one need not end.
    pub(super) lines: u64,
    pub(super) digest: Digest,
}

/// The start of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) text: String,
    /// The lines that are whole.
    pub(super) lines: u64,
}

impl Plain {
    /// The start of the text in at most `room` bytes: at the end of a line, unless that shows less
    /// than half of what there is room for.
    pub(super) fn head(&self, room: usize) -> Head {
        let mut end = utf8::floor(&self.start, room);
        if (end as u64) < self.bytes {
            let start = self.start.get(..end).unwrap_or_default();
            end = match memchr::memrchr(b'\n', start) {
                Some(newline) if newline >= end / 2 => newline + 1,
                _ => end,
            };
        }
        let start = self.start.get(..end).unwrap_or_default();
        let lines = match end as u64 == self.bytes {
            true => self.lines,
            false => newlines(start),
        };
        Head { text: String::from_utf8_lossy(start).into_owned(), lines }
    }
}

/// Reads a text.
#[derive(Debug)]
pub(super) struct Reading {
    start: Vec<u8>,
    limit: usize,
    bytes: u64,
    newlines: u64,
    last: Option<u8>,
    digest: TextDigest,
}

impl Reading {
    /// For heads of up to so many bytes.
    pub(super) fn new(limit: usize) -> Self {
        let digest = TextDigest::default();
        Self { start: vec![], limit, bytes: 0, newlines: 0, last: None, digest }
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        let left = self.limit - self.start.len();
        self.start.extend_from_slice(text.get(..left).unwrap_or(text));
        self.bytes += text.len() as u64;
        self.newlines += newlines(text);
        self.last = text.last().copied().or(self.last);
        self.digest.push(text);
    }

    pub(super) fn finish(self) -> Plain {
        let Self { mut start, bytes, newlines, last, digest, .. } = self;
        if let Err(error) = str::from_utf8(&start) {
            start.truncate(error.valid_up_to());
        }
        let open = last.is_some_and(|last| last != b'\n');
        Plain { start, bytes, lines: newlines + u64::from(open), digest: digest.finish() }
    }
}

fn newlines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(text: &str, limit: usize, chunk: usize) -> Plain {
        let mut reading = Reading::new(limit);
        text.as_bytes().chunks(chunk).for_each(|piece| reading.push(piece));
        reading.finish()
    }

    #[test]
    fn a_text_is_cut_at_a_line() {
        let check = |text: &str, room, shown: &str, lines| {
            let head = Head { text: shown.to_owned(), lines };
            assert_eq!(plain(text, 100, 3).head(room), head, "{text} {room}");
        };
        check("one\ntwo\nthree", 10, "one\ntwo\n", 2);
        check("one\ntwo\nthree", 8, "one\ntwo\n", 2);
        check("one\ntwo\nthree", 7, "one\n", 1);
        check("one\ntwo\nthree", 13, "one\ntwo\nthree", 3);
        check("one\ntwo\n", 100, "one\ntwo\n", 2);
        // The second line is most of it.
        check("a\n0123456789", 10, "a\n01234567", 1);
        check("€€€", 7, "€€", 0);
        check("€€€", 2, "", 0);
        check("", 5, "", 0);
    }

    proptest! {
        #[test]
        fn lines_and_heads_are_those_of_the_text(
            text in "[a\né]{0,40}",
            limit in 0_usize..50,
            chunk in 1_usize..9,
            room in 0_usize..60,
        ) {
            let plain = plain(&text, limit, chunk);
            prop_assert_eq!(plain.lines, text.lines().count() as u64);
            prop_assert_eq!(plain.bytes, text.len() as u64);
            let head = plain.head(room);
            prop_assert!(head.text.len() <= room && text.starts_with(&head.text));
            let all = head.text.len() == text.len();
            let whole = head.text.matches('\n').count() as u64;
            prop_assert_eq!(head.lines, if all { plain.lines } else { whole });
        }
    }
}
