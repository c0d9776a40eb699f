//! The published suite of the Durable Streams protocol, against `handback serve`.
//!
//! The suite is an npm package that runs under vitest (`interop/durable-streams/`). Every test of it
//! counts as a check of its own. One that the suite skips is a failure like any other, unless the
//! list of exclusions has it, with a reason; the list must not name a test that passes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{Finished, Shell};
use crate::readme;
use crate::report::{Tally, tail};
use crate::scratch::Scratch;
use crate::server::Server;

/// Where the suite is described.
pub(crate) const PACKAGE: &str = "interop/durable-streams";

const TEST_FILE: &str = "conformance.test.js";
const EXCLUSIONS: &str = "interop/durable-streams/exclusions.txt";

/// How many tests this version of the suite has: a run of fewer is not a run of the suite.
const TESTS: usize = 338;

/// Several times what the slowest known server takes.
const SECONDS_MAX: &str = "900";

/// Dozens of the tests wait for a long-poll to end.
const LONG_POLL_MS: &str = "500";

/// Runs the suite against the development build, or against the server that is named in the
/// environment.
pub(crate) fn check(shell: &Shell, tally: &mut Tally) -> Result<()> {
    if let Some(url) = &shell.config.conformance_url {
        println!("streams: against {url}, not against the development build");
        return run_suite(shell, url, tally);
    }
    let program = readme::build(shell)?;
    let server = Server::start(shell, "streams", &program, |address, data| {
        let data = data.display().to_string();
        ["serve", "--no-demo", "--listen", &address.to_string(), "--data", &data]
            .into_iter()
            .chain(["--long-poll-ms", LONG_POLL_MS])
            .map(str::to_owned)
            .collect()
    })
    .context("failed to start `handback serve`")?;
    run_suite(shell, &format!("http://{}", server.address()), tally)?;
    if let Some(why) = server.ended() {
        tally.fail("streams: the server did not survive the suite", vec![why]);
    }
    Ok(())
}

fn run_suite(shell: &Shell, url: &str, tally: &mut Tally) -> Result<()> {
    let root = &shell.config.root;
    let excluded = fs::read_to_string(root.join(EXCLUSIONS))
        .with_context(|| format!("failed to read {EXCLUSIONS}"))?;
    let excluded = parse_exclusions(&excluded)?;
    // Next to what it imports.
    let dir = shell.config.npm(PACKAGE);
    fs::copy(root.join(PACKAGE).join(TEST_FILE), dir.join(TEST_FILE))
        .with_context(|| format!("failed to copy {TEST_FILE}"))?;
    let results = Scratch::new("streams-results")?;
    let file = results.path().join("results.json");
    let finished = vitest(shell, &dir, url, &file)?;
    let outcomes = fs::read_to_string(&file).map_err(anyhow::Error::from);
    let outcomes = outcomes.and_then(|text| parse_outcomes(&text)).with_context(|| {
        format!("the suite left no results; it ended with:\n{}", tail(&finished.log).join("\n"))
    })?;
    judge(tally, &outcomes, &excluded, &finished);
    Ok(())
}

fn vitest(shell: &Shell, dir: &Path, url: &str, results: &Path) -> Result<Finished> {
    let mut command = shell.command("timeout");
    command.args(["--kill-after=10", SECONDS_MAX, "node", "node_modules/vitest/vitest.mjs"]);
    command.args(["run", TEST_FILE, "--no-coverage", "--reporter=json", "--outputFile"]);
    command.arg(results).current_dir(dir);
    command.env("CONFORMANCE_TEST_URL", url).env("SUBS", "1");
    shell.run(&mut command)
}

/// What became of one test.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    name: String,
    verdict: Verdict,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed(Vec<String>),
    /// With the suite's own word: `skipped`, `pending`, `todo`.
    NotRun(String),
}

/// Reads the report of vitest.
fn parse_outcomes(report: &str) -> Result<Vec<Outcome>> {
    let report: Value = serde_json::from_str(report).context("failed to read the results")?;
    let mut outcomes = Vec::new();
    for file in array(&report, "testResults")? {
        let before = outcomes.len();
        for test in array(file, "assertionResults")? {
            outcomes.push(outcome(test)?);
        }
        if outcomes.len() == before {
            let message = file.get("message").and_then(Value::as_str).unwrap_or_default();
            bail!("a file has no tests: {message}");
        }
    }
    Ok(outcomes)
}

fn outcome(test: &Value) -> Result<Outcome> {
    let text = |key: &str| {
        let text = test.get(key).and_then(Value::as_str).map(str::to_owned);
        text.with_context(|| format!("a test has no `{key}`"))
    };
    let verdict = match text("status")?.as_str() {
        "passed" => Verdict::Passed,
        "failed" => {
            let messages = array(test, "failureMessages")?.iter().filter_map(Value::as_str);
            Verdict::Failed(messages.map(str::to_owned).collect())
        }
        other => Verdict::NotRun(other.to_owned()),
    };
    Ok(Outcome { name: text("fullName")?, verdict })
}

fn array<'a>(value: &'a Value, key: &str) -> Result<&'a [Value]> {
    let array = value.get(key).and_then(Value::as_array);
    array.map(Vec::as_slice).with_context(|| format!("the results have no `{key}`"))
}

/// Names of tests with the reasons why they need not pass.
type Exclusions = BTreeMap<String, String>;

