//! What the server tells its operator: warnings and errors, what servers behind it write to their standard
//! error, and the sums at the end of a wrapped run, a line each, on stderr.
//!
//! A thread of its own writes them. Who serves does not wait for a terminal: what there is no room for
//! is left out, and counted.

use std::fmt::{Debug, Write as _};
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use handback_server::SUMS;
use handback_server::gateway::upstream::STDERR;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Lines that wait to be written.
const LINES: usize = 256;

/// How long the end waits for what is not written yet.
const FLUSH_TIME: Duration = Duration::from_millis(500);

enum Told {
    Line(String),
    /// Answered when all before it is written.
    Flush(Sender<()>),
}

/// Has what is told written, until it is dropped.
#[derive(Debug)]
pub(crate) struct Log(SyncSender<Told>);

impl Log {
    /// Starts to write. Without a thread, or if somebody else writes already, nothing is.
    pub(crate) fn start() -> Self {
        let (lines, told) = sync_channel(LINES);
        let writes = thread::Builder::new().name("log".to_owned()).spawn(move || write(&told));
        if writes.is_ok() {
            let teller = Teller { lines: lines.clone(), left_out: AtomicU64::new(0) };
            let _ = tracing::subscriber::set_global_default(teller);
        }
        Self(lines)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (done, flushed) = channel();
        if self.0.try_send(Told::Flush(done)).is_ok() {
            let _ = flushed.recv_timeout(FLUSH_TIME);
        }
    }
}

fn write(told: &Receiver<Told>) {
    for told in told {
        // Whoever closed stderr does not want to know.
        match told {
            Told::Line(line) => drop(io::stderr().lock().write_all(line.as_bytes())),
            Told::Flush(done) => drop(done.send(())),
        }
    }
}

struct Teller {
    lines: SyncSender<Told>,
    left_out: AtomicU64,
}

impl Subscriber for Teller {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // What rmcp says repeats what clients are answered, or that they hung up; any of them can
        // cause as much of it as it likes.
        let is_rmcp = metadata.target().starts_with("rmcp");
        let is_told =
            *metadata.level() <= Level::WARN || matches!(metadata.target(), SUMS | STDERR);
        metadata.is_event() && !is_rmcp && is_told
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let label = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            _ => "note",
        };
        let mut text = format!("{label}: {}{}", line.message, line.fields);
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let _ = write!(text, " ({left_out} before it were left out)");
        }
        // One line, whatever somebody has called their stream.
        text.retain(|character| !character.is_control());
        text.push('\n');
        if self.lines.try_send(Told::Line(text)).is_err() {
            self.left_out.fetch_add(left_out + 1, Ordering::Relaxed);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// What an event says.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Into a string, nothing fails.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, "; {name}: {value:?}"),
        };
    }
}
