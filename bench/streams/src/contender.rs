//! The servers that are compared, and one of them as it runs.

use std::fmt;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

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
        let dir = scratch.join(format!("{}-{}", self.key(), std::process::id()));
        fs::create_dir_all(dir.join("data"))
            .with_context(|| format!("failed to make {}", dir.display()))?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let command = self.command(programs, address, &dir.join("data"));
        Running::start(&command.context("there is no such program")?, address, dir)
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

/// Keeps a server until its input ends, also if this program is killed.
const SCRIPT: &str = include_str!("../../../xtask/src/server.sh");

const START_TIMEOUT: Duration = Duration::from_secs(20);

/// More than the script's own limit.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(10);

/// What the kernel counts processor time in.
const TICKS_PER_SECOND: f64 = 100.0;

/// A server that runs; it is stopped, and what it wrote is removed, on drop.
#[derive(Debug)]
pub(crate) struct Running {
    address: SocketAddr,
    process: u32,
    script: Child,
    /// `None` once the script was told to end.
    input: Option<ChildStdin>,
    dir: PathBuf,
}

impl Running {
    fn start(command: &[String], address: SocketAddr, dir: PathBuf) -> Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "server.sh"]).arg(&dir).args(command);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Out of the reach of Ctrl-C, which would end the script before the server.
        let mut script = shell.process_group(0).spawn().context("failed to start a shell")?;
        let input = script.stdin.take();
        let mut line = String::new();
        let output = script.stdout.take().context("the shell has no output")?;
        BufReader::new(output).read_line(&mut line)?;
        let process = line.trim().parse().context("the script did not start the server")?;
        let running = Self { address, process, script, input, dir };
        running.wait_until_it_listens()?;
        Ok(running)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has used of the processors, in all of its threads.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process))?;
        let ticks = ticks(&stat).context("the server has ended")?;
        Ok(Duration::from_secs_f64(ticks as f64 / TICKS_PER_SECOND))
    }

    /// Stops it, until it is to go on.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Has it go on.
    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let process = i32::try_from(self.process).ok().and_then(Pid::from_raw);
        if let Some(process) = process {
            // If it has ended, that is noticed elsewhere.
            let _ = kill_process(process, signal);
        }
    }

    /// The end of what it said.
    pub(crate) fn log(&self) -> String {
        let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        let from = log.lines().count().saturating_sub(10);
        log.lines().skip(from).collect::<Vec<_>>().join("\n")
    }

    fn wait_until_it_listens(&self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect_timeout(&self.address, START_TIMEOUT).is_err() {
            if self.cpu().is_err() || Instant::now() >= deadline {
                bail!("it did not start:\n{}", self.log());
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.go_on();
        drop(self.input.take());
        let deadline = Instant::now() + STOP_TIMEOUT;
        while matches!(self.script.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                eprintln!("warning: the server with process number {} did not stop", self.process);
                return;
            }
            thread::sleep(POLL);
        }
    }
}

/// User and system time of a process that runs, from its line in `/proc`.
fn ticks(stat: &str) -> Option<u64> {
    // The name in brackets can have spaces and brackets.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    if fields.next()? == "Z" {
        return None;
    }
    let user: u64 = fields.nth(10)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_processor_time_whatever_the_name() {
        let line = |state| {
            format!("42 (a) b (c) {state} 1 42 42 0 -1 4194304 100 0 0 0 250 75 0 0 20 0 8 0 99\n")
        };
        assert_eq!(ticks(&line("S")), Some(325));
        assert_eq!(ticks(&line("Z")), None);
        assert_eq!(ticks(""), None);
    }

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

    #[test]
    fn a_server_that_does_not_start_says_why() {
        let dir = std::env::temp_dir().join(format!("bench-streams-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let command = ["sh", "-c", "echo no room; exit 1"].map(str::to_owned);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let error = Running::start(&command, address, dir.clone()).unwrap_err();
        assert!(error.to_string().contains("no room"));
        assert!(!dir.exists());
    }
}
