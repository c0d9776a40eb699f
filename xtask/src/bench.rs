//! Measurements against peers: of tokens by `interop/`, which holds the contenders, of pages by a
//! bench target of `handback-collections`, and of streams and of the gateway by `bench/streams` and
//! `bench/gateway`, whose contenders are programs of their own. What answers cost is
//! counted by `bench/answers`.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::postgres::Cluster;
use crate::process::{Finished, Shell, Variables};
use crate::readme;
use crate::report::tail;
use crate::scratch::Scratch;
use crate::streams;
use crate::tools::{self, FASTMCP_VENV, Tool, Tools};

const MANIFEST: &str = "interop/Cargo.toml";
const BINARY: &str = "bench-tokens";
const RESULTS: &str = "docs/benchmarks.md";

/// How the program that counts what answers cost is run.
const ANSWERS: [&str; 4] = ["run", "--package", "bench-answers", "--"];

/// Peers that are Rust crates: their name in the program that measures, the crate, the version.
const PEERS: [(&str, &str, &str); 2] =
    [("wal", "durable-streams", "0.1.5"), ("acid", "durable-streams-server", "0.3.0")];

/// Both of them call it that.
const PEER_BINARY: &str = "durable-streams-server";

const REFERENCE_SERVER: &str = "reference-server.js";

/// The peer of the gateway that the aims name; its binary is called like the crate.
const PROXY: &str = "mcp-proxy";
const PROXY_VERSION: &str = "0.6.0";

/// What runs the proxy of FastMCP.
const FASTMCP_SCRIPT: &str = "bench/gateway/fastmcp/proxy.py";

/// Options of `bench streams` that have a value, and of `bench gateway`.
const STREAM_OPTIONS: [&str; 4] = ["--only", "--scenarios", "--rounds", "--seconds"];
const GATEWAY_OPTIONS: [&str; 3] = ["--only", "--callers", "--rounds"];

/// Options of `bench gateway` that have none.
const GATEWAY_FLAGS: [&str; 2] = ["--no-features", "--only-shares"];

/// `cargo xtask bench tokens`: the long form, which writes the results.
pub(crate) fn tokens(shell: &Shell) -> Result<bool> {
    let run = ["run", "--release", "--manifest-path", MANIFEST, "--bin", BINARY];
    let finished = shell.run(shell.cargo(&run).args(["--", "--write", RESULTS]))?;
    Ok(written(&finished))
}

/// The short form, in the development profile: every contender runs and has the right sizes.
pub(crate) fn smoke_tokens(shell: &Shell, variables: &Variables) -> Result<Finished> {
    let run = ["run", "--manifest-path", MANIFEST, "--bin", BINARY];
    shell.run(shell.cargo(&run).args(["--", "--smoke"]).envs(variables))
}

/// `cargo xtask bench pages`: the long form, which writes the results. What it generates for SQLite
/// and JSON is kept for the next time; PostgreSQL gets a cluster of its own.
pub(crate) fn pages(shell: &Shell) -> Result<bool> {
    Tools::new(shell).ensure(Tool::Postgres).map_err(anyhow::Error::msg)?;
    let cluster = Cluster::start(shell)?;
    let url = UrlFile::new(cluster.url())?;
    let mut bench =
        shell.cargo(&["bench", "--package", "handback-collections", "--bench", "pages"]);
    // Cargo starts it in the folder of its package.
    let (data, results) = (shell.config.cache.join("bench"), shell.config.root.join(RESULTS));
    bench.args(["--", "--data"]).arg(data).arg("--write").arg(results);
    let finished = shell.run(bench.arg("--postgres-file").arg(url.path()))?;
    Ok(written(&finished))
}

/// The short form: everything runs and finds the same rows. `cargo test` and the whole workspace:
/// so it is built from what the tests are built from.
pub(crate) fn smoke_pages(shell: &Shell, postgres: Option<&str>) -> Result<Finished> {
    let test = ["test", "--workspace", "--all-features", "--bench", "pages", "--", "--smoke"];
    let mut test = shell.cargo(&test);
    let url = postgres.map(UrlFile::new).transpose()?;
    if let Some(url) = &url {
        test.arg("--postgres-file").arg(url.path());
    }
    shell.run(&mut test)
}

