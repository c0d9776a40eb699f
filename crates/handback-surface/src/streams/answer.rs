//! Responses.

use handback_store::StoreError;
use handback_stream::{Offset, Refusal, StreamQuota};
use handback_tool::Exhausted;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::driver::NotTaken;
use super::params::{
    Bad, CLOSED, NEXT_OFFSET, PRODUCER_EPOCH, PRODUCER_EXPECTED, PRODUCER_RECEIVED,
};
use crate::body::ReplyBody;

/// Seconds after which to try again what could not be written.
const RETRY_AFTER_S: u64 = 1;

/// A response with a status and no body.
pub(crate) fn status(status: StatusCode) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::empty());
    *response.status_mut() = status;
    response
}

/// An error: a code for programs, a sentence for people.
pub(crate) fn error(status: StatusCode, code: &str, message: &str) -> Response<ReplyBody> {
    let body = serde_json::json!({"error": {"code": code, "message": message}});
    let mut response = Response::new(ReplyBody::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An offset as a header has it.
pub(super) fn offset(number: u64) -> HeaderValue {
    let text = Offset::after(number).to_bytes();
    HeaderValue::from_bytes(&text).unwrap_or_else(|_| HeaderValue::from_static("0"))
}

impl From<Bad> for Response<ReplyBody> {
    fn from(Bad(message): Bad) -> Self {
        error(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
    }
}

/// What a refusal is on HTTP.
pub(super) fn refused(refusal: &Refusal) -> Response<ReplyBody> {
    let (status, code) = match refusal {
        Refusal::NotFound | Refusal::NoSource => (StatusCode::NOT_FOUND, "NOT_FOUND"),
        Refusal::Gone => (StatusCode::GONE, "GONE"),
        Refusal::NameInUse | Refusal::SourceGone => (StatusCode::CONFLICT, "DELETED"),
        Refusal::Exists => (StatusCode::CONFLICT, "EXISTS"),
        Refusal::Closed { .. } => (StatusCode::CONFLICT, "CLOSED"),
        Refusal::ContentType => (StatusCode::CONFLICT, "CONTENT_TYPE"),
        Refusal::StaleEpoch { .. } => (StatusCode::FORBIDDEN, "STALE_EPOCH"),
        Refusal::NotAcquired | Refusal::Superseded => (StatusCode::FORBIDDEN, "TICKET"),
        Refusal::Key => (StatusCode::FORBIDDEN, "KEY"),
        Refusal::EpochStart => (StatusCode::BAD_REQUEST, "EPOCH_START"),
        Refusal::Gap { .. } => (StatusCode::CONFLICT, "SEQUENCE_GAP"),
        Refusal::WriterSeq => (StatusCode::CONFLICT, "SEQUENCE"),
        Refusal::Quota(quota) => return over_quota(*quota),
        Refusal::TooManyProducers => (StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_PRODUCERS"),
        Refusal::ForkBeyond | Refusal::PartBeyond => (StatusCode::BAD_REQUEST, "BEYOND_END"),
        _ => (StatusCode::BAD_REQUEST, "REFUSED"),
    };
    let mut response = error(status, code, &refusal.to_string());
    let headers = response.headers_mut();
    match refusal {
        Refusal::Closed { number } => {
            headers.insert(CLOSED, HeaderValue::from_static("true"));
            headers.insert(NEXT_OFFSET, offset(*number));
        }
        Refusal::StaleEpoch { current } => {
            headers.insert(PRODUCER_EPOCH, (*current).into());
        }
        Refusal::Gap { expected, received } => {
            headers.insert(PRODUCER_EXPECTED, (*expected).into());
            headers.insert(PRODUCER_RECEIVED, (*received).into());
        }
        _ => {}
    }
    response
}

/// The response to a caller whose share of streams or bytes is used up, or all callers' limit is.
fn over_quota(quota: StreamQuota) -> Response<ReplyBody> {
    let code = part_of(quota).code();
    let mut response = error(StatusCode::INSUFFICIENT_STORAGE, code, &quota.to_string());
    let (resource, part) = (resource_of(quota), part_of(quota));
    response.extensions_mut().insert(OverQuota { resource, part });
    response
}

/// The resource that a quota limits, as errors and the audit name it.
pub(crate) const fn resource_of(quota: StreamQuota) -> &'static str {
    match quota {
        StreamQuota::OwnerStreams | StreamQuota::TotalStreams => "streams",
        StreamQuota::OwnerBytes | StreamQuota::TotalBytes => "stored bytes of streams",
    }
}

/// The part of a quota that is used up.
pub(crate) const fn part_of(quota: StreamQuota) -> Exhausted {
    if quota.is_of_owner() { Exhausted::Caller } else { Exhausted::Total }
}

/// An extension of responses that refuse a request because a limit is used up, for the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "servers read it")]
pub struct OverQuota {
    /// The resource that is limited.
    pub resource: &'static str,
    /// The part of its quota that is used up.
    pub part: Exhausted,
}

/// The response to a caller at its share of a resource that is free again soon, or when all of it is in
/// use.
#[must_use]
pub fn busy(resource: &str, part: Exhausted) -> Response<ReplyBody> {
    let status = match part {
        Exhausted::Caller => StatusCode::TOO_MANY_REQUESTS,
        Exhausted::Total => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = error(status, part.code(), &part.sentence(resource));
    response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_S.into());
    response
}

/// The resource of appends that wait for the writer, as errors and the audit name it.
pub(crate) const WAITING_BYTES: &str = "bytes that wait to be written";

/// The response to a caller that has as many bytes waiting to be written as it may have.
pub(super) fn waits(part: Exhausted) -> Response<ReplyBody> {
    let resource = WAITING_BYTES;
    let mut response = busy(resource, part);
    response.extensions_mut().insert(OverQuota { resource, part });
    response
}

/// The response to a caller whose share of subscriptions or of their bytes is used up, or all callers'
/// limit is.
pub(super) fn full(part: Exhausted) -> Box<Response<ReplyBody>> {
    let resource = "subscriptions of streams";
    let sentence = part.sentence(resource);
    let mut response = error(StatusCode::INSUFFICIENT_STORAGE, part.code(), &sentence);
    response.extensions_mut().insert(OverQuota { resource, part });
    Box::new(response)
}

/// What a command that was not done is on HTTP. The reason itself is for operators.
pub(super) fn not_taken(why: &NotTaken) -> Response<ReplyBody> {
    let (status, code, message) = match why {
        NotTaken::Busy => (StatusCode::SERVICE_UNAVAILABLE, "BUSY", "too much is waiting"),
        NotTaken::ReadOnly(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "READ_ONLY", "writes are not taken at the moment")
        }
        NotTaken::Stopping => {
            (StatusCode::SERVICE_UNAVAILABLE, "STOPPING", "the server is stopping")
        }
    };
    let mut response = error(status, code, message);
    response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_S.into());
    response
}

/// What a read that failed is on HTTP.
pub(super) fn unread(why: &StoreError) -> Response<ReplyBody> {
    tracing::error!(%why, "a stream cannot be read");
    let status = match why {
        StoreError::Damaged(_) => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    error(status, "STORE", "the stream cannot be read at the moment")
}
