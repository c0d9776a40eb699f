//! Texts that go in headers.
//!
//! A header carries printable ASCII without space at its ends. Other texts are written as
//! `=?base64?…?=`, and so is a text that looks like that.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// What is around a text that a header cannot carry as it is.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// The value of a header that stands for a text. All of it is printable ASCII.
#[must_use]
pub fn encode(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let has_blank_end = is_blank(bytes.first()) || is_blank(bytes.last());
    let is_printable = bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
    if is_printable && !has_blank_end && inside(text).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}{}{}", ENCODED.0, BASE64_STANDARD.encode(text), ENCODED.1))
}

/// The text that the value of a header stands for. None, if it is encoded, but not as [`encode`] does
/// it, or stands for no text.
#[must_use]
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    match inside(value) {
        None => Some(Cow::Borrowed(value)),
        // Another padding or stray bits are refused: a text has one form.
        Some(coded) => String::from_utf8(BASE64_STANDARD.decode(coded).ok()?).ok().map(Cow::Owned),
    }
}

/// What is between the marks of an encoded text.
fn inside(value: &str) -> Option<&str> {
    value.strip_prefix(ENCODED.0)?.strip_suffix(ENCODED.1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_that_no_header_carries_are_encoded() {
        for plain in ["", "a", "a b", "x=?base64?YQ==?=", "~", "=?base64?=", "=?base64?"] {
            assert_eq!(encode(plain), plain);
            assert_eq!(decode(plain).as_deref(), Some(plain));
        }
        for (text, encoded) in [
            ("é", "=?base64?w6k=?="),
            (" a", "=?base64?IGE=?="),
            ("a\t", "=?base64?YQk=?="),
            ("a\nb", "=?base64?YQpi?="),
            ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
            ("=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="),
        ] {
            assert_eq!(encode(text), encoded, "{text:?}");
            assert_eq!(decode(encoded).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_is_encoded_otherwise_is_refused() {
        for bad in ["YQ", "YR==", "YQ==\n", " YQ==", "YQ=", "_w==", "/w==", "w6k", "*"] {
            assert_eq!(decode(&format!("=?base64?{bad}?=")), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text: String) {
            let value = encode(&text);
            prop_assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~')));
            prop_assert_eq!(value.trim(), value.as_ref());
            let decoded = decode(&value);
            prop_assert_eq!(decoded.as_deref(), Some(text.as_str()));
        }

        #[test]
        fn a_text_has_one_encoded_form(coded in "[A-Za-z0-9+/=]{0,12}") {
            let value = format!("=?base64?{coded}?=");
            if let Some(text) = decode(&value) {
                prop_assert_eq!(BASE64_STANDARD.encode(text.as_bytes()), coded);
            }
        }
    }
}
