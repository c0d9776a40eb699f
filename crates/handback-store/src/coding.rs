//! Fields of rows, and names that are made of hashes.

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;

use crate::StoreError;

/// Bytes of a SHA-256.
pub(crate) const HASH_BYTES: usize = 32;

/// SHA-256 over fields that each have their length in front (u32be).
pub(crate) struct FieldHash(Context);

impl FieldHash {
    /// The label keeps hashes for different uses apart.
    pub(crate) fn new(label: &str) -> Self {
        Self(Context::new(&SHA256)).field(label.as_bytes())
    }

    pub(crate) fn field(mut self, field: &[u8]) -> Self {
        // Longer fields do not fit into memory; two of them would still differ in what follows.
        let length = u32::try_from(field.len()).unwrap_or(u32::MAX);
        self.0.update(&length.to_be_bytes());
        self.0.update(field);
        self
    }

    /// A field that may be missing, which is not the same as empty.
    pub(crate) fn optional(mut self, field: Option<&[u8]>) -> Self {
        self.0.update(&[u8::from(field.is_some())]);
        match field {
            Some(field) => self.field(field),
            None => self,
        }
    }

    pub(crate) fn finish(self) -> [u8; HASH_BYTES] {
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(self.0.finish().as_ref());
        hash
    }
}

/// Lower-case hexadecimal digits: what names are written in, so that no name has a brace or a
/// slash of its own.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS.get(usize::from(value)).copied().unwrap_or(b'?'));
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of lower-case hexadecimal digits, exactly `N` of them.
pub(crate) fn unhex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|&[high, low]| Some((value(high)? << 4) | value(low)?)).collect();
    bytes?.try_into().ok()
}

/// Reads a row from its front. What it has too little or too much of is damage.
pub(crate) struct Reader {
    rest: Bytes,
    what: &'static str,
}

impl Reader {
    /// `what` is what is damaged if it cannot be read.
    pub(crate) const fn new(row: Bytes, what: &'static str) -> Self {
        Self { rest: row, what }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let array = *self.rest.first_chunk().ok_or_else(|| self.damaged())?;
        self.rest = self.rest.split_off(N);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, StoreError> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, StoreError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, StoreError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, StoreError> {
        self.array().map(u64::from_be_bytes)
    }

    /// A text with its length in front (u16be).
    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        let length = usize::from(self.u16()?);
        if self.rest.len() < length {
            return Err(self.damaged());
        }
        let text = self.rest.split_to(length);
        String::from_utf8(text.into()).map_err(|_| self.damaged())
    }

    /// All that is left, which may be taken.
    pub(crate) const fn left(&mut self) -> &mut Bytes {
        &mut self.rest
    }

    /// Nothing is left.
    pub(crate) fn end(self) -> Result<(), StoreError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.damaged()) }
    }

    pub(crate) fn damaged(&self) -> StoreError {
        StoreError::Damaged(format!("{} cannot be read", self.what))
    }
}

/// Adds a text with its length in front (u16be), cut at what that can say; no field is that long.
pub(crate) fn put_text(row: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    row.extend_from_slice(&length.to_be_bytes());
    row.extend(text.bytes().take(usize::from(length)));
}

/// Rows that something has happened to.
#[cfg(test)]
pub(crate) mod damage {
    use bytes::Bytes;
    use proptest::prelude::*;

    /// One of these rows, with some bytes changed, cut off or added; or any bytes.
    pub(crate) fn damaged(rows: Vec<Bytes>) -> impl Strategy<Value = Bytes> {
        let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
        let tail = prop::collection::vec(any::<u8>(), 0..4);
        let edited = (prop::sample::select(rows), edits, any::<prop::sample::Index>(), tail)
            .prop_map(|(row, edits, cut, tail)| {
                let mut row = row.to_vec();
                for (at, byte) in edits {
                    let at = at.index(row.len());
                    row[at] = byte;
                }
                // Mostly whole: what is cut is refused early.
                if cut.index(4) == 0 {
                    row.truncate(cut.index(row.len()));
                }
                row.extend(tail);
                Bytes::from(row)
            });
        prop_oneof![4 => edited, 1 => any::<Vec<u8>>().prop_map(Bytes::from)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_run_into_each_other() {
        let hash = |fields: &[&[u8]]| {
            fields.iter().fold(FieldHash::new("x"), |hash, field| hash.field(field)).finish()
        };
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
        assert_ne!(hash(&[b"ab"]), hash(&[b"ab", b""]));
        let optional = |field| FieldHash::new("x").optional(field).finish();
        assert_ne!(optional(None), optional(Some(b"")));
        assert_ne!(FieldHash::new("x").finish(), FieldHash::new("y").finish());
    }

    #[test]
    fn hex_comes_back() {
        let bytes = [0x00, 0x7f, 0xff, 0xa5];
        assert_eq!(hex(&bytes), "007fffa5");
        assert_eq!(unhex::<4>(b"007fffa5"), Some(bytes));
        for other in ["007fffa", "007fffa5a5", "007FFFA5", "007fffag", ""] {
            assert_eq!(unhex::<4>(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn rows_are_read_to_their_end() {
        let mut row = vec![1, 0, 2, 0, 0, 0, 3];
        put_text(&mut row, "four");
        let read = |row: &[u8]| -> Result<_, StoreError> {
            let mut reader = Reader::new(Bytes::copy_from_slice(row), "a row");
            let fields = (reader.u8()?, reader.u16()?, reader.u32()?, reader.text()?);
            reader.end()?;
            Ok(fields)
        };
        assert_eq!(read(&row).unwrap(), (1, 2, 3, "four".to_owned()));
        for length in 0..row.len() {
            assert!(matches!(read(&row[..length]), Err(StoreError::Damaged(_))), "{length}");
        }
        row.push(0);
        assert!(read(&row).is_err());
    }
}
