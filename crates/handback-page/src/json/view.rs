//! The items of a query in their order, found once and kept.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::collection::{CollectionError, Query, Search};
use crate::filter::{Filter, Test};
use crate::scalar::Scalar;
use crate::schema::FieldPath;

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
            size_bytes: size_bytes_of(query),
        });
        let slot = Arc::clone(&entry.slot);
        kept.push(entry);
        if kept.len() > MAX_VIEWS {
            kept.remove(0);
        }
        slot
    }

    /// Notes the size of a view that was found, and forgets others until all are small enough: the
    /// one that is needed now is kept in any case.
    fn make_room(&self, slot: &Arc<Slot>, size_bytes: u64) {
        let mut kept = lock(&self.kept);
        if let Some(entry) = kept.iter_mut().find(|kept| Arc::ptr_eq(&kept.slot, slot)) {
            entry.size_bytes += size_bytes;
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

/// About how much memory a query takes: a caller may have sent long texts to compare with.
fn size_bytes_of(query: &Query) -> u64 {
    let scalar = |scalar: &Scalar| match scalar {
        Scalar::Text(text) => text.len(),
        Scalar::Decimal(decimal) => decimal.as_str().len(),
        Scalar::Blob(bytes) => bytes.len(),
        _ => 0,
    };
    let path = |path: &FieldPath| -> usize {
        path.parts().iter().map(|part| size_of::<String>() + part.len()).sum()
    };
    let mut total = size_of::<Kept>();
    query.filter.for_each_field(&mut |field, test| {
        total += size_of::<Filter>() + path(field);
        total += match test {
            Test::Equal(value)
            | Test::Less(value)
            | Test::LessOrEqual(value)
            | Test::Greater(value)
            | Test::GreaterOrEqual(value)
            | Test::Contains(value) => scalar(value),
            Test::In(values) => {
                values.iter().map(|value| size_of::<Scalar>() + scalar(value)).sum()
            }
            Test::StartsWith(text) => text.len(),
            Test::IsNull => 0,
        };
    });
    total +=
        query.search.words().iter().map(|word| size_of::<String>() + word.len()).sum::<usize>();
    total += query.order.keys().iter().map(|key| path(&key.field)).sum::<usize>();
    total as u64
}

/// Whoever panicked left nothing half done: a slot is filled in one step, and so is the list.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sorts items by the bytes of their sort keys, and by number where those are the same.
pub(crate) struct Sorter {
    /// The items, in the order in which they were added.
    numbers: Vec<u32>,
    keys: Keys,
}

struct Keys {
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<u32>,
}

/// An item to be sorted.
struct Entry {
    /// The first bytes in which keys differ: enough to tell most of them apart.
    head: u64,
    /// The number of the key.
    key: u32,
    number: u32,
}

impl Sorter {
    pub(crate) const fn new() -> Self {
        Self { numbers: vec![], keys: Keys { bytes: vec![], ends: vec![] } }
    }

    /// Adds an item, whose key `write` appends. Numbers ascend.
    pub(crate) fn push(
        &mut self,
        number: u32,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), CollectionError> {
        write(&mut self.keys.bytes);
        let Ok(end) = u32::try_from(self.keys.bytes.len()) else {
            return Err(CollectionError::TooLarge {
                what: "what is sorted by",
                unit: "bytes",
                limit: MAX_SORTED_BYTES,
            });
        };
        self.keys.ends.push(end);
        self.numbers.push(number);
        Ok(())
    }

    /// The items in order; and two that have the same key, if there are such.
    pub(crate) fn sort(self) -> (Vec<u32>, Option<(u32, u32)>) {
        let Self { numbers, keys } = self;
        let shared = keys.shared_start();
        let entry = |(key, number)| Entry { head: keys.head(key, shared), key, number };
        let mut entries: Vec<_> = (0..).zip(numbers).map(entry).collect();
        entries.sort_unstable_by(|a, b| {
            let by_key = a.head.cmp(&b.head).then_with(|| keys.key(a.key).cmp(keys.key(b.key)));
            by_key.then_with(|| a.key.cmp(&b.key))
        });
        let same = entries.array_windows().find_map(|[a, b]| {
            let same = a.head == b.head && keys.key(a.key) == keys.key(b.key);
            same.then_some((a.number, b.number))
        });
        drop(keys);
        (entries.into_iter().map(|entry| entry.number).collect(), same)
    }
}

impl Keys {
    fn key(&self, key: u32) -> &[u8] {
        let key = key as usize;
        let start = key.checked_sub(1).and_then(|before| self.ends.get(before));
        let end = self.ends.get(key).map_or(0, |end| *end as usize);
        self.bytes.get(start.map_or(0, |start| *start as usize)..end).unwrap_or_default()
    }

    /// How many bytes all keys have in common.
    fn shared_start(&self) -> usize {
        let first = self.key(0);
        let keys = (1..).zip(self.ends.iter().skip(1)).map(|(key, _)| self.key(key));
        keys.fold(first.len(), |shared, key| {
            let same = first.iter().zip(key).take(shared).take_while(|(a, b)| a == b);
            same.count()
        })
    }

    /// Eight bytes of a key, after the first ones. What is missing is zero: that is in order, for
    /// no key is the start of another.
    fn head(&self, key: u32, shared: usize) -> u64 {
        let mut head = [0; 8];
        let bytes = self.key(key).iter().skip(shared);
        head.iter_mut().zip(bytes).for_each(|(head, byte)| *head = *byte);
        u64::from_be_bytes(head)
    }
}
