//! What is around a message.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Bytes of an id at most: it is copied into every answer.
pub const MAX_ID_BYTES: usize = 1024;

/// Bytes of the name of a method at most.
pub const MAX_METHOD_BYTES: usize = 256;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Not JSON, not an object, or a member has the wrong kind or is there twice.
    #[error("the message is not a JSON-RPC object")]
    Malformed,
    /// Another version than 2.0.
    #[error("the message is not of JSON-RPC 2.0")]
    Version,
    /// An id that is neither a text nor a whole number, or too long.
    #[error("the id is neither a text nor a whole number, or too long")]
    Id,
    /// A method with a name that no method has.
    #[error("the name of the method is too long")]
    Method,
    /// Neither a request, nor a notification, nor an answer.
    #[error("the message asks nothing and answers nothing")]
    Shape,
}

/// The id of a request, as it was written.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id<'a>(Cow<'a, str>);

impl<'a> Id<'a> {
    /// One that a relay gives.
    #[must_use]
    pub fn number(number: u64) -> Id<'static> {
        Id(Cow::Owned(number.to_string()))
    }

    /// The id whose JSON this is.
    #[must_use]
    pub fn of_json(json: &'a str) -> Option<Self> {
        let raw: &RawValue = serde_json::from_str(json).ok()?;
        Self::read(raw).ok()
    }

    /// Its JSON.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// The number, if it is one that a relay can have given.
    #[must_use]
    pub fn as_number(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    /// For longer than the message.
    #[must_use]
    pub fn into_owned(self) -> Id<'static> {
        Id(Cow::Owned(self.0.into_owned()))
    }

    fn read(raw: &'a RawValue) -> Result<Self, MessageError> {
        let text = raw.get();
        let is_whole = |text: &str| {
            let digits = text.strip_prefix('-').unwrap_or(text);
            digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        if text.len() <= MAX_ID_BYTES && (text.starts_with('"') || is_whole(text)) {
            Ok(Self(Cow::Borrowed(text)))
        } else {
            Err(MessageError::Id)
        }
    }
}

/// Ids are the callers' own: they may tell something.
impl fmt::Debug for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({} bytes)", self.0.len())
    }
}

/// A message of JSON-RPC, in slices of its bytes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Message<'a> {
    /// Something to be answered.
    Request {
        /// What the answer is told by.
        id: Id<'a>,
        /// What is asked.
        method: Cow<'a, str>,
        /// About what.
        params: Option<&'a RawValue>,
    },
    /// Something to be heard.
    Notification {
        /// What is said.
        method: Cow<'a, str>,
        /// About what.
        params: Option<&'a RawValue>,
    },
    /// The answer to a request.
    Result {
        /// That of the request.
        id: Id<'a>,
        /// What came of it.
        result: &'a RawValue,
    },
    /// The answer to a request that failed. Without an id, the request could not be read.
    Error {
        /// That of the request.
        id: Option<Id<'a>>,
        /// What went wrong.
        error: &'a RawValue,
    },
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// A member that is there, if only as `null`.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

impl<'a> Message<'a> {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// [`MessageError`] if it is none.
    pub fn read(bytes: &'a [u8]) -> Result<Self, MessageError> {
        // Members that nobody looks at are texts as well.
        let text = str::from_utf8(bytes).map_err(|_| MessageError::Malformed)?;
        let envelope: Envelope<'a> =
            serde_json::from_str(text).map_err(|_| MessageError::Malformed)?;
        if envelope.jsonrpc != "2.0" {
            return Err(MessageError::Version);
        }
        let has_null_id = envelope.id.is_some_and(|id| id.get() == "null");
        let id = envelope.id.filter(|_| !has_null_id).map(Id::read).transpose()?;
        let Envelope { method, params, result, error, .. } = envelope;
        if method.as_ref().is_some_and(|method| method.len() > MAX_METHOD_BYTES) {
            return Err(MessageError::Method);
        }
        Ok(match (method, id, result, error) {
            (Some(method), Some(id), None, None) => Self::Request { id, method, params },
            (Some(method), None, None, None) if !has_null_id => {
                Self::Notification { method, params }
            }
            (None, Some(id), Some(result), None) => Self::Result { id, result },
            (None, id, None, Some(error)) => Self::Error { id, error },
            _ => return Err(MessageError::Shape),
        })
    }

