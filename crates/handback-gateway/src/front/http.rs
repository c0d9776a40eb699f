//! Clients over HTTP, of both eras.
//!
//! What is as it has to be is answered here, on the bytes that came. What is not goes to the front of
//! our own server, which has the words for every mistake; but what is said in a session of this front is
//! answered here, whatever it is: to our own, there is no such session, and a client that hears so gives
//! it up.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use handback_identity::Caller;
use handback_mcp::bounds::{self, BODY_TIME};
use handback_mcp::era::{self, Envelope, VERSION_HEADER};
use handback_mcp::front::SESSION_HEADER;
use handback_mcp::seal::EventIds;
use handback_mcp::server::McpServer;
use handback_mcp::wire::{Id, Message, Object};
use handback_mcp::{Era, Front};
use handback_token::is_unambiguous;
use handback_tool::{Again, Exhausted};
use handback_wire::header::decode;
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::sessions::{Known, Reader, Sessions, Stream};
use super::stdio::{PARSE_ERROR, answer_line, told_line};
use crate::cancellation::Cancellation;
use crate::gateway::Gateway;
use crate::mirror::PARAM_PREFIX;
use crate::retry::Delivery;
use crate::session::Session;
use crate::talk::{Question, Talk, ToClient, WAITING_MAX};
use crate::upstream::Answer;
use crate::words::{self, INVALID_PARAMS, INVALID_REQUEST, TWICE};

/// The revision of the newer era that is spoken here.
const REVISION: &str = "2026-07-28";

/// Revisions that have sessions.
const OLDER: [&str; 5] = ["2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// What is asked to hear of changes, for as long as the caller wants.
const LISTEN: &str = "subscriptions/listen";

const METHOD_HEADER: &str = "mcp-method";
const NAME_HEADER: &str = "mcp-name";

/// Headers with an idempotency key.
const KEY_HEADERS: [&str; 2] = ["idempotency-key", "x-idempotency-key"];

/// How long an answer is waited for before it begins as a stream of events: proxies do not cut it
/// then, and older clients can come back to it.
const AT_ONCE: Duration = Duration::from_millis(50);

/// How often something is said where nothing happens.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";

/// A gateway over HTTP. Clones are the same one.
#[derive(Clone)]
pub struct HttpFront(Arc<Inner>);

struct Inner {
    gateway: Gateway,
    own: Front<McpServer>,
    sessions: Arc<Sessions>,
}

impl fmt::Debug for HttpFront {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpFront").field(&self.0.gateway).finish()
    }
}

/// What a request is answered with.
pub type Answering = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What became of a request of the newer era.
enum Ended {
    Answered(String, Answer),
    /// It is not as it has to be.
    Strange,
}

impl HttpFront {
    /// A gateway over HTTP. `own` is the front of the server of our own tools.
    #[must_use]
    pub fn new(gateway: Gateway, own: Front<McpServer>, ids: EventIds) -> Self {
        let (gate, quota) = (gateway.pipeline().gate(), gateway.options().sessions.clone());
        let sessions = Sessions::new(ids, gate, quota);
        Self(Arc::new(Inner { gateway, own, sessions }))
    }

