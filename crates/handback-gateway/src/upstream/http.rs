//! A line over Streamable HTTP.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use handback_mcp::Era;
use handback_mcp::wire::Object;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
};
use hyper::http::response::Parts;
use hyper::{Method, Request, StatusCode, Uri};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::ears::{Ears, is_call, take_token};
use super::events::{self, Events};
use super::faults::Fault;
use super::headers::{self, Kind};
use super::legible;
use super::pending::Route;
use super::room::Room;
use super::said::{Said, To, Unsaid};
use super::spool::{Limits, Whole};
use super::{Answer, Ask, Ending, LineError, Raw, Spec, Spontaneous, frame, shown_url, standing};

/// Questions under way on one line at most: each may have a connection.
const ASKED_MAX: usize = 4096;

/// Things that are said in the background at once at most: cancelling, answering pings.
const ASIDES_MAX: usize = 256;

/// How long saying such a thing may take.
const ASIDE_TIME: Duration = Duration::from_secs(10);

/// How long a server may take to say that it does not know a session, of which it has just refused a
/// question.
const PING_TIME: Duration = Duration::from_secs(10);

/// Bytes of the body of a refusal that are read: an error of JSON-RPC.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// The code of the error that says that headers and message do not fit.
const HEADER_MISMATCH: i64 = -32020;

/// How often resuming a broken stream may fail in a row.
const RESUMES_MAX: u32 = 5;

/// How long to wait before a stream is resumed, if the upstream does not say, and at most.
pub(super) const RETRY: Duration = Duration::from_secs(1);
pub(super) const RETRY_MIN: Duration = Duration::from_millis(100);
pub(super) const RETRY_MAX: Duration = Duration::from_secs(60);

/// A line over HTTP. With it, its session ends.
#[derive(Debug)]
pub(super) struct Http {
    shared: Arc<Shared>,
}

/// What the line and what it does in the background share.
pub(super) struct Shared {
    client: Client,
    uri: Uri,
    /// The headers of every message before the handshake, and without one.
    first_headers: HeaderMap,
    /// What the handshake brought.
    session: OnceLock<Session>,
    pub(super) ears: Ears,
    pub(super) limits: Arc<Limits>,
    asked: AtomicUsize,
    asides: Arc<Semaphore>,
    /// Whether there is a stream for what the upstream says by itself.
    pub(super) standing: watch::Sender<bool>,
    runtime: Handle,
    ending: Ending,
    pub(super) closing: CancellationToken,
    pub(super) closed: CancellationToken,
    /// The upstream does not know the session any more.
    is_gone: AtomicBool,
}

/// The address may have a key in it.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uri = shown_url(&self.uri.to_string());
        let Self { session, ears, .. } = self;
        f.debug_struct("Shared")
            .field("uri", &uri)
            .field("session", session)
            .field("ears", ears)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Session {
    /// The headers of every message.
    headers: HeaderMap,
    /// Some upstreams of the older era have none.
    has_id: bool,
}

