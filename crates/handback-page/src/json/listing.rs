//! Windows, counts and scans over items that are found by their number.
//!
//! Items in their own order need nothing more. For every other query the numbers of its items, in
//! its order, are found by one pass and kept for a while as a [`View`]: then a page costs the same
//! wherever it is. Of more items than should be in memory, a view has a stretch: those next to the
//! place where the walk is. A page beyond it costs another pass.
//!
//! | items | a place is |
//! |---|---|
//! | with a key | one value per sort key, the key among them: found by binary search |
//! | without | the edition of the source and the number of the item |
//!
//! An item that is too long to be read is in its place among the others, and is shown in part. What is
//! in it is not known: no search finds it, nor a filter of its members, and it is sorted as if it had
//! none. Where items are in the order of a member it is left out. [`Listing::unread`] tells of it.
//!
//! Sort values are no part of a place without a key, although a place usually has them: within one
//! edition the number says it all, and a cursor stays short however long the text is that is sorted
//! by.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::pick::{Found, Wanted};
use super::plan::Plan;
use super::sort_key;
use super::sorter::{Side, Sorter};
use super::view::{View, Views};
use crate::collection::{
    CollectionError, Columns, Fetch, Fetched, Query, Row, Search, Served, Sink, Unread, Window,
};
use crate::excerpt::LongItem;
use crate::filter::{Filter, Member};
use crate::order::{Direction, Nulls, Order, SortKey};
use crate::scalar::Scalar;
use crate::schema::FieldPath;

/// Items that are found by their number, from 0.
pub(crate) trait Items: Debug + Send + Sync {
    /// How many there are.
    fn count(&self) -> u32;

    /// The numbers of the items that are too long to be read, ascending.
    fn long(&self) -> &[u32];

    /// How many bytes an item may have to be read.
    fn longest_bytes(&self) -> usize;

    /// The start of an item that is too long to be read.
    fn long_item(&self, number: u32) -> Result<LongItem, CollectionError>;

    /// What is at a path of an item, if that is known without reading the item.
    fn outside(&self, number: u32, path: &FieldPath) -> Option<Found<'static>>;

    /// The text of an item, as the other functions take it.
    fn text(&self, number: u32) -> Result<Cow<'_, str>, CollectionError>;

    /// Gives every item to `visit`, in order: its number, and its text, unless it is too long.
    fn each(&self, visit: Visit<'_>) -> Result<(), CollectionError>;

    /// Fills `found` with what is at each path of an item.
    fn find<'t>(
        &self,
        number: u32,
        text: &'t str,
        wanted: &Wanted,
        found: &mut Vec<Found<'t>>,
    ) -> Result<(), CollectionError>;

    /// Whether a search finds an item.
    fn is_hit(&self, text: &str, search: &Search) -> Result<bool, CollectionError>;

    /// An item as JSON.
    fn json(&self, number: u32, text: Cow<'_, str>) -> Result<String, CollectionError>;
}

/// What takes the items of [`Items::each`].
pub(crate) type Visit<'a> = &'a mut dyn FnMut(u32, Option<&str>) -> Result<(), CollectionError>;

/// What tells items apart.
#[derive(Debug)]
pub(crate) enum Key {
    /// Their number, as long as the source stays in this edition.
    Number {
        /// Of the source.
        edition: u64,
    },
    /// A member of this name that is their number plus 1.
    Line {
        /// In the schema.
        name: &'static str,
    },
    /// A member that every item has, each another one.
    Member(MemberKey),
}

/// A member that tells items apart.
#[derive(Debug)]
pub(crate) struct MemberKey {
    /// Its name in the schema.
    name: FieldPath,
    /// Where it is.
    path: FieldPath,
    /// All items, by key.
    query: Query,
    /// What is wrong with the keys, once they have been looked at.
    checked: OnceLock<Result<(), String>>,
}

impl MemberKey {
    pub(crate) fn new(path: FieldPath) -> Self {
        let name = FieldPath::name(path.to_string());
        let query = Query {
            filter: Filter::EVERYTHING,
            search: Search::default(),
            order: ascending(&name),
        };
        Self { name, path, query, checked: OnceLock::new() }
    }
}

fn ascending(field: &FieldPath) -> Order {
    let field = field.clone();
    let (direction, nulls) = (Direction::Ascending, Nulls::Last);
    Order::new(vec![SortKey { field, direction, nulls, nullable: false }])
}

/// What views may take while they are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Items of a view, where they are not sorted: four bytes each.
    pub(crate) view_items: usize,
    /// Bytes of what is sorted.
    pub(crate) sorted_bytes: usize,
    /// Stretches that are gone through, one pass each, to find a place by counting.
    pub(crate) stretches: usize,
}

