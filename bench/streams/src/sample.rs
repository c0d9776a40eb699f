//! What was measured, and what follows from it.

use bench_kit::spread::Spread;

use crate::contender::Contender;
use crate::scenario::Scenario;

/// What one run gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Events, or megabytes, in a second.
    pub(crate) rate: Option<f64>,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    /// Microseconds of the server's processors per event, delivery or cut.
    pub(crate) cpu_us: Option<f64>,
}

/// One run of one contender.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) scenario: Scenario,
    pub(crate) contender: Contender,
    /// Its turn. Runs of a shared scenario with the same number ran at the same time.
    pub(crate) round: usize,
    pub(crate) outcome: Result<Sample, String>,
}

/// All runs in the order in which they ran.
#[derive(Debug, Default)]
pub(crate) struct Timeline(pub(crate) Vec<Run>);

/// A number of a sample.
pub(crate) type Value = fn(&Sample) -> Option<f64>;

impl Timeline {
    /// A number of a contender over all of its runs.
    pub(crate) fn spread(
        &self,
        scenario: Scenario,
        who: Contender,
        value: Value,
    ) -> Option<Spread> {
        Spread::of(self.values(scenario, who, value).into_iter().map(|(_, value)| value).collect())
    }

    /// One contender's number over another's of the same time. Where they did not run at the same
    /// time, whoever ran more seldom is compared with the mean of the other's runs just before and
    /// just after.
    pub(crate) fn ratio(
        &self,
        scenario: Scenario,
        [who, of]: [Contender; 2],
        value: Value,
    ) -> Option<Spread> {
        let (who, of) = (self.values(scenario, who, value), self.values(scenario, of, value));
        if who.len() <= of.len() {
            let ratio = |&(at, value): &(usize, f64)| Some(value / around(&of, at)?);
            Spread::of(who.iter().filter_map(ratio).collect())
        } else {
            let ratio = |&(at, value): &(usize, f64)| Some(around(&who, at)? / value);
            Spread::of(of.iter().filter_map(ratio).collect())
        }
    }

    /// How many runs failed, of how many, and why the last one did.
    pub(crate) fn failures(&self, scenario: Scenario, who: Contender) -> (usize, usize, &str) {
        let (mut failed, mut all, mut why) = (0, 0, "");
        for run in self.0.iter().filter(|run| (run.scenario, run.contender) == (scenario, who)) {
            all += 1;
            if let Err(error) = &run.outcome {
                failed += 1;
                why = error;
            }
        }
        (failed, all, why)
    }

    /// The numbers of a contender, with the places of its runs.
    fn values(&self, scenario: Scenario, who: Contender, value: Value) -> Vec<(usize, f64)> {
        let runs = self.0.iter().enumerate();
        runs.filter(|(_, run)| (run.scenario, run.contender) == (scenario, who))
            .filter_map(|(at, run)| Some((self.place(at, run), value(run.outcome.as_ref().ok()?)?)))
            .collect()
    }

    /// The place of a run: that of the first one of those that ran at the same time.
    fn place(&self, at: usize, run: &Run) -> usize {
        let beside = |other: &Run| {
            let is_often = !run.contender.is_seldom() && !other.contender.is_seldom();
            let is_same = (run.scenario, run.round) == (other.scenario, other.round);
            run.scenario.is_shared() && is_often && is_same
        };
        self.0.iter().position(beside).unwrap_or(at)
    }
}

/// The value at a place, or the mean of the nearest ones on both sides, or the one that there is.
fn around(values: &[(usize, f64)], place: usize) -> Option<f64> {
    if let Some((_, value)) = values.iter().find(|(at, _)| *at == place) {
        return Some(*value);
    }
    let before = values.iter().rev().find(|(at, _)| *at < place);
    let after = values.iter().find(|(at, _)| *at > place);
    match (before, after) {
        (Some((_, a)), Some((_, b))) => Some(f64::midpoint(*a, *b)),
        (Some((_, one)), None) | (None, Some((_, one))) => Some(*one),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use Contender::{Handback, NodeFile, Wal};

    fn timeline(runs: &[(Contender, f64)]) -> Timeline {
        let run = |(round, &(contender, rate)): (usize, &(Contender, f64))| Run {
            scenario: Scenario::Streams,
            contender,
            round,
            outcome: Ok(Sample { rate: Some(rate), p50_ms: None, p99_ms: None, cpu_us: None }),
        };
        Timeline(runs.iter().enumerate().map(run).collect())
    }

    #[test]
    fn compares_runs_of_the_same_time() {
        let runs = [(Wal, 10.0), (Handback, 20.0), (Wal, 100.0), (Handback, 400.0)];
        let mut timeline = timeline(&runs);
        timeline.0.iter_mut().zip([0, 0, 1, 1]).for_each(|(run, round)| run.round = round);
        let ratio = timeline.ratio(Scenario::Streams, [Handback, Wal], |sample| sample.rate);
        assert_eq!(ratio, Some(Spread { median: 3.0, min: 2.0, max: 4.0 }));
    }

    fn check(runs: &[(Contender, f64)], pair: [Contender; 2], expected: Option<f64>) {
        let ratio = timeline(runs).ratio(Scenario::Streams, pair, |sample| sample.rate);
        assert_eq!(ratio.map(|ratio| ratio.median), expected);
    }

    #[test]
    fn compares_with_the_runs_before_and_after() {
        let runs = [(Wal, 10.0), (Handback, 30.0), (Wal, 20.0)];
        check(&runs, [Handback, Wal], Some(2.0));
        check(&runs, [Wal, Handback], Some(0.5));
    }

    #[test]
    fn compares_runs_that_are_near() {
        let runs = [
            (Wal, 10.0),
            (Handback, 10.0),
            (Wal, 10.0),
            (Handback, 80.0),
            (Wal, 30.0),
            (Handback, 60.0),
            (Wal, 30.0),
        ];
        check(&runs, [Handback, Wal], Some(2.0));
    }

    #[test]
    fn compares_from_the_side_that_ran_more_seldom() {
        let runs = [(Handback, 10.0), (NodeFile, 2.0), (Handback, 30.0), (Handback, 999.0)];
        check(&runs, [Handback, NodeFile], Some(10.0));
    }

    #[test]
    fn there_is_no_ratio_without_both() {
        check(&[(Handback, 1.0)], [Handback, Wal], None);
        check(&[], [Handback, Wal], None);
    }

    #[test]
    fn a_failed_run_does_not_count() {
        let mut timeline = timeline(&[(Wal, 10.0), (Handback, 20.0)]);
        let outcome = Err("lost an event".to_owned());
        timeline.0.push(Run { scenario: Scenario::Streams, contender: Wal, round: 9, outcome });
        let ratio = timeline.ratio(Scenario::Streams, [Handback, Wal], |sample| sample.rate);
        assert_eq!(ratio.map(|ratio| ratio.median), Some(2.0));
        assert_eq!(timeline.failures(Scenario::Streams, Wal), (1, 2, "lost an event"));
    }
}
