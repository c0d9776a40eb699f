//! Fuzzing without a sanitizer, which works on the stable toolchain.

use std::ffi::OsString;
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::process::{Finished, Shell};
use crate::report::{Tally, print_header, tail};
use crate::scratch::Scratch;
use crate::tools::{Tool, Tools};

const DIR: &str = "fuzz";

/// Inputs that are part of the repository; only read.
const SEEDS: &str = "fuzz/seeds";

/// Somewhat more than the longest token text and the longest key ring, so that inputs which are
/// too long are tried as well.
const INPUT_LEN_MAX: u32 = 17_000;

const MEMORY_LIMIT_MB: u32 = 2048;

/// Per target, in `cargo xtask fuzz`.
const LONG_SECONDS: u32 = 600;

/// `cargo xtask fuzz`.
pub(crate) fn run(shell: &Shell, options: &[&str]) -> Result<bool> {
    let options = Options::parse(options)?;
    let mut tools = Tools::new(shell);
    let mut tally = Tally::default();
    print_header("fuzz");
    let corpus = Corpus::Kept;
    each_target(shell, &mut tools, &mut tally, options.target, options.seconds, corpus)?;
    tally.print_problems();
    println!();
    Ok(tally.conclude())
}

/// Where the inputs that a run finds go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Corpus {
    /// Below the cache folder, for the next run to go on from.
    Kept,
    /// Nowhere.
    Dropped,
}

/// Runs all targets, or the named one; each is one check.
pub(crate) fn each_target(
    shell: &Shell,
    tools: &mut Tools<'_>,
    tally: &mut Tally,
    only: Option<&str>,
    seconds: u32,
    corpus: Corpus,
) -> Result<()> {
    if let Err(why) = tools.ensure(Tool::Fuzz) {
        tally.unavailable(shell.config.ci, "fuzz", &why);
        return Ok(());
    }
    let targets = targets(shell, only)?;
    build(shell, only)?;
    // Each takes one processor.
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let queue = Mutex::new(targets.iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    // What several say at the same time helps nobody: of one that fails it is in the report.
    let show: fn(&str) -> bool =
        if targets.len() == 1 { |line| !is_chatter(line) } else { |_| false };
    let work = || {
        let fuzz = |target: &String| (target.clone(), fuzz(shell, target, seconds, corpus, show));
        std::iter::from_fn(next).map(fuzz).collect::<Vec<_>>()
    };
    let mut results: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    if results.len() < targets.len() {
        bail!("of {} targets only {} were fuzzed", targets.len(), results.len());
    }
    results.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (target, finished) in results {
        tally.check(&format!("fuzz: {target}"), finished);
    }
    Ok(())
}

fn targets(shell: &Shell, only: Option<&str>) -> Result<Vec<String>> {
    let list = shell.read(&mut shell.cargo(&["fuzz", "list", "--fuzz-dir", DIR]))?;
    let targets: Vec<String> = list.lines().map(|line| line.trim().to_owned()).collect();
    if targets.is_empty() {
        bail!("{DIR}/ has no targets");
    }
    match only {
        None => Ok(targets),
        Some(only) if targets.iter().any(|target| target == only) => Ok(vec![only.to_owned()]),
        Some(only) => bail!("no fuzz target `{only}`; there are {}", targets.join(", ")),
    }
}

/// Instrumented code has a place of its own below the common target directory.
fn build_options(shell: &Shell) -> Vec<OsString> {
    let target_dir = shell.config.target_dir.join("fuzz");
    let options: [OsString; 6] = [
        "--fuzz-dir".into(),
        DIR.into(),
        "--sanitizer".into(),
        "none".into(),
        "--target-dir".into(),
        target_dir.into(),
    ];
    options.into()
}

fn build(shell: &Shell, only: Option<&str>) -> Result<()> {
    let mut build = shell.cargo(&["fuzz", "build"]);
    build.args(build_options(shell)).args(only);
    let built = shell.run(&mut build)?;
    if !built.success {
        bail!("the fuzz targets do not build:\n{}", tail(&built.log).join("\n"));
    }
    Ok(())
}

fn fuzz(
    shell: &Shell,
    target: &str,
    seconds: u32,
    corpus: Corpus,
    show: fn(&str) -> bool,
) -> Result<Finished> {
    let scratch = Scratch::new(&format!("fuzz-{target}"))?;
    let corpus = match corpus {
        Corpus::Dropped => scratch.path().to_path_buf(),
        Corpus::Kept => shell.config.cache.join("corpus").join(target),
    };
    fs::create_dir_all(&corpus).with_context(|| format!("failed to make {}", corpus.display()))?;
    let mut run = shell.cargo(&["fuzz", "run"]);
    // What the fuzzer finds goes into the first folder; the others are only read.
    run.args(build_options(shell)).arg(target).arg(corpus).args(seeds(&shell.config.root, target));
    run.arg("--");
    run.arg(format!("-max_total_time={seconds}"));
    run.arg(format!("-max_len={INPUT_LEN_MAX}"));
    run.arg(format!("-rss_limit_mb={MEMORY_LIMIT_MB}"));
    run.arg("-print_final_stats=1");
    let finished = shell.run_showing(&mut run, show)?;
    match executions(&finished.log) {
        Some(executions) => println!("{target}: {executions} executions"),
        None => println!("{target}: no count of executions"),
    }
    Ok(finished)
}

fn seeds(root: &Path, target: &str) -> Option<OsString> {
    let seeds = root.join(SEEDS).join(target);
    seeds.is_dir().then(|| seeds.into_os_string())
}

/// The fuzzer reports every input that it keeps.
fn is_chatter(line: &str) -> bool {
    line.starts_with('#') && ["\tNEW ", "\tREDUCE "].iter().any(|event| line.contains(event))
}

fn executions(log: &[String]) -> Option<u64> {
    log.iter()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok())
}

