//! Where bytes come from.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::collection::CollectionError;

/// Bytes that stay as they are for as long as a collection reads them: a held value, or one state
/// of a file.
///
/// Wrong bytes are never a danger to memory, but pages of them are nonsense: a source that may be
/// written to has to notice, and to say [`CollectionError::Changed`].
pub trait ByteSource: fmt::Debug + Send + Sync {
    /// How many bytes there are.
    fn size_bytes(&self) -> u64;

    /// Which state of the source this is: another number as soon as the content is another.
    ///
    /// Places of cursors carry it where items have no key, so it must be the same after a restart.
    fn edition(&self) -> u64;

    /// These bytes, all of them. Nobody asks for bytes beyond the size.
    ///
    /// # Errors
    ///
    /// [`CollectionError::Changed`] if the source is not in its state any more,
    /// [`CollectionError::Gone`] or [`CollectionError::Unavailable`] if it cannot be read.
    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError>;
}

/// Bytes in memory, which nobody can change: `Vec<u8>`, `String`, `Arc<[u8]>`.
pub struct InMemory<T> {
    bytes: T,
    edition: u64,
}

impl<T: AsRef<[u8]>> InMemory<T> {
    /// Bytes whose state has a number already.
    ///
    /// A value that is found by a name, and is never another one under that name, may have any
    /// number: its cursors are bound to the name.
    #[must_use]
    pub const fn new(bytes: T, edition: u64) -> Self {
        Self { bytes, edition }
    }

    /// Bytes whose state is known by themselves: the first eight bytes of their SHA-256. Where
    /// processors have no instructions for that, it can take longer than to index them.
    #[must_use]
    pub fn hashed(bytes: T) -> Self {
        let digest: [u8; 32] = Sha256::digest(bytes.as_ref()).into();
        let (start, _rest) = digest.split_first_chunk().expect("8 of 32 bytes");
        let edition = u64::from_be_bytes(*start);
        Self { bytes, edition }
    }
}

impl<T: AsRef<[u8]> + Send + Sync> ByteSource for InMemory<T> {
    fn size_bytes(&self) -> u64 {
        self.bytes.as_ref().len() as u64
    }

    fn edition(&self) -> u64 {
        self.edition
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError> {
        let bytes = self.bytes.as_ref();
        let found = match (usize::try_from(range.start), usize::try_from(range.end)) {
            (Ok(start), Ok(end)) => bytes.get(start..end),
            _ => None,
        };
        found.map(Cow::Borrowed).ok_or(CollectionError::Changed)
    }
}

impl<T: ByteSource + ?Sized> ByteSource for Arc<T> {
    fn size_bytes(&self) -> u64 {
        self.as_ref().size_bytes()
    }

    fn edition(&self) -> u64 {
        self.as_ref().edition()
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError> {
        self.as_ref().read(range)
    }
}

/// Says how many bytes there are, not which.
impl<T: AsRef<[u8]>> fmt::Debug for InMemory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemory")
            .field("size_bytes", &self.bytes.as_ref().len())
            .field("edition", &self.edition)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn memory_reads_what_it_holds() {
        let source = InMemory::new(Arc::<[u8]>::from(*b"hello"), 7);
        assert_eq!((source.size_bytes(), source.edition()), (5, 7));
        assert_eq!(source.read(1..3).unwrap(), b"el".as_slice());
        assert_eq!(source.read(5..5).unwrap(), b"".as_slice());
        #[expect(clippy::reversed_empty_ranges, reason = "a wrong range must not panic")]
        for wrong in [4..6, 6..7, 3..2, 0..u64::MAX] {
            assert!(matches!(source.read(wrong), Err(CollectionError::Changed)));
        }
    }

    #[test]
    fn equal_bytes_are_one_edition() {
        let edition = |text: &str| InMemory::hashed(text.to_owned()).edition();
        assert_eq!(edition("a"), 0xca97_8112_ca1b_bdca);
        assert_ne!(edition("a"), edition("b"));
    }

    #[test]
    fn debug_shows_no_content() {
        let source = InMemory::new("secret", 1);
        assert_eq!(format!("{source:?}"), "InMemory { size_bytes: 6, edition: 1 }");
    }
}
