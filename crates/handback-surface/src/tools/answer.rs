//! Responses.

use handback_token::Outside;
use handback_tool::{Answer, InputRequest, Inputs, Refusal, Reply};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::read::{Bad, MAX_BODY_BYTES};
use crate::body::{ReplyBody, Unread};
use crate::calls::{Shown, shown};

/// Seconds after which to try again what may be tried again.
const RETRY_AFTER_S: u64 = 1;

/// What a call gave, as JSON. Members that are not there are left out.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_requests: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<bool>,
}

/// The text of what a call gave.
pub(crate) fn text(ended: Result<Answer, Refusal>) -> Result<String, Refusal> {
    let answer = ended?;
    let replayed = answer.is_replay.then_some(true);
    let given = match answer.reply {
        Reply::Done(content) => {
            let result = Some(shown(content).ok_or(Refusal::Broken)?);
            Given { result, ..Given::default() }
        }
        Reply::Page { items, next } => {
            let result = Some(Shown::Value(Value::Array(items)));
            Given { result, next_cursor: next, ..Given::default() }
        }
        Reply::NeedsInput { inputs, state } => {
            let input_requests = Some(questions(&inputs));
            Given { input_requests, request_state: Some(state), ..Given::default() }
        }
        Reply::Failed { message, data, .. } => {
            let mut error = json!({"code": "tool_failed", "message": message});
            if let (Some(error), Some(data)) = (error.as_object_mut(), data) {
                error.insert("data".to_owned(), data);
            }
            Given { is_error: Some(true), error: Some(error), ..Given::default() }
        }
        _ => return Err(Refusal::Broken),
    };
    serde_json::to_string(&Given { replayed, ..given }).map_err(|_| Refusal::Broken)
}

/// Questions, by their names.
fn questions(inputs: &Inputs) -> Map<String, Value> {
    let question = |request: &InputRequest| match request {
        InputRequest::Form { message, schema } => {
            json!({"type": "form", "message": message, "schema": schema})
        }
        InputRequest::Url { message, url, id } => {
            json!({"type": "url", "message": message, "url": url, "id": id})
        }
        InputRequest::Sample(params) => json!({"type": "sample", "params": params}),
        InputRequest::Roots => json!({"type": "roots"}),
        _ => json!({"type": "unknown"}),
    };
    inputs.iter().map(|(name, request)| (name.to_owned(), question(request))).collect()
}

/// A JSON document.
pub(super) fn json(value: &Value) -> Response<ReplyBody> {
    whole(StatusCode::OK, value.to_string())
}

/// A response whose body is this JSON text. What depends on who asks is not kept on the way.
pub(super) fn whole(status: StatusCode, text: String) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Why there is no answer.
pub(super) fn refused(refusal: &Refusal) -> Response<ReplyBody> {
    let (status, _) = kind(refusal);
    let mut response = whole(status, error_text(refusal));
    if refusal.is_retryable() {
        response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_S.into());
    }
    response
}

/// The body of a refusal. All of one kind are equal to the byte.
pub(crate) fn error_text(refusal: &Refusal) -> String {
    let (_, code) = kind(refusal);
    json!({"error": {"code": code, "message": refusal.to_string()}}).to_string()
}

fn kind(refusal: &Refusal) -> (StatusCode, &'static str) {
    match refusal {
        Refusal::NotFound => (StatusCode::NOT_FOUND, "not_found"),
        Refusal::Busy => (StatusCode::TOO_MANY_REQUESTS, "busy"),
        Refusal::TooFast => (StatusCode::TOO_MANY_REQUESTS, "too_fast"),
        Refusal::Quota => (StatusCode::INSUFFICIENT_STORAGE, "quota"),
        Refusal::Continuation { outside: Outside::Expired, .. } => (StatusCode::GONE, "expired"),
        Refusal::Continuation { .. } => (StatusCode::BAD_REQUEST, "invalid"),
        Refusal::BadArguments(_) => (StatusCode::BAD_REQUEST, "bad_arguments"),
        Refusal::BadAnswers(_) => (StatusCode::BAD_REQUEST, "bad_answers"),
        Refusal::BadKey => (StatusCode::BAD_REQUEST, "bad_key"),
        Refusal::Mismatch => (StatusCode::CONFLICT, "mismatch"),
        Refusal::Ambiguous => (StatusCode::CONFLICT, "ambiguous"),
        Refusal::InFlight => (StatusCode::CONFLICT, "in_flight"),
        Refusal::TimedOut => (StatusCode::GATEWAY_TIMEOUT, "timed_out"),
        Refusal::TooLarge => (StatusCode::INTERNAL_SERVER_ERROR, "result_too_large"),
        Refusal::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, "cancelled"),
        Refusal::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "broken"),
    }
}

/// What is said to a request that is not as it has to be.
pub(super) fn bad(bad: &Bad) -> Response<ReplyBody> {
    let (status, code, message) = match bad {
        Bad::Refused(refusal) => return refused(refusal),
        Bad::Request(message) => (StatusCode::BAD_REQUEST, "bad_request", message.clone()),
        Bad::ContentType => (
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "content_type",
            "the body has to be application/json, in UTF-8".to_owned(),
        ),
        Bad::Body(Unread::TooLarge) => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("the body has more than {MAX_BODY_BYTES} bytes"),
        ),
        Bad::Body(Unread::TooSlow) => {
            (StatusCode::REQUEST_TIMEOUT, "too_slow", "the body took too long".to_owned())
        }
        Bad::Body(Unread::Cut) => {
            (StatusCode::BAD_REQUEST, "bad_request", "the body ended too early".to_owned())
        }
    };
    whole(status, json!({"error": {"code": code, "message": message}}).to_string())
}

/// What is said to another method.
pub(super) fn not_so(methods: &'static str) -> Response<ReplyBody> {
    let text = json!({"error": {"code": "method", "message": "this is not asked for so"}});
    let mut response = whole(StatusCode::METHOD_NOT_ALLOWED, text.to_string());
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}