impl Bounds {
    /// A million items take one pass in any order of numbers or dates. With an index beside them, all
    /// is well below 64 MB, whatever is asked of whatever source.
    const USUAL: Self = Self { view_items: 1 << 20, sorted_bytes: 20 << 20, stretches: 16 };

    /// Where all items have to be in memory: keys are checked by looking at all of them at once.
    const NONE: Self = Self { view_items: usize::MAX, sorted_bytes: usize::MAX, stretches: 0 };
}

/// A list of items that can be filtered, searched, sorted and paged.
#[derive(Debug)]
pub(crate) struct Listing<I> {
    items: I,
    key: Key,
    views: Views,
    bounds: Bounds,
}

impl<I: Items> Listing<I> {
    pub(crate) fn new(items: I, key: Key, source_bytes: u64) -> Self {
        let bounds = match key {
            Key::Member(_) => Bounds::NONE,
            Key::Number { .. } | Key::Line { .. } => Bounds::USUAL,
        };
        Self { items, key, views: Views::new(source_bytes), bounds }
    }

    #[cfg(test)]
    pub(crate) const fn with_bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    pub(crate) const fn items(&self) -> &I {
        &self.items
    }

    /// About how many bytes of memory the views take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.views.memory_bytes()
    }

    /// As [`Collection::fetch`](crate::Collection::fetch).
    pub(crate) fn fetch(&self, fetch: &Fetch<'_>) -> Result<Fetched, CollectionError> {
        let plan = self.plan(fetch.query);
        let spot = |place: Option<&[Scalar]>| place.map(|p| self.spot(&plan, p)).transpose();
        let (at, limit) = match fetch.window {
            Window::Forward { after, limit } => (At::After(spot(after)?), limit),
            Window::Backward { before, limit } => (At::Before(spot(before)?), limit),
            Window::Offset { offset, limit } => {
                (At::Rank(usize::try_from(offset).unwrap_or(usize::MAX)), limit)
            }
        };
        let mut found = self.walk(&plan, at, limit, fetch.budget_bytes)?;
        found.total = found.total.filter(|_| fetch.total);
        Ok(found)
    }

    /// The rows from a place on, from one stretch of the order to the next until there are enough.
    fn walk(
        &self,
        plan: &Plan<'_>,
        mut at: At,
        limit: usize,
        budget_bytes: usize,
    ) -> Result<Fetched, CollectionError> {
        let backward = matches!(at, At::Before(_));
        let mut rows = vec![];
        let mut bytes = 0_usize;
        let mut start = None;
        loop {
            let view = self.view(plan, &at)?;
            let total = view.total();
            if let At::Rank(rank) = at
                && rank >= total
            {
                return Ok(fetched(rows, total, total, backward));
            }
            let places = self.rest(plan, &view, &at)?;
            let here = view.first() + if backward { places.end } else { places.start };
            // Where the window begins: so many items of the query are before that.
            let start = *start.get_or_insert(here);
            for step in 0..places.len().min(limit - rows.len()) {
                let place = if backward { places.end - 1 - step } else { places.start + step };
                let row = self.row(plan, &view, place)?;
                bytes = bytes.saturating_add(row.item.len());
                if bytes > budget_bytes && !rows.is_empty() {
                    return Ok(fetched(rows, start, total, backward));
                }
                rows.push(row);
            }
            let is_last = if backward { view.is_at_start() } else { view.is_at_end() };
            if is_last || rows.len() == limit {
                return Ok(fetched(rows, start, total, backward));
            }
            at = match backward {
                true => At::Before(Some(self.end_of(plan, &view, Side::First)?)),
                false => At::After(Some(self.end_of(plan, &view, Side::Last)?)),
            };
        }
    }

    /// As [`Collection::count`](crate::Collection::count).
    pub(crate) fn count(&self, query: &Query) -> Result<u64, CollectionError> {
        let plan = self.plan(query);
        if plan.takes_all() {
            let left_out = if self.is_keyed() { self.items.long().len() } else { 0 };
            return Ok(u64::from(self.items.count()).saturating_sub(left_out as u64));
        }
        if let Some(count) = self.views.count(&query.filter, &query.search) {
            return Ok(count as u64);
        }
        Ok(self.view(&plan, &At::After(None))?.total() as u64)
    }

    /// As [`Collection::scan`](crate::Collection::scan).
    pub(crate) fn scan(&self, query: &Query, sink: Sink<'_>) -> Result<(), CollectionError> {
        let plan = self.plan(query);
        if !plan.is_sorted {
            return self.items.each(&mut |number, text| {
                if !self.is_one(&plan, number, text, &mut vec![])? {
                    return Ok(());
                }
                sink(match text {
                    Some(text) => self.row_of(&plan, number, Cow::Borrowed(text))?,
                    None => self.long_row(&plan, number)?,
                })
            });
        }
        let mut at = At::After(None);
        loop {
            let view = self.view(&plan, &at)?;
            let places = self.rest(&plan, &view, &at)?;
            places.into_iter().try_for_each(|place| sink(self.row(&plan, &view, place)?))?;
            if view.is_at_end() {
                return Ok(());
            }
            at = At::After(Some(self.end_of(&plan, &view, Side::Last)?));
        }
    }

    /// As [`Collection::unread`](crate::Collection::unread), with what an item is called by its number.
    pub(crate) fn unread(&self, query: Option<&Query>, name: impl Fn(u32) -> u64) -> Unread {
        let long = self.items.long();
        let looks = |query: &Query| self.plan(query).looks_into(&self.items);
        if long.is_empty() || !query.is_none_or(looks) {
            return Unread::default();
        }
        Unread {
            count: long.len() as u64,
            first: long.iter().take(Unread::NAMED_MAX).map(|number| name(*number)).collect(),
            limit_bytes: self.items.longest_bytes() as u64,
        }
    }

    const fn is_keyed(&self) -> bool {
        matches!(self.key, Key::Member(_))
    }

    fn is_long(&self, number: u32) -> bool {
        self.items.long().binary_search(&number).is_ok()
    }

    /// Whether an item is one of the query; with what was found of it. It has no text if it is too long.
    fn is_one<'t>(
        &self,
        plan: &Plan<'_>,
        number: u32,
        text: Option<&'t str>,
        found: &mut Vec<Found<'t>>,
    ) -> Result<bool, CollectionError> {
        match text {
            Some(text) => plan.matches(&self.items, number, text, found),
            // What says where it is among the others is in it.
            None if self.is_keyed() => Ok(false),
            None => {
                *found = plan.outside(&self.items, number);
                Ok(plan.matches_outside(&self.items, found))
            }
        }
    }

    fn plan<'q>(&self, query: &'q Query) -> Plan<'q> {
        let natural = match &self.key {
            Key::Number { .. } => query.order.keys().is_empty(),
            Key::Line { name } => query.order == ascending(&FieldPath::name(*name)),
            Key::Member(_) => false,
        };
        Plan::new(query, !natural, |field| match &self.key {
            Key::Member(key) if key.name == *field => key.path.clone(),
            _ => field.clone(),
        })
    }

    /// A view that has what is next to a place.
    fn view(&self, plan: &Plan<'_>, at: &At) -> Result<Arc<View>, CollectionError> {
        if let Key::Member(key) = &self.key {
            self.check_key(key)?;
        }
        if plan.takes_all() && !plan.is_sorted {
            return Ok(Arc::new(View::all(self.items.count())));
        }
        let serves = |view: &View| self.serves(plan, view, at);
        self.views.get(plan.query, serves, |kept| match at {
            At::After(spot) => self.find(plan, Side::First, spot.as_ref(), None),
            At::Before(spot) => self.find(plan, Side::Last, spot.as_ref(), None),
            At::Rank(rank) => self.find_rank(plan, *rank, kept),
        })
    }

    /// Whether a stretch has what is next to a place, or shows that there is nothing.
    fn serves(&self, plan: &Plan<'_>, view: &View, at: &At) -> Result<bool, CollectionError> {
        Ok(match at {
            At::After(None) => view.is_at_start(),
            At::Before(None) => view.is_at_end(),
            At::Rank(rank) => {
                let end = view.first() + view.len();
                *rank >= view.total() || (view.first()..end).contains(rank)
            }
            At::After(Some(spot)) => {
                let end = self.locate(plan, view, spot)?.end;
                (end > 0 || view.is_at_start()) && (end < view.len() || view.is_at_end())
            }
            At::Before(Some(spot)) => {
                let start = self.locate(plan, view, spot)?.start;
                (start > 0 || view.is_at_start()) && (start < view.len() || view.is_at_end())
            }
        })
    }

    /// The places of a view that are on the far side of a place.
    fn rest(&self, plan: &Plan<'_>, view: &View, at: &At) -> Result<Range<usize>, CollectionError> {
        let len = view.len();
        Ok(match at {
            At::After(None) | At::Before(None) => 0..len,
            At::After(Some(spot)) => self.locate(plan, view, spot)?.end..len,
            At::Before(Some(spot)) => 0..self.locate(plan, view, spot)?.start,
            At::Rank(rank) => rank.saturating_sub(view.first()).min(len)..len,
        })
    }

    /// The stretch that has the item before which there are so many.
    fn find_rank(
        &self,
        plan: &Plan<'_>,
        rank: usize,
        kept: &[Arc<View>],
    ) -> Result<View, CollectionError> {
        let before = kept.iter().filter(|view| view.first() <= rank && view.len() > 0);
        let mut view = match before.max_by_key(|view| view.first()) {
            Some(nearest) => self.next_stretch(plan, nearest)?,
            None => self.find(plan, Side::First, None, None)?,
        };
        let mut passes = 1;
        while !view.is_whole() && !self.serves(plan, &view, &At::Rank(rank))? {
            if passes >= self.bounds.stretches {
                let limit = (view.first() + view.len()) as u64;
                return Err(CollectionError::TooLarge { what: "an offset", unit: "items", limit });
            }
            view = self.next_stretch(plan, &view)?;
            passes += 1;
        }
        Ok(view)
    }

    /// What follows a stretch that is not the last.
    fn next_stretch(&self, plan: &Plan<'_>, view: &View) -> Result<View, CollectionError> {
        let last = self.end_of(plan, view, Side::Last)?;
        self.find(plan, Side::First, Some(&last), None)
    }

    /// Where the first or the last item of a stretch is.
    fn end_of(&self, plan: &Plan<'_>, view: &View, side: Side) -> Result<Spot, CollectionError> {
        let place = match side {
            Side::First => 0,
            Side::Last => view.len().saturating_sub(1),
        };
        self.spot_of(plan, view.number(place).ok_or(CollectionError::BadPlace)?)
    }

    /// Checks once that the keys are what they should be: by putting all items in their order,
    /// which most queries need in any case.
    fn check_key(&self, key: &MemberKey) -> Result<(), CollectionError> {
        if key.checked.get().is_none() {
            let find =
                |_: &[Arc<View>]| self.find(&self.plan(&key.query), Side::First, None, Some(key));
            self.views.get(&key.query, |_| Ok(true), find)?;
        }
        match key.checked.get() {
            Some(Err(fault)) => Err(CollectionError::Damaged(fault.clone())),
            _ => Ok(()),
        }
    }

    /// Finds the items of a query: those next to a spot or to an end, on one side, with the one at the
    /// spot. With `key`, they are all items by that key, which is checked.
    fn find(
        &self,
        plan: &Plan<'_>,
        side: Side,
        spot: Option<&Spot>,
        key: Option<&MemberKey>,
    ) -> Result<View, CollectionError> {
        let count = self.items.count();
        let mut near = Near::new(plan.is_sorted, count, self.bounds, side);
        // How many items the query has, and how many of them are on the side of the spot.
        let (mut total, mut reached) = (0_usize, 0_usize);
        let mut fault = None;
        let mut sort_key = vec![];
        self.items.each(&mut |number, text| {
            let mut found = vec![];
            if !self.is_one(plan, number, text, &mut found)? {
                return Ok(());
            }
            total += 1;
            if let (Some(key), [value]) = (key, found.as_slice())
                && fault.is_none()
            {
                fault = key.fault_of(number, value);
            }
            sort_key.clear();
            if plan.is_sorted {
                plan.write_key(&found, &mut sort_key);
            }
            let beyond = match side {
                Side::First => Ordering::Less,
                Side::Last => Ordering::Greater,
            };
            if spot.is_some_and(|spot| spot.order_of(&sort_key, number) == beyond) {
                return Ok(());
            }
            reached += 1;
            near.push(number, &sort_key)
        })?;
        let (numbers, same) = near.finish();
        if let Some(key) = key {
            let fault = fault.or_else(|| same.map(|(a, b)| key.shared(a, b)));
            if let Err(fault) = key.checked.get_or_init(|| fault.map_or(Ok(()), Err)) {
                return Err(CollectionError::Damaged(fault.clone()));
            }
        }
        let first = match side {
            Side::First => total - reached,
            Side::Last => reached - numbers.len(),
        };
        Ok(View::new(numbers, first, total, count))
    }

    /// The places of the view whose items are at a place of the order: none or one. Where none is,
    /// the range is empty, and between the neighbours.
    fn locate(
        &self,
        plan: &Plan<'_>,
        view: &View,
        spot: &Spot,
    ) -> Result<Range<usize>, CollectionError> {
        let compare = |number: u32| match spot {
            Spot::Number(_) => Ok(spot.order_of(&[], number)),
            _ => Ok(spot.order_of(&self.key_of(plan, number)?, number)),
        };
        let start = partition(view, 0, |number| Ok(compare(number)?.is_lt()))?;
        let end = partition(view, start, |number| Ok(compare(number)?.is_le()))?;
        Ok(start..end)
    }

    /// Where an item of the query is in its order.
    fn spot_of(&self, plan: &Plan<'_>, number: u32) -> Result<Spot, CollectionError> {
        Ok(match plan.is_sorted {
            true => Spot::Item(self.key_of(plan, number)?, number),
            false => Spot::Number(i128::from(number)),
        })
    }

    /// What a caller's place means.
    fn spot(&self, plan: &Plan<'_>, place: &[Scalar]) -> Result<Spot, CollectionError> {
        match (&self.key, place) {
            (Key::Number { edition }, [Scalar::Int(of), Scalar::Int(number)]) => {
                if *of != i128::from(*edition) {
                    return Err(CollectionError::Changed);
                }
                match u32::try_from(*number) {
                    Ok(number) if number < self.items.count() => self.spot_of(plan, number),
                    _ => Err(CollectionError::BadPlace),
                }
            }
            (Key::Line { name }, [place @ .., Scalar::Int(check)])
                if place.len() == plan.query.order.keys().len() =>
            {
                let number = self.checked_line(plan, name, place, *check)?;
                if !plan.is_sorted {
                    return Ok(Spot::Number(i128::from(number)));
                }
                let mut key = vec![];
                sort_key::write(&plan.query.order, place.iter().cloned(), &mut key);
                Ok(Spot::Key(key))
            }
            (Key::Member(_), place) if plan.is_sorted && place.len() == plan.sorted.len() => {
                let mut key = vec![];
                sort_key::write(&plan.query.order, place.iter().cloned(), &mut key);
                Ok(Spot::Key(key))
            }
            _ => Err(CollectionError::BadPlace),
        }
    }

    /// The number of the line that a place is at, if the line is still what it was: a text that
    /// was cut or replaced has other lines under the same numbers, one that grew has not.
    fn checked_line(
        &self,
        plan: &Plan<'_>,
        name: &str,
        place: &[Scalar],
        check: i128,
    ) -> Result<u32, CollectionError> {
        let keys = plan.query.order.keys().iter().zip(place);
        let line =
            keys.filter(|(key, _)| key.field.column() == Some(name)).find_map(|(_, value)| {
                if let Scalar::Int(line) = value { Some(*line) } else { None }
            });
        let line = line.ok_or(CollectionError::BadPlace)?;
        let number =
            u32::try_from(line.saturating_sub(1)).map_err(|_| CollectionError::BadPlace)?;
        if number >= self.items.count() || self.check(number)? != check {
            return Err(CollectionError::Changed);
        }
        Ok(number)
    }

    /// The check of a line.
    fn check(&self, number: u32) -> Result<i128, CollectionError> {
        Ok(match self.is_long(number) {
            true => check_of_long(&self.items.long_item(number)?),
            false => check_of(self.items.text(number)?.bytes()),
        })
    }

    /// The bytes that an item is sorted by.
    fn key_of(&self, plan: &Plan<'_>, number: u32) -> Result<Vec<u8>, CollectionError> {
        let mut key = vec![];
        if self.is_long(number) {
            plan.write_key(&plan.outside(&self.items, number), &mut key);
            return Ok(key);
        }
        let text = self.items.text(number)?;
        let mut found = vec![];
        self.items.find(number, &text, &plan.wanted, &mut found)?;
        plan.write_key(&found, &mut key);
        Ok(key)
    }

    fn row(&self, plan: &Plan<'_>, view: &View, place: usize) -> Result<Row, CollectionError> {
        let number = view.number(place).ok_or(CollectionError::BadPlace)?;
        match self.is_long(number) {
            true => self.long_row(plan, number),
            false => self.row_of(plan, number, self.items.text(number)?),
        }
    }

    fn row_of(
        &self,
        plan: &Plan<'_>,
        number: u32,
        text: Cow<'_, str>,
    ) -> Result<Row, CollectionError> {
        let mut found = vec![];
        if !matches!(self.key, Key::Number { .. }) {
            self.items.find(number, &text, &plan.wanted, &mut found)?;
        }
        let place = self.place(plan, number, &found, || check_of(text.bytes()));
        Ok(Row { item: self.items.json(number, text)?.into(), place })
    }

    /// The row of an item that is too long to be read.
    fn long_row(&self, plan: &Plan<'_>, number: u32) -> Result<Row, CollectionError> {
        let item = self.items.long_item(number)?;
        let found = plan.outside(&self.items, number);
        let place = self.place(plan, number, &found, || check_of_long(&item));
        Ok(Row { item: item.into(), place })
    }

    /// The place of an item of which this was found.
    fn place(
        &self,
        plan: &Plan<'_>,
        number: u32,
        found: &[Found<'_>],
        check: impl FnOnce() -> i128,
    ) -> Vec<Scalar> {
        match &self.key {
            Key::Number { edition } => {
                vec![Scalar::Int(i128::from(*edition)), Scalar::Int(i128::from(number))]
            }
            Key::Line { .. } => plan.sort_values(found).chain([Scalar::Int(check())]).collect(),
            Key::Member(_) => plan.sort_values(found).collect(),
        }
    }
}

