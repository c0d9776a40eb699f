//! Who calls and what they were granted, or why they are refused.

use thiserror::Error;

use crate::jwt::{JwtError, ValidatedToken};
use crate::principal::VerifiedPrincipal;
use crate::scopes::Scopes;

/// The caller of one request: a checked identity and what it was granted.
///
/// One is made by an identity mode, by nothing else: [`Caller::unauthenticated`] where nobody is
/// identified, [`UnixPeers::caller`](crate::UnixPeers::caller) for peers that the operating system
/// names, [`Roster::identify`](crate::roster::Roster::identify) for bearer tokens of a file, and
/// `From<ValidatedToken>` for tokens of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Caller {
    principal: VerifiedPrincipal,
    scopes: Scopes,
    expires_at: Option<u64>,
}

impl Caller {
    /// Anybody, on a listener that identifies nobody. All scopes are granted, as nobody could
    /// grant any.
    ///
    /// # Security
    ///
    /// Only for a listener in mode `none`, and never as the fallback after a refusal.
    pub const fn unauthenticated() -> Self {
        let principal = VerifiedPrincipal::unauthenticated();
        Self { principal, scopes: Scopes::all(), expires_at: None }
    }

    /// Who it is.
    #[must_use]
    pub const fn principal(&self) -> &VerifiedPrincipal {
        &self.principal
    }

    /// Whether nobody was identified.
    #[must_use]
    pub const fn is_unauthenticated(&self) -> bool {
        self.principal.is_unauthenticated()
    }

    /// What was granted.
    #[must_use]
    pub const fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    /// When the credential ends, in seconds since the UNIX epoch, if it does.
    ///
    /// What was opened on the strength of it should end by then.
    #[must_use]
    pub const fn expires_at(&self) -> Option<u64> {
        self.expires_at
    }

    pub(crate) const fn new(
        principal: VerifiedPrincipal,
        scopes: Scopes,
        expires_at: Option<u64>,
    ) -> Self {
        Self { principal, scopes, expires_at }
    }
}

impl From<ValidatedToken> for Caller {
    fn from(token: ValidatedToken) -> Self {
        let scopes = Scopes::from_set(token.scopes().clone());
        Self::new(token.principal().clone(), scopes, Some(token.expires_at()))
    }
}

/// Why a request has no caller.
///
/// `Display` is one sentence for all that is wrong with a credential, an absent one included, so
/// that it may be shown. What exactly it was is in [`reason`](Self::reason), for the audit only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error("{}", self.sentence())]
#[non_exhaustive]
pub enum Refusal {
    /// There is no credential.
    Missing,
    /// There is more than one.
    Several,
    /// It is of another scheme than `Bearer`.
    OtherScheme,
    /// It is not written as RFC 6750 demands.
    Malformed,
    /// It is longer than any that is accepted.
    TooLong,
    /// It is none of those that were given out.
    Unknown,
    /// It was given out, and its time is over.
    Expired,
    /// It is a token of an issuer, and does not pass.
    Jwt(JwtError),
    /// Whether it is good cannot be told now: the keys of the issuer are not to be had.
    Unavailable,
}

impl Refusal {
    /// The exact reason as a stable code, for the audit and never for the caller.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Missing => "missing_credential",
            Self::Several => "several_credentials",
            Self::OtherScheme => "other_scheme",
            Self::Malformed => "malformed_credential",
            Self::TooLong => "credential_too_long",
            Self::Unknown => "unknown_credential",
            Self::Expired => "expired_credential",
            Self::Jwt(why) => why.reason(),
            Self::Unavailable => "identity_unavailable",
        }
    }

    /// Whether the caller showed nothing: then a challenge does not say that something was wrong.
    #[must_use]
    pub const fn is_missing(self) -> bool {
        matches!(self, Self::Missing)
    }

    /// Whether it is no fault of the caller, and worth another try later.
    #[must_use]
    pub const fn is_unavailable(self) -> bool {
        matches!(self, Self::Unavailable)
    }

    const fn sentence(self) -> &'static str {
        if self.is_unavailable() {
            "callers cannot be identified now"
        } else {
            "a valid credential is needed"
        }
    }
}

impl From<JwtError> for Refusal {
    fn from(why: JwtError) -> Self {
        Self::Jwt(why)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const ALL: [Refusal; 9] = [
        Refusal::Missing,
        Refusal::Several,
        Refusal::OtherScheme,
        Refusal::Malformed,
        Refusal::TooLong,
        Refusal::Unknown,
        Refusal::Expired,
        Refusal::Jwt(JwtError::Expired),
        Refusal::Unavailable,
    ];

    #[test]
    fn all_that_is_wrong_with_a_credential_reads_alike() {
        for refusal in ALL {
            let is_plain = refusal.to_string() == "a valid credential is needed";
            assert_eq!(is_plain, !refusal.is_unavailable(), "{refusal:?}");
        }
    }

    #[test]
    fn every_refusal_has_its_own_reason() {
        let reasons: HashSet<_> = ALL.iter().map(|refusal| refusal.reason()).collect();
        assert_eq!(reasons.len(), ALL.len());
    }

    #[test]
    fn debug_of_a_caller_shows_no_personal_data() {
        let caller = crate::UnixPeers::new("secret-host").unwrap().caller(1000);
        let shown = format!("{caller:?}");
        assert!(!shown.contains("secret-host") && !shown.contains("1000"), "{shown}");
    }
}
