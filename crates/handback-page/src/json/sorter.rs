//! Sorting items in bounded memory.
//!
//! Items are sorted by the bytes of their [sort keys](super::sort_key). What is kept of an item are 20
//! bytes, and the rest of its key if that is longer than most. Where all of them would be too much,
//! only those are kept that come first, or last: what is beyond them is found by another pass.

use std::cmp::Ordering;

use crate::collection::CollectionError;

/// Bytes of a key that are kept beside its item: all of a number's.
const HEAD_BYTES: usize = 12;

/// The rests of all keys: they are addressed by 32 bits.
const MAX_RESTS_BYTES: u64 = u32::MAX as u64;

/// Which items to keep, where there are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Those that come first.
    First,
    /// Those that come last.
    Last,
}

/// Sorts items by key, and by number where keys are the same.
pub(super) struct Sorter {
    entries: Vec<Entry>,
    rests: Rests,
    limit_bytes: usize,
    side: Side,
    /// The last one of those that are kept, once some are not: what is beyond is not looked at.
    bar: Option<Bar>,
}

/// An item to be sorted. Words and not bytes: they are compared in a few steps.
#[derive(Clone, Copy)]
struct Entry {
    /// The start of its key. What is missing is zero: that is in order, for no key is the start of
    /// another.
    head: [u32; HEAD_BYTES / 4],
    /// Where the rest of its key is.
    rest: u32,
    number: u32,
}

struct Bar {
    head: [u32; HEAD_BYTES / 4],
    rest: Vec<u8>,
    number: u32,
}

/// What keys have behind their heads, each with its length in front.
struct Rests(Vec<u8>);

impl Sorter {
    /// For up to so many items, in about as much memory.
    pub(super) fn new(count: usize, limit_bytes: usize, side: Side) -> Self {
        let entries = Vec::with_capacity(count.min(limit_bytes / size_of::<Entry>() + 1));
        let rests = Rests(vec![]);
        Self { entries, rests, limit_bytes, side, bar: None }
    }

    /// Adds an item.
    pub(super) fn push(&mut self, number: u32, key: &[u8]) -> Result<(), CollectionError> {
        let (head, rest) = (head(key), key.get(HEAD_BYTES..).unwrap_or_default());
        // Before it is there: what grows beyond its room is copied.
        if self.size_bytes() + size_of::<Entry>() + Rests::size_bytes(rest) > self.limit_bytes {
            self.drop_half();
        }
        if let Some(bar) = &self.bar {
            let order = compare((&head, rest, number), (&bar.head, &bar.rest, bar.number));
            if self.side.of(order).is_gt() {
                return Ok(());
            }
        }
        self.rests.reserve(self.limit_bytes);
        let rest = self.rests.add(rest)?;
        self.entries.push(Entry { head, rest, number });
        if self.size_bytes() > self.limit_bytes {
            self.drop_half();
        }
        Ok(())
    }

    /// The items in order; and two that have the same key, if there are such.
    pub(super) fn sort(mut self) -> (Vec<u32>, Option<(u32, u32)>) {
        self.leave_out_shared_start();
        let Self { mut entries, rests, .. } = self;
        entries.sort_unstable_by(|a, b| rests.compare(a, b));
        let same = entries.array_windows().find_map(|[a, b]| {
            let same = a.head == b.head && rests.get(a.rest) == rests.get(b.rest);
            same.then_some((a.number, b.number))
        });
        drop(rests);
        (entries.into_iter().map(|entry| entry.number).collect(), same)
    }

    fn size_bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>() + self.rests.0.len()
    }

    /// Keeps half of the items, and half of the bytes; but two items, so that there is one beside the
    /// one that the walk is at.
    fn drop_half(&mut self) {
        while self.entries.len() > 2 && self.size_bytes() > self.limit_bytes / 2 {
            let half = (self.entries.len() / 2).max(2);
            let (rests, side) = (&self.rests, self.side);
            let (_, last, _) =
                self.entries.select_nth_unstable_by(half - 1, |a, b| side.of(rests.compare(a, b)));
            let (head, number) = (last.head, last.number);
            self.bar = Some(Bar { head, rest: rests.get(last.rest).to_vec(), number });
            self.entries.truncate(half);
            self.rests.keep(&mut self.entries);
        }
    }

    /// What all keys start with tells nothing apart: heads begin behind it.
    fn leave_out_shared_start(&mut self) {
        if self.rests.0.is_empty() {
            return;
        }
        let rests = &self.rests;
        let bytes = |entry: &Entry| {
            let head = entry.head.map(u32::to_be_bytes);
            head.as_flattened().iter().chain(rests.get(entry.rest)).copied().collect::<Vec<_>>()
        };
        let Some(first) = self.entries.first().map(bytes) else { return };
        let shared = self.entries.iter().fold(first.len(), |shared, entry| {
            let head = entry.head.map(u32::to_be_bytes);
            let bytes = head.as_flattened().iter().chain(rests.get(entry.rest));
            first.iter().zip(bytes).take(shared).take_while(|(a, b)| a == b).count()
        });
        if shared == 0 {
            return;
        }
        for entry in &mut self.entries {
            let old = entry.head.map(u32::to_be_bytes);
            let mut bytes = old.as_flattened().iter().chain(rests.get(entry.rest)).skip(shared);
            let mut new = [0; HEAD_BYTES];
            new.iter_mut().zip(&mut bytes).for_each(|(new, byte)| *new = *byte);
            entry.head = head(&new);
        }
    }
}

impl Side {
    /// An order in which what is kept comes first.
    const fn of(self, order: Ordering) -> Ordering {
        match self {
            Self::First => order,
            Self::Last => order.reverse(),
        }
    }
}

