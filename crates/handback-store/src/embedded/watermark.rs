//! The watermark: a proof of what was acknowledged, outside of the journals.
//!
//! A journal that was cut looks like one whose last write was interrupted. So the file `watermark`
//! has, for each journal, the length that it was made with and the number of the last write in it
//! that was acknowledged. A journal that is shorter, or that has no such write, is damaged.
//!
//! **Order.** A write is synced to the journal first, and only then written to the watermark: a loss
//! of power leaves a watermark that is too low, and never one that is too high. The watermark itself
//! is not synced for a write. It is synced when a journal is added, before a write in that journal is
//! acknowledged, and every few seconds by the sweep. So after a killed process the proof covers every
//! write; after a loss of power, all but those of the last seconds.
//!
//! The file has two slots of 4,096 bytes, written in turn: if the power fails during one write, the
//! other slot is whole. The slot with the higher counter counts.
//!
//! | offset | bytes | of a slot; integers are big-endian |
//! |---|---|---|
//! | 0 | 8 | `HBWMARK1` |
//! | 8 | 8 | counter |
//! | 16 | 1 | 1 if journals have a second name in `journals/`, else 0 |
//! | 17 | 1 | k, number of keyspaces |
//! | 18 | 2 | j, number of journals |
//! | 20 | 8 k | ids of the keyspaces |
//! | | 24 j | of each journal: id, length, number of the last acknowledged write (0: none) |
//! | | 8 | XXH3-64 of all before |

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, BufMut};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 8] = *b"HBWMARK1";
const SLOT_BYTES: usize = 4096;
const FILE_BYTES: u64 = 2 * SLOT_BYTES as u64;
const HEAD_BYTES: usize = 20;
const SUM_BYTES: usize = 8;

/// Journals in a slot at most. The engine has eight or a few more before it removes the oldest.
const JOURNALS_MAX: usize = 128;

/// Keyspaces in a slot at most; there are five.
const KEYSPACES_MAX: usize = 64;

/// The state of all journals, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Grows with each write of the record.
    pub(super) counter: u64,
    /// True if each journal has a second name.
    pub(super) has_links: bool,
    /// The folders below `keyspaces/`.
    pub(super) keyspaces: Vec<u64>,
    /// The journals, oldest first.
    pub(super) journals: Vec<Known>,
}

/// A journal, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) id: u64,
    /// Bytes that the file has at least.
    pub(super) length: u64,
    /// A number that the last acknowledged write has or is above, and no earlier one; 0 if there is
    /// none.
    pub(super) last: u64,
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        let skipped = self.journals.len().saturating_sub(JOURNALS_MAX);
        let journals = self.journals.get(skipped..).unwrap_or_default();
        let keyspaces = self.keyspaces.get(..KEYSPACES_MAX).unwrap_or(&self.keyspaces);
        let mut slot = Vec::with_capacity(SLOT_BYTES);
        slot.extend_from_slice(&MAGIC);
        slot.put_u64(self.counter);
        slot.put_u8(self.has_links.into());
        slot.put_u8(u8::try_from(keyspaces.len()).unwrap_or_default());
        slot.put_u16(u16::try_from(journals.len()).unwrap_or_default());
        keyspaces.iter().for_each(|id| slot.put_u64(*id));
        for Known { id, length, last } in journals {
            [id, length, last].into_iter().for_each(|value| slot.put_u64(*value));
        }
        let sum = xxh3_64(&slot);
        slot.put_u64(sum);
        slot
    }

    /// The record in a slot. `None` if the slot is damaged.
    fn decode(slot: &[u8]) -> Option<Self> {
        let mut head = slot.get(..HEAD_BYTES)?;
        if head.get(..MAGIC.len())? != MAGIC {
            return None;
        }
        head.advance(MAGIC.len());
        let (counter, has_links) = (head.get_u64(), head.get_u8() == 1);
        let (keyspaces, journals) = (usize::from(head.get_u8()), usize::from(head.get_u16()));
        let end = HEAD_BYTES + 8 * keyspaces + 24 * journals;
        let (covered, mut sum) = (slot.get(..end)?, slot.get(end..end + SUM_BYTES)?);
        if xxh3_64(covered) != sum.get_u64() {
            return None;
        }
        let mut body = covered.get(HEAD_BYTES..)?;
        let keyspaces = (0..keyspaces).map(|_| body.get_u64()).collect();
        let known = |_| Known { id: body.get_u64(), length: body.get_u64(), last: body.get_u64() };
        let journals = (0..journals).map(known).collect();
        Some(Self { counter, has_links, keyspaces, journals })
    }
}