    /// Its bytes, on one line if its parts are.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.body_length());
        out.extend_from_slice(br#"{"jsonrpc":"2.0""#);
        match self {
            Self::Request { id, method, params } => {
                write_id(id, &mut out);
                write_asked(method, *params, &mut out);
            }
            Self::Notification { method, params } => write_asked(method, *params, &mut out),
            Self::Result { id, result } => {
                write_id(id, &mut out);
                out.extend_from_slice(br#","result":"#);
                out.extend_from_slice(result.get().as_bytes());
            }
            Self::Error { id, error } => {
                match id {
                    Some(id) => write_id(id, &mut out),
                    None => out.extend_from_slice(br#","id":null"#),
                }
                out.extend_from_slice(br#","error":"#);
                out.extend_from_slice(error.get().as_bytes());
            }
        }
        out.push(b'}');
        out
    }

    fn body_length(&self) -> usize {
        match self {
            Self::Request { id, method, params } => {
                id.as_json().len() + method.len() + params.map_or(0, |params| params.get().len())
            }
            Self::Notification { method, params } => {
                method.len() + params.map_or(0, |params| params.get().len())
            }
            Self::Result { id, result } => id.as_json().len() + result.get().len(),
            Self::Error { error, .. } => MAX_ID_BYTES + error.get().len(),
        }
    }
}

fn write_id(id: &Id<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#","id":"#);
    out.extend_from_slice(id.as_json().as_bytes());
}

fn write_asked(method: &str, params: Option<&RawValue>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#","method":"#);
    // A text is always written.
    out.extend_from_slice(serde_json::Value::from(method).to_string().as_bytes());
    if let Some(params) = params {
        out.extend_from_slice(br#","params":"#);
        out.extend_from_slice(params.get().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_written_is_what_was_read() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a" :  [1.50, 1e3]}}"#,
            r#"{"jsonrpc":"2.0","id":"a\"\u00e9","method":"ping"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":-7,"result":{"x":1.0,"unknown":{"b":2,"a":1}}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
        ] {
            let message = Message::read(text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(message.to_bytes()).unwrap(), text);
        }
    }

    #[test]
    fn members_may_stand_in_any_order_and_escaped() {
        let text =
            br#" {"params":{} , "m\u0065thod":"p\u0069ng","id":1, "jsonrpc":"2.\u0030","x":[]} "#;
        let Ok(Message::Request { method, .. }) = Message::read(text) else { panic!("a request") };
        assert_eq!(method, "ping");
    }

    #[test]
    fn what_is_no_part_of_an_answer_is_not_passed_on() {
        for (text, written) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":"x","params":{},"y":0}"#, r#""result":"x""#),
            (r#"{"jsonrpc":"2.0","id":1,"error":{},"params":{},"method":null}"#, r#""error":{}"#),
        ] {
            let message = Message::read(text.as_bytes()).unwrap().to_bytes();
            let written = format!(r#"{{"jsonrpc":"2.0","id":1,{written}}}"#);
            assert_eq!(String::from_utf8(message).unwrap(), written);
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        use MessageError::{Id, Malformed, Method, Shape, Version};
        let long_id = format!("\"{}\"", "x".repeat(MAX_ID_BYTES));
        let long_id = format!(r#"{{"jsonrpc":"2.0","id":{long_id},"method":"a"}}"#);
        let long = json!({"jsonrpc": "2.0", "id": 1, "method": "x".repeat(300)}).to_string();
        for (text, why) in [
            ("", Malformed),
            ("[]", Malformed),
            ("{", Malformed),
            ("{}", Malformed),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#, Malformed),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, Malformed),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}} x"#, Malformed),
            (r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#, Version),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, Id),
            (r#"{"jsonrpc":"2.0","id":1e2,"method":"a"}"#, Id),
            (r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#, Id),
            (&long_id, Id),
            (&long, Method),
            (r#"{"jsonrpc":"2.0","id":1}"#, Shape),
            (r#"{"jsonrpc":"2.0"}"#, Shape),
            (r#"{"jsonrpc":"2.0","result":{}}"#, Shape),
            (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, Shape),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","result":{}}"#, Shape),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, Shape),
        ] {
            assert_eq!(Message::read(text.as_bytes()).unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_no_message() {
        for place in ["result", "other"] {
            let message =
                [br#"{"jsonrpc":"2.0","id":1,"error":0,""#, place.as_bytes(), b"\":\"\xff\"}"];
            assert_eq!(Message::read(&message.concat()).unwrap_err(), MessageError::Malformed);
        }
    }

    #[test]
    fn a_relay_finds_its_ids_again() {
        assert_eq!(Id::number(17).as_number(), Some(17));
        for other in [r#""17""#, "-17", "17.0", "99999999999999999999"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{other},"result":{{}}}}"#);
            match Message::read(text.as_bytes()) {
                Ok(Message::Result { id, .. }) => assert_eq!(id.as_number(), None, "{other}"),
                other => assert!(matches!(other, Err(MessageError::Id))),
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn bytes_are_a_message_or_an_error(bytes: Vec<u8>) {
            if let Ok(message) = Message::read(&bytes) {
                let again = message.to_bytes();
                let read: Value = serde_json::from_slice(&again).unwrap();
                let first: Value = serde_json::from_slice(&bytes).unwrap();
                for (name, value) in read.as_object().unwrap() {
                    proptest::prop_assert_eq!(Some(value), first.get(name));
                }
            }
        }
    }
}
