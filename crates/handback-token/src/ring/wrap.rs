//! Stored keys, wrapped under the ring: `docs/spec/tokens.md`, section 10.
//!
//! The keys of a ring seal tokens only. A store encrypts its values under a random data key of its
//! own, and streams sign with key pairs of their own; what is stored of these is wrapped here, and
//! wrapped again when another slot becomes active.

use std::fmt;

use aws_lc_rs::aead::{Aad, Nonce};
use rand_core::CryptoRng;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{KeyRing, Slot, SlotNumber};
use crate::context::{Caller, Context, ContextError};
use crate::crypto::{self, TAG_BYTES};
use crate::encoding;
use crate::key::KEY_BYTES;

const WRAPPED_NIBBLE: u8 = 4;
const SALT_BYTES: usize = 4;
const FRONT_BYTES: usize = 1 + SALT_BYTES;
const WRAPPED_BYTES: usize = FRONT_BYTES + KEY_BYTES + TAG_BYTES;

/// A key that can be wrapped: [`DataKey`] or [`SigningSeed`].
pub trait Wrappable: sealed::Sealed {
    #[doc(hidden)]
    const PURPOSE: &'static str;
    #[doc(hidden)]
    fn bytes(&self) -> &[u8; KEY_BYTES];
    #[doc(hidden)]
    fn from_wrapped(bytes: [u8; KEY_BYTES]) -> Self;
}

mod sealed {
    #[expect(unnameable_types, reason = "this is what seals the trait")]
    pub trait Sealed {}
    impl Sealed for super::DataKey {}
    impl Sealed for super::SigningSeed {}
}

