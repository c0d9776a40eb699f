use std::time::Duration;

use super::merge::MergeError;
use crate::http::{Answer, HttpError};

/// Why there is no answer of a tool.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolsError {
    /// Nothing was asked: there is no server, or the request cannot be written.
    #[error("the server was not reached: {0}")]
    Unreached(String),
    /// It was asked, and the answer did not come. Whether the call was made is not known.
    #[error("the answer did not come, and whether the call was made is not known: {0}")]
    Lost(String),
    /// The answer is larger than this client takes. The call was made.
    #[error("the answer is larger than the {0} bytes that are taken")]
    TooLarge(usize),
    /// The server refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The server broke the protocol.
    #[error("the server broke the protocol: {0}")]
    Misbehaved(&'static str),
    /// Pages that cannot be merged.
    #[error(transparent)]
    Merge(#[from] MergeError),
}

/// A refusal: the call was not made, or what became of it is not told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server refused: {message} ({code})")]
#[non_exhaustive]
pub struct Refused {
    /// For programs: as `docs/spec/tools-http.md` has it, whatever the surface.
    pub code: String,
    /// For people.
    pub message: String,
    /// Whether the same call, with the same key, may be made again with hope.
    pub is_retryable: bool,
    /// Not before.
    pub retry_after: Option<Duration>,
}

/// The caller has as many calls under way as it may have: this one was not made.
const BUSY: &str = "busy";

impl Refused {
    pub(super) fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        let code = code.into();
        let is_retryable = matches!(code.as_str(), BUSY | "in_flight" | "unavailable");
        Self { code, message: message.into(), is_retryable, retry_after: None }
    }

    /// From an answer that has an error.
    pub(super) fn of(answer: &Answer) -> Self {
        let (code, message) = answer.error();
        let code = match code.is_empty() {
            true => answer.status.as_u16().to_string(),
            false => code,
        };
        let is_late = matches!(answer.status.as_u16(), 429 | 502 | 503 | 504);
        let refused = Self { retry_after: answer.retry_after(), ..Self::new(code, message) };
        // Whatever stands between may answer for the server.
        Self { is_retryable: refused.is_retryable || is_late, ..refused }
    }

    /// Whether a cursor or a state was refused.
    #[must_use]
    pub fn is_about_continuation(&self) -> bool {
        matches!(self.code.as_str(), "invalid" | "expired")
    }
}

impl ToolsError {
    /// What became of a call that got no answer over HTTP.
    pub(super) fn of_call(error: HttpError, response_max: usize) -> Self {
        match error {
            HttpError::Unanswered(why) => Self::Lost(why),
            HttpError::Late => Self::Lost(HttpError::Late.to_string()),
            HttpError::TooLarge => Self::TooLarge(response_max),
            HttpError::Unreached(why) => Self::Unreached(why),
            other => Self::Unreached(other.to_string()),
        }
    }

    /// Whether the same call may be made again, and not before when.
    pub(super) fn again(&self, is_keyed: bool) -> Option<Option<Duration>> {
        match self {
            Self::Refused(refused) => {
                let is_unmade = refused.code == BUSY;
                let may = is_unmade || (is_keyed && refused.is_retryable);
                may.then_some(refused.retry_after)
            }
            Self::Unreached(_) | Self::Lost(_) => is_keyed.then_some(None),
            _ => None,
        }
    }
}
