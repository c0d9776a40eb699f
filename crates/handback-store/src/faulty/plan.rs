//! What goes wrong, and when.

use std::collections::BTreeMap;

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing is written: no room.
    Full,
    /// Nothing is written: the disk takes no writes.
    Unavailable,
    /// It is written, but not synced: the store is broken. The seed says which of its sectors are
    /// there after recovery.
    Broken {
        /// How many recoveries fail before one succeeds.
        stuck: u32,
    },
    /// The power fails in the middle. The seed says which sectors of the write are there afterwards.
    Crash,
    /// The process dies after the sync, before anyone is told.
    CrashAfterSync,
}

/// When what goes wrong. Writes are counted from 0, over all crashes: commits of logs, batches of
/// values whose conditions held, and sweeps that found something.
#[derive(Clone, Debug)]
#[must_use]
pub struct FaultPlan {
    pub(super) seed: u64,
    pub(super) forgotten: usize,
    pub(super) is_checked: bool,
    at: BTreeMap<u64, Fault>,
    per_mille: u32,
}

impl FaultPlan {
    /// Nothing goes wrong. The seed is for what is left to chance.
    pub const fn new(seed: u64) -> Self {
        Self { seed, forgotten: 0, is_checked: true, at: BTreeMap::new(), per_mille: 0 }
    }

    /// This happens to the write with this number.
    pub fn fault(mut self, number: u64, fault: Fault) -> Self {
        self.at.insert(number, fault);
        self
    }

    /// About so many of a thousand other writes meet some fault.
    pub const fn random(mut self, per_mille: u32) -> Self {
        self.per_mille = per_mille;
        self
    }

    /// Syncs lie: a crash may undo up to so many of the last writes, acknowledged or not.
    pub const fn forgetful(mut self, writes: usize) -> Self {
        self.forgotten = writes;
        self
    }

    /// The journal is opened without a look at its checksums: a write that the power tore comes back
    /// as if it were whole.
    pub const fn unchecked(mut self) -> Self {
        self.is_checked = false;
        self
    }

    /// What happens to a write. Takes the same number of random numbers whatever the answer, so that
    /// one more fault in a plan leaves the rest as it was.
    pub(super) fn of(&self, number: u64, chance: &mut Chance) -> Option<Fault> {
        let (draw, kind) = (chance.below(1_000), chance.below(6));
        let planned = self.at.get(&number).copied();
        planned.or_else(|| (draw < u64::from(self.per_mille)).then(|| Self::kind(kind)))
    }

    const fn kind(kind: u64) -> Fault {
        match kind {
            0 => Fault::Full,
            1 => Fault::Unavailable,
            2 => Fault::Broken { stuck: 0 },
            3 => Fault::Broken { stuck: 2 },
            4 => Fault::Crash,
            _ => Fault::CrashAfterSync,
        }
    }
}

/// Random numbers from a seed: SplitMix64, which is a few instructions and the same everywhere.
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number less than `bound`.
    pub(super) const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
