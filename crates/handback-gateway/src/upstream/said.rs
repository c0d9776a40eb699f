//! What an upstream says, in slices of what arrived.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use handback_mcp::wire::{Id, Message};
use handback_wire::scan::Envelope;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::legible::without_bom;
use super::spool::Whole;
use super::{Answer, Raw, Spooled, meta};

/// Bytes of an error that came in a large message at most: an error is in memory.
const ERROR_BYTES_MAX: u64 = 64 << 10;

/// A message of an upstream.
#[derive(Debug)]
pub(super) enum Said {
    /// The answer to a question.
    Answer {
        /// Which question.
        to: To,
        /// What came of it.
        answer: Answer,
    },
    /// Something to be answered.
    Request {
        /// What the answer is told by.
        id: Id<'static>,
        /// What is asked.
        method: String,
        /// About what.
        params: Option<Bytes>,
    },
    /// Something to be heard.
    Notification {
        /// What is said.
        method: String,
        /// About what.
        params: Option<Bytes>,
    },
}

/// Whose answer something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// That of the question with this number.
    Number(u64),
    /// It has no id: the upstream could not read the question.
    Unknown,
    /// No id that this line gave.
    Nobody,
}

/// Why bytes say nothing.
#[derive(Clone, Debug)]
pub(super) enum Unsaid {
    /// They are no message.
    Malformed,
    /// They are one that has to be in memory, and too large for that. It may be an answer.
    TooLarge(To),
    /// They are a request that is too large in the same way. It can be refused.
    TooLargeRequest(Id<'static>),
}

impl Unsaid {
    /// Of a message that is too large.
    pub(super) fn too_large(envelope: &Envelope) -> Self {
        match envelope.message() {
            Ok(Message::Request { id, .. }) => Self::TooLargeRequest(id.into_owned()),
            _ => Self::TooLarge(To::of(envelope)),
        }
    }
}

impl Said {
    /// Reads a message.
    pub(super) fn of(whole: Whole) -> Result<Self, Unsaid> {
        match whole {
            Whole::Memory(bytes) => Self::read(&bytes),
            Whole::File(file, envelope) => Self::read_large(file, &envelope),
            Whole::Discarded(envelope) | Whole::Unwritten(envelope) => {
                Err(Unsaid::too_large(&envelope))
            }
            Whole::Malformed => Err(Unsaid::Malformed),
        }
    }

    /// Reads a message that is in memory.
    pub(super) fn read(bytes: &Bytes) -> Result<Self, Unsaid> {
        Self::read_strictly(bytes).or_else(|why| Self::read_kindly(bytes).ok_or(why))
    }

    /// Reads a message that is meant well: it begins with a byte order mark, or has the one of `result` and
    /// `error` that it does not have as `null`.
    #[cold]
    fn read_kindly(bytes: &Bytes) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Both<'a> {
            jsonrpc: String,
            #[serde(borrow)]
            id: &'a RawValue,
            #[serde(borrow)]
            result: &'a RawValue,
            #[serde(borrow)]
            error: &'a RawValue,
            method: Option<serde::de::IgnoredAny>,
        }

        let plain = bytes.slice_ref(without_bom(bytes));
        if plain.len() < bytes.len()
            && let Ok(said) = Self::read_strictly(&plain)
        {
            return Some(said);
        }
        let both: Both<'_> = serde_json::from_slice(&plain).ok()?;
        if both.jsonrpc != "2.0" || both.method.is_some() {
            return None;
        }
        let slice = |raw: &RawValue| plain.slice_ref(raw.get().as_bytes());
        let answer = match (both.result.get(), both.error.get()) {
            (_, "null") => Answer::Result(Raw::Memory(slice(both.result))),
            ("null", _) => Answer::Error(slice(both.error)),
            _ => return None,
        };
        let to = To::id(&Id::of_json(both.id.get())?);
        Some(Self::Answer { to, answer })
    }

    fn read_strictly(bytes: &Bytes) -> Result<Self, Unsaid> {
        let slice = |raw: &RawValue| bytes.slice_ref(raw.get().as_bytes());
        Ok(match Message::read(bytes).map_err(|_| Unsaid::Malformed)? {
            Message::Result { id, result } => {
                let answer = Answer::Result(Raw::Memory(slice(result)));
                Self::Answer { to: To::id(&id), answer }
            }
            Message::Error { id, error } => {
                Self::Answer { to: To::maybe(id.as_ref()), answer: Answer::Error(slice(error)) }
            }
            Message::Request { id, method, params } => Self::Request {
                id: id.into_owned(),
                method: method.into_owned(),
                params: params.map(slice),
            },
            Message::Notification { method, params } => {
                Self::Notification { method: method.into_owned(), params: params.map(slice) }
            }
            _ => return Err(Unsaid::Malformed),
        })
    }

    fn read_large(file: Arc<Spooled>, envelope: &Envelope) -> Result<Self, Unsaid> {
        let to = To::of(envelope);
        let answer = match (envelope.message(), envelope.result(), envelope.error()) {
            (Ok(Message::Result { .. }), Some(range), _) => {
                Answer::Result(Raw::File { file, range, more: Bytes::new() })
            }
            (Ok(Message::Error { .. }), _, Some(range)) => {
                Answer::Error(read(&file, range).ok_or(Unsaid::TooLarge(to))?)
            }
            (Ok(_), ..) => return Err(Unsaid::too_large(envelope)),
            (Err(_), ..) => return Err(Unsaid::Malformed),
        };
        Ok(Self::Answer { to, answer })
    }
}

