//! What requests say.

use bytes::Bytes;
use handback_token::{Cursor, Purpose as _, is_unambiguous};
use hyper::Request;
use hyper::body::Body;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::body::{self, Unread};
use crate::calls;

/// Bytes of a body at most.
pub(super) const MAX_BODY_BYTES: usize = 4 << 20;

/// Tools of a page of the list, if it is not said how many.
const PAGE_TOOLS: usize = 100;

/// Tools of a page at most.
const PAGE_TOOLS_MAX: usize = 1_000;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const X_KEY: HeaderName = HeaderName::from_static("x-idempotency-key");

/// A request that is not as it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// In words.
    Request(String),
    /// It is no JSON.
    ContentType,
    /// The body is too large, too slow, or cut off.
    Body(Unread),
    /// What the pipeline would refuse too.
    Refused(handback_tool::Refusal),
}

impl Bad {
    fn request(message: &str) -> Self {
        Self::Request(message.to_owned())
    }
}

/// The body of a call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Run {
    #[serde(default)]
    pub(super) arguments: Value,
    #[serde(default)]
    pub(super) request_state: Option<String>,
    #[serde(default)]
    pub(super) input_responses: Option<Map<String, Value>>,
}

/// The body of a call for the next page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GoOn {
    pub(super) cursor: String,
}

/// Which page of the list is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) cursor: Option<String>,
    pub(super) limit: usize,
}

/// Reads the body of a request.
pub(super) async fn json<T, B>(request: Request<B>) -> Result<T, Bad>
where
    T: DeserializeOwned,
    B: Body<Data = Bytes> + Send,
{
    let bytes = body::read(request.into_body(), MAX_BODY_BYTES).await.map_err(Bad::Body)?;
    parse(&bytes)
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Bad> {
    if calls::is_too_deep(bytes) {
        return Err(Bad::request("the body is deeper than it may be"));
    }
    // A list of the members would be taken for them.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Bad::request("the body is no object"));
    }
    if !is_unambiguous(bytes) {
        return Err(Bad::request("a member of the body is there twice"));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let why: String = error.to_string().chars().take(WHY_CHARS_MAX).collect();
        Bad::Request(format!("the body is not as it has to be: {why}"))
    })
}

/// Characters of a message about a body: it may repeat a part of it.
const WHY_CHARS_MAX: usize = 200;

/// Refuses what does not say that it is JSON: a page of another origin cannot say so without being
/// asked first.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), Bad> {
    let value = single(headers, &CONTENT_TYPE)?.ok_or(Bad::ContentType)?;
    let (kind, parameters) = value.split_once(';').unwrap_or((value, ""));
    let parameters = parameters.trim();
    let is_utf8 =
        parameters.is_empty() || parameters.replace('"', "").eq_ignore_ascii_case("charset=utf-8");
    let is_json = kind.trim().eq_ignore_ascii_case("application/json");
    if is_json && is_utf8 { Ok(()) } else { Err(Bad::ContentType) }
}

/// The idempotency key, under either name.
pub(super) fn key(headers: &HeaderMap) -> Result<Option<String>, Bad> {
    match (single(headers, &KEY)?, single(headers, &X_KEY)?) {
        (Some(one), Some(other)) if one != other => {
            Err(Bad::request("there are two idempotency keys"))
        }
        (one, other) => Ok(one.or(other).map(str::to_owned)),
    }
}

/// Whether the client takes a stream of events.
pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = values.flat_map(|value| value.split(','));
    ranges.any(|range| {
        let (kind, parameters) = range.split_once(';').unwrap_or((range, ""));
        let is_never = parameters.split(';').any(|parameter| {
            let quality = parameter.trim().strip_prefix("q=");
            quality.is_some_and(|quality| quality.parse() == Ok(0.0_f32))
        });
        kind.trim().eq_ignore_ascii_case("text/event-stream") && !is_never
    })
}

/// Which page of the list a query asks for.
pub(super) fn page(query: Option<&str>) -> Result<Page, Bad> {
    let (mut cursor, mut limit) = (None, None);
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode_str(value).decode_utf8_lossy();
        match name {
            "cursor" if cursor.is_none() => {
                // What is longer is no cursor, and neither is this.
                cursor = Some(value.chars().take(Cursor::MAX_CHARS + 1).collect());
            }
            "limit" if limit.is_none() => {
                let number = value.parse().ok().filter(|number| *number > 0);
                let number = number.ok_or_else(|| Bad::request("`limit` is a number above 0"))?;
                limit = Some(PAGE_TOOLS_MAX.min(number));
            }
            _ => {
                return Err(Bad::request("the query has `cursor` and `limit`, once each, or less"));
            }
        }
    }
    Ok(Page { cursor, limit: limit.unwrap_or(PAGE_TOOLS) })
}

