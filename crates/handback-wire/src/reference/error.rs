//! Why arguments are not resolved.

use handback_page::json::PointerError;

use super::find::{MAX_ARGUMENTS_DEPTH, MAX_REFERENCES};

/// Why the arguments of a call are not resolved. Then nothing goes upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceError {
    place: String,
    fault: Fault,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The arguments are not JSON.
    #[error("this is not JSON")]
    NotJson,
    /// They are nested too deeply to be looked through.
    #[error("arrays and objects are nested deeper than {MAX_ARGUMENTS_DEPTH}")]
    TooDeep,
    /// An object has `$held` and something else than a `path`.
    #[error("an object with '$held' may have a 'path' beside it, and nothing else")]
    Members,
    /// `$held` or `path` is not a text.
    #[error("'{0}' must be a string")]
    NotText(&'static str),
    /// The path is no JSON pointer.
    #[error("the path is no JSON pointer: {0}")]
    Pointer(PointerError),
    /// There are more references than a call may have.
    #[error("a call names at most {MAX_REFERENCES} held values")]
    TooMany,
    /// The handle is refused: the sentence is all that a caller learns.
    #[error("{}", .0.sentence())]
    Handle(HandleRefusal),
    /// A path into something that is text.
    #[error("the held value is text, which has no parts: leave the path away")]
    TextHasNoParts,
    /// There is nothing at the path.
    #[error("there is nothing at this path of the held value")]
    Nothing,
    /// What is held is neither JSON nor text.
    #[error("the held value is neither JSON nor text")]
    Unreadable,
    /// The value may not go there.
    #[error("what '{from}' gave may not go to '{to}'; the configuration can allow it")]
    Direction {
        /// The upstream that made it.
        from: String,
        /// Where it was to go.
        to: String,
    },
    /// Together the values are larger than they may be.
    #[error("the held values of a call may have {limit} bytes together")]
    TooLarge {
        /// How many they may have.
        limit: u64,
    },
    /// The arguments do not fit the schema of the tool.
    #[error("{0}")]
    Schema(String),
    /// The store does not answer.
    #[error("what is held cannot be read now")]
    Unavailable,
}

/// What a caller learns of a handle that is refused, and what the audit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are three answers outside")]
pub enum HandleRefusal {
    /// It was the caller's, until a while ago.
    Expired,
    /// No handle, unknown, long gone, or somebody else's.
    Unknown,
    /// It was revoked, which the caller is not told.
    Revoked,
    /// Its checksum is wrong. Nothing was looked up.
    Mistyped,
}

impl HandleRefusal {
    /// One of three frozen sentences.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Expired => "expired handle: make the call that gave it once more",
            Self::Unknown | Self::Revoked => "invalid handle",
            Self::Mistyped => "mistyped handle: copy it again, a character of it is another one",
        }
    }

    /// One word for it: `expired`, `invalid` or `mistyped`.
    #[must_use]
    pub const fn outside(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Unknown | Self::Revoked => "invalid",
            Self::Mistyped => "mistyped",
        }
    }
}

impl ReferenceError {
    pub(super) const fn new(place: String, fault: Fault) -> Self {
        Self { place, fault }
    }

    /// Where in the arguments, as a JSON pointer.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What is wrong.
    #[must_use]
    pub const fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Why, as audit lines name it.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match &self.fault {
            Fault::Handle(HandleRefusal::Expired) => "expired_handle",
            Fault::Handle(HandleRefusal::Unknown) => "unknown_handle",
            Fault::Handle(HandleRefusal::Mistyped) => "mistyped_handle",
            Fault::Handle(HandleRefusal::Revoked) => "revoked",
            Fault::Direction { .. } => "direction",
            Fault::Unavailable => "unavailable",
            _ => "bad_arguments",
        }
    }

    /// What a client can go by: as [`reason`](Self::reason), except that handles are told apart in
    /// three ways only.
    #[must_use]
    pub const fn outside(&self) -> &'static str {
        match &self.fault {
            Fault::Handle(refusal) => refusal.outside(),
            _ => self.reason(),
        }
    }
}

/// What the caller is told. The sentences about handles are frozen: they do not say where.
impl std::fmt::Display for ReferenceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.fault, self.place.as_str()) {
            (Fault::Handle(refusal), _) => f.write_str(refusal.sentence()),
            (fault, "") => write!(f, "the arguments: {fault}"),
            (fault, place) => write!(f, "`{place}`: {fault}"),
        }
    }
}

impl std::error::Error for ReferenceError {}
