//! `cargo xtask test`: all checks, in phases. A phase that fails does not stop the next ones.

use std::num::NonZero;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::bench;
use crate::fuzz::{self, Corpus};
use crate::gateway;
use crate::house;
use crate::links;
use crate::lock;
use crate::mcp;
use crate::postgres::Cluster;
use crate::process::{Shell, Variables};
use crate::published;
use crate::readme;
use crate::report::{Row, Tally, print_header, print_table};
use crate::sdk::{self, Sdk};
use crate::streams;
use crate::tools::{Tool, Tools, VECTORS_VENV};
use crate::tree::Snapshot;

/// Per fuzz target.
const FUZZ_SECONDS: u32 = 6;

/// Tests that run at the same time, for each processor: many of them wait for servers and for time.
const TESTS_PER_PROCESSOR: usize = 2;

pub(crate) const INTEROP: &str = "interop/Cargo.toml";
const FUZZ: &str = "fuzz/Cargo.toml";

/// Tells tests where a PostgreSQL server is, in which they may do as they like.
const POSTGRES_URL: &str = "HANDBACK_TEST_POSTGRES";

/// Names the services without which a test fails; without others it skips.
const REQUIRED: &str = "HANDBACK_TEST_REQUIRE";

/// The phases in their order.
const PHASES: [Phase; 20] = [
    Phase { name: "tools", run: tools },
    Phase { name: "fmt", run: fmt },
    Phase { name: "house", run: house },
    Phase { name: "clippy", run: clippy },
    Phase { name: "services", run: services },
    Phase { name: "unit", run: unit },
    Phase { name: "docs", run: docs },
    Phase { name: "deny", run: deny },
    Phase { name: "locks", run: locks },
    Phase { name: "vectors", run: vectors },
    Phase { name: "interop", run: interop },
    Phase { name: "streams", run: streams },
    Phase { name: "mcp", run: mcp },
    Phase { name: "sdk", run: sdk },
    Phase { name: "gateway", run: gateway },
    Phase { name: "published", run: published },
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
    let mut context = Context {
        shell,
        tools: Tools::new(shell),
        tree_before: Snapshot::take(shell),
        postgres: Service::Untried,
    };
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
    postgres: Service,
}

/// What a phase that needs it starts, and what runs until the last phase is over.
#[derive(Debug)]
enum Service {
    Untried,
    Running(Cluster),
    Missing,
}

