//! Responses.

use handback_store::StoreError;
use handback_stream::{Offset, Refusal};
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