#[derive(Debug, PartialEq, Eq)]
struct Options<'a> {
    target: Option<&'a str>,
    seconds: u32,
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a str]) -> Result<Self> {
        let mut options = Self { target: None, seconds: LONG_SECONDS };
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            if arg == "--seconds" {
                let seconds = args.next().context("`--seconds` needs a number")?;
                options.seconds = seconds
                    .parse()
                    .with_context(|| format!("`{seconds}` is not a number of seconds"))?;
            } else if arg.starts_with('-') {
                bail!("`fuzz` has no option `{arg}`");
            } else if options.target.replace(arg).is_some() {
                bail!("`fuzz` takes at most one target");
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &[&str], expected: Option<(Option<&str>, u32)>) {
        let parsed = Options::parse(args).ok();
        assert_eq!(parsed.map(|options| (options.target, options.seconds)), expected);
    }

    #[test]
    fn parses_target_and_seconds_in_any_order() {
        check(&[], Some((None, LONG_SECONDS)));
        check(&["open", "--seconds", "5"], Some((Some("open"), 5)));
        check(&["--seconds", "5", "open"], Some((Some("open"), 5)));
    }

    #[test]
    fn refuses_other_arguments() {
        check(&["--seconds"], None);
        check(&["--seconds", "soon"], None);
        check(&["--minutes", "5"], None);
        check(&["open", "verify"], None);
    }

    #[test]
    fn reads_executions() {
        let log = ["#5\tNEW cov: 3".to_owned(), "stat::number_of_executed_units: 4711".to_owned()];
        assert_eq!(executions(&log), Some(4711));
        assert_eq!(executions(&[]), None);
    }

    #[test]
    fn hides_inputs_but_not_crashes() {
        assert!(is_chatter("#12\tNEW    cov: 3 ft: 4 corp: 2/5b"));
        assert!(is_chatter("#12\tREDUCE cov: 3 ft: 4 corp: 2/5b"));
        assert!(!is_chatter("#12\tpulse  cov: 3"));
        assert!(!is_chatter("==1== ERROR: libFuzzer: deadly signal"));
    }
}
