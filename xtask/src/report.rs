//! Counting what passed, keeping what did not, and printing both.

use std::fmt;
use std::time::Duration;

use anyhow::Result;

use crate::process::{Counts, Finished, tests_marked};

/// How much of a failed command's output the report repeats.
const TAIL_LINES: usize = 200;

/// The outcome of some checks.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    problems: Vec<Problem>,
}

#[derive(Debug)]
struct Problem {
    verdict: &'static str,
    what: String,
    detail: Vec<String>,
}

impl Tally {
    /// Counts one check that passed.
    pub(crate) fn pass(&mut self) {
        self.passed += 1;
    }

    /// Counts one check that failed, with the lines that show why.
    pub(crate) fn fail(&mut self, what: impl Into<String>, detail: Vec<String>) {
        self.failed += 1;
        self.note("FAILED", what.into(), detail);
    }

    /// Counts one check that did not run.
    pub(crate) fn skip(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.skipped += 1;
        self.note("SKIPPED", what.into(), vec![why.into()]);
    }

    /// Counts a check that can not run here: a failure in CI, a skip elsewhere.
    pub(crate) fn unavailable(&mut self, ci: bool, what: &str, why: &str) {
        if ci {
            self.fail(what, vec![why.to_owned()]);
        } else {
            self.skip(what, why);
        }
    }

    /// Counts a command as one check.
    pub(crate) fn check(&mut self, what: &str, outcome: Result<Finished>) {
        match outcome {
            Ok(finished) if finished.success => self.pass(),
            Ok(finished) => self.fail(what, tail(&finished.log)),
            Err(error) => self.error(what, &error),
        }
    }

    /// Counts a list of findings as one check that passes when the list is empty.
    pub(crate) fn findings(&mut self, what: &str, outcome: Result<Vec<String>>) {
        match outcome {
            Ok(findings) if findings.is_empty() => self.pass(),
            Ok(findings) => self.fail(what, findings),
            Err(error) => self.error(what, &error),
        }
    }

    /// Counts each test of a `cargo test` run.
    pub(crate) fn cargo_test(&mut self, what: &str, outcome: Result<Finished>) {
        match outcome {
            Ok(finished) => {
                let counts = Counts::of_cargo_test(&finished.log);
                for test in tests_marked(&finished.log, "ignored") {
                    self.note("SKIPPED", format!("{what}: {test}"), vec!["marked ignored".into()]);
                }
                self.counted(what, &finished, counts);
            }
            Err(error) => self.error(what, &error),
        }
    }

    /// Counts what a command reports as `N passed, N failed`.
    pub(crate) fn summary(&mut self, what: &str, outcome: Result<Finished>) {
        match outcome {
            Ok(finished) => {
                let counts = Counts::of_summary(&finished.log).unwrap_or_default();
                self.counted(what, &finished, counts);
            }
            Err(error) => self.error(what, &error),
        }
    }

    /// Counts a check that broke down.
    pub(crate) fn error(&mut self, what: &str, error: &anyhow::Error) {
        self.fail(what, vec![format!("{error:#}")]);
    }

