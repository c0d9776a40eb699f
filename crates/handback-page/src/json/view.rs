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

/// Views take no more than this, however large the source is: two of the largest.
const MAX_VIEWS_BYTES: u64 = 8 << 20;

/// Queries that are remembered. Their texts are small, but small views must not make them many.
const MAX_VIEWS: usize = 64;

/// Stretches of one query that are remembered: where a walk is, and where another one is.
const MAX_STRETCHES: usize = 2;

/// The numbers of the items of a query, in its order: of all of them, or, where these are too many, of
/// a stretch of them.
#[derive(Debug)]
pub(crate) struct View {
    numbers: Numbers,
    /// How many items of the query are before these.
    first: usize,
    /// How many items the query has.
    total: usize,
}

#[derive(Debug)]
enum Numbers {
    /// All items, as they are in the source.
    All(u32),
    /// These.
    Listed(Box<[u32]>),
}

impl View {
    /// All items, as they are in the source.
    pub(crate) const fn all(count: u32) -> Self {
        Self { numbers: Numbers::All(count), first: 0, total: count as usize }
    }

    /// A stretch of `total` items, with `first` of them before it, of a source of `count`. A list that
    /// has everything in its place is not kept.
    pub(crate) fn new(numbers: Vec<u32>, first: usize, total: usize, count: u32) -> Self {
        if numbers.len() == count as usize && numbers.is_sorted() {
            return Self::all(count);
        }
        Self { numbers: Numbers::Listed(numbers.into_boxed_slice()), first, total }
    }

    pub(crate) const fn len(&self) -> usize {
        match &self.numbers {
            Numbers::All(count) => *count as usize,
            Numbers::Listed(numbers) => numbers.len(),
        }
    }

    /// How many items of the query are before these.
    pub(crate) const fn first(&self) -> usize {
        self.first
    }

    /// How many items the query has.
    pub(crate) const fn total(&self) -> usize {
        self.total
    }

    /// Whether the first item of the query is the first one here.
    pub(crate) const fn is_at_start(&self) -> bool {
        self.first == 0
    }

    /// Whether the last item of the query is the last one here.
    pub(crate) const fn is_at_end(&self) -> bool {
        self.first + self.len() == self.total
    }

    pub(crate) const fn is_whole(&self) -> bool {
        self.is_at_start() && self.is_at_end()
    }

    /// The number of the item that is at a place of the view.
    pub(crate) fn number(&self, place: usize) -> Option<u32> {
        match &self.numbers {
            Numbers::All(count) => u32::try_from(place).ok().filter(|number| number < count),
            Numbers::Listed(numbers) => numbers.get(place).copied(),
        }
    }

    fn size_bytes(&self) -> u64 {
        match &self.numbers {
            Numbers::All(_) => 0,
            Numbers::Listed(numbers) => 4 * numbers.len() as u64,
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
    /// What the query takes.
    query_bytes: u64,
    /// What its views take.
    view_bytes: u64,
}

impl Kept {
    const fn size_bytes(&self) -> u64 {
        self.query_bytes + self.view_bytes
    }
}

/// The stretches of a query, the last used one last. Its lock is held while one is found: who wants the
/// same one waits, others do not.
type Slot = Mutex<Vec<Arc<View>>>;

impl Views {
    /// For a source of this size.
    pub(crate) fn new(source_bytes: u64) -> Self {
        let limit_bytes = (source_bytes / SHARE).clamp(MIN_VIEWS_BYTES, MAX_VIEWS_BYTES);
        Self { kept: Mutex::new(vec![]), limit_bytes }
    }

    /// A view of a query that serves: a kept one, or one that is found now. Who finds it is told which
    /// ones are kept.
    pub(crate) fn get(
        &self,
        query: &Query,
        serves: impl Fn(&View) -> Result<bool, CollectionError>,
        find: impl FnOnce(&[Arc<View>]) -> Result<View, CollectionError>,
    ) -> Result<Arc<View>, CollectionError> {
        let slot = self.slot(query);
        let mut views = lock(&slot);
        for place in (0..views.len()).rev() {
            if views.get(place).is_some_and(|view| view.is_whole())
                || views.get(place).map_or(Ok(false), |view| serves(view))?
            {
                let view = views.remove(place);
                views.push(Arc::clone(&view));
                return Ok(view);
            }
        }
        match find(&views) {
            Ok(view) => {
                let view = Arc::new(view);
                views.push(Arc::clone(&view));
                if views.len() > MAX_STRETCHES {
                    views.remove(0);
                }
                let view_bytes = views.iter().map(|view| view.size_bytes()).sum();
                self.make_room(&slot, view_bytes);
                Ok(view)
            }
            Err(error) => {
                if views.is_empty() {
                    lock(&self.kept).retain(|kept| !Arc::ptr_eq(&kept.slot, &slot));
                }
                Err(error)
            }
        }
    }

    /// How many items match, if a view knows it.
    pub(crate) fn count(&self, filter: &Filter, search: &Search) -> Option<usize> {
        lock(&self.kept)
            .iter()
            .filter(|kept| kept.query.filter == *filter && kept.query.search == *search)
            .find_map(|kept| kept.slot.try_lock().ok()?.first().map(|view| view.total()))
    }

    /// How many bytes of memory the views and their queries take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        lock(&self.kept).iter().map(Kept::size_bytes).sum()
    }

    /// The slot of a query, as the one that was used last.
    fn slot(&self, query: &Query) -> Arc<Slot> {
        let mut kept = lock(&self.kept);
        let known = kept.iter().position(|kept| kept.query == *query).map(|at| kept.remove(at));
        let entry = known.unwrap_or_else(|| Kept {
            query: query.clone(),
            slot: Arc::default(),
            query_bytes: size_bytes_of(query),
            view_bytes: 0,
        });
        let slot = Arc::clone(&entry.slot);
        kept.push(entry);
        if kept.len() > MAX_VIEWS {
            kept.remove(0);
        }
        slot
    }

    /// Notes the size of the views of a query, and forgets others until all are small enough: the
    /// one that is needed now is kept in any case.
    fn make_room(&self, slot: &Arc<Slot>, view_bytes: u64) {
        let mut kept = lock(&self.kept);
        if let Some(entry) = kept.iter_mut().find(|kept| Arc::ptr_eq(&kept.slot, slot)) {
            entry.view_bytes = view_bytes;
        }
        let mut total: u64 = kept.iter().map(Kept::size_bytes).sum();
        kept.retain(|kept| {
            let keep = total <= self.limit_bytes || Arc::ptr_eq(&kept.slot, slot);
            if !keep {
                total -= kept.size_bytes();
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