/// Why a watermark cannot be read.
#[derive(Debug)]
pub(super) enum Unreadable {
    Io(io::Error),
    /// The file has another length.
    Cut {
        expected: u64,
        found: u64,
    },
    /// Neither slot is whole.
    Damaged,
}

/// Reads a watermark. `None` if there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<Record>, Unreadable> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(Unreadable::Io)?,
    };
    let found = bytes.len() as u64;
    if found != FILE_BYTES {
        return Err(Unreadable::Cut { expected: FILE_BYTES, found });
    }
    let records = bytes.chunks(SLOT_BYTES).filter_map(Record::decode);
    records.max_by_key(|record| record.counter).map(Some).ok_or(Unreadable::Damaged)
}

/// The file, to be written.
#[derive(Debug)]
pub(super) struct Watermark {
    file: Arc<File>,
}

impl Watermark {
    /// Writes a new file that replaces the one that is there, if any. Durable when this returns.
    pub(super) fn create(path: &Path, record: &mut Record) -> io::Result<Self> {
        let temporary = path.with_extension("new");
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        (&file).write_all(&[0; 2 * SLOT_BYTES])?;
        let this = Self { file: Arc::new(file) };
        // Both slots: neither is taken for damaged later.
        for _ in 0..2 {
            this.write(record)?;
        }
        this.file.sync_all()?;
        fs::rename(&temporary, path)?;
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(this)
    }

    /// Writes the slot whose turn it is. Not synced.
    pub(super) fn write(&self, record: &mut Record) -> io::Result<()> {
        record.counter += 1;
        self.file.write_all_at(&record.encode(), record.counter % 2 * SLOT_BYTES as u64)
    }

    /// The open file, to be synced without whatever lock its owner is behind.
    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let journals = (3..6).map(|id| Known { id, length: id << 20, last: id * 7 }).collect();
        Record { counter: 0, has_links: true, keyspaces: vec![0, 1, 2, 3, 4], journals }
    }

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watermark");
        assert!(read(&path).unwrap().is_none());
        let mut expected = record();
        let watermark = Watermark::create(&path, &mut expected).unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), expected);
        for last in 100..105 {
            expected.journals[2].last = last;
            watermark.write(&mut expected).unwrap();
            assert_eq!(read(&path).unwrap().unwrap(), expected);
        }
    }

    #[test]
    fn a_flipped_bit_leaves_the_slot_before_and_a_cut_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watermark");
        let mut expected = record();
        Watermark::create(&path, &mut expected).unwrap();
        let whole = fs::read(&path).unwrap();
        let end = expected.encode().len();
        for at in (0..end).chain(SLOT_BYTES..SLOT_BYTES + end) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            fs::write(&path, bytes).unwrap();
            assert_eq!(read(&path).unwrap().unwrap().journals, expected.journals, "byte {at}");
        }
        for length in [0, SLOT_BYTES, 2 * SLOT_BYTES - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(matches!(read(&path), Err(Unreadable::Cut { .. })), "{length} bytes");
        }
        fs::write(&path, vec![0; whole.len()]).unwrap();
        assert!(matches!(read(&path), Err(Unreadable::Damaged)));
    }

    #[test]
    fn a_slot_has_room_for_all_that_is_kept() {
        let known = |id| Known { id, length: u64::MAX, last: u64::MAX };
        let record = Record {
            keyspaces: (0..100).collect(),
            journals: (0..1000).map(known).collect(),
            ..Record::default()
        };
        let slot = record.encode();
        assert!(slot.len() <= SLOT_BYTES);
        let read = Record::decode(&slot).unwrap();
        assert_eq!(read.journals.last(), record.journals.last());
    }
}
