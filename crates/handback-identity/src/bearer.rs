//! The credential of a request: the `Authorization` header, read strictly.
//!
//! ```text
//! credentials = "Bearer" 1*SP b64token                     RFC 6750, section 2.1
//! b64token    = 1*( ALPHA / DIGIT / "-._~+/" ) *"="
//! ```
//!
//! The scheme is compared without regard to case (RFC 9110, section 11.1). A header of another
//! scheme, a second one, or one with anything left over is refused: a credential that cannot be
//! read is a wrong one, and never the same as none.

use std::fmt;

use crate::caller::Refusal;
use crate::jwt::MAX_TOKEN_BYTES;

const SCHEME: &[u8] = b"bearer";

/// The token of an `Authorization` header. Nothing is known of it but its letters.
#[derive(Clone, Copy)]
pub struct Bearer<'a>(&'a str);

impl<'a> Bearer<'a> {
    /// Finds the one credential among the values of all `Authorization` headers.
    ///
    /// # Errors
    ///
    /// [`Refusal::Missing`] if there is none, and another [`Refusal`] if there is not exactly one
    /// that is well-formed.
    pub fn find(values: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, Refusal> {
        let mut values = values.into_iter();
        let value = values.next().ok_or(Refusal::Missing)?;
        if values.next().is_some() {
            return Err(Refusal::Several);
        }
        Self::parse(value)
    }

    /// The token as text. Nobody but a validator needs it.
    #[must_use]
    pub const fn dangerous_text(self) -> &'a str {
        self.0
    }

    fn parse(value: &'a [u8]) -> Result<Self, Refusal> {
        let (scheme, rest) = value.split_at_checked(SCHEME.len()).ok_or(Refusal::OtherScheme)?;
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return Err(Refusal::OtherScheme);
        }
        let token = rest.trim_ascii_start();
        let spaces = rest.len() - token.len();
        if spaces == 0 && !rest.is_empty() {
            // `Bearerish` is a scheme of its own.
            return Err(Refusal::OtherScheme);
        }
        if !rest.iter().take(spaces).all(|byte| *byte == b' ') {
            return Err(Refusal::Malformed);
        }
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Refusal::TooLong);
        }
        let letters = token.iter().take_while(|byte| is_letter(**byte)).count();
        let is_padding = |byte: &u8| *byte == b'=';
        if letters == 0 || !token.iter().skip(letters).all(is_padding) {
            return Err(Refusal::Malformed);
        }
        std::str::from_utf8(token).map(Self).map_err(|_| Refusal::Malformed)
    }
}

impl fmt::Debug for Bearer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bearer").finish_non_exhaustive()
    }
}

const fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn find(values: &[&str]) -> Result<String, Refusal> {
        let found = Bearer::find(values.iter().map(|value| value.as_bytes()));
        found.map(|bearer| bearer.dangerous_text().to_owned())
    }

    #[test]
    fn the_one_bearer_token_is_found() {
        for text in ["Bearer abc.d-e_f~g+h/i==", "bearer abc", "BEARER   x", "bEaReR ="] {
            let token = text.rsplit(' ').next().unwrap();
            let expected = if token == "=" { Err(Refusal::Malformed) } else { Ok(token.into()) };
            assert_eq!(find(&[text]), expected, "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        assert_eq!(find(&[]), Err(Refusal::Missing));
        assert_eq!(find(&["Bearer a", "Bearer a"]), Err(Refusal::Several));
        for text in ["", "Basic YTpi", "Bear", "Bearerabc", "Bearer=abc", "abc", "Digest x=y"] {
            assert_eq!(find(&[text]), Err(Refusal::OtherScheme), "{text:?}");
        }
        for text in [
            "Bearer",
            "Bearer ",
            "Bearer\ta",
            "Bearer a b",
            "Bearer a,b",
            "Bearer a=b",
            "Bearer a ",
            "Bearer é",
            "Bearer a, Bearer b",
            "Bearer \"a\"",
        ] {
            assert_eq!(find(&[text]), Err(Refusal::Malformed), "{text:?}");
        }
        let long = format!("Bearer {}", "a".repeat(MAX_TOKEN_BYTES + 1));
        assert_eq!(find(&[&long]), Err(Refusal::TooLong));
    }

    proptest! {
        #[test]
        fn what_is_found_is_the_value_without_its_scheme(value in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(bearer) = Bearer::find([value.as_slice()]) {
                let text = bearer.dangerous_text();
                prop_assert!(value.ends_with(text.as_bytes()));
                prop_assert!(!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert!(value[..6].eq_ignore_ascii_case(SCHEME));
            }
        }

        #[test]
        fn every_b64token_is_found(token in "[A-Za-z0-9._~+/-]{1,60}={0,2}", spaces in 1_usize..4) {
            let value = format!("Bearer{}{token}", " ".repeat(spaces));
            prop_assert_eq!(find(&[&value]), Ok(token));
        }
    }
}
