//! Revocations in memory.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use handback_identity::VerifiedPrincipal;
use handback_token::SlotNumber;

use super::STALE_AFTER_MS;
use super::row::{Counts, Kind, Revocation, principal_hash, session_hash};
use crate::Millis;
use crate::coding::HASH_BYTES;

/// What is asked about.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Subject<'a> {
    principal: &'a VerifiedPrincipal,
    born: Option<Millis>,
    slot: Option<SlotNumber>,
    session: Option<&'a str>,
}

impl<'a> Subject<'a> {
    /// Something of this principal, of which nothing else is known. Cut-offs concern it: what does
    /// not say when it was born may have been born before.
    pub const fn of(principal: &'a VerifiedPrincipal) -> Self {
        Self { principal, born: None, slot: None, session: None }
    }

    /// When it was born, at the earliest. A cursor says when it ends: it was born at most the time to
    /// live of cursors before that.
    pub const fn born(mut self, born: Millis) -> Self {
        self.born = Some(born);
        self
    }

    /// Under which key it was sealed.
    pub const fn slot(mut self, slot: SlotNumber) -> Self {
        self.slot = Some(slot);
        self
    }

    /// To which session it belongs.
    pub const fn session(mut self, id: &'a str) -> Self {
        self.session = Some(id);
        self
    }
}

/// All revocations at one moment. Cheap to clone.
#[derive(Clone)]
#[must_use]
pub struct Revocations {
    pub(super) loaded_at: Millis,
    pub(super) listed: Arc<Listed>,
}

pub(super) struct Listed {
    pub(super) counts: Counts,
    /// By number, with the end of their lives.
    pub(super) all: HashMap<u64, (Revocation, Millis)>,
    /// When the first of them ends.
    pub(super) first_end: Option<Millis>,
    /// The same, to look up.
    named: HashSet<Kind>,
    before: Option<Millis>,
    principals_before: HashMap<[u8; HASH_BYTES], Millis>,
    has_names: Names,
}

/// Which kinds of names there are at all: without any, nothing is hashed.
#[derive(Clone, Copy, Debug, Default)]
struct Names {
    principals: bool,
    sessions: bool,
}

impl Listed {
    pub(super) fn new(counts: Counts, all: HashMap<u64, (Revocation, Millis)>) -> Self {
        let mut listed = Self {
            counts,
            first_end: all.values().map(|(_, until)| *until).min(),
            named: HashSet::new(),
            before: None,
            principals_before: HashMap::new(),
            has_names: Names::default(),
            all: HashMap::new(),
        };
        for (Revocation(kind), _) in all.values() {
            listed.add(*kind);
        }
        listed.all = all;
        listed
    }

    fn add(&mut self, kind: Kind) {
        match kind {
            Kind::Before(moment) => self.before = self.before.max(Some(moment)),
            Kind::PrincipalBefore(hash, moment) => {
                let latest = self.principals_before.entry(hash).or_default();
                *latest = moment.max(*latest);
                self.has_names.principals = true;
            }
            Kind::Principal(_) | Kind::Session(_) | Kind::Slot(_) => {
                self.named.insert(kind);
                self.has_names.principals |= matches!(kind, Kind::Principal(_));
                self.has_names.sessions |= matches!(kind, Kind::Session(_));
            }
        }
    }
}

impl Revocations {
    /// When it was loaded.
    #[must_use]
    pub const fn loaded_at(&self) -> Millis {
        self.loaded_at
    }

    /// Whether it is too old for what may be used once, and for request state. If the clock went
    /// back since it was loaded, nobody knows how old it is, and it is.
    #[must_use]
    pub const fn is_stale(&self, now: Millis) -> bool {
        match now.checked_sub(self.loaded_at) {
            Some(age) => age > STALE_AFTER_MS,
            None => true,
        }
    }

    /// Whether more was revoked or lifted when another one was read from the same store. Clocks
    /// say nothing of this: they go back, and whoever reads may be slow.
    #[must_use]
    pub fn is_behind(&self, other: &Self) -> bool {
        self.listed.counts < other.listed.counts
    }

    /// The same, loaded at this moment: for whoever knows by a better clock when that was.
    pub const fn with_loaded_at(mut self, moment: Millis) -> Self {
        self.loaded_at = moment;
        self
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.listed.all.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.listed.all.is_empty()
    }

    /// All of them, in the order in which they were made, by number.
    #[must_use]
    pub fn list(&self) -> Vec<(u64, Revocation)> {
        let mut list: Vec<_> = self
            .listed
            .all
            .iter()
            .map(|(number, (revocation, _))| (*number, *revocation))
            .collect();
        list.sort_unstable_by_key(|(number, _)| *number);
        list
    }

    /// Whether something is not good any more.
    #[must_use]
    pub fn is_revoked(&self, subject: &Subject<'_>) -> bool {
        let listed = &*self.listed;
        if listed.all.is_empty() {
            return false;
        }
        let is_before = |cut_off: Millis| subject.born.is_none_or(|born| born < cut_off);
        let has = |kind| listed.named.contains(&kind);
        if listed.before.is_some_and(is_before)
            || subject.slot.is_some_and(|slot| has(Kind::Slot(slot)))
        {
            return true;
        }
        if listed.has_names.sessions
            && subject.session.is_some_and(|id| has(Kind::Session(session_hash(id))))
        {
            return true;
        }
        if !listed.has_names.principals {
            return false;
        }
        let principal = principal_hash(subject.principal);
        has(Kind::Principal(principal))
            || listed.principals_before.get(&principal).is_some_and(|&cut_off| is_before(cut_off))
    }
}

impl fmt::Debug for Revocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Revocations")
            .field("loaded_at", &self.loaded_at)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