    /// Answers a request of a caller.
    pub async fn handle<B>(&self, request: Request<B>, caller: &Caller) -> Answering
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let session = session_of(request.headers()).map(str::to_owned);
        if let Err(status) = negotiated(request.method(), request.headers()) {
            // Our own front does not know the sessions of this one.
            if let (Some(id), Era::Legacy) = (&session, era::of_headers(request.headers())) {
                let known = self.0.sessions.find(id, caller).await;
                return known.map_or_else(no_session, |_| not_negotiated(status));
            }
            let reply = self.0.own.handle(request, caller.principal()).await;
            return reply.map(UnsyncBoxBody::new);
        }
        let (mut parts, body) = request.into_parts();
        let from = Who { caller, again: parts.extensions.remove::<Again>() };
        let body = match parts.method {
            Method::POST => {
                let body = tokio::time::timeout(BODY_TIME, bounds::collect(body)).await;
                match body {
                    Ok(Ok(body)) => body,
                    Ok(Err(bounds::BodyError::TooLong)) => {
                        return plain(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long");
                    }
                    Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the body is late"),
                    Ok(Err(error)) => return rpc_error(INVALID_REQUEST, &error.to_string()),
                }
            }
            _ => Bytes::new(),
        };
        if !is_unambiguous(&body) {
            return rpc_error(INVALID_REQUEST, TWICE);
        }
        let strange = async |parts, body: Bytes| {
            let request = Request::from_parts(parts, Full::new(body));
            let reply = self.0.own.handle(request, caller.principal()).await;
            reply.map(UnsyncBoxBody::new)
        };
        let is_modern = parts
            .headers
            .get(VERSION_HEADER)
            .is_some_and(|version| version.as_bytes() == REVISION.as_bytes());
        if parts.method == Method::POST
            && is_modern
            && let Some(reply) = self.modern(&parts.headers, body.clone(), &from).await
        {
            return reply;
        }
        let era = match parts.method {
            Method::POST => Envelope::read(&body).era(&parts.headers),
            _ => era::of_headers(&parts.headers),
        };
        // In a session, a revision that is not spoken in sessions is refused there.
        let is_legacy = era == Era::Legacy
            || (session.is_some() && !is_modern && !speaks_older(&parts.headers));
        if !is_legacy {
            return strange(parts, body).await;
        }
        match self.legacy(&parts.method, &parts.headers, &body, &from).await {
            Some(reply) => reply,
            None => strange(parts, body).await,
        }
    }

