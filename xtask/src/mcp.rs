//! The official conformance suite of the Model Context Protocol, against servers under test.
//!
//! The suite is an npm package with a command (`interop/mcp-conformance/`) that needs Node.js 22,
//! which is a package beside it. For each revision of the protocol it knows the scenarios that a
//! server must pass, and some more, such as those of the Tasks extension. All of them must pass
//! here: there is no list of exceptions. Every check of a scenario counts as one; a check that the
//! suite itself skips is reported as skipped. Through the gateway, whatever passed direct has to pass:
//! what is skipped, warned of or not looked at there has failed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{Finished, Shell};
use crate::readme;
use crate::report::{Tally, tail};
use crate::scratch::Scratch;
use crate::server::Server;
use crate::test::INTEROP;

/// Where the suite is described.
pub(crate) const PACKAGE: &str = "interop/mcp-conformance";

const COMMAND: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";

/// The program that is all of the servers.
const FIXTURE: &str = "mcp-fixture";

/// The servers and their arguments. On plain rmcp first: if the suite fails there, the suite or the
/// fixture is to blame.
const SERVERS: [(&str, &[&str]); 3] =
    [("rmcp", &[]), ("front", &["front"]), ("handback", &["handback"])];

/// Several times what the slowest known server takes for a revision.
const SECONDS_MAX: &str = "300";

/// A revision of the protocol, and how many scenarios this version of the suite has for it: a run of
/// fewer is not a run of the suite.
#[derive(Clone, Copy, Debug)]
struct Revision {
    name: &'static str,
    scenarios: usize,
}

const REVISIONS: [Revision; 2] = [
    Revision { name: "2025-11-25", scenarios: 33 },
    Revision { name: "2026-07-28", scenarios: 50 },
];

/// A check that passes direct and may be one through the gateway that only tells something.
struct Different {
    scenario: &'static str,
    id: &'static str,
    why: &'static str,
}

const DIFFERENT: [Different; 1] = [Different {
    scenario: "server-sse-multiple-streams",
    id: "server-sse-streams-functional",
    why: "an answer that is there soon is JSON, and the check is about streams of events",
}];

/// Runs the suite against the servers of this checkout, or against the one that is named in the
/// environment.
pub(crate) fn check(shell: &Shell, tally: &mut Tally) -> Result<()> {
    if let Err(error) = node(&shell.config.npm(PACKAGE)) {
        tally.unavailable(shell.config.ci, "mcp", &format!("{error:#}"));
        return Ok(());
    }
    if let Some(url) = &shell.config.mcp_url {
        println!("mcp: against {url}, not against the servers of this checkout");
        return run_suite(shell, "named", url, None, tally).map(drop);
    }
    let program = build(shell, FIXTURE)?;
    let mut direct = None;
    for (label, how) in SERVERS {
        let server = fixture(shell, label, &program, how)?;
        let url = format!("http://{}/mcp", server.address());
        let passed = run_suite(shell, label, &url, None, tally)?;
        // The first one is the server that stands behind the gateway, too.
        direct.get_or_insert(passed);
        survived(&server, label, tally);
    }
    check_gateway(shell, &program, &direct.unwrap_or_default(), tally)
}

fn fixture(shell: &Shell, label: &str, program: &Path, how: &[&str]) -> Result<Server> {
    let started = Server::start(shell, label, program, |address, _| {
        let how = how.iter().map(|arg| (*arg).to_owned());
        std::iter::once(address.to_string()).chain(how).collect()
    });
    started.with_context(|| format!("failed to start `{FIXTURE}`"))
}

fn survived(server: &Server, label: &str, tally: &mut Tally) {
    if let Some(why) = server.ended() {
        tally.fail(format!("mcp: {label} did not survive the suite"), vec![why]);
    }
}

