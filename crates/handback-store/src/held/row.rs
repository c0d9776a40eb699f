//! Rows, to the byte; see `docs/spec/journal.md`.

use bytes::Bytes;
use handback_token::Handle;

use super::CHUNK_BYTES;
use crate::coding::{Reader, hex, put_text, unhex};
use crate::{Millis, StoreError};

const VERSION: u8 = 1;

/// Bytes of a note at most: rows are listed.
pub const MAX_NOTE_BYTES: usize = 4 << 10;

/// Bytes of a kind at most: a media type with parameters.
pub(super) const MAX_KIND_BYTES: usize = 256;

/// What is known of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) state: State,
    pub(super) place: Place,
    pub(super) is_metered: bool,
    /// Bytes of the value.
    pub(super) size: u64,
    /// Bytes that count.
    pub(super) charged: u64,
    pub(super) created: Millis,
    /// The first moment at which it is not there any more, unless it is used before.
    pub(super) end: Millis,
    /// The first moment at which it is not there any more.
    pub(super) last_end: Millis,
    /// By how much a use moves the end; 0: it does not.
    pub(super) idle_ms: Millis,
    pub(super) binding: String,
    pub(super) kind: String,
    pub(super) note: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Somebody writes it. Nobody reads it.
    Writing = 1,
    Held = 2,
    /// It was there.
    Ended = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Store = 1,
    /// A file with checksums.
    PlainFile = 2,
    /// A file whose chunks are encrypted.
    SealedFile = 3,
}

impl Row {
    /// Whether it counts. What has outlived its time does, until it is ended.
    pub(super) fn is_counted(&self) -> bool {
        self.is_metered && self.state != State::Ended
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut row = Vec::with_capacity(64 + self.binding.len() + self.kind.len());
        row.extend_from_slice(&[
            VERSION,
            self.state as u8,
            self.place as u8,
            u8::from(self.is_metered),
        ]);
        for number in [self.size, self.charged, self.created, self.end, self.last_end, self.idle_ms]
        {
            row.extend_from_slice(&number.to_be_bytes());
        }
        put_text(&mut row, &self.binding);
        put_text(&mut row, &self.kind);
        row.extend_from_slice(&self.note);
        Bytes::from(row)
    }

    pub(super) fn decode(row: Bytes) -> Result<Self, StoreError> {
        let mut reader = Reader::new(row, "a row of a held value");
        if reader.u8()? != VERSION {
            return Err(reader.damaged());
        }
        let state = match reader.u8()? {
            1 => State::Writing,
            2 => State::Held,
            3 => State::Ended,
            _ => return Err(reader.damaged()),
        };
        let place = match reader.u8()? {
            1 => Place::Store,
            2 => Place::PlainFile,
            3 => Place::SealedFile,
            _ => return Err(reader.damaged()),
        };
        let is_metered = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(reader.damaged()),
        };
        let (size, charged, created) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (end, last_end, idle_ms) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (binding, kind) = (reader.text()?, reader.text()?);
        let note = std::mem::take(reader.left());
        Ok(Self {
            state,
            place,
            is_metered,
            size,
            charged,
            created,
            end,
            last_end,
            idle_ms,
            binding,
            kind,
            note,
        })
    }
}

/// What an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Space {
    /// What callers know by a handle.
    Handle,
    /// What only tokens and rows refer to.
    Spill,
}

/// The name of a value: whose it is, what it is for, and its id.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Name {
    owner: String,
    space: Space,
    pub(super) id: [u8; 16],
}

impl Name {
    pub(super) const fn new(owner: String, space: Space, id: [u8; 16]) -> Self {
        Self { owner, space, id }
    }

    /// The handle, if callers know it by one.
    pub(super) fn handle(&self) -> Option<Handle> {
        (self.space == Space::Handle).then(|| Handle::from_bytes(self.id))
    }

    pub(super) fn owner(&self) -> &str {
        &self.owner
    }

