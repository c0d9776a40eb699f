//! Why a token is refused: the exact reason for the audit, and the answer for everybody else.
//!
//! The two are different types, and `Display` of [`Refused`] prints the second. A caller that
//! formats an error into a response cannot tell an attacker which check failed.

use std::fmt;

/// The exact reason, for audit lines and operators. The order is the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Longer than its purpose allows; nothing was decoded.
    TooLong,
    /// Not canonical base64url, or not of a known form and size.
    Malformed,
    /// Names a key slot that is empty.
    UnknownSlot,
    /// The tag does not verify: forged, edited, or made for another context.
    NotOpened,
    /// Opened, but under a key that is retired.
    RetiredKey,
    /// Opened, but its time is over.
    Expired,
    /// Opened, but dated further ahead than its purpose allows.
    TooFar,
    /// Opened, but revoked.
    Revoked,
    /// Opened, but used before where single use is demanded.
    Replayed,
}

impl Reason {
    /// The name that audit lines carry.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::UnknownSlot => "unknown_slot",
            Self::NotOpened => "not_opened",
            Self::RetiredKey => "retired_key",
            Self::Expired => "expired",
            Self::TooFar => "too_far",
            Self::Revoked => "revoked",
            Self::Replayed => "replayed",
        }
    }

    /// What the caller may learn.
    #[must_use]
    pub const fn outside(self) -> Outside {
        match self {
            Self::RetiredKey | Self::Expired => Outside::Expired,
            Self::TooLong
            | Self::Malformed
            | Self::UnknownSlot
            | Self::NotOpened
            | Self::TooFar
            | Self::Revoked
            | Self::Replayed => Outside::Invalid,
        }
    }
}

/// Everything that a caller may learn about a refused token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a third answer would be a protocol change")]
pub enum Outside {
    /// It was good once. Said only of a token that opened.
    Expired,
    /// Anything else.
    Invalid,
}

impl Outside {
    /// `expired` or `invalid`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Invalid => "invalid",
        }
    }
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A token that was refused.
///
/// `Display` shows what the caller may learn; [`reason`](Self::reason) is for the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    reason: Reason,
}

impl Refused {
    /// The exact reason. Never send it to the caller.
    #[must_use]
    pub const fn reason(self) -> Reason {
        self.reason
    }

    /// What the caller may learn.
    #[must_use]
    pub const fn outside(self) -> Outside {
        self.reason.outside()
    }
}

impl From<Reason> for Refused {
    fn from(reason: Reason) -> Self {
        Self { reason }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.outside().fmt(f)
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_never_shows_the_reason() {
        for reason in [
            Reason::TooLong,
            Reason::Malformed,
            Reason::UnknownSlot,
            Reason::NotOpened,
            Reason::TooFar,
            Reason::Revoked,
            Reason::Replayed,
        ] {
            assert_eq!(Refused::from(reason).to_string(), "invalid");
        }
        assert_eq!(Refused::from(Reason::RetiredKey).to_string(), "expired");
        assert_eq!(Refused::from(Reason::Expired).to_string(), "expired");
    }
}
