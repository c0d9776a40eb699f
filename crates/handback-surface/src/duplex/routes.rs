//! From a request to a connection.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use handback_identity::{Caller, VerifiedPrincipal};
use handback_stream::duplex::{
    Code, DuplexHandler, Echo, FRAME_BYTES_MAX, Format, Hello, KeyText, is_idempotency_key,
};
use handback_token::Sealer;
use handback_tool::{Again, Charge, Exhausted, Gate, InputBudget, Pipeline, Quota, Share};
use hyper::header::{
    ALLOW, CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::connection::Connection;
use super::counted::{CountedIo, SocketInput};
use super::open::{Asked, Refused};
use super::quota::Replays;
use super::runner::Runners;
use super::tool;
use crate::body::ReplyBody;
use crate::streams::answer::WAITING_BYTES;
use crate::streams::{Streams, answer};

/// Where duplexes are.
pub const PATH: &str = "/v1/duplex";

/// Connections at a time: each has some tens of kilobytes of buffers.
pub const CONNECTIONS_MAX: u32 = 4096;

/// Bytes that are read at a time.
const READ_BYTES: usize = 16 << 10;

/// Bytes that wait to be written before a message is sent at once.
const WRITE_BYTES: usize = 16 << 10;

const KEY: HeaderName = HeaderName::from_static("x-idempotency-key");
const EVENT_ID: HeaderName = HeaderName::from_static("x-idempotency-event-id");
const STREAM_KEY: HeaderName = HeaderName::from_static("x-idempotent-encryption-key");

/// What makes a handler for each duplex.
pub type HandlerFactory = Arc<dyn Fn() -> Box<dyn DuplexHandler> + Send + Sync>;

/// What operators choose about duplexes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DuplexSettings {
    /// How long a resume token is good, which must be what the sealer makes.
    pub resume_ttl: Duration,
    /// How long nothing may be heard of a client before it is taken to be gone.
    pub silence: Duration,
    /// What was revoked, and where refusals of resume tokens are written down. Without it nothing is
    /// revoked, and they are in the log.
    pub gate: Option<Gate>,
    /// Counts the bytes of frames that have not arrived whole.
    pub input: InputBudget,
    /// Connections at a time, of all callers and of each.
    pub connections: Quota,
    /// Bytes of chunks that wait to be written, with those of other appends.
    pub waiting: Quota,
    handlers: Handlers,
    tools: Option<Arc<Pipeline>>,
}

/// By name; a relay has none: its other end is another client.
#[derive(Clone)]
struct Handlers(HashMap<String, Option<HandlerFactory>>);

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl DuplexSettings {
    /// Adds a handler, or puts another one in the place of `echo` or `relay`. Clients choose one by
    /// its name: letters, digits, and `-._~`.
    #[must_use]
    pub fn handler(
        mut self,
        name: impl Into<String>,
        make: impl Fn() -> Box<dyn DuplexHandler> + Send + Sync + 'static,
    ) -> Self {
        self.handlers.0.insert(name.into(), Some(Arc::new(make)));
        self
    }

    /// Has the tools of this pipeline that take chunks as handlers, where no other has the name; and its
    /// gate.
    #[must_use]
    pub fn tools(mut self, pipeline: Arc<Pipeline>) -> Self {
        self.gate = Some(pipeline.gate());
        self.tools = Some(pipeline);
        self
    }
}

impl DuplexSettings {
    /// Counts bytes of chunks of a caller until they are written. The queue itself bounds what
    /// unauthenticated callers have together.
    pub(super) fn charge_waiting(
        &self,
        principal: &VerifiedPrincipal,
        bytes: usize,
    ) -> Result<Option<Charge>, Refused> {
        if principal.is_unauthenticated() {
            return Ok(None);
        }
        let charge = self.waiting.charge(principal, bytes as u64);
        charge.map(Some).map_err(|part| Refused::busy(WAITING_BYTES, part))
    }
}

impl Default for DuplexSettings {
    fn default() -> Self {
        let echo: HandlerFactory = Arc::new(|| Box::new(Echo::default()));
        let handlers = [("echo".to_owned(), Some(echo)), ("relay".to_owned(), None)];
        Self {
            resume_ttl: Duration::from_secs(15 * 60),
            silence: Duration::from_secs(60),
            gate: None,
            input: InputBudget::default(),
            connections: Quota::new(CONNECTIONS_MAX.into(), Share::WHOLE),
            waiting: Quota::new(u64::MAX, Share::WHOLE),
            handlers: Handlers(handlers.into()),
            tools: None,
        }
    }
}

