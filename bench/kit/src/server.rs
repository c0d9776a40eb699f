//! A server under test: a process of its own, with a folder of its own.

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
#[must_use]
pub struct Running {
    address: SocketAddr,
    process: u32,
    script: Child,
    /// `None` once the script was told to end.
    input: Option<ChildStdin>,
    dir: PathBuf,
}

impl Running {
    /// Starts what `command` says for an address and a folder: a free port of loopback, and a new
    /// folder in `scratch`, whose name begins with `label`. It listens when this returns.
    ///
    /// # Errors
    /// If it ends or does not listen; what it said is in the error.
    pub fn start(
        scratch: &Path,
        label: &str,
        command: impl FnOnce(SocketAddr, &Path) -> Result<Vec<String>>,
    ) -> Result<Self> {
        let dir = scratch.join(format!("{label}-{}", std::process::id()));
        let data = dir.join("data");
        fs::create_dir_all(&data).with_context(|| format!("failed to make {}", dir.display()))?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self::spawn(&command(address, &data)?, address, dir)
    }

    fn spawn(command: &[String], address: SocketAddr, dir: PathBuf) -> Result<Self> {
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
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has used of the processors, in all of its threads.
    ///
    /// # Errors
    /// If it has ended.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process))?;
        let ticks = ticks(&stat).context("the server has ended")?;
        Ok(Duration::from_secs_f64(ticks as f64 / TICKS_PER_SECOND))
    }

    /// Stops it, until it is to go on.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Has it go on.
    pub fn go_on(&self) {
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
    #[must_use]
    pub fn log(&self) -> String {
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
    #[expect(clippy::print_stderr, reason = "there is nobody to hand an error to")]
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
    fn a_server_that_does_not_start_says_why() {
        let scratch = std::env::temp_dir();
        let mut made = None;
        let started = Running::start(&scratch, "bench-kit", |_, data| {
            made = Some(data.to_owned());
            Ok(["sh", "-c", "echo no room; exit 1"].map(str::to_owned).to_vec())
        });
        assert!(started.unwrap_err().to_string().contains("no room"));
        assert!(made.is_some_and(|data| !data.parent().unwrap().exists()));
    }
}
