//! Proving that records are what the server committed.
//!
//! What is proved: every record from where the verifier started up to the last commit that it was
//! shown is what a server with this key committed, in this order, with none left out between. What
//! is not: that there is nothing after it (the head that was kept from an earlier read shows a
//! rollback, and the signed end of a closed stream shows a cut), and that what came before the start
//! is still the same, unless its head was kept.

use bytes::Bytes;

use crate::chain::{Entry, Head, NO_HEAD, Path, signed_bytes};
use crate::name::StreamId;
use crate::record::{Kind, Record};
use crate::sign::{PublicKey, SIGNATURE_BYTES};

/// A signed commit, as far as it concerns one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "clients make it from what they received")]
pub struct CommitProof {
    /// The number of the commit.
    pub commit: u64,
    /// When, in milliseconds since 1970.
    pub time: u64,
    /// Where the stream stood.
    pub number: u64,
    /// Its head.
    pub head: Head,
    /// What leads from there to the root.
    pub path: Path,
    /// The signature of the root.
    pub signature: [u8; SIGNATURE_BYTES],
}

/// Why records are not proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A record is missing, or is there twice.
    #[error("record {expected} is missing")]
    Missing {
        /// The number that should come.
        expected: u64,
    },
    /// Bytes that are no record.
    #[error("record {number} is not one")]
    Malformed {
        /// Its number.
        number: u64,
    },
    /// A record after the end.
    #[error("there are records after the end")]
    AfterEnd,
    /// The first record does not fit what the stream was forked from.
    #[error("the fork does not fit what it was forked from")]
    Fork,
    /// The records do not lead to what was signed.
    #[error("the records up to {number} are not those that were signed")]
    Head {
        /// The last of them.
        number: u64,
    },
    /// No key of the server signed this.
    #[error("the signature of commit {commit} is not the server's")]
    Signature {
        /// The commit.
        commit: u64,
    },
}

/// Takes the records of a stream one after the other.
#[derive(Clone, Debug)]
pub struct Verifier {
    keys: Vec<PublicKey>,
    stream: StreamId,
    next: u64,
    head: Head,
    is_closed: bool,
    proved: Option<(u64, Head)>,
}

impl Verifier {
    /// From the first record of a stream on, which has this number.
    #[must_use]
    pub const fn from_start(stream: StreamId, start: u64, keys: Vec<PublicKey>) -> Self {
        Self { keys, stream, next: start, head: NO_HEAD, is_closed: false, proved: None }
    }

    /// From a place on whose head was kept.
    #[must_use]
    pub const fn after(stream: StreamId, number: u64, head: Head, keys: Vec<PublicKey>) -> Self {
        Self { keys, stream, next: number + 1, head, is_closed: false, proved: None }
    }

    /// Takes the next record. `source` is where the stream that this was forked from stood, if it
    /// was verified before.
    ///
    /// # Errors
    ///
    /// [`VerifyError`] if it is not the next one.
    pub fn record(
        &mut self,
        number: u64,
        bytes: &Bytes,
        source: Option<(StreamId, u64, Head)>,
    ) -> Result<Record, VerifyError> {
        if self.is_closed {
            return Err(VerifyError::AfterEnd);
        }
        if number != self.next {
            return Err(VerifyError::Missing { expected: self.next });
        }
        let record = Record::decode(bytes).ok_or(VerifyError::Malformed { number })?;
        match (&record.kind, self.head == NO_HEAD) {
            (Kind::Genesis(genesis), true) => {
                // The head says also in which log that is. The id is that of the stream which was
                // forked, and what that shows there may be another's.
                let names = genesis.parent.map(|p| (p.number, Head::from_bytes(p.head)));
                if source.is_some() && names != source.map(|(_, number, head)| (number, head)) {
                    return Err(VerifyError::Fork);
                }
            }
            (Kind::Genesis(_), false) | (_, true) => {
                return Err(VerifyError::Malformed { number });
            }
            _ => {}
        }
        self.head = self.head.after(self.stream, number, bytes);
        self.next = number + 1;
        self.is_closed = record.closes() || record.kind == Kind::End;
        Ok(record)
    }

    /// Takes a commit that ends with the last record.
    ///
    /// # Errors
    ///
    /// [`VerifyError`] if it does not prove the records.
    pub fn commit(&mut self, proof: &CommitProof) -> Result<(), VerifyError> {
        let entry = Entry { stream: self.stream, number: proof.number, head: proof.head };
        let signed = signed_bytes(proof.commit, proof.time, &proof.path.root(&entry));
        if !self.keys.iter().any(|key| key.verifies(&signed, &proof.signature)) {
            return Err(VerifyError::Signature { commit: proof.commit });
        }
        if proof.number + 1 != self.next || proof.head != self.head {
            return Err(VerifyError::Head { number: proof.number });
        }
        self.proved = Some((proof.number, proof.head));
        Ok(())
    }

    /// The last record that is proved, and the head to be kept.
    #[must_use]
    pub const fn proved(&self) -> Option<(u64, Head)> {
        self.proved
    }

    /// Whether the stream ended with the last record.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Where it stands: the last record that was taken, and its head.
    #[must_use]
    pub const fn last(&self) -> (StreamId, u64, Head) {
        (self.stream, self.next.saturating_sub(1), self.head)
    }
}