    /// `h/m/{` owner `}/`, `h` or `s`, id.
    pub(super) fn row(&self) -> Bytes {
        Bytes::from(format!("{}{}", rows(&self.owner, self.space), hex(&self.id)))
    }

    /// `h/c/{` owner `}/`, `h` or `s`, id, `/`, number of the chunk.
    pub(super) fn chunk(&self, number: u64) -> Bytes {
        let letter = letter(self.space);
        let number = hex(&number.to_be_bytes());
        Bytes::from(format!("h/c/{{{}}}/{letter}{}/{number}", self.owner, hex(&self.id)))
    }

    /// The name of its file: owner, `-`, `h` or `s`, id.
    pub(super) fn file(&self) -> String {
        format!("{}-{}{}", self.owner, letter(self.space), hex(&self.id))
    }

    /// What a file, or a row after its prefix, is called.
    pub(super) fn parse_file(text: &str) -> Option<Self> {
        let (owner, rest) = text.split_once('-')?;
        unhex::<16>(owner.as_bytes())?;
        let (space, id) = rest.split_at_checked(1)?;
        let space = match space {
            "h" => Space::Handle,
            "s" => Space::Spill,
            _ => return None,
        };
        Some(Self { owner: owner.to_owned(), space, id: unhex(id.as_bytes())? })
    }

    pub(super) fn parse_row(key: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(key.strip_prefix(b"h/m/{")?).ok()?;
        let (owner, rest) = text.split_once("}/")?;
        Self::parse_file(&format!("{owner}-{rest}"))
    }
}

/// What keys of all rows start with.
pub(super) const ROWS: &[u8] = b"h/m/{";

/// What keys of the rows of one owner start with.
pub(super) fn rows(owner: &str, space: Space) -> String {
    format!("{}{}", all_rows(owner), letter(space))
}

/// What keys of the rows of one owner start with, whatever they are for.
pub(super) fn all_rows(owner: &str) -> String {
    format!("h/m/{{{owner}}}/")
}

const fn letter(space: Space) -> char {
    match space {
        Space::Handle => 'h',
        Space::Spill => 's',
    }
}

/// How many chunks a value of this size has.
pub(super) const fn chunks(size: u64) -> u64 {
    size.div_ceil(CHUNK_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::coding::damage::damaged;

    fn row() -> Row {
        Row {
            state: State::Held,
            place: Place::SealedFile,
            is_metered: true,
            size: 1,
            charged: 2,
            created: 3,
            end: 4,
            last_end: 5,
            idle_ms: 6,
            binding: "a\0b".to_owned(),
            kind: "text/plain".to_owned(),
            note: Bytes::from_static(b"note"),
        }
    }

    #[test]
    fn rows_come_back() {
        let row = row();
        assert_eq!(Row::decode(row.encode()).unwrap(), row);
        for length in 0..row.encode().len() - row.note.len() {
            assert!(Row::decode(row.encode().slice(..length)).is_err(), "{length}");
        }
        for (at, wrong) in [(0, 2), (1, 0), (1, 4), (2, 0), (2, 4), (3, 2)] {
            let mut edited = row.encode().to_vec();
            edited[at] = wrong;
            assert!(Row::decode(edited.into()).is_err(), "{at} {wrong}");
        }
    }

    #[test]
    fn names_come_back() {
        let owner = hex(&[3; 16]);
        for space in [Space::Handle, Space::Spill] {
            let name = Name::new(owner.clone(), space, [5; 16]);
            assert!(Name::parse_row(&name.row()) == Some(name.clone()));
            assert!(Name::parse_file(&name.file()) == Some(name.clone()));
            for other in ["", "x", "../etc", &name.file()[1..], &format!("{}0", name.file())] {
                assert!(Name::parse_file(other).is_none(), "{other}");
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_the_same(row in damaged(vec![row().encode()])) {
            if let Ok(read) = Row::decode(row.clone()) {
                prop_assert_eq!(read.encode(), row);
            }
        }
    }
}
