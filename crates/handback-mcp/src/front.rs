//! What stands before rmcp.
//!
//! In this order, for every request: the body is taken in within bounds; its era is found; of the old
//! era, the session has to be the caller's, and the id of an event has to have been given to the
//! caller in that session. Only then rmcp sees it. Of what rmcp answers, the ids of events are
//! sealed, and errors that tell of the inside are replaced.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use handback_identity::VerifiedPrincipal;
use handback_store::Kv;
use handback_store::revocations::Subject;
use handback_store::sessions::SessionOptions;
use handback_token::is_unambiguous;
use handback_token::{Operation, Outside, Reason, Sealer};
use handback_tool::gate::{Back, Gate, OUTLIVED};
use handback_tool::{Charge, Exhausted, Quota, Share, Surface};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use crate::Clock;
use crate::bounds::{self, BodyError, MAX_BODY_BYTES};
use crate::era::{self, Envelope, Era};
use crate::events::{EVENT_LIFE_MS, Events};
use crate::late;
use crate::seal::EventIds;
use crate::sessions::{Found, OwnedSessions};
use crate::sse::WithIds;

/// The header with the id of a session.
pub const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");

/// The header with the id of the last event that a client has.
pub const LAST_EVENT_HEADER: HeaderName = HeaderName::from_static("last-event-id");

/// What rmcp says of a session that it does not know. A session that is not the caller's, or not
/// there at all, gets the same.
const NO_SESSION: &str = "Not Found: Session not found";

/// Sessions in memory at once, if nothing is said: each has some tens of kilobytes.
const LIVE_MAX: u64 = 800;

/// The resource that is counted, as errors and the audit name it.
const RESOURCE: &str = "sessions";

/// Codes of JSON-RPC.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;

/// The answers of this surface.
pub type Reply = Response<BoxBody<Bytes, Infallible>>;

/// What the surface stands on.
#[derive(Clone)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Stores {
    /// Where sessions and their events are kept.
    pub kv: Arc<dyn Kv>,
    /// What seals the ids of events.
    pub sealer: Arc<Sealer>,
    /// What tells the time.
    pub clock: Clock,
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stores(..)")
    }
}

/// What can be chosen.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal with `..Default::default()`")]
pub struct FrontOptions {
    /// Names that lead here, with or without a port.
    pub hosts: Vec<String>,
    /// Origins whose pages may ask, with a port or `:*`. Without any, no page may.
    pub origins: Vec<String>,
    /// How long sessions live, and how many one caller may have.
    pub sessions: SessionOptions,
    /// Sessions that are in memory at once, of all callers and of each; beyond them, none begins.
    pub live: Quota,
    /// How long a connection may be silent.
    pub keep_alive: Duration,
    /// What was revoked, and where refusals of sessions and ids of events are written down. Without
    /// it nothing is revoked, and they are in the log.
    pub gate: Option<Gate>,
}

impl Default for FrontOptions {
    fn default() -> Self {
        let loopback = ["localhost", "127.0.0.1", "[::1]"];
        Self {
            hosts: loopback.map(str::to_owned).to_vec(),
            origins: loopback.map(|host| format!("http://{host}:*")).to_vec(),
            sessions: SessionOptions::default(),
            live: Quota::new(LIVE_MAX, Share::WHOLE),
            keep_alive: Duration::from_secs(15),
            gate: None,
        }
    }
}

/// MCP over HTTP, in both eras. Clones are the same server.
pub struct Front<H>(Arc<Inner<H>>);

struct Inner<H> {
    modern: StreamableHttpService<H, NeverSessionManager>,
    legacy: StreamableHttpService<H, LocalSessionManager>,
    /// The sessions that are in memory.
    live: Arc<LocalSessionManager>,
    sessions: OwnedSessions,
    events: Events,
    ids: EventIds,
    gate: Option<Gate>,
    /// The charges of those that are in memory, by session.
    charges: Mutex<HashMap<String, Charge>>,
    quota: Quota,
    keep_alive: Duration,
}

impl<H> Clone for Front<H> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<H> fmt::Debug for Front<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Front(..)")
    }
}

