//! Which request goes where.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use handback_identity::{Caller, VerifiedPrincipal};
use handback_stream::{MAX_PAYLOAD_BYTES, PublicKey};
use handback_surface::body::ReplyBody;
use handback_surface::duplex::{self, DuplexRoutes};
use handback_surface::guard::{Guard, Turned};
use handback_surface::streams::{Mode, PREFIX, StreamRoutes};
use handback_surface::tools;
use handback_tool::{InputBudget, InputRefusal, PROGRESS_TIME, Surface};
use http_body_util::Limited;
use hyper::body::Body;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::identity::Identity;
use crate::input::CountedBody;
use crate::limits::Limits;
use crate::quotas::RequestQuotas;
use crate::tools::Tools;
use crate::{metrics, revoke};

/// Everything that answers.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) guard: Guard,
    pub(crate) streams: StreamRoutes,
    pub(crate) duplex: DuplexRoutes,
    pub(crate) keys: Vec<PublicKey>,
    pub(crate) identity: std::sync::Arc<Identity>,
    pub(crate) tools: Tools,
    pub(crate) limits: Limits,
    pub(crate) input: InputBudget,
    pub(crate) quotas: RequestQuotas,
}

/// Where receivers of webhooks find what to verify them with.
const WEBHOOK_KEYS: &str = "/v1/stream/__ds/jwks.json";

/// Where MCP is spoken.
const MCP: &str = "/mcp";

const METHODS: &str = "GET, HEAD, PUT, POST, DELETE, OPTIONS";

const REQUEST_HEADERS: &str = "content-type, authorization, if-none-match, idempotency-key, \
     x-idempotency-key, x-idempotency-event-id, x-idempotent-encryption-key, stream-seq, \
     stream-ttl, stream-expires-at, stream-closed, stream-forked-from, stream-fork-offset, \
     stream-fork-sub-offset, producer-id, producer-epoch, producer-seq, producer-acquire, \
     producer-ticket, stream-wake-token, mcp-protocol-version, mcp-session-id, mcp-method, \
     mcp-name, last-event-id";

const RESPONSE_HEADERS: &str = "etag, location, retry-after, stream-next-offset, stream-cursor, \
     stream-up-to-date, stream-closed, stream-ttl, stream-expires-at, stream-sse-data-encoding, \
     www-authenticate, \
     producer-epoch, producer-seq, producer-expected-seq, producer-received-seq, \
     producer-ticket, mcp-session-id";

/// Seconds for which a preflight is good.
const PREFLIGHT_S: u64 = 600;

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

