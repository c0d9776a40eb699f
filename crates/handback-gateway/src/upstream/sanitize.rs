//! Takes out of the messages of an upstream what only Handback may say.
//!
//! Every message that comes over a connection passes here before anything else reads it: answers, errors,
//! notifications and requests. Marks of Handback are moved ([`marks`]), and control characters in titles and
//! descriptions are replaced ([`controls`]). Most messages have neither, and stay the bytes that arrived.

use std::sync::Arc;

use bytes::Bytes;
use handback_page::json::ByteSource as _;
use handback_wire::controls;
use handback_wire::json::Lexer;
use handback_wire::marks::{self, MarkScan, MarksError, OVERLAP_BYTES, Root, Segment};

use super::spool::{Limits, Rewritten};
use super::{Answer, LineError, Raw};

/// Bytes of a file that are read at once.
const CHUNK_BYTES: u64 = 256 << 10;

/// A longer text is read on a thread that may block.
const READ_HERE_BYTES_MAX: usize = 64 << 10;

/// The reason of a message that cannot be passed on.
const TOO_MANY: LineError = LineError::Protocol("its message has too many marks of Handback");

/// Whose word the messages of a connection are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// A server that is not ours.
    #[default]
    Upstream,
    /// Handback itself: the own tools, or the server behind `wrap --connect`.
    Handback,
}

impl Origin {
    /// Returns `true` for an answer that may be passed on as it is, which most may.
    pub(super) fn is_plain(self, has_descriptions: bool, answer: &Answer) -> bool {
        match answer {
            _ if self == Self::Handback => true,
            Answer::Result(Raw::Memory(json)) => !has_descriptions && !marks::may_have(json),
            _ => false,
        }
    }

    /// An answer as it may be passed on.
    pub(super) async fn answer(
        self,
        has_descriptions: bool,
        answer: Answer,
        limits: &Arc<Limits>,
    ) -> Result<Answer, LineError> {
        match answer {
            answer if self == Self::Handback => Ok(answer),
            Answer::Error(error) => Ok(Answer::Error(self.error(error)?)),
            Answer::Result(Raw::Memory(json)) => {
                let json = match has_descriptions {
                    true => controls::replaced(&json).unwrap_or(json),
                    false => json,
                };
                Ok(Answer::Result(Raw::Memory(in_memory(json).await?)))
            }
            Answer::Result(file) => {
                let limits = Arc::clone(limits);
                let moved = tokio::task::spawn_blocking(move || in_file(file, &limits)).await;
                Ok(Answer::Result(moved.map_err(|_| LineError::Lost)??))
            }
        }
    }

    /// An error object as it may be passed on.
    pub(super) fn error(self, error: Bytes) -> Result<Bytes, LineError> {
        self.moved(error, Root::Error)
    }

    /// The result of `initialize` as it may be passed on.
    pub(super) fn hello(self, hello: Bytes) -> Result<Bytes, LineError> {
        let hello = match self {
            Self::Handback => hello,
            Self::Upstream => controls::replaced(&hello).unwrap_or(hello),
        };
        self.moved(hello, Root::Message)
    }

    /// Parameters of a notification or a request as they may be passed on.
    pub(super) fn params(self, params: Option<Bytes>) -> Option<Bytes> {
        let params = params?;
        // Without what nobody may read, there is nothing to say.
        Some(self.moved(params, Root::Message).unwrap_or(Bytes::from_static(b"{}")))
    }

    fn moved(self, json: Bytes, root: Root) -> Result<Bytes, LineError> {
        if self == Self::Handback {
            return Ok(json);
        }
        let moved = marks::moved(&json, root).map_err(refused)?;
        Ok(moved.unwrap_or(json))
    }
}

/// Whether titles and descriptions are in the answer to a request with this method.
pub(super) fn has_descriptions(method: &str) -> bool {
    method.ends_with("/list") || matches!(method, "server/discover" | "prompts/get")
}

fn refused(error: MarksError) -> LineError {
    match error {
        MarksError::TooMany => TOO_MANY,
        _ => LineError::Protocol("its message is no JSON"),
    }
}

async fn in_memory(json: Bytes) -> Result<Bytes, LineError> {
    if !marks::may_have(&json) {
        return Ok(json);
    }
    if json.len() <= READ_HERE_BYTES_MAX {
        return Ok(marks::moved(&json, Root::Message).map_err(refused)?.unwrap_or(json));
    }
    let moved = tokio::task::spawn_blocking(move || {
        marks::moved(&json, Root::Message).map(|moved| moved.unwrap_or(json))
    });
    moved.await.map_err(|_| LineError::Lost)?.map_err(refused)
}

/// A result in a file as it may be passed on. Blocks.
fn in_file(raw: Raw, limits: &Limits) -> Result<Raw, LineError> {
    let size = raw.size_bytes();
    let read = |range| raw.read(range).map_err(|_| LineError::Lost);
    let (mut at, mut may_have) = (0, false);
    while at < size && !may_have {
        let end = size.min(at + CHUNK_BYTES);
        may_have = marks::may_have(&read(at.saturating_sub(OVERLAP_BYTES)..end)?);
        at = end;
    }
    if !may_have {
        return Ok(raw);
    }
    let (mut scan, mut lexer) = (MarkScan::new(Root::Message), Lexer::new());
    let mut at = 0;
    while at < size {
        let end = size.min(at + CHUNK_BYTES);
        lexer.feed(&read(at..end)?, &mut scan).map_err(|_| TOO_MANY)?;
        at = end;
    }
    lexer.finish(&mut scan).map_err(|_| TOO_MANY)?;
    let Some(segments) = scan.finish(size).map_err(refused)? else { return Ok(raw) };
    let mut file = Rewritten::begin(limits)?;
    for segment in segments {
        match segment {
            Segment::Text(text) => file.write(text.as_bytes())?,
            Segment::Copy(range) => {
                let mut at = range.start;
                while at < range.end {
                    let end = range.end.min(at + CHUNK_BYTES);
                    file.write(&read(at..end)?)?;
                    at = end;
                }
            }
        }
    }
    Ok(file.finish())
}