impl<H: ServerHandler> Front<H> {
    /// A server. `handler` is asked for a handler for every request of the new era and for every
    /// session of the old one: what they share, they share by reference.
    #[must_use]
    pub fn new(
        handler: impl Fn() -> H + Clone + Send + Sync + 'static,
        stores: Stores,
        options: FrontOptions,
    ) -> Self {
        let Stores { kv, sealer, clock } = stores;
        let sessions = OwnedSessions::new(Arc::clone(&kv), Arc::clone(&clock), options.sessions);
        let events = Events::new(kv, Arc::clone(&clock), EVENT_LIFE_MS);
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(options.hosts.clone())
            .with_allowed_origins(options.origins.clone())
            .enforce_origin_validation()
            .with_sse_keep_alive(Some(options.keep_alive))
            .with_max_request_body_bytes(MAX_BODY_BYTES);
        let modern = {
            let config = config.clone().with_legacy_session_mode(false);
            let handler = handler.clone();
            // No events are kept here: with them, hanging up would not cancel.
            StreamableHttpService::new(move || Ok(handler()), Arc::default(), config)
        };
        config.session_store = Some(Arc::new(sessions.clone()));
        let kept = Arc::new(events.clone());
        let live = Arc::new(LocalSessionManager::default().with_event_store(kept));
        let legacy = StreamableHttpService::new(move || Ok(handler()), Arc::clone(&live), config);
        let ids = EventIds::new(sealer, clock);
        let FrontOptions { live: quota, keep_alive, gate, .. } = options;
        Self(Arc::new(Inner {
            modern,
            legacy,
            live,
            sessions,
            events,
            ids,
            gate,
            charges: Mutex::default(),
            quota,
            keep_alive,
        }))
    }

    /// Answers a request of a caller. Handlers find the caller among the extensions of the request's
    /// `Parts`, which are among those of rmcp's context.
    pub async fn handle<B>(&self, request: Request<B>, caller: &VerifiedPrincipal) -> Reply
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(caller.clone());
        let (era, body) = match parts.method {
            Method::POST => match take(body).await {
                Ok(body) => (Envelope::read(&body).era(&parts.headers), body),
                Err(refused) => return *refused,
            },
            _ => (era::of_headers(&parts.headers), Bytes::new()),
        };
        let request = Request::from_parts(parts, Full::new(body));
        let reply = match era {
            Era::Modern => {
                let modern = self.0.modern.clone();
                let answer = async move { modern.handle(request).await };
                late::within(self.0.keep_alive, answer).await
            }
            Era::Legacy => match self.0.legacy(request, caller).await {
                Ok(reply) | Err(reply) => *reply,
            },
        };
        without_inside(reply)
    }
}

impl<H: ServerHandler> Inner<H> {
    /// A request of the old era, from its owner's check to the ids in its answer.
    async fn legacy(
        self: &Arc<Self>,
        mut request: Request<Full<Bytes>>,
        caller: &VerifiedPrincipal,
    ) -> Result<Box<Reply>, Box<Reply>> {
        let session = self.session(request.headers(), caller).await?;
        let last_event = request.headers_mut().remove(LAST_EVENT_HEADER);
        if let (&Method::GET, Some(session), Some(id)) = (request.method(), &session, last_event) {
            let id = self.opened(caller, session, &id).await?;
            request.headers_mut().insert(LAST_EVENT_HEADER, id);
        }
        let (answered, session) = match session {
            Some(session) => {
                self.charge_again(&session, caller).await?;
                let answered = self.legacy.handle(request);
                (OwnedSessions::on_behalf_of(caller, answered).await, Some(session))
            }
            None => {
                let (this, caller) = (Arc::clone(self), caller.clone());
                // Whoever hangs up: a session that has begun gets its owner, or ends.
                let begin = tokio::spawn(async move { this.begin(request, &caller).await });
                begin.await.unwrap_or_else(|_| Err(no_sessions()))?
            }
        };
        Ok(Box::new(self.with_sealed_ids(answered, caller.clone(), session)))
    }

    /// A request that names no session, and may begin one.
    async fn begin(
        &self,
        request: Request<Full<Bytes>>,
        caller: &VerifiedPrincipal,
    ) -> Result<(Reply, Option<String>), Box<Reply>> {
        let may_begin = request.method() == Method::POST;
        let charge = match may_begin {
            true => Some(self.charge(caller).await?),
            false => None,
        };
        let answered = OwnedSessions::on_behalf_of(caller, self.legacy.handle(request)).await;
        let session = self.begun(&answered, caller).await?;
        if let (Some(session), Some(charge)) = (&session, charge) {
            lock(&self.charges).insert(session.clone(), charge);
        }
        Ok((answered, session))
    }

