//! What an upstream says, in slices of what arrived.

use bytes::Bytes;
use handback_mcp::wire::{Id, Message, MessageError};

use super::{Answer, Raw, meta};

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

impl Said {
    /// Reads a message.
    pub(super) fn read(bytes: &Bytes) -> Result<Self, MessageError> {
        let slice = |raw: &serde_json::value::RawValue| bytes.slice_ref(raw.get().as_bytes());
        Ok(match Message::read(bytes)? {
            Message::Result { id, result } => {
                let answer = Answer::Result(Raw::Memory(slice(result)));
                Self::Answer { to: To::id(&id), answer }
            }
            Message::Error { id, error } => Self::Answer {
                to: id.map_or(To::Unknown, |id| To::id(&id)),
                answer: Answer::Error(slice(error)),
            },
            Message::Request { id, method, params } => Self::Request {
                id: id.into_owned(),
                method: method.into_owned(),
                params: params.map(slice),
            },
            Message::Notification { method, params } => {
                Self::Notification { method: method.into_owned(), params: params.map(slice) }
            }
            _ => return Err(MessageError::Shape),
        })
    }
}

impl To {
    pub(super) fn id(id: &Id<'_>) -> Self {
        meta::number(id.as_json()).map_or(Self::Nobody, Self::Number)
    }
}
