//! Frames as bytes: what both formats have in common.

use bytes::Bytes;

use super::frame::{ClientFrame, FRAME_BYTES_MAX, Format, ServerFrame};
use super::{KEY_CHARS_MAX, json, protobuf};

/// Characters of a token: the bound of `tokens.md`.
pub(super) const TOKEN_CHARS_MAX: usize = 512;

/// Characters of an event id: an offset has 33, and another server's may be longer.
pub(super) const EVENT_ID_CHARS_MAX: usize = 64;

/// Bytes of what is said to people.
pub(super) const MESSAGE_BYTES_MAX: usize = 1024;

/// Characters of a stream key: 32 bytes in base64url.
pub(super) const KEY_TEXT_CHARS_MAX: usize = 43;

/// Steps of a proof: a commit of 2^64 streams has no more.
pub(super) const PATH_STEPS_MAX: usize = 64;

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// More than [`FRAME_BYTES_MAX`]; nothing of it was read.
    #[error("a frame of more than {FRAME_BYTES_MAX} bytes")]
    TooLarge,
    /// What is wrong, without anything of what was received.
    #[error("malformed frame: {0}")]
    Malformed(&'static str),
}

pub(super) type Decoded<T> = Result<T, FrameError>;

impl ClientFrame {
    /// The frame as one message.
    #[must_use]
    pub fn encode(&self, format: Format) -> Bytes {
        match format {
            Format::Json => json::encode_client(self),
            Format::Protobuf => protobuf::encode_client(self),
        }
    }

    /// The frame that a message is.
    ///
    /// A chunk may have more bytes than [`CHUNK_BYTES_MAX`](super::CHUNK_BYTES_MAX): who receives it
    /// has an answer of its own for that.
    ///
    /// # Errors
    ///
    /// [`FrameError`] if it is none.
    pub fn decode(format: Format, bytes: &Bytes) -> Result<Self, FrameError> {
        bounded(bytes)?;
        let frame = match format {
            Format::Json => json::decode_client(bytes),
            Format::Protobuf => protobuf::decode_client(bytes),
        }?;
        match &frame {
            Self::Hello(hello) => {
                short(&hello.idempotency_key, KEY_CHARS_MAX, "idempotency_key")?;
                short_id(hello.event_id.as_ref())?;
                short_if(hello.resume_token.as_ref(), TOKEN_CHARS_MAX, "resume_token")?;
                let key = hello.encryption_key.as_ref().map(|key| &key.0);
                short_if(key, KEY_TEXT_CHARS_MAX, "encryption_key")?;
            }
            Self::Ack { event_id } => short_id(event_id.as_ref())?,
            Self::Chunk { .. } | Self::Close | Self::Abort => {}
        }
        Ok(frame)
    }
}

impl ServerFrame {
    /// The frame as one message. What is said to people is cut to 1,024 bytes.
    #[must_use]
    pub fn encode(&self, format: Format) -> Bytes {
        match format {
            Format::Json => json::encode_server(self),
            Format::Protobuf => protobuf::encode_server(self),
        }
    }

    /// The frame that a message is.
    ///
    /// # Errors
    ///
    /// [`FrameError`] if it is none.
    pub fn decode(format: Format, bytes: &Bytes) -> Result<Self, FrameError> {
        bounded(bytes)?;
        let frame = match format {
            Format::Json => json::decode_server(bytes),
            Format::Protobuf => protobuf::decode_server(bytes),
        }?;
        match &frame {
            Self::Welcome(welcome) => {
                short(&welcome.message, MESSAGE_BYTES_MAX, "message")?;
                short_if(welcome.reason.as_ref(), MESSAGE_BYTES_MAX, "reason")?;
                short_id(welcome.event_id.as_ref())?;
                short(&welcome.token.resume_token, TOKEN_CHARS_MAX, "resume_token")?;
            }
            Self::Event(event) if event.event_id.is_empty() => {
                return Err(FrameError::Malformed("event_id"));
            }
            Self::Event(event) => short(&event.event_id, EVENT_ID_CHARS_MAX, "event_id")?,
            Self::Proof(proof) => {
                if proof.commit.path.steps().count() > PATH_STEPS_MAX {
                    return Err(FrameError::Malformed("path"));
                }
            }
            Self::Token(token) => short(&token.resume_token, TOKEN_CHARS_MAX, "resume_token")?,
            Self::End { event_id, .. } => short_id(event_id.as_ref())?,
            Self::Error { message, .. } => short(message, MESSAGE_BYTES_MAX, "message")?,
            Self::Ack { .. } => {}
        }
        Ok(frame)
    }
}

const fn bounded(bytes: &Bytes) -> Decoded<()> {
    if bytes.len() > FRAME_BYTES_MAX { Err(FrameError::TooLarge) } else { Ok(()) }
}

const fn short(text: &str, bytes_max: usize, what: &'static str) -> Decoded<()> {
    if text.len() > bytes_max { Err(FrameError::Malformed(what)) } else { Ok(()) }
}

fn short_if(text: Option<&String>, bytes_max: usize, what: &'static str) -> Decoded<()> {
    text.map_or(Ok(()), |text| short(text, bytes_max, what))
}

fn short_id(event_id: Option<&String>) -> Decoded<()> {
    short_if(event_id, EVENT_ID_CHARS_MAX, "event_id")
}

/// What is said to people, as long as a reader takes it.
pub(super) fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MESSAGE_BYTES_MAX)).unwrap_or(text)
}