    /// Counts one more session of a caller in memory.
    async fn charge(&self, caller: &VerifiedPrincipal) -> Result<Charge, Box<Reply>> {
        {
            let live = self.live.sessions.read().await;
            lock(&self.charges).retain(|id, _| live.contains_key(id.as_str()));
        }
        self.quota.charge(caller, 1).map_err(|part| {
            if let Some(gate) = &self.gate {
                gate.refused_by_quota(Surface::Mcp, RESOURCE, caller, part);
            }
            over_quota(part)
        })
    }

    /// Counts a session of an earlier process, which comes back into memory with this request.
    async fn charge_again(
        &self,
        session: &str,
        caller: &VerifiedPrincipal,
    ) -> Result<(), Box<Reply>> {
        let is_counted = lock(&self.charges).contains_key(session);
        if !is_counted {
            let charge = self.charge(caller).await?;
            lock(&self.charges).insert(session.to_owned(), charge);
        }
        Ok(())
    }

    /// The session that a request names, if it is the caller's.
    async fn session(
        &self,
        headers: &HeaderMap,
        caller: &VerifiedPrincipal,
    ) -> Result<Option<String>, Box<Reply>> {
        let mut ids = headers.get_all(SESSION_HEADER).iter();
        let (Some(id), None) = (ids.next(), ids.next()) else {
            return match headers.contains_key(SESSION_HEADER) {
                // rmcp would look at the first only.
                true => Err(no_session()),
                false => Ok(None),
            };
        };
        let id = id.to_str().map_err(|_| no_session())?;
        match self.sessions.find(id, caller).await {
            Ok(Found::Own { created }) => {
                let subject = Subject::of(caller).session(id).born(created);
                if let Some(gate) = &self.gate {
                    let checked = gate.check(&session_of(caller, id), &subject).await;
                    checked.map_err(|_| no_session())?;
                }
                Ok(Some(id.to_owned()))
            }
            Ok(Found::Nobodys) => Err(self.refused(&session_of(caller, id), "unknown", no_session)),
            Ok(Found::Anothers) => {
                Err(self.refused(&session_of(caller, id), "foreign", no_session))
            }
            Err(error) => {
                tracing::error!(%error, "sessions can not be read");
                Err(no_sessions())
            }
        }
    }

    /// Writes down why something was refused; gives what the caller is told.
    fn refused(
        &self,
        back: &Back<'_>,
        reason: &'static str,
        told: impl FnOnce() -> Box<Reply>,
    ) -> Box<Reply> {
        match &self.gate {
            Some(gate) => gate.refused(back, reason),
            None => tracing::info!(reason, continuation = back.continuation, "it was refused"),
        }
        told()
    }

    /// The session that an answer begins. rmcp goes on if it can not be stored, but then it would
    /// have no owner.
    async fn begun(
        &self,
        answered: &Reply,
        caller: &VerifiedPrincipal,
    ) -> Result<Option<String>, Box<Reply>> {
        let Some(id) = answered.headers().get(SESSION_HEADER) else { return Ok(None) };
        let id = id.to_str().unwrap_or_default();
        if self.sessions.is_owned(id, caller).await.is_ok_and(|owned| owned) {
            return Ok(Some(id.to_owned()));
        }
        let handle = self.live.sessions.write().await.remove(id);
        if let Some(handle) = handle {
            // It has ended, or it ends now.
            let _ = handle.close().await;
        }
        Err(no_sessions())
    }

    /// The id of an event as the store of events knows it.
    async fn opened(
        &self,
        caller: &VerifiedPrincipal,
        session: &str,
        id: &HeaderValue,
    ) -> Result<HeaderValue, Box<Reply>> {
        let invalid = || plain(StatusCode::BAD_REQUEST, "invalid event id");
        let expired = || plain(StatusCode::GONE, "expired event id");
        let text = id.to_str().unwrap_or_default();
        let back = event_of(caller, text);
        let opened = match self.ids.open(caller, session, text) {
            Ok(opened) => opened,
            Err(refused) => {
                let told = || match refused.outside() {
                    Outside::Expired => expired(),
                    Outside::Invalid => invalid(),
                };
                return Err(self.refused(&back, refused.reason().as_str(), told));
            }
        };
        if let Some(gate) = &self.gate {
            let checked = gate.check_cursor(&back, self.ids.sealer(), &opened, Some(session)).await;
            checked.map_err(|_| invalid())?;
        }
        let malformed = || self.refused(&back, Reason::Malformed.as_str(), invalid);
        let inner = String::from_utf8(opened.payload().to_vec()).map_err(|_| malformed())?;
        match self.events.is_kept(&inner).await {
            Ok(true) => HeaderValue::try_from(inner).map_err(|_| malformed()),
            // It opened, so it was there once.
            Ok(false) => Err(self.refused(&back, OUTLIVED, expired)),
            Err(error) => {
                tracing::error!(%error, "events can not be read");
                Err(plain(StatusCode::SERVICE_UNAVAILABLE, "events are not available"))
            }
        }
    }

