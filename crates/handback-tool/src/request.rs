//! What a surface hands to the pipeline, and what it gets back.

use std::sync::{Arc, OnceLock};

use handback_identity::Caller;
use handback_token::{Operation, Outside, Reason};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::context::{Abilities, EventSink};
use crate::duplex::DuplexEnds;
use crate::input::Inputs;
use crate::outcome::Content;

/// Characters of an idempotency key at most.
pub const MAX_KEY_CHARS: usize = 255;

/// One call, as a surface read it. Nothing of it is checked but who calls.
#[derive(Debug)]
#[must_use]
pub struct Request {
    pub(crate) caller: Caller,
    pub(crate) surface: Surface,
    pub(crate) operation: Operation,
    pub(crate) name: String,
    pub(crate) arguments: Arguments,
    pub(crate) continuation: Option<Continuation>,
    pub(crate) key: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) upstream: Option<String>,
    pub(crate) abilities: Abilities,
    pub(crate) log_level: Option<String>,
    pub(crate) budget_bytes: Option<usize>,
    pub(crate) cancel: CancellationToken,
    pub(crate) events: Option<EventSink>,
    pub(crate) runs_on: bool,
    pub(crate) noted: Noted,
    pub(crate) ends: Option<DuplexEnds>,
}

/// Why a tool refused something, for the audit of its call.
pub(crate) type Noted = Arc<Notes>;

/// What a tool tells the audit of what it opens itself.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) reason: OnceLock<&'static str>,
    /// What came back, and its fingerprint.
    pub(crate) presented: OnceLock<(&'static str, String)>,
}

/// Where a call came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Surface {
    /// MCP.
    Mcp,
    /// Plain HTTP.
    Http,
    /// The UNIX socket.
    Socket,
    /// A duplex.
    Duplex,
    /// A library call.
    Library,
}

impl Surface {
    /// Its name in the audit.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Http => "http",
            Self::Socket => "socket",
            Self::Duplex => "duplex",
            Self::Library => "library",
        }
    }
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum Arguments {
    /// They come with every call; a cursor is bound to them.
    Given(Value),
    /// They come with the first call, and travel sealed in the cursor.
    Carried(Value),
    /// They are in the cursor.
    InCursor,
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the pipeline opens both")]
pub enum Continuation {
    /// A cursor.
    Cursor(String),
    /// The state of an exchange, with answers.
    State {
        /// The sealed state; nothing, if a client sent answers without one.
        state: Option<String>,
        /// The answers.
        answers: Map<String, Value>,
    },
}

impl Request {
    /// A call of a tool.
    pub fn call(caller: Caller, surface: Surface, name: impl Into<String>, args: Value) -> Self {
        Self::new(caller, surface, Operation::Call, name, Arguments::Given(args))
    }

    /// A call of anything.
    pub fn new(
        caller: Caller,
        surface: Surface,
        operation: Operation,
        name: impl Into<String>,
        arguments: Arguments,
    ) -> Self {
        Self {
            caller,
            surface,
            operation,
            name: name.into(),
            arguments,
            continuation: None,
            key: None,
            client: None,
            upstream: None,
            abilities: Abilities::default(),
            log_level: None,
            budget_bytes: None,
            cancel: CancellationToken::new(),
            events: None,
            runs_on: false,
            noted: Noted::default(),
            ends: None,
        }
    }

    /// With what came back.
    pub fn continuation(mut self, continuation: Continuation) -> Self {
        self.continuation = Some(continuation);
        self
    }

    /// With an idempotency key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// What the client calls itself: tokens are bound to it where a surface has such a name.
    pub fn client(mut self, client: impl Into<String>) -> Self {
        self.client = Some(client.into());
        self
    }

    /// What the client can do.
    pub const fn abilities(mut self, abilities: Abilities) -> Self {
        self.abilities = abilities;
        self
    }

    /// From which level on the caller wants log lines.
    pub fn log_level(mut self, level: impl Into<String>) -> Self {
        self.log_level = Some(level.into());
        self
    }

    /// Bytes that the client takes in one answer, for tools that can go on in another one: those of a
    /// text inside of JSON.
    pub const fn budget_bytes(mut self, bytes: usize) -> Self {
        self.budget_bytes = Some(bytes);
        self
    }

    /// Where events go.
    pub fn events(mut self, events: EventSink) -> Self {
        self.events = Some(events);
        self
    }

    /// What cancels it. Dropping the future of the call does so too.
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Whose caller goes on sending.
    pub fn duplex(mut self, ends: DuplexEnds) -> Self {
        self.ends = Some(ends);
        self
    }

    /// A caller that leaves does not cancel it, as on surfaces where a lost connection says nothing.
    pub const fn runs_on(mut self) -> Self {
        self.runs_on = true;
        self
    }
}

/// What a call gave, ready for the caller.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// What it is.
    pub reply: Reply,
    /// Whether it is the answer to an earlier try with the same key.
    pub is_replay: bool,
}