    /// A request of the newer era; nothing, if it is not as it has to be.
    async fn modern(&self, headers: &HeaderMap, body: Bytes, from: &Who<'_>) -> Option<Answering> {
        let (out, mut told) = mpsc::channel(WAITING_MAX);
        let (gateway, caller) = (self.0.gateway.clone(), from.caller.clone());
        let (sessions, again) = (Arc::clone(&self.0.sessions), from.again.clone());
        let headers = headers.clone();
        let mut work: BoxFuture<'static, Ended> = Box::pin(async move {
            let Some((message, params)) = as_it_has_to_be(&headers, &body) else {
                return Ended::Strange;
            };
            let Message::Request { id, method, .. } = &message else { return Ended::Strange };
            let Ok(key) = key_of(&headers) else { return Ended::Strange };
            let question = Question {
                id: id.as_json(),
                method,
                params: Some(params),
                message: &body,
                headers: param_headers(&headers),
                key,
            };
            let watch = (method == LISTEN).then(|| sessions.watch_alone(&caller, again));
            let delivery = Delivery::default();
            let (era, has_headers) = (Era::Modern, true);
            let talk = Talk { caller, era, out, session: None, delivery, has_headers };
            let asked = gateway.ask(&talk, question, CancellationToken::new());
            let answer = match watch {
                None => asked.await,
                Some(watch) => tokio::select! {
                    answer = asked => answer,
                    () = watch.over() => ended_credential(),
                },
            };
            // Of who has left, this is not polled any more.
            talk.delivery.done();
            Ended::Answered(id.as_json().to_owned(), answer)
        });
        let first = tokio::select! {
            biased;
            ended = &mut work => match ended {
                Ended::Strange => return None,
                Ended::Answered(id, answer) => match told.try_recv() {
                    Err(_) => return Some(whole(&id, &answer)),
                    // What was said before the answer comes before it, however fast it was.
                    Ok(said) => {
                        work = Box::pin(std::future::ready(Ended::Answered(id, answer)));
                        Some(said)
                    }
                },
            },
            Some(told) = told.recv() => Some(told),
            () = tokio::time::sleep(KEEP_ALIVE) => None,
        };
        let first = first.map(|told| event(None, &told_line(&told)));
        let silence = Box::pin(tokio::time::sleep(KEEP_ALIVE));
        let begun = Begun { first, work: Some(work), told, silence };
        Some(stream_reply(UnsyncBoxBody::new(begun)))
    }

    /// A request of the older era; nothing, if it is in no session and does not begin one as it has to.
    async fn legacy(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
        from: &Who<'_>,
    ) -> Option<Answering> {
        let caller = from.caller;
        let Some(id) = session_of(headers) else {
            return self.begin(method, headers, body, caller).await;
        };
        let sessions = &self.0.sessions;
        let Some(known) = sessions.find(id, caller).await else { return Some(no_session()) };
        if !speaks_older(headers) {
            let message = "the revision of the header is not spoken in sessions";
            return Some(rpc_error(INVALID_REQUEST, message));
        }
        Some(match *method {
            Method::DELETE => {
                sessions.end(id);
                accepted()
            }
            Method::GET => match headers.get("last-event-id") {
                None => {
                    let reading = known.standalone();
                    self.events(id, &known, from, reading)
                }
                Some(event) => {
                    let event = event.to_str().unwrap_or_default();
                    match sessions.open_event(&known, id, caller, event).await {
                        Ok(reading) => self.events(id, &known, from, reading),
                        Err(status) => plain(status, event_words(status)),
                    }
                }
            },
            _ => self.said(id, &known, (headers, body), from).await,
        })
    }

    /// A message in a session. What is wrong with it is told here: our own front, which has words for every
    /// mistake, does not know the session, and would say so.
    async fn said(
        &self,
        session: &str,
        known: &Known,
        (headers, body): (&HeaderMap, &Bytes),
        from: &Who<'_>,
    ) -> Answering {
        let message = match Message::read(body) {
            Ok(message) => message,
            Err(error) => {
                let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
                let code = if is_json { INVALID_REQUEST } else { PARSE_ERROR };
                return rpc_error(code, &error.to_string());
            }
        };
        match message {
            Message::Notification { method, params } => {
                let params = params.map(|params| body.slice_ref(params.get().as_bytes()));
                known.session.tell(&method, params).await;
            }
            Message::Result { id, result } => {
                let result = body.slice_ref(result.get().as_bytes());
                if let Some(id) = id.as_number() {
                    known.session.answer(id, Ok(result)).await;
                }
            }
            Message::Error { id, error } => {
                let error = body.slice_ref(error.get().as_bytes());
                if let Some(id) = id.and_then(|id| id.as_number()) {
                    known.session.answer(id, Err(error)).await;
                }
            }
            Message::Request { id, .. } => {
                let Ok(key) = key_of(headers) else {
                    let two = words::error(INVALID_PARAMS, "there are two idempotency keys", None);
                    let two = answer_line(Some(id), &Answer::Error(two));
                    return whole_bytes(StatusCode::BAD_REQUEST, two);
                };
                let cancellation = Cancellation::default();
                known.session.register(id.as_json(), cancellation.clone());
                let (id, message) = (id.into_owned(), body.clone());
                let asked = Asked { id, message, key, cancellation };
                return self.answered(session, known, from, asked).await;
            }
            _ => return rpc_error(INVALID_REQUEST, "the message is none of the protocol"),
        }
        accepted()
    }

    /// A request without a session, which may begin one.
    async fn begin(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
        caller: &Caller,
    ) -> Option<Answering> {
        let Ok(Message::Request { id, method: asked, params: Some(params) }) = Message::read(body)
        else {
            return None;
        };
        if *method != Method::POST || asked != "initialize" {
            return None;
        }
        let version = Object::read(params).ok()?.text("protocolVersion")?.into_owned();
        let said = headers.get(VERSION_HEADER);
        let is_said = said.is_none_or(|said| said.as_bytes() == version.as_bytes());
        let method = headers.get(METHOD_HEADER);
        if !is_said || method.is_some_and(|method| method != "initialize") {
            return None;
        }
        let sessions = &self.0.sessions;
        let room = match sessions.room(caller) {
            Ok(room) => room,
            Err(part) => return Some(over_quota(part)),
        };
        let (out, told) = mpsc::channel(WAITING_MAX);
        let begun = Session::begin(&self.0.gateway, caller.clone(), params, out).await;
        match begun {
            Err(answer) => Some(whole(id.as_json(), &answer)),
            Ok((session, answer)) => {
                let name = sessions.add(caller, room, session, told);
                let mut reply = whole(id.as_json(), &answer);
                if let Ok(name) = HeaderValue::try_from(name) {
                    reply.headers_mut().insert(SESSION_HEADER, name);
                }
                Some(reply)
            }
        }
    }

    /// The answer to a question of an older client: at once if it is there soon, else as events that
    /// the client can come back to. The work goes on if the client leaves.
    async fn answered(
        &self,
        name: &str,
        known: &Known,
        from: &Who<'_>,
        question: Asked,
    ) -> Answering {
        let reader = known.begin_stream();
        let stream = reader.stream();
        tokio::spawn(question.run(Arc::clone(&known.session), Arc::clone(stream)));
        tokio::select! {
            () = stream.has_begun() => {}
            () = tokio::time::sleep(AT_ONCE) => {}
        }
        match stream.only_answer() {
            Some(only) => whole_bytes(StatusCode::OK, only),
            None => self.events(name, known, from, (reader, 0)),
        }
    }

    /// The events of a stream, from one on.
    fn events(
        &self,
        session: &str,
        known: &Known,
        from: &Who<'_>,
        (reader, seen): (Reader, usize),
    ) -> Answering {
        let sessions = &self.0.sessions;
        let watch = sessions.watch(known, session, from.caller, from.again.clone());
        let ids = sessions.ids().clone();
        let (session, owner) = (session.to_owned(), from.caller.principal().clone());
        let seal =
            move |stream: u64, seen: usize| ids.seal(&owner, &session, &format!("{stream}.{seen}"));
        stream_reply(super::sessions::reading(reader, seen, KEEP_ALIVE, watch, seal))
    }
}

