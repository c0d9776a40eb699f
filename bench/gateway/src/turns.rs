//! The same calls through every way, in turns.
//!
//! All proxies and all callers' sessions are there before the first turn. A turn is a number of
//! calls; whoever has no turn is stopped. In each round every way has one turn, and each is the first
//! one as often as the others.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bench_kit::server::Running;
use bench_kit::spread::percentiles;
use tokio::task::JoinSet;

use crate::caller::{Caller, Era};
use crate::contender::Way;
use crate::sample::{Sample, Turn, Turns};

/// What is measured at once: how many call, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) era: Era,
    pub(crate) callers: u64,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { era, callers } = self;
        let plural = if *callers == 1 { "" } else { "s" };
        write!(f, "{callers} caller{plural}, {}", era.version())
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Turns of each way.
    pub(crate) rounds: usize,
    /// Turns of those that are slow.
    pub(crate) slow_rounds: usize,
    /// A quick look at everything.
    pub(crate) is_smoke: bool,
}

impl Effort {
    /// Calls of a turn: a fraction of a second for those that are fast, some seconds for those that
    /// are slow; never fewer than one per caller.
    fn calls(&self, callers: u64, is_slow: bool) -> u64 {
        match (self.is_smoke, is_slow) {
            (true, _) => 2 * callers,
            (false, true) => 8 + callers,
            (false, false) => 400 + 90 * callers,
        }
    }

    /// Whether those that are slow have a turn in a round.
    fn has_slow(&self, round: usize) -> bool {
        round.is_multiple_of(self.rounds.div_ceil(self.slow_rounds.max(1)))
    }
}

/// Calls of each caller before its first turn, and before each.
const WARM_UP_FIRST: u64 = 20;
const WARM_UP: u64 = 1;

/// What no turn should need, a slow proxy included.
const TURN_MAX: Duration = Duration::from_secs(60);

/// Measures one level of all ways. One that fails is out from then on.
pub(crate) async fn measure(ways: &[Way], level: Level, effort: &Effort) -> Turns {
    let mut turns = Turns::default();
    let mut lanes = Vec::new();
    for way in ways.iter().filter(|way| way.contender.speaks(level.era)) {
        way.go_on();
        let lane = Lane::open(way, level).await;
        way.pause();
        lanes.push((way, lane));
    }
    for round in 0..effort.rounds {
        let first = round % lanes.len().max(1);
        for at in (first..lanes.len()).chain(0..first) {
            let Some((way, lane)) = lanes.get_mut(at) else { continue };
            if way.contender.is_slow() && !effort.has_slow(round) {
                continue;
            }
            let calls = effort.calls(level.callers, way.contender.is_slow());
            let outcome = match lane {
                Ok(lane) => lane.turn(calls).await.map_err(|error| format!("{error:#}")),
                // Told once.
                Err(_) if round > 0 => continue,
                Err(error) => Err(format!("{error:#}")),
            };
            if let Err(why) = &outcome {
                *lane = Err(anyhow::anyhow!("{why}"));
            }
            turns.0.push(Turn { level, contender: way.contender, round, outcome });
        }
    }
    ways.iter().for_each(Way::go_on);
    turns
}

/// One way with all who call through it.
struct Lane<'w> {
    way: &'w Way,
    callers: Vec<Caller>,
}

impl<'w> Lane<'w> {
    /// Opens all sessions, one after the other, and warms up.
    async fn open(way: &'w Way, level: Level) -> Result<Self> {
        let mut callers = Vec::new();
        for number in 0..level.callers {
            callers.push(Caller::open(way.endpoint, level.era, number).await?);
        }
        let mut lane = Self { way, callers };
        let warm_up = if way.contender.is_slow() { WARM_UP } else { WARM_UP_FIRST };
        lane.run(warm_up * level.callers).await?;
        Ok(lane)
    }

    async fn turn(&mut self, calls: u64) -> Result<Sample> {
        self.way.go_on();
        let outcome = tokio::time::timeout(TURN_MAX, self.measured(calls)).await;
        self.way.pause();
        outcome.context("it took too long")?
    }

    async fn measured(&mut self, calls: u64) -> Result<Sample> {
        self.run(WARM_UP * self.callers.len() as u64).await?;
        let cpu_before = self.cpu()?;
        let start = Instant::now();
        let took = self.run(calls).await?;
        let seconds = start.elapsed().as_secs_f64();
        let cpu = self.cpu()?.zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
        ensure!(took.len() as u64 == calls, "{} calls of {calls} were made", took.len());
        let (p50_ms, p99_ms) = percentiles(took);
        let cpu_us = cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / calls as f64);
        Ok(Sample { rate: calls as f64 / seconds, p50_ms, p99_ms, cpu_us })
    }

    /// So many calls by all callers together, each one at a time.
    async fn run(&mut self, calls: u64) -> Result<Vec<Duration>> {
        let left = Arc::new(AtomicU64::new(calls));
        let mut tasks = JoinSet::new();
        for caller in self.callers.drain(..) {
            tasks.spawn(work(caller, Arc::clone(&left)));
        }
        let mut all = Vec::new();
        for done in tasks.join_all().await {
            let (caller, took) = done?;
            self.callers.push(caller);
            all.extend(took);
        }
        Ok(all)
    }

    fn cpu(&self) -> Result<Option<Duration>> {
        self.way.proxy.as_ref().map(Running::cpu).transpose()
    }
}

/// Calls while there is something left to do.
async fn work(mut caller: Caller, left: Arc<AtomicU64>) -> Result<(Caller, Vec<Duration>)> {
    let mut took = Vec::new();
    let take = |left: u64| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        took.push(caller.echo().await?);
    }
    Ok((caller, took))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_ones_have_a_few_turns_from_the_first_round_on() {
        let effort = Effort { rounds: 30, slow_rounds: 5, is_smoke: false };
        let rounds: Vec<usize> = (0..30).filter(|round| effort.has_slow(*round)).collect();
        assert_eq!(rounds, [0, 6, 12, 18, 24]);
        let once = Effort { rounds: 1, slow_rounds: 5, is_smoke: true };
        assert!(once.has_slow(0));
    }

    #[test]
    fn everyone_calls() {
        for is_smoke in [true, false] {
            let effort = Effort { rounds: 1, slow_rounds: 1, is_smoke };
            for is_slow in [true, false] {
                assert!([1, 8, 32].iter().all(|&n| effort.calls(n, is_slow) >= n));
            }
        }
    }
}
