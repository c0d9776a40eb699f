use thiserror::Error;

/// Why a token was refused.
///
/// `Display` is the same for every variant, so that it may be shown to the caller. What exactly was
/// wrong is in [`reason`](Self::reason), for the audit only. No variant carries any part of the
/// token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error("invalid access token")]
#[non_exhaustive]
pub enum JwtError {
    /// Longer than [`MAX_TOKEN_BYTES`](super::MAX_TOKEN_BYTES); nothing was decoded.
    TooLong,
    /// Not three parts, or the signature is not base64url.
    Malformed,
    /// The header is not a JSON object with the expected members, each at most once.
    MalformedHeader,
    /// `alg` is not on the allow-list.
    AlgorithmNotAllowed,
    /// The header has `crit`: it demands an extension, and none is supported.
    CriticalExtension,
    /// `typ` is not the required one.
    WrongType,
    /// No key of the set has the token's `kid`, or the set is empty.
    ///
    /// The issuer may have rotated its keys: fetch the key set again, at a limited rate.
    UnknownKey,
    /// The token names no key, and the set holds several.
    AmbiguousKey,
    /// The key is not made for the token's `alg`.
    KeyMismatch,
    /// The signature does not hold.
    BadSignature,
    /// The claims are not a JSON object with the expected members, each at most once.
    MalformedClaims,
    /// `iss` is absent or another one.
    WrongIssuer,
    /// `aud` is absent or names none of the accepted audiences.
    ForeignAudience,
    /// There is no `exp`.
    MissingExpiry,
    /// `exp` has passed.
    Expired,
    /// `nbf` lies in the future.
    NotYetValid,
    /// `iat` lies in the future.
    IssuedInFuture,
    /// `sub` is absent, empty, too long or contains a NUL.
    InvalidSubject,
    /// A scope is not written as OAuth demands, or there are too many.
    InvalidScopes,
}

impl JwtError {
    /// The exact reason as a stable code, for the audit and never for the caller.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::MalformedHeader => "malformed_header",
            Self::AlgorithmNotAllowed => "algorithm_not_allowed",
            Self::CriticalExtension => "critical_extension",
            Self::WrongType => "wrong_type",
            Self::UnknownKey => "unknown_key",
            Self::AmbiguousKey => "ambiguous_key",
            Self::KeyMismatch => "key_mismatch",
            Self::BadSignature => "bad_signature",
            Self::MalformedClaims => "malformed_claims",
            Self::WrongIssuer => "wrong_issuer",
            Self::ForeignAudience => "foreign_audience",
            Self::MissingExpiry => "missing_expiry",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::IssuedInFuture => "issued_in_future",
            Self::InvalidSubject => "invalid_subject",
            Self::InvalidScopes => "invalid_scopes",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const ALL: [JwtError; 19] = [
        JwtError::TooLong,
        JwtError::Malformed,
        JwtError::MalformedHeader,
        JwtError::AlgorithmNotAllowed,
        JwtError::CriticalExtension,
        JwtError::WrongType,
        JwtError::UnknownKey,
        JwtError::AmbiguousKey,
        JwtError::KeyMismatch,
        JwtError::BadSignature,
        JwtError::MalformedClaims,
        JwtError::WrongIssuer,
        JwtError::ForeignAudience,
        JwtError::MissingExpiry,
        JwtError::Expired,
        JwtError::NotYetValid,
        JwtError::IssuedInFuture,
        JwtError::InvalidSubject,
        JwtError::InvalidScopes,
    ];

    #[test]
    fn text_is_frozen_for_every_cause() {
        assert!(ALL.iter().all(|error| error.to_string() == "invalid access token"));
    }

    #[test]
    fn every_cause_has_its_own_reason() {
        let reasons: HashSet<_> = ALL.iter().map(|error| error.reason()).collect();
        assert_eq!(reasons.len(), ALL.len());
    }
}
