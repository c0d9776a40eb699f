//! The frames and messages of tools on a UNIX socket (ATD), as bytes: no sockets, no clock.
//!
//! ```text
//! frame   = u32be(length of the message) || message
//! message = one JSON object in UTF-8, of at most 10 MiB; its `type` says what it is
//! ```
//!
//! There are no ids: the n-th answer on a connection is to the n-th request.
//!
//! They are here, beside the frames of duplexes, because both ends have them.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Bytes of a message at most, as the protocol has it.
pub const MAX_FRAME_BYTES: usize = 10 << 20;

/// Bytes of the length in front of a message.
const LENGTH_BYTES: usize = 4;

/// Bytes of a message whose memory goes with it. The buffer of a shorter one is used again.
const OWN_BUFFER_BYTES: usize = 64 << 10;

/// Takes a stream of bytes apart into messages.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: BytesMut,
}

/// A message of more than [`MAX_FRAME_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to it")]
pub struct TooLong;

impl Frames {
    /// Where what was read is appended.
    pub const fn buffer_mut(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Whether nothing of a next frame is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next message, if all of it is there.
    ///
    /// # Errors
    ///
    /// [`TooLong`] as soon as a length says so, and ever after: where the next frame starts is not
    /// known any more.
    pub fn next_message(&mut self) -> Result<Option<Bytes>, TooLong> {
        let Some((length, rest)) = self.buffer.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| TooLong)?;
        if length > MAX_FRAME_BYTES {
            return Err(TooLong);
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.buffer.advance(LENGTH_BYTES);
        let message = self.buffer.split_to(length).freeze();
        if length > OWN_BUFFER_BYTES {
            // Otherwise the rest holds all of the memory for as long as the connection is idle.
            self.buffer = BytesMut::from(&*self.buffer);
        }
        Ok(Some(message))
    }

    /// Bytes of messages that are not complete.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }
}

/// A message as a frame.
///
/// # Errors
///
/// [`TooLong`] if it is longer than a frame can be. No more than that is written before.
pub fn frame(message: &impl Serialize) -> Result<Vec<u8>, TooLong> {
    let mut out = Bounded(vec![0; LENGTH_BYTES]);
    serde_json::to_writer(&mut out, message).map_err(|_| TooLong)?;
    let Bounded(mut bytes) = out;
    let length = u32::try_from(bytes.len().saturating_sub(LENGTH_BYTES)).map_err(|_| TooLong)?;
    if let Some(head) = bytes.first_chunk_mut() {
        *head = length.to_be_bytes();
    }
    Ok(bytes)
}

/// A frame that does not get too long.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LENGTH_BYTES + MAX_FRAME_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a client says. What is not in the published protocol is optional.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "a server answers each of them")]
pub enum ClientMessage {
    /// Is anybody there?
    Ping,
    /// What the client calls itself, and what it would like to be allowed.
    Hello {
        /// Its name for itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client_id: Option<String>,
        /// What it would like to be allowed.
        #[serde(default)]
        requested_capabilities: Vec<String>,
        /// Delegations, which are not taken here.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ucan_tokens: Vec<String>,
    },
    /// Which tools are there?
    ToolList,
    /// What is this tool?
    ToolSchema {
        /// Its name.
        tool_id: String,
    },
    /// Call a tool.
    RunTool {
        /// Its name.
        tool_id: String,
        /// The arguments.
        #[serde(default)]
        args: Value,
        /// Whether they are only to be checked.
        #[serde(default)]
        dry_run: bool,
        /// Ours: what makes a retry the same call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Go on with a walk.
    RunToolContinue {
        /// The name of the tool.
        tool_id: String,
        /// Where to.
        cursor: String,
        /// Ours: what makes a retry the same call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
}

/// What is no message, and why, in words for the one who sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadMessage(String);

/// Characters of the reason: it may repeat a part of the message.
const REASON_CHARS_MAX: usize = 200;

impl BadMessage {
    /// In words.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0
    }
}

impl ClientMessage {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// [`BadMessage`] if it is none.
    pub fn decode(message: &[u8]) -> Result<Self, BadMessage> {
        // A list of the members would be taken for them.
        if message.trim_ascii_start().first() != Some(&b'{') {
            return Err(BadMessage("it is no object".to_owned()));
        }
        serde_json::from_slice(message)
            .map_err(|error| BadMessage(error.to_string().chars().take(REASON_CHARS_MAX).collect()))
    }
}

/// What the server says. `R` is how a result is held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ServerMessage<R = Value> {
    /// Yes.
    Pong,
    /// To `hello`.
    HelloAck {
        /// What of the wishes is granted.
        #[serde(default)]
        granted_capabilities: Vec<String>,
        /// Who answers.
        #[serde(default)]
        server_version: String,
        /// The tiers that tools are sorted into.
        #[serde(default)]
        supported_tiers: Vec<String>,
    },
    /// The tools that this caller may use.
    ToolList {
        /// In the order of their names.
        tools: Vec<Value>,
    },
    /// A tool.
    ToolSchema {
        /// Its definition, in the protocol's form.
        schema: Value,
    },
    /// What a call gave.
    ToolResult {
        /// The name of the tool.
        tool_id: String,
        /// The result; of a call that failed, why.
        result: R,
        /// Whether it succeeded.
        success: bool,
        /// Whether the tool was not called, but only its arguments checked.
        dry_run: bool,
        /// Where the next page is, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_cursor: Option<String>,
        /// Ours: this is the answer to an earlier call with the same key.
        #[serde(default, skip_serializing_if = "is_false")]
        replayed: bool,
    },
    /// There is no answer.
    Error {
        /// In words.
        message: String,
        /// For programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<u16>,
        /// Whether the same request may be made again with hope.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retryable: Option<bool>,
        /// More for programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
    },
}

const fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text() -> impl Strategy<Value = String> + Clone {
        "\\PC{0,12}"
    }