/// The same through `handback serve --upstream`, in front of the server on plain rmcp.
fn check_gateway(
    shell: &Shell,
    program: &Path,
    direct: &[Passed],
    tally: &mut Tally,
) -> Result<()> {
    let behind = fixture(shell, "behind", program, &[])?;
    let gateway = readme::build(shell)?;
    let upstream = format!("up=http://{}/mcp", behind.address());
    let server = Server::start(shell, "gateway", &gateway, |address, data| {
        let words = ["serve", "--listen", &address.to_string(), "--upstream", &upstream, "--data"];
        let words = words.map(str::to_owned).into_iter();
        words.chain([data.display().to_string()]).collect()
    });
    let server = server.context("failed to start `handback serve --upstream`")?;
    let url = format!("http://{}/mcp", server.address());
    run_suite(shell, "gateway", &url, Some(direct), tally)?;
    survived(&server, "gateway", tally);
    survived(&behind, "the server behind the gateway", tally);
    Ok(())
}

/// How often a check passed, by its scenario and its id: several checks of a scenario may have one id.
type Passed = BTreeMap<(String, String), usize>;

/// Runs all revisions against one server, and gives what passed of each. `direct` is what passed of each at
/// the server behind it, if there is one.
fn run_suite(
    shell: &Shell,
    server: &str,
    url: &str,
    direct: Option<&[Passed]>,
    tally: &mut Tally,
) -> Result<Vec<Passed>> {
    let mut all = Vec::new();
    for (number, revision) in REVISIONS.into_iter().enumerate() {
        let mut own = Tally::default();
        let label = format!("mcp: {server}: {}", revision.name);
        let results = Scratch::new(&format!("mcp-{server}-{}", revision.name))?;
        let finished = conformance(shell, url, revision.name, results.path())?;
        let scenarios = read_results(results.path(), &finished)?;
        judge(&mut own, &label, &scenarios, revision.scenarios, &finished);
        if let Some(direct) = direct {
            let direct = direct.get(number).context("there is nothing to compare with")?;
            judge_through(&mut own, &label, direct, &scenarios);
        }
        println!("{label}: {} scenarios, {own}", scenarios.len());
        tally.add(own);
        all.push(count(&scenarios, |verdict| *verdict == Verdict::Passed));
    }
    Ok(all)
}

/// Builds a program of `interop/`.
pub(crate) fn build(shell: &Shell, binary: &str) -> Result<PathBuf> {
    let args = ["build", "--manifest-path", INTEROP, "--bin", binary];
    let built = shell.run(&mut shell.cargo(&args))?;
    if !built.success {
        bail!("{binary} does not build:\n{}", tail(&built.log).join("\n"));
    }
    Ok(shell.config.target_dir.join("debug").join(binary))
}

fn conformance(shell: &Shell, url: &str, revision: &str, results: &Path) -> Result<Finished> {
    let dir = shell.config.npm(PACKAGE);
    let mut command = shell.command("timeout");
    command.args(["--kill-after=10", SECONDS_MAX]).arg(node(&dir)?).arg(COMMAND);
    command.args(["server", "--url", url, "--requirements", revision, "--output-dir"]);
    command.arg(results).current_dir(dir);
    // The suite prints every check; those that matter are in the report.
    shell.run_showing(&mut command, |line| line.starts_with("=== "))
}

/// The Node.js 22 among the packages of a folder. Only the package for this machine is installed.
pub(crate) fn node(dir: &Path) -> Result<PathBuf> {
    let modules = dir.join("node_modules");
    let packages = fs::read_dir(&modules)
        .with_context(|| format!("failed to look into {}", modules.display()))?;
    let packages = packages.filter_map(|entry| Some(entry.ok()?.path()));
    let mut programs = packages
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("node-")))
        .map(|path| path.join("bin").join("node"));
    programs.find(|path| path.is_file()).context("there is no Node.js 22 for this machine")
}

