//! Length prefixes and canonical base64url, the two encodings that everything here is made of, and
//! strict JSON objects.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// The canonical text of `bytes`.
pub(crate) fn encode(bytes: &[u8]) -> String {
    base64_simd::URL_SAFE_NO_PAD.encode_to_string(bytes)
}

/// How many characters [`encode`] makes of `len` bytes.
pub(crate) const fn encoded_len(len: usize) -> usize {
    (len * 4).div_ceil(3)
}

/// The bytes of a canonical text; `None` for any other text.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    #[cfg(test)]
    counter::add(text.len());
    base64_simd::URL_SAFE_NO_PAD.decode_to_vec(text).ok()
}

/// The bytes of a canonical text of exactly `N` bytes.
pub(crate) fn decode_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != encoded_len(N) {
        return None;
    }
    let bytes = zeroize::Zeroizing::new(decode(text)?);
    bytes.as_slice().try_into().ok()
}

/// Appends `lp(value)`: the length as four big-endian bytes, then the value.
///
/// # Panics
///
/// If `value` is 4 GiB or longer. Callers bound what they pass, far below that.
pub(crate) fn push_lp(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&lp_len(value));
    out.extend_from_slice(value);
}

/// The length prefix of `value`; panics as [`push_lp`] does.
#[inline]
pub(crate) fn lp_len(value: &[u8]) -> [u8; 4] {
    u32::try_from(value.len()).expect("callers bound every value far below 4 GiB").to_be_bytes()
}

/// A place whose bytes are filled from the front.
pub(crate) struct Writer<'m>(pub(crate) &'m mut [u8]);

impl Writer<'_> {
    /// Writes a piece and gives the rest.
    ///
    /// # Panics
    ///
    /// If there is no room: the length was computed wrongly.
    #[inline(always)]
    #[must_use]
    pub(crate) fn put(self, piece: &[u8]) -> Self {
        let (place, rest) = self.0.split_at_mut(piece.len());
        place.copy_from_slice(piece);
        Self(rest)
    }

    /// Says that the place is full.
    pub(crate) fn done(self) {
        debug_assert!(self.0.is_empty(), "the length was computed wrongly");
    }
}

/// A `T` that was written as a JSON object. Derived structs alone take arrays too.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members))
            }
        }

        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// Counts what is decoded, so that tests can show that nothing past a cap ever is.
#[cfg(test)]
pub(crate) mod counter {
    use std::cell::Cell;

    thread_local! {
        static DECODED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn add(characters: usize) {
        DECODED.set(DECODED.get() + characters);
    }

    /// Characters that `work` had decoded.
    pub(crate) fn count(work: impl FnOnce()) -> usize {
        let before = DECODED.get();
        work();
        DECODED.get() - before
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn refuses_every_other_text_of_the_same_bytes() {
        for text in ["QQ=", "QQ==", "QR", "QQ ", " QQ", "QQ\n", "Q", "+_AA", "/-AA", "QQ\0"] {
            assert_eq!(decode(text), None, "{text:?}");
        }
        assert_eq!(decode("QQ"), Some(b"A".to_vec()));
        assert_eq!(decode(""), Some(Vec::new()));
    }

    #[test]
    fn refuses_tail_bits_at_every_length_around_the_vector_width() {
        for len in 0..200 {
            let text = encode(&vec![0xa5; len]);
            assert_eq!(text.len(), encoded_len(len));
            let Some(last) = text.bytes().last().filter(|_| len % 3 != 0) else { continue };
            let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
            let place = alphabet.iter().position(|&c| c == last).unwrap();
            let mut edited = text.clone().into_bytes();
            *edited.last_mut().unwrap() = alphabet[place + 1];
            assert_eq!(decode(std::str::from_utf8(&edited).unwrap()), None, "length {len}");
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "the length was computed wrongly")]
    fn a_place_that_is_not_full_is_noticed() {
        Writer(&mut [0; 3]).put(b"ab").done();
    }

    proptest! {
        #[test]
        fn what_decodes_encodes_to_the_same_text(text in "[A-Za-z0-9_+/= -]{0,200}") {
            if let Some(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }

        #[test]
        fn every_byte_string_survives(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
    }
}
