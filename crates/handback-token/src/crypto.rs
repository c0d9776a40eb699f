//! The two constructions, over bytes: AES-256-GCM-SIV and HMAC-SHA256 cut to 128 bits.
//!
//! `docs/spec/tokens.md`, section 5. Nothing here knows about time, purposes or text.

use std::ops::Range;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use rand_core::CryptoRng;

use crate::context::ContextDigest;
use crate::encoding::Writer;
use crate::hash::MacKey;
use crate::key::MasterKey;
use crate::ring::{Mode, SlotNumber};

/// Length of the tag in both constructions. An HMAC may be cut to half its hash (RFC 2104,
/// section 5); a GCM-SIV tag is never cut.
pub(crate) const TAG_BYTES: usize = 16;

const EXP_BYTES: usize = 4;
const NONCE_BYTES: usize = 12;
const MAC_LABEL: &[u8] = b"\x00\x00\x00\x0fhandback/v1/mac";

/// A key derived for one purpose, in the mode of its slot.
pub(crate) enum PurposeKey {
    /// Boxed, like the other: a ring has room for 48 of them.
    Sealed(Box<LessSafeKey>),
    Signed(Box<MacKey>),
}

impl PurposeKey {
    pub(crate) fn derive(master: &MasterKey, mode: Mode, purpose: &str) -> Self {
        let key = master.derive(purpose, mode.algorithm());
        match mode {
            Mode::Sealed => Self::Sealed(Box::new(aead_key(&key))),
            Mode::Signed => Self::Signed(Box::new(MacKey::new(key.as_slice()))),
        }
    }

    pub(crate) const fn mode(&self) -> Mode {
        match self {
            Self::Sealed(_) => Mode::Sealed,
            Self::Signed(_) => Mode::Signed,
        }
    }
}

pub(crate) fn aead_key(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(
        UnboundKey::new(&AES_256_GCM_SIV, key).expect("AES-256 takes a key of 32 bytes"),
    )
}

/// The form of a token: the high nibble of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Signed,
    SealedShort,
    SealedLong,
}

impl Form {
    /// Form and slot of a token, if it has a form and is long enough for it.
    pub(crate) fn of(token: &[u8]) -> Option<(Self, SlotNumber)> {
        let header = *token.first()?;
        let form = match header >> 4 {
            1 => Self::Signed,
            2 => Self::SealedShort,
            3 => Self::SealedLong,
            _ => return None,
        };
        (token.len() >= form.overhead()).then_some((form, SlotNumber::of_header(header)))
    }

    const fn nibble(self) -> u8 {
        match self {
            Self::Signed => 1,
            Self::SealedShort => 2,
            Self::SealedLong => 3,
        }
    }

    pub(crate) const fn mode(self) -> Mode {
        match self {
            Self::Signed => Mode::Signed,
            Self::SealedShort | Self::SealedLong => Mode::Sealed,
        }
    }

    pub(crate) const fn salt_bytes(self) -> usize {
        match self {
            Self::Signed => 0,
            Self::SealedShort => 1,
            Self::SealedLong => 4,
        }
    }

    /// Bytes of a token besides its body.
    pub(crate) const fn overhead(self) -> usize {
        1 + self.salt_bytes() + EXP_BYTES + TAG_BYTES
    }
}

/// What makes the nonces of one context differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Salt {
    None,
    Short(u8),
    Long([u8; 4]),
}

impl Salt {
    /// Of a cursor that follows no other.
    pub(crate) const FIRST: Self = Self::Short(0);

    pub(crate) fn random<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
        let mut salt = [0; 4];
        rng.fill_bytes(&mut salt);
        Self::Long(salt)
    }

    /// Of the cursor that follows one with this salt.
    pub(crate) const fn next(self) -> Self {
        match self {
            Self::Short(salt) => Self::Short(salt.wrapping_add(1)),
            Self::None | Self::Long(_) => Self::FIRST,
        }
    }

    pub(crate) fn of(form: Form, token: &[u8]) -> Self {
        match (form, token) {
            (Form::SealedShort, [_, salt, ..]) => Self::Short(*salt),
            (Form::SealedLong, [_, a, b, c, d, ..]) => Self::Long([*a, *b, *c, *d]),
            _ => Self::None,
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Short(salt) => std::slice::from_ref(salt),
            Self::Long(salt) => salt,
        }
    }
}

