//! Items in the bytes of a source.

use std::borrow::Cow;
use std::ops::Range;

use super::source::ByteSource;
use super::starts::Starts;
use super::window::{self, FIRST_READ_BYTES, READ_BYTES};
use crate::collection::CollectionError;

/// A source, and where its items start.
#[derive(Debug)]
pub(crate) struct Stored {
    source: Box<dyn ByteSource>,
    starts: Starts,
    /// Longer items are not read.
    longest_bytes: usize,
    /// The numbers of those items, ascending.
    long: Vec<u32>,
}

/// Some items that follow each other.
pub(crate) struct Block<'a> {
    /// Which.
    pub(crate) numbers: Range<u32>,
    /// From the start of the first one to the start of what follows the last one; where the last one
    /// is not asked for, maybe only as far as into that one.
    pub(crate) text: &'a str,
    /// The item that follows them, if it is too long to be read.
    pub(crate) long: Option<u32>,
}

impl Stored {
    pub(crate) fn new(source: Box<dyn ByteSource>, starts: Starts, longest_bytes: usize) -> Self {
        let mut stored = Self { source, starts, longest_bytes, long: vec![] };
        // Of a block, only the last item may be long.
        let last = |block| stored.starts.numbers(block).end.saturating_sub(1);
        let long = (0..stored.starts.blocks()).filter(|block| stored.is_long(*block)).map(last);
        stored.long = long.collect();
        stored
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
        self.starts.size_bytes() + size_of_val(self.long.as_slice()) as u64
    }

    /// How many bytes an item may have to be read.
    pub(crate) const fn longest_bytes(&self) -> usize {
        self.longest_bytes
    }

    /// The numbers of the items that are too long to be read, ascending.
    pub(crate) fn long(&self) -> &[u32] {
        &self.long
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
        Ok(start + find(Block { numbers, text: &text, long: None })? as u64)
    }

    /// Where what follows an item starts, if the item is the last one of its block.
    pub(crate) fn next_start(&self, number: u32) -> u64 {
        self.starts.bytes(self.starts.block_of(number)).end
    }

    /// Bytes of the source without those at their end that are to be left out: these may be many, and
    /// the others are not read.
    pub(crate) fn trimmed(
        &self,
        bytes: Range<u64>,
        mut is_left_out: impl FnMut(u8) -> bool,
    ) -> Result<Range<u64>, CollectionError> {
        let Range { start, mut end } = bytes;
        while start < end {
            let from = start.max(end.saturating_sub(FIRST_READ_BYTES as u64));
            let read = window::read(&*self.source, from..end)?;
            let left_out = read.iter().rev().take_while(|byte| is_left_out(**byte)).count();
            end -= left_out as u64;
            if left_out < read.len() {
                break;
            }
        }
        Ok(start..end)
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
        let range = find(Block { numbers, text: &text, long: None })?;
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
            if self.is_long(run.start) {
                // It is alone in its run, and its other items are in its head.
                let numbers = self.starts.numbers(run.start);
                let last = numbers.end.saturating_sub(1);
                let text = self.read(self.starts.head(run.start), Cut::Anywhere)?;
                visit(Block { numbers: numbers.start..last, text: &text, long: Some(last) })?;
                continue;
            }
            let start = self.starts.bytes(run.start).start;
            let end = self.starts.bytes(run.end.saturating_sub(1)).end;
            let text = self.read(start..end, Cut::BetweenItems)?;
            for block in run {
                let bytes = self.starts.bytes(block);
                let local = |offset: u64| usize::try_from(offset - start).unwrap_or(usize::MAX);
                let text = text.get(local(bytes.start)..local(bytes.end));
                let text = text.ok_or(CollectionError::Changed)?;
                visit(Block { numbers: self.starts.numbers(block), text, long: None })?;
            }
        }
        Ok(())
    }

    /// Whether the last item of a block is too long to be read.
    fn is_long(&self, block: usize) -> bool {
        self.is_too_much(&self.starts.bytes(block))
    }

    fn is_too_much(&self, range: &Range<u64>) -> bool {
        // A short item may be in front of it.
        let limit = self.longest_bytes.saturating_add(READ_BYTES) as u64;
        range.end.saturating_sub(range.start) > limit
    }

    /// It was UTF-8 when the starts were found.
    fn read(&self, range: Range<u64>, cut: Cut) -> Result<Cow<'_, str>, CollectionError> {
        if self.is_too_much(&range) {
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
