//! Fingerprints: of arguments, which tokens are bound to, and of tokens, for the audit.

mod canonical;
mod text;
mod unique;

use std::fmt;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::encoding;

pub use text::{FingerprintError, MAX_JSON_DEPTH};
pub use unique::is_unambiguous;

/// SHA-256 over the canonical JSON of a call's arguments: `docs/spec/tokens.md`, section 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArgsFingerprint([u8; 32]);

impl ArgsFingerprint {
    /// A fingerprint that was computed before.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Of canonical JSON that is there already, in parts: as [`canonical_json`] would write it.
    #[must_use]
    pub fn of_canonical(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        parts.iter().for_each(|part| hash.update(part));
        Self(hash.finalize().into())
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ArgsFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encoding::hex(&self.0))
    }
}

/// The fingerprint of arguments that this process parsed and will act on.
///
/// Member order, white space and the spelling of numbers do not matter; integers above 2^53 stay
/// apart.
///
/// ```
/// use handback_token::args_fingerprint;
/// use serde_json::json;
///
/// let one = args_fingerprint(&json!({"limit": 1, "query": "tea"}));
/// assert_eq!(one, args_fingerprint(&json!({"query": "tea", "limit": 1.0})));
/// assert_ne!(
///     args_fingerprint(&json!(9_007_199_254_740_993_u64)),
///     args_fingerprint(&json!(9_007_199_254_740_992_u64)),
/// );
/// ```
#[must_use]
pub fn args_fingerprint(arguments: &Value) -> ArgsFingerprint {
    args_fingerprint_without(arguments, &[])
}

/// As [`args_fingerprint`], leaving out members of the outermost object that were declared as free
/// to differ. Nothing else is left out, whatever its name.
#[must_use]
pub fn args_fingerprint_without(arguments: &Value, excluded: &[&str]) -> ArgsFingerprint {
    ArgsFingerprint(Sha256::digest(canonical_json(arguments, excluded)).into())
}

/// The fingerprint of arguments that are relayed as they came, taken from the text itself.
///
/// Bound the length of the text first: memory of up to about 20 times its length is used, and each
/// level of nested objects copies what is below it once.
///
/// # Errors
///
/// [`FingerprintError`] for what two readers could understand differently: duplicate members, lone
/// surrogates, numbers that do not fit, and anything that is not exactly one JSON value.
pub fn args_fingerprint_of_text(
    text: &[u8],
    excluded: &[&str],
) -> Result<ArgsFingerprint, FingerprintError> {
    Ok(ArgsFingerprint(Sha256::digest(canonical_json_of_text(text, excluded)?).into()))
}

/// What [`args_fingerprint_without`] hashes.
#[must_use]
pub fn canonical_json(value: &Value, excluded: &[&str]) -> Vec<u8> {
    canonical::of_value(value, excluded)
}

/// What [`args_fingerprint_of_text`] hashes.
///
/// # Errors
///
/// As there.
pub fn canonical_json_of_text(text: &[u8], excluded: &[&str]) -> Result<Vec<u8>, FingerprintError> {
    text::canonical(text, excluded)
}

/// What stands for a token in audit lines: 8 bytes of its text's SHA-256, as 16 digits.
///
/// A line about minting and a line about refusing the same token can be joined by it; the token
/// cannot be made from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenFingerprint([u8; 8]);

impl TokenFingerprint {
    /// Of any text that was presented as a token. Costs one pass over the text: bound its length
    /// first.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(text).into();
        let (start, _rest) = digest.split_first_chunk().expect("8 of 32 bytes");
        Self(*start)
    }
}

impl fmt::Display for TokenFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encoding::hex(&self.0))
    }
}

impl fmt::Debug for TokenFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
