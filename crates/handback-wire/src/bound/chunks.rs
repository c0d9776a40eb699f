//! Reading a source in pieces of bounded size.

use std::borrow::Cow;
use std::ops::Range;

use handback_page::CollectionError;
use handback_page::json::ByteSource;

use crate::json::unescape::{LoneSurrogate, Unescape};

/// How much is read at a time: enough that a read costs little beside what is done with the bytes.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// A source, and how much of it is in memory at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks<'a> {
    source: &'a dyn ByteSource,
    size: usize,
}

/// Why a text was not read to its end.
#[derive(Debug)]
pub(super) enum ReadError<E> {
    /// The source.
    Source(CollectionError),
    /// An escape stands for half a character.
    Lone,
    /// Whoever takes the pieces.
    Taker(E),
}

impl<E> From<CollectionError> for ReadError<E> {
    fn from(error: CollectionError) -> Self {
        Self::Source(error)
    }
}

impl<E> From<LoneSurrogate> for ReadError<E> {
    fn from(LoneSurrogate: LoneSurrogate) -> Self {
        Self::Lone
    }
}

impl<'a> Chunks<'a> {
    pub(super) const fn new(source: &'a dyn ByteSource, size: usize) -> Self {
        Self { source, size }
    }

    /// All of the source.
    pub(super) fn all(&self) -> Range<u64> {
        0..self.source.size_bytes()
    }

    /// Bytes that are known to be few.
    pub(super) fn read(&self, range: Range<u64>) -> Result<Cow<'a, [u8]>, CollectionError> {
        let expected = length(&range);
        let bytes = self.source.read(range)?;
        if bytes.len() as u64 == expected { Ok(bytes) } else { Err(CollectionError::Changed) }
    }

    /// Gives the bytes of a range to `take`, piece by piece.
    pub(super) fn each<E>(
        &self,
        range: Range<u64>,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), ReadError<E>> {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at.saturating_add(self.size as u64));
            take(&self.read(at..end)?).map_err(ReadError::Taker)?;
            at = end;
        }
        Ok(())
    }

    /// Gives the text that the JSON text in a range stands for, piece by piece. The range includes
    /// the quotes.
    pub(super) fn each_unescaped<E>(
        &self,
        quoted: Range<u64>,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), ReadError<E>> {
        let mut unescape = Unescape::new();
        let mut text = vec![];
        let taken = self.each(within_quotes(&quoted), |raw| {
            text.clear();
            unescape.push(raw, &mut text).map_err(ReadError::from)?;
            take(&text).map_err(ReadError::Taker)
        });
        match taken {
            Ok(()) => Ok(unescape.finish()?),
            Err(ReadError::Taker(inner)) => Err(inner),
            Err(ReadError::Source(error)) => Err(ReadError::Source(error)),
            Err(ReadError::Lone) => Err(ReadError::Lone),
        }
    }
}

/// What is between the quotes.
pub(super) fn within_quotes(quoted: &Range<u64>) -> Range<u64> {
    let start = quoted.start.saturating_add(1);
    start..quoted.end.saturating_sub(1).max(start)
}

/// How many bytes a range has.
pub(super) fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}
