//! Tests that need a process of their own: this binary starts itself again.

use std::io::{Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

const DIRECTORY: &str = "HANDBACK_STORE_TEST_DIRECTORY";

/// Runs one test of this binary in a process of its own, with a directory to work on.
/// Signals for files that grow too long are not delivered to it.
pub(crate) fn start(test: &str, directory: &std::path::Path) -> Child {
    Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("a test has a binary"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process starts")
}

/// The directory, in a process that was started so. In another one there is none.
#[expect(clippy::disallowed_methods, reason = "it is how a test talks to itself")]
pub(crate) fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// Says something to whoever started this process.
pub(crate) fn say(number: u64) {
    // Not by a macro, whose output the harness may keep.
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\nsaid {number}\n").as_bytes()).expect("someone listens");
    out.flush().expect("someone listens");
}

/// What a process says next.
pub(crate) fn heard(lines: &mut Lines<std::io::BufReader<ChildStdout>>) -> Option<u64> {
    lines.find_map(|line| line.ok()?.strip_prefix("said ")?.parse().ok())
}