/// What became of one scenario.
#[derive(Debug, PartialEq, Eq)]
struct Scenario {
    name: String,
    /// `None` if the suite left no results.
    checks: Option<Vec<Check>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Check {
    id: String,
    verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
    /// `WARNING`: the protocol says SHOULD, and it is done otherwise.
    Warned(String),
    /// `INFO`: what the suite only tells.
    Told,
}

/// The log names the scenarios; each has a folder whose name starts with its own.
fn read_results(dir: &Path, finished: &Finished) -> Result<Vec<Scenario>> {
    let names: BTreeSet<&str> = finished.log.iter().filter_map(|line| started(line)).collect();
    let folders: Vec<PathBuf> = fs::read_dir(dir)
        .context("failed to look at the results")?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    names.into_iter().map(|name| read_scenario(name, &folders)).collect()
}

fn started(line: &str) -> Option<&str> {
    line.strip_prefix("=== Running scenario: ")?.strip_suffix(" ===")
}

fn read_scenario(name: &str, folders: &[PathBuf]) -> Result<Scenario> {
    let mut files = folders.iter().filter(|folder| is_of(folder, name));
    let text = files.next().and_then(|folder| fs::read_to_string(folder.join("checks.json")).ok());
    let checks = text.map(|text| parse_checks(&text)).transpose();
    let checks = checks.with_context(|| format!("failed to read the results of {name}"))?;
    Ok(Scenario { name: name.to_owned(), checks })
}

/// Whether a folder is `server-NAME-TIME`; the time starts with the year.
fn is_of(folder: &Path, scenario: &str) -> bool {
    let folder = folder.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let time = folder.strip_prefix("server-").and_then(|rest| rest.strip_prefix(scenario));
    let time = time.and_then(|rest| rest.strip_prefix('-'));
    time.is_some_and(|time| time.starts_with("20") && time.ends_with('Z'))
}

fn parse_checks(text: &str) -> Result<Vec<Check>> {
    let checks: Value = serde_json::from_str(text)?;
    let checks = checks.as_array().context("the results are no list")?;
    checks.iter().map(parse_check).collect()
}

fn parse_check(check: &Value) -> Result<Check> {
    let text = |key: &str| check.get(key).and_then(Value::as_str);
    let why = || {
        let parts = [text("description"), text("errorMessage")];
        parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
    };
    let verdict = match text("status").context("a check has no status")? {
        "SUCCESS" => Verdict::Passed,
        "FAILURE" => Verdict::Failed(why()),
        "SKIPPED" => Verdict::Skipped(why()),
        "WARNING" => Verdict::Warned(why()),
        "INFO" => Verdict::Told,
        other => bail!("a check has the unknown status {other}"),
    };
    Ok(Check { id: text("id").context("a check has no id")?.to_owned(), verdict })
}

/// Counts every check, and keeps the count consistent with the size of the suite and with how the
/// command ended.
fn judge(
    tally: &mut Tally,
    label: &str,
    scenarios: &[Scenario],
    expected: usize,
    finished: &Finished,
) {
    for Scenario { name, checks } in scenarios {
        let what = format!("{label}: {name}");
        match checks.as_deref() {
            None => tally.fail(what, vec!["the suite left no results".to_owned()]),
            Some([]) => tally.fail(what, vec!["the suite checked nothing".to_owned()]),
            Some(checks) => {
                for check in checks {
                    judge_check(tally, &format!("{what}: {}", check.id), check);
                }
            }
        }
    }
    if scenarios.len() != expected {
        let why = format!("{} scenarios ran, the suite has {expected}", scenarios.len());
        tally.fail(format!("{label}: the size of the suite"), vec![why]);
    }
    if !finished.success && tally.failed == 0 {
        tally.fail(format!("{label}: the command failed"), tail(&finished.log));
    }
}

/// Fails what passed direct and does not pass through the gateway. What failed there was counted before.
fn judge_through(tally: &mut Tally, label: &str, direct: &Passed, scenarios: &[Scenario]) {
    let is_judged = |verdict: &Verdict| matches!(verdict, Verdict::Passed | Verdict::Failed(_));
    let judged = count(scenarios, is_judged);
    let told = count(scenarios, |verdict| *verdict == Verdict::Told);
    for (check, times) in direct {
        let (scenario, id) = check;
        let of = |counted: &Passed| counted.get(check).copied().unwrap_or_default();
        if of(&judged) >= *times {
            continue;
        }
        let what = format!("{label}: {scenario}: {id}");
        let may_differ = DIFFERENT.iter().find(|one| one.scenario == scenario && one.id == id);
        match may_differ.filter(|_| of(&judged) + of(&told) >= *times) {
            Some(Different { why, .. }) => println!("{what}: not as direct: {why}"),
            None => {
                let verdicts = verdicts_of(scenarios, scenario, id);
                let why = format!("it passed {times} times direct, and here: {verdicts:?}");
                tally.fail(what, vec![why]);
            }
        }
    }
}

/// How often there is such a verdict, for each check.
fn count(scenarios: &[Scenario], is_it: impl Fn(&Verdict) -> bool) -> Passed {
    let mut counted = Passed::new();
    for Scenario { name, checks } in scenarios {
        for check in checks.iter().flatten().filter(|check| is_it(&check.verdict)) {
            *counted.entry((name.clone(), check.id.clone())).or_default() += 1;
        }
    }
    counted
}

fn verdicts_of<'a>(scenarios: &'a [Scenario], scenario: &str, id: &str) -> Vec<&'a Verdict> {
    let of_scenario = scenarios.iter().filter(|one| one.name == scenario);
    let checks = of_scenario.flat_map(|one| one.checks.iter().flatten());
    checks.filter(|check| check.id == id).map(|check| &check.verdict).collect()
}

