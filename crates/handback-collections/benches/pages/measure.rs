//! Interleaved measuring.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;

/// How long to measure.
pub(crate) struct Effort {
    /// Rounds that count.
    pub(crate) rounds: usize,
    /// In so many of them those take part that seldom do.
    pub(crate) seldom: usize,
    /// Calls of a turn.
    pub(crate) batch: u32,
}

impl Effort {
    pub(crate) const FULL: Self = Self { rounds: 400, seldom: 7, batch: 20 };
    pub(crate) const SMOKE: Self = Self { rounds: 2, seldom: 1, batch: 2 };

    pub(crate) const fn of(smoke: bool) -> Self {
        if smoke { Self::SMOKE } else { Self::FULL }
    }
}

/// How often someone takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A batch in each round.
    Always,
    /// A single call in a few rounds: it is slow.
    Seldom,
}

/// What was measured, in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    /// Calls `work` so often, and notes how long it took on average.
    pub(crate) fn add<T>(&mut self, calls: u32, mut work: impl FnMut() -> Result<T>) -> Result<()> {
        let start = Instant::now();
        for _ in 0..calls {
            black_box(work()?);
        }
        self.0.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(calls));
        Ok(())
    }

    pub(crate) fn min(&self) -> f64 {
        self.0.iter().copied().min_by(f64::total_cmp).unwrap_or(f64::NAN)
    }

    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Everyone has a turn in every round, or in some; the first round only warms up.
pub(crate) fn interleave<W, T>(
    effort: &Effort,
    turns: &[(W, Turn)],
    mut work: impl FnMut(&W) -> Result<T>,
) -> Result<Vec<Times>> {
    let mut times = vec![Times::default(); turns.len()];
    for round in 0..=effort.rounds {
        let is_seldom = round % effort.rounds.div_ceil(effort.seldom) == 1 % effort.rounds;
        for ((who, turn), times) in turns.iter().zip(&mut times) {
            let calls = match turn {
                Turn::Always => effort.batch,
                Turn::Seldom if is_seldom => 1,
                Turn::Seldom => continue,
            };
            let mut unused = Times::default();
            let times = if round == 0 { &mut unused } else { times };
            times.add(calls, || work(who))?;
        }
    }
    Ok(times)
}
