//! Bodies: of responses, whole or as they come; of requests, within bounds.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// The body of a response.
#[non_exhaustive]
pub enum ReplyBody {
    /// All of it, if there is one.
    Whole(Option<Bytes>),
    /// What another task sends, until it stops.
    Sent(mpsc::Receiver<Bytes>),
    /// What is made when the connection has room for it.
    Made(Making),
    /// A body of another crate.
    Boxed(BoxBody<Bytes, Infallible>),
    /// One that a single thread reads at a time.
    Unsync(UnsyncBoxBody<Bytes, Infallible>),
    /// A body for as long as which something is counted.
    Counted(Box<CountedBody>),
}

/// A body with what is dropped when it has been sent.
pub struct CountedBody {
    body: ReplyBody,
    _guard: Box<dyn Send>,
}

/// Bytes of a whole body that are written at once, whoever reads slowly.
const AT_ONCE_BYTES: usize = 64 << 10;

/// The next piece of a body, and what makes the one after it; nothing at the end.
pub type Making = Pin<Box<dyn Future<Output = Option<(Bytes, Box<dyn Pieces>)>> + Send>>;

/// Makes the pieces of a body, one after another.
pub trait Pieces: Send {
    /// Makes the next one.
    fn next(self: Box<Self>) -> Making;
}

impl fmt::Debug for CountedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedBody").field("body", &self.body).finish_non_exhaustive()
    }
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => f.debug_tuple("Whole").field(bytes).finish(),
            Self::Sent(_) => f.write_str("Sent(..)"),
            Self::Made(_) => f.write_str("Made(..)"),
            Self::Boxed(_) => f.write_str("Boxed(..)"),
            Self::Unsync(_) => f.write_str("Unsync(..)"),
            Self::Counted(counted) => counted.body.fmt(f),
        }
    }
}

impl ReplyBody {
    /// No body.
    #[must_use]
    pub const fn empty() -> Self {
        Self::Whole(None)
    }

    /// Drops a guard when the body has been sent, or the connection is gone. With a small body, that is
    /// now.
    #[must_use]
    pub fn with_guard(self, guard: impl Send + 'static) -> Self {
        match self {
            Self::Whole(bytes) if bytes.as_ref().map_or(0, Bytes::len) <= AT_ONCE_BYTES => {
                drop(guard);
                Self::Whole(bytes)
            }
            body => Self::Counted(Box::new(CountedBody { body, _guard: Box::new(guard) })),
        }
    }
}

impl From<Bytes> for ReplyBody {
    fn from(bytes: Bytes) -> Self {
        Self::Whole((!bytes.is_empty()).then_some(bytes))
    }
}

impl From<String> for ReplyBody {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        match this {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Sent(receiver) => {
                receiver.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Boxed(body) => Pin::new(body).poll_frame(context),
            Self::Unsync(body) => Pin::new(body).poll_frame(context),
            Self::Counted(counted) => Pin::new(&mut counted.body).poll_frame(context),
            Self::Made(making) => match making.as_mut().poll(context) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some((bytes, pieces))) => {
                    *making = pieces.next();
                    Poll::Ready(Some(Ok(Frame::data(bytes))))
                }
                Poll::Ready(None) => {
                    // What has ended is not asked again.
                    *this = Self::Whole(None);
                    Poll::Ready(None)
                }
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Boxed(body) => body.is_end_stream(),
            Self::Unsync(body) => body.is_end_stream(),
            Self::Counted(counted) => counted.body.is_end_stream(),
            Self::Sent(_) | Self::Made(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Boxed(body) => body.size_hint(),
            Self::Unsync(body) => body.size_hint(),
            Self::Counted(counted) => counted.body.size_hint(),
            Self::Sent(_) | Self::Made(_) => SizeHint::default(),
        }
    }
}

/// How long the body of a request may take to arrive: the largest one, on a slow line.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(60);

/// Of a body that is too large, so many times what is taken is read before it is refused, so that
/// clients that send all of it before they listen get the answer.
const DRAINED_TIMES: usize = 4;

/// Why the body of a request was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is larger than it may be.
    TooLarge,
    /// It took more than [`BODY_TIME`].
    TooSlow,
    /// It ended too early.
    Cut,
}

/// Reads a body of at most `max` bytes.
pub(crate) async fn read<B>(body: B, max: usize) -> Result<Bytes, Unread>
where
    B: Body<Data = Bytes> + Send,
{
    tokio::time::timeout(BODY_TIME, whole(body, max)).await.unwrap_or(Err(Unread::TooSlow))
}

async fn whole<B>(body: B, max: usize) -> Result<Bytes, Unread>
where
    B: Body<Data = Bytes> + Send,
{
    let is_too_large = body.size_hint().lower() > max as u64;
    let mut body = std::pin::pin!(body);
    if is_too_large {
        let mut drained = 0;
        while let Some(Ok(frame)) = body.frame().await {
            drained += frame.data_ref().map_or(0, Bytes::len);
            if drained > max.saturating_mul(DRAINED_TIMES) {
                break;
            }
        }
        return Err(Unread::TooLarge);
    }
    // Most bodies are one piece, which is taken as it is.
    let (mut first, mut joined) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|_| Unread::Cut)?.into_data() else { continue };
        if first.len().max(joined.len()) + piece.len() > max {
            return Err(Unread::TooLarge);
        }
        if first.is_empty() {
            first = piece;
            continue;
        }
        if joined.is_empty() {
            joined.extend_from_slice(&first);
        }
        joined.extend_from_slice(&piece);
    }
    Ok(if joined.is_empty() { first } else { joined.freeze() })
}
