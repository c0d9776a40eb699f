//! Events that can be told apart: each carries who made it and its number, and the rest of it
//! follows from the two, so that a reader sees whether it got what was sent.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};

/// How long an event is on the wire.
pub(crate) const EVENT_LEN: usize = 256;

/// How long the text of an event is that is a JSON string of that length.
pub(crate) const QUOTED_LEN: usize = EVENT_LEN - 2;

/// What an event starts with, and what is nowhere else in it.
const MARK: u8 = b'@';

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Digits of the producer and of the number, which are base 64, too.
const PRODUCER_DIGITS: usize = 3;
const NUMBER_DIGITS: usize = 6;

/// An event's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) producer: u32,
    pub(crate) number: u64,
}

/// Writes the text of an event of this length.
pub(crate) fn write(out: &mut Vec<u8>, id: Id, len: usize) {
    let end = out.len() + len;
    out.push(MARK);
    push_digits(out, id.producer.into(), PRODUCER_DIGITS);
    push_digits(out, id.number, NUMBER_DIGITS);
    // Nothing that an engine could compress well.
    let mut state = (u64::from(id.producer) << 40) ^ id.number ^ 0x9e37_79b9_7f4a_7c15;
    while out.len() < end {
        state = next(state);
        let bytes = state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
        let room = end - out.len();
        out.extend(bytes.iter().take(room).map(|&byte| digit(u64::from(byte))));
    }
}

fn push_digits(out: &mut Vec<u8>, value: u64, digits: usize) {
    out.extend((0..digits).rev().map(|place| digit(value >> (6 * place))));
}

fn digit(value: u64) -> u8 {
    let at = usize::try_from(value & 63).unwrap_or_default();
    ALPHABET.get(at).copied().unwrap_or(b'A')
}

fn next(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ (state << 17)
}

fn value(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |value, digit| {
        let at = ALPHABET.iter().position(|known| known == digit)?;
        Some(value << 6 | u64::try_from(at).ok()?)
    })
}

/// Finds events in pieces of text, whatever is around them.
#[derive(Debug)]
pub(crate) struct Scanner {
    len: usize,
    /// The start of an event whose end has not come yet.
    part: Vec<u8>,
    expected: Vec<u8>,
}

impl Scanner {
    /// Looks for events whose text has this length.
    pub(crate) fn new(len: usize) -> Self {
        Self { len, part: Vec::with_capacity(len), expected: Vec::with_capacity(len) }
    }

    /// Calls `found` for each event that ends in this piece. What starts like an event and is not
    /// the one that was sent under its identity is an error.
    pub(crate) fn feed(&mut self, mut piece: &[u8], mut found: impl FnMut(Id)) -> Result<()> {
        while !piece.is_empty() {
            if self.part.is_empty() {
                let Some(at) = piece.iter().position(|&byte| byte == MARK) else { return Ok(()) };
                piece = piece.get(at..).unwrap_or_default();
            }
            let take = piece.len().min(self.len - self.part.len());
            let (event, rest) = piece.split_at(take);
            self.part.extend_from_slice(event);
            piece = rest;
            if self.part.len() == self.len {
                found(self.check()?);
                self.part.clear();
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Id> {
        let producer = self.part.get(1..=PRODUCER_DIGITS).and_then(value);
        let number =
            self.part.get(1 + PRODUCER_DIGITS..).and_then(|rest| rest.get(..NUMBER_DIGITS));
        let (Some(producer), Some(number)) = (producer, number.and_then(value)) else {
            bail!("an event is damaged: {}", String::from_utf8_lossy(&self.part));
        };
        let id = Id { producer: u32::try_from(producer).unwrap_or(u32::MAX), number };
        self.expected.clear();
        write(&mut self.expected, id, self.len);
        ensure!(self.part == self.expected, "{id:?} is not what was sent");
        Ok(id)
    }
}

/// What a reader should see: of each producer every event once, in order.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    next: BTreeMap<u32, u64>,
    problem: Option<String>,
}

impl Ledger {
    /// Takes note of an event that was read.
    pub(crate) fn seen(&mut self, id: Id) {
        let next = self.next.entry(id.producer).or_default();
        if *next != id.number && self.problem.is_none() {
            self.problem = Some(format!("{id:?} was read where {next} should be"));
        }
        *next = id.number + 1;
    }

    /// Whether so many of each producer were seen, each once, in order, and nothing else.
    pub(crate) fn check(&self, acked: impl IntoIterator<Item = (u32, u64)>) -> Result<()> {
        if let Some(problem) = &self.problem {
            bail!("{problem}");
        }
        let acked: BTreeMap<u32, u64> = acked.into_iter().filter(|&(_, count)| count > 0).collect();
        ensure!(self.next == acked, "read {:?}, acked were {acked:?}", self.next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(ids: &[(u32, u64)], between: &str) -> Vec<u8> {
        let mut out = Vec::new();
        for &(producer, number) in ids {
            out.extend_from_slice(between.as_bytes());
            write(&mut out, Id { producer, number }, EVENT_LEN);
        }
        out
    }

    fn scan(pieces: &[&[u8]]) -> Result<Vec<(u32, u64)>> {
        let mut scanner = Scanner::new(EVENT_LEN);
        let mut found = Vec::new();
        for piece in pieces {
            scanner.feed(piece, |id| found.push((id.producer, id.number)))?;
        }
        Ok(found)
    }

    #[test]
    fn an_event_has_its_length() {
        assert_eq!(text(&[(0, 0)], "").len(), EVENT_LEN);
        assert_eq!(text(&[(63, 1 << 30)], "").len(), EVENT_LEN);
    }

    #[test]
    fn finds_events_wherever_they_are_cut() {
        let ids = [(1, 0), (64, 12_345_678), (1, 1)];
        let text = text(&ids, "\n\ndata: ");
        for at in 0..text.len() {
            let (a, b) = text.split_at(at);
            assert_eq!(scan(&[a, b]).unwrap(), ids);
        }
    }

    #[test]
    fn notices_every_flipped_byte() {
        let text = text(&[(3, 7)], "");
        for at in 1..text.len() {
            let mut other = text.clone();
            other[at] ^= 1;
            assert!(scan(&[&other]).is_err(), "byte {at}");
        }
    }

    fn check(seen: &[(u32, u64)], acked: &[(u32, u64)], expected: bool) {
        let mut ledger = Ledger::default();
        for &(producer, number) in seen {
            ledger.seen(Id { producer, number });
        }
        assert_eq!(ledger.check(acked.iter().copied()).is_ok(), expected);
    }

    #[test]
    fn what_was_acked_is_there_once_and_in_order() {
        check(&[(1, 0), (2, 0), (1, 1)], &[(1, 2), (2, 1), (3, 0)], true);
        check(&[(1, 0), (1, 0)], &[(1, 2)], false);
        check(&[(1, 0), (1, 0), (1, 1)], &[(1, 2)], false);
        check(&[(1, 1), (1, 0)], &[(1, 1)], false);
        check(&[(1, 0)], &[(1, 2)], false);
        check(&[(1, 0), (1, 1)], &[(1, 1)], false);
        check(&[(1, 0)], &[(1, 1), (2, 1)], false);
    }
}
