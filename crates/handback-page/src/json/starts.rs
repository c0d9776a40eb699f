//! Where items start.

use std::fmt;
use std::ops::Range;

use super::window::READ_BYTES;
use crate::collection::CollectionError;

/// More items are not numbered: a view has four bytes for each.
pub const MAX_ITEMS: u64 = u32::MAX as u64;

/// Of the bytes of a source, its starts may take one in so many. With one view of the same size
/// beside them, all is below 1.15 times the source.
const SHARE: u64 = 16;

/// Starts that take less than this are all kept.
const SMALL_BYTES: u64 = 64 << 10;

/// Starts take no more than this, however large the source is: that of a gigabyte has blocks of a
/// kilobyte then, and to look through one of them takes less time than to read it.
const LARGE_BYTES: u64 = 8 << 20;

/// Blocks are not shorter, once not every item is one.
const SHORTEST_BLOCK_BYTES: u64 = 64;

/// The offsets at which items start: of every item, or, where that would take too much memory, of
/// some of them. Items from one start to the next are a block.
///
/// A block goes on for so many bytes: of items that are longer, each is a block by itself. So it never
/// takes more than one long item to find a short one.
pub(crate) struct Starts {
    offsets: Offsets,
    /// The number of the first item of every block, unless every item is a block.
    firsts: Option<Vec<u32>>,
    /// Whoever starts so far behind the start of a block starts another one.
    block_bytes: u64,
    /// Whoever starts here or later starts another block.
    next: u64,
    count: u64,
    /// Where the last item and what is behind it end.
    end: u64,
}

/// As wide as the size of the source demands.
enum Offsets {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Starts {
    /// No items yet, of a source of this size.
    pub(crate) fn new(size: u64) -> Self {
        let offsets = Offsets::for_size(size);
        Self { offsets, firsts: None, block_bytes: 0, next: 0, count: 0, end: 0 }
    }

    /// Adds an item that starts behind all others.
    #[inline(always)]
    pub(crate) fn push(&mut self, offset: u64) {
        if offset >= self.next {
            if self.offsets.is_full() {
                self.thin(offset);
            }
            if offset >= self.next {
                self.add(offset);
            }
        }
        self.count += 1;
    }

    #[inline(always)]
    fn add(&mut self, offset: u64) {
        self.offsets.push(offset);
        if let Some(firsts) = &mut self.firsts {
            firsts.push(number(self.count));
        }
        self.next = offset.saturating_add(self.block_bytes);
    }

    /// Checked from time to time while items are added.
    pub(crate) fn check_count(&self) -> Result<(), CollectionError> {
        if self.count <= MAX_ITEMS {
            return Ok(());
        }
        Err(CollectionError::TooLarge { what: "the collection", unit: "items", limit: MAX_ITEMS })
    }

    /// No more items; the last one ends at `end`, but for what separates it from what follows.
    pub(crate) fn finish(&mut self, end: u64) {
        self.end = end;
        while self.thin(end) {}
        self.offsets.shrink();
        self.firsts.iter_mut().for_each(Vec::shrink_to_fit);
    }

    /// How many items there are.
    pub(crate) fn count(&self) -> u32 {
        number(self.count)
    }

    /// How many bytes of memory the starts take.
    pub(crate) fn size_bytes(&self) -> u64 {
        let firsts = self.firsts.as_ref().map_or(0, |firsts| 4 * firsts.len() as u64);
        self.offsets.size_bytes() + firsts
    }

    /// Where the last item and what is behind it end.
    pub(crate) const fn end(&self) -> u64 {
        self.end
    }

    /// How many blocks there are.
    pub(crate) fn blocks(&self) -> usize {
        self.offsets.len()
    }

    /// The block that an item is in.
    pub(crate) fn block_of(&self, number: u32) -> usize {
        match &self.firsts {
            None => number as usize,
            Some(firsts) => firsts.partition_point(|first| *first <= number).saturating_sub(1),
        }
    }

    /// The numbers of the items of a block.
    pub(crate) fn numbers(&self, block: usize) -> Range<u32> {
        let count = self.count();
        let first = |block: usize| match &self.firsts {
            None => u32::try_from(block).map_or(count, |number| number.min(count)),
            Some(firsts) => firsts.get(block).copied().unwrap_or(count),
        };
        first(block)..first(block + 1)
    }

    /// The bytes of a block, with what separates it from what follows.
    pub(crate) fn bytes(&self, block: usize) -> Range<u64> {
        let start = |block| self.offsets.get(block).unwrap_or(self.end);
        start(block)..start(block + 1)
    }

    /// Of the bytes of a block, those that its last item is the only one to go beyond.
    pub(crate) fn head(&self, block: usize) -> Range<u64> {
        let Range { start, end } = self.bytes(block);
        // A block is made of earlier ones, whose last items started as far behind their starts as a
        // block was long then: half as long, at most.
        start..end.min(start.saturating_add(self.block_bytes.saturating_mul(2)))
    }

    /// The blocks in runs that can be read at once: of about [`READ_BYTES`], or a single one.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let limit = self.bytes(start).start + READ_BYTES as u64;
            let from = start;
            if from == self.blocks() {
                return None;
            }
            start += 1;
            while start < self.blocks() && self.bytes(start).end <= limit {
                start += 1;
            }
            Some(from..start)
        })
    }

    /// Keeps fewer starts if they take too much for a source that was read up to `offset`.
    #[cold]
    fn thin(&mut self, offset: u64) -> bool {
        let size = self.size_bytes();
        let too_much = size > SMALL_BYTES.max(offset / SHARE) || size >= LARGE_BYTES;
        while too_much && self.size_bytes() > size / 2 {
            self.block_bytes = self.block_bytes.saturating_mul(2).max(SHORTEST_BLOCK_BYTES);
            self.merge();
        }
        too_much
    }

    /// Makes one block of those that are no longer than a block should be.
    fn merge(&mut self) {
        let mut offsets = self.offsets.empty();
        let mut firsts = vec![];
        self.next = 0;
        for block in 0..self.blocks() {
            let start = self.bytes(block).start;
            if start >= self.next {
                offsets.push(start);
                firsts.push(self.numbers(block).start);
                self.next = start.saturating_add(self.block_bytes);
            }
        }
        (self.offsets, self.firsts) = (offsets, Some(firsts));
    }
}

