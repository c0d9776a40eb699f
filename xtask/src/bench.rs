//! Measurements against peers; `interop/` holds the contenders.

use anyhow::Result;

use crate::process::{Finished, Shell, Variables};

const MANIFEST: &str = "interop/Cargo.toml";
const BINARY: &str = "bench-tokens";
const RESULTS: &str = "docs/benchmarks.md";

/// `cargo xtask bench tokens`: the long form, which writes the results.
pub(crate) fn run(shell: &Shell) -> Result<bool> {
    let run = ["run", "--release", "--manifest-path", MANIFEST, "--bin", BINARY];
    let finished = shell.run(shell.cargo(&run).args(["--", "--write", RESULTS]))?;
    if finished.success {
        println!("wrote {RESULTS}");
    }
    Ok(finished.success)
}

/// The short form, in the development profile: every contender runs and has the right sizes.
pub(crate) fn smoke(shell: &Shell, variables: &Variables) -> Result<Finished> {
    let run = ["run", "--manifest-path", MANIFEST, "--bin", BINARY];
    shell.run(shell.cargo(&run).args(["--", "--smoke"]).envs(variables))
}