/// Whom a request is from.
struct Who<'a> {
    caller: &'a Caller,
    /// Asks again whether it would be let in.
    again: Option<Again>,
}

/// A question of an older client.
struct Asked {
    id: Id<'static>,
    message: Bytes,
    key: Option<String>,
    cancellation: Cancellation,
}

impl Asked {
    /// Asks; what is told on the way, and the answer, go into the stream.
    async fn run(self, session: Arc<Session>, stream: Arc<Stream>) {
        let Self { id, message, key, cancellation } = self;
        let Ok(Message::Request { method, params, .. }) = Message::read(&message) else { return };
        let question = Question {
            id: id.as_json(),
            method: &method,
            params,
            message: &message,
            headers: Vec::new(),
            key,
        };
        let (out, mut told) = mpsc::channel(WAITING_MAX);
        let delivery = Delivery::default();
        let asked = session.ask(question, out, delivery.clone(), cancellation.clone());
        let mut asked = std::pin::pin!(asked);
        // A request that was cancelled gets nothing more.
        let pass_on = async |told: ToClient| match cancellation.is_cancelled() {
            false => stream.push(told_line(&told)),
            true => session.refuse(&told).await,
        };
        let answer = loop {
            tokio::select! {
                biased;
                Some(told) = told.recv() => pass_on(told).await,
                answer = &mut asked => break answer,
            }
        };
        while let Ok(told) = told.try_recv() {
            pass_on(told).await;
        }
        match cancellation.is_cancelled() {
            false => stream.end(answer_line(Some(id.clone()), &answer), delivery),
            true => stream.close(),
        }
    }
}

/// The session that a request names, if it does. One that names two names none that there is.
fn session_of(headers: &HeaderMap) -> Option<&str> {
    let mut ids = headers.get_all(SESSION_HEADER).iter();
    match (ids.next(), ids.next()) {
        (None, _) => None,
        (Some(id), None) => Some(id.to_str().unwrap_or_default()),
        (Some(_), Some(_)) => Some(""),
    }
}

/// Whether the revision that a request in a session names, if it names one, has sessions.
fn speaks_older(headers: &HeaderMap) -> bool {
    let is_older = |said: &HeaderValue| OLDER.iter().any(|version| said == version);
    headers.get_all(VERSION_HEADER).iter().all(is_older)
}

/// Whether a request says what it sends and takes, as the protocol has it; if not, the status of that.
fn negotiated(method: &Method, headers: &HeaderMap) -> Result<(), StatusCode> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let takes = |kind: &str| text(header::ACCEPT).is_some_and(|accept| accept.contains(kind));
    let is_taken = match *method {
        Method::POST => takes(JSON) && takes(EVENT_STREAM),
        Method::GET => takes(EVENT_STREAM),
        Method::DELETE => true,
        _ => return Err(StatusCode::METHOD_NOT_ALLOWED),
    };
    if !is_taken {
        return Err(StatusCode::NOT_ACCEPTABLE);
    }
    let is_json = || text(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with(JSON));
    if *method == Method::POST && !is_json() {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    Ok(())
}