/// The number of an item. That there are not too many is checked from time to time.
fn number(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Does not write out millions of offsets.
impl fmt::Debug for Starts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Starts")
            .field("count", &self.count)
            .field("blocks", &self.blocks())
            .field("end", &self.end)
            .finish()
    }
}

impl Offsets {
    fn for_size(size: u64) -> Self {
        if u32::try_from(size).is_ok() { Self::Narrow(vec![]) } else { Self::Wide(vec![]) }
    }

    /// None, of the same width.
    const fn empty(&self) -> Self {
        match self {
            Self::Narrow(_) => Self::Narrow(vec![]),
            Self::Wide(_) => Self::Wide(vec![]),
        }
    }

    #[inline(always)]
    fn push(&mut self, offset: u64) {
        match self {
            Self::Narrow(offsets) => {
                debug_assert!(u32::try_from(offset).is_ok(), "wider than the source");
                offsets.push(u32::try_from(offset).unwrap_or(u32::MAX));
            }
            Self::Wide(offsets) => offsets.push(offset),
        }
    }

    fn get(&self, number: usize) -> Option<u64> {
        match self {
            Self::Narrow(offsets) => offsets.get(number).copied().map(u64::from),
            Self::Wide(offsets) => offsets.get(number).copied(),
        }
    }

    const fn len(&self) -> usize {
        match self {
            Self::Narrow(offsets) => offsets.len(),
            Self::Wide(offsets) => offsets.len(),
        }
    }

    #[inline(always)]
    const fn is_full(&self) -> bool {
        match self {
            Self::Narrow(offsets) => offsets.len() == offsets.capacity(),
            Self::Wide(offsets) => offsets.len() == offsets.capacity(),
        }
    }

    const fn size_bytes(&self) -> u64 {
        match self {
            Self::Narrow(offsets) => 4 * offsets.len() as u64,
            Self::Wide(offsets) => 8 * offsets.len() as u64,
        }
    }

    fn shrink(&mut self) {
        match self {
            Self::Narrow(offsets) => offsets.shrink_to_fit(),
            Self::Wide(offsets) => offsets.shrink_to_fit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items of which every one in a thousand is long.
    fn starts_of(size: u64, count: u64, item: u64, long: u64) -> (Starts, Vec<u64>) {
        let mut starts = Starts::new(size);
        let (mut offset, mut offsets) = (3, vec![]);
        for number in 0..count {
            starts.push(offset);
            offsets.push(offset);
            offset += if number % 1000 == 999 { long } else { item };
        }
        starts.check_count().unwrap();
        starts.finish(offset);
        offsets.push(offset);
        (starts, offsets)
    }

    fn check(size: u64, count: u64, item: u64, long: u64) {
        let (starts, offsets) = starts_of(size, count, item, long);
        assert_eq!(u64::from(starts.count()), count);
        let end = *offsets.last().unwrap();
        assert!(starts.size_bytes() <= SMALL_BYTES.max(end / SHARE).min(LARGE_BYTES));
        let mut seen = 0;
        for block in starts.runs().flatten() {
            let (numbers, bytes) = (starts.numbers(block), starts.bytes(block));
            assert_eq!(u64::from(numbers.start), seen);
            let offset = |number: u32| offsets[number as usize];
            assert_eq!(bytes, offset(numbers.start)..offset(numbers.end));
            let last = numbers.end - 1;
            assert!(starts.head(block).end > offset(last) || last == numbers.start);
            for number in numbers {
                assert_eq!(starts.block_of(number), block);
                seen += 1;
            }
        }
        assert_eq!(seen, count);
        assert_eq!(starts.numbers(starts.blocks()).len(), 0);
    }

    #[test]
    fn every_item_is_in_one_block_however_short_items_are() {
        for item in [1, 2, 3, 20, 63, 64, 100, 5000, 300_000] {
            for count in [0, 1, 2, 1000, 16_384, 16_385, 33_000, 200_001] {
                check(1 << 20, count.min(u64::from(u32::MAX - 3) / item), item, item);
                check(1 << 40, count, item, item);
            }
            check(1 << 40, 70_001, item, 1_000_000);
        }
    }

    #[test]
    fn a_large_source_has_no_more_starts_than_fit() {
        check(1 << 30, 2_200_000, 400, 400);
        check(1 << 40, 1_100_000, 6, 100_000);
    }

    #[test]
    fn a_short_item_is_found_without_a_long_one() {
        let (starts, _) = starts_of(1 << 40, 1_100_000, 8, 50_000_000);
        for block in 0..starts.blocks() {
            let head = starts.head(block);
            assert!(head.end - head.start <= READ_BYTES as u64, "{head:?}");
        }
    }

    #[test]
    fn runs_are_about_as_long_as_a_read() {
        let (starts, _) = starts_of(1 << 30, 100_000, 100, 100);
        for run in starts.runs() {
            let bytes = starts.bytes(run.end - 1).end - starts.bytes(run.start).start;
            assert!(bytes <= READ_BYTES as u64);
        }
        assert!(starts.runs().count() < 50);
    }
}
