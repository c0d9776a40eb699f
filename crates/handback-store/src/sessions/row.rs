//! Rows, to the byte; see `docs/spec/journal.md`.

use bytes::Bytes;

use crate::coding::{FieldHash, Reader, put_text};
use crate::owner::short;
use crate::{Millis, StoreError};

const VERSION: u8 = 1;

/// A session as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) binding: String,
    pub(super) created: Millis,
    /// When it was last used, about.
    pub(super) used: Millis,
    pub(super) value: Bytes,
}

impl Row {
    pub(super) fn encode(&self) -> Bytes {
        let mut row = Vec::with_capacity(32 + self.binding.len() + self.value.len());
        row.push(VERSION);
        row.extend_from_slice(&self.created.to_be_bytes());
        row.extend_from_slice(&self.used.to_be_bytes());
        put_text(&mut row, &self.binding);
        row.extend_from_slice(&self.value);
        Bytes::from(row)
    }

    pub(super) fn decode(row: Bytes) -> Result<Self, StoreError> {
        let mut reader = Reader::new(row, "a session");
        if reader.u8()? != VERSION {
            return Err(reader.damaged());
        }
        let (created, used) = (reader.u64()?, reader.u64()?);
        let binding = reader.text()?;
        let value = std::mem::take(reader.left());
        Ok(Self { binding, created, used, value })
    }
}

/// Names of one session.
pub(super) struct Names {
    hash: String,
}

impl Names {
    /// Ids are hashed: whoever reads the store can not take a session over.
    pub(super) fn of(id: &str) -> Self {
        let hash = FieldHash::new("handback/v1/session").field(id.as_bytes()).finish();
        Self { hash: short(&hash) }
    }

    /// `s/r/{` hash of the id `}`.
    pub(super) fn row(&self) -> Bytes {
        Bytes::from(format!("s/r/{{{}}}", self.hash))
    }

    /// `s/o/{` owner `}/` hash of the id.
    pub(super) fn entry(&self, owner: &str) -> Bytes {
        Bytes::from(format!("{}{}", entries(owner), self.hash))
    }
}

/// What the entries of an owner start with.
pub(super) fn entries(owner: &str) -> String {
    format!("s/o/{{{owner}}}/")
}

/// The row of the session that an entry names.
pub(super) fn row_of_entry(entry: &[u8], owner: &str) -> Option<Bytes> {
    let hash = entry.strip_prefix(entries(owner).as_bytes())?;
    Some(Bytes::from([b"s/r/{", hash, b"}"].concat()))
}

/// `s/n/{` owner `}`: changed whenever an entry is added, so that two do not count the same.
pub(super) fn turn_key(owner: &str) -> Bytes {
    Bytes::from(format!("s/n/{{{owner}}}"))
}

/// The turn after this one.
pub(super) fn next_turn(turn: Option<&Bytes>) -> Bytes {
    let number = turn.and_then(|turn| turn.as_ref().try_into().ok()).map_or(0, u64::from_be_bytes);
    Bytes::copy_from_slice(&number.wrapping_add(1).to_be_bytes())
}

/// An entry says when it was written.
pub(super) fn entry_value(now: Millis) -> Bytes {
    Bytes::copy_from_slice(&now.to_be_bytes())
}

/// When an entry was written.
pub(super) fn entry_written(value: &Bytes) -> Millis {
    value.as_ref().try_into().map_or(0, Millis::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::coding::damage::damaged;

    fn row() -> Row {
        Row { binding: "a\0b".to_owned(), created: 1, used: 2, value: Bytes::from_static(b"value") }
    }
    use crate::coding::hex;

    #[test]
    fn an_entry_leads_to_its_row() {
        let names = Names::of("id");
        let owner = hex(&[7; 16]);
        assert_eq!(row_of_entry(&names.entry(&owner), &owner), Some(names.row()));
        assert_eq!(row_of_entry(&names.entry(&owner), &hex(&[8; 16])), None);
    }

    #[test]
    fn rows_come_back() {
        let row = row();
        assert_eq!(Row::decode(row.encode()).unwrap(), row);
        for length in 0..row.encode().len() - row.value.len() {
            assert!(Row::decode(row.encode().slice(..length)).is_err());
        }
        let mut newer = row.encode().to_vec();
        newer[0] = 2;
        assert!(Row::decode(newer.into()).is_err());
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
