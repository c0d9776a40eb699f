//! What is said on a connection, whatever it is written in.

use std::fmt;

use bytes::Bytes;

use crate::name::StreamId;
use crate::sign::KeyId;
use crate::verify::CommitProof;

/// Bytes of one message: a chunk in base64, and room for what is around it.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// How frames are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these two")]
pub enum Format {
    /// Text messages, one JSON object each.
    Json,
    /// Binary messages, one protobuf message each.
    Protobuf,
}

impl Format {
    /// What it is called in `Sec-WebSocket-Protocol`.
    #[must_use]
    pub const fn subprotocol(self) -> &'static str {
        match self {
            Self::Json => "handback.duplex.v1.json",
            Self::Protobuf => "handback.duplex.v1.protobuf",
        }
    }

    /// The format of a subprotocol.
    #[must_use]
    pub fn of_subprotocol(name: &str) -> Option<Self> {
        [Self::Json, Self::Protobuf].into_iter().find(|format| format.subprotocol() == name)
    }
}

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientFrame {
    /// Who it is, and where it stood.
    Hello(Hello),
    /// The next piece of what it sends.
    Chunk {
        /// Counted from 0.
        seqno: u32,
        /// The bytes.
        data: Bytes,
    },
    /// Events up to this one are kept; without one, the welcome was received.
    Ack {
        /// The last event that is kept.
        event_id: Option<String>,
    },
    /// There will be no more chunks.
    Close,
    /// All is to stop.
    Abort,
}

/// Who a client is, and where it stood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "clients write it as a literal")]
pub struct Hello {
    /// Which duplex.
    pub idempotency_key: String,
    /// The last event that was kept.
    pub event_id: Option<String>,
    /// The last token that was received.
    pub resume_token: Option<String>,
    /// The stream key, as text.
    pub encryption_key: Option<KeyText>,
    /// Whether events are to come as records, with proofs.
    pub proofs: bool,
}

/// A stream key as it is on the wire, not looked at yet. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to it")]
pub struct KeyText(pub String);

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText(..)")
    }
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerFrame {
    /// Where the duplex stands.
    Welcome(Box<Welcome>),
    /// This chunk and all before it are durable.
    Ack {
        /// Which one.
        seqno: u32,
    },
    /// One event.
    Event(Event),
    /// The commit that ends with a record of the stream of events.
    Proof(Box<Proof>),
    /// A fresh token.
    Token(Token),
    /// There are no more events.
    End {
        /// The last one.
        event_id: Option<String>,
        /// Whether an abort ended it.
        aborted: bool,
    },
    /// The connection closes, for this reason.
    Error {
        /// For programs.
        code: Code,
        /// For people.
        message: String,
        /// When to try again.
        retry_after_ms: Option<u64>,
    },
}

/// Where a duplex stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "servers write it as a literal")]
pub struct Welcome {
    /// Whether what is acknowledged is durable, or anything is taken at all.
    pub mode: Mode,
    /// Why it is degraded.
    pub reason: Option<String>,
    /// For people.
    pub message: String,
    /// Chunks before this one are there.
    pub next_seqno: u32,
    /// Events go on after this one.
    pub event_id: Option<String>,
    /// What to present at the next connection.
    pub token: Token,
    /// The generation of this connection.
    pub generation: u64,
    /// Events that may be sent without being acknowledged.
    pub credit_events: u32,
    /// Bytes of them.
    pub credit_bytes: u32,
    /// When to try again, if nothing is taken.
    pub retry_after_ms: Option<u64>,
    /// The stream of the client's chunks.
    pub in_stream: Option<StreamId>,
    /// The stream of the server's events, which proofs are about.
    pub out_stream: Option<StreamId>,
}

/// Whether writes are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these three")]
pub enum Mode {
    /// What is acknowledged is durable.
    Durable,
    /// What is acknowledged lives as long as the server's process.
    Memory,
    /// Nothing is taken; events are sent.
    ReadOnly,
}

impl Mode {
    /// Whether less than durable is promised.
    #[must_use]
    pub const fn is_degraded(self) -> bool {
        !matches!(self, Self::Durable)
    }

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Memory => "memory",
            Self::ReadOnly => "readonly",
        }
    }

    /// The mode of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Durable, Self::Memory, Self::ReadOnly].into_iter().find(|mode| mode.name() == name)
    }
}

/// A token, and how long it is good.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "servers write it as a literal")]
pub struct Token {
    /// The token.
    pub resume_token: String,
    /// For how long.
    pub resume_expires_in_ms: u64,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "servers write it as a literal")]
pub struct Event {
    /// What to tell at the next connection, when the event was kept.
    pub event_id: String,
    /// What it says.
    pub body: EventBody,
}

/// What an event says: plain, or as the record that is proved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these two")]
pub enum EventBody {
    /// The bytes.
    Data(Bytes),
    /// The record, which has the bytes (encrypted, if the stream has a key).
    Record {
        /// Its number in the stream.
        number: u64,
        /// It, as stored.
        record: Bytes,
    },
}

/// A signed commit, and by which key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "servers write it as a literal")]
pub struct Proof {
    /// What is proved.
    pub commit: CommitProof,
    /// Which key signed it.
    pub key: KeyId,
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// A frame that is none, or not now.
    Malformed,
    /// Key, token, event id or stream key are not right.
    Invalid,
    /// The token is late, or the duplex too old.
    Expired,
    /// A chunk that is too large.
    TooLarge,
    /// Chunks are missing before this one.
    Gap,
    /// Another chunk of this number is there.
    Conflict,
    /// A chunk after the end.
    Closed,
    /// A later connection has taken over.
    Superseded,
    /// There is no such handler.
    UnknownHandler,
    /// Too much at once.
    Busy,
    /// The store takes no writes.
    ReadOnly,
    /// The server is going down.
    Stopping,
    /// The credential has ended, or was revoked.
    Unauthorized,
}

impl Code {
    const ALL: [(Self, &'static str, u16); 13] = [
        (Self::Malformed, "MALFORMED", 400),
        (Self::Invalid, "INVALID", 400),
        (Self::Expired, "EXPIRED", 410),
        (Self::TooLarge, "TOO_LARGE", 413),
        (Self::Gap, "GAP", 409),
        (Self::Conflict, "CONFLICT", 409),
        (Self::Closed, "CLOSED", 409),
        (Self::Superseded, "SUPERSEDED", 403),
        (Self::UnknownHandler, "UNKNOWN_HANDLER", 404),
        (Self::Busy, "BUSY", 429),
        (Self::ReadOnly, "READ_ONLY", 503),
        (Self::Stopping, "STOPPING", 503),
        (Self::Unauthorized, "UNAUTHORIZED", 401),
    ];

    fn row(self) -> (Self, &'static str, u16) {
        let same = |(code, ..): &&(Self, &str, u16)| *code == self;
        Self::ALL.iter().find(same).copied().unwrap_or((self, "INVALID", 400))
    }

    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The code of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(code, ..)| *code)
    }

    /// What it is as the status of a response, before there is a WebSocket.
    #[must_use]
    pub fn http_status(self) -> u16 {
        self.row().2
    }

    /// What the WebSocket is closed with.
    #[must_use]
    pub fn close_code(self) -> u16 {
        4000 + self.row().2
    }
}