/// The route of duplexes.
#[derive(Clone, Debug)]
pub struct DuplexRoutes {
    pub(super) shared: Arc<Shared>,
}

/// What all connections need.
pub(super) struct Shared {
    pub(super) streams: Arc<Streams>,
    pub(super) sealer: Arc<Sealer>,
    pub(super) settings: DuplexSettings,
    pub(super) replays: Replays,
    pub(super) runners: Runners,
    /// Tells when no connection is open any more.
    open: Arc<Semaphore>,
    /// Connections that it counts.
    places: u32,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Shared {
    /// What a name stands for: nothing, a relay, or what makes handlers.
    pub(super) fn handler(&self, name: &str) -> Option<&Option<HandlerFactory>> {
        self.settings.handlers.0.get(name)
    }

    /// What calls tools.
    pub(super) const fn tools(&self) -> Option<&Arc<Pipeline>> {
        self.settings.tools.as_ref()
    }

    /// Whether there is a tool of this name that the caller may use. One that it may not use is not
    /// there.
    fn admit(&self, caller: &Caller, name: &str) -> Result<(), Refused> {
        let request = tool::request(caller, name, Value::Null);
        let admitted = self.tools().map(|tools| tools.admit(&request));
        match admitted {
            Some(Ok(())) => Ok(()),
            _ => Err(Refused::new(Code::UnknownHandler, "there is no such handler")),
        }
    }
}

impl DuplexRoutes {
    /// The route, with the handlers of the settings: `echo`, `relay`, and what was added. Inside a
    /// runtime only: what was left unconsumed by the process before is consumed now.
    #[must_use]
    pub fn new(streams: Arc<Streams>, sealer: Arc<Sealer>, settings: DuplexSettings) -> Self {
        let places = u32::try_from(settings.connections.total()).unwrap_or(CONNECTIONS_MAX);
        let shared = Arc::new(Shared {
            streams,
            sealer,
            settings,
            replays: Replays::default(),
            runners: Runners::default(),
            open: Arc::new(Semaphore::new(places as usize)),
            places,
        });
        shared.runners.start_left(&shared);
        Self { shared }
    }

    /// Waits until the connections that are open have ended.
    pub async fn drained(&self) {
        // What it borrows may not live on; and nobody closes the semaphore.
        let _ = self.shared.open.acquire_many(self.shared.places).await.is_ok();
    }

    /// Answers a request for [`PATH`].
    pub fn handle<B>(&self, request: Request<B>, caller: &Caller) -> Response<ReplyBody> {
        if request.method() != Method::GET {
            let mut response = answer::status(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            return response;
        }
        match self.upgrade(request, caller) {
            Ok(response) => response,
            Err(refused) => refused_response(&refused),
        }
    }

    /// Counts one more connection of a caller.
    fn count(&self, caller: &Caller) -> Result<(Charge, OwnedSemaphorePermit), Refused> {
        let (settings, principal) = (&self.shared.settings, caller.principal());
        let counted = settings.connections.charge(principal, 1).and_then(|charge| {
            let open = Arc::clone(&self.shared.open).try_acquire_owned();
            open.map(|open| (charge, open)).map_err(|_| Exhausted::Total)
        });
        counted.map_err(|part| {
            let refused = Refused::busy("WebSocket connections", part);
            refused.note_quota(settings.gate.as_ref(), principal);
            refused
        })
    }

    fn upgrade<B>(
        &self,
        mut request: Request<B>,
        caller: &Caller,
    ) -> Result<Response<ReplyBody>, Refused> {
        let accept = accept(request.headers())?;
        let format = format(request.headers())?;
        let handler = handler(request.uri().query().unwrap_or_default())?;
        if self.shared.handler(&handler).is_none() {
            self.shared.admit(caller, &handler)?;
        }
        let hello = said_by_headers(request.headers())?;
        let counted = self.count(caller)?;
        let upgrade = hyper::upgrade::on(&mut request);
        let shared = Arc::clone(&self.shared);
        let caller = caller.clone();
        let again = request.extensions_mut().remove::<Again>();
        tokio::spawn(async move {
            if let Ok(upgraded) = upgrade.await {
                let input = SocketInput::new(shared.settings.input.input(caller.principal()));
                let io = CountedIo::new(TokioIo::new(upgraded), input.clone());
                let socket =
                    WebSocketStream::from_raw_socket(io, Role::Server, Some(socket_config())).await;
                let asked = Asked { caller, again, handler, hello, is_flow_controlled: false };
                Connection::run(shared, (socket, input), format, asked).await;
            }
            drop(counted);
        });
        let mut response = answer::status(StatusCode::SWITCHING_PROTOCOLS);
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        if let Some(offered) = format.offered {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(offered.subprotocol()));
        }
        Ok(response)
    }
}

fn socket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(WRITE_BYTES)
        .max_write_buffer_size(2 * FRAME_BYTES_MAX)
        .max_message_size(Some(FRAME_BYTES_MAX))
        .max_frame_size(Some(FRAME_BYTES_MAX))
}

