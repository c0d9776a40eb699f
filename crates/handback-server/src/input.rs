//! Bodies of requests, counted for their callers while they arrive.
//!
//! A body that is refused ends with an error for whoever reads it. The answer of that reader says nothing
//! of the cause, so the router answers in its place, in the same words on every route.

use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use handback_tool::{InputRefusal, UnfinishedInput};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, SizeHint};

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
    /// A body that counts as `input`, and the place of a body that was refused.
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
    /// The reason for which the body was refused, once the client had time to send the rest.
    pub(crate) async fn refusal(self) -> Option<InputRefusal> {
        let (refusal, body) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        tracing::debug!(reason = refusal.as_str(), "a body was refused while it arrived");
        if refusal != InputRefusal::TooSlow {
            let _ = tokio::time::timeout(DRAIN_TIME, drain(body)).await;
        }
        Some(refusal)
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

#[cfg(test)]
mod tests {
    use handback_identity::VerifiedPrincipal;
    use handback_surface::body::ReplyBody;
    use handback_tool::{InputBudget, Share};
    use tokio::sync::mpsc;

    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn wound_a11_a_body_is_counted_until_it_is_whole() {
        let nobody = VerifiedPrincipal::unauthenticated();
        let budget = InputBudget::new(3 << 20, Share::WHOLE);
        let begin = || {
            let (sender, pieces) = mpsc::channel(4);
            sender.try_send(Bytes::from(vec![0; MIB])).unwrap();
            sender.try_send(Bytes::from(vec![0; MIB])).unwrap();
            let body = ReplyBody::Sent(pieces);
            let (body, refused) = CountedBody::new(body, budget.input(&nobody));
            (sender, Box::pin(body.collect()), refused)
        };
        let (first, mut reads, refused) = begin();
        assert!(futures_util::poll!(&mut reads).is_pending());
        assert_eq!(budget.bytes(), 2 << 20);
        // The second one is the newest when the third MiB is exceeded.
        let (second, more, of_second) = begin();
        drop(second);
        assert!(more.await.is_err());
        assert_eq!(of_second.refusal().await, Some(InputRefusal::Total));
        assert_eq!(budget.bytes(), 2 << 20);
        drop(first);
        assert_eq!(reads.await.unwrap().to_bytes().len(), 2 * MIB);
        assert_eq!(refused.refusal().await, None);
        assert_eq!(budget.bytes(), 0);
        // Nothing more comes of the next one.
        let (_third, reads, refused) = begin();
        assert!(reads.await.is_err());
        assert_eq!(refused.refusal().await, Some(InputRefusal::TooSlow));
    }
}
