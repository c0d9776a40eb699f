//! The data key, and what is done with it.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{digest, hkdf, rand};
use bytes::Bytes;
use rand_core::CryptoRng;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::StoreError;

const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 16;

/// By how much a chunk is longer than what it says.
pub(crate) const CHUNK_OVERHEAD_BYTES: usize = 1 + NONCE_LEN + TAG_BYTES;
const HKDF_SALT: &[u8] = b"handback/v1";

const _: () = assert!(KEY_BYTES == 256 / 8 && NONCE_LEN == 12, "AES-256-GCM-SIV, RFC 8452");

/// The key under which all values of one store are encrypted.
///
/// It has 32 random bytes and belongs to one store alone. Whoever keeps it, keeps it wrapped under a
/// key ring. `Debug` prints no bytes, and the memory is cleared.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct DataKey([u8; KEY_BYTES]);

impl DataKey {
    /// A new random key.
    pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        rng.fill_bytes(bytes.as_mut_slice());
        Self(*bytes)
    }

    /// The key with these bytes, which must be random.
    #[must_use]
    pub const fn from_bytes(bytes: &[u8; KEY_BYTES]) -> Self {
        Self(*bytes)
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey(..)")
    }
}

/// What kind of value: the first byte of what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Record = 1,
    Note = 2,
    Value = 3,
    Chunk = 4,
}

/// A key for each kind of value.
pub(crate) struct Keys {
    record: LessSafeKey,
    note: LessSafeKey,
    value: LessSafeKey,
    chunk: LessSafeKey,
}

impl Keys {
    pub(crate) fn new(key: &DataKey) -> Self {
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, HKDF_SALT).extract(&key.0);
        let derive = |label: &[u8]| {
            let info = [label];
            let key =
                secret.expand(&info, &AES_256_GCM_SIV).expect("HKDF-SHA256 gives up to 8160 bytes");
            LessSafeKey::new(UnboundKey::from(key))
        };
        Self {
            record: derive(b"store record"),
            note: derive(b"store note"),
            value: derive(b"store value"),
            chunk: derive(b"store chunk"),
        }
    }

    /// Encrypts `front || plain`, which belongs to `owner`.
    pub(crate) fn seal(
        &self,
        kind: Kind,
        owner: &[u8],
        front: &[u8],
        plain: &[u8],
    ) -> Result<Bytes, StoreError> {
        let aad = associated(kind, owner);
        let nonce = nonce(kind, &aad)?;
        let sent: &[u8] = if kind == Kind::Record { &[] } else { &nonce };
        let body_at = 1 + sent.len();
        let mut stored = Vec::with_capacity(body_at + front.len() + plain.len() + TAG_BYTES);
        stored.push(kind as u8);
        stored.extend_from_slice(sent);
        stored.extend_from_slice(front);
        stored.extend_from_slice(plain);
        let (_, body) = stored.split_at_mut(body_at);
        let tag = self
            .key(kind)
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&aad), body)
            .map_err(|_| StoreError::Unavailable("a value is too long to encrypt".to_owned()))?;
        stored.extend_from_slice(tag.as_ref());
        Ok(Bytes::from(stored))
    }

    /// Decrypts what belongs to `owner`.
    pub(crate) fn open(
        &self,
        kind: Kind,
        owner: &[u8],
        stored: &[u8],
    ) -> Result<Bytes, StoreError> {
        let aad = associated(kind, owner);
        let Some((&first, rest)) = stored.split_first() else { return Err(damaged()) };
        if first != kind as u8 {
            return Err(damaged());
        }
        let (nonce, body) = match kind {
            Kind::Record => (nonce(kind, &aad)?, rest),
            Kind::Note | Kind::Value | Kind::Chunk => {
                let (nonce, body) = rest.split_first_chunk().ok_or_else(damaged)?;
                (*nonce, body)
            }
        };
        let mut body = body.to_vec();
        let len = self
            .key(kind)
            .open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(&aad), &mut body)
            .map_err(|_| damaged())?
            .len();
        body.truncate(len);
        Ok(Bytes::from(body))
    }

    const fn key(&self, kind: Kind) -> &LessSafeKey {
        match kind {
            Kind::Record => &self.record,
            Kind::Note => &self.note,
            Kind::Value => &self.value,
            Kind::Chunk => &self.chunk,
        }
    }
}

/// The kind is bound once more, although each has a key of its own: it is what the format says.
fn associated(kind: Kind, owner: &[u8]) -> Vec<u8> {
    let mut aad = Vec::with_capacity(1 + owner.len());
    aad.push(kind as u8);
    aad.extend_from_slice(owner);
    aad
}

fn nonce(kind: Kind, aad: &[u8]) -> Result<[u8; NONCE_LEN], StoreError> {
    let mut nonce = [0; NONCE_LEN];
    match kind {
        Kind::Record => {
            let hash = digest::digest(&digest::SHA256, aad);
            nonce.copy_from_slice(hash.as_ref().split_at(NONCE_LEN).0);
        }
        Kind::Note | Kind::Value | Kind::Chunk => rand::fill(&mut nonce)
            .map_err(|_| StoreError::Unavailable("there are no random numbers".to_owned()))?,
    }
    Ok(nonce)
}

pub(crate) fn damaged() -> StoreError {
    StoreError::Damaged("a value does not decrypt".to_owned())
}