impl Http {
    /// A line to an address. Nothing is asked yet.
    pub(super) fn new(
        spec: &Spec,
        (url, configured): (&str, &[(String, String)]),
        era: Era,
        spontaneous: mpsc::Sender<Spontaneous>,
        ending: &Ending,
    ) -> Result<Self, LineError> {
        let uri: Uri =
            url.parse().map_err(|_| LineError::Unreachable("its address is none".to_owned()))?;
        let shared = Shared {
            client: Client::new(&uri)?,
            first_headers: first_headers(&uri, configured, era)?,
            uri,
            session: OnceLock::new(),
            ears: Ears::new(&spec.name, era, spontaneous)
                .shared(spec.is_shared)
                .from(spec.origin()),
            limits: Limits::of(spec, ending.aside()),
            asked: AtomicUsize::new(0),
            asides: Arc::new(Semaphore::new(ASIDES_MAX)),
            standing: watch::Sender::new(false),
            runtime: Handle::current(),
            ending: ending.clone(),
            closing: ending.of_line(),
            closed: CancellationToken::new(),
            is_gone: AtomicBool::new(false),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The handshake of the older era. Returns what the upstream says of itself.
    pub(super) async fn begin(
        &self,
        initialize: &Bytes,
        limit: Duration,
    ) -> Result<Bytes, LineError> {
        let shared = &self.shared;
        let begun = async {
            let number = shared.ears.pending.number();
            let message = frame::request(number, "initialize", Some(initialize));
            let (parts, body) = shared.post(shared.headers().clone(), message).await?;
            if matches!(parts.status.as_u16(), 400 | 404 | 405) {
                return Err(LineError::Era);
            }
            let id = parts.headers.get(headers::SESSION).cloned();
            let asked = Asked { number, route: Route::default(), is_discovery: false };
            let hello = match shared.answer(parts, body, &asked).await? {
                Answer::Result(Raw::Memory(hello)) => hello,
                Answer::Result(Raw::File { .. }) => return Err(LineError::TooLarge),
                Answer::Error(error) => return Err(LineError::not_begun(&error)),
            };
            let has_id = id.is_some();
            let headers = session_headers(&shared.first_headers, id, &hello);
            let _ = shared.session.set(Session { headers, has_id });
            let told = shared.tell(None, frame::notification("notifications/initialized", None));
            let told = told.await;
            if has_id {
                // Even if that failed: it also ends the session.
                let (kept, lasting) = (Arc::clone(shared), shared.ending.lasting());
                tokio::spawn(async move {
                    standing::keep(kept).await;
                    drop(lasting);
                });
            }
            told.map(|()| hello)
        };
        timeout(limit, begun).await.unwrap_or(Err(LineError::TimedOut)).map_err(|why| match why {
            // Nothing has been asked that does anything.
            LineError::Lost => LineError::Unreachable("it did not say hello".to_owned()),
            other => other,
        })
    }

    pub(super) async fn ask(&self, ask: Ask, limit: Duration) -> Result<Answer, LineError> {
        let shared = &self.shared;
        let number = shared.ears.pending.number();
        let headers = shared.headers_of(&ask);
        let mut params = ask.params;
        let mut route = Route {
            heard: ask.heard,
            room: Room::default(),
            token: None,
            listens: ask.subscription.is_some() || ask.method == "subscriptions/listen",
            subscription: ask.subscription,
            // Each of its messages comes on the stream of its request.
            logs: None,
            is_call: is_call(&ask.method),
        };
        let is_legacy = shared.ears.era() == Era::Legacy;
        if is_legacy {
            route.token = match take_token(&mut params, number) {
                Ok(token) => token,
                Err(refusal) => return Ok(refusal),
            };
        }
        let message = frame::request(number, &ask.method, params.as_deref());
        let mut under_way = UnderWay::begin(shared, number, &route)?;
        let asked = Asked { number, route, is_discovery: ask.method == "server/discover" };
        let answer = async {
            let (parts, body) = shared.post(headers, message).await?;
            shared.answer(parts, body, &asked).await
        };
        let outcome = timeout(limit, answer).await;
        // If it took too long, whoever is asked is told so.
        under_way.is_over = outcome.is_ok();
        outcome.unwrap_or(Err(LineError::TimedOut))
    }

    /// Says something that is not answered, with this method if it has one.
    pub(super) async fn say(
        &self,
        method: Option<&str>,
        message: Vec<u8>,
        limit: Duration,
    ) -> Result<(), LineError> {
        if self.shared.closing.is_cancelled() {
            return Err(LineError::closed());
        }
        timeout(limit, self.shared.tell(method, message)).await.unwrap_or(Err(LineError::TimedOut))
    }

    /// Resolves when there is a standing stream, or when there is none.
    pub(super) async fn hears(&self, does: bool) {
        let mut standing = self.shared.standing.subscribe();
        // It does not end before this.
        let _ = standing.wait_for(|is_there| *is_there == does).await;
    }

    pub(super) fn ears(&self) -> &Ears {
        &self.shared.ears
    }

    pub(super) fn is_closing(&self) -> bool {
        self.shared.closing.is_cancelled()
    }

    pub(super) async fn closed(&self) {
        self.shared.closed.cancelled().await;
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

/// A question, to whoever reads its answer.
struct Asked {
    number: u64,
    route: Route,
    /// It asks which revisions are spoken.
    is_discovery: bool,
}

/// A question that was asked. Whoever drops it before it is over does not want the answer. In the
/// newer era the upstream sees that by the connection, in the older one it is told.
struct UnderWay<'a> {
    shared: &'a Arc<Shared>,
    number: u64,
    is_over: bool,
}

impl<'a> UnderWay<'a> {
    fn begin(shared: &'a Arc<Shared>, number: u64, route: &Route) -> Result<Self, LineError> {
        if shared.closing.is_cancelled() {
            return Err(LineError::closed());
        }
        // From here on it is counted, and leaves by being dropped.
        let asked = shared.asked.fetch_add(1, Ordering::Relaxed);
        let mut under_way = Self { shared, number, is_over: true };
        if asked >= ASKED_MAX {
            return Err(LineError::Busy);
        }
        if shared.ears.era() == Era::Legacy {
            // What it does not say on the stream of the question, it may say on the standing one.
            shared.ears.pending.follow(number, route.clone())?;
        }
        under_way.is_over = false;
        Ok(under_way)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.shared.asked.fetch_sub(1, Ordering::Relaxed);
        if self.shared.ears.era() == Era::Legacy {
            self.shared.ears.pending.forget(self.number);
            if !self.is_over {
                self.shared.say_aside(frame::cancelled(self.number));
            }
        }
    }
}

impl Shared {
    /// The headers of every message.
    pub(super) fn headers(&self) -> &HeaderMap {
        self.session.get().map_or(&self.first_headers, |session| &session.headers)
    }

    fn has_session(&self) -> bool {
        self.session.get().is_some_and(|session| session.has_id)
    }

    /// Whether there is a session that the upstream still knows.
    pub(super) fn is_known(&self) -> bool {
        self.has_session() && !self.is_gone.load(Ordering::Relaxed)
    }

    /// Makes a request without a message.
    pub(super) async fn request(
        &self,
        method: Method,
        headers: HeaderMap,
    ) -> Result<(Parts, Incoming), LineError> {
        self.send(method, headers, Bytes::new()).await
    }

    async fn post(
        &self,
        headers: HeaderMap,
        message: Vec<u8>,
    ) -> Result<(Parts, Incoming), LineError> {
        self.send(Method::POST, headers, Bytes::from(message)).await
    }

    async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(Parts, Incoming), LineError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        Ok(self.client.send(request).await?.into_parts())
    }

    /// Says something that is not answered, with this method if it has one.
    async fn tell(&self, method: Option<&str>, message: Vec<u8>) -> Result<(), LineError> {
        let mut headers = self.headers().clone();
        if let Some(method) = method.filter(|_| self.ears.era() == Era::Modern) {
            headers.insert(headers::METHOD, headers::value(method));
        }
        let (parts, _) = self.post(headers, message).await?;
        match parts.status {
            status if status.is_success() => Ok(()),
            status => Err(self.refusal(status)),
        }
    }

    /// Says something in the background, that nobody waits for.
    pub(super) fn say_aside(self: &Arc<Self>, message: Vec<u8>) {
        let Ok(place) = Arc::clone(&self.asides).try_acquire_owned() else {
            tracing::debug!(upstream = %self.ears.name(), "too much is said at once");
            return;
        };
        let shared = Arc::clone(self);
        self.runtime.spawn(async move {
            if !matches!(timeout(ASIDE_TIME, shared.tell(None, message)).await, Ok(Ok(()))) {
                tracing::debug!(upstream = %shared.ears.name(), "it did not listen");
            }
            drop(place);
        });
    }

    /// The headers of a question.
    fn headers_of(&self, ask: &Ask) -> HeaderMap {
        let mut map = self.headers().clone();
        if self.ears.era() == Era::Modern {
            map.insert(headers::METHOD, headers::value(&ask.method));
        }
        let mut own = HeaderMap::new();
        for (name, value) in &ask.headers {
            match HeaderName::from_bytes(name.as_bytes()) {
                // Said twice, it is the server's to refuse.
                Ok(name) => {
                    own.append(name, headers::value(value));
                }
                Err(_) => tracing::debug!(upstream = %self.ears.name(), "a header is no header"),
            }
        }
        // They take the place of configured ones.
        map.extend(own);
        if self.ears.era() == Era::Modern
            && !map.contains_key(headers::NAME)
            && let Some(name) = headers::name(&ask.method, ask.params.as_ref())
        {
            map.insert(headers::NAME, name);
        }
        map
    }

    /// The answer in a response to a question.
    async fn answer(
        self: &Arc<Self>,
        parts: Parts,
        body: Incoming,
        asked: &Asked,
    ) -> Result<Answer, LineError> {
        if parts.status != StatusCode::OK {
            return self.refused(&parts, body, asked).await;
        }
        headers::check_encoding(&parts.headers)?;
        match headers::kind(&parts.headers) {
            Kind::Json => match Said::of(events::message(body, &self.limits).await?) {
                Ok(Said::Answer { to, answer }) if is_to(to, &answer, asked.number) => {
                    self.ears.faults.good();
                    self.ears.remember_task(asked.number, &asked.route, &answer);
                    Ok(asked.route.put_back(answer))
                }
                Err(Unsaid::TooLarge(_)) => Err(LineError::TooLarge),
                Ok(_) | Err(Unsaid::TooLargeRequest(_)) => {
                    Err(LineError::Protocol("it answered something else"))
                }
                Err(Unsaid::Malformed) if self.ears.faults.malformed() => Err(self.broken()),
                Err(Unsaid::Malformed) => Err(LineError::Protocol("its answer is no message")),
            },
            Kind::Events => {
                let events = Events::new(body, &self.limits, Some(asked.number));
                self.follow(events, asked).await
            }
            Kind::Other => Err(LineError::Protocol("its answer is neither JSON nor events")),
        }
    }

    /// Reads the stream of a question until the answer is there.
    async fn follow(
        self: &Arc<Self>,
        mut events: Events,
        asked: &Asked,
    ) -> Result<Answer, LineError> {
        loop {
            let whole = match events.next().await {
                Ok(Some(whole)) => whole,
                Ok(None) | Err(LineError::Lost) => {
                    self.resume(&mut events).await?;
                    continue;
                }
                Err(why) => return Err(why),
            };
            let said = match whole {
                Whole::Memory(bytes) => match Said::read(&bytes) {
                    // What the stream ended in may come whole from where it goes on.
                    Err(Unsaid::Malformed)
                        if !events.has_ended && legible::answers(&bytes, asked.number) =>
                    {
                        self.ears.faults.note(Fault::Malformed);
                        return Err(LineError::Protocol("its answer is no message"));
                    }
                    said => said,
                },
                whole => Said::of(whole),
            };
            match said {
                Ok(Said::Answer { to, answer }) if is_to(to, &answer, asked.number) => {
                    self.ears.faults.good();
                    self.ears.remember_task(asked.number, &asked.route, &answer);
                    events.leave();
                    return Ok(asked.route.put_back(answer));
                }
                Ok(said) => {
                    self.ears.faults.good();
                    let reply = self.ears.hear_beside(asked.number, &asked.route, said).await?;
                    if let Some(reply) = reply {
                        self.say_aside(reply);
                    }
                }
                Err(Unsaid::TooLarge(To::Number(number))) if number == asked.number => {
                    return Err(LineError::TooLarge);
                }
                Err(Unsaid::TooLarge(To::Unknown)) => return Err(LineError::TooLarge),
                Err(Unsaid::TooLarge(_)) => self.ears.faults.note(Fault::TooLarge),
                Err(Unsaid::TooLargeRequest(id)) => self.say_aside(self.ears.too_large(&id)),
                Err(Unsaid::Malformed) if self.ears.faults.malformed() => return Err(self.broken()),
                Err(Unsaid::Malformed) => {}
            }
        }
    }

    /// Goes on with a stream that ended before its answer, where the older era allows it.
    async fn resume(&self, events: &mut Events) -> Result<(), LineError> {
        let last = events.last.clone().filter(|_| self.ears.era() == Era::Legacy);
        let last = last.ok_or(LineError::Lost)?;
        for attempt in 0..RESUMES_MAX {
            let pause = events.retry.unwrap_or(RETRY * (1 << attempt));
            sleep(pause.clamp(RETRY_MIN, RETRY_MAX)).await;
            match self.stream(Some(&last)).await {
                Ok(body) => {
                    events.resume(body);
                    return Ok(());
                }
                Err(LineError::Unreachable(_)) => {}
                Err(_) => break,
            }
        }
        Err(LineError::Lost)
    }

    /// A stream of the older era: the standing one, or one that goes on behind an event.
    pub(super) async fn stream(&self, last: Option<&HeaderValue>) -> Result<Incoming, LineError> {
        let mut headers = self.headers().clone();
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, headers::EVENTS);
        if let Some(last) = last {
            headers.insert(headers::LAST_EVENT, last.clone());
        }
        let (parts, body) = self.request(Method::GET, headers).await?;
        match parts.status {
            StatusCode::OK if headers::kind(&parts.headers) == Kind::Events => {
                headers::check_encoding(&parts.headers).map(|()| body)
            }
            StatusCode::OK => Err(LineError::Protocol("its stream has no events")),
            // Many have no such route at all. If it is the session that they do not know, the next
            // question is told so.
            StatusCode::NOT_FOUND => Err(LineError::Refused(StatusCode::NOT_FOUND.as_u16())),
            status => Err(self.refusal(status)),
        }
    }

    /// A response that is none to a question, unless it says why.
    async fn refused(
        &self,
        parts: &Parts,
        body: Incoming,
        asked: &Asked,
    ) -> Result<Answer, LineError> {
        let status = parts.status;
        let is_about_us = matches!(status.as_u16(), 401 | 403 | 429)
            || (status == StatusCode::NOT_FOUND && self.has_session());
        if is_about_us {
            return Err(match self.refusal(status) {
                // It says so before it looks at the question: a new session can ask it.
                LineError::Lost => forgotten(),
                why => why,
            });
        }
        if status == StatusCode::BAD_REQUEST && self.is_forgotten().await {
            self.forget();
            return Err(forgotten());
        }
        if headers::kind(&parts.headers) == Kind::Json
            && headers::check_encoding(&parts.headers).is_ok()
            && let Ok(body) = Limited::new(body, REFUSAL_BYTES_MAX).collect().await
            && let Ok(Said::Answer { to, answer }) = Said::read(&body.to_bytes())
            && is_to(to, &answer, asked.number)
        {
            return match answer {
                Answer::Error(error) if self.is_mismatch(status, &error) => {
                    Err(LineError::Mismatch(error))
                }
                answer => Ok(answer),
            };
        }
        match status.as_u16() {
            400 | 404 | 405 if asked.is_discovery => Err(LineError::Era),
            _ => Err(self.refusal(status)),
        }
    }

    /// Whether a question was refused because headers and message do not fit, which only the newer era
    /// looks at, before anything else.
    fn is_mismatch(&self, status: StatusCode, error: &[u8]) -> bool {
        #[derive(serde::Deserialize)]
        struct Told {
            code: i64,
        }
        let says_so =
            || serde_json::from_slice(error).is_ok_and(|Told { code }| code == HEADER_MISMATCH);
        status == StatusCode::BAD_REQUEST && self.ears.era() == Era::Modern && says_so()
    }

    /// Whether the upstream does not know the session any more, after it refused a question. Many say
    /// that with 400, and with an error that looks like an answer; what is wrong with a question is
    /// not wrong with a ping.
    async fn is_forgotten(&self) -> bool {
        if !self.has_session() {
            return false;
        }
        let ping = frame::request(self.ears.pending.number(), "ping", None);
        let pinged = timeout(PING_TIME, self.post(self.headers().clone(), ping)).await;
        matches!(pinged, Ok(Ok((parts, _))) if matches!(parts.status.as_u16(), 400 | 404))
    }

    /// The upstream does not know the session any more.
    fn forget(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
        self.close();
    }

    /// What a status means that is not the expected one.
    fn refusal(&self, status: StatusCode) -> LineError {
        tracing::debug!(upstream = %self.ears.name(), %status, "it refused");
        match status.as_u16() {
            404 if self.has_session() => {
                self.forget();
                LineError::Lost
            }
            429 => LineError::Busy,
            400..=499 => LineError::Refused(status.as_u16()),
            // Something between may say so, and the upstream may have been asked.
            500..=599 => LineError::Lost,
            _ => LineError::Protocol("its status is unexpected"),
        }
    }

    /// It does not speak the protocol.
    fn broken(&self) -> LineError {
        tracing::warn!(upstream = %self.ears.name(), "it does not speak the protocol");
        self.close();
        LineError::Protocol("it says nothing that is a message")
    }

    /// No more questions.
    pub(super) fn close(&self) {
        self.ears.pending.close(&LineError::Lost);
        self.closing.cancel();
        if !self.has_session() {
            // Otherwise it is closed once the session has ended.
            self.closed.cancel();
        }
    }
}

/// Why a question was not looked at: a new session can ask it.
fn forgotten() -> LineError {
    LineError::Unreachable("it forgot the session".to_owned())
}

/// Whether an answer is the one to a question. An error without an id can be about nothing else than
/// what was sent.
fn is_to(to: To, answer: &Answer, number: u64) -> bool {
    to == To::Number(number) || (to == To::Unknown && matches!(answer, Answer::Error(_)))
}

fn first_headers(
    uri: &Uri,
    configured: &[(String, String)],
    era: Era,
) -> Result<HeaderMap, LineError> {
    let mut map = headers::configured(configured)?;
    let host = uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
    if let Some(host) = host {
        map.entry(HOST).or_insert(host);
    }
    map.insert(CONTENT_TYPE, headers::JSON);
    map.insert(ACCEPT, headers::JSON_OR_EVENTS);
    // Without it, a server may encode its answers as it likes.
    map.insert(ACCEPT_ENCODING, headers::IDENTITY);
    for name in [headers::SESSION, headers::LAST_EVENT] {
        map.remove(name);
    }
    if era == Era::Modern {
        map.insert(headers::VERSION, headers::MODERN_VERSION);
    }
    Ok(map)
}

/// The headers after the handshake.
fn session_headers(first: &HeaderMap, id: Option<HeaderValue>, hello: &Bytes) -> HeaderMap {
    let mut map = first.clone();
    if let Some(mut id) = id {
        id.set_sensitive(true);
        map.insert(headers::SESSION, id);
    }
    let hello = serde_json::from_slice(hello).ok().and_then(|hello| Object::read(hello).ok());
    let version = hello.as_ref().and_then(|hello| hello.text("protocolVersion"));
    if let Some(version) = version.and_then(|version| HeaderValue::from_str(&version).ok()) {
        map.insert(headers::VERSION, version);
    }
    map
}
