//! How a duplex is doing.

use std::time::Duration;

use handback_stream::duplex::Mode;

use super::DuplexError;

/// How a duplex is doing.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Status {
    /// What it does.
    pub phase: Phase,
    /// What the server promised when it last answered.
    pub mode: Option<Mode>,
    /// Why that is less than durable.
    pub reason: Option<String>,
    /// The generation of the last connection.
    pub generation: u64,
    /// Attempts to connect that failed, one after the other.
    pub attempts: u32,
    /// When the next one comes.
    pub retry_in: Option<Duration>,
    /// Why the last connection ended.
    pub last_error: Option<String>,
    pub(super) outcome: Option<Result<Finished, DuplexError>>,
}

impl Status {
    /// Whether the server promises less than durability, or takes nothing. What is kept here stays.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.mode.is_some_and(Mode::is_degraded)
    }

    /// Why it stopped, if it did.
    #[must_use]
    pub fn error(&self) -> Option<&DuplexError> {
        self.outcome.as_ref()?.as_ref().err()
    }
}

/// What a duplex does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// There is no connection yet, or not again.
    #[default]
    Connecting,
    /// The server welcomed it.
    Open,
    /// It waits before the next attempt.
    Waiting,
    /// The server said that there is no more.
    Ended,
    /// It stopped, for the reason in [`Status::error`].
    Failed,
}

/// How a duplex ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finished {
    /// The last event.
    pub event_id: Option<String>,
    /// Whether an abort ended it.
    pub aborted: bool,
}