/// Reads lines of the form `<name> # <reason>`.
fn parse_exclusions(text: &str) -> Result<Exclusions> {
    let mut exclusions = Exclusions::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match line.rsplit_once(" # ").map(|(name, reason)| (name.trim(), reason.trim())) {
            Some((name, reason)) if !reason.is_empty() => {
                exclusions.insert(name.to_owned(), reason.to_owned());
            }
            _ => bail!("{EXCLUSIONS}:{number} gives no reason"),
        }
    }
    Ok(exclusions)
}

/// Counts every test, and keeps the count consistent with the size of the suite and with how the
/// command ended.
fn judge(tally: &mut Tally, outcomes: &[Outcome], excluded: &Exclusions, finished: &Finished) {
    let failed_before = tally.failed;
    for Outcome { name, verdict } in outcomes {
        let what = format!("streams: {name}");
        match (verdict, excluded.get(name)) {
            (Verdict::Passed, None) => tally.pass(),
            (Verdict::Passed, Some(_)) => {
                tally.fail(what, vec![format!("passes; remove its line from {EXCLUSIONS}")]);
            }
            (_, Some(reason)) => tally.skip(what, reason),
            (Verdict::Failed(messages), None) => tally.fail(what, messages.clone()),
            (Verdict::NotRun(word), None) => {
                tally.fail(what, vec![format!("did not run: {word}")]);
            }
        }
    }
    let names: BTreeSet<&str> = outcomes.iter().map(|outcome| outcome.name.as_str()).collect();
    for name in excluded.keys().filter(|name| !names.contains(name.as_str())) {
        let why = format!("the suite has no such test; remove its line from {EXCLUSIONS}");
        tally.fail(format!("streams: {name}"), vec![why]);
    }
    if outcomes.len() != TESTS {
        let why = format!("{} tests were counted, the suite has {TESTS}", outcomes.len());
        tally.fail("streams: the size of the suite", vec![why]);
    }
    let all_passed = outcomes.iter().all(|outcome| !matches!(outcome.verdict, Verdict::Failed(_)));
    if !finished.success && all_passed && tally.failed == failed_before {
        tally.fail("streams: the command failed", tail(&finished.log));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"numTotalTests": 3, "testResults": [{"message": "",
        "assertionResults": [
            {"fullName": "Reads from the start", "status": "passed", "failureMessages": []},
            {"fullName": "Closes", "status": "failed", "failureMessages": ["expected 404"]},
            {"fullName": "Wakes", "status": "skipped", "failureMessages": []}]}]}"#;

    /// As many tests as the suite has; the last ones are these.
    fn suite(last: Vec<Outcome>) -> Vec<Outcome> {
        let passed = |n| Outcome { name: format!("test {n}"), verdict: Verdict::Passed };
        (last.len()..TESTS).map(passed).chain(last).collect()
    }

    fn failed(name: &str) -> Outcome {
        Outcome { name: name.into(), verdict: Verdict::Failed(vec!["expected 404".into()]) }
    }

    fn not_run(name: &str) -> Outcome {
        Outcome { name: name.into(), verdict: Verdict::NotRun("skipped".into()) }
    }

    fn check(outcomes: &[Outcome], excluded: &str, success: bool, expected: &str) {
        let mut tally = Tally::default();
        let finished = Finished { success, code: None, log: Vec::new() };
        judge(&mut tally, outcomes, &parse_exclusions(excluded).unwrap(), &finished);
        assert_eq!(tally.to_string(), expected);
    }

    #[test]
    fn reads_what_became_of_each_test() {
        let outcomes = parse_outcomes(REPORT).unwrap();
        let passed = Outcome { name: "Reads from the start".into(), verdict: Verdict::Passed };
        assert_eq!(outcomes, [passed, failed("Closes"), not_run("Wakes")]);
    }

    #[test]
    fn refuses_a_report_without_tests() {
        assert!(parse_outcomes("{}").is_err());
        let broken = r#"{"testResults": [{"message": "no module", "assertionResults": []}]}"#;
        assert!(parse_outcomes(broken).unwrap_err().to_string().contains("no module"));
    }

    #[test]
    fn each_test_counts() {
        check(&suite(vec![]), "", true, "338 passed, 0 failed");
        check(&suite(vec![failed("Closes")]), "", false, "337 passed, 1 failed");
    }

    #[test]
    fn a_skipped_test_is_a_failure() {
        check(&suite(vec![not_run("Wakes")]), "", true, "337 passed, 1 failed");
    }

    #[test]
    fn an_excluded_test_is_skipped() {
        let outcomes = suite(vec![failed("Closes"), not_run("Wakes")]);
        let excluded = "Closes # why\nWakes # also why\n";
        check(&outcomes, excluded, false, "336 passed, 0 failed, 2 skipped");
    }

    #[test]
    fn stale_exclusions_fail() {
        check(&suite(vec![]), "test 0 # why\n", true, "337 passed, 1 failed");
        check(&suite(vec![]), "gone # why\n", true, "338 passed, 1 failed");
    }

    #[test]
    fn a_part_of_the_suite_is_not_the_suite() {
        check(suite(vec![]).get(1..).unwrap(), "", true, "337 passed, 1 failed");
    }

    #[test]
    fn an_error_outside_of_the_tests_fails() {
        check(&suite(vec![]), "", false, "338 passed, 1 failed");
    }

    #[test]
    fn an_exclusion_needs_a_reason() {
        assert!(parse_exclusions("Closes").is_err());
        assert!(parse_exclusions("Closes #  ").is_err());
        assert!(parse_exclusions("# Closes\n\n").unwrap().is_empty());
    }

    #[test]
    fn the_list_of_exclusions_can_be_read() {
        let text = include_str!("../../interop/durable-streams/exclusions.txt");
        assert!(parse_exclusions(text).is_ok());
    }
}
