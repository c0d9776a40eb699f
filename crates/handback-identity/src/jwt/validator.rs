use std::{collections::BTreeSet, fmt};

use super::{
    Algorithm, JwtError, JwtPolicy, KeySet,
    keys::Key,
    policy::Times,
    scopes,
    wire::{self, Claims, Header, NumericDate, OneOrMany},
};
use crate::principal::{Subject, VerifiedPrincipal};

/// The longest token that is looked at, in bytes.
///
/// It is what a request header may hold at most. Tokens with many group claims reach 8 KiB.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// Checks access tokens of one issuer.
#[derive(Clone, Debug)]
#[must_use]
pub struct JwtValidator {
    policy: JwtPolicy,
}

impl JwtValidator {
    /// A validator that enforces this policy.
    pub const fn new(policy: JwtPolicy) -> Self {
        Self { policy }
    }

    /// Checks a token (the text after `Bearer `) at the time `now`, in seconds since the UNIX epoch.
    ///
    /// # Errors
    ///
    /// [`JwtError`], whose text is the same for all causes. On [`JwtError::UnknownKey`] a caller may
    /// fetch the key set again, at a limited rate, and try once more.
    ///
    /// # Security
    ///
    /// `keys` must be the keys that the policy's issuer publishes, fetched from where the
    /// configuration says and not from where a token says.
    pub fn validate(
        &self,
        token: &str,
        keys: &KeySet,
        now: u64,
    ) -> Result<ValidatedToken, JwtError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(JwtError::TooLong);
        }
        let token = UntrustedToken::split(token)?;
        let header = token.header()?;
        let algorithm = self.check_header(&header)?;
        let key = keys.select(header.kid.as_deref())?;
        let claims = token.verify(key, algorithm)?.decode()?;
        self.check_claims(claims, now)
    }

    fn check_header(&self, header: &Header) -> Result<Algorithm, JwtError> {
        let algorithm = self.policy.check_algorithm(&header.alg)?;
        if header.crit {
            return Err(JwtError::CriticalExtension);
        }
        self.policy.check_type(header.typ.as_deref())?;
        Ok(algorithm)
    }

    fn check_claims(&self, claims: Claims, now: u64) -> Result<ValidatedToken, JwtError> {
        let seconds = |date: Option<NumericDate>| date.map(|NumericDate(seconds)| seconds);

        self.policy.check_issuer(claims.iss.as_deref())?;
        self.policy.check_audience(&claims.aud.map(OneOrMany::into_vec).unwrap_or_default())?;
        let times = Times {
            expiry: seconds(claims.exp),
            not_before: seconds(claims.nbf),
            issued_at: seconds(claims.iat),
        };
        let expires_at = self.policy.check_times(times, now)?;
        let subject = claims.sub.ok_or(JwtError::InvalidSubject)?;
        let subject = Subject::new(&subject).map_err(|_| JwtError::InvalidSubject)?;
        let scopes = scopes::collect([claims.scope, claims.scp])?;
        let principal = VerifiedPrincipal::identified(&self.policy.issuer, &subject);
        Ok(ValidatedToken { principal, scopes, expires_at })
    }
}

/// What a token said that passed every check.
#[derive(Clone)]
#[must_use]
pub struct ValidatedToken {
    principal: VerifiedPrincipal,
    scopes: BTreeSet<String>,
    expires_at: u64,
}

impl ValidatedToken {
    /// Who the caller is.
    #[must_use]
    pub const fn principal(&self) -> &VerifiedPrincipal {
        &self.principal
    }

    /// What the issuer granted, from the claims `scope` and `scp`.
    #[must_use]
    pub const fn scopes(&self) -> &BTreeSet<String> {
        &self.scopes
    }

    /// When the token expires, in seconds since the UNIX epoch and without any skew.
    ///
    /// Whatever is opened on the strength of this token should end by then.
    #[must_use]
    pub const fn expires_at(&self) -> u64 {
        self.expires_at
    }
}

impl fmt::Debug for ValidatedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValidatedToken")
            .field("principal", &self.principal)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// A token in its parts. Of these only the header can be read before the signature was checked.
struct UntrustedToken<'a> {
    signing_input: &'a str,
    header: &'a str,
    claims: &'a str,
    signature: &'a str,
}

impl<'a> UntrustedToken<'a> {
    fn split(token: &'a str) -> Result<Self, JwtError> {
        let (signing_input, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
        let (header, claims) = signing_input.split_once('.').ok_or(JwtError::Malformed)?;
        if claims.contains('.') {
            return Err(JwtError::Malformed);
        }
        Ok(Self { signing_input, header, claims, signature })
    }

    fn header(&self) -> Result<Header, JwtError> {
        wire::decode_part(self.header).ok_or(JwtError::MalformedHeader)
    }

    fn verify(self, key: &Key, algorithm: Algorithm) -> Result<SignedClaims<'a>, JwtError> {
        let signature = wire::base64url(self.signature).ok_or(JwtError::Malformed)?;
        key.verify(algorithm, self.signing_input.as_bytes(), signature)?;
        Ok(SignedClaims(self.claims))
    }
}

/// The claims part of a token whose signature holds; made by [`UntrustedToken::verify`] alone.
struct SignedClaims<'a>(&'a str);

impl SignedClaims<'_> {
    fn decode(self) -> Result<Claims, JwtError> {
        wire::decode_part(self.0).ok_or(JwtError::MalformedClaims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_split(token: &str, parts: Option<(&str, &str, &str)>) {
        let split = UntrustedToken::split(token).ok();
        assert_eq!(split.map(|token| (token.header, token.claims, token.signature)), parts);
    }

    #[test]
    fn splits_exactly_three_parts() {
        check_split("a.b.c", Some(("a", "b", "c")));
        check_split("..", Some(("", "", "")));
        check_split("", None);
        check_split("a", None);
        check_split("a.b", None);
        check_split("a.b.c.d", None);
        check_split("a.b.c.d.e", None);
    }

    #[test]
    fn signing_input_is_header_and_claims() {
        assert_eq!(UntrustedToken::split("a.b.c").ok().unwrap().signing_input, "a.b");
    }
}
