//! Bodies of responses: whole, or as they come.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
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
}

/// The next piece of a body, and what makes the one after it; nothing at the end.
pub type Making = Pin<Box<dyn Future<Output = Option<(Bytes, Box<dyn Pieces>)>> + Send>>;

/// Makes the pieces of a body, one after another.
pub trait Pieces: Send {
    /// Makes the next one.
    fn next(self: Box<Self>) -> Making;
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => f.debug_tuple("Whole").field(bytes).finish(),
            Self::Sent(_) => f.write_str("Sent(..)"),
            Self::Made(_) => f.write_str("Made(..)"),
            Self::Boxed(_) => f.write_str("Boxed(..)"),
        }
    }
}

impl ReplyBody {
    /// No body.
    #[must_use]
    pub const fn empty() -> Self {
        Self::Whole(None)
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
            Self::Sent(_) | Self::Made(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Boxed(body) => body.size_hint(),
            Self::Sent(_) | Self::Made(_) => SizeHint::default(),
        }
    }
}
