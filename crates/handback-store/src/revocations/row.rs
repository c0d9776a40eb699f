//! Rows, to the byte; see `docs/spec/journal.md`.

use bytes::Bytes;
use handback_identity::VerifiedPrincipal;
use handback_token::SlotNumber;

use crate::coding::{FieldHash, HASH_BYTES, Reader, hex, unhex};
use crate::{Millis, StoreError};

const VERSION: u8 = 1;

/// What is revoked. People and sessions are kept as hashes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Revocation(pub(super) Kind);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Principal([u8; HASH_BYTES]),
    Session([u8; HASH_BYTES]),
    Slot(SlotNumber),
    Before(Millis),
    PrincipalBefore([u8; HASH_BYTES], Millis),
}

impl Revocation {
    /// Everything of a principal, whenever it was born, for as long as the revocation lives.
    #[must_use]
    pub fn principal(principal: &VerifiedPrincipal) -> Self {
        Self(Kind::Principal(principal_hash(principal)))
    }

    /// The same, by the stored form of a principal.
    #[must_use]
    pub fn bound(binding: &str) -> Self {
        Self(Kind::Principal(binding_hash(binding)))
    }

    /// Everything of a principal that was born before a moment, by its stored form.
    #[must_use]
    pub fn bound_before(binding: &str, moment: Millis) -> Self {
        Self(Kind::PrincipalBefore(binding_hash(binding), moment))
    }

    /// What kind it is, and before which moment, for operators.
    #[must_use]
    pub const fn summary(&self) -> (&'static str, Option<Millis>) {
        match self.0 {
            Kind::Principal(_) => ("principal", None),
            Kind::Session(_) => ("session", None),
            Kind::Slot(_) => ("key", None),
            Kind::Before(moment) => ("everything", Some(moment)),
            Kind::PrincipalBefore(_, moment) => ("principal", Some(moment)),
        }
    }

    /// Everything of a session.
    #[must_use]
    pub fn session(id: &str) -> Self {
        Self(Kind::Session(session_hash(id)))
    }

    /// Everything under the key in a slot of the ring.
    #[must_use]
    pub const fn slot(slot: SlotNumber) -> Self {
        Self(Kind::Slot(slot))
    }

    /// Everything that was born before a moment.
    #[must_use]
    pub const fn before(moment: Millis) -> Self {
        Self(Kind::Before(moment))
    }

    /// Everything of a principal that was born before a moment.
    #[must_use]
    pub fn principal_before(principal: &VerifiedPrincipal, moment: Millis) -> Self {
        Self(Kind::PrincipalBefore(principal_hash(principal), moment))
    }

    pub(super) fn encode(self, until: Millis) -> Bytes {
        let mut row = vec![VERSION];
        let kind = match self.0 {
            Kind::Principal(_) => 1,
            Kind::Session(_) => 2,
            Kind::Slot(_) => 3,
            Kind::Before(_) => 4,
            Kind::PrincipalBefore(..) => 5,
        };
        row.push(kind);
        row.extend_from_slice(&until.to_be_bytes());
        match self.0 {
            Kind::Principal(hash) | Kind::Session(hash) => row.extend_from_slice(&hash),
            Kind::Slot(slot) => row.push(slot.get()),
            Kind::Before(moment) => row.extend_from_slice(&moment.to_be_bytes()),
            Kind::PrincipalBefore(hash, moment) => {
                row.extend_from_slice(&hash);
                row.extend_from_slice(&moment.to_be_bytes());
            }
        }
        Bytes::from(row)
    }

    /// What is revoked, and until when.
    pub(super) fn decode(row: Bytes) -> Result<(Self, Millis), StoreError> {
        let mut reader = Reader::new(row, "a revocation");
        if reader.u8()? != VERSION {
            return Err(reader.damaged());
        }
        let kind = reader.u8()?;
        let until = reader.u64()?;
        let kind = match kind {
            1 => Kind::Principal(reader.array()?),
            2 => Kind::Session(reader.array()?),
            3 => {
                let slot = SlotNumber::new(reader.u8()?);
                Kind::Slot(slot.ok_or_else(|| reader.damaged())?)
            }
            4 => Kind::Before(reader.u64()?),
            5 => Kind::PrincipalBefore(reader.array()?, reader.u64()?),
            _ => return Err(reader.damaged()),
        };
        reader.end()?;
        Ok((Self(kind), until))
    }
}

