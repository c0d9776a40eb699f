//! Programs that the checks need and that Cargo does not bring along.
//!
//! What is found on the search path is used as it is. The rest is installed below the cache folder,
//! so that neither the checkout nor the user's own tools change. PostgreSQL is the exception: it
//! comes as a package of the system, which only root can install.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result, bail};

use crate::gateway;
use crate::mcp;
use crate::postgres;
use crate::process::{Finished, Shell};
use crate::published;
use crate::report::tail;
use crate::sdk;
use crate::streams;

/// A Python environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Venv {
    /// Its folder in the cache.
    pub(crate) folder: &'static str,
    /// The file that says what is in it.
    requirements: &'static str,
}

/// For the scripts in `vectors/`.
pub(crate) const VECTORS_VENV: Venv =
    Venv { folder: "venv", requirements: "vectors/requirements.txt" };

/// For the Python client of MCP.
pub(crate) const SDK_VENV: Venv =
    Venv { folder: "sdk-python", requirements: "interop/sdk-python/requirements.txt" };

/// For published servers, and the client that compares them.
pub(crate) const PUBLISHED_VENV: Venv =
    Venv { folder: "published-servers", requirements: "interop/published/requirements.txt" };

/// For a published server that needs an older `mcp` than the others.
pub(crate) const SQLITE_VENV: Venv =
    Venv { folder: "published-sqlite", requirements: "interop/published/requirements-sqlite.txt" };

/// For the proxy of FastMCP, which the gateway is measured against.
pub(crate) const FASTMCP_VENV: Venv =
    Venv { folder: "fastmcp", requirements: "bench/gateway/fastmcp/requirements.txt" };

/// Written last, so that an environment without it is known to be half made.
const STAMP: &str = "handback-requirements.txt";

const MANIFEST: &str = "package.json";
const LOCK: &str = "package-lock.json";

/// Written last, too.
const NPM_STAMP: &str = "handback-packages.txt";

/// Read by Debian's package when it is installed.
const CLUSTER_SETTINGS: &str = "/etc/postgresql-common/createcluster.d";

/// The browser of Debian's package of the same name.
pub(crate) const CHROMIUM: &str = "chromium";

/// A program that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tool {
    Browser,
    BrowserServers,
    Deny,
    FastMcp,
    Fuzz,
    McpSuite,
    Mutants,
    Postgres,
    PublishedServers,
    Python,
    SdkPython,
    SdkTypeScript,
    Servers,
    SqliteServer,
    StreamSuite,
}

impl Tool {
    /// What `cargo xtask test` needs.
    pub(crate) const OF_TEST: [Self; 13] = [
        Self::Deny,
        Self::Fuzz,
        Self::Python,
        Self::Postgres,
        Self::StreamSuite,
        Self::McpSuite,
        Self::SdkPython,
        Self::SdkTypeScript,
        Self::Servers,
        Self::Browser,
        Self::BrowserServers,
        Self::PublishedServers,
        Self::SqliteServer,
    ];

