//! A stream's own key, which the client keeps, and what is encrypted under it.
//!
//! ```text
//! record key = HKDF-SHA256(ikm = key, salt = "handback/v1", info = "stream record" || stream id)
//! commitment = HKDF-SHA256(ikm = key, salt = "handback/v1", info = "stream key commitment" || stream id)
//! payload    = AES-256-GCM-SIV(record key, nonce = 00000000 || number u64be, aad, bytes)
//! aad        = "handback/v1/record" || stream id || number u64be || producer
//! producer   = 00 | 01 || u32be(length) id || epoch u64be || sequence u64be
//! ```
//!
//! A number that was not committed may be used again for another record, after a crash: that is why
//! it is GCM-SIV, which then tells at most whether both had the same bytes.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hkdf;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use rand_core::CryptoRng;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::name::{STREAM_ID_BYTES, StreamId};
use crate::record::ProducerTag;
use crate::wire::Writer;

const KEY_BYTES: usize = 32;
const KEY_CHARS: usize = 43;
const SALT: &[u8] = b"handback/v1";

/// Bytes that a payload is longer when it is encrypted.
pub const ENCRYPTION_BYTES: usize = 16;

const _: () = assert!(KEY_BYTES == 256 / 8 && NONCE_LEN == 4 + 8, "AES-256-GCM-SIV, RFC 8452");

/// The key of one stream: 32 random bytes that its client keeps. `Debug` prints no bytes, and the
/// memory is cleared.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct StreamKey([u8; KEY_BYTES]);

/// A text that is no key: 32 bytes in base64url, without padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not 32 bytes in base64url without padding")]
#[non_exhaustive]
pub struct BadKey;

impl StreamKey {
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

    /// The key that a text has.
    ///
    /// # Errors
    ///
    /// [`BadKey`] if it has none, or is not its only spelling.
    pub fn parse(text: &str) -> Result<Self, BadKey> {
        if text.len() != KEY_CHARS {
            return Err(BadKey);
        }
        let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text).map_err(|_| BadKey)?);
        let bytes: &[u8; KEY_BYTES] = bytes.as_slice().try_into().map_err(|_| BadKey)?;
        Ok(Self(*bytes))
    }

    /// The key as text: for the one who keeps it, and for the wire.
    #[must_use]
    pub fn dangerous_to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(URL_SAFE_NO_PAD.encode(self.0))
    }

    /// What the key of a stream is known by, without telling it.
    #[must_use]
    pub fn commitment(&self, stream: StreamId) -> [u8; 32] {
        let mut out = [0; 32];
        self.expand(b"stream key commitment", stream, &mut out);
        out
    }

    /// Whether this is the key that was committed to.
    #[must_use]
    pub fn is_committed(&self, stream: StreamId, commitment: &[u8; 32]) -> bool {
        verify_slices_are_equal(&self.commitment(stream), commitment).is_ok()
    }

    /// The key of a stream's records.
    #[must_use]
    pub fn records(&self, stream: StreamId) -> RecordKey {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        self.expand(b"stream record", stream, key.as_mut_slice());
        let key = UnboundKey::new(&AES_256_GCM_SIV, key.as_slice())
            .expect("AES-256 takes a key of 32 bytes");
        RecordKey { stream, key: LessSafeKey::new(key) }
    }

    fn expand(&self, label: &[u8], stream: StreamId, out: &mut [u8]) {
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(&self.0);
        let info = [label, stream.as_bytes().as_slice()];
        secret
            .expand(&info, Length(out.len()))
            .and_then(|okm| okm.fill(out))
            .expect("HKDF-SHA256 gives up to 8160 bytes");
    }
}

impl fmt::Debug for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamKey(..)")
    }
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// What encrypts the payloads of one stream.
pub struct RecordKey {
    stream: StreamId,
    key: LessSafeKey,
}

impl RecordKey {
    /// Which stream's.
    #[must_use]
    pub const fn stream(&self) -> StreamId {
        self.stream
    }

