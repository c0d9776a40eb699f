//! Outcomes as the journal keeps them: as the tool gave them. A replay seals them again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::continuation::RoundId;
use crate::input::Inputs;
use crate::outcome::{Content, Position};

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Recorded {
    Done(Content),
    Page {
        items: Vec<Value>,
        next: Option<Position>,
    },
    NeedsInput {
        inputs: Inputs,
        answers: serde_json::Map<String, Value>,
        state: Value,
        round: RoundId,
    },
    Failed {
        message: String,
        data: Option<Value>,
        code: Option<i32>,
    },
    /// It was done, and what it gave is larger than anything that is kept.
    TooLarge,
}

impl Recorded {
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// About how many bytes it has, counted no further than to a limit.
    pub(crate) fn exceeds(&self, limit: usize) -> bool {
        struct Counter(usize);

        impl std::io::Write for Counter {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::FileTooLarge)?;
                Ok(bytes.len())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        match self {
            Self::Done(Content::Text(text)) => text.len() > limit,
            Self::Done(Content::Raw(bytes)) => bytes.len() > limit,
            other => serde_json::to_writer(Counter(limit), other).is_err(),
        }
    }
}