/// Writes what stands before the body of a token.
pub(crate) fn begin<'m>(
    token: Writer<'m>,
    form: Form,
    slot: SlotNumber,
    salt: Salt,
    exp: u32,
) -> Writer<'m> {
    token.put(&[slot.header(form.nibble())]).put(salt.as_slice()).put(&exp.to_be_bytes())
}

/// Turns `header || salt || exp || body || room for the tag` into a token, in place.
pub(crate) fn seal(key: &PurposeKey, form: Form, context: &ContextDigest, token: &mut [u8]) {
    let (signed, place) =
        token.split_last_chunk_mut::<TAG_BYTES>().expect("a token has room for its tag");
    match key {
        PurposeKey::Sealed(key) => {
            let (front, plain) = signed.split_at_mut(1 + form.salt_bytes());
            let (nonce, aad) = nonce_and_aad(front, context);
            let tag = key
                .seal_in_place_separate_tag(nonce, Aad::from(aad.as_slice()), plain)
                .expect("tokens are far below the length that GCM-SIV can seal");
            place.copy_from_slice(tag.as_ref());
        }
        PurposeKey::Signed(key) => *place = tag(key, context, signed),
    }
}

/// Verifies a token and, if it is sealed, decrypts it in place. Gives the expiry and where the body
/// lies; `None` if the tag does not verify.
pub(crate) fn open(
    key: &PurposeKey,
    form: Form,
    context: &ContextDigest,
    token: &mut [u8],
) -> Option<(u32, Range<usize>)> {
    let end = token.len().checked_sub(TAG_BYTES)?;
    let front_bytes = 1 + form.salt_bytes();
    match key {
        PurposeKey::Sealed(key) => {
            let (front, sealed) = token.split_at_mut_checked(front_bytes)?;
            let (nonce, aad) = nonce_and_aad(front, context);
            key.open_in_place(nonce, Aad::from(aad.as_slice()), sealed).ok()?;
        }
        PurposeKey::Signed(key) => {
            let (signed, presented) = token.split_at_checked(end)?;
            verify_slices_are_equal(&tag(key, context, signed), presented).ok()?;
        }
    }
    let exp = token.get(front_bytes..end)?.first_chunk::<EXP_BYTES>()?;
    Some((u32::from_be_bytes(*exp), front_bytes + EXP_BYTES..end))
}

/// `front` is header and salt: the nonce ends in the salt, the associated data begins with both.
fn nonce_and_aad(front: &[u8], context: &ContextDigest) -> (Nonce, AssociatedData) {
    let salt = front.get(1..).unwrap_or_default();
    let mut nonce = [0; NONCE_BYTES];
    let (head, tail) = nonce.split_at_mut(NONCE_BYTES - salt.len());
    head.copy_from_slice(context.0.get(..head.len()).unwrap_or_default());
    tail.copy_from_slice(salt);
    (Nonce::assume_unique_for_key(nonce), AssociatedData::new(front, context))
}

struct AssociatedData {
    bytes: [u8; 5 + 32],
    len: usize,
}

impl AssociatedData {
    fn new(front: &[u8], context: &ContextDigest) -> Self {
        let mut bytes = [0; 5 + 32];
        let len = front.len() + context.0.len();
        let (head, rest) = bytes.split_at_mut(front.len());
        head.copy_from_slice(front);
        if let Some(rest) = rest.get_mut(..context.0.len()) {
            rest.copy_from_slice(&context.0);
        }
        Self { bytes, len }
    }

    fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// The first half of the MAC.
fn tag(key: &MacKey, context: &ContextDigest, signed: &[u8]) -> [u8; TAG_BYTES] {
    let len = MAC_LABEL.len() + context.0.len() + signed.len();
    let mac = key.mac(len, |writer| writer.put(MAC_LABEL).put(&context.0).put(signed).done());
    *mac.first_chunk().expect("half of 32 bytes")
}
