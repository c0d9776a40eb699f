//! Who did what, and how it ended: one line before each call and one after it; and one for each
//! refusal of what came back outside of a call.
//!
//! Lines say who, what, which continuation (by its fingerprint), the decision, the exact reason and
//! how long it took. They never have a token, a key or an argument in them.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use handback_token::TokenFingerprint;
use serde::Serialize;

use crate::clock::Clock;
use crate::request::{Answer, Continuation, Noted, Refusal, Reply, Request};

/// Where lines go.
pub trait AuditSink: fmt::Debug + Send + Sync {
    /// Keeps a line. It is called on every call, and must not wait for long.
    fn write(&self, line: &AuditLine<'_>);

    /// A call whose start was written has passed its checks, and is made now.
    fn begun(&self, _call: &str) {}

    /// Writes what waits to be written. It is called every few seconds, and at the end.
    fn flush(&self, _now_ms: u64) {}
}

/// One line.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct AuditLine<'a> {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Which call: lines of one call have the same.
    pub call: &'a str,
    /// `start` or `end`; `reference` for a held value that was put into the arguments; `refusal` where what came back was no part of a call, `revocation` where an
    /// operator changed what is revoked; `left_out` for the number of refused calls without lines.
    pub event: &'static str,
    /// Where it came in.
    pub surface: &'static str,
    /// What kind of call it is.
    pub operation: &'static str,
    /// What was called.
    pub name: &'a str,
    /// Who vouches for the caller; absent if nobody was identified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<&'a str>,
    /// The caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<&'a str>,
    /// What kind of continuation came back: `cursor`, `state`, `session`, `event`, `task` or
    /// `resume`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuation: Option<&'static str>,
    /// Its fingerprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presented: Option<String>,
    /// The fingerprint of the idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How it ended: `answered`, `replayed`, `failed`, `checked`, `refused`, `cancelled` or `ended`;
    /// `revoked` or `lifted` by an operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<&'static str>,
    /// Why, if it was refused, by the pipeline or by the tool itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The fingerprint of the continuation that was handed out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minted: Option<String>,
    /// How long it took, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// What was passed by reference: from where, to where, how much of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<serde_json::Value>,
    /// Refused calls of the caller that have no lines, because they came faster than the audit takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
}

impl AuditLine<'_> {
    pub(crate) fn refuse(&mut self, refusal: &Refusal) {
        let is_cancelled = *refusal == Refusal::Cancelled;
        self.decision = Some(if is_cancelled { "cancelled" } else { "refused" });
        // What was noted on the way is more exact.
        self.reason.get_or_insert_with(|| refusal.reason());
    }
}

/// Lines of JSON.
///
/// A line that was written in part, as on a full disk, is ended by a newline before the next one: only
/// the torn line is lost.
pub struct JsonLines<W>(Mutex<Lines<W>>);

struct Lines<W> {
    out: W,
    /// True after a line that was written in part.
    is_torn: bool,
}

impl<W: Write + Send> JsonLines<W> {
    /// Writes to `out`: a file that is opened for appending, or standard error. A line is one call of
    /// [`Write::write`], unless `out` takes only a part of it.
    pub const fn new(out: W) -> Self {
        Self(Mutex::new(Lines { out, is_torn: false }))
    }

    /// What was written to.
    pub fn into_inner(self) -> W {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).out
    }
}

impl<W: Write> Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let mut text = Vec::with_capacity(line.len() + 2);
        if self.is_torn {
            text.push(b'\n');
        }
        text.extend_from_slice(line);
        text.push(b'\n');
        let mut rest = text.as_slice();
        while !rest.is_empty() {
            match self.out.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = rest.get(written..).unwrap_or_default();
                    self.is_torn = !rest.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.flush()
    }
}

impl<W: Write + Send> AuditSink for JsonLines<W> {
    fn write(&self, line: &AuditLine<'_>) {
        let Ok(text) = serde_json::to_vec(line) else { return };
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // In one piece: other processes may append to the same file.
        if let Err(error) = lines.write(&text) {
            tracing::error!(%error, "a line of the audit was not written");
        }
    }
}

impl<W> fmt::Debug for JsonLines<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JsonLines")
    }
}

/// Keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to it")]
pub struct NoAudit;

