//! Standard error of programs: logged or passed on, and its end stored for errors.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::StderrUse;

/// Target of the events that a line of standard error is logged as.
pub const STDERR: &str = "handback::upstream_stderr";

/// Bytes of a line that are logged and stored at most.
const LINE_BYTES_MAX: usize = 1024;

/// Bytes of a line that are read before it is cut, so that no part of a secret is left at the cut.
const RAW_LINE_BYTES_MAX: usize = 8 << 10;

/// Lines of one program that are logged in a second at most.
const LINES_A_SECOND_MAX: u32 = 20;

/// Lines that an error shows at most.
const TAIL_LINES_MAX: usize = 20;

/// Bytes of all lines that an error shows at most: models read it.
const TAIL_BYTES_MAX: usize = 4 << 10;

/// Characters of a value of the configured environment that make it a secret at least. Shorter values are
/// switches and numbers.
const SECRET_CHARS_MIN: usize = 6;

/// Replacement of what is not shown.
const REPLACED: &str = "…";

/// The last lines that a program wrote.
#[derive(Debug)]
pub(super) struct Tail {
    lines: Mutex<VecDeque<String>>,
    /// Values of its configured environment, which errors and logs do not show. The longest is first: a
    /// value may have another one in it.
    secrets: Vec<String>,
    is_read: CancellationToken,
}

impl Tail {
    /// The tail of a program with this configured environment.
    pub(super) fn new(env: &[(String, String)]) -> Arc<Self> {
        let lines = env.iter().flat_map(|(_, value)| value.lines().map(str::trim));
        let is_secret = |line: &&str| line.chars().count() >= SECRET_CHARS_MIN;
        // Lines are searched after their control characters were replaced.
        let mut secrets: Vec<String> = lines.filter(is_secret).map(plain).collect();
        secrets.sort_by_key(|secret| Reverse(secret.len()));
        Arc::new(Self { lines: Mutex::default(), secrets, is_read: CancellationToken::new() })
    }

    /// Waits for the end of the output, within a limit: another process may hold it open.
    pub(super) async fn finished(&self, limit: Duration) {
        let _ = timeout(limit, self.is_read.cancelled()).await;
    }

    /// The stored lines in one, if there are any, after the wait for the end of the output.
    pub(super) async fn text(&self, limit: Duration) -> Option<String> {
        self.finished(limit).await;
        let lines = self.lock();
        (!lines.is_empty()).then(|| lines.iter().cloned().collect::<Vec<_>>().join(" | "))
    }

    fn push(&self, line: String) {
        let mut lines = self.lock();
        lines.push_back(line);
        while lines.len() > TAIL_LINES_MAX
            || lines.iter().map(String::len).sum::<usize>() > TAIL_BYTES_MAX
        {
            lines.pop_front();
        }
    }

    /// A line as it is shown.
    fn shown(&self, line: &[u8]) -> String {
        let mut text = plain(&String::from_utf8_lossy(line.trim_ascii_end()));
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), REPLACED);
            }
        }
        text.truncate(text.floor_char_boundary(LINE_BYTES_MAX));
        text
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Text without control characters and marks of direction: U+FFFD is in their place.
fn plain(text: &str) -> String {
    let is_mark = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if c.is_control() || is_mark(c) { '\u{fffd}' } else { c }).collect()
}

/// Reads the standard error of a program to its end.
pub(super) async fn read(
    name: String,
    mut stderr: impl AsyncRead + Unpin,
    usage: StderrUse,
    tail: Arc<Tail>,
) {
    let mut chunk = vec![0; 4096];
    let mut out = tokio::io::stderr();
    let mut lines = Lines { line: Vec::new(), rate: Rate::new(name), usage, tail };
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        let chunk = chunk.get(..length).unwrap_or_default();
        chunk.iter().for_each(|byte| lines.take(*byte));
        if usage == StderrUse::PassedOn {
            // A reader that closed its end does not want it.
            let _ = out.write_all(chunk).await;
            let _ = out.flush().await;
        }
    }
    lines.take(b'\n');
    lines.tail.is_read.cancel();
}

