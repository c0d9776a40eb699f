//! Headers and query parameters of the protocol.

use handback_stream::{
    Life, MAX_CONTENT_TYPE_BYTES, MAX_COUNT, MAX_PRODUCER_ID_BYTES, MAX_WRITER_SEQ_BYTES,
    MINTED_PREFIX, Offset, ProducerTag, StreamKey,
};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;

pub(super) const NEXT_OFFSET: HeaderName = HeaderName::from_static("stream-next-offset");
pub(super) const CURSOR: HeaderName = HeaderName::from_static("stream-cursor");
pub(super) const UP_TO_DATE: HeaderName = HeaderName::from_static("stream-up-to-date");
pub(super) const CLOSED: HeaderName = HeaderName::from_static("stream-closed");
pub(super) const TTL: HeaderName = HeaderName::from_static("stream-ttl");
pub(super) const EXPIRES_AT: HeaderName = HeaderName::from_static("stream-expires-at");
pub(super) const SEQ: HeaderName = HeaderName::from_static("stream-seq");
pub(super) const FORKED_FROM: HeaderName = HeaderName::from_static("stream-forked-from");
pub(super) const FORK_OFFSET: HeaderName = HeaderName::from_static("stream-fork-offset");
pub(super) const FORK_SUB_OFFSET: HeaderName = HeaderName::from_static("stream-fork-sub-offset");
pub(super) const PRODUCER_ID: HeaderName = HeaderName::from_static("producer-id");
pub(super) const PRODUCER_EPOCH: HeaderName = HeaderName::from_static("producer-epoch");
pub(super) const PRODUCER_SEQ: HeaderName = HeaderName::from_static("producer-seq");
pub(super) const PRODUCER_EXPECTED: HeaderName = HeaderName::from_static("producer-expected-seq");
pub(super) const PRODUCER_RECEIVED: HeaderName = HeaderName::from_static("producer-received-seq");
pub(super) const STREAM_KEY: HeaderName = HeaderName::from_static("x-idempotent-encryption-key");
pub(super) const SSE_ENCODING: HeaderName = HeaderName::from_static("stream-sse-data-encoding");

/// A request that is not what the protocol says; for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bad(pub(super) &'static str);

/// The text of a header that is there at most once.
pub(super) fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Bad> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Bad("a header is there twice"));
    }
    value.to_str().map(Some).map_err(|_| Bad("a header is not text"))
}

/// An integer in decimals, without anything that could be left out.
fn integer(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_short = text == "0" || !text.starts_with('0');
    if is_plain && is_short { text.parse().ok() } else { None }
}

/// The stream's own key, if one was sent.
pub(crate) fn stream_key(headers: &HeaderMap) -> Result<Option<StreamKey>, Bad> {
    let key = text(headers, &STREAM_KEY)?.map(StreamKey::parse).transpose();
    key.map_err(|_| Bad("x-idempotent-encryption-key is 32 bytes in base64url without padding"))
}

pub(super) fn closed(headers: &HeaderMap) -> Result<bool, Bad> {
    Ok(text(headers, &CLOSED)?.is_some_and(|value| value.eq_ignore_ascii_case("true")))
}

/// The content type, if it is one.
pub(super) fn content_type(headers: &HeaderMap) -> Result<Option<&str>, Bad> {
    let Some(value) = text(headers, &CONTENT_TYPE)? else { return Ok(None) };
    if value.len() > MAX_CONTENT_TYPE_BYTES {
        return Err(Bad("the content type is too long"));
    }
    let is_token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let essence = value.split(';').next().unwrap_or_default().trim();
    let is_type = essence.split_once('/').is_some_and(|(a, b)| is_token(a) && is_token(b));
    Ok(is_type.then_some(value))
}

