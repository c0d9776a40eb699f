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

/// What was measured, in microseconds, each with the round that it was measured in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Vec<(usize, f64)>);

impl Times {
    /// Calls `work` so often in this round, and notes how long it took on average.
    pub(crate) fn add<T>(
        &mut self,
        round: usize,
        calls: u32,
        mut work: impl FnMut() -> Result<T>,
    ) -> Result<()> {
        let start = Instant::now();
        for _ in 0..calls {
            black_box(work()?);
        }
        self.0.push((round, start.elapsed().as_secs_f64() * 1e6 / f64::from(calls)));
        Ok(())
    }

    /// The lower quartile, the median and the upper one.
    pub(crate) fn quartiles(&self) -> [f64; 3] {
        quartiles(self.0.iter().map(|(_, time)| *time).collect())
    }

    /// The quartiles of the ratios to another's times of the same rounds.
    pub(crate) fn ratios_to(&self, other: &Self) -> [f64; 3] {
        let ratio = |(round, time): &(usize, f64)| {
            let of_round = other.0.iter().find(|(other, _)| other == round);
            of_round.map(|(_, other)| time / other)
        };
        quartiles(self.0.iter().filter_map(ratio).collect())
    }
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_unstable_by(f64::total_cmp);
    let at = |quarters: usize| values.get((values.len() * quarters / 4).min(values.len() - 1));
    if values.is_empty() {
        return [f64::NAN; 3];
    }
    [1, 2, 3].map(|quarters| at(quarters).copied().unwrap_or(f64::NAN))
}

/// Everyone has a turn in every round, or in some; the first round only warms up. Every other round
/// goes backwards, so that nobody is always the first of two neighbours.
pub(crate) fn interleave<W, T>(
    effort: &Effort,
    turns: &[(W, Turn)],
    mut work: impl FnMut(&W) -> Result<T>,
) -> Result<Vec<Times>> {
    let mut times = vec![Times::default(); turns.len()];
    for round in 0..=effort.rounds {
        let is_seldom = round % effort.rounds.div_ceil(effort.seldom) == 1 % effort.rounds;
        let mut order: Vec<_> = turns.iter().zip(&mut times).collect();
        if !round.is_multiple_of(2) {
            order.reverse();
        }
        for ((who, turn), times) in order {
            let calls = match turn {
                Turn::Always => effort.batch,
                Turn::Seldom if is_seldom => 1,
                Turn::Seldom => continue,
            };
            let mut unused = Times::default();
            let times = if round == 0 { &mut unused } else { times };
            times.add(round, calls, || work(who))?;
        }
    }
    Ok(times)
}