/// The answer to the challenge of a request that asks for a WebSocket.
fn accept(headers: &HeaderMap) -> Result<HeaderValue, Refused> {
    let not = || Refused::new(Code::Malformed, "a WebSocket is to be asked for (RFC 6455)");
    let has = |name: &HeaderName, wanted: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let mut items = values.flat_map(|value| value.split(','));
        items.any(|item| item.trim().eq_ignore_ascii_case(wanted))
    };
    let version = headers.get(SEC_WEBSOCKET_VERSION).map(HeaderValue::as_bytes);
    if !has(&UPGRADE, "websocket") || !has(&CONNECTION, "upgrade") || version != Some(b"13") {
        return Err(not());
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or_else(not)?;
    HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(|_| not())
}

/// How frames are written, and whether that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) format: Format,
    offered: Option<Format>,
}

fn format(headers: &HeaderMap) -> Result<Written, Refused> {
    let mut is_any = false;
    for value in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
        for name in value.to_str().unwrap_or_default().split(',') {
            is_any = true;
            if let Some(format) = Format::of_subprotocol(name.trim()) {
                return Ok(Written { format, offered: Some(format) });
            }
        }
    }
    match is_any {
        true => Err(Refused::new(Code::Malformed, "none of the subprotocols is known")),
        false => Ok(Written { format: Format::Json, offered: None }),
    }
}

fn handler(query: &str) -> Result<String, Refused> {
    let mut found = None;
    for pair in query.split('&') {
        if let Some(name) = pair.strip_prefix("handler=")
            && found.replace(name).is_some()
        {
            return Err(Refused::new(Code::Malformed, "there are two handlers"));
        }
    }
    Ok(found.unwrap_or("relay").to_owned())
}

/// What the headers say, if they say which duplex it is.
fn said_by_headers(headers: &HeaderMap) -> Result<Option<Hello>, Refused> {
    let text = |name: &HeaderName| -> Result<Option<String>, Refused> {
        let mut values = headers.get_all(name).iter();
        let Some(value) = values.next() else { return Ok(None) };
        match (value.to_str(), values.next()) {
            (Ok(value), None) => Ok(Some(value.to_owned())),
            _ => Err(Refused::new(Code::Malformed, "a header is there twice, or is not text")),
        }
    };
    let (event_id, key) = (text(&EVENT_ID)?, text(&STREAM_KEY)?);
    match text(&KEY)? {
        None if event_id.is_some() || key.is_some() => {
            Err(Refused::new(Code::Malformed, "x-idempotency-key is missing"))
        }
        None => Ok(None),
        Some(idempotency_key) if is_idempotency_key(&idempotency_key) => Ok(Some(Hello {
            idempotency_key,
            event_id,
            encryption_key: key.map(KeyText),
            ..Hello::default()
        })),
        Some(_) => Err(Refused::invalid("not an idempotency key")),
    }
}

fn refused_response(refused: &Refused) -> Response<ReplyBody> {
    let status = StatusCode::from_u16(refused.code.http_status());
    let status = status.unwrap_or(StatusCode::BAD_REQUEST);
    answer::error(status, refused.code.name(), &refused.message)
}

#[cfg(test)]
mod tests {
    use handback_identity::UnixPeers;

    use super::*;

    #[test]
    fn wound_a7_chunks_that_wait_count_for_their_caller() {
        let waiting = Quota::new(64, Share::one_in(2));
        let settings = DuplexSettings { waiting, ..DuplexSettings::default() };
        let peers = UnixPeers::new("test").unwrap();
        let (ada, bob) = (peers.principal(1), peers.principal(2));
        let first = settings.charge_waiting(&ada, 32).unwrap();
        let refused = settings.charge_waiting(&ada, 1).unwrap_err();
        assert_eq!(
            (refused.code, refused.over),
            (Code::Busy, Some((WAITING_BYTES, Exhausted::Caller)))
        );
        assert!(settings.charge_waiting(&bob, 32).is_ok());
        drop(first);
        assert!(settings.charge_waiting(&ada, 32).is_ok());
        let nobody = VerifiedPrincipal::unauthenticated();
        assert!(settings.charge_waiting(&nobody, 65).unwrap().is_none());
    }
}