pub(super) fn life(headers: &HeaderMap) -> Result<Life, Bad> {
    match (text(headers, &TTL)?, text(headers, &EXPIRES_AT)?) {
        (None, None) => Ok(Life::Unlimited),
        (Some(_), Some(_)) => Err(Bad("Stream-TTL and Stream-Expires-At exclude each other")),
        (Some(ttl), None) => {
            let ttl_s = integer(ttl).ok_or(Bad("Stream-TTL is a number of seconds"))?;
            Ok(Life::Sliding { ttl_s })
        }
        (None, Some(until)) => {
            let bad = Bad("Stream-Expires-At is an RFC 3339 time");
            let until: jiff::Timestamp = match until.parse() {
                Ok(until) => until,
                // The last two days that RFC 3339 knows, which some write for "never", are too late
                // for a timestamp.
                Err(_) if is_last_days(until) => jiff::Timestamp::MAX,
                Err(_) => return Err(bad),
            };
            Ok(Life::Until(u64::try_from(until.as_millisecond()).unwrap_or(0)))
        }
    }
}

/// Whether this is a time at the end of the year 9999.
fn is_last_days(text: &str) -> bool {
    let days = ["9999-12-30", "9999-12-31"];
    let Some(day) = days.iter().find(|day| text.starts_with(*day)) else { return false };
    let sooner = text.replacen(*day, "9999-12-29", 1);
    sooner.parse::<jiff::Timestamp>().is_ok()
}

pub(super) fn writer_seq(headers: &HeaderMap) -> Result<Option<String>, Bad> {
    match text(headers, &SEQ)? {
        Some(seq) if seq.len() > MAX_WRITER_SEQ_BYTES => Err(Bad("Stream-Seq is too long")),
        seq => Ok(seq.map(str::to_owned)),
    }
}

/// The id of a producer whose epoch the server gives, which comes alone.
pub(super) fn minted_producer(headers: &HeaderMap) -> Result<&str, Bad> {
    let id = text(headers, &PRODUCER_ID)?.ok_or(Bad("Producer-Id is missing"))?;
    if headers.contains_key(PRODUCER_EPOCH) || headers.contains_key(PRODUCER_SEQ) {
        return Err(Bad("what is acquired has no epoch and no sequence yet"));
    }
    if !id.starts_with(MINTED_PREFIX) || id.len() > MAX_PRODUCER_ID_BYTES {
        return Err(Bad("epochs are given to producers whose ids start with hb:"));
    }
    Ok(id)
}

pub(super) fn producer(headers: &HeaderMap) -> Result<Option<ProducerTag>, Bad> {
    let id = text(headers, &PRODUCER_ID)?;
    let epoch = text(headers, &PRODUCER_EPOCH)?;
    let seq = text(headers, &PRODUCER_SEQ)?;
    let (id, epoch, seq) = match (id, epoch, seq) {
        (None, None, None) => return Ok(None),
        (Some(id), Some(epoch), Some(seq)) => (id, epoch, seq),
        _ => return Err(Bad("Producer-Id, Producer-Epoch and Producer-Seq go together")),
    };
    if id.is_empty() || id.len() > MAX_PRODUCER_ID_BYTES {
        return Err(Bad("Producer-Id is empty or too long"));
    }
    let count = |text: &str| {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let count = is_plain.then(|| text.parse::<u64>().ok()).flatten();
        count.filter(|count| *count <= MAX_COUNT)
    };
    let bad = Bad("Producer-Epoch and Producer-Seq are integers up to 2^53-1");
    Ok(Some(ProducerTag {
        id: id.to_owned(),
        epoch: count(epoch).ok_or(bad)?,
        seq: count(seq).ok_or(bad)?,
    }))
}

/// What a stream is to be forked from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ForkParams {
    /// The path of the source, with the route in front.
    pub(super) source: String,
    pub(super) number: Option<u64>,
    pub(super) part: u64,
}

pub(super) fn fork(headers: &HeaderMap) -> Result<Option<ForkParams>, Bad> {
    let offset = text(headers, &FORK_OFFSET)?;
    let part = text(headers, &FORK_SUB_OFFSET)?;
    let Some(source) = text(headers, &FORKED_FROM)? else {
        return match (offset, part) {
            (None, None) => Ok(None),
            _ => Err(Bad("a fork needs Stream-Forked-From")),
        };
    };
    let offset = offset.map(str::parse::<Offset>).transpose();
    let offset = offset.map_err(|_| Bad("Stream-Fork-Offset is not an offset"))?;
    let part = part.map(|part| integer(part).ok_or(Bad("Stream-Fork-Sub-Offset is a number")));
    Ok(Some(ForkParams {
        source: decoded(source)?,
        number: offset.map(Offset::number),
        part: part.transpose()?.unwrap_or(0),
    }))
}

