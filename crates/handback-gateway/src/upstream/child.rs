//! The program behind a line: its start and its end.

use std::io::ErrorKind;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::LineError;

/// From the end of its input until it is asked to end: what the protocol leaves a server to finish.
const UNTIL_ASKED: Duration = Duration::from_secs(2);

/// From the end of its input until it is ended.
pub(super) const UNTIL_KILLED: Duration = Duration::from_secs(5);

/// From when it is asked to end until it is ended, where whoever waits is in a hurry: clients that end
/// their servers give them two seconds after asking.
const UNTIL_KILLED_IN_HURRY: Duration = Duration::from_secs(1);

/// How long what a program left behind has to end once it was asked to. Nobody hears it any more.
const REST_TIME: Duration = Duration::from_millis(500);

/// How often it is looked after meanwhile.
const REST_LOOKED_AT: Duration = Duration::from_millis(20);

/// How the variables of Handback itself begin. A key ring and a bearer token are among them, and what
/// is a secret of it in a later version is one for programs that this one starts, too.
const OWN_VARIABLES: &[u8] = b"HANDBACK_";

/// The one that other servers have as well, and so has another name: a key.
const ATD_KEY: &str = "ATD_CURSOR_SIGNING_KEY";

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
    let failed = |why: &str| LineError::Unreachable(format!("`{program}` does not start: {why}"));
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
        .map_err(|why| match why.kind() {
            ErrorKind::NotFound => failed("there is no such command, or no interpreter for it"),
            ErrorKind::PermissionDenied => failed("permission denied: it may not be executed"),
            _ => failed(&why.to_string()),
        })?;
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
        return Err(failed("it has no standard streams"));
    };
    Ok(Started { child, stdin, stdout, stderr })
}

/// Waits until a program has ended, and gives its status in words. Once `closing` says so, its input is
/// closed by others, and it has so long to end by itself; less, once there is a `hurry`.
pub(super) async fn watch(
    name: String,
    mut child: Child,
    closing: CancellationToken,
    hurry: CancellationToken,
) -> String {
    let status = tokio::select! {
        status = child.wait() => status,
        () = closing.cancelled() => end(&mut child, &hurry).await,
    };
    match status {
        Ok(status) => {
            tracing::info!(upstream = %name, %status, "the program ended");
            format!("it ended with {status}")
        }
        Err(why) => {
            tracing::warn!(upstream = %name, %why, "failed to wait for the program");
            "it ended".to_owned()
        }
    }
}

async fn end(
    child: &mut Child,
    hurry: &CancellationToken,
) -> std::io::Result<std::process::ExitStatus> {
    let group = group(child);
    let patience = async {
        // It may not take this long, or has less time.
        let _ = timeout(UNTIL_ASKED, hurry.cancelled()).await;
    };
    if let Some(status) = ended_within(child, patience).await {
        return status;
    }
    signal(group, Signal::TERM);
    let patience = async {
        tokio::select! {
            () = sleep(UNTIL_KILLED.saturating_sub(UNTIL_ASKED)) => {}
            () = async {
                hurry.cancelled().await;
                sleep(UNTIL_KILLED_IN_HURRY).await;
            } => {}
        }
    };
    if let Some(status) = ended_within(child, patience).await {
        return status;
    }
    signal(group, Signal::KILL);
    child.wait().await
}

/// How a program ended, if it did while somebody had patience.
async fn ended_within(
    child: &mut Child,
    patience: impl Future<Output = ()>,
) -> Option<std::io::Result<std::process::ExitStatus>> {
    tokio::select! {
        biased;
        status = child.wait() => Some(status),
        () = patience => None,
    }
}

/// The process group of a program that was not waited for yet.
pub(super) fn group(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

/// Ends what a program left behind in its process group: nobody else would.
pub(super) async fn end_rest(group: Option<Pid>) {
    let Some(group) = group else { return };
    if kill_process_group(group, Signal::TERM).is_err() {
        // There is none.
        return;
    }
    let gone = async {
        while test_kill_process_group(group).is_ok() {
            sleep(REST_LOOKED_AT).await;
        }
    };
    if timeout(REST_TIME, gone).await.is_err() {
        signal(Some(group), Signal::KILL);
    }
}

/// Signals all of a process group. Its number is given to no other process while one is in the group,
/// and after that not before all other numbers were.
fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // All of it may have ended just now.
        let _ = kill_process_group(group, signal);
    }
}
