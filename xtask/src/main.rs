//! The checks, benchmarks and long runs of this repository.
//!
//! `cargo xtask` prints what there is to run. Progress and the output of the commands go to stderr,
//! headers and results to stdout; every run of checks ends with the line `N passed, N failed`.

#![expect(clippy::print_stdout, reason = "headers and results are what this program is for")]
#![expect(clippy::print_stderr, reason = "progress goes to stderr")]

mod bench;
mod config;
mod fuzz;
mod gateway;
mod house;
mod links;
mod lock;
mod mcp;
mod mutants;
mod postgres;
mod process;
mod published;
mod readme;
mod report;
mod scratch;
mod sdk;
mod server;
mod soak;
mod streams;
mod test;
mod tools;
mod tree;
mod wounds;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::config::Config;
use crate::process::Shell;

const HELP: &str = "\
Usage: cargo xtask COMMAND

Commands:
  test [PHASE…]                  All checks, or only the named phases
  house [--lower]                Numbers of the phase `house`; --lower records those that fell in
                                 xtask/ratchet.json; --places MEASURE lists what a measure counts
  fuzz [TARGET] [--seconds N]    Fuzz every target, or one, for N seconds each (default 600)
  mutants token                  Mutation tests of handback-token
  bench tokens                   Measure tokens against their peers, write docs/benchmarks.md
  bench pages                    Measure pages of ten million rows and of a large JSON document, write
                                 docs/benchmarks.md (some minutes, 3 GB of disk)
  bench streams [OPTIONS]        Measure `handback serve` against other stream servers, write
                                 docs/benchmarks.md (half an hour; installs the others)
    --only NAME,…                Only these: wal, handback, handback-unsigned, acid, node-memory,
                                 node-file
    --scenarios NAME,…           Only these: one, connections, streams, fan-out, resume, catch-up
    --rounds N, --seconds S      Turns of each (default 10), and how long one measures (default 3)
    --write                      Write the results also with other options; else they only print
  bench answers [--only ID,…]    Count what an agent reads and writes for answers about large results,
                                 write docs/benchmarks.md; with --only it only prints
  bench gateway [OPTIONS]        Measure `handback serve --upstream` against other proxies, write
                                 docs/benchmarks.md (some minutes; installs the others)
    --only NAME,…                Only these: direct, handback, mcp-proxy, fastmcp-kept, fastmcp
    --callers N,…                Callers at a time (default 1,8,32)
    --rounds N                   Turns of each (default 30)
    --no-features                Only calls, not what each feature costs
    --write                      As above
  soak                           Feature combinations, many property cases, two minutes per fuzz target
  soak streams [--seeds N]       Streams under crashes, disk faults and a bad network (10000 seeds);
                                 --seed N replays one
  soak kills                     200 kills per test that kills servers: streams, duplexes, calls
  soak held                      Held results of 100 MB and 1 GB, read in every way in little memory
  soak wounds [NAME…]            Each patch in xtask/wounds takes a fix out again; its test has to fail
  help                           This text

Phases of `test`, in order:
";

/// Everything that ran passed.
const EXIT_OK: u8 = 0;
/// A check failed.
const EXIT_FAILED: u8 = 1;
/// The arguments make no sense, or the run could not start.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match dispatch(&args) {
        Ok(true) => EXIT_OK.into(),
        Ok(false) => EXIT_FAILED.into(),
        Err(error) => {
            eprintln!("error: {error:#}");
            eprintln!("\nhint: `cargo xtask help` lists the commands");
            EXIT_USAGE.into()
        }
    }
}

/// Runs one command and says whether everything in it passed.
fn dispatch(args: &[&str]) -> Result<bool> {
    if matches!(args, [] | ["help" | "--help" | "-h", ..]) {
        print!("{HELP}");
        println!("  {}", test::phase_names().join(", "));
        return Ok(true);
    }
    let shell = Shell::new(Config::from_environment()?);
    match args {
        ["test", phases @ ..] => test::run(&shell, phases),
        ["house", options @ ..] => house::run(&shell, options),
        ["fuzz", options @ ..] => fuzz::run(&shell, options),
        ["mutants", "token"] => mutants::run(&shell),
        ["mutants", ..] => bail!("`mutants` needs the name of what to mutate: `token`"),
        ["bench", "tokens"] => bench::tokens(&shell),
        ["bench", "pages"] => bench::pages(&shell),
        ["bench", "streams", options @ ..] => bench::streams(&shell, options),
        ["bench", "answers", options @ ..] => bench::answers(&shell, options),
        ["bench", "gateway", options @ ..] => bench::gateway(&shell, options),
        ["bench", ..] => {
            let known = "`tokens`, `pages`, `streams`, `answers` or `gateway`";
            bail!("`bench` needs the name of what to measure: {known}")
        }
        ["soak"] => soak::run(&shell),
        ["soak", "streams", rest @ ..] => soak::streams(&shell, rest),
        ["soak", "kills"] => soak::kills(&shell),
        ["soak", "held"] => soak::held(&shell),
        ["soak", "wounds", names @ ..] => wounds::run(&shell, names),
        ["soak", ..] => {
            bail!(
                "`soak` takes no arguments, `kills`, `held`, `wounds`, or `streams` with `--seeds N`"
            )
        }
        [unknown, ..] => bail!("there is no command `{unknown}`"),
        [] => unreachable!("no argument is handled above"),
    }
}
