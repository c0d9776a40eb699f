//! Two streams under one idempotency key: the client's chunks go in, the server's events come out.
//!
//! `docs/spec/duplex.md` says what is on the wire, and what the records of the two streams mean.

mod codec;
mod frame;
mod handler;
mod json;
mod names;
mod protobuf;
#[cfg(test)]
mod tests;

pub use codec::FrameError;
pub use frame::{
    ClientFrame, Code, Event, EventBody, FRAME_BYTES_MAX, Format, Hello, KeyText, Mode, Proof,
    ServerFrame, Token, Welcome,
};
pub use handler::{
    Chunk, DuplexHandler, EVENT_BYTES_PER_CHUNK_MAX, EVENTS_PER_CHUNK_MAX, Echo, Mark,
};
pub use names::{DuplexName, FIRST_SEGMENT, is_path};

/// The producer that speaks for the client.
pub const CLIENT: &str = "hb:client";

/// The producer that speaks for the handler.
pub const HANDLER: &str = "hb:handler";

/// The writer sequence of an end that is an abort.
pub const ABORT: &str = "abort";

/// Bytes of a chunk, and of an event: what flow control lets through at once.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;

/// Bytes that may be on their way in one direction, not acknowledged.
pub const CREDIT_BYTES: u32 = 256 << 10;

/// Chunks or events that may be on their way in one direction, not acknowledged.
pub const CREDIT_EVENTS: u32 = 64;

/// Characters of an idempotency key.
pub const KEY_CHARS_MAX: usize = 128;

/// Whether a text can be an idempotency key: it becomes a segment of a path.
#[must_use]
pub fn is_idempotency_key(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    (1..=KEY_CHARS_MAX).contains(&text.len())
        && text.bytes().all(is_plain)
        && !matches!(text, "." | "..")
}