/// What a caller gets. Everything that comes back later is sealed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// The result.
    Done(Content),
    /// A page.
    Page {
        /// The items.
        items: Vec<Value>,
        /// The cursor of the next page; none after the last one.
        next: Option<String>,
    },
    /// Questions.
    NeedsInput {
        /// The questions.
        inputs: Inputs,
        /// The sealed state.
        state: String,
    },
    /// The tool says that it failed.
    Failed {
        /// In words.
        message: String,
        /// For programs.
        data: Option<Value>,
        /// If it is an error of the protocol, its code.
        code: Option<i32>,
    },
}

/// Why a call was not made, or has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such tool, or none for this caller.
    #[error("there is no such tool")]
    NotFound,
    /// The caller has as many calls under way as it may have.
    #[error("too many calls are under way")]
    Busy,
    /// The caller calls faster than it may.
    #[error("too many calls in a short time")]
    TooFast,
    /// So much is kept for the caller that what would come of the call must not be added. That lasts
    /// until some of it ends, which may be a day.
    #[error(
        "twice the quota `held.bytes_per_caller` is held and recorded for this caller: calls whose \
         outcome has to be kept are not made until some of it has ended"
    )]
    Quota,
    /// What came back does not open, or not any more. The caller learns which of the two, not why.
    #[error("{}", outside_sentence(*.outside))]
    Continuation {
        /// What the caller learns.
        outside: Outside,
        /// Why, for the audit.
        reason: Reason,
    },
    /// The arguments do not fit the tool.
    #[error("{0}")]
    BadArguments(String),
    /// The answers do not fit the questions.
    #[error("{0}")]
    BadAnswers(String),
    /// The key is none.
    #[error("an idempotency key has 1 to {MAX_KEY_CHARS} printable ASCII characters")]
    BadKey,
    /// The key was used for another call.
    #[error("this idempotency key was used for another call")]
    Mismatch,
    /// A call with this key was cut off, and what became of it is not known.
    #[error("a call with this key was cut off: whether it had its effect is not known")]
    Ambiguous,
    /// A call with this key is under way elsewhere.
    #[error("a call with this key is under way")]
    InFlight,
    /// The caller does not want it any more.
    #[error("the call was cancelled")]
    Cancelled,
    /// It took too long.
    #[error("the call took longer than it may")]
    TimedOut,
    /// The tool broke.
    #[error("the tool failed")]
    Broken,
    /// What it gave is larger than anything that is handed out.
    #[error("the result is larger than it may be")]
    TooLarge,
    /// The store does not answer.
    #[error("the server cannot do this now")]
    Unavailable,
}

impl Refusal {
    /// Its name in the audit.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Busy => "busy",
            Self::TooFast => "too_fast",
            Self::Quota => "quota",
            Self::Continuation { reason, .. } => reason.as_str(),
            Self::BadArguments(_) => "bad_arguments",
            Self::BadAnswers(_) => "bad_answers",
            Self::BadKey => "bad_key",
            Self::Mismatch => "mismatch",
            Self::Ambiguous => "ambiguous",
            Self::InFlight => "in_flight",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Broken => "broken",
            Self::TooLarge => "too_large",
            Self::Unavailable => "unavailable",
        }
    }

    /// Whether the same call may be made again with hope.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy | Self::TooFast | Self::InFlight | Self::Unavailable)
    }
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Self::Continuation { outside: reason.outside(), reason }
    }
}

/// The frozen sentences of what does not open.
const fn outside_sentence(outside: Outside) -> &'static str {
    match outside {
        Outside::Expired => "expired continuation: make the call again from the start",
        Outside::Invalid => "invalid continuation",
    }
}
