//! The servers that are compared.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use bench_kit::server::Running;

/// Where the programs are; those that are not there are left out.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    pub(crate) handback: Option<PathBuf>,
    /// The same, if it can do without signatures.
    pub(crate) handback_unsigned: Option<PathBuf>,
    /// `durable-streams-server` of the crate `durable-streams`.
    pub(crate) wal: Option<PathBuf>,
    /// `durable-streams-server` of the crate of that name.
    pub(crate) acid: Option<PathBuf>,
    /// The folder of `reference-server.js` and its packages.
    pub(crate) node: Option<PathBuf>,
}

/// A server that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    Wal,
    Handback,
    HandbackUnsigned,
    Acid,
    NodeMemory,
    NodeFile,
}

impl Contender {
    /// All of them, in the order of their turns: the peer that the aims name is next to ours.
    pub(crate) const ALL: [Self; 6] = [
        Self::Wal,
        Self::Handback,
        Self::HandbackUnsigned,
        Self::Acid,
        Self::NodeMemory,
        Self::NodeFile,
    ];

    /// Ours.
    pub(crate) const OWN: [Self; 2] = [Self::Handback, Self::HandbackUnsigned];

    /// How it is named among the arguments.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Wal => "wal",
            Self::Handback => "handback",
            Self::HandbackUnsigned => "handback-unsigned",
            Self::Acid => "acid",
            Self::NodeMemory => "node-memory",
            Self::NodeFile => "node-file",
        }
    }

    /// Whether it has a turn in some rounds only: it is slow, or not what is aimed at.
    pub(crate) fn is_seldom(self) -> bool {
        matches!(self, Self::Acid | Self::NodeMemory | Self::NodeFile)
    }

    /// The command that serves at an address from a folder; `None` if there is no such program.
    fn command(self, programs: &Programs, address: SocketAddr, data: &Path) -> Option<Vec<String>> {
        let data = data.display().to_string();
        let (port, address) = (address.port().to_string(), address.to_string());
        let ours = ["serve", "--no-demo", "--listen", &address, "--data", &data];
        let (program, args): (&Path, Vec<&str>) = match self {
            Self::Handback => (programs.handback.as_deref()?, ours.to_vec()),
            Self::HandbackUnsigned => {
                (programs.handback_unsigned.as_deref()?, [&ours[..], &["--no-signing"]].concat())
            }
            Self::Wal => {
                let place = ["--host", "127.0.0.1", "--port", &port, "--data-dir", &data];
                let args = [&place[..], &["--durability", "wal"]].concat();
                (programs.wal.as_deref()?, args)
            }
            Self::Acid => {
                let program = programs.acid.as_deref()?.display().to_string();
                let settings = [
                    format!("DS_SERVER__BIND_ADDRESS={address}"),
                    "DS_STORAGE__MODE=acid".to_owned(),
                    format!("DS_STORAGE__DATA_DIR={data}"),
                    // Its default is less than what catching up reads.
                    "DS_LIMITS__MAX_STREAM_BYTES=268435456".to_owned(),
                    "DS_LIMITS__MAX_MEMORY_BYTES=536870912".to_owned(),
                    "RUST_LOG=error".to_owned(),
                ];
                return Some(
                    ["env".to_owned()].into_iter().chain(settings).chain([program]).collect(),
                );
            }
            Self::NodeMemory | Self::NodeFile => {
                let script = programs.node.as_deref()?.join("reference-server.js");
                let script = script.display().to_string();
                let data = (self == Self::NodeFile).then_some(data);
                return Some(["node".to_owned(), script, port].into_iter().chain(data).collect());
            }
        };
        let words = std::iter::once(program.display().to_string());
        Some(words.chain(args.into_iter().map(str::to_owned)).collect())
    }

    /// Whether its program is there.
    pub(crate) fn is_there(self, programs: &Programs) -> bool {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        self.command(programs, nowhere, Path::new("")).is_some()
    }

    /// Starts it, with nothing in its folder, which is a new one in `scratch`.
    pub(crate) fn start(self, programs: &Programs, scratch: &Path) -> Result<Running> {
        Running::start(scratch, self.key(), |address, data| {
            self.command(programs, address, data).context("there is no such program")
        })
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wal => "durable-streams 0.1.5, WAL",
            Self::Handback => "Handback, signed",
            Self::HandbackUnsigned => "Handback, not signed",
            Self::Acid => "durable-streams-server 0.3.0, acid",
            Self::NodeMemory => "npm reference server 0.3.7, memory (no sync)",
            Self::NodeFile => "npm reference server 0.3.7, file",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contender_without_a_program_is_not_there() {
        let programs = Programs { wal: Some("/bin/wal".into()), ..Programs::default() };
        let there = Contender::ALL.into_iter().filter(|contender| contender.is_there(&programs));
        assert_eq!(there.collect::<Vec<_>>(), [Contender::Wal]);
    }

    #[test]
    fn keys_are_distinct() {
        let mut keys = Contender::ALL.map(Contender::key);
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
