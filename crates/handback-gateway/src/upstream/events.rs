//! Messages out of the body of a response.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use handback_wire::scan::{Envelope, Kind};
use handback_wire::sse::{Event, Parser, Piece};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::HeaderValue;
use tokio::time::timeout;

use super::said::To;
use super::spool::{Gather, Limits, Whole};
use super::{LineError, meta};

/// How long the rest of a stream is read whose answer is there. A connection whose response was read
/// to its end can be used again.
const REST_TIME: Duration = Duration::from_millis(500);

/// Bytes of such a rest at most: for more, a new connection is cheaper.
const REST_BYTES_MAX: usize = 64 << 10;

/// A body that is one message.
pub(super) async fn message(mut body: Incoming, limits: &Arc<Limits>) -> Result<Whole, LineError> {
    let mut gather = Gather::new(Arc::clone(limits));
    if let Some(length) = body.size_hint().exact() {
        gather.expect(length)?;
    }
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(|_| LineError::Lost)?.into_data() {
            gather.push(data).await?;
        }
    }
    match gather.finish().await? {
        Whole::Unwritten(_) => Err(LineError::Disk),
        whole => Ok(whole),
    }
}

/// A body that is a stream of events.
#[derive(Debug)]
pub(super) struct Events {
    body: Incoming,
    parser: Parser,
    gather: Gather,
    limits: Arc<Limits>,
    /// The question that is answered here, if one is.
    asked: Option<u64>,
    /// Nothing more comes: what is given from then on may be cut off.
    pub(super) has_ended: bool,
    /// The id of the last event: from where on the stream can be resumed.
    pub(super) last: Option<HeaderValue>,
    /// How long to wait before that.
    pub(super) retry: Option<Duration>,
}

impl Events {
    pub(super) fn new(body: Incoming, limits: &Arc<Limits>, asked: Option<u64>) -> Self {
        let limits = Arc::clone(limits);
        let gather = Gather::new(Arc::clone(&limits));
        let (parser, has_ended) = (Parser::default(), false);
        Self { body, parser, gather, limits, asked, has_ended, last: None, retry: None }
    }

    /// Goes on with another body.
    pub(super) fn resume(&mut self, body: Incoming) {
        self.body = body;
        self.has_ended = false;
        self.parser = Parser::default();
        self.gather = Gather::new(Arc::clone(&self.limits));
    }

    /// The next message; nothing at the end. A stream that breaks is [`LineError::Lost`].
    pub(super) async fn next(&mut self) -> Result<Option<Whole>, LineError> {
        loop {
            while let Some(piece) = self.parser.next_piece() {
                match piece {
                    Piece::Data(part) => match self.gather.push(part).await {
                        Err(why) if self.may_be_answer() => return Err(why),
                        // What is behind it may be wanted.
                        Err(_) => self.gather.discard(),
                        Ok(()) => {}
                    },
                    Piece::End(event) => {
                        if let Some(whole) = self.end(event).await? {
                            return Ok(Some(whole));
                        }
                    }
                }
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.parser.push(frame.into_data().unwrap_or_default()),
                Some(Err(_)) => return Err(LineError::Lost),
                None if self.has_ended => return Ok(None),
                None => {
                    self.has_ended = true;
                    self.parser.end();
                }
            }
        }
    }

    /// Nothing more is wanted of it. The rest is read in the background: the answer does not wait for
    /// it, and before the next question comes the connection is free.
    pub(super) fn leave(self) {
        let mut body = self.body;
        if body.is_end_stream() || rest(&mut body).now_or_never().is_some() {
            return;
        }
        tokio::spawn(async move {
            // If it goes on for longer, the connection is closed.
            let _ = timeout(REST_TIME, rest(&mut body)).await;
        });
    }

    /// Whether what cannot be taken may be the answer that is waited for.
    fn may_be_answer(&self) -> bool {
        let is_ours = |id: &[u8]| {
            // An error without an id can be about nothing else than what was asked.
            id == b"null" || str::from_utf8(id).is_ok_and(|id| meta::number(id) == self.asked)
        };
        self.parser.is_message()
            && match self.gather.kind() {
                Some(Kind::Asks) => false,
                Some(Kind::Answers) => self.asked.is_some() && self.gather.id().is_none_or(is_ours),
                None => true,
            }
    }

    async fn end(&mut self, event: Event) -> Result<Option<Whole>, LineError> {
        let is_message = event.is_message();
        if let Some(id) = event.id {
            // One that cannot be sent back is as good as none.
            self.last = HeaderValue::from_bytes(&id).ok().filter(|id| !id.is_empty());
        }
        self.retry = event.retry.or(self.retry);
        let is_empty = self.gather.length() == 0;
        let whole = self.gather.finish().await;
        if !is_message || is_empty {
            return Ok(None);
        }
        match whole? {
            Whole::Unwritten(envelope) if is_answer(&envelope, self.asked) => Err(LineError::Disk),
            // What is behind it may be wanted.
            whole => Ok(Some(whole)),
        }
    }
}

/// Whether a message is the answer to a question. An error without an id can be about nothing else.
fn is_answer(envelope: &Envelope, asked: Option<u64>) -> bool {
    match (To::of(envelope), asked) {
        (To::Number(number), Some(asked)) => number == asked,
        (To::Unknown, Some(_)) => true,
        _ => false,
    }
}

/// Reads what is left of a body, if that is little.
async fn rest(body: &mut Incoming) {
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > REST_BYTES_MAX {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use handback_wire::scan::Scan;

    use super::*;

    #[test]
    fn what_ends_a_question_is_its_answer() {
        let check = |message: &str, asked: Option<u64>, expected: bool| {
            let mut scan = Scan::new();
            scan.push(message.as_bytes()).unwrap();
            assert_eq!(is_answer(&scan.finish().unwrap(), asked), expected, "{message} {asked:?}");
        };
        let result = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        let unknown = r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#;
        check(result, Some(7), true);
        check(result, Some(8), false);
        check(unknown, Some(7), true);
        for message in [result, unknown] {
            check(message, None, false);
        }
        check(r#"{"jsonrpc":"2.0","method":"m","params":{}}"#, Some(7), false);
        check(r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{}}"#, Some(7), false);
    }
}
