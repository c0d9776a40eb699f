//! Programs that the checks need and that Cargo does not bring along.
//!
//! What is found on the search path is used as it is. The rest is installed below the cache folder,
//! so that neither the checkout nor the user's own tools change.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::process::{Finished, Shell};
use crate::report::tail;

const REQUIREMENTS: &str = "vectors/requirements.txt";

/// Written last, so that an environment without it is known to be half made.
const STAMP: &str = "handback-requirements.txt";

/// A program that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tool {
    Deny,
    Fuzz,
    Mutants,
    Python,
}

impl Tool {
    /// What `cargo xtask test` needs.
    pub(crate) const OF_TEST: [Self; 3] = [Self::Deny, Self::Fuzz, Self::Python];

    /// The name that reports use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deny => "cargo-deny",
            Self::Fuzz => "cargo-fuzz",
            Self::Mutants => "cargo-mutants",
            Self::Python => "python environment",
        }
    }

    /// The version that is installed where none is found; `None` for what is not a Cargo package.
    fn version(self) -> Option<&'static str> {
        match self {
            Self::Deny => Some("0.20.2"),
            Self::Fuzz => Some("0.13.2"),
            Self::Mutants => Some("27.1.0"),
            Self::Python => None,
        }
    }
}

/// The tools of one run; each is looked for, and if need be installed, once.
#[derive(Debug)]
pub(crate) struct Tools<'a> {
    shell: &'a Shell,
    known: BTreeMap<Tool, Result<(), String>>,
}

impl<'a> Tools<'a> {
    /// Nothing is looked for yet.
    pub(crate) fn new(shell: &'a Shell) -> Self {
        Self { shell, known: BTreeMap::new() }
    }

    /// Makes sure of a tool, or says why it can not be had.
    pub(crate) fn ensure(&mut self, tool: Tool) -> Result<(), String> {
        let shell = self.shell;
        let known = self.known.entry(tool).or_insert_with(|| {
            let outcome = match tool.version() {
                Some(version) => ensure_package(shell, tool.name(), version),
                None => ensure_venv(shell),
            };
            outcome.map_err(|error| format!("{} can not be had: {error:#}", tool.name()))
        });
        known.clone()
    }
}

fn ensure_package(shell: &Shell, name: &str, version: &str) -> Result<()> {
    if let Some(found) = find(shell, name) {
        println!("{name}: {}", found.display());
        return Ok(());
    }
    let root = shell.config.tools();
    println!("{name}: installing {version} into {}; this takes some minutes", root.display());
    let mut install = shell.cargo(&["install", "--locked", name, "--version", version, "--root"]);
    // Cargo builds in a temporary folder then, and leaves nothing but the program.
    install.arg(&root).env_remove("CARGO_TARGET_DIR");
    succeed(shell.run(&mut install)?)?;
    find(shell, name).with_context(|| format!("{name} is not there after its installation"))?;
    Ok(())
}

fn find(shell: &Shell, name: &str) -> Option<std::path::PathBuf> {
    std::env::split_paths(&shell.config.path).map(|dir| dir.join(name)).find(|path| path.is_file())
}

fn ensure_venv(shell: &Shell) -> Result<()> {
    let wanted = fs::read_to_string(shell.config.root.join(REQUIREMENTS))
        .with_context(|| format!("failed to read {REQUIREMENTS}"))?;
    let venv = shell.config.venv();
    let stamp = venv.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) && runs(shell) {
        println!("python environment: {}", venv.display());
        return Ok(());
    }
    println!("python environment: making {} from {REQUIREMENTS}", venv.display());
    make_venv(shell, &venv)?;
    fs::write(&stamp, wanted).context("failed to write the stamp of the environment")
}

/// An environment stops working when the interpreter that it was made from goes away.
fn runs(shell: &Shell) -> bool {
    shell.read(shell.command(shell.config.venv_python()).arg("--version")).is_ok()
}

fn make_venv(shell: &Shell, venv: &Path) -> Result<()> {
    let mut create = shell.command("python3");
    create.args(["-m", "venv", "--clear"]).arg(venv);
    succeed(shell.run(&mut create)?)
        .context("`python3 -m venv` failed (Debian has it in the package python3-venv)")?;
    let mut install = shell.command(shell.config.venv_python());
    install.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input"]);
    install.args(["--requirement", REQUIREMENTS]);
    succeed(shell.run(&mut install)?)
}

fn succeed(finished: Finished) -> Result<()> {
    if finished.success {
        return Ok(());
    }
    bail!("the command failed:\n{}", tail(&finished.log).join("\n"))
}
