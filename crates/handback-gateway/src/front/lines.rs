//! Lines that a client sends, each of them a message.

use bytes::{Bytes, BytesMut};
use handback_wire::scan::{Envelope, Scan};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// What a line that is not kept counts as, among those that are.
const NOT_KEPT_BYTES: usize = 1 << 10;

/// A line.
#[derive(Debug)]
pub(super) enum Sent {
    /// All of it.
    Whole(Bytes),
    /// It is longer than it may be, and nothing of it was kept: what it is, if it is a message.
    TooLong(Option<Envelope>),
}

impl Sent {
    /// What it takes of memory.
    pub(super) const fn bytes(&self) -> usize {
        match self {
            Self::Whole(line) => line.len(),
            Self::TooLong(_) => NOT_KEPT_BYTES,
        }
    }
}

/// Where lines come from. All that was read is in here, so that whoever stops waiting for a line loses
/// nothing of it.
pub(super) struct Input<R> {
    input: BufReader<R>,
    bytes_max: usize,
    part: Part,
}

impl<R: AsyncRead + Unpin> Input<R> {
    /// Lines of so many bytes at most.
    pub(super) fn new(input: R, bytes_max: usize) -> Self {
        Self { input: BufReader::new(input), bytes_max, part: Part::default() }
    }

    /// How many bytes a line may have.
    pub(super) const fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The next line that is not empty; nothing at the end.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<Sent>> {
        loop {
            let piece = self.input.fill_buf().await?;
            if piece.is_empty() {
                return Ok(self.part.end());
            }
            let end = memchr::memchr(b'\n', piece);
            let text = piece.get(..end.unwrap_or(piece.len())).unwrap_or_default();
            self.part.push(text, self.bytes_max);
            let taken = text.len() + usize::from(end.is_some());
            self.input.consume(taken);
            if end.is_some()
                && let Some(sent) = self.part.end()
            {
                return Ok(Some(sent));
            }
        }
    }
}

/// A line that has not ended.
enum Part {
    Kept(BytesMut),
    /// It is too long. It is looked at as it passes by, as long as it may be a message: many clients write
    /// the id behind all else.
    Skipped(Option<Box<Scan>>),
}

impl Default for Part {
    fn default() -> Self {
        Self::Kept(BytesMut::new())
    }
}

impl Part {
    fn push(&mut self, text: &[u8], bytes_max: usize) {
        match self {
            Self::Kept(line) if line.len() + text.len() > bytes_max => {
                let mut scan = Box::new(Scan::new());
                let is_well = scan.push(line).is_ok() && scan.push(text).is_ok();
                *self = Self::Skipped(is_well.then_some(scan));
            }
            Self::Kept(line) => line.extend_from_slice(text),
            Self::Skipped(scan) => {
                if scan.as_mut().is_some_and(|scan| scan.push(text).is_err()) {
                    *scan = None;
                }
            }
        }
    }

    /// The line has ended: what it is, if it is not empty. The next one begins.
    fn end(&mut self) -> Option<Sent> {
        match std::mem::take(self) {
            Self::Kept(line) if line.iter().all(u8::is_ascii_whitespace) => None,
            Self::Kept(line) => Some(Sent::Whole(line.freeze())),
            Self::Skipped(scan) => Some(Sent::TooLong(scan.and_then(|scan| scan.finish().ok()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use handback_mcp::wire::Message;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// What comes of this: whole lines, and of those that are too long the JSON of their ids.
    async fn lines(sent: &[u8], bytes_max: usize) -> Vec<Result<String, Option<String>>> {
        let mut input = Input::new(sent, bytes_max);
        let mut lines = Vec::new();
        while let Some(sent) = input.next().await.unwrap() {
            lines.push(match sent {
                Sent::Whole(line) => Ok(String::from_utf8(line.to_vec()).unwrap()),
                Sent::TooLong(envelope) => {
                    Err(envelope.and_then(|envelope| match envelope.message() {
                        Ok(Message::Request { id, .. }) => Some(id.as_json().to_owned()),
                        _ => None,
                    }))
                }
            });
        }
        lines
    }

    #[tokio::test]
    async fn what_is_behind_a_line_that_is_too_long_is_read() {
        let long = "x".repeat(50_000);
        let first = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{{"a":"{long}"}}}}"#);
        let last =
            format!(r#"{{"method":"m","params":{{"a":"{long}"}},"jsonrpc":"2.0","id":"z"}}"#);
        let sent = format!("one\n{first}\n\n \r\n{last}\n{long}\ntwo\n{first}");
        let (seven, z) = (Err(Some("7".to_owned())), Err(Some("\"z\"".to_owned())));
        let (one, two) = (Ok("one".to_owned()), Ok("two".to_owned()));
        let expected = vec![one, seven.clone(), z, Err(None), two, seven];
        assert_eq!(lines(sent.as_bytes(), 100).await, expected);
        // As long as it may be is not too long.
        assert_eq!(lines(first.as_bytes(), first.len()).await, [Ok(first.clone())]);
        assert_eq!(lines(first.as_bytes(), first.len() - 1).await, [Err(Some("7".to_owned()))]);
    }

    #[tokio::test]
    async fn whoever_stops_waiting_loses_nothing() {
        let (mut theirs, ours) = tokio::io::duplex(64);
        let mut input = Input::new(ours, 100);
        theirs.write_all(b"he").await.unwrap();
        assert!(futures_util::poll!(std::pin::pin!(input.next())).is_pending());
        theirs.write_all(b"llo\n").await.unwrap();
        let sent = input.next().await.unwrap();
        assert!(matches!(sent, Some(Sent::Whole(line)) if line == "hello"));
    }
}
