//! `/metrics`: what is counted, as Prometheus reads it.
//!
//! How many calls there are, how large results get and which servers are behind this one is nobody's
//! business but the operator's. Where callers are identified, it is for those whose credential names
//! the scope [`SCOPE`]; to everybody else there is nothing here, and nobody has it unless it is given
//! to them. Where nobody is identified the server listens on loopback only, and whoever may call its
//! tools may read this as well.
//!
//! Rejected: a listener of its own for it, which is one more address to close; and leaving it open to
//! every caller, of whom each could watch all others work.

use std::sync::Arc;

use handback_identity::Caller;
use handback_surface::body::ReplyBody;
use handback_tool::Pipeline;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode};

use crate::router::error;

/// What a credential has to name.
pub const SCOPE: &str = "handback:metrics";

/// Where it is.
pub(crate) const PATH: &str = "/metrics";

/// The text format of Prometheus.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Answers a request of a caller.
pub(crate) async fn handle(
    method: &Method,
    caller: &Caller,
    pipeline: &Arc<Pipeline>,
) -> Response<ReplyBody> {
    if !caller.is_unauthenticated() && !caller.scopes().name(SCOPE) {
        return error(StatusCode::NOT_FOUND, "NOT_FOUND", "there is nothing here");
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        return error(StatusCode::METHOD_NOT_ALLOWED, "METHOD", "this is to be read only");
    }
    let pipeline = Arc::clone(pipeline);
    let text = tokio::task::spawn_blocking(move || pipeline.metrics_text()).await;
    let Ok(Ok(text)) = text else {
        let why = "what is held cannot be counted now";
        return error(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", why);
    };
    let mut response = Response::new(ReplyBody::from(text));
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
