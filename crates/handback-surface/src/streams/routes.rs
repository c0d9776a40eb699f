//! From requests to responses.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handback_identity::VerifiedPrincipal;
use handback_store::{Kv, StoreError};
use handback_stream::{Command, MAX_PAYLOAD_BYTES, NameId, SigningKey, StreamName, View, duplex};
use handback_token::Sealer;
use handback_tool::{Quota, Share};
use hyper::body::Body;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::answer;
use super::driver::Streams;
use super::params::{Bad, decoded};
use super::queue::{COMMAND_BYTES, WAITING_BYTES_MAX};
use super::subscriptions::{CONTROL, Parts, SubscriptionQuotas, Subscriptions, WebhookTargets};
use super::ticket::Tickets;
use crate::body::{self, BODY_TIME, ReplyBody, Unread};

/// What operators choose about streams.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// How long a long poll waits.
    pub long_poll: Duration,
    /// How long an event stream is kept open: then clients come back, and caches can join them.
    pub sse_life: Duration,
    /// Bytes of a page of a read.
    pub page_bytes: usize,
    /// The part of what waits to be written that one caller may have.
    pub share: Share,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            long_poll: Duration::from_secs(15),
            sse_life: Duration::from_secs(60),
            page_bytes: 4 << 20,
            share: Share::WHOLE,
        }
    }
}

impl Settings {
    /// With another wait of long polls.
    #[must_use]
    pub const fn long_poll(mut self, time: Duration) -> Self {
        self.long_poll = time;
        self
    }
}

/// The routes under which streams are.
#[derive(Clone, Debug)]
pub struct StreamRoutes {
    pub(super) streams: Arc<Streams>,
    pub(super) settings: Settings,
    subscriptions: Option<Arc<Subscriptions>>,
    pub(super) tickets: Option<Tickets>,
    /// Bytes of commands that wait for the writer.
    waiting: Quota,
}

/// What subscriptions need.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "servers write it as a literal")]
pub struct SubscriptionSettings {
    /// Where they are kept.
    pub kv: Arc<dyn Kv>,
    /// What webhooks are signed with.
    pub key: SigningKey,
    /// Where webhooks may go.
    pub targets: WebhookTargets,
    /// What URLs of this server start with, such as `http://127.0.0.1:8420`.
    pub base: String,
    /// Limits for all subscriptions, and for those of each caller.
    pub quotas: SubscriptionQuotas,
}

/// What streams are under.
pub const PREFIX: &str = "/v1/stream/";

const METHODS: &str = "GET, HEAD, PUT, POST, DELETE, OPTIONS";

impl StreamRoutes {
    /// Routes to these streams.
    #[must_use]
    pub fn new(streams: Arc<Streams>, settings: Settings) -> Self {
        let waiting = Quota::new(WAITING_BYTES_MAX as u64, settings.share);
        Self { streams, settings, subscriptions: None, tickets: None, waiting }
    }

    /// The quota of bytes that wait for the writer, for other appends to be counted with.
    #[must_use]
    pub fn waiting(&self) -> Quota {
        self.waiting.clone()
    }

    /// With subscriptions. Inside a runtime only.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if those that are stored cannot be read.
    pub fn with_subscriptions(
        mut self,
        settings: SubscriptionSettings,
    ) -> Result<Self, StoreError> {
        let SubscriptionSettings { kv, key, targets, base, quotas } = settings;
        let parts = Parts { kv, key, targets, base, quotas };
        self.subscriptions = Some(Subscriptions::open(Arc::clone(&self.streams), parts)?);
        Ok(self)
    }

    /// With producers whose epochs the server gives.
    #[must_use]
    pub fn with_tickets(mut self, sealer: Arc<Sealer>) -> Self {
        self.tickets = Some(Tickets::new(sealer));
        self
    }

    /// Ends the waiting of readers: the server is going down.
    pub fn close_readers(&self) {
        self.streams.close_readers();
    }

    /// Whether writes are taken.
    #[must_use]
    pub fn mode(&self) -> tokio::sync::watch::Receiver<super::Mode> {
        self.streams.mode()
    }

    /// Answers a request whose path starts with [`PREFIX`], by a caller.
    pub async fn handle<B>(
        &self,
        request: Request<B>,
        principal: &VerifiedPrincipal,
    ) -> Response<ReplyBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let owner = &principal.binding();
        let path = request.uri().path();
        if let Some(control) = path.strip_prefix(PREFIX).and_then(|path| path.strip_prefix(CONTROL))
        {
            let control = control.to_owned();
            return match &self.subscriptions {
                Some(subscriptions) => subscriptions.handle(request, &control, owner).await,
                None => answer::refused(&handback_stream::Refusal::NotFound),
            };
        }
        let name = match stream_name(owner, path) {
            Ok(name) => name,
            Err(bad) => return bad.into(),
        };
        if let Some(refused) = reserved(&name, request.method()) {
            return refused;
        }
        let answered = match *request.method() {
            Method::POST => self.append(name.id(), principal, request).await,
            Method::GET => self.read(name.id(), &request).await,
            Method::HEAD => self.head(name.id()).await,
            Method::PUT => self.create(name, principal, request).await,
            Method::DELETE => self.delete(name.id(), principal).await,
            _ => {
                let mut response = answer::status(StatusCode::METHOD_NOT_ALLOWED);
                response.headers_mut().insert(ALLOW, HeaderValue::from_static(METHODS));
                Ok(response)
            }
        };
        answered.unwrap_or_else(|response| *response)
    }

    async fn delete(&self, name: NameId, principal: &VerifiedPrincipal) -> Answered {
        self.command(principal, Command::Delete(name), 0).await?;
        Ok(answer::status(StatusCode::NO_CONTENT))
    }

    /// Has a command of a caller done.
    pub(super) async fn command(
        &self,
        principal: &VerifiedPrincipal,
        command: Command,
        payload: usize,
    ) -> Result<handback_stream::Reply, Box<Response<ReplyBody>>> {
        use handback_stream::Reply;
        let _waiting = match principal.is_unauthenticated() {
            // The queue itself bounds what all have together.
            true => None,
            false => {
                let charge = self.waiting.charge(principal, (payload + COMMAND_BYTES) as u64);
                Some(charge.map_err(|part| Box::new(answer::waits(part)))?)
            }
        };
        match self.streams.command(command, payload).await {
            Ok(Reply::Refused(refusal)) => Err(Box::new(answer::refused(&refusal))),
            Ok(reply) => Ok(reply),
            Err(why) => Err(Box::new(answer::not_taken(&why))),
        }
    }

    /// A stream that can be read.
    pub(super) async fn view(&self, name: NameId) -> Result<View, Box<Response<ReplyBody>>> {
        use handback_stream::Refusal;
        let refused = |refusal| Err(Box::new(answer::refused(&refusal)));
        let Some(mut view) = self.streams.view(name) else { return refused(Refusal::NotFound) };
        if !view.deleted && view.meta.is_over(self.streams.now()) {
            // Also while writes are not taken, what is over is over.
            let _ = self.streams.command(Command::Expire(name), 0).await;
            match self.streams.view(name) {
                Some(now) if now.deleted => view = now,
                _ => return refused(Refusal::NotFound),
            }
        }
        if view.deleted { refused(Refusal::Gone) } else { Ok(view) }
    }
}

