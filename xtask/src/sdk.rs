//! The published clients of the Model Context Protocol, against `handback serve --demo`.
//!
//! Each client has a script (`interop/sdk-NAME/`) that walks pages, answers questions and waits for
//! tasks, over HTTP and over standard streams, and prints a line for every check: `ok NAME` or
//! `not ok NAME`. Each of them counts as one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::mcp;
use crate::process::{Finished, Shell};
use crate::readme;
use crate::report::{Tally, tail};
use crate::scratch::Scratch;
use crate::server::Server;
use crate::tools::{SDK_VENV, Tool};

/// Where the TypeScript clients are described.
pub(crate) const NPM_PACKAGE: &str = "interop/sdk-typescript";

const NPM_SCRIPT: &str = "checks.js";
const PYTHON_SCRIPT: &str = "interop/sdk-python/checks.py";

/// Several times what the slowest known run takes.
const SECONDS_MAX: &str = "600";

/// A published client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sdk {
    Python,
    TypeScript,
}

impl Sdk {
    pub(crate) const ALL: [Self; 2] = [Self::Python, Self::TypeScript];

    /// What it comes with.
    pub(crate) fn tool(self) -> Tool {
        match self {
            Self::Python => Tool::SdkPython,
            Self::TypeScript => Tool::SdkTypeScript,
        }
    }

    /// Its language.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::TypeScript => "typescript",
        }
    }

    /// The name that reports use.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Python => "sdk: python",
            Self::TypeScript => "sdk: typescript",
        }
    }

    /// How many checks its script has: a run of fewer is not a run of all.
    fn checks(self) -> usize {
        match self {
            Self::Python => 46,
            Self::TypeScript => 66,
        }
    }

    /// The program that runs its script, and the script.
    fn script(self, shell: &Shell) -> Result<(PathBuf, PathBuf)> {
        let root = &shell.config.root;
        match self {
            Self::Python => {
                Ok((shell.config.venv_python(SDK_VENV.folder), root.join(PYTHON_SCRIPT)))
            }
            Self::TypeScript => {
                // Next to what it imports.
                let dir = shell.config.npm(NPM_PACKAGE);
                let script = dir.join(NPM_SCRIPT);
                fs::copy(root.join(NPM_PACKAGE).join(NPM_SCRIPT), &script)
                    .with_context(|| format!("failed to copy {NPM_SCRIPT}"))?;
                Ok((mcp::node(&dir)?, script))
            }
        }
    }
}

/// Runs the script of one client against a server of the development build that nobody else uses.
pub(crate) fn check(shell: &Shell, sdk: Sdk, tally: &mut Tally) -> Result<()> {
    let script = match sdk.script(shell) {
        Ok(script) => script,
        Err(error) => {
            tally.unavailable(shell.config.ci, sdk.label(), &format!("{error:#}"));
            return Ok(());
        }
    };
    let program = readme::build(shell)?;
    let server = Server::start(shell, "sdk", &program, |address, data| {
        let data = data.display().to_string();
        ["serve", "--demo", "--listen", &address.to_string(), "--data", &data]
            .map(str::to_owned)
            .to_vec()
    })
    .context("failed to start `handback serve --demo`")?;
    let mut own = Tally::default();
    let finished = run(shell, script, &format!("http://{}/mcp", server.address()), &program)?;
    judge(&mut own, sdk.label(), sdk.checks(), &finished);
    if let Some(why) = server.ended() {
        own.fail(format!("{}: the server did not survive it", sdk.label()), vec![why]);
    }
    println!("{}: {own}", sdk.label());
    tally.add(own);
    Ok(())
}

/// The script is told where a server listens, and how to start another for standard streams.
fn run(
    shell: &Shell,
    (interpreter, script): (PathBuf, PathBuf),
    url: &str,
    program: &Path,
) -> Result<Finished> {
    let data = Scratch::new("sdk-stdio")?;
    let mut command = shell.command("timeout");
    command.args(["--kill-after=10", SECONDS_MAX]).arg(interpreter).arg(script);
    command.arg(url).arg(program).arg(data.path());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    shell.run(&mut command)
}

/// Counts every check, and keeps the count consistent with how many there are and with how the
/// script ended.
fn judge(tally: &mut Tally, label: &str, expected: usize, finished: &Finished) {
    let mut names = BTreeSet::new();
    for line in &finished.log {
        if let Some(name) = line.strip_prefix("ok ") {
            names.insert(name);
            tally.pass();
        } else if let Some(name) = line.strip_prefix("not ok ") {
            names.insert(name);
            tally.fail(format!("{label}: {name}"), tail(&finished.log));
        }
    }
    if names.len() != expected {
        let why = format!("{} checks ran, there are {expected}", names.len());
        let detail = std::iter::once(why).chain(tail(&finished.log)).collect();
        tally.fail(format!("{label}: the number of checks"), detail);
    }
    if !finished.success && tally.failed == 0 {
        tally.fail(format!("{label}: the script failed"), tail(&finished.log));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(log: &[&str], success: bool, outcome: &str) {
        let log = log.iter().map(|line| (*line).to_owned()).collect();
        let finished = Finished { success, code: None, log };
        let mut tally = Tally::default();
        judge(&mut tally, "sdk", 2, &finished);
        assert_eq!(tally.to_string(), outcome);
    }

    #[test]
    fn every_check_counts() {
        check(&["ok a", "a note", "ok b"], true, "2 passed, 0 failed");
        check(&["ok a", "not ok b", "why"], false, "1 passed, 1 failed");
    }

    #[test]
    fn a_part_of_the_checks_is_not_all() {
        check(&["ok a"], true, "1 passed, 1 failed");
        check(&["ok a", "ok a"], true, "2 passed, 1 failed");
        check(&[], true, "0 passed, 1 failed");
    }

    #[test]
    fn an_error_outside_of_the_checks_fails() {
        check(&["ok a", "ok b"], false, "2 passed, 1 failed");
    }
}
