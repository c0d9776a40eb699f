//! What everything follows from: the seed, the time, and what is broken on purpose.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use handback_stream::StreamKey;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::report::{Broken, Report};

pub(crate) struct Fate {
    pub(crate) rng: StdRng,
    pub(crate) broken: Broken,
    pub(crate) tick: u64,
    /// The server's clock.
    pub(crate) now: u64,
    /// Whether things still go wrong.
    pub(crate) is_busy: bool,
    pub(crate) report: Report,
    trace: DefaultHasher,
}

impl Fate {
    pub(crate) fn new(seed: u64, broken: Broken) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            broken,
            tick: 0,
            now: 1_000_000_000,
            is_busy: true,
            report: Report { seed, ..Report::default() },
            trace: DefaultHasher::new(),
        }
    }

    /// Clocks go at their own pace, and jump.
    pub(crate) fn pass_time(&mut self, is_busy: bool) {
        const HOURS_3: u64 = 3 * 3_600_000;
        self.tick += 1;
        self.is_busy = is_busy;
        self.now = match self.rng.random_range(0..400) {
            0 | 1 => self.now.saturating_sub(HOURS_3),
            2 | 3 => self.now + HOURS_3,
            4..10 => self.now + self.rng.random_range(500..5_000),
            10..12 => self.now.saturating_sub(self.rng.random_range(500..5_000)),
            _ => self.now + self.rng.random_range(0..5),
        };
    }

    pub(crate) fn one_in(&mut self, times: u32) -> bool {
        self.rng.random_range(0..times) == 0
    }

    /// As [`Fate::one_in`], while things still go wrong.
    pub(crate) fn busy_one_in(&mut self, times: u32) -> bool {
        self.one_in(times) && self.is_busy
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.rng.random_range(0..bound.max(1))
    }

    pub(crate) fn fault(&mut self, fault: impl AsRef<str>) {
        self.report.faults.push(format!("tick {}: {}", self.tick, fault.as_ref()));
    }

    pub(crate) fn faults(&mut self, faults: impl IntoIterator<Item = String>) {
        faults.into_iter().for_each(|fault| self.fault(fault));
    }

    pub(crate) fn trace(&mut self, what: impl Hash) {
        (self.tick, what).hash(&mut self.trace);
    }

    pub(crate) fn digest(&self) -> u64 {
        self.trace.finish()
    }
}

/// The key of every stream that has one.
pub(crate) fn right_key() -> StreamKey {
    StreamKey::from_bytes(&[0x17; 32])
}

/// Another one.
pub(crate) fn wrong_key() -> StreamKey {
    StreamKey::from_bytes(&[0x18; 32])
}
