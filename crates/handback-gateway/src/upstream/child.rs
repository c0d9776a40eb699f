//! The program behind a line: how it is begun and ended, and what it mutters.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::LineError;

/// From the end of its input until it is asked to end: what the protocol leaves a server to finish.
const UNTIL_ASKED: Duration = Duration::from_secs(2);

/// From the end of its input until it is ended.
const UNTIL_KILLED: Duration = Duration::from_secs(5);

/// How the variables of Handback itself begin. A key ring and a bearer token are among them, and what
/// is a secret of it in a later version is one for programs that this one starts, too.
const OWN_VARIABLES: &[u8] = b"HANDBACK_";

/// The one that other servers have as well, and so has another name: a key.
const ATD_KEY: &str = "ATD_CURSOR_SIGNING_KEY";

/// Bytes of a line of its standard error that are shown at most.
const MUTTERED_BYTES_MAX: usize = 1024;

/// Lines of its standard error that are shown in a second at most.
const MUTTERED_LINES_MAX: u32 = 20;

/// A program that was started.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// Starts a program, in a process group of its own: a signal for this server is not one for it. It
/// has the environment of this process, without what is `withheld`.
pub(super) fn start(
    (program, args, env): (&str, &[String], &[(String, String)]),
    withheld: &[String],
) -> Result<Started, LineError> {
    let failed = |why: &str| LineError::Unreachable(format!("failed to start it: {why}"));
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let is_own = name.as_encoded_bytes().starts_with(OWN_VARIABLES) || name == ATD_KEY;
        if is_own || withheld.iter().any(|withheld| name == withheld.as_str()) {
            command.env_remove(name);
        }
    }
    let mut child = command
        .args(args)
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|why| failed(&why.to_string()))?;
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
        return Err(failed("it has no standard streams"));
    };
    Ok(Started { child, stdin, stdout, stderr })
}

/// Waits until a program has ended. Once `closing` says so, its input is closed by others, and it
/// has so long to end by itself.
pub(super) async fn watch(name: String, mut child: Child, closing: CancellationToken) {
    let status = tokio::select! {
        status = child.wait() => status,
        () = closing.cancelled() => end(&mut child).await,
    };
    match status {
        Ok(status) => tracing::info!(upstream = %name, %status, "the program ended"),
        Err(why) => tracing::warn!(upstream = %name, %why, "failed to wait for the program"),
    }
}

async fn end(child: &mut Child) -> std::io::Result<std::process::ExitStatus> {
    let closed = Instant::now();
    if let Ok(status) = timeout_at(closed + UNTIL_ASKED, child.wait()).await {
        return status;
    }
    signal(child, Signal::TERM);
    if let Ok(status) = timeout_at(closed + UNTIL_KILLED, child.wait()).await {
        return status;
    }
    signal(child, Signal::KILL);
    child.wait().await
}

/// Signals all of its process group. Its id is its own until it was waited for.
fn signal(child: &Child, signal: Signal) {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(group) = group {
        // It may have ended just now.
        let _ = kill_process_group(group, signal);
    }
}

/// Shows what a program writes to its standard error, up to a length and a rate.
pub(super) async fn mutter(name: String, mut stderr: ChildStderr) {
    let mut chunk = vec![0; 4096];
    let mut lines = Muttering::new(name);
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        for byte in chunk.iter().take(length) {
            lines.take(*byte);
        }
    }
    lines.take(b'\n');
}

struct Muttering {
    name: String,
    line: Vec<u8>,
    since: Instant,
    shown: u32,
    left_out: u64,
}

impl Muttering {
    fn new(name: String) -> Self {
        Self { name, line: Vec::new(), since: Instant::now(), shown: 0, left_out: 0 }
    }

    fn take(&mut self, byte: u8) {
        match byte {
            b'\n' if self.line.is_empty() => {}
            b'\n' => self.show(),
            _ if self.line.len() < MUTTERED_BYTES_MAX => self.line.push(byte),
            _ => {}
        }
    }

    fn show(&mut self) {
        if self.since.elapsed() >= Duration::from_secs(1) {
            if self.left_out > 0 {
                tracing::info!(upstream = %self.name, lines = self.left_out, "more was written");
            }
            (self.since, self.shown, self.left_out) = (Instant::now(), 0, 0);
        }
        if self.shown < MUTTERED_LINES_MAX {
            self.shown += 1;
            // In quotes: a line of a stranger is not to look like one of ours.
            let said = String::from_utf8_lossy(&self.line);
            tracing::info!(upstream = %self.name, ?said, "standard error");
        } else {
            self.left_out += 1;
        }
        self.line.clear();
    }
}
