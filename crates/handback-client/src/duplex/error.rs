//! Why a duplex stops, split by who is to blame.

use std::sync::Arc;

use handback_stream::VerifyError;
use handback_stream::duplex::{CHUNK_BYTES_MAX, Code};

use crate::http::{HttpError, UrlError};
use crate::keys::KeysError;
use crate::state::StateError;

/// Why a duplex stops, or does not start.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DuplexError {
    /// The options do not go together.
    #[error("the options are not right: {0}")]
    Options(&'static str),
    /// The address is none.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A chunk that no server takes.
    #[error("a chunk of more than {CHUNK_BYTES_MAX} bytes")]
    ChunkTooLarge,
    /// As many chunks as numbers.
    #[error("there are no numbers left for chunks")]
    TooManyChunks,
    /// A chunk after [`close`](super::Duplex::close) or [`abort`](super::Duplex::abort).
    #[error("it was closed before")]
    AlreadyClosed,
    /// All events were handed out and the duplex is over: nothing can be sent any more.
    #[error("it has ended")]
    AlreadyEnded,

    /// Another process, or another part of this one, drives the duplex.
    #[error("another process drives this duplex")]
    Owned,
    /// Another connection took over, with the same key.
    #[error("another connection has taken over")]
    Superseded,

    /// It was not resumed in time.
    #[error("it was not resumed in time")]
    Expired,
    /// The server does not know it so: key, token, event or stream key are not right.
    #[error("the server refused the key, the token, the event or the stream key")]
    Invalid,
    /// The server refused, for another reason.
    #[error("the server refused: {} {message}", code.name())]
    Refused {
        /// For programs.
        code: Code,
        /// For people.
        message: String,
    },
    /// The server answered with a status instead of a WebSocket.
    #[error("the server answered {status} {message}")]
    Status {
        /// The status.
        status: u16,
        /// What it said.
        message: String,
    },

    /// The server broke the protocol.
    #[error("the server broke the protocol: {0}")]
    Misbehaved(&'static str),
    /// Events are not what was signed.
    #[error("the events are not proved")]
    Unproved(#[from] VerifyError),
    /// What the server had proved before is not there any more, or is something else.
    #[error("the server has gone back: record {number} is not what it had proved")]
    RolledBack {
        /// The record.
        number: u64,
    },
    /// A proof by a key that is not believed.
    #[error("a proof is signed by the key {0}, which is not believed")]
    UnknownKey(String),
    /// An event that the stream key does not open.
    #[error("event {number} does not open under the stream key")]
    NotOpened {
        /// The record.
        number: u64,
    },

    /// The connection broke, and the operation is not idempotent: what became of it is not known.
    #[error("the connection broke, and the operation is not to be resumed: {0}")]
    Cut(String),
    /// The server was not reached for as long as a duplex can be resumed.
    #[error("the server was not reached: {0}")]
    Unreachable(String),
    /// The keys of the server could not be had.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// No client could be made.
    #[error(transparent)]
    Http(#[from] HttpError),

    /// What is kept on the disk.
    #[error("failed to keep the state")]
    State(#[source] Arc<StateError>),
    /// The task that drives it is gone: the runtime was shut down, or it panicked.
    #[error("it is not driven any more")]
    Stopped,
}

/// Who is to blame for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blame {
    /// Whoever calls this library.
    Caller,
    /// The server refused by its rules.
    Refused,
    /// The server, or who pretends to be it, does not keep the protocol or its word.
    Server,
    /// What is in between.
    Network,
    /// Another client of the same duplex.
    Rival,
    /// This machine.
    Machine,
}

impl DuplexError {
    /// Who is to blame.
    #[must_use]
    pub const fn blame(&self) -> Blame {
        match self {
            Self::Options(_)
            | Self::Url(_)
            | Self::ChunkTooLarge
            | Self::TooManyChunks
            | Self::AlreadyClosed
            | Self::AlreadyEnded => Blame::Caller,
            Self::Owned | Self::Superseded => Blame::Rival,
            Self::Expired | Self::Invalid | Self::Refused { .. } | Self::Status { .. } => {
                Blame::Refused
            }
            Self::Misbehaved(_)
            | Self::Unproved(_)
            | Self::RolledBack { .. }
            | Self::UnknownKey(_)
            | Self::NotOpened { .. } => Blame::Server,
            Self::Cut(_) | Self::Unreachable(_) | Self::Keys(_) => Blame::Network,
            Self::Http(_) | Self::State(_) | Self::Stopped => Blame::Machine,
        }
    }
}

impl From<StateError> for DuplexError {
    fn from(why: StateError) -> Self {
        match why {
            StateError::Owned { .. } => Self::Owned,
            why => Self::State(Arc::new(why)),
        }
    }
}
