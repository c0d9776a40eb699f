//! Running commands: output is shown as it comes and kept for counting and for the report.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};

use crate::config::Config;

/// Starts commands in the root of the checkout, with the environment that all of them share.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) config: Config,
}

/// What some commands find in their environment beside what all of them share.
pub(crate) type Variables = BTreeMap<&'static str, String>;

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) success: bool,
    pub(crate) code: Option<i32>,
    /// Lines of stdout and stderr in the order in which they came.
    pub(crate) log: Vec<String>,
}

impl Shell {
    /// A shell with these settings.
    pub(crate) fn new(config: Config) -> Self {
        Self { config }
    }

    /// A command to run in the root of the checkout.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.config.root)
            .env("PATH", &self.config.path)
            .env("CARGO_TARGET_DIR", &self.config.target_dir)
            .env("CARGO_TERM_COLOR", "never")
            .stdin(Stdio::null());
        for name in &self.config.withheld {
            command.env_remove(name);
        }
        command
    }

    /// A Cargo command.
    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        let mut command = self.command(&self.config.cargo);
        command.args(args);
        command
    }

    /// Runs a command and shows all its output.
    pub(crate) fn run(&self, command: &mut Command) -> Result<Finished> {
        self.run_showing(command, |_| true)
    }

    /// Runs a command and shows the lines for which `show` holds; all of them are kept.
    pub(crate) fn run_showing(
        &self,
        command: &mut Command,
        show: fn(&str) -> bool,
    ) -> Result<Finished> {
        self.say(&format!("$ {}", describe(command)));
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start `{}`", describe(command)))?;
        let log = Mutex::new(Vec::new());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        thread::scope(|scope| {
            scope.spawn(|| self.drain(stdout, &log, show));
            scope.spawn(|| self.drain(stderr, &log, show));
        });
        let status = child.wait().context("failed to wait for a command")?;
        let log = log.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Finished { success: status.success(), code: status.code(), log })
    }

    /// Runs a command quietly and returns its stdout; stderr and the status go into the error.
    pub(crate) fn read(&self, command: &mut Command) -> Result<String> {
        let output =
            command.output().with_context(|| format!("failed to start `{}`", describe(command)))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            anyhow::bail!("`{}` ended with {}: {stderr}", describe(command), output.status);
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Whether this program may do everything, and should not do some things.
    pub(crate) fn is_root(&self) -> Result<bool> {
        Ok(self.read(self.command("id").arg("-u"))?.trim() == "0")
    }

    /// Prints a line of progress.
    pub(crate) fn say(&self, line: &str) {
        if self.config.colour {
            eprintln!("\x1b[2m    {line}\x1b[0m");
        } else {
            eprintln!("    {line}");
        }
    }

    fn drain(&self, stream: Option<impl Read>, log: &Mutex<Vec<String>>, show: fn(&str) -> bool) {
        let Some(stream) = stream else { return };
        let mut reader = BufReader::new(stream);
        let mut bytes = Vec::new();
        // An unreadable pipe ends the log; the status of the command still counts.
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|len| len > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
            bytes.clear();
            if show(&line) {
                self.say(&line);
            }
            log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }
}

/// Tests counted from output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Counts {
    /// Sums the `test result: …` lines of `cargo test`.
    pub(crate) fn of_cargo_test(log: &[String]) -> Self {
        let mut sum = Self::default();
        for line in log.iter().filter_map(|line| line.trim_start().strip_prefix("test result: ")) {
            let (_, numbers) = line.split_once(". ").unwrap_or_default();
            sum.passed += number_before(numbers, ';', "passed").unwrap_or(0);
            sum.failed += number_before(numbers, ';', "failed").unwrap_or(0);
            sum.ignored += number_before(numbers, ';', "ignored").unwrap_or(0);
        }
        sum
    }

    /// Reads the last line that has the shape `N passed, N failed`.
    pub(crate) fn of_summary(log: &[String]) -> Option<Self> {
        log.iter().rev().find_map(|line| {
            let passed = number_before(line, ',', "passed")?;
            let failed = number_before(line, ',', "failed")?;
            let ignored = number_before(line, ',', "skipped").unwrap_or(0);
            Some(Self { passed, failed, ignored })
        })
    }
}

/// The names of the tests that `cargo test` reports with this word: `FAILED` or `ignored`.
pub(crate) fn tests_marked<'a>(log: &'a [String], word: &str) -> Vec<&'a str> {
    let tests = log.iter().filter_map(|line| line.strip_prefix("test ")?.rsplit_once(" ... "));
    tests
        .filter(|(_, outcome)| outcome.strip_prefix(word).is_some_and(is_end_of_word))
        .map(|(name, _)| name)
        .collect()
}

/// A reason may follow: `test slow ... ignored, needs a minute`.
fn is_end_of_word(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(',')
}

fn number_before(line: &str, separator: char, word: &str) -> Option<u64> {
    line.split(separator).find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn sums_every_binary_and_the_doctests() {
        let log = lines(
            "running 2 tests\n\
             test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s\n\
             test result: FAILED. 10 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.02s\n",
        );
        assert_eq!(Counts::of_cargo_test(&log), Counts { passed: 12, failed: 3, ignored: 1 });
    }

    #[test]
    fn counts_nothing_where_nothing_ran() {
        assert_eq!(Counts::of_cargo_test(&lines("error: could not compile\n")), Counts::default());
    }

    #[test]
    fn takes_the_last_summary_line() {
        let log = lines("1 passed, 1 failed\n17 passed, 2 failed\nbye\n");
        assert_eq!(Counts::of_summary(&log), Some(Counts { passed: 17, failed: 2, ignored: 0 }));
    }

    #[test]
    fn reads_a_summary_line_with_skips() {
        let log = lines("3 passed, 0 failed, 4 skipped\n");
        assert_eq!(Counts::of_summary(&log), Some(Counts { passed: 3, failed: 0, ignored: 4 }));
    }

    #[test]
    fn finds_no_summary_in_other_text() {
        assert_eq!(Counts::of_summary(&lines("all passed, none failed\n")), None);
    }

    #[test]
    fn names_failed_and_ignored_tests() {
        let log = lines(
            "test a::b ... ok\n\
             test a::c ... ignored\n\
             test slow ... ignored, needs a minute\n\
             test src/lib.rs - x (line 3) ... FAILED\n",
        );
        assert_eq!(tests_marked(&log, "ignored"), ["a::c", "slow"]);
        assert_eq!(tests_marked(&log, "FAILED"), ["src/lib.rs - x (line 3)"]);
    }
}