fn read(file: &Spooled, range: Range<u64>) -> Option<Bytes> {
    let length = range.end.checked_sub(range.start).filter(|length| *length <= ERROR_BYTES_MAX)?;
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut bytes, range.start).ok()?;
    Some(Bytes::from(bytes))
}

impl To {
    fn id(id: &Id<'_>) -> Self {
        meta::number(id.as_json()).map_or(Self::Nobody, Self::Number)
    }

    fn maybe(id: Option<&Id<'_>>) -> Self {
        id.map_or(Self::Unknown, Self::id)
    }

    /// Whose answer a large message is, if it is one.
    pub(super) fn of(envelope: &Envelope) -> Self {
        match envelope.message() {
            Ok(Message::Result { id, .. }) => Self::id(&id),
            Ok(Message::Error { id, .. }) => Self::maybe(id.as_ref()),
            _ => Self::Nobody,
        }
    }
}

/// Whether only clients send requests of this method.
pub(super) fn is_of_clients(method: &str) -> bool {
    matches!(method, "initialize" | "server/discover")
}

/// Whether the result of `initialize` names a version.
pub(super) fn has_version(hello: &[u8]) -> bool {
    let hello: Option<Map<String, Value>> = serde_json::from_slice(hello).ok();
    hello.is_some_and(|hello| hello.get("protocolVersion").is_some_and(Value::is_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &'static [u8]) -> Option<(To, Result<String, String>)> {
        let text = |json: &Bytes| String::from_utf8(json.to_vec()).unwrap();
        match Said::read(&Bytes::from_static(line)) {
            Ok(Said::Answer { to, answer: Answer::Result(Raw::Memory(json)) }) => {
                Some((to, Ok(text(&json))))
            }
            Ok(Said::Answer { to, answer: Answer::Error(json) }) => Some((to, Err(text(&json)))),
            Err(Unsaid::Malformed) => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_meant_well_is_read() {
        let result = Some((To::Number(5), Ok("{\"a\":1}".to_owned())));
        assert_eq!(read(br#"{"jsonrpc":"2.0","id":5,"error":null,"result":{"a":1}}"#), result);
        assert_eq!(read(br#"{"jsonrpc":"2.0","id":"5","result":{"a":1},"error":null}"#), result);
        let with_mark = b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"a\":1}}";
        assert_eq!(read(with_mark), result);
        let error = Some((To::Number(5), Err("{\"code\":1}".to_owned())));
        assert_eq!(read(br#"{"jsonrpc":"2.0","id":5,"result":null,"error":{"code":1}}"#), error);
    }

    #[test]
    fn what_has_two_meanings_is_not_read() {
        let lines: [&[u8]; 5] = [
            br#"{"jsonrpc":"2.0","id":5,"result":{},"error":{}}"#,
            br#"{"jsonrpc":"2.0","id":5,"id":6,"result":{},"error":null}"#,
            br#"{"jsonrpc":"2.0","id":5,"method":"m","result":{},"error":null}"#,
            br#"{"jsonrpc":"1.0","id":5,"result":{},"error":null}"#,
            br#"{"id":5,"result":{},"error":null}"#,
        ];
        for line in lines {
            assert_eq!(read(line), None, "{}", String::from_utf8_lossy(line));
        }
    }
}