impl std::fmt::Debug for Revocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Kind::Principal(_) => f.write_str("Revocation(principal)"),
            Kind::Session(_) => f.write_str("Revocation(session)"),
            Kind::Slot(slot) => write!(f, "Revocation(slot {slot})"),
            Kind::Before(moment) => write!(f, "Revocation(before {moment})"),
            Kind::PrincipalBefore(_, moment) => {
                write!(f, "Revocation(principal, before {moment})")
            }
        }
    }
}

pub(super) fn principal_hash(principal: &VerifiedPrincipal) -> [u8; HASH_BYTES] {
    binding_hash(&principal.binding())
}

fn binding_hash(binding: &str) -> [u8; HASH_BYTES] {
    FieldHash::new("handback/v1/revoked/principal").field(binding.as_bytes()).finish()
}

pub(super) fn session_hash(id: &str) -> [u8; HASH_BYTES] {
    FieldHash::new("handback/v1/revoked/session").field(id.as_bytes()).finish()
}

/// How many revocations there ever were, and how many were lifted.
///
/// Neither ever falls, so what was read later is never less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Counts {
    pub(super) added: u64,
    pub(super) lifted: u64,
}

impl Counts {
    pub(super) fn encode(self) -> Bytes {
        let mut row = vec![VERSION];
        row.extend_from_slice(&self.added.to_be_bytes());
        row.extend_from_slice(&self.lifted.to_be_bytes());
        Bytes::from(row)
    }

    pub(super) fn decode(row: Bytes) -> Result<Self, StoreError> {
        let mut reader = Reader::new(row, "the number of revocations");
        if reader.u8()? != VERSION {
            return Err(reader.damaged());
        }
        let counts = Self { added: reader.u64()?, lifted: reader.u64()? };
        reader.end()?;
        Ok(counts)
    }
}

/// The key of the [`Counts`].
pub(super) const COUNTS_KEY: &[u8] = b"v/n/{v}";

/// What keys of revocations start with.
pub(super) const PREFIX: &[u8] = b"v/r/{v}/";

/// The key of the revocation with this number.
pub(super) fn key(number: u64) -> Bytes {
    Bytes::from([PREFIX, hex(&number.to_be_bytes()).as_bytes()].concat())
}

/// The number of the revocation with this key.
pub(super) fn number_of(key: &[u8]) -> Option<u64> {
    unhex(key.strip_prefix(PREFIX)?).map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::coding::damage::damaged;

    fn all_kinds() -> Vec<Bytes> {
        let nobody = VerifiedPrincipal::unauthenticated();
        let kinds = [
            Revocation::principal(&nobody),
            Revocation::session("id"),
            Revocation::slot(SlotNumber::FIRST),
            Revocation::before(7),
            Revocation::principal_before(&nobody, 7),
        ];
        kinds.map(|kind| kind.encode(9)).to_vec()
    }

    #[test]
    fn rows_come_back_and_nothing_else_is_read() {
        let nobody = VerifiedPrincipal::unauthenticated();
        for revocation in [
            Revocation::principal(&nobody),
            Revocation::session("id"),
            Revocation::slot(SlotNumber::FIRST),
            Revocation::before(7),
            Revocation::principal_before(&nobody, 7),
        ] {
            let row = revocation.encode(9);
            assert_eq!(Revocation::decode(row.clone()).unwrap(), (revocation, 9));
            for length in 0..row.len() {
                assert!(Revocation::decode(row.slice(..length)).is_err());
            }
            assert!(Revocation::decode([row.as_ref(), &[0]].concat().into()).is_err());
        }
        assert!(Revocation::decode(vec![1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 16].into()).is_err());
        assert_eq!(number_of(&key(77)), Some(77));
    }

    proptest! {
        #[test]
        fn counts_that_are_read_are_written_the_same(
            row in damaged(vec![Counts { added: 7, lifted: 1 }.encode()]),
        ) {
            if let Ok(read) = Counts::decode(row.clone()) {
                prop_assert_eq!(read.encode(), row);
            }
        }

        #[test]
        fn whatever_is_read_is_written_the_same(row in damaged(all_kinds())) {
            if let Ok(read) = Revocation::decode(row.clone()) {
                prop_assert_eq!(read.0.encode(read.1), row);
            }
        }
    }
}
