//! Published servers behind `handback wrap`, compared with the same servers direct.
//!
//! The script `interop/published/compare.py` starts each server with the published Python client and
//! prints a line for every answer: `ok NAME` or `not ok NAME`. Two of the servers drive Debian's
//! Chromium, two are slow or silent while they start.

use anyhow::Result;

use crate::mcp;
use crate::process::Shell;
use crate::readme;
use crate::report::Tally;
use crate::tools::{self, PUBLISHED_VENV, SQLITE_VENV, Tool};

/// Where the servers from npm are described.
pub(crate) const NPM_PACKAGE: &str = "interop/published";

const SCRIPT: &str = "interop/published/compare.py";

/// Several times what a run takes on two busy cores.
const SECONDS_MAX: &str = "900";

/// The installs that the phase needs.
pub(crate) const TOOLS: [Tool; 4] =
    [Tool::Browser, Tool::BrowserServers, Tool::PublishedServers, Tool::SqliteServer];

/// Compares every server.
pub(crate) fn check(shell: &Shell, tally: &mut Tally) -> Result<()> {
    let handback = readme::build(shell)?;
    let packages = shell.config.npm(NPM_PACKAGE);
    let node = mcp::node(&packages)?;
    let sqlite = shell.config.venv(SQLITE_VENV.folder).join("bin").join("mcp-server-sqlite");
    let chromium = tools::find(shell, tools::CHROMIUM).unwrap_or_default();
    let mut compare = shell.command("timeout");
    compare.args(["--kill-after=10", SECONDS_MAX]);
    compare.arg(shell.config.venv_python(PUBLISHED_VENV.folder)).arg(SCRIPT).arg(handback);
    compare.arg(node).arg(packages.join("node_modules")).arg(sqlite).arg(chromium);
    compare.env("PYTHONDONTWRITEBYTECODE", "1");
    tally.summary("published", shell.run(&mut compare));
    Ok(())
}
