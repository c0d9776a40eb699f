//! The disk as bytes: one journal, in sectors.
//!
//! ```text
//! frame  = b1 || length u32be || body || XXH3-64 of the body u64be || ee
//! body   = 00 || records || notes || removed logs, or 01 || changes of values
//! ```
//!
//! Frames follow each other without padding: a sector can have the end of one and the start of the
//! next. When the power fails, each sector of what was not synced is new, old, zero, or new up to its
//! middle, whatever became of those before it. What was synced stays, also in a sector that a later
//! write shares with it.

use std::collections::VecDeque;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::disk::Write;
use super::plan::Chance;
use crate::state::State;
use crate::{Batch, Change, KvBatch, LOG_ID_BYTES, LogId, Record};

/// What a disk writes at once.
const SECTOR_BYTES: usize = 512;

const START: u8 = 0xb1;
const END: u8 = 0xee;

/// What is around a body.
const HEADER_BYTES: usize = 1 + 4;
const TRAILER_BYTES: usize = 8 + 1;

/// All that is on the disk.
#[derive(Debug, Default)]
pub(super) struct Journal {
    bytes: Vec<u8>,
    /// Up to here it is on the disk for certain.
    synced: usize,
    /// Where the writes after that end, oldest first.
    unsynced: VecDeque<usize>,
}

impl Journal {
    /// Writes, without a sync.
    pub(super) fn write(&mut self, write: &Write) {
        let mut body = Vec::new();
        encode(write, &mut body);
        self.bytes.push(START);
        put_length(&mut self.bytes, body.len());
        self.bytes.extend_from_slice(&body);
        self.bytes.extend_from_slice(&xxh3_64(&body).to_be_bytes());
        self.bytes.push(END);
        self.unsynced.push_back(self.bytes.len());
    }

    /// Syncs, but for so many of the last writes.
    pub(super) fn sync(&mut self, forgotten: usize) {
        while self.unsynced.len() > forgotten
            && let Some(end) = self.unsynced.pop_front()
        {
            self.synced = end;
        }
    }

    /// The power fails. Gives how many sectors of what was not synced are not what was written.
    pub(super) fn power_off(&mut self, chance: &mut Chance) -> u64 {
        self.unsynced.clear();
        let kept = match chance.below(4) {
            0 => 100,
            1 => 0,
            _ => 10 + chance.below(90),
        };
        let (mut at, mut lost) = (self.synced, 0);
        while at < self.bytes.len() {
            let end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(self.bytes.len());
            let (is_kept, how) = (chance.below(100) < kept, chance.below(3));
            if !is_kept && let Some(new) = self.bytes.get_mut(at..end) {
                spoil(new, how, chance);
                lost += 1;
            }
            at = end;
        }
        lost
    }

    /// Opens it: what is there as a whole. The rest is cut off. If checksums are not looked at, a
    /// torn write is taken for one.
    pub(super) fn open(&mut self, is_checked: bool) -> State {
        let mut state = State::default();
        let mut end = 0;
        while let Some((body, length)) = self.frame(end, is_checked) {
            match decode(body) {
                Some(write) => write.apply(&mut state),
                None if is_checked => break,
                None => {}
            }
            end += length;
        }
        self.bytes.truncate(end);
        self.synced = end;
        state
    }

    /// The body of the frame that starts here, and how long the frame is.
    fn frame(&self, at: usize, is_checked: bool) -> Option<(&[u8], usize)> {
        let rest = self.bytes.get(at..)?;
        let (header, rest) = rest.split_first_chunk::<HEADER_BYTES>()?;
        let (&[start], length) = header.split_first_chunk::<1>()?;
        let length = u32::from_be_bytes(length.try_into().ok()?);
        let length = usize::try_from(length).ok()?;
        if start != START || rest.len() < length.checked_add(TRAILER_BYTES)? {
            return None;
        }
        let (body, rest) = rest.split_at(length);
        let (sum, rest) = rest.split_first_chunk::<8>()?;
        let is_whole = u64::from_be_bytes(*sum) == xxh3_64(body) && rest.first() == Some(&END);
        (is_whole || !is_checked).then_some((body, HEADER_BYTES + length + TRAILER_BYTES))
    }
}