/// What tells a line from another one in its place: FNV-1a. Nobody gains by two lines being alike.
fn check_of(bytes: impl Iterator<Item = u8>) -> i128 {
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    i128::from(hash)
}

/// The same for a line that is too long to be read: of its length and its start.
fn check_of_long(line: &LongItem) -> i128 {
    check_of(line.start.size_bytes.to_be_bytes().into_iter().chain(line.text().bytes()))
}

/// What a view has to have.
enum At {
    /// What follows a spot, or what comes first.
    After(Option<Spot>),
    /// What is before a spot, or what comes last.
    Before(Option<Spot>),
    /// The item before which there are so many.
    Rank(usize),
}

/// A window as it was found: its rows, how many items of the query are before where it begins, and how
/// many there are.
fn fetched(mut rows: Vec<Row>, from: usize, total: usize, backward: bool) -> Fetched {
    let (start, end) = match backward {
        true => (from.saturating_sub(rows.len()), from),
        false => (from, from + rows.len()),
    };
    if backward {
        rows.reverse();
    }
    Fetched {
        rows,
        more_before: start > 0,
        more_after: end < total,
        served: Served::Directly,
        columns: Columns::All,
        total: Some(total as u64),
    }
}

/// The items on one side of a spot, of which those next to it are kept.
enum Near {
    Sorted(Sorter),
    Plain { numbers: Vec<u32>, limit: usize, side: Side },
}