    fn messages() -> impl Strategy<Value = ClientMessage> {
        let key = proptest::option::of(text());
        prop_oneof![
            Just(ClientMessage::Ping),
            Just(ClientMessage::ToolList),
            text().prop_map(|tool_id| ClientMessage::ToolSchema { tool_id }),
            (proptest::option::of(text()), proptest::collection::vec(text(), 0..3)).prop_map(
                |(client_id, wishes)| ClientMessage::Hello {
                    client_id,
                    ucan_tokens: wishes.clone(),
                    requested_capabilities: wishes,
                }
            ),
            (text(), text(), any::<i64>(), any::<bool>(), key.clone()).prop_map(
                |(tool_id, name, number, dry_run, idempotency_key)| ClientMessage::RunTool {
                    tool_id,
                    args: json!({ name: number }),
                    dry_run,
                    idempotency_key,
                }
            ),
            (text(), text(), key).prop_map(|(tool_id, cursor, idempotency_key)| {
                ClientMessage::RunToolContinue { tool_id, cursor, idempotency_key }
            }),
        ]
    }

    proptest! {
        #[test]
        fn messages_come_back_however_they_are_cut(
            sent in proptest::collection::vec(messages(), 1..5),
            piece in 1_usize..40,
        ) {
            let bytes: Vec<u8> = sent.iter().flat_map(|message| frame(message).unwrap()).collect();
            let (mut frames, mut got) = (Frames::default(), Vec::new());
            for piece in bytes.chunks(piece) {
                frames.buffer_mut().extend_from_slice(piece);
                while let Some(message) = frames.next_message().unwrap() {
                    got.push(ClientMessage::decode(&message).unwrap());
                }
            }
            prop_assert!(frames.is_empty());
            prop_assert_eq!(got, sent);
        }

        #[test]
        fn no_bytes_break_a_reader(bytes: Vec<u8>) {
            let mut frames = Frames::default();
            frames.buffer_mut().extend_from_slice(&bytes);
            while let Ok(Some(message)) = frames.next_message() {
                let _ = ClientMessage::decode(&message);
            }
        }
    }

    #[test]
    fn a_length_is_refused_before_what_it_promises_comes() {
        let check = |length: u32, expected| {
            let mut frames = Frames::default();
            frames.buffer_mut().extend_from_slice(&length.to_be_bytes());
            assert_eq!(frames.next_message(), expected, "{length}");
            assert_eq!(frames.next_message(), expected, "{length}, again");
        };
        check(10 * 1024 * 1024, Ok(None));
        check(10 * 1024 * 1024 + 1, Err(TooLong));
        check(u32::MAX, Err(TooLong));
    }

    #[test]
    fn a_frame_has_room_for_so_much_and_no_more() {
        // Two quotation marks belong to it.
        let longest = "x".repeat(MAX_FRAME_BYTES - 2);
        assert_eq!(frame(&longest).unwrap().len(), LENGTH_BYTES + MAX_FRAME_BYTES);
        assert_eq!(frame(&format!("{longest}x")), Err(TooLong));
        assert_eq!(frame(&json!({})).unwrap(), [0, 0, 0, 2, b'{', b'}']);
    }

    #[test]
    fn what_may_be_left_out_may_be_left_out() {
        let check = |text: &str, expected: Option<ClientMessage>| {
            assert_eq!(ClientMessage::decode(text.as_bytes()).ok(), expected, "{text}");
        };
        let run = |args, dry_run| ClientMessage::RunTool {
            tool_id: "t".to_owned(),
            args,
            dry_run,
            idempotency_key: None,
        };
        check(r#"{"type":"run_tool","tool_id":"t"}"#, Some(run(Value::Null, false)));
        let text = r#"{"type":"run_tool","tool_id":"t","args":[],"dry_run":true,"more":1}"#;
        check(text, Some(run(json!([]), true)));
        check(r#"{"type":"ping"} "#, Some(ClientMessage::Ping));
        check(r#"{"type":"ping"}x"#, None);
        check(r#"{"type":"run_tool"}"#, None);
        check(r#"{"type":"run_tool","tool_id":"t","tool_id":"u"}"#, None);
        check(r#"{"type":"cancel"}"#, None);
        check(r#"{}"#, None);
        check("", None);
    }
}
