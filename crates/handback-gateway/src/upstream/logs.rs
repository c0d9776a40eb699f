//! Levels of log messages, and requests that ask for them.
//!
//! A server of the newer era logs only what a request asks for, with `logLevel` in its `_meta`. On standard
//! streams its messages name no request. As long as one caller alone has asked for messages on a line, they
//! are for that caller. After that nobody gets them: one may come of a call that was given up, and would
//! reach somebody else.

use std::sync::{Arc, Mutex, PoisonError};

use handback_mcp::wire::Object;
use memchr::memmem;
use serde_json::value::RawValue;

/// The method of log messages.
pub(crate) const LOG_MESSAGE: &str = "notifications/message";

/// The method with which an older client sets the least level of log messages.
pub(crate) const SET_LEVEL: &str = "logging/setLevel";

/// The levels, the most harmless one first.
pub(crate) const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The member of `_meta` with the level from which on a request asks for messages.
pub(crate) const LEVEL_META: &str = "io.modelcontextprotocol/logLevel";

/// The number of a level among all: the more is at stake, the higher.
pub(crate) fn level_number(level: &str) -> Option<usize> {
    LEVELS.iter().position(|known| *known == level)
}

/// The log messages that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) owner: Option<Arc<str>>,
    /// The number of the least level.
    pub(super) level: usize,
}

impl Wanted {
    /// The messages that a request with these parameters asks for, if any.
    pub(super) fn of(params: Option<&[u8]>, owner: Option<Arc<str>>) -> Option<Self> {
        let is_there = |params: &&[u8]| memmem::find(params, LEVEL_META.as_bytes()).is_some();
        let params = params.filter(is_there)?;
        let params: &RawValue = serde_json::from_slice(params).ok()?;
        let params = Object::read(params).ok()?;
        let meta: &RawValue = serde_json::from_str(params.get("_meta")?).ok()?;
        let level = level_number(&Object::read(meta).ok()?.text(LEVEL_META)?)?;
        Some(Self { owner, level })
    }
}

/// The callers that have asked for messages on a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum LogsFor {
    #[default]
    Nobody,
    One(Option<Arc<str>>),
    Several,
}

impl LogsFor {
    pub(super) fn add(&mut self, owner: Option<Arc<str>>) {
        *self = match std::mem::take(self) {
            Self::Nobody => Self::One(owner),
            Self::One(known) if known == owner => Self::One(known),
            Self::One(_) | Self::Several => Self::Several,
        };
    }
}

/// The least level of the log messages that an older client has requested with `logging/setLevel`. Before
/// that request, the client gets every level. Clones share the level.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestedLevel(Arc<Mutex<Option<usize>>>);

impl RequestedLevel {
    /// Sets the level of this number.
    pub(crate) fn set(&self, level: usize) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    /// The name of the level, once it is set.
    pub(crate) fn name(&self) -> Option<&'static str> {
        self.number().and_then(|number| LEVELS.get(number).copied())
    }

    /// True if the client gets messages of this level.
    pub(crate) fn admits(&self, level: &str) -> bool {
        self.number().is_none_or(|least| level_number(level).is_some_and(|level| level >= least))
    }

    fn number(&self) -> Option<usize> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The level of a message with these parameters.
pub(super) fn level_of(params: Option<&[u8]>) -> Option<usize> {
    let params: &RawValue = serde_json::from_slice(params?).ok()?;
    level_number(&Object::read(params).ok()?.text("level")?)
}
