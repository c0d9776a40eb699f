//! What takes too long for every run.

use std::fs;

use anyhow::{Context, Result};

use crate::fuzz::{self, Corpus};
use crate::postgres::Cluster;
use crate::process::Shell;
use crate::report::{Tally, print_header};
use crate::test::variables;
use crate::tools::{Tool, Tools};

const FEATURED: &str = "handback-token";
const FEATURED_MANIFEST: &str = "crates/handback-token/Cargo.toml";
const PROPERTY_CASES: &str = "20000";
const PAGE_CASES: &str = "3000";
const FUZZ_SECONDS: u32 = 120;

/// `cargo xtask soak`.
pub(crate) fn run(shell: &Shell) -> Result<bool> {
    let mut tally = Tally::default();
    print_header("features");
    features(shell, &mut tally)?;
    print_header("properties");
    let mut tools = Tools::new(shell);
    properties(shell, &mut tally);
    page_properties(shell, &mut tools, &mut tally);
    print_header("fuzz");
    let fuzzed = fuzz::each_target(shell, &mut tools, &mut tally, None, FUZZ_SECONDS, Corpus::Kept);
    if let Err(error) = fuzzed {
        tally.error("fuzz", &error);
    }
    tally.print_problems();
    println!();
    Ok(tally.conclude())
}

/// Seeds of `cargo xtask soak streams`, unless it says how many.
const STREAM_SEEDS: &str = "10000";

/// `cargo xtask soak streams`: the simulation, in the release profile.
pub(crate) fn streams(shell: &Shell, options: &[&str]) -> Result<bool> {
    let mut run = shell.cargo(&["run", "--release", "--package", "sim-streams", "--"]);
    match options {
        [] => run.args(["--seeds", STREAM_SEEDS]),
        options => run.args(options),
    };
    let status = run.status().context("failed to start the simulation")?;
    Ok(status.success())
}

/// How often a test of `cargo xtask soak kills` kills its server.
const KILLS: &str = "200";

/// `cargo xtask soak kills`: the tests that kill real processes, with more kills.
pub(crate) fn kills(shell: &Shell) -> Result<bool> {
    let mut tally = Tally::default();
    // All of the workspace, as `cargo xtask test` builds it: so nothing is built twice.
    let mut test = shell.cargo(&["test", "--workspace", "--all-features", "--no-fail-fast"]);
    test.args(["--test", "it", "killed"]);
    test.env("HANDBACK_TEST_KILLS", KILLS);
    tally.cargo_test("kills", shell.run(&mut test));
    tally.print_problems();
    println!();
    Ok(tally.conclude())
}

/// Megabytes of the values of `cargo xtask soak held`: on defaults, and with the limits raised.
const HELD_MB: &str = "100,1000";

/// `cargo xtask soak held`: the tests that hold and read large results, with larger ones.
pub(crate) fn held(shell: &Shell) -> Result<bool> {
    let mut tally = Tally::default();
    // In the server, and all the way: from a server behind the binary to its client.
    let mut test = shell.cargo(&["test", "--profile", "soak", "--no-fail-fast"]);
    test.args(["--package", "handback-server", "--package", "handback-cli"]);
    // One after the other, and with what was measured.
    test.args(["--test", "it", "large::", "--", "--nocapture", "--test-threads=1"]);
    test.env("HANDBACK_TEST_LARGE_MB", HELD_MB);
    tally.cargo_test("held", shell.run(&mut test));
    tally.print_problems();
    println!();
    Ok(tally.conclude())
}

/// No feature, each one alone, all of them.
fn features(shell: &Shell, tally: &mut Tally) -> Result<()> {
    let manifest = fs::read_to_string(shell.config.root.join(FEATURED_MANIFEST))
        .with_context(|| format!("failed to read {FEATURED_MANIFEST}"))?;
    let mut check = |what: &str, args: &[&str]| {
        let mut command = shell.cargo(&["check", "--package", FEATURED]);
        tally.check(&format!("features: {what}"), shell.run(command.args(args)));
    };
    check("none", &["--no-default-features"]);
    for feature in feature_names(&manifest) {
        check(feature, &["--no-default-features", "--features", feature]);
    }
    check("all", &["--all-features"]);
    Ok(())
}

fn properties(shell: &Shell, tally: &mut Tally) {
    let mut test = shell.cargo(&["test", "--no-fail-fast", "--all-features"]);
    test.args(["--package", "handback-token", "--package", "handback-identity"]);
    test.env("PROPTEST_CASES", PROPERTY_CASES);
    tally.cargo_test("properties", shell.run(&mut test));
}

/// Walks over collections take longer than a token, and some of them a server.
fn page_properties(shell: &Shell, tools: &mut Tools<'_>, tally: &mut Tally) {
    let cluster = tools
        .ensure(Tool::Postgres)
        .and_then(|()| Cluster::start(shell).map_err(|error| format!("no PostgreSQL: {error:#}")));
    if let Err(why) = &cluster {
        tally.unavailable(shell.config.ci, "properties: postgresql", why);
    }
    let mut test = shell.cargo(&["test", "--no-fail-fast", "--all-features"]);
    test.args(["--package", "handback-page", "--package", "handback-collections"]);
    test.env("PROPTEST_CASES", PAGE_CASES);
    let url = cluster.as_ref().ok().map(|cluster| cluster.url().to_owned());
    test.envs(&variables(url, shell.config.ci));
    tally.cargo_test("properties of pages", shell.run(&mut test));
}

/// The keys of the table `[features]`. An array that spans lines starts none of them with a key.
fn feature_names(manifest: &str) -> Vec<&str> {
    let lines = manifest.lines().skip_while(|line| line.trim() != "[features]").skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter(|line| line.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
        .filter_map(|line| Some(line.split_once('=')?.0.trim()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_features_of_a_manifest() {
        let manifest = "[package]\nname = \"x\"\n\n[features]\n# comment = 1\ndefault = []\n\
                        compat = [\n  \"dep:minicbor\",\n]\nserde-1 = [\"dep:serde\"]\n\n\
                        [dependencies]\nserde = \"1\"\n";
        assert_eq!(feature_names(manifest), ["default", "compat", "serde-1"]);
    }

    #[test]
    fn a_manifest_may_have_none() {
        assert!(feature_names("[package]\nname = \"x\"\n").is_empty());
    }
}
