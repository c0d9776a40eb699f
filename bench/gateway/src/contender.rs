//! The ways to the upstream that are compared.

use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use bench_kit::server::Running;

use crate::caller::{Endpoint, Era};
use crate::upstream;

/// The name of the upstream where proxies want one.
const UPSTREAM: &str = "up";

/// Where the programs are; those that are not there are left out.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    pub(crate) handback: Option<PathBuf>,
    /// `mcp-proxy` of the crate of that name.
    pub(crate) mcp_proxy: Option<PathBuf>,
    /// A Python that has `fastmcp`.
    pub(crate) fastmcp: Option<PathBuf>,
    /// The script that it runs.
    pub(crate) fastmcp_script: Option<PathBuf>,
}

/// A way to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Contender {
    Direct,
    Handback,
    McpProxy,
    FastMcpKept,
    FastMcp,
}

impl Contender {
    /// All of them, in the order of their turns: the peer that the aims name is next to ours.
    pub(crate) const ALL: [Self; 5] =
        [Self::Direct, Self::Handback, Self::McpProxy, Self::FastMcpKept, Self::FastMcp];

    /// How it is named among the arguments.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Handback => "handback",
            Self::McpProxy => "mcp-proxy",
            Self::FastMcpKept => "fastmcp-kept",
            Self::FastMcp => "fastmcp",
        }
    }

    /// Whether it is so slow that it gets fewer calls and turns.
    pub(crate) fn is_slow(self) -> bool {
        matches!(self, Self::FastMcpKept | Self::FastMcp)
    }

    /// Whether it takes part with this revision: `mcp-proxy` as it is installed does not know the
    /// newer one, and what is slow is slow in either.
    pub(crate) fn speaks(self, era: Era) -> bool {
        era == Era::Legacy || matches!(self, Self::Direct | Self::Handback)
    }

    /// Whether its program is there.
    pub(crate) fn is_there(self, programs: &Programs) -> bool {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        self == Self::Direct || self.command(programs, nowhere, nowhere, Path::new("")).is_some()
    }

    /// The command of a proxy at an address, in front of an upstream, with a folder; `None` if there
    /// is no such program.
    fn command(
        self,
        programs: &Programs,
        upstream: SocketAddr,
        address: SocketAddr,
        data: &Path,
    ) -> Option<Vec<String>> {
        let url = format!("http://{upstream}{}", upstream::PATH);
        let words: Vec<String> = match self {
            Self::Direct => return None,
            Self::Handback => {
                let upstream = format!("{UPSTREAM}={url}");
                let config = settings(data).display().to_string();
                let (address, data) = (address.to_string(), data.display().to_string());
                let serve = ["serve", "--no-demo", "--listen", &address, "--data", &data];
                let words = serve.into_iter().chain(["--config", &config, "--upstream", &upstream]);
                let program = programs.handback.as_deref()?.display().to_string();
                std::iter::once(program).chain(words.map(str::to_owned)).collect()
            }
            Self::McpProxy => {
                let config = settings(data).display().to_string();
                let program = programs.mcp_proxy.as_deref()?.display().to_string();
                vec![program, "--config".to_owned(), config]
            }
            Self::FastMcpKept | Self::FastMcp => {
                let how = if self == Self::FastMcp { "fresh" } else { "kept" };
                let python = programs.fastmcp.as_deref()?.display().to_string();
                let script = programs.fastmcp_script.as_deref()?.display().to_string();
                vec![python, script, how.to_owned(), url, address.port().to_string()]
            }
        };
        Some(words)
    }

    /// Starts a proxy in front of an upstream.
    fn start(self, programs: &Programs, scratch: &Path, upstream: SocketAddr) -> Result<Running> {
        Running::start(scratch, self.key(), |address, data| {
            let told = match self {
                Self::McpProxy => Some(mcp_proxy_settings(address, upstream)),
                Self::Handback => Some(UNLIMITED.to_owned()),
                Self::Direct | Self::FastMcpKept | Self::FastMcp => None,
            };
            if let Some(told) = told {
                fs::write(settings(data), told)?;
            }
            self.command(programs, upstream, address, data).context("there is no such program")
        })
    }

    /// Where its tools are.
    fn endpoint(self, address: SocketAddr) -> Endpoint {
        match self {
            Self::McpProxy => Endpoint { address, path: "/", prefix: "up/" },
            _ => Endpoint { address, path: "/mcp", prefix: "" },
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Handback => "Handback",
            Self::McpProxy => "mcp-proxy 0.6.0",
            Self::FastMcpKept => "FastMCP 4.1.0, one session",
            Self::FastMcp => "FastMCP 4.1.0, as it comes",
        })
    }
}

fn settings(data: &Path) -> PathBuf {
    data.join("proxy.toml")
}

/// All callers here are one to Handback, and faster than one may be. They are counted all the same.
const UNLIMITED: &str =
    "[limits]\ncalls_per_second = 1000000\ncalls_burst = 10000000\ncalls_per_caller = 1000\n";

/// Without any of its middleware; its logs would cost it a lot.
fn mcp_proxy_settings(address: SocketAddr, upstream: SocketAddr) -> String {
    let (host, port) = (address.ip(), address.port());
    format!(
        r#"[proxy]
name = "proxy"

[proxy.listen]
host = "{host}"
port = {port}

[observability]
log_level = "warn"

[[backends]]
name = "{UPSTREAM}"
transport = "http"
url = "http://{upstream}{}"
"#,
        upstream::PATH
    )
}

/// A way that is open: the proxy, if there is one, and where to call.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) contender: Contender,
    pub(crate) endpoint: Endpoint,
    /// `None` if there is nothing in between.
    pub(crate) proxy: Option<Running>,
}

impl Way {
    /// Opens it. What is started is stopped with it.
    pub(crate) fn open(
        contender: Contender,
        programs: &Programs,
        scratch: &Path,
        upstream: SocketAddr,
    ) -> Result<Self> {
        let proxy = match contender {
            Contender::Direct => None,
            other => Some(other.start(programs, scratch, upstream)?),
        };
        let address = proxy.as_ref().map_or(upstream, Running::address);
        Ok(Self { contender, endpoint: contender.endpoint(address), proxy })
    }

    /// Stops the proxy until it has a turn: what it still does is not to cost others.
    pub(crate) fn pause(&self) {
        if let Some(proxy) = &self.proxy {
            proxy.pause();
        }
    }

    /// Has it go on.
    pub(crate) fn go_on(&self) {
        if let Some(proxy) = &self.proxy {
            proxy.go_on();
        }
    }

    /// The end of what the proxy said.
    pub(crate) fn log(&self) -> String {
        self.proxy.as_ref().map(Running::log).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contender_without_a_program_is_not_there() {
        let programs = Programs { mcp_proxy: Some("/bin/x".into()), ..Programs::default() };
        let there = Contender::ALL.into_iter().filter(|contender| contender.is_there(&programs));
        assert_eq!(there.collect::<Vec<_>>(), [Contender::Direct, Contender::McpProxy]);
    }

    #[test]
    fn keys_are_distinct() {
        let mut keys = Contender::ALL.map(Contender::key);
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