/// `cargo xtask bench streams`. Without options it is the long form, which writes the results; with
/// options, which are for a quick look, it only prints them.
pub(crate) fn streams(shell: &Shell, options: &[&str]) -> Result<bool> {
    let options = Options::parse("streams", options, &STREAM_OPTIONS, &[])?;
    let mut bench = shell.cargo(&["run", "--release", "--package", "bench-streams", "--"]);
    let has_ours = options.wants("handback") || options.wants("handback-unsigned");
    if has_ours {
        let program = build_own(shell)?;
        bench.arg("--handback").arg(&program).arg("--handback-unsigned").arg(&program);
    }
    add_peers(shell, &options, &mut bench)?;
    measure(shell, bench, &options, "streams", has_ours)
}

/// `cargo xtask bench gateway`, in the same way.
pub(crate) fn gateway(shell: &Shell, options: &[&str]) -> Result<bool> {
    let options = Options::parse("gateway", options, &GATEWAY_OPTIONS, &GATEWAY_FLAGS)?;
    let mut bench = shell.cargo(&["run", "--release", "--package", "bench-gateway", "--"]);
    let has_ours = options.wants("handback");
    if has_ours {
        bench.arg("--handback").arg(build_own(shell)?);
    }
    if options.wants(PROXY) {
        bench.arg("--mcp-proxy").arg(tools::ensure_peer(shell, PROXY, PROXY_VERSION, PROXY)?);
    }
    if options.wants("fastmcp") || options.wants("fastmcp-kept") {
        Tools::new(shell).ensure(Tool::FastMcp).map_err(anyhow::Error::msg)?;
        bench.arg("--fastmcp").arg(shell.config.venv_python(FASTMCP_VENV.folder));
        bench.arg("--fastmcp-script").arg(shell.config.root.join(FASTMCP_SCRIPT));
    }
    measure(shell, bench, &options, "gateway", has_ours)
}

/// The short form, in the development profile: calls and features, direct and through our own.
pub(crate) fn smoke_gateway(shell: &Shell, handback: &Path) -> Result<Finished> {
    let mut bench = shell.cargo(&["run", "--package", "bench-gateway", "--", "--smoke"]);
    shell.run(bench.arg("--handback").arg(handback))
}

/// Runs what measures, in a folder of the cache; all of it with ours in it is written down.
fn measure(
    shell: &Shell,
    mut bench: Command,
    options: &Options<'_>,
    name: &str,
    has_ours: bool,
) -> Result<bool> {
    bench.args(&options.passed_on);
    bench.arg("--scratch").arg(shell.config.cache.join("bench").join(name));
    let writes = has_ours && options.writes();
    if writes {
        bench.arg("--write").arg(shell.config.root.join(RESULTS));
    }
    let finished = shell.run(&mut bench)?;
    if writes {
        return Ok(written(&finished));
    }
    println!("{RESULTS} stays as it is");
    Ok(finished.success)
}

/// The short form, in the development profile: everything runs against our own server, and finds
/// what it sent.
pub(crate) fn smoke_streams(shell: &Shell, handback: &Path) -> Result<Finished> {
    let mut bench = shell.cargo(&["run", "--package", "bench-streams", "--", "--smoke"]);
    shell.run(bench.arg("--handback").arg(handback))
}

/// `cargo xtask bench answers`. It counts bytes and no time: the development profile will do. With
/// `--only`, which is for a quick look, it only prints the results.
pub(crate) fn answers(shell: &Shell, options: &[&str]) -> Result<bool> {
    let mut bench = shell.cargo(&ANSWERS);
    bench.arg("--handback").arg(readme::build(shell)?);
    match options {
        [] => bench.arg("--write").arg(shell.config.root.join(RESULTS)),
        ["--only", questions] => bench.args(["--only", questions]),
        _ => bail!("`bench answers` takes nothing, or `--only ID,…`"),
    };
    let finished = shell.run(&mut bench)?;
    if options.is_empty() {
        return Ok(written(&finished));
    }
    println!("{RESULTS} stays as it is");
    Ok(finished.success)
}

/// The short form: every script finds the right answer through our own gateway, and all of them
/// together stay within the aim.
pub(crate) fn smoke_answers(shell: &Shell, handback: &Path) -> Result<Finished> {
    shell.run(shell.cargo(&ANSWERS).arg("--smoke").arg("--handback").arg(handback))
}

/// The program of this checkout, as users have it.
fn build_own(shell: &Shell) -> Result<PathBuf> {
    let built =
        shell.run(&mut shell.cargo(&["build", "--release", "--package", "handback-cli"]))?;
    if !built.success {
        bail!("handback-cli does not build:\n{}", tail(&built.log).join("\n"));
    }
    Ok(shell.config.target_dir.join("release").join("handback"))
}