/// A message of the newer era whose headers say the same as it does, and its parameters.
fn as_it_has_to_be<'a>(
    headers: &HeaderMap,
    body: &'a Bytes,
) -> Option<(Message<'a>, &'a RawValue)> {
    let message = Message::read(body).ok()?;
    let Message::Request { method, params: Some(params), .. } = &message else { return None };
    let params = *params;
    if only(headers, METHOD_HEADER)? != method || method == "initialize" {
        return None;
    }
    let object = Object::read(params).ok()?;
    let meta: &RawValue = serde_json::from_str(object.get("_meta")?).ok()?;
    let meta = Object::read(meta).ok()?;
    let version = meta.text("io.modelcontextprotocol/protocolVersion")?;
    let capabilities = meta.get("io.modelcontextprotocol/clientCapabilities")?;
    if version != REVISION || !capabilities.starts_with('{') {
        return None;
    }
    let member = match method.as_ref() {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    };
    if let Some(name) = member.and_then(|member| object.text(member))
        && decode(only(headers, NAME_HEADER)?)? != name
    {
        return None;
    }
    Some((message, params))
}

/// The value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// The idempotency key of the headers. It may be there twice, but not differently.
fn key_of(headers: &HeaderMap) -> Result<Option<String>, ()> {
    let mut key: Option<&str> = None;
    for name in KEY_HEADERS {
        for value in headers.get_all(name) {
            let value = value.to_str().map_err(|_| ())?;
            if key.is_some_and(|key| key != value) {
                return Err(());
            }
            key = Some(value);
        }
    }
    Ok(key.map(str::to_owned))
}

fn param_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let params = headers.iter().filter(|(name, _)| name.as_str().starts_with(PARAM_PREFIX));
    let value = |(name, value): (&HeaderName, &HeaderValue)| {
        // The line writes them as the protocol has it.
        Some((name.to_string(), decode(value.to_str().ok()?)?.into_owned()))
    };
    params.filter_map(value).collect()
}

/// An answer of the newer era that has begun as a stream of events.
struct Begun {
    first: Option<Bytes>,
    work: Option<BoxFuture<'static, Ended>>,
    told: mpsc::Receiver<ToClient>,
    silence: Pin<Box<Sleep>>,
}

impl Body for Begun {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |bytes| Poll::Ready(Some(Ok(Frame::data(bytes))));
        if let Some(first) = self.first.take() {
            return frame(first);
        }
        if let Poll::Ready(Some(told)) = self.told.poll_recv(context) {
            self.silence.as_mut().reset(Instant::now() + KEEP_ALIVE);
            return frame(event(None, &told_line(&told)));
        }
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        if let Poll::Ready(ended) = work.as_mut().poll(context) {
            self.work = None;
            let Ended::Answered(id, answer) = ended else { return Poll::Ready(None) };
            let mut last = Vec::new();
            while let Ok(told) = self.told.try_recv() {
                last.extend_from_slice(&event(None, &told_line(&told)));
            }
            last.extend_from_slice(&event(None, &answer_bytes(&id, &answer)));
            return frame(last.into());
        }
        if self.silence.as_mut().poll(context).is_ready() {
            self.silence.as_mut().reset(Instant::now() + KEEP_ALIVE);
            // Asked again, so that the next end of the silence is heard.
            let _ = self.silence.as_mut().poll(context);
            return frame(COMMENT);
        }
        Poll::Pending
    }
}

/// How a subscription ends whose caller may not listen any more.
fn ended_credential() -> Answer {
    let message = "the credential has ended: come again with another one";
    words::refused(INVALID_REQUEST, message, Some(json!({"reason": "unauthorized"})))
}

/// Something that is not for the client, but for those between.
pub(super) const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// One event.
pub(super) fn event(id: Option<&str>, message: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(message.len() + 64);
    if let Some(id) = id {
        event.extend_from_slice(b"id: ");
        event.extend_from_slice(id.as_bytes());
        event.push(b'\n');
    }
    event.extend_from_slice(b"data: ");
    event.extend_from_slice(message);
    event.extend_from_slice(b"\n\n");
    event.into()
}

fn answer_bytes(id: &str, answer: &Answer) -> Bytes {
    let id = Id::of_json(id);
    answer_line(id, answer)
}

