//! Answers that take their time.
//!
//! rmcp answers a request of the new era with nothing, not even a header, before its handler has
//! said the first thing. Proxies take such a connection for dead after a while, and a caller that
//! vanished is not noticed. So after some time the answer begins without its first event, and
//! comments keep the connection up.
//!
//! The status is then 200. Errors that have another one are found before any handler runs, at once.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::Response;
use hyper::body::{Body, Frame};
use hyper::header::{self, HeaderValue};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, interval_at};

use crate::front::Reply;

/// What a stream of events is sent as.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// Waits for an answer, and begins one in its place if that takes longer than `patience`. Whoever
/// drops what comes out of this ends the work.
pub(crate) async fn within(
    patience: Duration,
    answer: impl Future<Output = Reply> + Send + 'static,
) -> Reply {
    let mut answer = Box::pin(answer);
    if let Ok(reply) = tokio::time::timeout(patience, &mut answer).await {
        return reply;
    }
    let work = Work(tokio::spawn(async move { into_events(answer.await).await }));
    let comments = interval_at(Instant::now(), patience);
    let mut reply = Response::new(Late::Waiting { work, comments }.boxed());
    for (name, value) in [(header::CONTENT_TYPE, EVENT_STREAM), (header::CACHE_CONTROL, "no-cache")]
    {
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    reply
}

/// Whether an answer is a stream of events.
pub(crate) fn is_stream(reply: &Reply) -> bool {
    content_type(reply).starts_with(EVENT_STREAM.as_bytes())
}

fn content_type(reply: &Reply) -> &[u8] {
    reply.headers().get(header::CONTENT_TYPE).map_or(b"", HeaderValue::as_bytes)
}

/// A message becomes an event; what is neither can not be told any more.
async fn into_events(reply: Reply) -> BoxBody<Bytes, Infallible> {
    if is_stream(&reply) {
        return reply.into_body();
    }
    if !content_type(&reply).starts_with(b"application/json") {
        return Empty::new().boxed();
    }
    let Ok(message) = reply.into_body().collect().await;
    let event = [&b"data: "[..], &message.to_bytes(), b"\n\n"].concat();
    Full::new(Bytes::from(event)).boxed()
}

/// Is stopped on drop, and with it what rmcp does for the caller.
struct Work(JoinHandle<BoxBody<Bytes, Infallible>>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.abort();
    }
}

enum Late {
    Waiting { work: Work, comments: Interval },
    Answering(BoxBody<Bytes, Infallible>),
}

impl Body for Late {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            match &mut *self {
                Self::Answering(body) => return Pin::new(body).poll_frame(context),
                Self::Waiting { work, comments } => {
                    if let Poll::Ready(body) = Pin::new(&mut work.0).poll(context) {
                        // Work that broke down has no answer.
                        *self = Self::Answering(body.unwrap_or_else(|_| Empty::new().boxed()));
                        continue;
                    }
                    ready!(comments.poll_tick(context));
                    return Poll::Ready(Some(Ok(Frame::data(COMMENT))));
                }
            }
        }
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Late(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hyper::StatusCode;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(15);

    fn reply(content_type: &'static str, body: &'static str) -> Reply {
        let mut reply = Response::new(Full::new(Bytes::from_static(body.as_bytes())).boxed());
        let content_type = HeaderValue::from_static(content_type);
        reply.headers_mut().insert(header::CONTENT_TYPE, content_type);
        reply
    }

    async fn check(wait_s: u64, content_type: &'static str, body: &'static str, expected: &str) {
        let answer = within(PATIENCE, async move {
            tokio::time::sleep(Duration::from_secs(wait_s)).await;
            reply(content_type, body)
        });
        let answer = answer.await;
        assert_eq!(answer.status(), StatusCode::OK);
        let Ok(body) = answer.into_body().collect().await;
        assert_eq!(body.to_bytes(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_in_time_passes_as_it_is() {
        check(0, "application/json", "{}", "{}").await;
        check(14, EVENT_STREAM, "data: {}\n\n", "data: {}\n\n").await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_late_comes_after_comments() {
        check(16, EVENT_STREAM, "data: {}\n\n", ":\n\ndata: {}\n\n").await;
        check(40, "application/json", "{}", ":\n\n:\n\ndata: {}\n\n").await;
        check(40, "text/plain", "oh", ":\n\n:\n\n").await;
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_works_for_who_left() {
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let mut answer = within(PATIENCE, async move {
            let _held = held;
            std::future::pending::<()>().await;
            reply("", "")
        })
        .await;
        assert!(answer.body_mut().frame().await.is_some());
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(answer);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