/// The other servers of streams, which are installed by name.
fn add_peers(shell: &Shell, options: &Options<'_>, bench: &mut Command) -> Result<()> {
    for (key, package, version) in PEERS {
        if options.wants(key) {
            let program = tools::ensure_peer(shell, package, version, PEER_BINARY)?;
            bench.arg(format!("--{key}")).arg(program);
        }
    }
    if options.wants("node-memory") || options.wants("node-file") {
        Tools::new(shell).ensure(Tool::StreamSuite).map_err(anyhow::Error::msg)?;
        // Next to what it imports.
        let (from, dir) =
            (shell.config.root.join(streams::PACKAGE), shell.config.npm(streams::PACKAGE));
        fs::copy(from.join(REFERENCE_SERVER), dir.join(REFERENCE_SERVER))
            .with_context(|| format!("failed to copy {REFERENCE_SERVER}"))?;
        bench.arg("--node").arg(dir);
    }
    Ok(())
}

/// Options of a measurement: all but `--write` are those of the program that measures.
#[derive(Debug, Default)]
struct Options<'a> {
    passed_on: Vec<&'a str>,
    only: Option<&'a str>,
    write: bool,
}

impl<'a> Options<'a> {
    /// Reads them; `with_value` are those with a value, `flags` those without.
    fn parse(what: &str, given: &[&'a str], with_value: &[&str], flags: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut given = given.iter().copied();
        while let Some(name) = given.next() {
            if name == "--write" {
                options.write = true;
            } else if flags.contains(&name) {
                options.passed_on.push(name);
            } else if with_value.contains(&name) {
                let value = given.next().with_context(|| format!("{name} wants a value"))?;
                options.passed_on.extend([name, value]);
                if name == "--only" {
                    options.only = Some(value);
                }
            } else {
                bail!("`bench {what}` has no option `{name}`");
            }
        }
        Ok(options)
    }

    fn wants(&self, contender: &str) -> bool {
        self.only.is_none_or(|only| only.split(',').any(|name| name == contender))
    }

    fn writes(&self) -> bool {
        self.write || self.passed_on.is_empty()
    }
}

fn written(finished: &Finished) -> bool {
    if finished.success {
        println!("wrote {RESULTS}");
    }
    finished.success
}

/// How to connect to a server, for this user's programs only: what is among the arguments of a
/// program everyone can see.
struct UrlFile {
    path: PathBuf,
    _dir: Scratch,
}

impl UrlFile {
    fn new(url: &str) -> Result<Self> {
        let make = || {
            let dir = Scratch::new("bench")?;
            fs::set_permissions(dir.path(), Permissions::from_mode(0o700))?;
            let path = dir.path().join("postgres");
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            writeln!(file, "{url}")?;
            std::io::Result::Ok(Self { path, _dir: dir })
        };
        make().context("failed to write down where the server is")
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<'a>(given: &[&'a str]) -> Result<Options<'a>> {
        Options::parse("gateway", given, &GATEWAY_OPTIONS, &GATEWAY_FLAGS)
    }

    #[test]
    fn a_run_without_options_is_written() {
        let options = parse(&[]).unwrap();
        assert!(options.writes() && options.wants("mcp-proxy"));
        assert!(!parse(&["--rounds", "1"]).unwrap().writes());
        assert!(!parse(&["--no-features"]).unwrap().writes());
        assert!(parse(&["--rounds", "20", "--write"]).unwrap().writes());
    }

    #[test]
    fn only_those_that_are_named_take_part() {
        let options = parse(&["--only", "direct,handback"]).unwrap();
        assert_eq!(options.passed_on, ["--only", "direct,handback"]);
        let wants = ["handback", "direct", "mcp-proxy", "fastmcp"].map(|key| options.wants(key));
        assert_eq!(wants, [true, true, false, false]);
    }

    #[test]
    fn refuses_unknown_options() {
        assert!(parse(&["--fast"]).is_err());
        assert!(parse(&["--only"]).is_err());
        assert!(parse(&["--seconds", "1"]).is_err());
        assert!(Options::parse("streams", &["--seconds", "1"], &STREAM_OPTIONS, &[]).is_ok());
    }

    #[test]
    fn only_the_owner_can_read_a_url() {
        let file = UrlFile::new("postgres://u:p@127.0.0.1:1/x").unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "postgres://u:p@127.0.0.1:1/x\n");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let folder = file.path().parent().unwrap().to_owned();
        assert_eq!((mode(file.path()), mode(&folder)), (0o600, 0o700));
        drop(file);
        assert!(!folder.exists());
    }
}