    /// Adds the outcome of other checks.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.problems.extend(other.problems);
    }

    /// Prints what failed and what was skipped.
    pub(crate) fn print_problems(&self) {
        for Problem { verdict, what, detail } in &self.problems {
            println!("\n{verdict} {what}");
            for line in detail.iter().flat_map(|text| text.lines()) {
                println!("  {line}");
            }
        }
    }

    /// Prints the last line of a run and says whether all of it passed.
    pub(crate) fn conclude(&self) -> bool {
        let Self { passed, failed, skipped, .. } = self;
        if *skipped > 0 {
            println!("{skipped} skipped");
        }
        println!("{passed} passed, {failed} failed");
        *failed == 0
    }

    /// Takes over counts, and keeps them consistent with how the command ended: one that broke off
    /// without reporting a failed test, or that ran no test at all, is itself a failure.
    fn counted(&mut self, what: &str, finished: &Finished, counts: Counts) {
        self.passed += counts.passed;
        self.failed += counts.failed;
        self.skipped += counts.ignored;
        if counts.failed > 0 {
            let mut detail: Vec<String> =
                tests_marked(&finished.log, "FAILED").into_iter().map(str::to_owned).collect();
            detail.extend(tail(&finished.log));
            self.note("FAILED", format!("{what}: {} tests", counts.failed), detail);
        } else if !finished.success {
            self.fail(format!("{what}: the command failed"), tail(&finished.log));
        } else if counts == Counts::default() {
            self.fail(format!("{what}: no test was counted"), tail(&finished.log));
        }
    }

    fn note(&mut self, verdict: &'static str, what: String, detail: Vec<String>) {
        self.problems.push(Problem { verdict, what, detail });
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

/// One line of the table at the end of a run.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) took: Duration,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Row {
    /// The row of a phase.
    pub(crate) fn new(name: &'static str, took: Duration, tally: &Tally) -> Self {
        let Tally { passed, failed, skipped, .. } = *tally;
        Self { name, took, passed, failed, skipped }
    }
}

/// Prints a header.
pub(crate) fn print_header(name: &str) {
    println!("\n== {name}");
}

/// Prints the table at the end of a run.
pub(crate) fn print_table(rows: &[Row]) {
    println!("\n{:<10} {:>8} {:>8} {:>8} {:>8}", "phase", "minutes", "passed", "failed", "skipped");
    for Row { name, took, passed, failed, skipped } in rows {
        let minutes = took.as_secs_f64() / 60.0;
        println!("{name:<10} {minutes:>8.1} {passed:>8} {failed:>8} {skipped:>8}");
    }
    println!();
}

/// The end of a log.
pub(crate) fn tail(log: &[String]) -> Vec<String> {
    let from = log.len().saturating_sub(TAIL_LINES);
    log.iter().skip(from).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(success: bool, log: &str) -> Finished {
        Finished { success, code: None, log: log.lines().map(str::to_owned).collect() }
    }

    fn check(success: bool, log: &str, expected: &str) {
        let mut tally = Tally::default();
        tally.cargo_test("unit", Ok(finished(success, log)));
        assert_eq!(tally.to_string(), expected);
    }

    #[test]
    fn counts_tests_and_names_ignored_ones() {
        check(
            true,
            "test a ... ignored\ntest result: ok. 5 passed; 0 failed; 1 ignored; 0 measured\n",
            "5 passed, 0 failed, 1 skipped",
        );
    }

    #[test]
    fn counts_a_broken_build_as_one_failure() {
        check(false, "error: could not compile\n", "0 passed, 1 failed");
    }

    #[test]
    fn counts_an_aborted_binary_beside_the_tests_that_ran() {
        check(
            false,
            "test result: ok. 5 passed; 0 failed; 0 ignored\nerror: test failed\n",
            "5 passed, 1 failed",
        );
    }

    #[test]
    fn does_not_count_a_failed_test_twice() {
        check(
            false,
            "test b ... FAILED\ntest result: FAILED. 4 passed; 1 failed; 0 ignored\n",
            "4 passed, 1 failed",
        );
    }

    #[test]
    fn refuses_a_run_without_tests() {
        check(true, "nothing to do\n", "0 passed, 1 failed");
    }

    #[test]
    fn unavailable_is_a_failure_only_in_ci() {
        let mut tally = Tally::default();
        tally.unavailable(true, "deny", "no tool");
        tally.unavailable(false, "deny", "no tool");
        assert_eq!(tally.to_string(), "0 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn tail_keeps_the_end() {
        let log: Vec<String> = (0..300).map(|n| n.to_string()).collect();
        let tail = tail(&log);
        assert_eq!((tail.len(), tail.first().map(String::as_str)), (TAIL_LINES, Some("100")));
    }
}