    /// Encrypts the payload of a record.
    pub(crate) fn seal(&self, number: u64, producer: Option<&ProducerTag>, bytes: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(bytes.len() + ENCRYPTION_BYTES);
        out.extend_from_slice(bytes);
        let aad = Aad::from(self.associated(number, producer));
        self.key
            .seal_in_place_append_tag(nonce(number), aad, &mut out)
            .expect("a payload has at most 4 MiB, and the cipher takes 64 GiB");
        out.into()
    }

    /// Decrypts the payload of a record. Nothing, if it is not what was encrypted there.
    #[must_use]
    pub fn open(&self, number: u64, producer: Option<&ProducerTag>, bytes: &[u8]) -> Option<Bytes> {
        let mut out = bytes.to_vec();
        let aad = Aad::from(self.associated(number, producer));
        let length = self.key.open_in_place(nonce(number), aad, &mut out).ok()?.len();
        out.truncate(length);
        Some(out.into())
    }

    fn associated(&self, number: u64, producer: Option<&ProducerTag>) -> Vec<u8> {
        let id_bytes = producer.map_or(0, |tag| tag.id.len());
        let mut out = Writer::with_capacity(64 + STREAM_ID_BYTES + id_bytes);
        out.raw(b"handback/v1/record");
        out.raw(self.stream.as_bytes());
        out.u64(number);
        out.u8(producer.is_some().into());
        if let Some(tag) = producer {
            out.text(tag.id.as_bytes());
            out.u64(tag.epoch);
            out.u64(tag.seq);
        }
        out.finish()
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordKey").field("stream", &self.stream).finish_non_exhaustive()
    }
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    let (_, end) = nonce.split_at_mut(NONCE_LEN - 8);
    end.copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(byte: u8) -> StreamId {
        StreamId::from_bytes([byte; STREAM_ID_BYTES])
    }

    fn tag(seq: u64) -> ProducerTag {
        ProducerTag { id: "p".to_owned(), epoch: 1, seq }
    }

    #[test]
    fn a_payload_opens_in_its_place_only() {
        let key = StreamKey::from_bytes(&[7; 32]);
        let records = key.records(stream(1));
        let sealed = records.seal(5, Some(&tag(2)), b"hello");
        assert_eq!(sealed.len(), 5 + ENCRYPTION_BYTES);
        assert_eq!(records.open(5, Some(&tag(2)), &sealed).as_deref(), Some(&b"hello"[..]));
        assert_eq!(records.open(6, Some(&tag(2)), &sealed), None);
        assert_eq!(records.open(5, Some(&tag(3)), &sealed), None);
        assert_eq!(records.open(5, None, &sealed), None);
        assert_eq!(key.records(stream(2)).open(5, Some(&tag(2)), &sealed), None);
        let other = StreamKey::from_bytes(&[8; 32]);
        assert_eq!(other.records(stream(1)).open(5, Some(&tag(2)), &sealed), None);
        for place in 0..sealed.len() {
            let mut edited = sealed.to_vec();
            edited[place] ^= 1;
            assert_eq!(records.open(5, Some(&tag(2)), &edited), None);
            assert_eq!(records.open(5, Some(&tag(2)), &sealed[..place]), None);
        }
    }

    #[test]
    fn a_commitment_is_of_one_key_and_one_stream() {
        let key = StreamKey::from_bytes(&[7; 32]);
        let commitment = key.commitment(stream(1));
        assert!(key.is_committed(stream(1), &commitment));
        assert!(!key.is_committed(stream(2), &commitment));
        assert!(!StreamKey::from_bytes(&[8; 32]).is_committed(stream(1), &commitment));
    }

    #[test]
    fn only_32_bytes_in_their_only_spelling_are_a_key() {
        let key = StreamKey::from_bytes(&[250; 32]);
        let text = key.dangerous_to_text();
        assert_eq!(StreamKey::parse(&text).unwrap().0, key.0);
        assert_eq!(format!("{key:?}"), "StreamKey(..)");
        for bad in ["", "abc", &format!("{}=", *text), &text[1..], &text.replace('-', "+")] {
            assert_eq!(StreamKey::parse(bad).err(), Some(BadKey), "{bad}");
        }
        // The last character has four bits of the key: the others must be zero.
        assert!(StreamKey::parse(&format!("{}{}", &text[..42], 'B')).is_err());
    }
}