/// What a sector is that was not written, or not to its end. It is never what it should be: else it
/// would depend on the bytes, and not on the seed, whether a write is whole.
fn spoil(new: &mut [u8], how: u64, chance: &mut Chance) {
    let before = new.to_vec();
    let middle = usize::try_from(chance.below(new.len() as u64)).unwrap_or_default();
    match how {
        // Nothing was there before: zeros.
        0 => new.fill(0),
        // The rest of the sector is as it was.
        1 => new.iter_mut().skip(middle).for_each(|byte| *byte = 0),
        // Some of the rest is something else.
        _ => new.iter_mut().skip(middle).step_by(3).for_each(|byte| *byte ^= 0x5a),
    }
    if *new == *before
        && let Some(last) = new.last_mut()
    {
        *last ^= 1;
    }
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).expect("a write has less than 4 GiB");
    out.extend_from_slice(&length.to_be_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn encode(write: &Write, out: &mut Vec<u8>) {
    match write {
        Write::Log(batch) => {
            out.push(0);
            put_length(out, batch.records.len());
            for record in &batch.records {
                out.extend_from_slice(record.log.as_bytes());
                out.extend_from_slice(&record.number.to_be_bytes());
                put_bytes(out, &record.bytes);
            }
            put_length(out, batch.notes.len());
            for (log, note) in &batch.notes {
                out.extend_from_slice(log.as_bytes());
                put_bytes(out, note);
            }
            put_length(out, batch.removed.len());
            batch.removed.iter().for_each(|log| out.extend_from_slice(log.as_bytes()));
            put_length(out, batch.dropped.len());
            for (log, number) in &batch.dropped {
                out.extend_from_slice(log.as_bytes());
                out.extend_from_slice(&number.to_be_bytes());
            }
        }
        Write::Values(batch) => {
            out.push(1);
            put_length(out, batch.changes.len());
            for (key, change) in &batch.changes {
                put_bytes(out, key);
                match change {
                    Change::Remove => out.push(0),
                    Change::Put { value, until } => {
                        out.push(if until.is_some() { 2 } else { 1 });
                        out.extend_from_slice(&until.unwrap_or_default().to_be_bytes());
                        put_bytes(out, value);
                    }
                }
            }
        }
    }
}

fn decode(body: &[u8]) -> Option<Write> {
    let mut reader = Reader(body);
    let [kind] = reader.array()?;
    if kind == 0 {
        let mut batch = Batch::default();
        for _ in 0..reader.length()? {
            let (log, number) = (reader.log()?, u64::from_be_bytes(reader.array()?));
            batch.records.push(Record { log, number, bytes: reader.bytes()? });
        }
        for _ in 0..reader.length()? {
            batch.notes.push((reader.log()?, reader.bytes()?));
        }
        for _ in 0..reader.length()? {
            batch.removed.push(reader.log()?);
        }
        for _ in 0..reader.length()? {
            batch.dropped.push((reader.log()?, u64::from_be_bytes(reader.array()?)));
        }
        return Some(Write::Log(batch));
    }
    let mut batch = KvBatch::default();
    for _ in 0..reader.length()? {
        let (key, [kind]) = (reader.bytes()?, reader.array()?);
        let change = match kind {
            0 => Change::Remove,
            kind => {
                let until = u64::from_be_bytes(reader.array()?);
                Change::Put { value: reader.bytes()?, until: (kind == 2).then_some(until) }
            }
        };
        batch.changes.push((key, change));
    }
    Some(Write::Values(batch))
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (found, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*found)
    }

    fn length(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn bytes(&mut self) -> Option<Bytes> {
        let length = usize::try_from(self.length()?).ok()?;
        let (found, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(Bytes::copy_from_slice(found))
    }

    fn log(&mut self) -> Option<LogId> {
        self.array::<LOG_ID_BYTES>().map(LogId::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(number: u64, bytes: usize) -> Write {
        let log = LogId::from_bytes([7; 24]);
        let record = Record { log, number, bytes: vec![number.to_be_bytes()[7]; bytes].into() };
        let notes = vec![(log, Bytes::from_static(b"note"))];
        Write::Log(Batch { records: vec![record], notes, ..Batch::default() })
    }

    fn last(state: &State) -> Option<u64> {
        state.last(LogId::from_bytes([7; 24])).map(|record| record.number)
    }

    #[test]
    fn what_was_synced_comes_back_and_what_is_torn_does_not() {
        let (mut torn, mut whole) = (0, 0);
        for seed in 0..500 {
            let mut chance = Chance::new(seed);
            let mut journal = Journal::default();
            for number in 0..4 {
                journal.write(&batch(number, 300));
                journal.sync(0);
            }
            journal.write(&batch(4, 2_000));
            let lost = journal.power_off(&mut chance);
            let state = journal.open(true);
            assert_eq!(last(&state), Some(if lost == 0 { 4 } else { 3 }));
            *(if lost == 0 { &mut whole } else { &mut torn }) += 1;
            // It goes on behind what is there.
            let next = last(&state).map_or(0, |last| last + 1);
            journal.write(&batch(next, 10));
            journal.sync(0);
            journal.power_off(&mut chance);
            assert_eq!(last(&journal.open(true)), Some(next));
        }
        assert!(torn > 100 && whole > 50, "{torn} torn, {whole} whole");
    }

    #[test]
    fn without_checksums_torn_writes_come_back() {
        let came_back = (0..50).any(|seed| {
            let mut journal = Journal::default();
            journal.write(&batch(0, 2_000));
            let lost = journal.power_off(&mut Chance::new(seed));
            lost > 0 && last(&journal.open(false)) == Some(0)
        });
        assert!(came_back);
    }

    #[test]
    fn writes_come_back_as_they_were() {
        let until = Change::Put { value: Bytes::from_static(b"v"), until: Some(9) };
        let changes = vec![
            (Bytes::from_static(b"a"), until),
            (Bytes::from_static(b"b"), Change::Put { value: Bytes::new(), until: None }),
            (Bytes::from_static(b"c"), Change::Remove),
        ];
        let values = KvBatch { conditions: Vec::new(), changes };
        let removed = Batch { removed: vec![LogId::from_bytes([1; 24])], ..Batch::default() };
        for write in [batch(3, 20), Write::Values(values), Write::Log(removed)] {
            let mut body = Vec::new();
            encode(&write, &mut body);
            assert_eq!(decode(&body), Some(write));
        }
    }
}