impl Router {
    pub(crate) async fn handle<B>(&self, request: Request<B>) -> Response<ReplyBody>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let is_preflight = request.method() == Method::OPTIONS;
        let allowed = self.guard.allowed_origin(request.headers());
        let named = request.uri().authority();
        let is_ours = named.is_none_or(|named| self.guard.is_ours(named.as_str()));
        let mut response = match self.guard.check(request.headers(), is_preflight) {
            _ if header_bytes(request.headers()) > self.limits.header_bytes => {
                let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                let most = self.limits.header_bytes;
                error(status, "HEADERS", format!("the headers have more than {most} bytes"))
            }
            checked if checked == Err(Turned::Host) || !is_ours => {
                error(StatusCode::MISDIRECTED_REQUEST, "HOST", Turned::Host)
            }
            Err(turned) => error(StatusCode::FORBIDDEN, "ORIGIN", turned),
            Ok(()) if is_preflight => preflight(),
            Ok(()) => self.bounded(request).await,
        };
        let headers = response.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
        if let Some(origin) = allowed {
            allow(headers, origin);
        }
        response
    }

    /// Lets no more of a body through than is allowed.
    async fn bounded<B>(&self, request: Request<B>) -> Response<ReplyBody>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let most = self.limits.body_bytes;
        if most >= MAX_PAYLOAD_BYTES {
            // Every surface is content with less.
            return self.route(request).await;
        }
        if usize::try_from(request.body().size_hint().lower()).is_ok_and(|bytes| bytes <= most) {
            return self.route(request.map(|body| Limited::new(body, most))).await;
        }
        let text = format!("the body has more than {most} bytes");
        error(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", text)
    }

    async fn route<B>(&self, request: Request<B>) -> Response<ReplyBody>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = request.uri().path();
        if path == WEBHOOK_KEYS {
            // Public keys have no owner.
            return self.streams.handle(request, &VerifiedPrincipal::unauthenticated()).await;
        }
        let is_tool = path == MCP || tools::is_ours(path) || revoke::is_ours(path);
        if is_tool || path == metrics::PATH || path == duplex::PATH || path.starts_with(PREFIX) {
            return self.for_callers(request).await;
        }
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        match path {
            path if is_public(path) && !is_read => {
                error(StatusCode::METHOD_NOT_ALLOWED, "METHOD", "this is to be read only")
            }
            "/healthz" => json_response(StatusCode::OK, &json!({"status": "ok"})),
            "/readyz" => self.ready(),
            "/v1/keys" => json_response(StatusCode::OK, &key_set(&self.keys)),
            path => match self.identity.metadata(path).filter(|_| is_read) {
                Some(metadata) => json_response(StatusCode::OK, metadata),
                None => error(StatusCode::NOT_FOUND, "NOT_FOUND", "there is nothing here"),
            },
        }
    }

    /// What belongs to somebody: first it is found out who asks.
    async fn for_callers<B>(&self, request: Request<B>) -> Response<ReplyBody>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let caller = match self.identity.identify(request.headers()).await {
            Ok(caller) => caller,
            Err(refusal) => {
                tracing::debug!(reason = refusal.reason(), "a caller was refused");
                self.tools.pipeline.metrics().unidentified.increment();
                return self.identity.refused(refusal);
            }
        };
        let principal = caller.principal().clone();
        let surface = surface_of(request.uri().path());
        let admitted = match self.quotas.admit(surface, &request, &principal) {
            Ok(admitted) => admitted,
            Err(response) => return *response,
        };
        let is_tool = tools::is_ours(request.uri().path());
        let (parts, body) = request.into_parts();
        let (body, refused) = CountedBody::new(body, self.input.input(&principal));
        let response = self.for_caller(Request::from_parts(parts, body), caller).await;
        let refusal = refused.refusal().await;
        let response = refusal.map_or(response, |refusal| unfinished(refusal, is_tool));
        self.quotas.note(&response, &principal);
        response.map(|body| body.with_guard(admitted))
    }

    /// The answer to a caller whose request is counted.
    async fn for_caller<B>(&self, mut request: Request<B>, caller: Caller) -> Response<ReplyBody>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if request.uri().path() == MCP {
            let principal = caller.principal().clone();
            request.extensions_mut().insert(caller.clone());
            if let Some(gateway) = &self.tools.gateway_front {
                let again = self.identity.again(request.headers());
                request.extensions_mut().insert(again);
                return Box::pin(gateway.handle(request, &caller)).await.map(ReplyBody::Unsync);
            }
            let reply = self.tools.mcp.handle(request, &principal).await;
            return reply.map(ReplyBody::Boxed);
        }
        if tools::is_ours(request.uri().path()) {
            return tools::handle(request, &caller, &self.tools.pipeline).await;
        }
        if request.uri().path() == metrics::PATH {
            return metrics::handle(request.method(), &caller, &self.tools.pipeline).await;
        }
        if revoke::is_ours(request.uri().path()) {
            let Tools { gate, time, .. } = &self.tools;
            return revoke::handle(request, &caller, gate, time).await;
        }
        if request.uri().path() == duplex::PATH {
            let again = self.identity.again(request.headers());
            request.extensions_mut().insert(again);
            return self.duplex.handle(request, &caller);
        }
        self.streams.handle(request, caller.principal()).await
    }

    fn ready(&self) -> Response<ReplyBody> {
        match &*self.streams.mode().borrow() {
            Mode::Durable => json_response(StatusCode::OK, &json!({"mode": "durable"})),
            Mode::ReadOnly(reason) => {
                let said = json!({"mode": "readonly", "reason": reason});
                json_response(StatusCode::SERVICE_UNAVAILABLE, &said)
            }
            Mode::Memory => json_response(StatusCode::OK, &json!({"mode": "memory"})),
            _ => json_response(StatusCode::OK, &json!({"mode": "other"})),
        }
    }
}

fn surface_of(path: &str) -> Surface {
    match path {
        MCP => Surface::Mcp,
        duplex::PATH => Surface::Duplex,
        _ => Surface::Http,
    }
}

/// Whether a path is of something that everyone may read.
fn is_public(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/v1/keys")
}

fn header_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

/// The answer to a request whose body was refused while it arrived. The codes of tools are in lower case.
fn unfinished(refusal: InputRefusal, is_tool: bool) -> Response<ReplyBody> {
    let (status, [code, of_tool]) = match refusal {
        InputRefusal::CallerShare => (StatusCode::TOO_MANY_REQUESTS, ["BUSY", "busy"]),
        InputRefusal::Total => (StatusCode::SERVICE_UNAVAILABLE, ["BUSY", "busy"]),
        InputRefusal::TooSlow => (StatusCode::REQUEST_TIMEOUT, ["TIMEOUT", "too_slow"]),
    };
    let mut response = error(status, if is_tool { of_tool } else { code }, refusal);
    if refusal != InputRefusal::TooSlow {
        // Input that does not go on has made room by then.
        response.headers_mut().insert(RETRY_AFTER, PROGRESS_TIME.as_secs().into());
    }
    response
}

/// Public keys as a JSON Web Key Set.
fn key_set(keys: &[PublicKey]) -> Value {
    let keys: Vec<_> = keys
        .iter()
        .map(|key| {
            json!({
                "kty": "OKP",
                "crv": "Ed25519",
                "use": "sig",
                "alg": "EdDSA",
                "kid": key.id().to_string(),
                "x": URL_SAFE_NO_PAD.encode(key.as_bytes()),
            })
        })
        .collect();
    json!({"keys": keys})
}

fn preflight() -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(REQUEST_HEADERS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_S.into());
    response
}

fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(RESPONSE_HEADERS));
    headers.append(VARY, HeaderValue::from_static("origin"));
}

pub(crate) fn json_response(status: StatusCode, value: &Value) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::from(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(crate) fn error(status: StatusCode, code: &str, message: impl ToString) -> Response<ReplyBody> {
    let said = json!({"error": {"code": code, "message": message.to_string()}});
    json_response(status, &said)
}
