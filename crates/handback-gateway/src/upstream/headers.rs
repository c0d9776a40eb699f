//! The headers of the protocol.

use bytes::Bytes;
use handback_mcp::wire::Object;
use handback_wire::header;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use super::LineError;

/// The revision that lines of the newer era speak, unless a question names another.
pub(super) const MODERN_VERSION: HeaderValue = HeaderValue::from_static("2026-07-28");

pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(super) const NAME: HeaderName = HeaderName::from_static("mcp-name");
pub(super) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(super) const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
pub(super) const JSON_OR_EVENTS: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");

/// The only `Content-Encoding` that is requested.
pub(super) const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// Characters of the name of an encoding in an error at most.
const ENCODING_CHARS_MAX: usize = 32;

/// Refuses a response whose body is encoded: nothing but the body as it is was requested.
pub(super) fn check_encoding(headers: &HeaderMap) -> Result<(), LineError> {
    let is_plain = |value: &HeaderValue| {
        let value = value.as_bytes().trim_ascii();
        value.is_empty() || value.eq_ignore_ascii_case(IDENTITY.as_bytes())
    };
    match headers.get_all(hyper::header::CONTENT_ENCODING).iter().find(|value| !is_plain(value)) {
        None => Ok(()),
        Some(value) => {
            let token = |c: &char| c.is_ascii_alphanumeric() || "-_.,+* ".contains(*c);
            let name = String::from_utf8_lossy(value.as_bytes());
            let name = name.chars().filter(token).take(ENCODING_CHARS_MAX).collect();
            Err(LineError::Encoding(name))
        }
    }
}

/// The headers that were configured.
pub(super) fn configured(headers: &[(String, String)]) -> Result<HeaderMap, LineError> {
    let mut map = HeaderMap::with_capacity(headers.len() + 8);
    for (name, value) in headers {
        let bad = || LineError::Unreachable(format!("the header {name:?} cannot be sent"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        map.append(name, value);
    }
    Ok(map)
}

/// The value of a header, encoded if it is none as it is.
pub(super) fn value(text: &str) -> HeaderValue {
    // It is printable.
    HeaderValue::from_str(&header::encode(text)).unwrap_or(HeaderValue::from_static(""))
}

/// What `Mcp-Name` says of a question, if its method demands one.
pub(super) fn name(method: &str, params: Option<&Bytes>) -> Option<HeaderValue> {
    let member = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return None,
    };
    let params = serde_json::from_slice(params?).ok()?;
    Object::read(params).ok()?.text(member).map(|name| value(&name))
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Events,
    Other,
}

/// What the body of a response is.
pub(super) fn kind(headers: &HeaderMap) -> Kind {
    let kind = headers.get(hyper::header::CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    let is = |wanted: &HeaderValue| {
        let wanted = wanted.as_bytes();
        let start = kind.get(..wanted.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(wanted));
        start && matches!(kind.get(wanted.len()), None | Some(b';' | b' ' | b'\t'))
    };
    match (is(&JSON), is(&EVENTS)) {
        (true, _) => Kind::Json,
        (_, true) => Kind::Events,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_parameters() {
        let params = Bytes::from(r#"{"name":"t\u00e9","uri":"file:///x","taskId":"7"}"#);
        let of = |method: &str| name(method, Some(&params));
        assert_eq!(of("tools/call").unwrap(), "=?base64?dMOp?=");
        assert_eq!(of("resources/read").unwrap(), "file:///x");
        assert_eq!(of("tasks/get").unwrap(), "7");
        assert_eq!(of("tools/list"), None);
        assert_eq!(name("tools/call", None), None);
    }

    #[test]
    fn kinds_have_parameters() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(hyper::header::CONTENT_TYPE, HeaderValue::from_static(text));
            kind(&headers)
        };
        assert_eq!(of("application/json; charset=utf-8"), Kind::Json);
        assert_eq!(of("Text/Event-Stream;charset=utf-8"), Kind::Events);
        assert_eq!(of("application/jsonl"), Kind::Other);
        assert_eq!(of("text/html"), Kind::Other);
        assert_eq!(kind(&HeaderMap::new()), Kind::Other);
    }

    #[test]
    fn an_encoding_that_was_not_requested_is_refused() {
        let check = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                let value = HeaderValue::from_static(value);
                headers.append(hyper::header::CONTENT_ENCODING, value);
            }
            check_encoding(&headers)
        };
        for plain in [&[][..], &[""], &["identity"], &[" Identity "]] {
            assert_eq!(check(plain), Ok(()), "{plain:?}");
        }
        for (encoded, name) in [
            (&["gzip"][..], "gzip"),
            (&["identity", "br"], "br"),
            (&["identity, gzip"], "identity, gzip"),
            (&["<gzip>`"], "gzip"),
        ] {
            assert_eq!(check(encoded), Err(LineError::Encoding(name.to_owned())), "{encoded:?}");
        }
    }

    #[test]
    fn what_is_configured_can_be_sent() {
        let pair = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
        assert_eq!(configured(&pair("X-Key", "secret")).unwrap()["x-key"], "secret");
        for bad in [pair("a b", "x"), pair("a", "x\ny")] {
            let why = configured(&bad).unwrap_err();
            assert!(why.nothing_happened() && !why.to_string().contains("x\\ny"));
        }
    }
}