impl Rests {
    /// The one of keys that have none.
    const NONE: u32 = u32::MAX;

    /// Those of short keys are not more, usually.
    const MANY_BYTES: usize = 1 << 20;

    /// What one of them takes.
    const fn size_bytes(rest: &[u8]) -> usize {
        if rest.is_empty() { 0 } else { size_of::<u32>() + rest.len() }
    }

    fn add(&mut self, rest: &[u8]) -> Result<u32, CollectionError> {
        if rest.is_empty() {
            return Ok(Self::NONE);
        }
        let at = u32::try_from(self.0.len()).ok().filter(|at| *at != Self::NONE);
        let (Some(at), Ok(length)) = (at, u32::try_from(rest.len())) else {
            return Err(CollectionError::TooLarge {
                what: "what is sorted by",
                unit: "bytes",
                limit: MAX_RESTS_BYTES,
            });
        };
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(rest);
        Ok(at)
    }

    fn get(&self, at: u32) -> &[u8] {
        let Some((length, rest)) =
            self.0.get(at as usize..).and_then(|bytes| bytes.split_first_chunk())
        else {
            return &[];
        };
        rest.get(..u32::from_be_bytes(*length) as usize).unwrap_or_default()
    }

    /// Asks for all the room that there may be, once it is likely to be needed: what grows step by step
    /// is there twice with every step.
    fn reserve(&mut self, limit_bytes: usize) {
        let (length, is_limited) = (self.0.len(), limit_bytes as u64 <= MAX_RESTS_BYTES);
        if is_limited && length > Self::MANY_BYTES && self.0.capacity() < limit_bytes {
            self.0.reserve_exact(limit_bytes.saturating_sub(length));
        }
    }

    /// Leaves out those of all other items.
    fn keep(&mut self, entries: &mut [Entry]) {
        // From the first one on, each moves to where there is room by then.
        entries.sort_unstable_by_key(|entry| entry.rest);
        let mut end = 0;
        for entry in entries.iter_mut().filter(|entry| entry.rest != Self::NONE) {
            let start = entry.rest as usize;
            let length = Self::size_bytes(self.get(entry.rest));
            self.0.copy_within(start..start + length, end);
            entry.rest = u32::try_from(end).unwrap_or(Self::NONE);
            end += length;
        }
        self.0.truncate(end);
    }

    fn compare(&self, a: &Entry, b: &Entry) -> Ordering {
        // Most are told apart by their heads.
        a.head.cmp(&b.head).then_with(|| {
            let (rest_a, rest_b) = (self.get(a.rest), self.get(b.rest));
            compare((&a.head, rest_a, a.number), (&b.head, rest_b, b.number))
        })
    }
}

type Parts<'a> = (&'a [u32; HEAD_BYTES / 4], &'a [u8], u32);

fn compare(a: Parts<'_>, b: Parts<'_>) -> Ordering {
    a.cmp(&b)
}

fn head(key: &[u8]) -> [u32; HEAD_BYTES / 4] {
    let mut head = [[0; 4]; HEAD_BYTES / 4];
    head.as_flattened_mut().iter_mut().zip(key).for_each(|(head, byte)| *head = *byte);
    head.map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(keys: &[Vec<u8>], limit_bytes: usize, side: Side) -> Vec<u32> {
        let mut sorter = Sorter::new(keys.len(), limit_bytes, side);
        for (number, key) in (0..).zip(keys) {
            sorter.push(number, key).unwrap();
            assert!(sorter.size_bytes() <= limit_bytes || sorter.entries.len() <= 2);
        }
        sorter.sort().0
    }

    /// Keys of which none is the start of another, some of them with a long start in common.
    fn any_keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let start = prop_oneof![Just(0), Just(3), Just(11), Just(12), Just(13), Just(30)];
        (start, prop::collection::vec(prop::collection::vec(1_u8..4, 0..20), 0..60)).prop_map(
            |(start, keys)| {
                let key = |key: Vec<u8>| [vec![9; start], key, vec![0]].concat();
                keys.into_iter().map(key).collect()
            },
        )
    }

    proptest! {
        #[test]
        fn items_are_sorted_by_key_and_number(keys in any_keys()) {
            let mut expected: Vec<u32> = (0..u32::try_from(keys.len()).unwrap()).collect();
            expected.sort_by_key(|number| &keys[*number as usize]);
            prop_assert_eq!(&sorted(&keys, usize::MAX, Side::First), &expected);
            prop_assert_eq!(&sorted(&keys, usize::MAX, Side::Last), &expected);
            let mut sorter = Sorter::new(0, usize::MAX, Side::First);
            for (number, key) in (0..).zip(&keys) {
                sorter.push(number, key).unwrap();
            }
            let mut distinct = keys.clone();
            distinct.sort();
            distinct.dedup();
            let same = sorter.sort().1;
            prop_assert_eq!(same.is_some(), distinct.len() < keys.len());
            if let Some((a, b)) = same {
                prop_assert!(a < b && keys[a as usize] == keys[b as usize]);
            }
        }

        #[test]
        fn what_is_kept_is_next_to_a_side(keys in any_keys(), limit in 60_usize..1500) {
            let mut all: Vec<u32> = (0..u32::try_from(keys.len()).unwrap()).collect();
            all.sort_by_key(|number| &keys[*number as usize]);
            let first = sorted(&keys, limit, Side::First);
            prop_assert!(all.starts_with(&first));
            let last = sorted(&keys, limit, Side::Last);
            prop_assert!(all.ends_with(&last));
            let needed = keys.iter().map(|key| key.len() + 24).sum::<usize>();
            if needed <= limit {
                prop_assert_eq!(first.len(), keys.len());
            }
            prop_assert_eq!(first.is_empty(), keys.is_empty());
        }
    }
}