/// An answer, or another one.
pub(super) type Answered = Result<Response<ReplyBody>, Box<Response<ReplyBody>>>;

/// Reads a body of at most [`MAX_PAYLOAD_BYTES`].
pub(super) async fn body<B>(body: B) -> Result<Bytes, Box<Response<ReplyBody>>>
where
    B: Body<Data = Bytes> + Send,
{
    body::read(body, MAX_PAYLOAD_BYTES).await.map_err(|why| match why {
        Unread::TooLarge => {
            let text = format!("the body has more than {MAX_PAYLOAD_BYTES} bytes");
            Box::new(answer::error(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", &text))
        }
        Unread::TooSlow => {
            let text = format!("the body took more than {} s", BODY_TIME.as_secs());
            Box::new(answer::error(StatusCode::REQUEST_TIMEOUT, "TIMEOUT", &text))
        }
        Unread::Cut => Bad("the body ended too early").into(),
    })
}

/// What is answered to who would change a stream of a duplex, which is driven by its connection. The
/// other end of a relay appends its events.
fn reserved(name: &StreamName, method: &Method) -> Option<Response<ReplyBody>> {
    let rest = name.path().strip_prefix(duplex::FIRST_SEGMENT)?;
    let changes = matches!(*method, Method::PUT | Method::POST | Method::DELETE);
    let is_relayed =
        *method == Method::POST && rest.starts_with("/relay/") && rest.ends_with("/out");
    if !changes || is_relayed || !duplex::is_path(name.path()) {
        return None;
    }
    let text = "the streams of a duplex are changed by its connection";
    Some(answer::error(StatusCode::FORBIDDEN, "RESERVED", text))
}

/// The name of the stream at the path of a request.
pub(super) fn stream_name(owner: &str, path: &str) -> Result<StreamName, Bad> {
    let bad = Bad("not the path of a stream");
    let path = decoded(path.strip_prefix(PREFIX).ok_or(bad)?)?;
    // Also when it is spelled in another way, this is no stream.
    if path.split('/').next() == Some(CONTROL.trim_end_matches('/')) {
        return Err(bad);
    }
    StreamName::new(owner, &path).map_err(|_| bad)
}

impl From<Bad> for Box<Response<ReplyBody>> {
    fn from(bad: Bad) -> Self {
        Self::new(bad.into())
    }
}

#[cfg(test)]
mod tests {
    use handback_identity::UnixPeers;
    use handback_store::MemoryStore;
    use http_body_util::Full;
    use hyper::header::CONTENT_TYPE;

    use super::super::Mode;
    use super::*;

    async fn ask(routes: &StreamRoutes, who: u32, method: Method, body: Vec<u8>) -> StatusCode {
        let principal = UnixPeers::new("test").unwrap().principal(who);
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = "/v1/stream/s".parse().unwrap();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        routes.handle(request, &principal).await.status()
    }

    #[tokio::test]
    async fn wound_a7_a_caller_at_its_share_of_the_queue_leaves_the_rest_to_others() {
        let (log, clock) = (Arc::new(MemoryStore::new()), Arc::new(|| 1_000));
        let streams = Streams::open(log, None, clock, Mode::Memory).unwrap();
        let settings = Settings { share: Share::one_in(8), ..Settings::default() };
        let routes = StreamRoutes::new(streams, settings);
        for who in [1, 2] {
            assert_eq!(ask(&routes, who, Method::PUT, Vec::new()).await, StatusCode::CREATED);
        }
        // As many bytes as a caller may have wait for a slow disk.
        let first = UnixPeers::new("test").unwrap().principal(1);
        let waiting = routes.waiting.charge(&first, (WAITING_BYTES_MAX / 8 - 1_000) as u64);
        let piece = || vec![b'x'; 1_000];
        let refused = ask(&routes, 1, Method::POST, piece()).await;
        assert_eq!(refused, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(ask(&routes, 2, Method::POST, piece()).await, StatusCode::NO_CONTENT);
        drop(waiting);
        assert_eq!(ask(&routes, 1, Method::POST, piece()).await, StatusCode::NO_CONTENT);
    }
}
