//! Mutation tests: every change to the guarded code must make a test fail.
//!
//! A mutant that no test can tell apart is listed in `xtask/mutants-explained.txt` with the reason.
//! A mutant that is missed and not listed is a failure; so is a listed one that is caught by now.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::process::{Finished, Shell};
use crate::report::{Tally, print_header, tail};
use crate::tools::{Tool, Tools};

const PACKAGE: &str = "handback-token";

/// What is mutated: opening, verifying, key rings and contexts, and what these stand on.
const FILES: [&str; 12] = [
    "crates/handback-token/src/sealer.rs",
    "crates/handback-token/src/crypto.rs",
    "crates/handback-token/src/context.rs",
    "crates/handback-token/src/hash.rs",
    "crates/handback-token/src/encoding.rs",
    "crates/handback-token/src/key.rs",
    "crates/handback-token/src/refusal.rs",
    "crates/handback-token/src/purpose.rs",
    "crates/handback-token/src/cursor.rs",
    "crates/handback-token/src/state.rs",
    "crates/handback-token/src/handle.rs",
    "crates/handback-token/src/ring/*.rs",
];

/// Documentation tests would be linked anew for every mutant, and whether misuse compiles does not
/// depend on what functions return.
const TEST_ARGS: [&str; 5] = ["--lib", "--tests", "--", "--skip", "compile_fail"];

const EXPLAINED: &str = "xtask/mutants-explained.txt";

/// How `cargo mutants` ends when it got through: all caught, some missed, some timed out.
const EXIT_CODES_OF_COMPLETE_RUNS: [i32; 3] = [0, 2, 3];

/// `cargo xtask mutants token`.
pub(crate) fn run(shell: &Shell) -> Result<bool> {
    print_header("mutants");
    let mut tally = Tally::default();
    match Tools::new(shell).ensure(Tool::Mutants) {
        Ok(()) => mutate(shell, &mut tally)?,
        Err(why) => tally.unavailable(shell.config.ci, "mutants", &why),
    }
    tally.print_problems();
    println!();
    Ok(tally.conclude())
}

fn mutate(shell: &Shell, tally: &mut Tally) -> Result<()> {
    let explained = fs::read_to_string(shell.config.root.join(EXPLAINED))
        .with_context(|| format!("failed to read {EXPLAINED}"))?;
    let explained = parse_explained(&explained)?;
    let output = shell.config.cache.join("mutants");
    fs::create_dir_all(&output).with_context(|| format!("failed to make {}", output.display()))?;
    let finished = run_mutants(shell, &output)?;
    if !finished.code.is_some_and(|code| EXIT_CODES_OF_COMPLETE_RUNS.contains(&code)) {
        tally.fail("mutants: the run broke off", tail(&finished.log));
        return Ok(());
    }
    let results = Results::read(&output.join("mutants.out"))?;
    println!(
        "{} mutants caught, {} missed, {} timed out, {} did not build; {} explained",
        results.caught.len(),
        results.missed.len(),
        results.timed_out.len(),
        results.unviable.len(),
        explained.len(),
    );
    if results.caught.is_empty() {
        tally.fail("mutants: none was caught", tail(&finished.log));
    }
    judge(tally, &results, &explained);
    Ok(())
}

fn run_mutants(shell: &Shell, output: &Path) -> Result<Finished> {
    let mut command = shell.cargo(&["mutants", "--package", PACKAGE, "--test-package", PACKAGE]);
    command.args(["--all-features", "--profile", "dev", "--jobs", "2"]);
    command.args(["--minimum-test-timeout", "20", "--colors", "never", "--annotations", "none"]);
    command.arg("--output").arg(output);
    command.args(FILES.iter().flat_map(|glob| ["--file", glob]));
    command.arg("--").args(TEST_ARGS);
    // Each job builds a copy of the tree in that copy's own target directory.
    command.env_remove("CARGO_TARGET_DIR");
    // Hundreds of short builds: no debug information, and fewer random cases each.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("PROPTEST_CASES", "24");
    shell.run(&mut command)
}

/// What a run wrote, without positions.
#[derive(Debug, Default)]
struct Results {
    caught: Vec<String>,
    missed: Vec<String>,
    timed_out: Vec<String>,
    unviable: Vec<String>,
}