    /// The name that reports use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Browser => "chromium",
            Self::BrowserServers => "MCP servers for browsers",
            Self::Deny => "cargo-deny",
            Self::FastMcp => "FastMCP",
            Self::Fuzz => "cargo-fuzz",
            Self::McpSuite => "MCP suite",
            Self::Mutants => "cargo-mutants",
            Self::Postgres => "postgresql",
            Self::PublishedServers => "MCP servers in Python",
            Self::Python => "python environment",
            Self::SdkPython => "MCP client in Python",
            Self::SdkTypeScript => "MCP clients in TypeScript",
            Self::Servers => "MCP servers",
            Self::SqliteServer => "MCP server for SQLite",
            Self::StreamSuite => "durable-streams suite",
        }
    }

    /// Where it comes from if it is not found.
    fn source(self) -> Source {
        match self {
            Self::Browser => Source::Chromium,
            Self::BrowserServers => Source::Npm { package: published::NPM_PACKAGE },
            Self::Deny => Source::Cargo { version: "0.20.2" },
            Self::FastMcp => Source::Venv(FASTMCP_VENV),
            Self::Fuzz => Source::Cargo { version: "0.13.2" },
            Self::McpSuite => Source::Npm { package: mcp::PACKAGE },
            Self::Mutants => Source::Cargo { version: "27.1.0" },
            Self::Postgres => Source::Postgres,
            Self::PublishedServers => Source::Venv(PUBLISHED_VENV),
            Self::Python => Source::Venv(VECTORS_VENV),
            Self::SdkPython => Source::Venv(SDK_VENV),
            Self::SdkTypeScript => Source::Npm { package: sdk::NPM_PACKAGE },
            Self::Servers => Source::Npm { package: gateway::NPM_PACKAGE },
            Self::SqliteServer => Source::Venv(SQLITE_VENV),
            Self::StreamSuite => Source::Npm { package: streams::PACKAGE },
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Cargo { version: &'static str },
    Chromium,
    Npm { package: &'static str },
    Postgres,
    Venv(Venv),
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
            let outcome = match tool.source() {
                Source::Cargo { version } => ensure_package(shell, tool.name(), version),
                Source::Chromium => ensure_chromium(shell),
                Source::Npm { package } => ensure_npm(shell, tool.name(), package),
                Source::Postgres => ensure_postgres(shell),
                Source::Venv(venv) => ensure_venv(shell, tool.name(), venv),
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
    // They run for seconds: to optimise them takes longer than it saves.
    let debug = ["install", "--debug", "--locked", name, "--version", version, "--root"];
    let mut install = shell.cargo(&debug);
    // Cargo builds in a temporary folder then, and leaves nothing but the program.
    install.arg(&root).env_remove("CARGO_TARGET_DIR");
    succeed(shell.run(&mut install)?)?;
    find(shell, name).with_context(|| format!("{name} is not there after its installation"))?;
    Ok(())
}

/// Makes sure of a server to measure against, and says where its binary is. Each is installed below
/// a folder of its own: their binaries can have the same name.
pub(crate) fn ensure_peer(
    shell: &Shell,
    package: &str,
    version: &str,
    binary: &str,
) -> Result<PathBuf> {
    let root = shell.config.cache.join("peers").join(format!("{package}-{version}"));
    let program = root.join("bin").join(binary);
    if !program.is_file() {
        println!("{package}: installing {version} into {}", root.display());
        let install = ["install", "--locked", package, "--version", version, "--root"];
        let mut install = shell.cargo(&install);
        install.arg(&root).env_remove("CARGO_TARGET_DIR");
        succeed(shell.run(&mut install)?)
            .with_context(|| format!("{package} {version} can not be had"))?;
    }
    println!("{package}: {}", program.display());
    Ok(program)
}

/// A program on the search path.
pub(crate) fn find(shell: &Shell, name: &str) -> Option<PathBuf> {
    std::env::split_paths(&shell.config.path).map(|dir| dir.join(name)).find(|path| path.is_file())
}

fn ensure_venv(shell: &Shell, tool: &str, venv: Venv) -> Result<()> {
    let Venv { folder, requirements } = venv;
    let wanted = fs::read_to_string(shell.config.root.join(requirements))
        .with_context(|| format!("failed to read {requirements}"))?;
    let dir = shell.config.venv(folder);
    let stamp = dir.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) && runs(shell, venv) {
        println!("{tool}: {}", dir.display());
        return Ok(());
    }
    println!("{tool}: making {} from {requirements}", dir.display());
    make_venv(shell, venv)?;
    fs::write(&stamp, wanted).context("failed to write the stamp of the environment")
}

/// An environment stops working when the interpreter that it was made from goes away.
fn runs(shell: &Shell, venv: Venv) -> bool {
    shell.read(shell.command(shell.config.venv_python(venv.folder)).arg("--version")).is_ok()
}

fn make_venv(shell: &Shell, venv: Venv) -> Result<()> {
    let mut create = shell.command("python3");
    create.args(["-m", "venv", "--clear"]).arg(shell.config.venv(venv.folder));
    succeed(shell.run(&mut create)?)
        .context("`python3 -m venv` failed (Debian has it in the package python3-venv)")?;
    let mut install = shell.command(shell.config.venv_python(venv.folder));
    install.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input"]);
    install.args(["--requirement", venv.requirements]);
    succeed(shell.run(&mut install)?)
}

/// Installs exactly what the lock file says. Scripts of the packages are not run: none of them is
/// needed.
fn ensure_npm(shell: &Shell, tool: &str, package: &str) -> Result<()> {
    for program in ["node", "npm"] {
        find(shell, program).with_context(|| format!("there is no `{program}` (Node.js 20)"))?;
    }
    let read = |name: &str| {
        fs::read_to_string(shell.config.root.join(package).join(name))
            .with_context(|| format!("failed to read {name} of {package}"))
    };
    let files = [MANIFEST, LOCK].map(read).into_iter().collect::<Result<Vec<_>>>()?;
    let (dir, wanted) = (shell.config.npm(package), files.concat());
    let stamp = dir.join(NPM_STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        println!("{tool}: {}", dir.display());
        return Ok(());
    }
    println!("{tool}: installing into {}", dir.display());
    fs::create_dir_all(&dir).with_context(|| format!("failed to make {}", dir.display()))?;
    for (name, text) in [MANIFEST, LOCK].iter().zip(&files) {
        fs::write(dir.join(name), text).with_context(|| format!("failed to write {name}"))?;
    }
    let mut install = shell.command("npm");
    install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]);
    succeed(shell.run(install.current_dir(&dir))?)?;
    fs::write(&stamp, wanted).context("failed to write the stamp of the packages")
}

fn ensure_postgres(shell: &Shell) -> Result<()> {
    if let Some(found) = postgres::programs(&shell.config.path) {
        println!("postgresql: {}", found.display());
        return Ok(());
    }
    installable(shell, "postgresql")?;
    let _no_cluster = NoCluster::new(Path::new(CLUSTER_SETTINGS))
        .with_context(|| format!("failed to write below {CLUSTER_SETTINGS}"))?;
    install(shell, "postgresql")?;
    postgres::programs(&shell.config.path).context("no server is there after its installation")?;
    Ok(())
}

fn ensure_chromium(shell: &Shell) -> Result<()> {
    if find(shell, CHROMIUM).is_none() {
        install(shell, CHROMIUM)?;
    }
    let found = find(shell, CHROMIUM).context("no browser is there after its installation")?;
    println!("chromium: {}", found.display());
    Ok(())
}

/// Only root installs packages of Debian.
fn installable(shell: &Shell, package: &str) -> Result<()> {
    if find(shell, "apt-get").is_none() || !shell.is_root()? {
        bail!("not installed (Debian has the package {package})");
    }
    Ok(())
}

fn install(shell: &Shell, package: &str) -> Result<()> {
    installable(shell, package)?;
    println!("{package}: installing Debian's package; this takes a minute");
    apt_get(shell, &["update"])?;
    apt_get(shell, &["install", "--yes", "--no-install-recommends", package])
}

fn apt_get(shell: &Shell, args: &[&str]) -> Result<()> {
    let mut command = shell.command("apt-get");
    command.args(["-o", "DPkg::Lock::Timeout=120"]).args(args);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    succeed(shell.run(&mut command)?)
}

/// While it lives, Debian's package neither makes nor starts a cluster when it is installed.
#[derive(Debug)]
struct NoCluster(PathBuf);

impl NoCluster {
    fn new(settings: &Path) -> io::Result<Self> {
        fs::create_dir_all(settings)?;
        let file = settings.join("handback-xtask.conf");
        fs::write(&file, "create_main_cluster = false\n")?;
        Ok(Self(file))
    }
}

impl Drop for NoCluster {
    fn drop(&mut self) {
        // Folders that are in use, and only those, stay.
        let _ = fs::remove_file(&self.0);
        for dir in self.0.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(dir);
        }
    }
}

fn succeed(finished: Finished) -> Result<()> {
    if finished.success {
        return Ok(());
    }
    bail!("the command failed:\n{}", tail(&finished.log).join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn the_setting_against_a_cluster_goes_away_with_its_folders() {
        let scratch = Scratch::new("no-cluster").unwrap();
        let common = scratch.path().join("postgresql-common");
        let settings = common.join("createcluster.d");
        let no_cluster = NoCluster::new(&settings).unwrap();
        let text = fs::read_to_string(settings.join("handback-xtask.conf")).unwrap();
        assert_eq!(text, "create_main_cluster = false\n");
        drop(no_cluster);
        assert!(!common.exists());
        assert!(scratch.path().exists());
    }

    #[test]
    fn the_settings_of_others_stay() {
        let scratch = Scratch::new("no-cluster-others").unwrap();
        let settings = scratch.path().join("createcluster.d");
        fs::create_dir(&settings).unwrap();
        fs::write(settings.join("own.conf"), "ssl = off\n").unwrap();
        drop(NoCluster::new(&settings).unwrap());
        let left: Vec<_> =
            fs::read_dir(&settings).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["own.conf"]);
    }
}
