//! Master keys, and the keys that are derived from them.
//!
//! A master key is never used itself. Every use derives its own key with a label, so that a tag
//! made for one purpose is worthless for any other.

use std::fmt;

use hkdf::Hkdf;
use rand_core::CryptoRng;
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::encoding;

/// Length of every key, in bytes.
pub const KEY_BYTES: usize = 32;

const _: () = assert!(KEY_BYTES == 256 / 8, "AES-256 and HKDF-SHA256 take 32 bytes");

const HKDF_SALT: &[u8] = b"handback/v1";

/// 32 secret bytes from which all other keys of a slot are derived.
///
/// There is no `Default` and no way to a fixed key: it is generated, or made from bytes that were
/// checked. `Debug` prints no bytes, comparison takes constant time, and the memory is cleared.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct MasterKey([u8; KEY_BYTES]);

impl MasterKey {
    /// A new random key.
    pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        rng.fill_bytes(bytes.as_mut_slice());
        Self(*bytes)
    }

    /// Copies a key from bytes, which must be random.
    ///
    /// # Errors
    ///
    /// [`KeyError::WrongLength`] unless there are exactly 32, and [`KeyError::Constant`] if they are
    /// all equal: the all-zero key of a forgotten setting is not a key.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        let key = <[u8; KEY_BYTES]>::try_from(bytes)
            .map_err(|_| KeyError::WrongLength { bytes: bytes.len() })?;
        let key = Self(key);
        let [first, rest @ ..] = &key.0;
        if rest.iter().all(|byte| byte == first) {
            return Err(KeyError::Constant);
        }
        Ok(key)
    }

    /// Reads a key from its canonical base64url text (43 characters).
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the text is not that of a usable key.
    pub fn from_text(text: &str) -> Result<Self, KeyError> {
        if text.len() > MAX_KEY_TEXT_CHARS {
            return Err(KeyError::NotBase64);
        }
        let bytes = Zeroizing::new(encoding::decode(text).ok_or(KeyError::NotBase64)?);
        Self::from_bytes(&bytes)
    }

    /// The key as text. Whoever reads it can make and open every token of its slot.
    #[must_use]
    pub fn dangerous_reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(encoding::encode(&self.0))
    }

    /// The bytes themselves, for a foreign format that MACs with them.
    #[cfg(feature = "compat")]
    pub(crate) const fn compat_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// `HKDF-SHA256(ikm = this key, salt = "handback/v1", info = lp(a) || lp(b))`.
    pub(crate) fn derive(&self, a: &str, b: &str) -> Zeroizing<[u8; KEY_BYTES]> {
        let mut info = Vec::with_capacity(8 + a.len() + b.len());
        encoding::push_lp(&mut info, a.as_bytes());
        encoding::push_lp(&mut info, b.as_bytes());
        let mut derived = Zeroizing::new([0; KEY_BYTES]);
        Hkdf::<Sha256>::new(Some(HKDF_SALT), &self.0)
            .expand(&info, derived.as_mut_slice())
            .expect("HKDF-SHA256 gives up to 8160 bytes");
        derived
    }
}

impl ConstantTimeEq for MasterKey {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(..)")
    }
}

/// A key's text is 43 characters; what is much longer is not decoded at all.
pub(crate) const MAX_KEY_TEXT_CHARS: usize = 256;

/// Bytes or text that are not a usable key. Never shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Not 32 bytes.
    #[error("a key has 32 bytes, not {bytes}")]
    WrongLength {
        /// How many there are.
        bytes: usize,
    },
    /// Every byte is the same.
    #[error("a key whose bytes are all equal is not random")]
    Constant,
    /// Not base64 as it is wanted here.
    #[error("the key is not valid base64")]
    NotBase64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_keys_that_are_short_long_or_constant() {
        for len in (0..100).filter(|&len| len != KEY_BYTES) {
            let bytes: Vec<u8> = (0..len).map(|n| u8::try_from(n).unwrap()).collect();
            assert_eq!(
                MasterKey::from_bytes(&bytes).unwrap_err(),
                KeyError::WrongLength { bytes: len }
            );
        }
        for byte in 0..=255 {
            assert_eq!(MasterKey::from_bytes(&[byte; KEY_BYTES]).unwrap_err(), KeyError::Constant);
        }
    }

    #[test]
    fn a_long_text_is_not_decoded() {
        let refused = |len| MasterKey::from_text(&"AbCd".repeat(len / 4)).unwrap_err();
        assert_eq!(refused(MAX_KEY_TEXT_CHARS), KeyError::WrongLength { bytes: 192 });
        for longer in [MAX_KEY_TEXT_CHARS + 4, 10_000_000] {
            assert_eq!(refused(longer), KeyError::NotBase64);
        }
    }

    #[test]
    fn debug_prints_no_bytes() {
        let key = MasterKey::generate(&mut rand::rng());
        assert_eq!(format!("{key:?}"), "MasterKey(..)");
    }

    #[test]
    fn a_key_is_a_copy_of_the_bytes_it_came_from() {
        let mut bytes = *b"0123456789abcdef0123456789abcdef";
        let key = MasterKey::from_bytes(&bytes).unwrap();
        let before = key.derive("cursor", "aes-256-gcm-siv");
        bytes.fill(0);
        assert_eq!(before, key.derive("cursor", "aes-256-gcm-siv"));
    }

    #[test]
    fn labels_do_not_run_into_each_other() {
        let key = MasterKey::generate(&mut rand::rng());
        assert_ne!(key.derive("ab", "c"), key.derive("a", "bc"));
    }
}
