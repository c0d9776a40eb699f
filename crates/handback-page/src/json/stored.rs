//! Items in the bytes of a source.

use std::borrow::Cow;
use std::ops::Range;

use super::source::ByteSource;
use super::starts::Starts;
use super::window::{self, READ_BYTES};
use crate::collection::CollectionError;

/// A source, and where its items start.
#[derive(Debug)]
pub(crate) struct Stored {
    source: Box<dyn ByteSource>,
    starts: Starts,
    /// Longer items are not read.
    longest_bytes: usize,
}

/// Some items that follow each other.
pub(crate) struct Block<'a> {
    /// Which.
    pub(crate) numbers: Range<u32>,
    /// From the start of the first one to the start of what follows the last one; where the last one
    /// is not asked for, maybe only as far as into that one.
    pub(crate) text: &'a str,
}

impl Stored {
    pub(crate) fn new(source: Box<dyn ByteSource>, starts: Starts, longest_bytes: usize) -> Self {
        Self { source, starts, longest_bytes }
    }

    /// How many items there are.
    pub(crate) fn count(&self) -> u32 {
        self.starts.count()
    }

    pub(crate) fn source(&self) -> &dyn ByteSource {
        &*self.source
    }

    /// How many bytes of memory the starts take.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.starts.size_bytes()
    }

    /// Where the last item and what is behind it end.
    pub(crate) const fn end(&self) -> u64 {
        self.starts.end()
    }

    /// Where an item starts: `find` is given its block as far as that needs.
    pub(crate) fn start(
        &self,
        number: u32,
        find: impl FnOnce(Block<'_>) -> Result<usize, CollectionError>,
    ) -> Result<u64, CollectionError> {
        let block = self.starts.block_of(number);
        let (numbers, start) = (self.starts.numbers(block), self.starts.bytes(block).start);
        if numbers.start == number {
            return Ok(start);
        }
        let text = self.read(self.starts.head(block), Cut::Anywhere)?;
        Ok(start + find(Block { numbers, text: &text })? as u64)
    }

    /// The part of the block of an item that `find` chooses.
    pub(crate) fn text(
        &self,
        number: u32,
        find: impl FnOnce(Block<'_>) -> Result<Range<usize>, CollectionError>,
    ) -> Result<Cow<'_, str>, CollectionError> {
        let block = self.starts.block_of(number);
        let numbers = self.starts.numbers(block);
        let is_last = number + 1 == numbers.end;
        let text = match is_last {
            true => self.read(self.starts.bytes(block), Cut::BetweenItems)?,
            false => self.read(self.starts.head(block), Cut::Anywhere)?,
        };
        let range = find(Block { numbers, text: &text })?;
        let part = match text {
            Cow::Borrowed(text) => text.get(range).map(Cow::Borrowed),
            Cow::Owned(text) if range == (0..text.len()) => Some(Cow::Owned(text)),
            Cow::Owned(text) => text.get(range).map(|part| Cow::Owned(part.to_owned())),
        };
        part.ok_or(CollectionError::Changed)
    }

    /// Gives every block to `visit`, in order.
    pub(crate) fn each(
        &self,
        visit: &mut dyn FnMut(Block<'_>) -> Result<(), CollectionError>,
    ) -> Result<(), CollectionError> {
        for run in self.starts.runs() {
            let start = self.starts.bytes(run.start).start;
            let end = self.starts.bytes(run.end.saturating_sub(1)).end;
            let text = self.read(start..end, Cut::BetweenItems)?;
            for block in run {
                let bytes = self.starts.bytes(block);
                let local = |offset: u64| usize::try_from(offset - start).unwrap_or(usize::MAX);
                let text = text.get(local(bytes.start)..local(bytes.end));
                let text = text.ok_or(CollectionError::Changed)?;
                visit(Block { numbers: self.starts.numbers(block), text })?;
            }
        }
        Ok(())
    }

    /// It was UTF-8 when the starts were found.
    fn read(&self, range: Range<u64>, cut: Cut) -> Result<Cow<'_, str>, CollectionError> {
        // A short item may be in front of it.
        let limit = self.longest_bytes.saturating_add(READ_BYTES) as u64;
        if range.end.saturating_sub(range.start) > limit {
            return Err(CollectionError::TooLarge {
                what: "an item",
                unit: "bytes",
                limit: self.longest_bytes as u64,
            });
        }
        let whole = |bytes: &[u8]| match cut {
            Cut::BetweenItems => bytes.len(),
            Cut::Anywhere => whole_characters(bytes),
        };
        match window::read(&*self.source, range)? {
            Cow::Borrowed(bytes) => {
                let bytes = bytes.get(..whole(bytes)).unwrap_or_default();
                str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| CollectionError::Changed)
            }
            Cow::Owned(mut bytes) => {
                bytes.truncate(whole(&bytes));
                String::from_utf8(bytes).map(Cow::Owned).map_err(|_| CollectionError::Changed)
            }
        }
    }
}

/// Where bytes end that are read.
#[derive(Clone, Copy)]
enum Cut {
    BetweenItems,
    /// Maybe inside of a character, which is left out then.
    Anywhere,
}

/// How many bytes there are before a character at their end of which a part is missing.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    // A character has four bytes at most, and only its first one says how many.
    let is_first = |byte: &u8| *byte & 0xc0 != 0x80;
    let Some(back) = bytes.iter().rev().take(4).position(is_first) else { return bytes.len() };
    let at = bytes.len() - 1 - back;
    let expected = match bytes.get(at) {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..) => 4,
        _ => 1,
    };
    if back + 1 < expected { at } else { bytes.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_whole_or_left_out() {
        let text = "aä€𝄞z";
        for length in 0..=text.len() {
            let whole = whole_characters(&text.as_bytes()[..length]);
            let expected = (0..=length).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            assert_eq!(whole, expected, "{length}");
        }
        for bytes in [&b"\x80\x80\x80\x80\x80"[..], b"a\x80", b"\xc3\x80\x80"] {
            assert_eq!(whole_characters(bytes), bytes.len(), "it is not UTF-8 for another reason");
        }
    }
}