/// Splits output into lines.
struct Lines {
    line: Vec<u8>,
    rate: Rate,
    usage: StderrUse,
    tail: Arc<Tail>,
}

impl Lines {
    fn take(&mut self, byte: u8) {
        match byte {
            b'\n' => {
                if !self.line.trim_ascii().is_empty() {
                    let shown = self.tail.shown(&self.line);
                    if self.usage == StderrUse::Logged {
                        self.rate.log(&shown);
                    }
                    self.tail.push(shown);
                }
                self.line.clear();
            }
            _ if self.line.len() < RAW_LINE_BYTES_MAX => self.line.push(byte),
            _ => {}
        }
    }
}

/// Logs lines, up to a rate.
struct Rate {
    name: String,
    since: Instant,
    logged: u32,
    left_out: u64,
}

impl Rate {
    fn new(name: String) -> Self {
        Self { name, since: Instant::now(), logged: 0, left_out: 0 }
    }

    fn log(&mut self, line: &str) {
        if self.since.elapsed() >= Duration::from_secs(1) {
            if self.left_out > 0 {
                let (name, count) = (&self.name, self.left_out);
                tracing::info!(target: STDERR, "{name} on stderr: {count} lines left out");
            }
            (self.since, self.logged, self.left_out) = (Instant::now(), 0, 0);
        }
        if self.logged < LINES_A_SECOND_MAX {
            self.logged += 1;
            tracing::info!(target: STDERR, "{} on stderr: {line}", self.name);
        } else {
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn tail_of(env: &[(&str, &str)], output: &[u8]) -> Option<String> {
        let env: Vec<_> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let tail = Tail::new(&env);
        read("peer".to_owned(), output, StderrUse::Logged, Arc::clone(&tail)).await;
        tail.text(Duration::from_secs(60)).await
    }

    #[tokio::test]
    async fn stores_the_last_lines_within_bounds() {
        let lines: String = (0..100).map(|number| format!("line {number}\n")).collect();
        let tail = tail_of(&[], lines.as_bytes()).await.unwrap();
        assert!(tail.starts_with("line 80 | line 81 |") && tail.ends_with("| line 99"), "{tail}");
        let long = format!("{}\n", "x".repeat(100_000)).repeat(30);
        assert!(tail_of(&[], long.as_bytes()).await.unwrap().len() <= TAIL_BYTES_MAX + 100);
        assert_eq!(tail_of(&[], b"\n \n").await, None);
    }

    #[tokio::test]
    async fn replaces_control_characters_and_marks_of_direction() {
        let told = tail_of(&[], "\x1b[31mred\x07\r\na\u{202e}b".as_bytes()).await.unwrap();
        assert_eq!(told, "\u{fffd}[31mred\u{fffd} | a\u{fffd}b");
    }

    #[tokio::test]
    async fn shows_no_value_of_the_configured_environment() {
        let env = [("KEY", "sk-0123456789"), ("DEBUG", "1")];
        let told = tail_of(&env, b"1: bad key sk-0123456789!\n").await.unwrap();
        assert_eq!(told, "1: bad key …!");
        // Nor the rest of a value that has another one in it.
        let url = "postgres://postgres:hunter2@db/x";
        let env = [("PGUSER", "postgres"), ("DATABASE_URL", url)];
        let told = tail_of(&env, format!("no route to {url}\n").as_bytes()).await.unwrap();
        assert_eq!(told, "no route to …");
        let env = [("KEY", "sk-01\t23456789 ")];
        let told = tail_of(&env, b"bad key sk-01\t23456789\n").await.unwrap();
        assert_eq!(told, "bad key …");
        // Nor a part of a value at the cut of a long line.
        let env = [("KEY", "sk-0123456789")];
        let line = format!("{}sk-0123456789\n", "x".repeat(LINE_BYTES_MAX - 5));
        assert!(!tail_of(&env, line.as_bytes()).await.unwrap().contains("sk-0"));
    }
}