macro_rules! wrappable {
    ($(#[$doc:meta])* $name:ident, $purpose:literal) => {
        $(#[$doc])*
        #[derive(Clone, Zeroize, ZeroizeOnDrop)]
        pub struct $name([u8; KEY_BYTES]);

        impl $name {
            /// A new random one.
            pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
                let mut bytes = Zeroizing::new([0; KEY_BYTES]);
                rng.fill_bytes(bytes.as_mut_slice());
                Self(*bytes)
            }

            /// The secret bytes.
            #[must_use]
            pub const fn dangerous_bytes(&self) -> &[u8; KEY_BYTES] {
                &self.0
            }
        }

        impl Wrappable for $name {
            const PURPOSE: &'static str = $purpose;

            fn bytes(&self) -> &[u8; KEY_BYTES] {
                &self.0
            }

            fn from_wrapped(bytes: [u8; KEY_BYTES]) -> Self {
                Self(bytes)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

wrappable! {
    /// The random key under which a store encrypts its values.
    DataKey, "wrap-data"
}

wrappable! {
    /// The seed of an Ed25519 key pair that signs events.
    SigningSeed, "wrap-sign"
}

/// A [`DataKey`] or [`SigningSeed`] as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct WrappedKey([u8; WRAPPED_BYTES]);

impl WrappedKey {
    /// Reads it from its text. That it unwraps is not known yet.
    ///
    /// # Errors
    ///
    /// [`UnwrapError::Malformed`] unless it is 71 characters of canonical base64url with the right
    /// first byte.
    pub fn parse(text: &str) -> Result<Self, UnwrapError> {
        let bytes: [u8; WRAPPED_BYTES] =
            encoding::decode_array(text).ok_or(UnwrapError::Malformed)?;
        let [header, ..] = bytes;
        if header >> 4 != WRAPPED_NIBBLE {
            return Err(UnwrapError::Malformed);
        }
        Ok(Self(bytes))
    }

    /// The text to store: 71 characters.
    #[must_use]
    pub fn to_text(&self) -> String {
        encoding::encode(&self.0)
    }

    /// The slot that it is wrapped under.
    #[must_use]
    pub const fn slot(&self) -> SlotNumber {
        let [header, ..] = self.0;
        SlotNumber::of_header(header)
    }

    #[cfg(test)]
    pub(super) fn in_slot_for_tests(&self, number: SlotNumber) -> String {
        let mut bytes = self.0;
        bytes[0] = number.header(WRAPPED_NIBBLE);
        encoding::encode(&bytes)
    }
}

impl fmt::Debug for WrappedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WrappedKey(slot {})", self.slot())
    }
}

impl KeyRing {
    /// Wraps a key under the active slot. `name` says what the key belongs to; it unwraps under that
    /// name only.
    ///
    /// # Errors
    ///
    /// [`ContextError`] if the name is too long.
    pub fn wrap<K: Wrappable, R: CryptoRng + ?Sized>(
        &self,
        rng: &mut R,
        name: &str,
        key: &K,
    ) -> Result<WrappedKey, ContextError> {
        let number = self.active();
        let slot = self.get(number).expect("the active slot is not empty");
        let mut wrapped = [0; WRAPPED_BYTES];
        let (front, rest) =
            wrapped.split_first_chunk_mut::<FRONT_BYTES>().expect("longer than its front");
        let [header, salt @ ..] = front;
        *header = number.header(WRAPPED_NIBBLE);
        rng.fill_bytes(salt);
        let (nonce, aad) = self.nonce_and_aad::<K>(name, front)?;
        let (body, tag) = rest.split_at_mut(KEY_BYTES);
        body.copy_from_slice(key.bytes());
        let made = wrapping_key::<K>(slot)
            .seal_in_place_separate_tag(nonce, Aad::from(aad), body)
            .expect("32 bytes can be sealed");
        tag.copy_from_slice(made.as_ref());
        Ok(WrappedKey(wrapped))
    }

    /// Unwraps a key that was wrapped under any slot that is still there, retired ones included.
    ///
    /// # Errors
    ///
    /// [`UnwrapError`] if the slot is empty, or the key was wrapped by another ring, for another use
    /// or name, or was edited.
    pub fn unwrap_key<K: Wrappable>(
        &self,
        name: &str,
        wrapped: &WrappedKey,
    ) -> Result<K, UnwrapError> {
        let number = wrapped.slot();
        let slot = self.get(number).ok_or(UnwrapError::UnknownSlot(number))?;
        let (front, sealed) =
            wrapped.0.split_first_chunk::<FRONT_BYTES>().expect("longer than its front");
        let (nonce, aad) =
            self.nonce_and_aad::<K>(name, front).map_err(|_| UnwrapError::NotOpened)?;
        let mut sealed = Zeroizing::new(sealed.to_vec());
        let plain = wrapping_key::<K>(slot)
            .open_in_place(nonce, Aad::from(aad), &mut sealed)
            .map_err(|_| UnwrapError::NotOpened)?;
        let bytes = <[u8; KEY_BYTES]>::try_from(&*plain).map_err(|_| UnwrapError::NotOpened)?;
        Ok(K::from_wrapped(bytes))
    }

    /// Wraps again under the active slot what is wrapped under another one: after a promotion, and
    /// before the old slot is dropped.
    ///
    /// # Errors
    ///
    /// As [`unwrap_key`](Self::unwrap_key).
    pub fn rewrap<K: Wrappable, R: CryptoRng + ?Sized>(
        &self,
        rng: &mut R,
        name: &str,
        wrapped: &WrappedKey,
    ) -> Result<WrappedKey, UnwrapError> {
        let key: K = self.unwrap_key(name, wrapped)?;
        self.wrap(rng, name, &key).map_err(|_| UnwrapError::NotOpened)
    }

    fn nonce_and_aad<K: Wrappable>(
        &self,
        name: &str,
        front: &[u8; FRONT_BYTES],
    ) -> Result<(Nonce, [u8; FRONT_BYTES + 32]), ContextError> {
        let context = Context::bare(Caller::UNAUTHENTICATED)
            .name(name)
            .digest(K::PURPOSE, &self.id.to_string())?;
        let mut nonce = [0; 12];
        let (head, tail) = nonce.split_at_mut(12 - SALT_BYTES);
        head.copy_from_slice(context.0.split_at(12 - SALT_BYTES).0);
        tail.copy_from_slice(front.split_at(1).1);
        let mut aad = [0; FRONT_BYTES + 32];
        let (head, tail) = aad.split_at_mut(FRONT_BYTES);
        head.copy_from_slice(front);
        tail.copy_from_slice(&context.0);
        Ok((Nonce::assume_unique_for_key(nonce), aad))
    }
}

fn wrapping_key<K: Wrappable>(slot: &Slot) -> aws_lc_rs::aead::LessSafeKey {
    crypto::aead_key(&slot.key.derive(K::PURPOSE, "aes-256-gcm-siv"))
}

/// A stored key that does not unwrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnwrapError {
    /// Not the text of a wrapped key.
    #[error("not the text of a wrapped key")]
    Malformed,
    /// The slot that it is wrapped under is empty.
    #[error("the stored key is wrapped under key slot {0}, which is empty")]
    UnknownSlot(SlotNumber),
    /// Made by another ring, for another use or name, or edited.
    #[error("the stored key does not unwrap under this ring")]
    NotOpened,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{Mode, Retire};
    use crate::time::UnixTime;

    const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

    #[test]
    fn a_wrapped_key_unwraps_for_its_use_name_and_ring_only() {
        let rng = &mut rand::rng();
        for mode in [Mode::Sealed, Mode::Signed] {
            let ring = KeyRing::generate(rng, mode, NOW);
            let key = DataKey::generate(rng);
            let wrapped = ring.wrap(rng, "store", &key).unwrap();
            let text = wrapped.to_text();
            assert_eq!(text.len(), 71);
            let wrapped = WrappedKey::parse(&text).unwrap();
            let back: DataKey = ring.unwrap_key("store", &wrapped).unwrap();
            assert_eq!(back.dangerous_bytes(), key.dangerous_bytes());
            let refused = |result: Result<_, UnwrapError>| result.map(|_: DataKey| ()).unwrap_err();
            assert_eq!(refused(ring.unwrap_key("stores", &wrapped)), UnwrapError::NotOpened);
            assert_eq!(
                ring.unwrap_key::<SigningSeed>("store", &wrapped).unwrap_err(),
                UnwrapError::NotOpened
            );
            let other = KeyRing::generate(rng, mode, NOW);
            assert_eq!(refused(other.unwrap_key("store", &wrapped)), UnwrapError::NotOpened);
        }
    }

    #[test]
    fn every_edited_bit_is_refused() {
        let rng = &mut rand::rng();
        let ring = KeyRing::generate(rng, Mode::Sealed, NOW);
        let wrapped = ring.wrap(&mut rand::rng(), "store", &SigningSeed::generate(rng)).unwrap();
        for bit in 0..WRAPPED_BYTES * 8 {
            let mut bytes = wrapped.0;
            bytes[bit / 8] ^= 1 << (bit % 8);
            let opened = WrappedKey::parse(&encoding::encode(&bytes))
                .and_then(|wrapped| ring.unwrap_key::<SigningSeed>("store", &wrapped));
            assert!(opened.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_retired_slot_unwraps_and_an_empty_one_says_so() {
        let rng = &mut rand::rng();
        let mut ring = KeyRing::generate(rng, Mode::Sealed, NOW);
        let key = DataKey::generate(rng);
        let wrapped = ring.wrap(rng, "store", &key).unwrap();
        ring.rotate(rng, Mode::Sealed, NOW).unwrap();
        ring.retire(SlotNumber::FIRST, Retire::Immediately, NOW).unwrap();
        let again = ring.rewrap::<DataKey, _>(rng, "store", &wrapped).unwrap();
        assert_eq!(again.slot(), ring.active());
        let back: DataKey = ring.unwrap_key("store", &again).unwrap();
        assert_eq!(back.dangerous_bytes(), key.dangerous_bytes());
        ring.drop_slot(SlotNumber::FIRST, [&again]).unwrap();
        assert_eq!(
            ring.unwrap_key::<DataKey>("store", &wrapped).unwrap_err(),
            UnwrapError::UnknownSlot(SlotNumber::FIRST)
        );
    }

    #[test]
    fn debug_prints_no_bytes() {
        let rng = &mut rand::rng();
        assert_eq!(format!("{:?}", DataKey::generate(rng)), "DataKey(..)");
        assert_eq!(format!("{:?}", SigningSeed::generate(rng)), "SigningSeed(..)");
        let ring = KeyRing::generate(rng, Mode::Sealed, NOW);
        let wrapped = ring.wrap(&mut rand::rng(), "store", &DataKey::generate(rng)).unwrap();
        assert_eq!(format!("{wrapped:?}"), "WrappedKey(slot 0)");
    }
}
