//! A server under test: a process of its own, on a free port of loopback, with a new data folder.
//!
//! Like the PostgreSQL cluster it must not outlive this program, so a shell script (`server.sh`)
//! starts it, and stops it when its standard input ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::postgres::free_port;
use crate::process::Shell;
use crate::report::tail;
use crate::scratch::Scratch;

/// A server of the development build on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// More than the script's own limit.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(20);

/// How long one question may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Enough for a status line.
const ANSWER_MAX: u64 = 1024;

/// A running server; it is stopped, and its data removed, on drop.
#[derive(Debug)]
#[must_use]
pub(crate) struct Server {
    address: SocketAddr,
    process: u32,
    script: Child,
    /// `None` once the script was told to end.
    input: Option<ChildStdin>,
    dir: Scratch,
}

impl Server {
    /// Starts a program with the arguments for an address and a data folder; it is ready when this
    /// returns.
    pub(crate) fn start(
        shell: &Shell,
        label: &str,
        program: &Path,
        args: impl Fn(SocketAddr, &Path) -> Vec<String>,
    ) -> Result<Self> {
        let dir = Scratch::new(label).context("failed to make a folder")?;
        let port = free_port().context("failed to find a port")?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut command = shell.command("sh");
        command.args(["-c", include_str!("server.sh"), "server.sh"]).arg(dir.path());
        command.arg(program).args(args(address, &dir.path().join("data")));
        command.env("HOME", dir.path());
        let server = Self::spawn(&mut command, address, dir)?;
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Why it is of no use any more, if so.
    pub(crate) fn ended(&self) -> Option<String> {
        (!self.is_running())
            .then(|| format!("the server has ended; its log has:\n{}", self.log().join("\n")))
    }

    fn spawn(command: &mut Command, address: SocketAddr, dir: Scratch) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Out of the reach of Ctrl-C, which would end the script before the server.
        command.process_group(0);
        let mut script = command.spawn().context("failed to start a shell")?;
        let input = script.stdin.take();
        let mut line = String::new();
        let output = script.stdout.take().context("the shell has no output")?;
        BufReader::new(output).read_line(&mut line).context("failed to read from the script")?;
        let process = line.trim().parse().context("the script did not start the server")?;
        Ok(Self { address, process, script, input, dir })
    }

    fn wait_until_ready(&self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while !is_ready(self.address) {
            if let Some(why) = self.ended() {
                bail!(why);
            }
            if Instant::now() >= deadline {
                bail!("the server is not ready; its log has:\n{}", self.log().join("\n"));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Until the script has waited for it, a process that ended is a zombie.
    fn is_running(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process)).unwrap_or_default();
        let state = stat.rsplit_once(") ").map_or("", |(_, state)| state);
        !state.is_empty() && !state.starts_with('Z')
    }

    fn log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.dir.path().join("log"))
            .unwrap_or_else(|error| format!("(unreadable: {error})"));
        tail(&log.lines().map(str::to_owned).collect::<Vec<_>>())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
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

/// Whether it says so, or, if it does not know the question, whether it answers at all.
fn is_ready(address: SocketAddr) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        write!(stream, "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    ask().is_ok_and(|answer| says_ready(&answer))
}

fn says_ready(answer: &[u8]) -> bool {
    let status = answer.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3));
    matches!(status, Some(b"200" | b"204" | b"404"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn start(label: &str, script: &str) -> Result<Server> {
        let shell = Shell::new(Config::from_environment().unwrap());
        Server::start(&shell, label, Path::new("/bin/sh"), |_, _| vec!["-c".into(), script.into()])
    }

    #[test]
    fn shows_the_log_of_a_server_that_does_not_start() {
        let error = start("server-end", "echo no room >&2; exit 3").unwrap_err();
        assert!(error.to_string().ends_with("no room"), "{error}");
    }

    #[test]
    fn the_script_stops_the_server_and_removes_its_folder_when_its_input_ends() {
        let dir = Scratch::new("server-stop").unwrap();
        let path = dir.path().to_owned();
        let mut command = Command::new("sh");
        command.args(["-c", include_str!("server.sh"), "server.sh"]).arg(&path);
        command.args(["sleep", "60"]);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let mut server = Server::spawn(&mut command, address, dir).unwrap();
        assert!(server.is_running());
        assert_eq!(server.ended(), None);
        drop(server.input.take());
        server.script.wait().unwrap();
        assert!(!server.is_running());
        assert!(!path.exists());
    }

    #[test]
    fn a_server_may_not_know_the_question() {
        assert!(says_ready(b"HTTP/1.1 200 OK\r\n\r\n"));
        assert!(says_ready(b"HTTP/1.1 404 Not Found\r\n\r\n"));
        assert!(!says_ready(b"HTTP/1.1 503 Service Unavailable\r\n\r\n"));
        assert!(!says_ready(b""));
    }
}