    /// Without a session, no event has an id.
    fn with_sealed_ids(
        &self,
        reply: Reply,
        owner: VerifiedPrincipal,
        session: Option<String>,
    ) -> Reply {
        if !late::is_stream(&reply) {
            return reply;
        }
        let ids = self.ids.clone();
        let replace = move |id: &str| {
            // The id with which rmcp begins a session leads nowhere.
            let session = session.as_deref().filter(|_| id != "0")?;
            ids.seal(&owner, session, id)
        };
        reply.map(|body| WithIds::new(body, Box::new(replace)).boxed())
    }
}

/// A session that came back.
const fn session_of<'a>(principal: &'a VerifiedPrincipal, text: &'a str) -> Back<'a> {
    let (surface, operation) = (Surface::Mcp, Operation::Duplex);
    Back { surface, operation, name: "mcp", continuation: "session", principal, text }
}

/// The id of an event that came back.
const fn event_of<'a>(principal: &'a VerifiedPrincipal, text: &'a str) -> Back<'a> {
    let (surface, operation) = (Surface::Mcp, Operation::Duplex);
    Back { surface, operation, name: "mcp", continuation: "event", principal, text }
}

/// Takes in the body of a message.
async fn take<B: Body<Data = Bytes>>(body: B) -> Result<Bytes, Box<Reply>> {
    let body = tokio::time::timeout(bounds::BODY_TIME, bounds::collect(body)).await;
    let body = body.unwrap_or(Err(BodyError::TooSlow)).map_err(|error| {
        let status = match error {
            BodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
            BodyError::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::TooDeep | BodyError::Broken => StatusCode::BAD_REQUEST,
        };
        rpc_error(status, INVALID_REQUEST, &error.to_string())
    })?;
    match serde_json::from_slice::<serde::de::IgnoredAny>(&body) {
        Ok(_) if !is_unambiguous(&body) => {
            let message = "a member of the message is there twice";
            Err(rpc_error(StatusCode::BAD_REQUEST, INVALID_REQUEST, message))
        }
        Ok(_) => Ok(body),
        Err(_) => Err(rpc_error(StatusCode::BAD_REQUEST, PARSE_ERROR, "the body is not JSON")),
    }
}

/// rmcp tells the client what went wrong inside. The log has it, too.
fn without_inside(reply: Reply) -> Reply {
    if reply.status() != StatusCode::INTERNAL_SERVER_ERROR {
        return reply;
    }
    *plain(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
}

/// The refusal of a session to a caller at its share, or when all sessions are in use.
fn over_quota(part: Exhausted) -> Box<Reply> {
    let status = match part {
        Exhausted::Caller => StatusCode::TOO_MANY_REQUESTS,
        Exhausted::Total => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut reply = Response::new(Full::new(Bytes::from(part.sentence(RESOURCE))).boxed());
    *reply.status_mut() = status;
    Box::new(reply)
}

/// A panic elsewhere leaves the charges whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_sessions() -> Box<Reply> {
    plain(StatusCode::SERVICE_UNAVAILABLE, "sessions are not available")
}

fn no_session() -> Box<Reply> {
    plain(StatusCode::NOT_FOUND, NO_SESSION)
}

fn plain(status: StatusCode, text: &'static str) -> Box<Reply> {
    let mut reply = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *reply.status_mut() = status;
    Box::new(reply)
}

/// An error of a message whose id is not known.
fn rpc_error(status: StatusCode, code: i32, message: &str) -> Box<Reply> {
    let error = serde_json::json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": { "code": code, "message": message },
    });
    let mut reply = Response::new(Full::new(Bytes::from(error.to_string())).boxed());
    *reply.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    reply.headers_mut().insert(header::CONTENT_TYPE, json);
    Box::new(reply)
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_comes_byte_by_byte_is_given_up() {
        let bytes = stream::unfold((), |()| async {
            tokio::time::sleep(bounds::BODY_TIME / 4).await;
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from_static(b" "))), ()))
        });
        let refused = take(StreamBody::new(bytes)).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::REQUEST_TIMEOUT);
    }
}