/// A whole answer of the newer era, with the status that its error has.
fn whole(id: &str, answer: &Answer) -> Answering {
    let status = match answer {
        Answer::Result(_) => StatusCode::OK,
        Answer::Error(error) => {
            let error: Value = serde_json::from_slice(error).unwrap_or_default();
            match error.get("code").and_then(Value::as_i64) {
                // Headers, capabilities or versions that do not fit.
                Some(-32022..=-32020) => StatusCode::BAD_REQUEST,
                Some(-32601) => StatusCode::NOT_FOUND,
                _ => StatusCode::OK,
            }
        }
    };
    whole_bytes(status, answer_bytes(id, answer))
}

fn whole_bytes(status: StatusCode, json: Bytes) -> Answering {
    let mut reply = Response::new(UnsyncBoxBody::new(Full::new(json)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    reply
}

fn stream_reply(body: UnsyncBoxBody<Bytes, Infallible>) -> Answering {
    let mut reply = Response::new(body);
    for (name, value) in [(header::CONTENT_TYPE, EVENT_STREAM), (header::CACHE_CONTROL, "no-cache")]
    {
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    reply
}

fn plain(status: StatusCode, text: &'static str) -> Answering {
    let mut reply =
        Response::new(UnsyncBoxBody::new(Full::new(Bytes::from_static(text.as_bytes()))));
    *reply.status_mut() = status;
    reply
}

/// The refusal of a session to a caller at its share, or when all sessions are in use.
fn over_quota(part: Exhausted) -> Answering {
    let status = match part {
        Exhausted::Caller => StatusCode::TOO_MANY_REQUESTS,
        Exhausted::Total => StatusCode::SERVICE_UNAVAILABLE,
    };
    let text = Bytes::from(part.sentence(super::sessions::RESOURCE));
    let mut reply = Response::new(UnsyncBoxBody::new(Full::new(text)));
    *reply.status_mut() = status;
    reply
}

fn accepted() -> Answering {
    plain(StatusCode::ACCEPTED, "")
}

/// What a session that is not there is answered with, to the byte what our own front says.
fn no_session() -> Answering {
    plain(StatusCode::NOT_FOUND, "Not Found: Session not found")
}

fn event_words(status: StatusCode) -> &'static str {
    if status == StatusCode::GONE { "expired event id" } else { "invalid event id" }
}

/// What a request in a session gets that does not say what it sends and takes.
fn not_negotiated(status: StatusCode) -> Answering {
    let mut reply = match status {
        StatusCode::NOT_ACCEPTABLE => plain(status, "this is answered with JSON or with events"),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => plain(status, "a message is JSON"),
        _ => plain(status, "this is not asked for so"),
    };
    if status == StatusCode::METHOD_NOT_ALLOWED {
        let allowed = HeaderValue::from_static("GET, POST, DELETE");
        reply.headers_mut().insert(header::ALLOW, allowed);
    }
    reply
}

/// An error of a message whose id is not known.
fn rpc_error(code: i32, message: &str) -> Answering {
    let error = words::error(code, message, None);
    whole_bytes(StatusCode::BAD_REQUEST, answer_line(None, &Answer::Error(error)))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_says_something_whenever_nothing_happens_for_a_while() {
        let (out, told) = mpsc::channel(WAITING_MAX);
        let second = Duration::from_secs(1);
        let work: BoxFuture<'static, Ended> = Box::pin(async move {
            let progress = || ToClient::Notification { method: "p".to_owned(), params: None };
            tokio::time::sleep(2 * KEEP_ALIVE + 5 * second).await;
            out.send(progress()).await.unwrap();
            tokio::time::sleep(KEEP_ALIVE + second).await;
            Ended::Answered("1".to_owned(), words::result(&json!({})))
        });
        let silence = Box::pin(tokio::time::sleep(KEEP_ALIVE));
        let mut begun = Begun { first: None, work: Some(work), told, silence };
        let since = Instant::now();
        let mut heard = Vec::new();
        while let Some(frame) = begun.frame().await {
            let frame = frame.unwrap().into_data().unwrap();
            heard.push((since.elapsed().as_secs(), String::from_utf8(frame.to_vec()).unwrap()));
        }
        let event = |json: &str| format!("data: {json}\n\n");
        let comment = || ":\n\n".to_owned();
        let expected = [
            (15, comment()),
            (30, comment()),
            (35, event(r#"{"jsonrpc":"2.0","method":"p"}"#)),
            (50, comment()),
            (51, event(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)),
        ];
        assert_eq!(heard, expected);
    }
}
