//! Rows, to the byte; see `docs/spec/journal.md`.

use std::fmt;

use bytes::Bytes;

use super::AMBIGUOUS_LIFE_MS;
use super::request::{RowKind, RowName, ToolClass};
use super::reservation::{CallId, InstanceId};
use crate::coding::{HASH_BYTES, Reader, hex, unhex};
use crate::{Millis, StoreError};

/// Bytes of an outcome that is kept in the row. Rows are read whole, and written three times; what
/// is longer is a blob that the row names.
pub const MAX_INLINE_OUTCOME_BYTES: usize = 256 << 10;

const VERSION: u8 = 1;

/// What came out of a call. The journal does not look into it.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever replays an outcome treats each of them")]
pub enum Outcome {
    /// The outcome itself, at most [`MAX_INLINE_OUTCOME_BYTES`].
    Bytes(Bytes),
    /// The outcome is a blob with this id.
    Blob([u8; 16]),
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Blob(_) => f.write_str("Blob"),
        }
    }
}

/// What is known of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) state: State,
    pub(super) class: ToolClass,
    /// How often it was started before without an end: 0 for most.
    pub(super) attempt: u32,
    pub(super) call_id: CallId,
    pub(super) instance: InstanceId,
    pub(super) epoch: u64,
    /// When it entered its state.
    pub(super) since: Millis,
    pub(super) what: [u8; HASH_BYTES],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Reserved,
    Started,
    Committed(Outcome),
    Ambiguous,
    Retryable,
}

impl Row {
    /// Whether somebody is at it, or was when they died.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Reserved | State::Started)
    }

    /// When it ends, under a name of this kind. Open rows do not.
    pub(super) const fn until(&self, kind: RowKind) -> Option<Millis> {
        match self.state {
            State::Reserved | State::Started => None,
            State::Committed(_) => Some(self.since.saturating_add(kind.committed_life())),
            State::Ambiguous | State::Retryable => {
                Some(self.since.saturating_add(AMBIGUOUS_LIFE_MS))
            }
        }
    }

    /// Whether it is the same try of the same call.
    pub(super) fn is_same_try(&self, other: &Self) -> bool {
        self.call_id == other.call_id
            && self.attempt == other.attempt
            && self.instance == other.instance
            && self.epoch == other.epoch
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut row = Vec::with_capacity(128);
        let state = match self.state {
            State::Reserved => 1,
            State::Started => 2,
            State::Committed(Outcome::Bytes(_)) => 3,
            State::Committed(Outcome::Blob(_)) => 4,
            State::Ambiguous => 5,
            State::Retryable => 6,
        };
        let class = match self.class {
            ToolClass::Transactional => 1,
            ToolClass::TakesKey => 2,
            ToolClass::ReadOnly => 3,
            ToolClass::Unknown => 4,
        };
        row.extend_from_slice(&[VERSION, state, class]);
        row.extend_from_slice(&self.attempt.to_be_bytes());
        row.extend_from_slice(&self.call_id.0);
        row.extend_from_slice(&self.instance.0);
        row.extend_from_slice(&self.epoch.to_be_bytes());
        row.extend_from_slice(&self.since.to_be_bytes());
        row.extend_from_slice(&self.what);
        match &self.state {
            State::Committed(Outcome::Bytes(bytes)) => row.extend_from_slice(bytes),
            State::Committed(Outcome::Blob(id)) => row.extend_from_slice(id),
            _ => {}
        }
        Bytes::from(row)
    }

    pub(super) fn decode(row: Bytes) -> Result<Self, StoreError> {
        let mut reader = Reader::new(row, "a row of the journal");
        if reader.u8()? != VERSION {
            return Err(reader.damaged());
        }
        let state = reader.u8()?;
        let class = match reader.u8()? {
            1 => ToolClass::Transactional,
            2 => ToolClass::TakesKey,
            3 => ToolClass::ReadOnly,
            4 => ToolClass::Unknown,
            _ => return Err(reader.damaged()),
        };
        let attempt = reader.u32()?;
        let call_id = CallId(reader.array()?);
        let instance = InstanceId(reader.array()?);
        let epoch = reader.u64()?;
        let since = reader.u64()?;
        let what = reader.array()?;
        let state = match state {
            1 => State::Reserved,
            2 => State::Started,
            3 => State::Committed(Outcome::Bytes(std::mem::take(reader.left()))),
            4 => State::Committed(Outcome::Blob(reader.array()?)),
            5 => State::Ambiguous,
            6 => State::Retryable,
            _ => return Err(reader.damaged()),
        };
        reader.end()?;
        Ok(Self { state, class, attempt, call_id, instance, epoch, since, what })
    }
}

/// The key of a row: `j/r/{` kind and hash `}`.
pub(super) fn row_key(name: &RowName) -> Bytes {
    Bytes::from(format!("j/r/{{{}}}", tag(name)))
}

