//! Handles: short random names of things that are held at the server.
//!
//! A handle opens nothing by itself: its owner is checked at every use. Its checksum is there for
//! people and models that copy it: a mistyped handle is told apart from an unknown one before
//! anything is looked up, so that the answer says nothing about what is held. The layout is in
//! `docs/spec/tokens.md`, section 9.

use std::fmt;

use rand_core::CryptoRng;
use sha2::{Digest, Sha256};

use crate::fingerprint::TokenFingerprint;

/// Length of a handle's text.
pub const HANDLE_CHARS: usize = 30;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const BODY_CHARS: usize = 26;
const BITS_PER_CHAR: u32 = 5;

/// The name of something held.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(u128);

impl Handle {
    /// A new random handle.
    pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
        let mut bytes = [0; 16];
        rng.fill_bytes(&mut bytes);
        Self::from_bytes(bytes)
    }

    /// The handle of 16 random bytes that a store kept.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// The 16 random bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Reads a handle from its text, which has exactly one form.
    ///
    /// # Errors
    ///
    /// [`HandleError::Mistyped`] if only the checksum is wrong, else [`HandleError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, HandleError> {
        if !Self::is_handle_shaped(text) {
            return Err(HandleError::Malformed);
        }
        let mut digits = text.bytes().skip(1).map(digit);
        let mut value: u128 = 0;
        for place in 0..BODY_CHARS {
            let digit = digits.next().flatten().ok_or(HandleError::Malformed)?;
            // 26 characters have room for 130 bits; the first two must be zero.
            if place == 0 && digit >= 8 {
                return Err(HandleError::Malformed);
            }
            value = (value << BITS_PER_CHAR) | u128::from(digit);
        }
        let handle = Self(value);
        if digits.eq(handle.checksum().map(Some)) { Ok(handle) } else { Err(HandleError::Mistyped) }
    }

    /// Whether a text has the shape of a handle. No collection may have a name of that shape.
    #[must_use]
    pub fn is_handle_shaped(text: &str) -> bool {
        text.len() == HANDLE_CHARS
            && text.starts_with('h')
            && text.bytes().skip(1).all(|byte| digit(byte).is_some())
    }

    fn body(self) -> impl Iterator<Item = u8> {
        (0u32..26).rev().map(move |place| low_five_bits(self.0 >> (place * BITS_PER_CHAR)))
    }

    fn checksum(self) -> [u8; 3] {
        let mut hash = Sha256::new();
        hash.update(b"\x00\x00\x00\x12handback/v1/handle");
        hash.update(self.to_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        let [a, b, ..] = digest;
        let bits = u128::from(u16::from_be_bytes([a, b]) >> 1);
        [low_five_bits(bits >> 10), low_five_bits(bits >> 5), low_five_bits(bits)]
    }
}

fn low_five_bits(value: u128) -> u8 {
    let [.., low] = value.to_be_bytes();
    low & 31
}

fn digit(byte: u8) -> Option<u8> {
    ALPHABET.iter().position(|&known| known == byte).and_then(|place| u8::try_from(place).ok())
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("h")?;
        self.body().chain(self.checksum()).try_for_each(|digit| {
            let letter = ALPHABET.get(usize::from(digit)).copied().unwrap_or_default();
            fmt::Write::write_char(f, char::from(letter))
        })
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", TokenFingerprint::of(&self.to_string()))
    }
}

/// A text that is not a handle. Neither says anything about what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// Not of the shape of a handle: outside, it is `invalid`.
    #[error("invalid")]
    Malformed,
    /// Of that shape, but the checksum does not fit: outside, a third answer.
    #[error("mistyped")]
    Mistyped,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_handle_survives_its_text(bytes: [u8; 16]) {
            let handle = Handle::from_bytes(bytes);
            let text = handle.to_string();
            prop_assert_eq!(text.len(), HANDLE_CHARS);
            prop_assert!(Handle::is_handle_shaped(&text));
            prop_assert_eq!(Handle::parse(&text), Ok(handle));
            prop_assert_eq!(handle.to_bytes(), bytes);
        }

        #[test]
        fn what_parses_is_its_own_text(text in "h[0-9a-z]{29}") {
            if let Ok(handle) = Handle::parse(&text) {
                prop_assert_eq!(handle.to_string(), text);
            }
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = Handle::parse(&text);
        }
    }

    #[test]
    fn one_wrong_character_is_mistyped() {
        let text = Handle::from_bytes(*b"0123456789abcdef").to_string();
        let mut mistyped = 0;
        for place in 1..HANDLE_CHARS {
            for &letter in ALPHABET {
                let mut edited = text.clone().into_bytes();
                edited[place] = letter;
                let edited = String::from_utf8(edited).unwrap();
                match Handle::parse(&edited) {
                    Ok(handle) => assert_eq!(handle.to_string(), edited),
                    Err(HandleError::Mistyped) => mistyped += 1,
                    Err(HandleError::Malformed) => assert!(place == 1 && letter > b'7'),
                }
            }
        }
        assert!(mistyped > 28 * 30, "{mistyped} of {}", 29 * 31);
    }

    #[test]
    fn other_shapes_are_malformed() {
        let text = Handle::from_bytes(*b"0123456789abcdef").to_string();
        for other in [
            String::new(),
            text[1..].to_owned(),
            text[..29].to_owned(),
            text.clone() + "0",
            text.to_uppercase(),
            text.replacen('h', "H", 1),
            text.replacen('h', "i", 1),
            format!("h{}", "u".repeat(29)),
            format!("h{}", "é".repeat(14) + "0"),
            format!("h{}", "8".repeat(29)),
        ] {
            assert_eq!(Handle::parse(&other), Err(HandleError::Malformed), "{other}");
        }
    }

    #[test]
    fn the_answers_are_frozen() {
        assert_eq!(HandleError::Malformed.to_string(), "invalid");
        assert_eq!(HandleError::Mistyped.to_string(), "mistyped");
    }

    #[test]
    fn debug_does_not_show_it() {
        let handle = Handle::from_bytes(*b"0123456789abcdef");
        let shown = format!("{handle:?}");
        assert!(shown.starts_with("Handle(") && !shown.contains(&handle.to_string()), "{shown}");
    }
}
