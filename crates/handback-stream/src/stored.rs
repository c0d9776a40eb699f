//! What the log holds: records with their heads, commits and signatures.
//!
//! ```text
//! record    = commit u64be || head (32) || record
//! commit    = 01 || time u64be || entries u32be || entry …      (log COMMITS, by commit)
//! signature = 01 || key id (8) || signature (64)                 (log SIGNATURES, by commit)
//! ```

use bytes::Bytes;

use crate::chain::{Entry, Head, Path, root, signed_bytes};
use crate::name::StreamId;
use crate::sign::{KeyId, PublicKey, SIGNATURE_BYTES, SigningKey};
use crate::wire::{Reader, Writer};

const VERSION: u8 = 1;

/// A record as the log holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// The commit that it was written in.
    pub commit: u64,
    /// The head after it.
    pub head: Head,
    /// The record.
    pub record: Bytes,
}

const STORED_BYTES: usize = 8 + 32;

impl Stored {
    pub(crate) fn encode(commit: u64, head: Head, record: &[u8]) -> Bytes {
        let mut out = Writer::with_capacity(STORED_BYTES + record.len());
        out.u64(commit);
        out.raw(head.as_bytes());
        out.raw(record);
        out.finish().into()
    }

    /// Whether it is the first record of a stream, which has the number of one that it shares.
    #[must_use]
    pub fn is_genesis(&self) -> bool {
        self.record.get(1) == Some(&0)
    }

    /// The same of a record that is still as the log holds it.
    #[must_use]
    pub fn is_genesis_in(bytes: &[u8]) -> bool {
        bytes.get(STORED_BYTES + 1) == Some(&0)
    }

    /// From the log. The record shares the bytes.
    #[must_use]
    pub fn decode(bytes: &Bytes) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let (commit, head) = (reader.u64()?, Head::from_bytes(reader.array()?));
        Some(Self { commit, head, record: bytes.slice_ref(reader.rest()) })
    }
}

/// A commit: where the streams stood that it wrote to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Commit {
    /// Its number.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub time: u64,
    /// Sorted by stream.
    pub entries: Vec<Entry>,
}

const ENTRY_BYTES: usize = 24 + 8 + 32;

impl Commit {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::with_capacity(13 + ENTRY_BYTES * self.entries.len());
        out.u8(VERSION);
        out.u64(self.time);
        out.u32(u32::try_from(self.entries.len()).unwrap_or(u32::MAX));
        for entry in &self.entries {
            out.raw(entry.stream.as_bytes());
            out.u64(entry.number);
            out.raw(entry.head.as_bytes());
        }
        out.finish().into()
    }

    /// From the log.
    #[must_use]
    pub fn decode(number: u64, bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let time = reader.u64()?;
        let count = usize::try_from(reader.u32()?).ok()?;
        if reader.rest().len() != count.checked_mul(ENTRY_BYTES)? {
            return None;
        }
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let stream = StreamId::from_bytes(reader.array()?);
            let (last, head) = (reader.u64()?, Head::from_bytes(reader.array()?));
            entries.push(Entry { stream, number: last, head });
        }
        Some(Self { number, time, entries })
    }

    /// What is signed of it.
    #[must_use]
    pub fn signed(&self) -> Vec<u8> {
        signed_bytes(self.number, self.time, &root(&self.entries))
    }

    /// Where a stream stood, and what leads from there to what is signed.
    #[must_use]
    pub fn proof(&self, stream: StreamId) -> Option<(Entry, Path)> {
        let place = self.entries.iter().position(|entry| entry.stream == stream)?;
        Some((*self.entries.get(place)?, Path::new(&self.entries, place)))
    }

    /// Signs it.
    #[must_use]
    pub fn sign(&self, key: &SigningKey) -> Signature {
        Signature { commit: self.number, key: key.public().id(), bytes: key.sign(&self.signed()) }
    }
}

/// The signature of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Signature {
    /// Of which commit.
    pub commit: u64,
    /// By which key.
    pub key: KeyId,
    /// The signature.
    pub bytes: [u8; SIGNATURE_BYTES],
}

impl Signature {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::with_capacity(1 + 8 + SIGNATURE_BYTES);
        out.u8(VERSION);
        out.raw(self.key.as_bytes());
        out.raw(&self.bytes);
        out.finish().into()
    }

    /// From the log.
    #[must_use]
    pub fn decode(commit: u64, bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let (key, bytes) = (KeyId::from_bytes(reader.array()?), reader.array()?);
        reader.is_done().then_some(Self { commit, key, bytes })
    }

    /// Whether the commit is what this key signed.
    #[must_use]
    pub fn verifies(&self, commit: &Commit, key: &PublicKey) -> bool {
        self.commit == commit.number
            && self.key == key.id()
            && key.verifies(&commit.signed(), &self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_and_signatures_come_back_and_nothing_else_does() {
        let entry = |number: u8| Entry {
            stream: StreamId::from_bytes([number; 24]),
            number: number.into(),
            head: Head::from_bytes([number; 32]),
        };
        let commit = Commit { number: 7, time: 9, entries: vec![entry(1), entry(2)] };
        let bytes = commit.encode();
        assert_eq!(Commit::decode(7, &bytes), Some(commit.clone()));
        let key = SigningKey::from_seed(&[1; 32]).unwrap();
        let signature = commit.sign(&key);
        let signed = signature.encode();
        assert_eq!(Signature::decode(7, &signed), Some(signature));
        assert!(signature.verifies(&commit, key.public()));
        for length in 0..bytes.len() {
            assert_eq!(Commit::decode(7, &bytes[..length]), None);
        }
        for length in 0..signed.len() {
            assert_eq!(Signature::decode(7, &signed[..length]), None);
        }
        for place in 0..bytes.len() {
            let mut other = bytes.to_vec();
            other[place] ^= 1;
            let other = Commit::decode(7, &other);
            assert!(other.is_none_or(|other| !signature.verifies(&other, key.public())));
        }
        let later = Commit { number: 8, ..commit };
        assert!(!signature.verifies(&later, key.public()));
    }
}