fn judge_check(tally: &mut Tally, what: &str, check: &Check) {
    match &check.verdict {
        Verdict::Passed => tally.pass(),
        Verdict::Failed(why) => tally.fail(what, vec![why.clone()]),
        Verdict::Skipped(why) => tally.skip(what, format!("by the suite: {why}")),
        Verdict::Warned(why) => println!("{what}: warning by the suite: {why}"),
        Verdict::Told => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = r#"[
        {"id": "ping", "description": "Answers", "status": "SUCCESS"},
        {"id": "told", "description": "By the way", "status": "INFO"},
        {"id": "should", "description": "It should", "status": "WARNING"},
        {"id": "later", "description": "Not yet", "status": "SKIPPED"},
        {"id": "bad", "description": "Refuses", "status": "FAILURE", "errorMessage": "200"}]"#;

    fn passed(name: &str) -> Scenario {
        let check = Check { id: "a".into(), verdict: Verdict::Passed };
        Scenario { name: name.into(), checks: Some(vec![check]) }
    }

    fn check(scenarios: &[Scenario], expected: usize, success: bool, outcome: &str) {
        let mut tally = Tally::default();
        let finished = Finished { success, code: None, log: Vec::new() };
        judge(&mut tally, "mcp", scenarios, expected, &finished);
        assert_eq!(tally.to_string(), outcome);
    }

    #[test]
    fn every_check_counts() {
        let scenario =
            Scenario { name: "all".into(), checks: Some(parse_checks(RESULTS).unwrap()) };
        check(&[scenario], 1, false, "1 passed, 1 failed, 1 skipped");
        check(&[passed("a"), passed("b")], 2, true, "2 passed, 0 failed");
    }

    /// What comes of a run through the gateway, where these checks of one scenario passed direct.
    fn check_through(direct: &[&str], here: &[(&str, Verdict)], outcome: &str) {
        let mut passed = Passed::new();
        for id in direct {
            *passed.entry(("all".to_owned(), (*id).to_owned())).or_default() += 1;
        }
        let checks = here
            .iter()
            .map(|(id, verdict)| Check { id: (*id).to_owned(), verdict: verdict.clone() });
        let scenario = Scenario { name: "all".into(), checks: Some(checks.collect()) };
        let mut tally = Tally::default();
        judge_through(&mut tally, "mcp", &passed, &[scenario]);
        assert_eq!(tally.to_string(), outcome, "{direct:?} {here:?}");
    }

    #[test]
    fn what_passed_direct_passes_through_the_gateway() {
        let passed = |id| (id, Verdict::Passed);
        check_through(&["a", "b"], &[passed("a"), passed("b"), passed("c")], "0 passed, 0 failed");
        for verdict in [
            Verdict::Skipped("not here".into()),
            Verdict::Warned("it should".into()),
            Verdict::Told,
        ] {
            check_through(&["a", "b"], &[passed("a"), ("b", verdict)], "0 passed, 1 failed");
        }
        // One that was not looked at, and one of two with the same id.
        check_through(&["a", "b"], &[passed("a")], "0 passed, 1 failed");
        check_through(&["a", "a"], &[passed("a")], "0 passed, 1 failed");
        check_through(&["a", "a"], &[passed("a"), ("a", Verdict::Told)], "0 passed, 1 failed");
        // What failed was counted as such.
        let failed = Verdict::Failed("200".into());
        check_through(&["a", "b"], &[passed("a"), ("b", failed)], "0 passed, 0 failed");
        // What did not pass direct need not pass here.
        check_through(&["a"], &[passed("a"), ("b", Verdict::Told)], "0 passed, 0 failed");
    }

    #[test]
    fn a_scenario_without_results_passed_nothing() {
        let direct = Passed::from([(("all".to_owned(), "a".to_owned()), 1)]);
        let broken = Scenario { name: "all".into(), checks: None };
        let mut tally = Tally::default();
        judge_through(&mut tally, "mcp", &direct, &[broken]);
        judge_through(&mut tally, "mcp", &direct, &[]);
        assert_eq!(tally.to_string(), "0 passed, 2 failed");
    }

    #[test]
    fn what_may_differ_says_so_by_itself() {
        for Different { scenario, id, .. } in DIFFERENT {
            let direct = Passed::from([((scenario.to_owned(), id.to_owned()), 1)]);
            for (verdict, outcome) in [
                (Some(Verdict::Passed), "0 passed, 0 failed"),
                (Some(Verdict::Told), "0 passed, 0 failed"),
                (Some(Verdict::Warned("it should".into())), "0 passed, 1 failed"),
                (Some(Verdict::Skipped("not here".into())), "0 passed, 1 failed"),
                (None, "0 passed, 1 failed"),
            ] {
                let checks =
                    verdict.into_iter().map(|verdict| Check { id: id.to_owned(), verdict });
                let checks = Some(checks.collect());
                let mut tally = Tally::default();
                let scenario = Scenario { name: scenario.to_owned(), checks };
                judge_through(&mut tally, "mcp", &direct, &[scenario]);
                assert_eq!(tally.to_string(), outcome);
            }
        }
    }

    #[test]
    fn says_why_a_check_failed() {
        let checks = parse_checks(RESULTS).unwrap();
        let bad = checks.last().unwrap();
        assert_eq!(bad.verdict, Verdict::Failed("Refuses: 200".into()));
    }

    #[test]
    fn a_scenario_without_results_failed() {
        let broken = Scenario { name: "a".into(), checks: None };
        check(&[broken], 1, true, "0 passed, 1 failed");
        let empty = Scenario { name: "a".into(), checks: Some(vec![]) };
        check(&[empty], 1, true, "0 passed, 1 failed");
    }

    #[test]
    fn a_part_of_the_suite_is_not_the_suite() {
        check(&[passed("a")], 2, true, "1 passed, 1 failed");
    }

    #[test]
    fn an_error_outside_of_the_checks_fails() {
        check(&[passed("a")], 1, false, "1 passed, 1 failed");
    }

    #[test]
    fn an_unknown_status_is_an_error() {
        assert!(parse_checks(r#"[{"id": "a", "status": "MAYBE"}]"#).is_err());
        assert!(parse_checks("{}").is_err());
    }

    #[test]
    fn knows_the_folder_of_a_scenario() {
        let folder = Path::new("/r/server-tools-list-2026-07-28T10-00-00-000Z");
        assert!(is_of(folder, "tools-list"));
        assert!(!is_of(folder, "tools"));
        assert!(!is_of(Path::new("/r/server-tools-list"), "tools-list"));
        assert_eq!(started("=== Running scenario: ping ==="), Some("ping"));
        assert_eq!(started("=== SUMMARY ==="), None);
    }
}