impl Results {
    fn read(dir: &Path) -> Result<Self> {
        let list = |name: &str| {
            let path = dir.join(name);
            let text = fs::read_to_string(&path)
                .with_context(|| format!("failed to read {}", path.display()))?;
            anyhow::Ok(text.lines().map(without_position).collect::<Vec<_>>())
        };
        Ok(Self {
            caught: list("caught.txt")?,
            missed: list("missed.txt")?,
            timed_out: list("timeout.txt")?,
            unviable: list("unviable.txt")?,
        })
    }
}

/// Turns `src/a.rs:12:5: replace …` into `src/a.rs: replace …`, which survives edits above.
fn without_position(mutant: &str) -> String {
    let Some((place, change)) = mutant.split_once(": ") else { return mutant.to_owned() };
    let file = place.trim_end_matches(|c: char| c == ':' || c.is_ascii_digit());
    format!("{file}: {change}")
}

/// Mutants with the number of lines that list each: mutants of one function can read alike.
type Explained = BTreeMap<String, usize>;

/// Reads lines of the form `<mutant> # <reason>`.
fn parse_explained(text: &str) -> Result<Explained> {
    let mut explained = Explained::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((mutant, reason)) = line.rsplit_once(" # ") else {
            bail!("{EXPLAINED}:{number} gives no reason");
        };
        if reason.trim().is_empty() {
            bail!("{EXPLAINED}:{number} gives no reason");
        }
        *explained.entry(mutant.trim().to_owned()).or_default() += 1;
    }
    Ok(explained)
}

/// Caught and explained mutants pass, unexplained ones and stale explanations fail.
fn judge(tally: &mut Tally, results: &Results, explained: &Explained) {
    let mut left = explained.clone();
    tally.passed += u64::try_from(results.caught.len()).unwrap_or(u64::MAX);
    let survivors = [("missed", &results.missed), ("timed out", &results.timed_out)];
    for (how, mutants) in survivors {
        for mutant in mutants {
            match left.get_mut(mutant) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    tally.pass();
                }
                _ => tally.fail(format!("{how}: {mutant}"), Vec::new()),
            }
        }
    }
    for (mutant, count) in left {
        for _ in 0..count {
            let why = format!("no such mutant survives; remove the line from {EXPLAINED}");
            tally.fail(format!("stale: {mutant}"), vec![why]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "src/a.rs: replace open -> bool with true";
    const B: &str = "src/b.rs: replace == with != in Ring::find";

    fn check(missed: &[&str], explained: &str, expected: &str) {
        let missed = missed.iter().map(|mutant| (*mutant).to_owned()).collect();
        let results = Results { missed, ..Results::default() };
        let mut tally = Tally::default();
        judge(&mut tally, &results, &parse_explained(explained).unwrap());
        assert_eq!(tally.to_string(), expected);
    }

    #[test]
    fn positions_are_dropped() {
        assert_eq!(without_position("src/a.rs:12:5: replace open -> bool with true"), A);
        assert_eq!(
            without_position("src/b.rs:7:30: replace a::b -> c with D: e"),
            "src/b.rs: replace a::b -> c with D: e"
        );
    }

    #[test]
    fn explained_mutants_pass() {
        check(&[A, B], &format!("# why\n\n{A} # same result\n{B} # same\n"), "2 passed, 0 failed");
    }

    #[test]
    fn unexplained_mutants_fail() {
        check(&[A, B], &format!("{A} # same result"), "1 passed, 1 failed");
    }

    #[test]
    fn stale_explanations_fail() {
        check(&[], &format!("{A} # same result"), "0 passed, 1 failed");
    }

    #[test]
    fn one_line_explains_one_mutant() {
        check(&[A, A], &format!("{A} # same result"), "1 passed, 1 failed");
        check(&[A, A], &format!("{A} # same\n{A} # same\n"), "2 passed, 0 failed");
    }

    #[test]
    fn timeouts_need_an_explanation_too() {
        let results = Results { timed_out: vec![A.to_owned()], ..Results::default() };
        let mut tally = Tally::default();
        judge(&mut tally, &results, &Explained::new());
        assert_eq!(tally.to_string(), "0 passed, 1 failed");
    }

    #[test]
    fn a_reason_is_required() {
        assert!(parse_explained(A).is_err());
        assert!(parse_explained(&format!("{A} #  ")).is_err());
    }

    #[test]
    fn the_reason_follows_the_last_mark() {
        let explained = parse_explained("src/a.rs: replace f with \" # \" # equal").unwrap();
        assert!(explained.contains_key("src/a.rs: replace f with \" # \""));
    }
}
