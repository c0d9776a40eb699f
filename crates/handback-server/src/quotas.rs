//! Limits for all callers, and the share of each: requests in flight and event streams.
//!
//! Each has a connection for as long as it lasts. Without a share, one caller takes all connections, and
//! no other caller gets an answer. WebSockets, streams and sessions are counted where they are made, with
//! the same share.

use handback_identity::VerifiedPrincipal;
use handback_surface::body::ReplyBody;
use handback_surface::streams::{OverQuota, PREFIX, busy};
use handback_tool::{Charge, Exhausted, Gate, Quota, Surface};
use hyper::header::ACCEPT;
use hyper::{Method, Request, Response};
use percent_encoding::percent_decode_str;

use crate::limits::Limits;

const EVENT_STREAM: &str = "text/event-stream";

/// The MCP method that is answered for as long as its client listens.
const LISTEN: &str = "subscriptions/listen";

/// Counts the requests in flight and the event streams of each caller.
#[derive(Debug)]
pub(crate) struct RequestQuotas {
    requests: Quota,
    event_streams: Quota,
    gate: Gate,
}

/// The charges of one request, until its response has been sent.
#[derive(Debug)]
pub(crate) struct Admitted {
    _request: Option<Charge>,
    _event_stream: Option<Charge>,
}

impl RequestQuotas {
    pub(crate) fn new(limits: &Limits, gate: Gate) -> Self {
        let quota = |total: usize| Quota::new(total as u64, limits.caller_share);
        let event_streams = quota(limits.event_streams.min(limits.connections));
        Self { requests: quota(limits.connections), event_streams, gate }
    }

    /// Counts a request of a caller.
    ///
    /// # Errors
    ///
    /// The response to a caller whose share is used up.
    pub(crate) fn admit<B>(
        &self,
        surface: Surface,
        request: &Request<B>,
        caller: &VerifiedPrincipal,
    ) -> Result<Admitted, Box<Response<ReplyBody>>> {
        let refused = |resource, part| Box::new(self.refused(surface, resource, caller, part));
        // Connections bound the requests of unauthenticated callers, who have all of them.
        let request_charge = match caller.is_unauthenticated() {
            true => None,
            false => Some(self.requests.charge(caller, 1)),
        };
        let request_charge =
            request_charge.transpose().map_err(|part| refused("requests in flight", part))?;
        let event_stream =
            is_event_stream(surface, request).then(|| self.event_streams.charge(caller, 1));
        let event_stream =
            event_stream.transpose().map_err(|part| refused("event streams", part))?;
        Ok(Admitted { _request: request_charge, _event_stream: event_stream })
    }

    fn refused(
        &self,
        surface: Surface,
        resource: &'static str,
        caller: &VerifiedPrincipal,
        part: Exhausted,
    ) -> Response<ReplyBody> {
        self.gate.refused_by_quota(surface, resource, caller, part);
        busy(resource, part)
    }

    /// Writes down that a response refuses what a quota has no room for.
    pub(crate) fn note(&self, response: &Response<ReplyBody>, caller: &VerifiedPrincipal) {
        if let Some(refused) = response.extensions().get::<OverQuota>() {
            self.gate.refused_by_quota(Surface::Http, refused.resource, caller, refused.part);
        }
    }
}

/// Whether a request asks for an event stream.
fn is_event_stream<B>(surface: Surface, request: &Request<B>) -> bool {
    let (path, headers) = (request.uri().path(), request.headers());
    if path.starts_with(PREFIX) {
        let query = request.uri().query().unwrap_or_default();
        return request.method() == Method::GET && query.split('&').any(is_live_sse);
    }
    let accepts = |value: &hyper::header::HeaderValue| {
        value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains(EVENT_STREAM))
    };
    let accepts = || headers.get_all(ACCEPT).iter().any(accepts);
    match surface {
        // Every POST says that it accepts them: most are answered at once.
        Surface::Mcp if request.method() == Method::POST => {
            headers.get("mcp-method").is_some_and(|method| method == LISTEN)
        }
        Surface::Mcp => request.method() == Method::GET,
        Surface::Duplex => false,
        _ => accepts(),
    }
}

/// True for `live=sse`, whose value may be percent-encoded.
fn is_live_sse(pair: &str) -> bool {
    let value = pair.strip_prefix("live=");
    value.is_some_and(|value| percent_decode_str(value).eq(*b"sse"))
}
