use thiserror::Error;

use super::{Algorithm, JwtError};
use crate::principal::{InvalidIdentity, Issuer, STATIC_ISSUER_PREFIX, UNIX_ISSUER_PREFIX};

/// The algorithms that a policy admits unless told otherwise.
pub const DEFAULT_ALGORITHMS: [Algorithm; 5] =
    [Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::Es384, Algorithm::EdDsa];

/// How far the issuer's clock and ours may differ unless told otherwise, in seconds.
pub const DEFAULT_SKEW_SECONDS: u64 = 60;

/// The largest skew that a policy accepts, in seconds.
///
/// Skew prolongs every token. Past ten minutes a clock wants repair, not tolerance.
pub const MAX_SKEW_SECONDS: u64 = 600;

/// Which tokens are accepted: one issuer, our audiences, and how they must be signed.
///
/// ```
/// use handback_identity::jwt::{Algorithm, JwtPolicy};
///
/// let policy = JwtPolicy::new("https://id.example", ["https://tools.example"])?
///     .with_algorithms([Algorithm::Es256])?
///     .with_skew(30)?
///     .with_required_type("at+jwt")?;
/// # Ok::<(), handback_identity::jwt::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct JwtPolicy {
    pub(super) issuer: Issuer,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    skew: u64,
    required_type: Option<String>,
}

impl JwtPolicy {
    /// A policy for tokens of `issuer` that are meant for one of `audiences`.
    ///
    /// The issuer is compared byte by byte, with no normalisation of case, port or trailing slash.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] if the issuer can not be part of a principal or is reserved, or if there is
    /// no audience or an empty one.
    pub fn new<A>(issuer: &str, audiences: A) -> Result<Self, PolicyError>
    where
        A: IntoIterator<Item: Into<String>>,
    {
        if [UNIX_ISSUER_PREFIX, STATIC_ISSUER_PREFIX].iter().any(|own| issuer.starts_with(own)) {
            return Err(PolicyError::ReservedIssuer);
        }
        let audiences: Vec<String> = audiences.into_iter().map(Into::into).collect();
        if audiences.is_empty() {
            return Err(PolicyError::NoAudience);
        }
        if audiences.iter().any(String::is_empty) {
            return Err(PolicyError::EmptyAudience);
        }
        Ok(Self {
            issuer: Issuer::new(issuer)?,
            audiences,
            algorithms: DEFAULT_ALGORITHMS.to_vec(),
            skew: DEFAULT_SKEW_SECONDS,
            required_type: None,
        })
    }

    /// Replaces the algorithm allow-list, which is [`DEFAULT_ALGORITHMS`] at first.
    ///
    /// # Errors
    ///
    /// [`PolicyError::NoAlgorithm`] if the list is empty.
    pub fn with_algorithms<A>(self, algorithms: A) -> Result<Self, PolicyError>
    where
        A: IntoIterator<Item = Algorithm>,
    {
        let algorithms: Vec<Algorithm> = algorithms.into_iter().collect();
        if algorithms.is_empty() {
            return Err(PolicyError::NoAlgorithm);
        }
        Ok(Self { algorithms, ..self })
    }

    /// Sets the tolerated difference of clocks, which is [`DEFAULT_SKEW_SECONDS`] at first.
    ///
    /// # Errors
    ///
    /// [`PolicyError::SkewTooLarge`] above [`MAX_SKEW_SECONDS`].
    pub fn with_skew(self, seconds: u64) -> Result<Self, PolicyError> {
        if seconds > MAX_SKEW_SECONDS {
            return Err(PolicyError::SkewTooLarge);
        }
        Ok(Self { skew: seconds, ..self })
    }

    /// Demands this `typ` in the header, such as `at+jwt` (RFC 9068), which keeps ID tokens out.
    ///
    /// Compared without regard to case, and with or without the prefix `application/`, as RFC
    /// 7515 (section 4.1.9) asks.
    ///
    /// # Errors
    ///
    /// [`PolicyError::EmptyType`] if nothing is left of the type.
    pub fn with_required_type(self, typ: &str) -> Result<Self, PolicyError> {
        let typ = media_subtype(typ);
        if typ.is_empty() {
            return Err(PolicyError::EmptyType);
        }
        Ok(Self { required_type: Some(typ), ..self })
    }

