//! What a caller shows to say who it is.

use std::fmt;

use hyper::header::HeaderValue;
use zeroize::Zeroizing;

/// Characters of a bearer token at most: more than a header of any server takes.
pub const MAX_BEARER_CHARS: usize = 16_384;

/// A bearer token (RFC 6750). It is shown to the server, and to nobody else.
#[derive(Clone)]
pub struct BearerToken(Zeroizing<String>);

/// A text that is no bearer token. It does not say which: it may be most of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a bearer token has letters, digits and -._~+/, then perhaps =, and nothing else")]
#[non_exhaustive]
pub struct BadBearer;

impl BearerToken {
    /// Reads a token.
    ///
    /// ```
    /// use handback_client::BearerToken;
    ///
    /// let token = BearerToken::parse("abc.def==").unwrap();
    /// assert!(!format!("{token:?}").contains("abc"));
    /// assert!(BearerToken::parse("abc def").is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// [`BadBearer`] if it is none.
    pub fn parse(text: &str) -> Result<Self, BadBearer> {
        let body = text.trim_end_matches('=');
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
        if body.is_empty() || text.len() > MAX_BEARER_CHARS || !body.bytes().all(is_good) {
            return Err(BadBearer);
        }
        Ok(Self(Zeroizing::new(text.to_owned())))
    }

    /// As a request has it.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let text = Zeroizing::new(format!("Bearer {}", *self.0));
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken")
    }
}
