//! The key pair that signs commits.

use std::fmt;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use rand_core::CryptoRng;
use sha2::{Digest, Sha256};

/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;

/// Signs commits. The same bytes have the same signature always.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

/// A seed that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a seed of a signing key")]
#[non_exhaustive]
pub struct BadSeed;

impl SigningKey {
    /// A fresh seed, to be stored.
    #[must_use]
    pub fn generate_seed(rng: &mut dyn CryptoRng) -> [u8; 32] {
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        seed
    }

    /// The key pair of a seed.
    ///
    /// # Errors
    ///
    /// [`BadSeed`] if the library does not take it.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self, BadSeed> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| BadSeed)?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| BadSeed)?;
        Ok(Self { pair, public: PublicKey(public) })
    }

    /// What others verify with.
    #[must_use]
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let signature = self.pair.sign(bytes);
        signature.as_ref().first_chunk().copied().unwrap_or([0; SIGNATURE_BYTES])
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public.id())
    }
}

/// Verifies signatures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

/// What a key is known by: 8 bytes of the SHA-256 of its public half.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId([u8; 8]);

impl PublicKey {
    /// From published bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// What it is known by.
    #[must_use]
    pub fn id(&self) -> KeyId {
        let digest: [u8; 32] = Sha256::digest(self.0).into();
        KeyId(digest.first_chunk().copied().unwrap_or_default())
    }

    /// Whether these bytes were signed.
    #[must_use]
    pub fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(bytes, signature).is_ok()
    }
}

impl KeyId {
    /// From stored bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_the_same_and_verify() {
        let key = SigningKey::from_seed(&[7; 32]).unwrap();
        let signature = key.sign(b"a");
        assert_eq!(signature, key.sign(b"a"));
        assert!(key.public().verifies(b"a", &signature));
        assert!(!key.public().verifies(b"b", &signature));
        let other = SigningKey::from_seed(&[8; 32]).unwrap();
        assert!(!other.public().verifies(b"a", &signature));
        assert_eq!(format!("{key:?}"), format!("SigningKey({})", key.public().id()));
    }
}