impl AuditSink for NoAudit {
    fn write(&self, _line: &AuditLine<'_>) {}
}

/// The audit of one call. However the call ends, its second line is written: a call that is dropped
/// was cancelled.
pub(crate) struct Entry {
    sink: Arc<dyn AuditSink>,
    clock: Arc<dyn Clock>,
    started: Instant,
    is_over: bool,
    call: String,
    surface: &'static str,
    operation: &'static str,
    name: String,
    issuer: Option<String>,
    subject: Option<String>,
    continuation: Option<&'static str>,
    presented: Option<String>,
    key: Option<String>,
    noted: Noted,
}

/// Bytes of a name that a line has at most: names come from callers, and are URIs at the longest.
const NAME_BYTES_MAX: usize = 256;

/// A name as a line has it: a longer one ends with `…`.
pub(crate) fn bounded_name(name: &str) -> String {
    if name.len() <= NAME_BYTES_MAX {
        return name.to_owned();
    }
    let end = name.floor_char_boundary(NAME_BYTES_MAX);
    format!("{}…", name.get(..end).unwrap_or_default())
}

impl Entry {
    pub(crate) fn start(
        sink: &Arc<dyn AuditSink>,
        clock: &Arc<dyn Clock>,
        call: [u8; 8],
        request: &Request,
    ) -> Self {
        let principal = request.caller.principal();
        let (continuation, presented) = match &request.continuation {
            None => (None, None),
            Some(Continuation::Cursor(cursor)) => (Some("cursor"), Some(cursor.as_str())),
            Some(Continuation::State { state, .. }) => (Some("state"), state.as_deref()),
        };
        let fingerprint = |text: &str| TokenFingerprint::of(text).to_string();
        let entry = Self {
            sink: Arc::clone(sink),
            clock: Arc::clone(clock),
            started: Instant::now(),
            is_over: false,
            call: format!("{:016x}", u64::from_be_bytes(call)),
            surface: request.surface.as_str(),
            operation: request.operation.as_str(),
            name: bounded_name(&request.name),
            issuer: principal.issuer().map(str::to_owned),
            subject: principal.subject().map(str::to_owned),
            continuation,
            presented: presented.map(fingerprint),
            key: request.key.as_deref().map(fingerprint),
            noted: Arc::clone(&request.noted),
        };
        entry.sink.write(&entry.line("start"));
        entry
    }

    /// The call has passed its checks, and is made now.
    pub(crate) fn begun(&self) {
        self.sink.begun(&self.call);
    }

    pub(crate) fn end(mut self, ended: &Result<Answer, Refusal>) {
        self.is_over = true;
        let mut line = self.line("end");
        match ended {
            Ok(answer) => {
                line.decision = Some(match &answer.reply {
                    _ if answer.is_replay => "replayed",
                    Reply::Failed { .. } => "failed",
                    _ => "answered",
                });
                let minted = match &answer.reply {
                    Reply::Page { next, .. } => next.as_deref(),
                    Reply::NeedsInput { state, .. } => Some(state.as_str()),
                    Reply::Done(_) | Reply::Failed { .. } => None,
                };
                line.minted = minted.map(|token| TokenFingerprint::of(token).to_string());
            }
            Err(refusal) => line.refuse(refusal),
        }
        self.sink.write(&line);
    }

    /// The end of a call that was checked and not made.
    pub(crate) fn end_checked(self, ended: &Result<(), Refusal>) {
        self.end_with(|line| match ended {
            Ok(()) => line.decision = Some("checked"),
            Err(refusal) => line.refuse(refusal),
        });
    }

    /// A held value that was put into the arguments.
    pub(crate) fn passed(&self, what: serde_json::Value) {
        let mut line = self.line("reference");
        line.passed = Some(what);
        self.sink.write(&line);
    }

    /// The end of a call, as it is said.
    pub(crate) fn end_with(mut self, say: impl FnOnce(&mut AuditLine<'_>)) {
        self.is_over = true;
        let mut line = self.line("end");
        say(&mut line);
        self.sink.write(&line);
    }

    fn line(&self, event: &'static str) -> AuditLine<'_> {
        let duration = (event == "end").then(|| self.started.elapsed().as_micros());
        let noted = self.noted.presented.get();
        AuditLine {
            at_ms: self.clock.now_ms(),
            call: &self.call,
            event,
            surface: self.surface,
            operation: self.operation,
            name: &self.name,
            issuer: self.issuer.as_deref(),
            subject: self.subject.as_deref(),
            continuation: self.continuation.or_else(|| noted.map(|(kind, _)| *kind)),
            presented: self.presented.clone().or_else(|| noted.map(|(_, print)| print.clone())),
            key: self.key.clone(),
            decision: None,
            reason: self.noted.reason.get().copied(),
            minted: None,
            duration_us: duration.map(|micros| u64::try_from(micros).unwrap_or(u64::MAX)),
            passed: None,
            left_out: None,
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.is_over {
            let mut line = self.line("end");
            line.decision = Some("cancelled");
            line.reason = Some("dropped");
            self.sink.write(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with some free bytes.
    struct Disk {
        written: Vec<u8>,
        free: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = bytes.len().min(self.free);
            if fits == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.free -= fits;
            self.written.extend_from_slice(&bytes[..fits]);
            Ok(fits)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_after_a_torn_one_is_a_line_of_its_own() {
        let mut lines = Lines { out: Disk { written: Vec::new(), free: 8 }, is_torn: false };
        lines.write(b"1111").unwrap();
        assert!(lines.write(b"2222").is_err(), "it is torn");
        assert!(lines.write(b"3333").is_err(), "nothing of it is written");
        lines.out.free = 100;
        lines.write(b"4444").unwrap();
        lines.out.free = 0;
        assert!(lines.write(b"5555").is_err(), "nothing of it is written");
        lines.out.free = 100;
        lines.write(b"6666").unwrap();
        assert_eq!(lines.out.written, b"1111\n222\n4444\n6666\n");
    }
}
