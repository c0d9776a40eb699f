//! What the environment decides: folders, search path, colour, and whether this is a CI run.

use std::env;
use std::ffi::OsString;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The settings of one run, read once.
#[derive(Debug)]
pub(crate) struct Config {
    /// The root of the checkout.
    pub(crate) root: PathBuf,
    /// Where tools, the virtual environment and working corpora are kept between runs.
    pub(crate) cache: PathBuf,
    /// The target directory of every child; it outlives the checkout.
    pub(crate) target_dir: PathBuf,
    /// The `cargo` that started this program.
    pub(crate) cargo: OsString,
    /// The search path of every child: own tools first.
    pub(crate) path: OsString,
    /// Whether a tool that can not be had is a failure rather than a skip.
    pub(crate) ci: bool,
    /// A server to run the suite of the Durable Streams protocol against, instead of our own.
    pub(crate) conformance_url: Option<String>,
    /// The same for the suite of MCP.
    pub(crate) mcp_url: Option<String>,
    /// Whether to dim the output of children.
    pub(crate) colour: bool,
    /// Variables to keep from children: what `cargo run` set for this program, and settings of
    /// the program under test.
    pub(crate) withheld: Vec<OsString>,
}

impl Config {
    /// Reads the environment.
    pub(crate) fn from_environment() -> Result<Self> {
        let cache = cache_dir()?.join("handback");
        let target_dir = match variable("CARGO_TARGET_DIR") {
            Some(dir) => std::path::absolute(dir).context("failed to resolve CARGO_TARGET_DIR")?,
            None => cache.join("target"),
        };
        let cargo = variable("CARGO").unwrap_or_else(|| "cargo".into());
        Ok(Self {
            root: root()?,
            path: search_path(&cache.join("tools"), &cargo)?,
            cache,
            target_dir,
            cargo,
            ci: variable("CI").is_some_and(|value| value == "true" || value == "1"),
            conformance_url: url("HANDBACK_CONFORMANCE_URL")?,
            mcp_url: url("HANDBACK_MCP_URL")?,
            colour: stderr().is_terminal() && variable("NO_COLOR").is_none(),
            withheld: withheld(),
        })
    }

    /// The `--root` of the tools that are installed by this program.
    pub(crate) fn tools(&self) -> PathBuf {
        self.cache.join("tools")
    }

    /// The folder of the npm packages that a folder of the checkout asks for, `interop/NAME`.
    pub(crate) fn npm(&self, package: &str) -> PathBuf {
        let name = package.rsplit_once('/').map_or(package, |(_, name)| name);
        self.cache.join(name)
    }

    /// A virtual environment, by its folder.
    pub(crate) fn venv(&self, folder: &str) -> PathBuf {
        self.cache.join(folder)
    }

    /// The interpreter of that environment.
    pub(crate) fn venv_python(&self, folder: &str) -> PathBuf {
        self.venv(folder).join("bin").join("python")
    }
}

/// Reads a variable; an empty one counts as unset.
#[expect(clippy::disallowed_methods, reason = "this is the module that reads the environment")]
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

fn url(name: &str) -> Result<Option<String>> {
    let url = variable(name).map(OsString::into_string).transpose();
    url.map_err(|_| anyhow::anyhow!("failed to read {name}: it is not UTF-8"))
}

/// Cargo names the running package's folder; the built-in path serves a binary started by hand.
fn root() -> Result<PathBuf> {
    let package = variable("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = package.parent().context("failed to find the folder above xtask/")?;
    Ok(root.to_path_buf())
}

fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute())
    {
        return Ok(dir);
    }
    let home = variable("HOME").context("failed to find a cache folder: HOME is not set")?;
    Ok(Path::new(&home).join(".cache"))
}

/// Own tools first, then the caller's path, then where Cargo keeps what it installs: Cargo finds
/// its subcommands there even if the path does not name it.
fn search_path(tools: &Path, cargo: &OsString) -> Result<OsString> {
    let mut dirs = vec![tools.join("bin")];
    if let Some(path) = variable("PATH") {
        dirs.extend(env::split_paths(&path));
    }
    let cargo_home = variable("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".cargo")));
    let after = [cargo_home.map(|home| home.join("bin")), parent(cargo)];
    for dir in after.into_iter().flatten() {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    env::join_paths(dirs).context("failed to build the search path")
}

fn parent(program: &OsString) -> Option<PathBuf> {
    let dir = Path::new(program).parent()?;
    dir.is_absolute().then(|| dir.to_path_buf())
}

fn withheld() -> Vec<OsString> {
    let names = env::vars_os().map(|(name, _)| name);
    names
        .filter(|name| {
            let name = name.to_string_lossy();
            ["CARGO_PKG_", "CARGO_MANIFEST_", "HANDBACK_"].iter().any(|p| name.starts_with(p))
        })
        .collect()
}
