//! What was tried lately without a key, for calls where an identical one is another try.
//!
//! Each has a key that somebody gave it, by which the call is recorded in a journal of its own. Both are
//! [written behind](Behind): nobody waits for the disk, and a process that comes after a crash knows all
//! but the last moments.

use std::sync::Arc;

use bytes::Bytes;
use handback_identity::VerifiedPrincipal;

use crate::behind::Behind;
use crate::coding::{FieldHash, Reader, hex, unhex};
use crate::journal::{InstanceId, Journal, JournalError};
use crate::owner::{owner_tag, short};
use crate::{Change, Kv, KvBatch, Millis, StoreError};

const VERSION: u8 = 1;

const PREFIX: &str = "t/r/{";

/// Rows that are read at once.
const PAGE: usize = 256;

/// Tries that are known again after a restart at most: some megabytes. They live for minutes.
pub const MAX_KNOWN_AGAIN: usize = 100_000;

/// Which call of which caller. Callers and arguments are in it as hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TryName {
    owner: [u8; 16],
    what: [u8; 16],
}

impl TryName {
    /// `given` is the fingerprint of what makes two calls identical.
    #[must_use]
    pub fn new(
        principal: &VerifiedPrincipal,
        upstream: &str,
        name: &str,
        given: &[u8; 32],
    ) -> Self {
        let what = FieldHash::new("handback/v1/try")
            .field(upstream.as_bytes())
            .field(name.as_bytes())
            .field(given)
            .finish();
        // Both are names of that length by construction.
        let half = |name: String| unhex(name.as_bytes()).unwrap_or_default();
        Self { owner: half(owner_tag(principal)), what: half(short(&what)) }
    }

    /// Of whom it is.
    #[must_use]
    pub const fn owner(&self) -> [u8; 16] {
        self.owner
    }

    fn key(&self) -> Bytes {
        format!("{PREFIX}{}}}/{}", hex(&self.owner), hex(&self.what)).into()
    }

    fn of_key(key: &[u8]) -> Option<Self> {
        let (owner, rest) = key.strip_prefix(PREFIX.as_bytes())?.split_at_checked(32)?;
        Some(Self { owner: unhex(owner)?, what: unhex(rest.strip_prefix(b"}/")?)? })
    }
}

/// What is remembered of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Try {
    /// The number that its key is made of: random, and of this try only.
    pub number: u128,
    /// Until when an identical call is the same one.
    pub until: Millis,
}

impl Try {
    fn encode(self) -> Bytes {
        let Self { number, until } = self;
        [&[VERSION][..], &number.to_be_bytes(), &until.to_be_bytes()].concat().into()
    }

    fn decode(row: Bytes) -> Result<Self, StoreError> {
        let mut row = Reader::new(row, "what was tried");
        if row.u8()? != VERSION {
            return Err(row.damaged());
        }
        let (number, until) = (u128::from_be_bytes(row.array()?), row.u64()?);
        row.end()?;
        Ok(Self { number, until })
    }
}

/// Where tries are kept, and the calls that were made for them.
#[derive(Debug)]
pub struct Tries {
    behind: Arc<Behind<Arc<dyn Kv>>>,
    journal: Arc<Journal<Arc<dyn Kv>>>,
}

impl Tries {
    /// For one start of an instance. Settles the calls that an earlier start left open.
    ///
    /// # Errors
    ///
    /// [`JournalError`].
    pub fn open(kv: Arc<dyn Kv>, instance: InstanceId, now: Millis) -> Result<Self, JournalError> {
        let behind = Behind::new(kv)
            .map_err(|error| StoreError::Unavailable(format!("no thread for it: {error}")))?;
        let behind = Arc::new(behind);
        let kv: Arc<dyn Kv> = Arc::<Behind<_>>::clone(&behind);
        // The starts of this journal are its own.
        let of_tries = FieldHash::new("handback/v1/tries").field(instance.as_bytes()).finish();
        let instance = InstanceId::from_bytes(*of_tries.first_chunk().expect("a hash is longer"));
        let journal = Journal::open(kv, instance, now)?;
        // Two starts must not have one number.
        behind.flush()?;
        while journal.recover(PAGE, now)?.has_more {}
        Ok(Self { behind, journal: Arc::new(journal) })
    }