/// Text as it was before it was put into a URL.
pub(super) fn decoded(text: &str) -> Result<String, Bad> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(std::borrow::Cow::into_owned).map_err(|_| Bad("the path is not UTF-8"))
}

/// Where to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Start,
    Now,
    After(Offset),
}

/// How to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Live {
    No,
    LongPoll,
    Sse,
}

/// What a read asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) from: From,
    pub(super) live: Live,
    pub(super) cursor: Option<String>,
    /// Whether records are wanted as they are stored, with what proves them.
    pub(super) records: bool,
}

impl Query {
    pub(super) fn parse(query: &str) -> Result<Self, Bad> {
        let (mut offset, mut live, mut cursor, mut records) = (None, None, None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let place = match name {
                "offset" => &mut offset,
                "live" => &mut live,
                "cursor" => &mut cursor,
                "records" => &mut records,
                _ => continue,
            };
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| Bad("the query is not UTF-8"))?.into_owned();
            if place.replace(value).is_some() {
                return Err(Bad("a parameter is there twice"));
            }
        }
        let live = match live.as_deref() {
            None => Live::No,
            Some("long-poll") => Live::LongPoll,
            Some("sse") => Live::Sse,
            Some(_) => return Err(Bad("live is long-poll or sse")),
        };
        let from = match offset.as_deref() {
            None if live == Live::No => From::Start,
            None => return Err(Bad("live reads need an offset")),
            Some("-1") => From::Start,
            Some("now") => From::Now,
            Some(offset) => From::After(offset.parse().map_err(|_| Bad("not an offset"))?),
        };
        let records = match records.as_deref() {
            None => false,
            Some("1") if live == Live::No => true,
            Some(_) => return Err(Bad("records is 1, and not for live reads")),
        };
        Ok(Self { from, live, cursor, records })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_spelling() {
        assert_eq!(integer("0"), Some(0));
        assert_eq!(integer("3600"), Some(3600));
        for text in ["", "+1", "01", "1.0", "1e3", "-1", " 1", "18446744073709551616"] {
            assert_eq!(integer(text), None, "{text:?}");
        }
    }

    #[test]
    fn every_time_of_rfc_3339_is_one() {
        let life = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(EXPIRES_AT, text.parse().unwrap());
            life(&headers)
        };
        assert_eq!(life("2030-01-01T00:00:00Z"), Ok(Life::Until(1_893_456_000_000)));
        let never = u64::try_from(jiff::Timestamp::MAX.as_millisecond()).unwrap();
        for text in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999+00:00"] {
            assert_eq!(life(text), Ok(Life::Until(never)), "{text}");
        }
        for text in ["9999-12-31", "9999-12-31T25:00:00Z", "9999-12-32T00:00:00Z", "never", ""] {
            assert!(life(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_query_says_where_and_how() {
        let zero = "0000000000000000_0000000000000000";
        let query = |text: &str| Query::parse(text).map(|query| (query.from, query.live));
        assert_eq!(query(""), Ok((From::Start, Live::No)));
        assert_eq!(query("offset=-1"), Ok((From::Start, Live::No)));
        assert_eq!(query("live=sse&offset=now"), Ok((From::Now, Live::Sse)));
        let after = From::After(Offset::after(0));
        assert_eq!(query(&format!("offset={zero}&other=1")), Ok((after, Live::No)));
        for text in [
            "offset=",
            "offset=1",
            "offset=-1&offset=-1",
            "live=sse",
            "live=x&offset=-1",
            "offset=%ff",
        ] {
            assert!(Query::parse(text).is_err(), "{text}");
        }
    }
}