/// The key of an open row's entry in the index: `j/o/`, instance, epoch, `{` kind and hash `}`.
pub(super) fn open_key(name: &RowName, instance: InstanceId, epoch: u64) -> Bytes {
    let prefix = open_prefix(instance);
    Bytes::from(format!("{prefix}{}/{{{}}}", hex(&epoch.to_be_bytes()), tag(name)))
}

pub(super) fn open_prefix(instance: InstanceId) -> String {
    format!("j/o/{}/", hex(&instance.0))
}

/// The epoch of an entry of the index, and the kind and the key of its row.
pub(super) fn parse_open_key(key: &[u8], prefix: &str) -> Option<(u64, RowKind, Bytes)> {
    let rest = key.strip_prefix(prefix.as_bytes())?;
    let (epoch, rest) = rest.split_at_checked(16)?;
    let tag = rest.strip_prefix(b"/")?;
    let kind = match tag {
        [b'{', b'1', ..] => RowKind::Keyed,
        [b'{', b'2', ..] => RowKind::SingleUse,
        _ => return None,
    };
    let row = [b"j/r/", tag].concat();
    Some((u64::from_be_bytes(unhex(epoch)?), kind, Bytes::from(row)))
}

/// The key under which the starts of an instance are counted.
pub(super) fn epoch_key(instance: InstanceId) -> Bytes {
    Bytes::from(format!("j/e/{{{}}}", hex(&instance.0)))
}

fn tag(name: &RowName) -> String {
    format!("{}{}", name.kind as u8, hex(&name.hash))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::coding::damage::damaged;

    fn all_states() -> Vec<Bytes> {
        let states = [
            State::Reserved,
            State::Started,
            State::Committed(Outcome::Bytes(Bytes::from_static(b"out"))),
            State::Committed(Outcome::Blob([9; 16])),
            State::Ambiguous,
            State::Retryable,
        ];
        states.map(|state| row(state).encode()).to_vec()
    }

    fn row(state: State) -> Row {
        Row {
            state,
            class: ToolClass::Unknown,
            attempt: 2,
            call_id: CallId([3; 16]),
            instance: InstanceId([4; 16]),
            epoch: 5,
            since: 6,
            what: [7; 32],
        }
    }

    #[test]
    fn rows_are_as_specified() {
        let made = row(State::Committed(Outcome::Bytes(Bytes::from_static(b"out")))).encode();
        let mut expected = vec![1, 3, 4, 0, 0, 0, 2];
        expected.extend([3; 16]);
        expected.extend([4; 16]);
        expected.extend([0, 0, 0, 0, 0, 0, 0, 5]);
        expected.extend([0, 0, 0, 0, 0, 0, 0, 6]);
        expected.extend([7; 32]);
        assert_eq!(expected.len(), 87);
        expected.extend(b"out");
        assert_eq!(made, expected);
    }

    #[test]
    fn keys_are_as_specified() {
        let name = RowName { kind: RowKind::SingleUse, hash: [0xab; 16] };
        let tag = format!("{{2{}}}", "ab".repeat(16));
        assert_eq!(row_key(&name), format!("j/r/{tag}"));
        let open = open_key(&name, InstanceId([1; 16]), 255);
        assert_eq!(open, format!("j/o/{}/00000000000000ff/{tag}", "01".repeat(16)));
        let prefix = open_prefix(InstanceId([1; 16]));
        let parsed = Some((255, RowKind::SingleUse, row_key(&name)));
        assert_eq!(parse_open_key(&open, &prefix), parsed);
        assert_eq!(parse_open_key(b"j/o/", &prefix), None);
    }

    #[test]
    fn every_state_comes_back_and_nothing_else_is_read() {
        for state in [
            State::Reserved,
            State::Started,
            State::Committed(Outcome::Bytes(Bytes::new())),
            State::Committed(Outcome::Blob([9; 16])),
            State::Ambiguous,
            State::Retryable,
        ] {
            let row = row(state);
            let stored = row.encode();
            assert_eq!(Row::decode(stored.clone()).unwrap(), row);
            for length in 0..stored.len() {
                assert!(Row::decode(stored.slice(..length)).is_err(), "{length}");
            }
            if !matches!(row.state, State::Committed(Outcome::Bytes(_))) {
                assert!(Row::decode([stored.as_ref(), &[0]].concat().into()).is_err());
            }
            for (at, wrong) in [(0, 2), (1, 0), (1, 7), (2, 0), (2, 5)] {
                let mut edited = stored.to_vec();
                edited[at] = wrong;
                assert!(Row::decode(edited.into()).is_err(), "{at} {wrong}");
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_the_same(row in damaged(all_states())) {
            if let Ok(read) = Row::decode(row.clone()) {
                prop_assert_eq!(read.encode(), row);
            }
        }
    }
}
