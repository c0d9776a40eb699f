//! What was measured, and the one statistic of it.
//!
//! A number is the median over the rounds. A ratio is the median over the rounds of the ratios
//! within a round, so that what else the machine did in a round hits both sides of it.

use bench_kit::spread::Spread;

use crate::contender::Contender;
use crate::turns::Level;

/// What one turn gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Calls in a second.
    pub(crate) rate: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Microseconds of the proxy's processors per call.
    pub(crate) cpu_us: Option<f64>,
}

/// One turn of one contender.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) level: Level,
    pub(crate) contender: Contender,
    pub(crate) round: usize,
    pub(crate) outcome: Result<Sample, String>,
}

/// All turns.
#[derive(Debug, Default)]
pub(crate) struct Turns(pub(crate) Vec<Turn>);

/// A number of a sample.
pub(crate) type Value = fn(&Sample) -> Option<f64>;

impl Turns {
    /// A number of a contender over all of its turns.
    pub(crate) fn spread(&self, level: Level, who: Contender, value: Value) -> Option<Spread> {
        let samples = self.of(level, who);
        Spread::of(samples.filter_map(|(_, sample)| value(sample)).collect())
    }

    /// Calls in a second, of one over those of the other in the same round.
    pub(crate) fn rate_ratio(&self, level: Level, [who, of]: [Contender; 2]) -> Option<Spread> {
        let ratio = |(round, sample): (usize, &Sample)| {
            Some(sample.rate / self.in_round(level, of, round)?.rate)
        };
        Spread::of(self.of(level, who).filter_map(ratio).collect())
    }

    /// What a contender adds to the median of a call, in milliseconds, by round.
    pub(crate) fn added(&self, level: Level, who: Contender) -> Option<Spread> {
        let added = |(round, _)| self.added_in(level, who, round);
        Spread::of(self.of(level, who).filter_map(added).collect())
    }

    /// What one adds to the median of a call, over what the other adds in the same round. Rounds in
    /// which the other one adds nothing say nothing.
    pub(crate) fn added_ratio(&self, level: Level, [who, of]: [Contender; 2]) -> Option<Spread> {
        let ratio = |(round, _)| {
            let of = self.added_in(level, of, round).filter(|added| *added > 0.0)?;
            Some(self.added_in(level, who, round)? / of)
        };
        Spread::of(self.of(level, who).filter_map(ratio).collect())
    }

    /// How many turns failed, and why the last one did.
    pub(crate) fn failures(&self, level: Level, who: Contender) -> (usize, &str) {
        let turns = self.0.iter().filter(|turn| (turn.level, turn.contender) == (level, who));
        let failed: Vec<&str> =
            turns.filter_map(|turn| turn.outcome.as_ref().err().map(String::as_str)).collect();
        (failed.len(), failed.last().copied().unwrap_or_default())
    }

    fn added_in(&self, level: Level, who: Contender, round: usize) -> Option<f64> {
        let direct = self.in_round(level, Contender::Direct, round)?;
        Some(self.in_round(level, who, round)?.p50_ms - direct.p50_ms)
    }

    fn in_round(&self, level: Level, who: Contender, round: usize) -> Option<&Sample> {
        self.of(level, who).find(|(at, _)| *at == round).map(|(_, sample)| sample)
    }

    fn of(&self, level: Level, who: Contender) -> impl Iterator<Item = (usize, &Sample)> {
        let turns = self.0.iter().filter(move |t| (t.level, t.contender) == (level, who));
        turns.filter_map(|turn| Some((turn.round, turn.outcome.as_ref().ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Era;

    use Contender::{Direct, Handback, McpProxy};

    const LEVEL: Level = Level { era: Era::Legacy, callers: 1 };

    fn turns(rounds: &[[(f64, f64); 3]]) -> Turns {
        let mut all = Vec::new();
        for (round, samples) in rounds.iter().enumerate() {
            for (contender, &(rate, p50_ms)) in
                [Direct, Handback, McpProxy].into_iter().zip(samples)
            {
                let outcome = Ok(Sample { rate, p50_ms, p99_ms: 9.0, cpu_us: None });
                all.push(Turn { level: LEVEL, contender, round, outcome });
            }
        }
        Turns(all)
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let turns = turns(&[
            [(100.0, 1.0), (50.0, 2.0), (25.0, 3.0)],
            [(10.0, 10.0), (6.0, 20.0), (2.0, 50.0)],
            [(10.0, 10.0), (8.0, 12.0), (2.0, 11.0)],
        ]);
        let pair = [Handback, McpProxy];
        let rate = turns.rate_ratio(LEVEL, pair).unwrap();
        assert_eq!((rate.median, rate.min, rate.max), (3.0, 2.0, 4.0));
        let added = turns.added_ratio(LEVEL, pair).unwrap();
        assert_eq!((added.median, added.min, added.max), (0.5, 0.25, 2.0));
        assert_eq!(turns.added(LEVEL, Handback).unwrap().median, 2.0);
    }

    #[test]
    fn a_round_without_one_side_says_nothing() {
        let mut turns = turns(&[[(10.0, 1.0), (5.0, 2.0), (5.0, 2.0)]]);
        turns.0.retain(|turn| turn.contender != McpProxy);
        assert_eq!(turns.rate_ratio(LEVEL, [Handback, McpProxy]), None);
        assert_eq!(turns.added_ratio(LEVEL, [Handback, McpProxy]), None);
        let outcome = Err("gone".to_owned());
        turns.0.push(Turn { level: LEVEL, contender: McpProxy, round: 1, outcome });
        assert_eq!(turns.failures(LEVEL, McpProxy), (1, "gone"));
        assert_eq!(turns.failures(LEVEL, Handback), (0, ""));
    }

    #[test]
    fn a_peer_that_adds_nothing_gives_no_ratio() {
        let turns = turns(&[[(10.0, 2.0), (5.0, 3.0), (9.0, 2.0)]]);
        assert_eq!(turns.added_ratio(LEVEL, [Handback, McpProxy]), None);
    }
}
