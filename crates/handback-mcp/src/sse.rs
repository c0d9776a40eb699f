//! Other ids in a stream of events.
//!
//! Which bytes they are is in [`handback_wire::event_ids`].

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use handback_wire::event_ids::Lines;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame};

/// Gives the id that takes the place of another; without one, the line goes.
pub(crate) type Replace = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A body whose ids are replaced on the way.
pub(crate) struct WithIds {
    inner: BoxBody<Bytes, Infallible>,
    lines: Lines<Replace>,
}

impl WithIds {
    pub(crate) fn new(inner: BoxBody<Bytes, Infallible>, replace: Replace) -> Self {
        Self { inner, lines: Lines::new(replace) }
    }
}

impl Body for WithIds {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            let Some(Ok(frame)) = ready!(Pin::new(&mut self.inner).poll_frame(context)) else {
                return Poll::Ready(None);
            };
            let frame = match frame.into_data() {
                Ok(data) => {
                    let data = self.lines.push(&data);
                    if data.is_empty() {
                        continue;
                    }
                    Frame::data(data)
                }
                Err(frame) => frame,
            };
            return Poll::Ready(Some(Ok(frame)));
        }
    }
}

impl fmt::Debug for WithIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WithIds(..)")
    }
}
