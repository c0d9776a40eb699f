//! The items of a query in their order, found once and kept.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::collection::{CollectionError, Query, Search};
use crate::filter::Filter;

/// Views may take as much, however small the source is.
const MIN_VIEWS_BYTES: u64 = 1 << 20;

/// Of the bytes of a source, its views may take one in so many.
const SHARE: u64 = 16;

/// Queries that are remembered. Their texts are small, but small views must not make them many.
const MAX_VIEWS: usize = 64;

/// The bytes of all values that are sorted by: they are addressed by 32 bits.
const MAX_SORTED_BYTES: u64 = u32::MAX as u64;

/// The numbers of the items of a query, in its order.
#[derive(Debug)]
pub(crate) enum View {
    /// All items, as they are in the source.
    All(u32),
    /// These.
    Listed(Box<[u32]>),
}

impl View {
    /// From a list. One that has everything in its place is not kept.
    pub(crate) fn new(numbers: Vec<u32>, count: u32) -> Self {
        if numbers.len() == count as usize && numbers.is_sorted() {
            return Self::All(count);
        }
        Self::Listed(numbers.into_boxed_slice())
    }

    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::All(count) => *count as usize,
            Self::Listed(numbers) => numbers.len(),
        }
    }

    /// The number of the item that is at a place of the order.
    pub(crate) fn number(&self, place: usize) -> Option<u32> {
        match self {
            Self::All(count) => u32::try_from(place).ok().filter(|number| number < count),
            Self::Listed(numbers) => numbers.get(place).copied(),
        }
    }

    fn size_bytes(&self) -> u64 {
        match self {
            Self::All(_) => 0,
            Self::Listed(numbers) => 4 * numbers.len() as u64,
        }
    }
}

/// The views that were asked for last.
pub(crate) struct Views {
    /// The last one was used last.
    kept: Mutex<Vec<Kept>>,
    limit_bytes: u64,
}

struct Kept {
    query: Query,
    slot: Arc<Slot>,
    size_bytes: u64,
}

/// Holds its lock while the view is found: who wants the same one waits, others do not.
type Slot = Mutex<Option<Arc<View>>>;

impl Views {
    /// For a source of this size.
    pub(crate) fn new(source_bytes: u64) -> Self {
        let limit_bytes = MIN_VIEWS_BYTES.max(source_bytes / SHARE);
        Self { kept: Mutex::new(vec![]), limit_bytes }
    }

    /// The view of a query: a kept one, or one that is found now.
    pub(crate) fn get(
        &self,
        query: &Query,
        find: impl FnOnce() -> Result<View, CollectionError>,
    ) -> Result<Arc<View>, CollectionError> {
        let slot = self.slot(query);
        let mut content = lock(&slot);
        if let Some(view) = &*content {
            return Ok(Arc::clone(view));
        }
        match find() {
            Ok(view) => {
                let view = Arc::new(view);
                *content = Some(Arc::clone(&view));
                self.make_room(&slot, view.size_bytes());
                Ok(view)
            }
            Err(error) => {
                lock(&self.kept).retain(|kept| !Arc::ptr_eq(&kept.slot, &slot));
                Err(error)
            }
        }
    }

    /// How many items match, if a view knows it.
    pub(crate) fn count(&self, filter: &Filter, search: &Search) -> Option<usize> {
        lock(&self.kept)
            .iter()
            .filter(|kept| kept.query.filter == *filter && kept.query.search == *search)
            .find_map(|kept| kept.slot.try_lock().ok()?.as_ref().map(|view| view.len()))
    }

    /// The slot of a query, as the one that was used last.
    fn slot(&self, query: &Query) -> Arc<Slot> {
        let mut kept = lock(&self.kept);
        let known = kept.iter().position(|kept| kept.query == *query).map(|at| kept.remove(at));
        let entry = known.unwrap_or_else(|| Kept {
            query: query.clone(),
            slot: Arc::default(),
            size_bytes: 0,
        });
        let slot = Arc::clone(&entry.slot);
        kept.push(entry);
        if kept.len() > MAX_VIEWS {
            kept.remove(0);
        }
        slot
    }

    /// Notes the size of a view, and forgets others until all are small enough: the one that is
    /// needed now is kept in any case.
    fn make_room(&self, slot: &Arc<Slot>, size_bytes: u64) {
        let mut kept = lock(&self.kept);
        if let Some(entry) = kept.iter_mut().find(|kept| Arc::ptr_eq(&kept.slot, slot)) {
            entry.size_bytes = size_bytes;
        }
        let mut total: u64 = kept.iter().map(|kept| kept.size_bytes).sum();
        kept.retain(|kept| {
            let keep =
                total <= self.limit_bytes || kept.size_bytes == 0 || Arc::ptr_eq(&kept.slot, slot);
            if !keep {
                total -= kept.size_bytes;
            }
            keep
        });
    }
}

impl fmt::Debug for Views {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Views").field("limit_bytes", &self.limit_bytes).finish_non_exhaustive()
    }
}

/// Whoever panicked left nothing half done: a slot is filled in one step, and so is the list.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sorts items by the bytes of their sort keys, and by number where those are the same.
pub(crate) struct Sorter {
    entries: Vec<Entry>,
    /// The keys of the items, in the order in which they were added.
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<u32>,
}

struct Entry {
    /// The start of the key: enough to tell most of them apart.
    head: u64,
    /// The how manieth key.
    key: u32,
    number: u32,
}

impl Sorter {
    pub(crate) const fn new() -> Self {
        Self { entries: vec![], bytes: vec![], ends: vec![] }
    }

    /// Adds an item, whose key `write` appends. Numbers ascend.
    pub(crate) fn push(
        &mut self,
        number: u32,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), CollectionError> {
        write(&mut self.bytes);
        let (Ok(key), Ok(end)) = (u32::try_from(self.ends.len()), u32::try_from(self.bytes.len()))
        else {
            return Err(CollectionError::TooLarge {
                what: "what is sorted by",
                unit: "bytes",
                limit: MAX_SORTED_BYTES,
            });
        };
        self.ends.push(end);
        let mut head = [0; 8];
        head.iter_mut().zip(self.key(key)).for_each(|(head, byte)| *head = *byte);
        self.entries.push(Entry { head: u64::from_be_bytes(head), key, number });
        Ok(())
    }

    /// Sorts what was added.
    pub(crate) fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by(|a, b| {
            let by_key = a.head.cmp(&b.head).then_with(|| self.key(a.key).cmp(self.key(b.key)));
            by_key.then_with(|| a.key.cmp(&b.key))
        });
        self.entries = entries;
    }

    /// After sorting: the numbers of two items with the same key, if there are such.
    pub(crate) fn same(&self) -> Option<(u32, u32)> {
        self.entries.array_windows().find_map(|[a, b]| {
            let same = a.head == b.head && self.key(a.key) == self.key(b.key);
            same.then_some((a.number, b.number))
        })
    }

    /// The numbers of the items in order.
    pub(crate) fn into_numbers(self) -> Vec<u32> {
        drop((self.bytes, self.ends));
        self.entries.into_iter().map(|entry| entry.number).collect()
    }

    fn key(&self, key: u32) -> &[u8] {
        let end = |key: Option<usize>| {
            key.and_then(|key| self.ends.get(key)).map_or(0, |end| *end as usize)
        };
        let key = key as usize;
        self.bytes.get(end(key.checked_sub(1))..end(Some(key))).unwrap_or_default()
    }
}