/// The text of a header that is there at most once.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Bad> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Bad::Request(format!("the header `{name}` is there twice")));
    }
    let text =
        value.to_str().map_err(|_| Bad::Request(format!("the header `{name}` is no text")))?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bodies_are_what_they_have_to_be_and_nothing_else() {
        let check = |text: &str, is_good: bool| {
            assert_eq!(parse::<Run>(text.as_bytes()).is_ok(), is_good, "{text}");
        };
        check("{}", true);
        check(r#"{"arguments":{"a":1},"requestState":"s","inputResponses":{}}"#, true);
        check(r#"{"args":{}}"#, false);
        check(r#"{"arguments":{},"arguments":{}}"#, false);
        check(r#"{"arguments":{"order":60,"order":61}}"#, false);
        check("[]", false);
        check(r#"[{"order":60}]"#, false);
        check(r#"{"requestState":1}"#, false);
        check(r#"{"inputResponses":[]}"#, false);
        check("", false);
        check("{} {}", false);
        let nested = |depth: usize| {
            format!(r#"{{"arguments":{}1{}}}"#, "[".repeat(depth), "]".repeat(depth))
        };
        check(&nested(32), true);
        check(&nested(33), false);
        check(&format!(r#"{{"arguments":"\"{}"}}"#, "[".repeat(99)), true);
    }

    proptest! {
        #[test]
        fn no_bytes_break_a_reader(bytes: Vec<u8>) {
            let _ = parse::<Run>(&bytes);
            let _ = page(std::str::from_utf8(&bytes).ok());
        }
    }

    #[test]
    fn a_body_says_that_it_is_json() {
        let check = |value: Option<&'static str>, is_good: bool| {
            let mut headers = HeaderMap::new();
            headers.extend(value.map(|value| (CONTENT_TYPE, HeaderValue::from_static(value))));
            assert_eq!(check_content_type(&headers).is_ok(), is_good, "{value:?}");
        };
        check(Some("application/json"), true);
        check(Some("Application/JSON ; charset=UTF-8"), true);
        check(Some("application/json; charset=\"utf-8\""), true);
        check(Some("application/json; charset=latin-1"), false);
        check(Some("text/plain"), false);
        check(Some("application/jsonl"), false);
        check(None, false);
    }

    #[test]
    fn a_key_has_two_names_and_one_value() {
        let check = |pairs: &[(&HeaderName, &'static str)], expected: Option<Option<&str>>| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, HeaderValue::from_static(value));
            }
            assert_eq!(key(&headers).ok(), expected.map(|key| key.map(str::to_owned)), "{pairs:?}");
        };
        check(&[], Some(None));
        check(&[(&KEY, "a")], Some(Some("a")));
        check(&[(&X_KEY, "a")], Some(Some("a")));
        check(&[(&KEY, "a"), (&X_KEY, "a")], Some(Some("a")));
        check(&[(&KEY, "a"), (&X_KEY, "b")], None);
        check(&[(&KEY, "a"), (&KEY, "a")], None);
    }

    #[test]
    fn events_are_for_who_takes_them() {
        let check = |value: &'static str, expected: bool| {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(value))]);
            assert_eq!(wants_events(&headers), expected, "{value}");
        };
        check("text/event-stream", true);
        check("application/json, Text/Event-Stream;q=0.5", true);
        check("text/event-stream;q=0", false);
        check("*/*", false);
        check("application/json", false);
    }

    #[test]
    fn a_query_asks_for_a_page() {
        let check = |query: Option<&str>, expected: Option<(Option<&str>, usize)>| {
            let expected =
                expected.map(|(cursor, limit)| Page { cursor: cursor.map(str::to_owned), limit });
            assert_eq!(page(query).ok(), expected, "{query:?}");
        };
        check(None, Some((None, 100)));
        check(Some("limit=5&cursor=a%2Db"), Some((Some("a-b"), 5)));
        check(Some("limit=99999"), Some((None, 1000)));
        for query in ["limit=0", "limit=x", "limit=1&limit=2", "cursor=a&cursor=b", "page=2"] {
            check(Some(query), None);
        }
    }
}
