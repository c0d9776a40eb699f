//! Answers that take their time: event streams (HTML, section 9.2), bounded in size and silence.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;

use super::client::Try;
use super::error::ToolsError;
use crate::http::{Answer, HttpError, chain, whole};

/// How long a server says nothing at most: it has a comment for every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Waits for the head of an answer.
pub(super) async fn under_way(
    asked: impl Future<Output = Result<Response<Incoming>, HttpError>>,
    limits: &Try<'_>,
) -> Result<Response<Incoming>, ToolsError> {
    let answer = tokio::time::timeout(SILENCE_MAX, asked).await.unwrap_or(Err(HttpError::Late));
    answer.map_err(|error| ToolsError::of_call(error, limits.response_max))
}

/// All of an answer that does not take its time.
pub(super) async fn read_to_end(
    answer: Response<Incoming>,
    limits: &Try<'_>,
) -> Result<Answer, ToolsError> {
    let read = tokio::time::timeout(SILENCE_MAX, whole(answer, limits.response_max)).await;
    let read = read.unwrap_or(Err(HttpError::Late));
    read.map_err(|error| ToolsError::of_call(error, limits.response_max))
}

pub(super) fn is_events(answer: &Response<Incoming>) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// An event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServerEvent {
    pub(super) name: String,
    pub(super) data: String,
}

/// The events of an answer.
pub(super) struct Events {
    body: Incoming,
    lines: Lines,
}

impl Events {
    /// Of at most so many bytes each.
    pub(super) const fn new(body: Incoming, event_max: usize) -> Self {
        Self { body, lines: Lines::new(event_max) }
    }

    /// The next event; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<ServerEvent>, ToolsError> {
        loop {
            if let Some(event) = self.lines.next_event()? {
                return Ok(Some(event));
            }
            let frame = tokio::time::timeout(SILENCE_MAX, self.body.frame()).await;
            let lost = |why: String| ToolsError::Lost(why);
            let frame = frame.map_err(|_| lost("the server said nothing for long".to_owned()))?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|why| lost(chain(&why)))?;
            if let Some(bytes) = frame.data_ref() {
                self.lines.buffer.extend_from_slice(bytes);
            }
        }
    }
}

/// Bytes as events.
struct Lines {
    buffer: Vec<u8>,
    /// So much of the buffer has no end of a line.
    scanned: usize,
    event: ServerEvent,
    event_max: usize,
}

impl Lines {
    const fn new(event_max: usize) -> Self {
        let event = ServerEvent { name: String::new(), data: String::new() };
        Self { buffer: Vec::new(), scanned: 0, event, event_max }
    }

    fn next_event(&mut self) -> Result<Option<ServerEvent>, ToolsError> {
        let mut start = 0;
        let mut found = None;
        while let Some(length) = self.line_after(start) {
            let line = self.buffer.get(start..start + length).unwrap_or_default();
            start += length + 1;
            self.scanned = start;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let line = std::str::from_utf8(line)
                .map_err(|_| ToolsError::Misbehaved("an event is not text"))?;
            if line.is_empty() {
                found = self.event.take();
            } else {
                self.event.add(line);
            }
            if found.is_some() {
                break;
            }
        }
        self.buffer.drain(..start);
        self.scanned = if found.is_some() { 0 } else { self.buffer.len() };
        match self.buffer.len().max(self.event.data.len()) > self.event_max {
            true if found.is_none() => Err(ToolsError::TooLarge(self.event_max)),
            _ => Ok(found),
        }
    }

    /// How long the line is that begins there, if all of it is there.
    fn line_after(&self, start: usize) -> Option<usize> {
        let from = self.scanned.max(start);
        let end = self.buffer.get(from..)?.iter().position(|byte| *byte == b'\n')?;
        Some(from + end - start)
    }
}

impl ServerEvent {
    fn add(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            // Comments, ids, and what is not known.
            _ => {}
        }
    }

    /// The event that an empty line ends, if it has data.
    fn take(&mut self) -> Option<Self> {
        let mut event = std::mem::take(self);
        event.data.pop()?;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a text that comes in pieces.
    fn events(text: &str, piece: usize) -> Vec<(String, String)> {
        let (mut lines, mut found) = (Lines::new(64), Vec::new());
        for piece in text.as_bytes().chunks(piece) {
            lines.buffer.extend_from_slice(piece);
            while let Some(event) = lines.next_event().unwrap() {
                found.push((event.name, event.data));
            }
        }
        found
    }

    #[test]
    fn events_are_the_same_however_they_come() {
        let text = ": hello\n\nevent: progress\ndata: {\"done\":1}\n\nid: 4\r\ndata: a\r\ndata:b\r\n\r\n\
                    event: empty\n\nevent:result\ndata:  x: y\n\ndata: cut";
        let expected = [("progress", "{\"done\":1}"), ("", "a\nb"), ("result", " x: y")];
        for piece in 1..text.len() {
            let found = events(text, piece);
            let found: Vec<_> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(found, expected, "{piece}");
        }
    }

    #[test]
    fn an_event_that_is_too_large_is_refused_before_its_end() {
        for text in [format!("data: {}", "x".repeat(64)), "data: 1234567890\n".repeat(6)] {
            let mut lines = Lines::new(64);
            lines.buffer.extend_from_slice(text.as_bytes());
            assert!(matches!(lines.next_event(), Err(ToolsError::TooLarge(64))), "{text}");
        }
    }
}
