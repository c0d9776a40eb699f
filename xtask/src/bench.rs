//! Measurements against peers: of tokens by `interop/`, which holds the contenders, and of pages by
//! a bench target of `handback-collections`.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::postgres::Cluster;
use crate::process::{Finished, Shell, Variables};
use crate::scratch::Scratch;
use crate::tools::{Tool, Tools};

const MANIFEST: &str = "interop/Cargo.toml";
const BINARY: &str = "bench-tokens";
const RESULTS: &str = "docs/benchmarks.md";

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
