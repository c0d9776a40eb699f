//! A wrapper that lets no value reach an engine in the clear.
//!
//! Values are encrypted with AES-256-GCM-SIV under keys derived from one [`DataKey`], one key per
//! kind of value. What a value belongs to (its log and number, its log, or its key) is associated
//! data: a value that was edited, or put in the place of another, is
//! [`Damaged`](crate::StoreError::Damaged).
//!
//! | stored | bytes |
//! |---|---|
//! | record | `01`, ciphertext, tag (16) |
//! | note | `02`, nonce (12), ciphertext, tag (16) |
//! | value | `03`, nonce (12), ciphertext of (until u64be, value), tag (16) |
//! | chunk of a file | `04`, nonce (12), ciphertext, tag (16) |
//!
//! `key = HKDF-SHA256(ikm = data key, salt = "handback/v1", info = "store record" | "store note" |
//! "store value" | "store chunk")`; associated data: the first byte, then the log and the number
//! (u64be), the log, the key, or the name of the file and the number (u64be). Chunks are those of
//! [`held`](crate::held) values that are files beside the engine.
//!
//! A record is written once, so its nonce is made of what it belongs to (the first 12 bytes of
//! SHA-256 of its associated data), and takes no room. Should a removed log be written again under its
//! old name, a nonce is used twice; GCM-SIV then tells whether the two records are equal, and nothing
//! more. Notes and values are replaced, and have random nonces. The end of a value's life is encrypted
//! as well (all ones: none), so that lengthening the life that the engine knows of gains nothing.
//!
//! # Security
//!
//! Names are not hidden: logs, numbers, keys, lengths and times are in the clear. An engine can lose
//! values, or bring back old values of the same name: nothing here can tell. Streams can, by their
//! signed heads.

pub(crate) mod key;
mod kv;
mod log;

pub use key::DataKey;

use std::fmt;

use key::Keys;

/// An engine whose values are encrypted.
pub struct Encrypted<S> {
    inner: S,
    keys: Keys,
}

impl<S> Encrypted<S> {
    /// Encrypts what is written to `inner`, and decrypts what is read from it.
    #[must_use]
    pub fn new(inner: S, key: &DataKey) -> Self {
        Self { inner, keys: Keys::new(key) }
    }

    /// The engine beneath.
    #[must_use]
    pub const fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S: fmt::Debug> fmt::Debug for Encrypted<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encrypted").field("inner", &self.inner).finish_non_exhaustive()
    }
}
