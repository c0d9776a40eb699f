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

/// The offsets at which items start: of every item, or, where items are so short that this would
/// take too much memory, of the first one of every 2, 4, 8… items. Items from one start to the next
/// are a block.
pub(crate) struct Starts {
    offsets: Offsets,
    /// A block has `1 << bits` items, the last one maybe fewer.
    bits: u32,
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
        let narrow = u32::try_from(size).is_ok();
        let offsets = if narrow { Offsets::Narrow(vec![]) } else { Offsets::Wide(vec![]) };
        Self { offsets, bits: 0, count: 0, end: 0 }
    }

    /// Adds an item that starts behind all others.
    #[inline(always)]
    pub(crate) fn push(&mut self, offset: u64) {
        if self.count.trailing_zeros() >= self.bits {
            if self.offsets.is_full() {
                self.thin(offset);
            }
            if self.count.trailing_zeros() >= self.bits {
                self.offsets.push(offset);
            }
        }
        self.count += 1;
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
    }

    /// How many items there are.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.count).unwrap_or(u32::MAX)
    }

    /// How many blocks there are.
    pub(crate) fn blocks(&self) -> usize {
        self.offsets.len()
    }

    /// The block that an item is in.
    pub(crate) const fn block_of(&self, number: u32) -> usize {
        number as usize >> self.bits
    }

    /// The numbers of the items of a block.
    pub(crate) fn numbers(&self, block: usize) -> Range<u32> {
        let first = |block: usize| {
            let number = (block as u64).saturating_mul(1 << self.bits).min(self.count);
            u32::try_from(number).unwrap_or(u32::MAX)
        };
        first(block)..first(block + 1)
    }

    /// The bytes of a block, with what separates it from what follows.
    pub(crate) fn bytes(&self, block: usize) -> Range<u64> {
        let start = |block| self.offsets.get(block).unwrap_or(self.end);
        start(block)..start(block + 1)
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

    /// Halves the starts if they take too much for a source that was read up to `offset`.
    #[cold]
    fn thin(&mut self, offset: u64) -> bool {
        let too_much = self.offsets.size_bytes() > SMALL_BYTES.max(offset / SHARE);
        if too_much {
            self.offsets.halve();
            self.bits += 1;
        }
        too_much
    }
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

    /// Keeps the first of every two.
    fn halve(&mut self) {
        fn halve<T>(offsets: &mut Vec<T>) {
            let mut keep = false;
            offsets.retain(|_| {
                keep = !keep;
                keep
            });
        }
        match self {
            Self::Narrow(offsets) => halve(offsets),
            Self::Wide(offsets) => halve(offsets),
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

    fn check(size: u64, count: u64, item: u64) {
        let mut starts = Starts::new(size);
        for number in 0..count {
            starts.push(number * item);
        }
        starts.check_count().unwrap();
        starts.finish(count * item);
        assert_eq!(u64::from(starts.count()), count);
        assert!(starts.offsets.size_bytes() <= SMALL_BYTES.max(count * item / SHARE));
        let mut seen = 0;
        for block in starts.runs().flatten() {
            let (numbers, bytes) = (starts.numbers(block), starts.bytes(block));
            assert_eq!(u64::from(numbers.start), seen);
            assert_eq!(bytes, u64::from(numbers.start) * item..u64::from(numbers.end) * item);
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
                check(1 << 20, count.min(u64::from(u32::MAX) / item), item);
                check(1 << 40, count, item);
            }
        }
    }

    #[test]
    fn runs_are_about_as_long_as_a_read() {
        let mut starts = Starts::new(1 << 30);
        for number in 0..100_000_u64 {
            starts.push(number * 100);
        }
        starts.finish(10_000_000);
        for run in starts.runs() {
            let bytes = starts.bytes(run.end - 1).end - starts.bytes(run.start).start;
            assert!(bytes <= READ_BYTES as u64);
        }
        assert!(starts.runs().count() < 50);
    }
}
