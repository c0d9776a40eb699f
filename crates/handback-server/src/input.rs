//! Bodies of requests, counted for their callers while they arrive.
//!
//! A body that is refused ends with an error for whoever reads it. The answer of that reader says nothing
//! of the cause, so the router answers in its place: every route has the same words.

use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use handback_surface::body::ReplyBody;
use handback_tool::{InputRefusal, PROGRESS_TIME, UnfinishedInput};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use crate::router::error;

/// Bytes of a refused body that are read before the answer: clients that send all of a body before they
/// read get the answer then.
const DRAIN_BYTES: usize = 16 << 20;

/// Time for the same.
const DRAIN_TIME: Duration = Duration::from_secs(2);

type BodyError = Box<dyn StdError + Send + Sync>;

/// A body whose bytes count until all of it has arrived.
#[derive(Debug)]
pub(crate) struct CountedBody<B> {
    /// Absent once the body was refused.
    body: Option<B>,
    input: UnfinishedInput,
    refused: Refused<B>,
}

/// A refused body and the reason, for the router.
#[derive(Debug)]
pub(crate) struct Refused<B>(Arc<Mutex<Option<(InputRefusal, B)>>>);

impl<B> CountedBody<B> {
    /// A body that counts as `input`, and the place where it is if it was refused.
    pub(crate) fn new(body: B, input: UnfinishedInput) -> (Self, Refused<B>) {
        let place = Arc::default();
        let refused = Refused(Arc::clone(&place));
        (Self { body: Some(body), input, refused: Refused(place) }, refused)
    }

    fn refuse<T>(&mut self, refusal: InputRefusal) -> Poll<Option<Result<T, BodyError>>> {
        let mut place = self.refused.0.lock().unwrap_or_else(PoisonError::into_inner);
        *place = self.body.take().map(|body| (refusal, body));
        Poll::Ready(Some(Err(refusal.into())))
    }
}

impl<B> Body for CountedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        match Pin::new(body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                match this.input.received(frame.data_ref().map_or(0, Bytes::len)) {
                    Ok(()) => Poll::Ready(Some(Ok(frame))),
                    Err(refusal) => this.refuse(refusal),
                }
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let refusal = ready!(this.input.poll_refused(context));
                this.refuse(refusal)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl<B> Refused<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    /// The answer to a request whose body was refused, once the client had time to send the rest.
    pub(crate) async fn answer(self) -> Option<Response<ReplyBody>> {
        let (refusal, body) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        tracing::debug!(reason = refusal.as_str(), "a body was refused while it arrived");
        if refusal != InputRefusal::TooSlow {
            let _ = tokio::time::timeout(DRAIN_TIME, drain(body)).await;
        }
        let (status, code) = match refusal {
            InputRefusal::CallerShare => (StatusCode::TOO_MANY_REQUESTS, "BUSY"),
            InputRefusal::Total => (StatusCode::SERVICE_UNAVAILABLE, "BUSY"),
            InputRefusal::TooSlow => (StatusCode::REQUEST_TIMEOUT, "TIMEOUT"),
        };
        let mut response = error(status, code, refusal);
        if refusal != InputRefusal::TooSlow {
            // Input that does not go on has made room by then.
            let seconds = HeaderValue::from(PROGRESS_TIME.as_secs());
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        Some(response)
    }
}

async fn drain<B: Body<Data = Bytes> + Unpin>(mut body: B) {
    let mut drained = 0;
    while let Some(Ok(frame)) = body.frame().await
        && drained <= DRAIN_BYTES
    {
        drained += frame.data_ref().map_or(0, Bytes::len);
    }
}