impl Context<'_> {
    /// Whether a phase has its tool; if not, the phase is counted as it should be.
    fn has(&mut self, tool: Tool, phase: &str, tally: &mut Tally) -> bool {
        let Err(why) = self.tools.ensure(tool) else { return true };
        tally.unavailable(self.shell.config.ci, phase, &why);
        false
    }

    /// The server, started on the first call; if that fails, the first phase to ask is counted as
    /// it should be.
    fn postgres(&mut self, phase: &str, tally: &mut Tally) -> Option<&Cluster> {
        if matches!(self.postgres, Service::Untried) {
            let started = self.tools.ensure(Tool::Postgres).and_then(|()| {
                Cluster::start(self.shell).map_err(|error| format!("no PostgreSQL: {error:#}"))
            });
            self.postgres = match started {
                Ok(cluster) => Service::Running(cluster),
                Err(why) => {
                    let what = format!("{phase}: postgresql");
                    tally.unavailable(self.shell.config.ci, &what, &why);
                    Service::Missing
                }
            };
        }
        match &self.postgres {
            Service::Running(cluster) => Some(cluster),
            Service::Untried | Service::Missing => None,
        }
    }

    /// What tests learn about the services, which are started if need be.
    fn variables(&mut self, phase: &str, tally: &mut Tally) -> Variables {
        let url = self.postgres(phase, tally).map(|cluster| cluster.url().to_owned());
        variables(url, self.shell.config.ci)
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

fn house(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    house::check(context.shell, tally)
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

fn services(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    if context.postgres("services", tally).is_some() {
        tally.pass();
    }
    Ok(())
}

fn unit(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    let variables = context.variables("unit", tally);
    let args = ["test", "--workspace", "--all-features", "--no-fail-fast"];
    let mut test = context.shell.cargo(&args);
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    test.env("RUST_TEST_THREADS", (TESTS_PER_PROCESSOR * processors).to_string());
    tally.cargo_test("unit", context.shell.run(test.envs(&variables)));
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
    let mut check = shell.command(shell.config.venv_python(VECTORS_VENV.folder));
    check.args(["vectors/reference.py", "check"]).env("PYTHONDONTWRITEBYTECODE", "1");
    tally.summary("vectors", shell.run(&mut check));
    Ok(())
}

fn interop(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    let args = ["test", "--manifest-path", INTEROP, "--no-fail-fast"];
    tally.cargo_test("interop", context.shell.run(&mut context.shell.cargo(&args)));
    Ok(())
}

fn streams(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    if !context.has(Tool::StreamSuite, "streams", tally) {
        return Ok(());
    }
    streams::check(context.shell, tally)
}

fn mcp(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    if !context.has(Tool::McpSuite, "mcp", tally) {
        return Ok(());
    }
    mcp::check(context.shell, tally)
}

fn sdk(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    for sdk in Sdk::ALL {
        if context.has(sdk.tool(), sdk.label(), tally) {
            sdk::check(context.shell, sdk, tally)?;
        }
    }
    Ok(())
}

fn gateway(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    if !context.has(Tool::Servers, "gateway", tally) {
        return Ok(());
    }
    let mut clients = Sdk::ALL.to_vec();
    clients.retain(|sdk| context.has(sdk.tool(), &format!("gateway: {}", sdk.name()), tally));
    gateway::check(context.shell, &clients, tally)
}

fn published(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    for tool in published::TOOLS {
        if !context.has(tool, "published", tally) {
            return Ok(());
        }
    }
    published::check(context.shell, tally)
}

fn fuzz(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    let Context { shell, tools, .. } = context;
    fuzz::each_target(shell, tools, tally, None, FUZZ_SECONDS, Corpus::Dropped)
}

fn bench(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    let variables = context.variables("bench", tally);
    tally.check("bench: tokens", bench::smoke_tokens(context.shell, &variables));
    let postgres = variables.get(POSTGRES_URL).map(String::as_str);
    tally.check("bench: pages", bench::smoke_pages(context.shell, postgres));
    let handback = readme::build(context.shell)?;
    tally.check("bench: streams", bench::smoke_streams(context.shell, &handback));
    tally.check("bench: answers", bench::smoke_answers(context.shell, &handback));
    tally.check("bench: gateway", bench::smoke_gateway(context.shell, &handback));
    Ok(())
}

fn readme(context: &mut Context<'_>, tally: &mut Tally) -> Result<()> {
    let variables = context.variables("readme", tally);
    readme::check(context.shell, &variables, tally)
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

/// In CI a test must not skip, whether or not the server is there.
pub(crate) fn variables(postgres_url: Option<String>, ci: bool) -> Variables {
    let url = postgres_url.map(|url| (POSTGRES_URL, url));
    let required = ci.then(|| (REQUIRED, "postgres".to_owned()));
    url.into_iter().chain(required).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_variables(url: Option<&str>, ci: bool, expected: &[(&'static str, &str)]) {
        let expected = expected.iter().map(|&(name, value)| (name, value.to_owned()));
        assert_eq!(variables(url.map(str::to_owned), ci), expected.collect());
    }

    #[test]
    fn tests_learn_where_the_server_is() {
        check_variables(Some("url"), false, &[("HANDBACK_TEST_POSTGRES", "url")]);
        check_variables(None, false, &[]);
    }

    #[test]
    fn tests_must_not_skip_in_ci() {
        let required = ("HANDBACK_TEST_REQUIRE", "postgres");
        check_variables(Some("url"), true, &[("HANDBACK_TEST_POSTGRES", "url"), required]);
        check_variables(None, true, &[required]);
    }

    #[test]
    fn services_start_before_the_tests() {
        let place = |name| phase_names().iter().position(|&phase| phase == name);
        assert_eq!(place("services").map(|at| at + 1), place("unit"));
    }

    #[test]
    fn phase_names_are_distinct() {
        let mut names = phase_names();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PHASES.len());
    }
}
