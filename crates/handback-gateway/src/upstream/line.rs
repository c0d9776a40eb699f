//! One connection to an upstream.

use std::time::Duration;

use bytes::Bytes;
use handback_mcp::Era;
use handback_mcp::wire::Id;
use tokio::sync::mpsc;

use super::{Raw, Spec};

/// How a line is begun.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has two eras")]
pub enum Opening {
    /// Nothing is agreed beforehand: every question says what it needs in its `_meta`.
    Modern,
    /// With `initialize`, whose parameters these are, as JSON; then `notifications/initialized`.
    Legacy {
        /// The parameters.
        initialize: Bytes,
    },
}

/// A question.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Ask {
    /// The method.
    pub method: String,
    /// The JSON of its parameters.
    pub params: Option<Bytes>,
    /// Headers that the protocol demands over HTTP, such as `Mcp-Name` and `Mcp-Param-*`.
    pub headers: Vec<(String, String)>,
    /// Where what comes before the answer goes. Without it, that is dropped, and requests of the
    /// upstream are refused.
    pub heard: Option<mpsc::Sender<Heard>>,
    /// How long the answer may take; the upstream's own limit if nothing is said.
    pub time_limit: Option<Duration>,
    /// The id of a subscription as the client knows it, as JSON: what is heard of it has this one.
    pub subscription: Option<Bytes>,
}

/// What comes before the answer to a question, and belongs to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Heard {
    /// Something to be heard.
    Notification {
        /// What is said.
        method: String,
        /// The JSON of its parameters.
        params: Option<Bytes>,
    },
    /// Something to be answered with [`Line::answer`].
    Request {
        /// What the answer is told by.
        id: Id<'static>,
        /// What is asked.
        method: String,
        /// The JSON of its parameters.
        params: Option<Bytes>,
    },
}

/// What comes from an upstream and belongs to no question.
pub type Spontaneous = Heard;

/// The answer to a question.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has no third answer")]
pub enum Answer {
    /// The JSON of the result.
    Result(Raw),
    /// The JSON of the error object.
    Error(Bytes),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// It could not be reached, so that nothing was asked.
    #[error("the upstream cannot be reached: {0}")]
    Unreachable(String),
    /// It may have been asked, and did not answer.
    #[error("the upstream went away before it answered")]
    Lost,
    /// It took longer than it may.
    #[error("the upstream took longer than it may")]
    TimedOut,
    /// The answer is larger than it may be.
    #[error("the answer of the upstream is larger than it may be")]
    TooLarge,
    /// What it says is no answer.
    #[error("the upstream does not speak the protocol: {0}")]
    Protocol(&'static str),
    /// It does not speak this era.
    #[error("the upstream does not speak this revision of the protocol")]
    Era,
    /// As much is under way as may be.
    #[error("too much is under way at the upstream")]
    Busy,
}

impl LineError {
    /// Whether the upstream has certainly not been asked.
    #[must_use]
    pub const fn nothing_happened(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Busy | Self::Era)
    }
}

/// One connection to an upstream. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Line {}

impl Line {
    /// Opens a line. What belongs to no question goes to `spontaneous`.
    ///
    /// # Errors
    ///
    /// [`LineError`] if it does not come about.
    pub async fn open(
        spec: &Spec,
        opening: Opening,
        spontaneous: mpsc::Sender<Spontaneous>,
    ) -> Result<Self, LineError> {
        let _ = (spec, opening, spontaneous);
        Err(LineError::Era)
    }

    /// A line to our own tools, in this process, for one caller.
    ///
    /// # Errors
    ///
    /// [`LineError`] if it does not come about.
    pub async fn open_own(
        server: &handback_mcp::server::McpServer,
        caller: &handback_identity::Caller,
        opening: Opening,
        spontaneous: mpsc::Sender<Spontaneous>,
    ) -> Result<Self, LineError> {
        let _ = (server, caller, opening, spontaneous);
        Err(LineError::Era)
    }

    /// The era that is spoken on it.
    #[must_use]
    pub fn era(&self) -> Era {
        Era::Modern
    }

    /// The result of `initialize`, of the older era.
    #[must_use]
    pub fn hello(&self) -> Option<&Bytes> {
        None
    }

    /// Asks. Whoever drops the future does not want the answer any more, and the upstream is told so.
    ///
    /// # Errors
    ///
    /// [`LineError`] if there is no answer.
    pub async fn ask(&self, ask: Ask) -> Result<Answer, LineError> {
        let _ = ask;
        Err(LineError::Lost)
    }

    /// Says something that is not answered.
    ///
    /// # Errors
    ///
    /// [`LineError`] if it could not be said.
    pub async fn tell(&self, method: &str, params: Option<Bytes>) -> Result<(), LineError> {
        let _ = (method, params);
        Err(LineError::Lost)
    }

    /// Answers a request of the upstream: with the JSON of a result, or of an error object.
    ///
    /// # Errors
    ///
    /// [`LineError`] if it could not be said.
    pub async fn answer(
        &self,
        id: Id<'static>,
        with: Result<Bytes, Bytes>,
    ) -> Result<(), LineError> {
        let _ = (id, with);
        Err(LineError::Lost)
    }

    /// Resolves when the line is gone for good.
    pub async fn closed(&self) {
        std::future::pending().await
    }
}
