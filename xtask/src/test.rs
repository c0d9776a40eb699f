//! `cargo xtask test`: all checks, in phases. A phase that fails does not stop the next ones.

use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::bench;
use crate::fuzz::{self, Corpus};
use crate::links;
use crate::lock;
use crate::process::Shell;
use crate::readme;
use crate::report::{Row, Tally, print_header, print_table};
use crate::tools::{Tool, Tools};
use crate::tree::Snapshot;

/// Per fuzz target.
const FUZZ_SECONDS: u32 = 10;

const INTEROP: &str = "interop/Cargo.toml";
const FUZZ: &str = "fuzz/Cargo.toml";

/// The phases in their order.
const PHASES: [Phase; 13] = [
    Phase { name: "tools", run: tools },
    Phase { name: "fmt", run: fmt },
    Phase { name: "clippy", run: clippy },
    Phase { name: "unit", run: unit },
    Phase { name: "docs", run: docs },
    Phase { name: "deny", run: deny },
    Phase { name: "locks", run: locks },
    Phase { name: "vectors", run: vectors },
    Phase { name: "interop", run: interop },
    Phase { name: "fuzz", run: fuzz },
    Phase { name: "bench", run: bench },
    Phase { name: "readme", run: readme },
    Phase { name: "clean", run: clean },
];

/// The names of the phases in their order.
pub(crate) fn phase_names() -> Vec<&'static str> {
    PHASES.iter().map(|phase| phase.name).collect()
}

/// Runs the named phases, or all of them, and says whether everything passed.
pub(crate) fn run(shell: &Shell, names: &[&str]) -> Result<bool> {
    if let Some(unknown) = names.iter().find(|name| !phase_names().contains(name)) {
        bail!("`test` has no phase `{unknown}`; there are {}", phase_names().join(", "));
    }
    println!("target directory: {}", shell.config.target_dir.display());
    let mut context =
        Context { shell, tools: Tools::new(shell), tree_before: Snapshot::take(shell) };
    let mut total = Tally::default();
    let mut rows = Vec::new();
    for phase in PHASES.iter().filter(|phase| names.is_empty() || names.contains(&phase.name)) {
        print_header(phase.name);
        let start = Instant::now();
        let mut tally = Tally::default();
        if let Err(error) = (phase.run)(&mut context, &mut tally) {
            tally.error(phase.name, &error);
        }
        println!("{}: {tally}", phase.name);
        rows.push(Row::new(phase.name, start.elapsed(), &tally));
        total.add(tally);
    }
    total.print_problems();
    print_table(&rows);
    Ok(total.conclude())
}

#[derive(Clone, Copy, Debug)]
struct Phase {
    name: &'static str,
    run: fn(&mut Context<'_>, &mut Tally) -> Result<()>,
}

#[derive(Debug)]
struct Context<'a> {
    shell: &'a Shell,
    tools: Tools<'a>,
    tree_before: Result<Snapshot>,
}

impl Context<'_> {
    /// Whether a phase has its tool; if not, the phase is counted as it should be.
    fn has(&mut self, tool: Tool, phase: &str, tally: &mut Tally) -> bool {
        let Err(why) = self.tools.ensure(tool) else { return true };
        tally.unavailable(self.shell.config.ci, phase, &why);
        false
    }

    /// Counts a Cargo command as one check.
    fn cargo(&self, tally: &mut Tally, what: &str, args: &[&str]) {
        tally.check(what, self.shell.run(&mut self.shell.cargo(args)));
    }
}

fn tools(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    for tool in Tool::OF_TEST {
        if context.has(tool, &format!("tools: {}", tool.name()), tally) {
            tally.pass();
        }
    }
    Ok(())
}

fn fmt(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    context.cargo(tally, "fmt: workspace", &["fmt", "--all", "--check"]);
    for manifest in [INTEROP, FUZZ] {
        let args = ["fmt", "--manifest-path", manifest, "--all", "--check"];
        context.cargo(tally, &format!("fmt: {manifest}"), &args);
    }
    Ok(())
}

fn clippy(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    let deny = ["--", "-D", "warnings"];
    let workspace = ["clippy", "--workspace", "--all-targets", "--all-features"];
    context.cargo(tally, "clippy: workspace", &[&workspace[..], &deny].concat());
    let plain = ["clippy", "--package", "handback-token", "--all-targets"];
    context.cargo(tally, "clippy: without features", &[&plain[..], &deny].concat());
    let interop = ["clippy", "--manifest-path", INTEROP, "--all-targets"];
    context.cargo(tally, "clippy: interop", &[&interop[..], &deny].concat());
    let fuzz = ["clippy", "--manifest-path", FUZZ];
    context.cargo(tally, "clippy: fuzz", &[&fuzz[..], &deny].concat());
    Ok(())
}

fn unit(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    let args = ["test", "--workspace", "--all-features", "--no-fail-fast"];
    tally.cargo_test("unit", context.shell.run(&mut context.shell.cargo(&args)));
    Ok(())
}

fn docs(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    let shell = context.shell;
    let mut doc = shell.cargo(&["doc", "--workspace", "--no-deps", "--all-features"]);
    tally.check("docs: rustdoc", shell.run(doc.env("RUSTDOCFLAGS", "-D warnings")));
    tally.findings("docs: links", links::broken(&shell.config.root));
    Ok(())
}

fn deny(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    if !context.has(Tool::Deny, "deny", tally) {
        return Ok(());
    }
    for manifest in ["Cargo.toml", INTEROP, FUZZ] {
        let which = ["deny", "--config", "deny.toml", "--manifest-path", manifest];
        // An exception for interop/ has nothing to match in the workspace.
        let checks = ["check", "--allow", "unused-wrapper", "bans", "licenses", "sources"];
        context.cargo(tally, &format!("deny: {manifest}"), &[&which[..], &checks].concat());
    }
    Ok(())
}

fn locks(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    for other in lock::OTHERS {
        let findings = lock::compare(&context.shell.config.root, other);
        tally.findings(&format!("locks: {other}"), findings);
    }
    Ok(())
}

fn vectors(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    if !context.has(Tool::Python, "vectors", tally) {
        return Ok(());
    }
    let shell = context.shell;
    let mut check = shell.command(shell.config.venv_python());
    check.args(["vectors/reference.py", "check"]).env("PYTHONDONTWRITEBYTECODE", "1");
    tally.summary("vectors", shell.run(&mut check));
    Ok(())
}

fn interop(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    let args = ["test", "--manifest-path", INTEROP, "--no-fail-fast"];
    tally.cargo_test("interop", context.shell.run(&mut context.shell.cargo(&args)));
    Ok(())
}

fn fuzz(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    let Context { shell, tools, .. } = context;
    fuzz::each_target(shell, tools, tally, None, FUZZ_SECONDS, Corpus::Dropped)
}

fn bench(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    tally.check("bench: smoke run", bench::smoke(context.shell));
    Ok(())
}

fn readme(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    readme::check(context.shell, tally)
}

/// Without Git, as in an unpacked archive, there is nothing to compare with.
fn clean(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    match &context.tree_before {
        Ok(before) => {
            let after = Snapshot::take(context.shell).context("failed to look at the tree")?;
            tally.findings("clean: files changed by this run", Ok(before.changes(&after)));
        }
        Err(error) => {
            tally.unavailable(context.shell.config.ci, "clean", &format!("{error:#}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phase_names_are_distinct() {
        let mut names = phase_names();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PHASES.len());
    }
}