impl Near {
    fn new(is_sorted: bool, count: u32, bounds: Bounds, side: Side) -> Self {
        if is_sorted {
            return Self::Sorted(Sorter::new(count as usize, bounds.sorted_bytes, side));
        }
        Self::Plain { numbers: vec![], limit: bounds.view_items, side }
    }

    /// Numbers ascend.
    fn push(&mut self, number: u32, key: &[u8]) -> Result<(), CollectionError> {
        match self {
            Self::Sorted(sorter) => sorter.push(number, key),
            Self::Plain { numbers, limit, side: Side::First } => {
                if numbers.len() < *limit {
                    numbers.push(number);
                }
                Ok(())
            }
            Self::Plain { numbers, limit, side: Side::Last } => {
                if numbers.len() >= limit.saturating_mul(2) {
                    numbers.drain(..*limit);
                }
                numbers.push(number);
                Ok(())
            }
        }
    }

    /// The numbers in order; and two of which the keys are the same, if they are sorted.
    fn finish(self) -> (Vec<u32>, Option<(u32, u32)>) {
        match self {
            Self::Sorted(sorter) => sorter.sort(),
            Self::Plain { mut numbers, limit, .. } => {
                numbers.drain(..numbers.len().saturating_sub(limit));
                (numbers, None)
            }
        }
    }
}