    pub(super) fn check_algorithm(&self, name: &str) -> Result<Algorithm, JwtError> {
        Algorithm::from_name(name)
            .filter(|algorithm| self.algorithms.contains(algorithm))
            .ok_or(JwtError::AlgorithmNotAllowed)
    }

    pub(super) fn check_type(&self, typ: Option<&str>) -> Result<(), JwtError> {
        let Some(required) = &self.required_type else { return Ok(()) };
        if typ.is_some_and(|typ| media_subtype(typ) == *required) {
            Ok(())
        } else {
            Err(JwtError::WrongType)
        }
    }

    pub(super) fn check_issuer(&self, iss: Option<&str>) -> Result<(), JwtError> {
        if iss == Some(self.issuer.as_str()) { Ok(()) } else { Err(JwtError::WrongIssuer) }
    }

    pub(super) fn check_audience(&self, aud: &[String]) -> Result<(), JwtError> {
        if aud.iter().any(|audience| self.audiences.contains(audience)) {
            Ok(())
        } else {
            Err(JwtError::ForeignAudience)
        }
    }

    pub(super) fn check_times(&self, times: Times, now: u64) -> Result<u64, JwtError> {
        let expiry = times.expiry.ok_or(JwtError::MissingExpiry)?;
        if now >= expiry.saturating_add(self.skew) {
            return Err(JwtError::Expired);
        }
        let latest = now.saturating_add(self.skew);
        if times.not_before.is_some_and(|not_before| not_before > latest) {
            return Err(JwtError::NotYetValid);
        }
        if times.issued_at.is_some_and(|issued_at| issued_at > latest) {
            return Err(JwtError::IssuedInFuture);
        }
        Ok(expiry)
    }
}

/// Why a policy can not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The issuer can not be part of a principal.
    #[error("issuer is not usable")]
    InvalidIssuer(#[from] InvalidIdentity),
    /// The issuer starts with `unix:`, which names peers of a socket, or with `static:`, which
    /// names a file of bearer tokens.
    #[error(
        "issuer starts with {UNIX_ISSUER_PREFIX:?} or {STATIC_ISSUER_PREFIX:?}, which are reserved"
    )]
    ReservedIssuer,
    /// There is no audience, so tokens for other services would be accepted.
    #[error("no audience is configured")]
    NoAudience,
    /// An audience is the empty string.
    #[error("an audience is empty")]
    EmptyAudience,
    /// The allow-list is empty.
    #[error("no algorithm is allowed")]
    NoAlgorithm,
    /// The skew exceeds [`MAX_SKEW_SECONDS`].
    #[error("skew is larger than {MAX_SKEW_SECONDS} seconds")]
    SkewTooLarge,
    /// The required type is empty.
    #[error("required type is empty")]
    EmptyType,
}

/// The instants that a token states, in seconds since the UNIX epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) expiry: Option<u64>,
    pub(super) not_before: Option<u64>,
    pub(super) issued_at: Option<u64>,
}