    /// The record of the calls.
    #[must_use]
    pub const fn journal(&self) -> &Arc<Journal<Arc<dyn Kv>>> {
        &self.journal
    }

    /// What is known: after a start, what was tried before it.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if that cannot be read.
    pub fn known(&self, now: Millis) -> Result<Vec<(TryName, Try)>, StoreError> {
        let mut known = Vec::new();
        let mut after: Option<Bytes> = None;
        while known.len() < MAX_KNOWN_AGAIN {
            let rows = self.behind.scan(PREFIX.as_bytes(), after.as_deref(), PAGE, now)?;
            let Some((last, _)) = rows.last() else { break };
            after = Some(last.clone());
            for (key, row) in rows {
                let name = TryName::of_key(&key)
                    .ok_or_else(|| StoreError::Damaged("a try has no such name".to_owned()))?;
                known.push((name, Try::decode(row)?));
            }
        }
        Ok(known)
    }

    /// Waits until all of it is on the disk.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn flush(&self) -> Result<(), StoreError> {
        self.behind.flush()
    }

    /// Remembers a try. Does not block; where there is no room for it, it is not known after a crash.
    pub fn put(&self, name: TryName, tried: Try) {
        let until = Some(tried.until);
        self.offer(name, Change::Put { value: tried.encode(), until });
    }

    /// Forgets one.
    pub fn remove(&self, name: TryName) {
        self.offer(name, Change::Remove);
    }

    fn offer(&self, name: TryName, change: Change) {
        let changes = vec![(name.key(), change)];
        if !self.behind.offer(&KvBatch { conditions: Vec::new(), changes }) {
            tracing::warn!("what was tried is not written: too much waits for the disk");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::MemoryStore;
    use crate::coding::damage::damaged;

    fn name(owner: u8, what: u8) -> TryName {
        TryName { owner: [owner; 16], what: [what; 16] }
    }

    #[test]
    fn names_keep_callers_and_calls_apart() {
        let nobody = VerifiedPrincipal::unauthenticated();
        let all = [
            TryName::new(&nobody, "a", "tool", &[0; 32]),
            TryName::new(&nobody, "b", "tool", &[0; 32]),
            TryName::new(&nobody, "atool", "", &[0; 32]),
            TryName::new(&nobody, "a", "tool", &[1; 32]),
        ];
        for (number, one) in all.iter().enumerate() {
            assert_eq!(TryName::of_key(&one.key()), Some(*one));
            assert_eq!(one.owner(), all.first().map(TryName::owner).unwrap_or_default());
            assert!(all.iter().skip(number + 1).all(|other| other != one));
        }
        for wrong in ["t/r/{", "t/r/{00}/00", "j/r/{1}", ""] {
            assert_eq!(TryName::of_key(wrong.as_bytes()), None);
        }
    }

    #[test]
    fn what_was_tried_is_known_after_a_restart() {
        let (kv, instance): (Arc<dyn Kv>, _) =
            (Arc::new(MemoryStore::new()), InstanceId::from_bytes([7; 16]));
        let tries = Tries::open(Arc::clone(&kv), instance, 0).expect("it opens");
        let tried = Try { number: 5, until: 1_000 };
        tries.put(name(1, 1), tried);
        tries.put(name(1, 2), Try { number: 6, until: 10 });
        tries.put(name(2, 1), Try { number: 7, until: 1_000 });
        tries.remove(name(2, 1));
        let epoch = tries.journal().epoch();
        drop(tries);
        let tries = Tries::open(kv, instance, 10).expect("it opens");
        assert_eq!(tries.known(10).expect("it is read"), [(name(1, 1), tried)]);
        assert_eq!(tries.journal().epoch(), epoch + 1);
    }

    proptest! {
        #[test]
        fn rows_come_back_and_damage_is_told(
            number: u128,
            until: u64,
            row in damaged(vec![Try { number: 3, until: 4 }.encode()]),
        ) {
            let tried = Try { number, until };
            prop_assert_eq!(Try::decode(tried.encode()).ok(), Some(tried));
            if let Ok(read) = Try::decode(row.clone()) {
                prop_assert_eq!(read.encode(), row);
            }
        }
    }
}