/// What a place of a cursor means.
enum Spot {
    /// An item with this number, in an order by number. There may be no such item.
    Number(i128),
    /// An item that is sorted by these bytes.
    Key(Vec<u8>),
    /// The item that is sorted by these bytes and has this number.
    Item(Vec<u8>, u32),
}

impl Spot {
    /// How an item with this sort key and number compares with it.
    fn order_of(&self, key: &[u8], number: u32) -> Ordering {
        match self {
            Self::Number(wanted) => i128::from(number).cmp(wanted),
            Self::Key(wanted) => key.cmp(wanted),
            Self::Item(wanted, other) => key.cmp(wanted).then_with(|| number.cmp(other)),
        }
    }
}

/// The first place of a view, from `start` on, for which `is_before` does not hold.
fn partition(
    view: &View,
    start: usize,
    mut is_before: impl FnMut(u32) -> Result<bool, CollectionError>,
) -> Result<usize, CollectionError> {
    let (mut low, mut high) = (start, view.len());
    while low < high {
        let middle = low.midpoint(high);
        let number = view.number(middle).ok_or(CollectionError::BadPlace)?;
        if is_before(number)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

impl MemberKey {
    /// What is wrong with the key of an item.
    fn fault_of(&self, number: u32, value: &Found<'_>) -> Option<String> {
        let what = match value.member(&[]) {
            Member::Scalar(value) if value.is_null() => "is missing or null",
            Member::Scalar(_) => return None,
            Member::List(_) | Member::Object => "is no single value",
        };
        Some(format!("the key '{}' {what} in item {number}; {HINT}", self.path))
    }

    /// That two items have the same key.
    fn shared(&self, a: u32, b: u32) -> String {
        format!("the key '{}' is the same in items {a} and {b}; {HINT}", self.path)
    }
}

/// What to do about bad keys.
const HINT: &str = "name another key, or none";