fn media_subtype(typ: &str) -> String {
    let typ = typ.to_ascii_lowercase();
    match typ.strip_prefix("application/") {
        Some(subtype) => subtype.to_owned(),
        None => typ,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::InvalidBinding;

    const NOW: u64 = 1_800_000_000;

    fn policy() -> JwtPolicy {
        JwtPolicy::new("https://id.example", ["https://tools.example"]).unwrap()
    }

    fn check_times(times: Times, expected: Result<u64, JwtError>) {
        assert_eq!(policy().check_times(times, NOW), expected, "{times:?}");
    }

    #[test]
    fn refuses_issuers_that_no_principal_can_have() {
        let refused = |issuer: &str| JwtPolicy::new(issuer, ["a"]).unwrap_err();
        assert_eq!(refused(""), InvalidIdentity::from(InvalidBinding::Empty).into());
        assert_eq!(refused("a\0"), InvalidIdentity::from(InvalidBinding::Nul).into());
        assert_eq!(refused(&"x".repeat(2_049)), InvalidIdentity::IssuerTooLong.into());
    }

    #[test]
    fn refuses_the_issuer_of_socket_peers() {
        assert_eq!(JwtPolicy::new("unix:host", ["a"]).unwrap_err(), PolicyError::ReservedIssuer);
        assert_eq!(JwtPolicy::new("static:s", ["a"]).unwrap_err(), PolicyError::ReservedIssuer);
    }

    #[test]
    fn audience_is_required() {
        let none: [&str; 0] = [];
        assert_eq!(JwtPolicy::new("i", none).unwrap_err(), PolicyError::NoAudience);
        assert_eq!(JwtPolicy::new("i", ["a", ""]).unwrap_err(), PolicyError::EmptyAudience);
    }

    #[test]
    fn settings_are_bounded() {
        assert_eq!(policy().with_algorithms([]).unwrap_err(), PolicyError::NoAlgorithm);
        assert!(policy().with_skew(MAX_SKEW_SECONDS).is_ok());
        let refused = policy().with_skew(MAX_SKEW_SECONDS + 1).unwrap_err();
        assert_eq!(refused, PolicyError::SkewTooLarge);
        assert_eq!(policy().with_required_type("").unwrap_err(), PolicyError::EmptyType);
        let refused = policy().with_required_type("application/").unwrap_err();
        assert_eq!(refused, PolicyError::EmptyType);
    }

    #[test]
    fn default_list_has_no_legacy_algorithm() {
        for name in ["RS256", "PS256", "ES256", "ES384", "EdDSA"] {
            assert!(policy().check_algorithm(name).is_ok(), "{name}");
        }
        for name in ["RS384", "RS512", "PS384", "PS512", "HS256", "none"] {
            assert!(policy().check_algorithm(name).is_err(), "{name}");
        }
    }

    #[test]
    fn required_type_ignores_case_and_prefix() {
        let policy = policy().with_required_type("application/AT+jwt").unwrap();
        for typ in ["at+jwt", "AT+JWT", "application/at+jwt", "Application/At+Jwt"] {
            assert!(policy.check_type(Some(typ)).is_ok(), "{typ}");
        }
        for typ in [None, Some("JWT"), Some(""), Some("application/application/at+jwt")] {
            assert_eq!(policy.check_type(typ), Err(JwtError::WrongType), "{typ:?}");
        }
    }

    #[test]
    fn expiry_is_exclusive_and_tolerates_skew() {
        let times = |expiry| Times { expiry, not_before: None, issued_at: None };
        check_times(times(Some(NOW + 1)), Ok(NOW + 1));
        check_times(times(Some(NOW - 59)), Ok(NOW - 59));
        check_times(times(Some(NOW - 60)), Err(JwtError::Expired));
        check_times(times(Some(0)), Err(JwtError::Expired));
        check_times(times(None), Err(JwtError::MissingExpiry));
    }

    #[test]
    fn start_and_issue_tolerate_skew() {
        let expiry = Some(NOW + 3_600);
        let starts = |at| Times { expiry, not_before: Some(at), issued_at: None };
        check_times(starts(NOW + 60), Ok(NOW + 3_600));
        check_times(starts(NOW + 61), Err(JwtError::NotYetValid));
        let issued = |at| Times { expiry, not_before: None, issued_at: Some(at) };
        check_times(issued(NOW + 60), Ok(NOW + 3_600));
        check_times(issued(NOW + 61), Err(JwtError::IssuedInFuture));
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let times = Times { expiry: Some(u64::MAX), not_before: Some(0), issued_at: Some(0) };
        assert_eq!(policy().check_times(times, u64::MAX - 1), Ok(u64::MAX));
        assert_eq!(policy().check_times(times, 0), Ok(u64::MAX));
    }
}
