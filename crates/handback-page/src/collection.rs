//! The seam between pages and where items come from.
//!
//! A [`Collection`] finds the rows of a window and counts; everything else (parameters, cursors,
//! page info, projection) is done once for all collections. Its functions block: they scan memory,
//! read files or wait for a database. A server runs them where blocking is allowed.

use std::fmt::{self, Debug};
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::excerpt::{Extent, Located, LongItem};
use crate::filter::Filter;
use crate::json::Pointer;
use crate::order::Order;
use crate::scalar::Scalar;
use crate::schema::Schema;

/// Anything that can be listed, searched and paged.
pub trait Collection: Debug + Send + Sync {
    /// What it says of itself. Sources that change are looked at again from time to time.
    ///
    /// # Errors
    ///
    /// [`CollectionError`] if the source cannot be read.
    fn schema(&self) -> Result<Arc<Schema>, CollectionError>;

    /// The rows of a window, with the truth about what is on either side of it. An item that is too
    /// long to be read is there as its start: [`ItemText::as_long`].
    ///
    /// # Errors
    ///
    /// [`CollectionError`]. Never a part of a window, except where [`Fetch::budget_bytes`] says so.
    fn fetch(&self, fetch: &Fetch<'_>) -> Result<Fetched, CollectionError>;

    /// How many items match.
    ///
    /// # Errors
    ///
    /// [`CollectionError`] if the source cannot be read.
    fn count(&self, query: &Query) -> Result<u64, CollectionError>;

    /// Gives every matching row to `sink`, in order, as of one moment, with all columns. Items that are
    /// too long to be read are as in [`fetch`](Self::fetch).
    ///
    /// # Errors
    ///
    /// [`CollectionError`] of the source, or the first one of `sink`, which ends the scan.
    fn scan(&self, query: &Query, sink: Sink<'_>) -> Result<(), CollectionError>;

    /// Items that are too long to be read, if a query would have to look into them: it does not find
    /// them by what is in them, and has them as if nothing was in them. Without a query, all of them.
    fn unread(&self, _query: Option<&Query>) -> Unread {
        Unread::default()
    }

    /// The value at a JSON pointer, where the source is one JSON value or a text; of a text there is
    /// only the whole, at the empty pointer.
    ///
    /// # Errors
    ///
    /// [`CollectionError`] if the source cannot be read.
    fn value_at(&self, _pointer: &Pointer, _extent: Extent) -> Result<Located, CollectionError> {
        Ok(Located::NotJson)
    }

    /// How the item at a place, as in [`Row::place`], is found by others than by its key. Nothing where
    /// that is not known.
    fn whereabouts(&self, _place: &[Scalar]) -> Whereabouts {
        Whereabouts::default()
    }

    /// For people who look at what there is.
    ///
    /// # Errors
    ///
    /// [`CollectionError`] if the source cannot be read.
    fn about(&self) -> Result<About, CollectionError>;
}

/// Items that are too long to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "collections make it")]
pub struct Unread {
    /// How many.
    pub count: u64,
    /// The first [`NAMED_MAX`](Self::NAMED_MAX) of them: by their numbers in the source, from 0, or by
    /// their keys, where those are numbers that are not in them.
    pub first: Vec<u64>,
    /// Longer items are not read.
    pub limit_bytes: u64,
}

impl Unread {
    /// So many are named.
    pub const NAMED_MAX: usize = 10;
}

/// How an item is found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "collections make it")]
pub struct Whereabouts {
    /// By its number in the order of the collection, from 0.
    pub number: Option<u64>,
    /// By a pointer that [`Collection::value_at`] takes.
    pub pointer: Option<Pointer>,
}

/// What takes the rows of a [`scan`](Collection::scan).
pub type Sink<'a> = &'a mut dyn FnMut(Row) -> Result<(), CollectionError>;

/// Which items, in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "collections take it apart")]
pub struct Query {
    /// Items for which this holds.
    pub filter: Filter,
    /// And in which one of these words occurs, if there are any.
    pub search: Search,
    /// A total order.
    pub order: Order,
}

/// Words, of which one must occur in an item: in a text column, or in any text of a JSON item.
/// ASCII letters match in either case. No words match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Search(Vec<String>);

impl Search {
    /// A search for the words of `text`, as separated by white space.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut words: Vec<_> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
        words.sort_unstable();
        words.dedup();
        Self(words)
    }

    /// The words, their ASCII letters in lower case.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.0
    }

    /// Whether everything matches.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of the words occurs in `text`.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let lower = text.to_ascii_lowercase();
        self.0.iter().any(|word| lower.contains(word.as_str()))
    }
}

/// A window that is asked for.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "collections take it apart")]
pub struct Fetch<'a> {
    /// Which items, in which order.
    pub query: &'a Query,
    /// Where the window is.
    pub window: Window<'a>,
    /// The columns that the answer needs; all of them if there is no list. A collection may give
    /// more, and then says so: [`Fetched::columns`].
    pub columns: Option<&'a [String]>,
    /// Once the items of a window are longer than this together, a collection may leave out the
    /// rest (those farthest from where the window starts), and says that there are more. The first
    /// item is always there.
    pub budget_bytes: usize,
    /// Which rows need their places.
    pub places: Places,
    /// Whether to count what matches, as of the moment of the rows: [`Fetched::total`].
    pub total: bool,
}

/// Which rows of a window need their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "collections serve both")]
pub enum Places {
    /// Every row: each of them gets a cursor.
    All,
    /// The first and the last: a collection may leave the places of the others empty.
    Ends,
}

/// Where a window is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "collections serve each of them")]
pub enum Window<'a> {
    /// The first `limit` items after a place, or of all.
    Forward {
        /// The place: as in [`Row::place`].
        after: Option<&'a [Scalar]>,
        /// How many.
        limit: usize,
    },
    /// The last `limit` items before a place, or of all; in forward order.
    Backward {
        /// The place: as in [`Row::place`].
        before: Option<&'a [Scalar]>,
        /// How many.
        limit: usize,
    },
    /// `limit` items after the first `offset`.
    Offset {
        /// How many are left out.
        offset: u64,
        /// How many.
        limit: usize,
    },
}

impl Window<'_> {
    /// How many items it has at most.
    #[must_use]
    pub const fn limit(&self) -> usize {
        match self {
            Self::Forward { limit, .. }
            | Self::Backward { limit, .. }
            | Self::Offset { limit, .. } => *limit,
        }
    }
}

/// One item of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "collections make it")]
pub struct Row {
    /// The item as JSON text: valid, and without anything around it.
    pub item: ItemText,
    /// Its place in the order: one value per sort key, and what else the collection needs to find
    /// the place again. It travels in cursors; the item itself may be gone by then. Empty where
    /// [`Fetch::places`] does not ask for it.
    pub place: Vec<Scalar>,
}

/// The JSON text of an item: a text of its own, or a part of the text of a whole page. Of an item that
/// is too long to be read, an object with the start of its text: `{"$excerpt":{…}}`.
#[derive(Clone)]
pub struct ItemText(Held);

#[derive(Clone)]
enum Held {
    Alone(String),
    Part { page: Arc<str>, range: Range<usize> },
    Long(Box<(LongItem, String)>),
}

impl ItemText {
    /// The items of a page that was written in one piece: each ends where the next one starts.
    /// Ends that are not ends of characters, or go backwards, make empty items.
    pub fn parts(page: &str, ends: impl IntoIterator<Item = usize>) -> impl Iterator<Item = Self> {
        let page: Arc<str> = page.into();
        let mut start = 0;
        ends.into_iter().map(move |end| {
            let range = std::mem::replace(&mut start, end)..end;
            Self(Held::Part { page: Arc::clone(&page), range })
        })
    }

    /// The start of the item, if it is too long to be read.
    #[must_use]
    pub fn as_long(&self) -> Option<&LongItem> {
        match &self.0 {
            Held::Long(long) => Some(&long.0),
            _ => None,
        }
    }
}

impl Deref for ItemText {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Held::Alone(text) => text,
            Held::Part { page, range } => page.get(range.clone()).unwrap_or_default(),
            Held::Long(long) => &long.1,
        }
    }
}

impl From<String> for ItemText {
    fn from(text: String) -> Self {
        Self(Held::Alone(text))
    }
}

impl From<LongItem> for ItemText {
    fn from(item: LongItem) -> Self {
        let json = item.to_json();
        Self(Held::Long(Box::new((item, json))))
    }
}

impl fmt::Display for ItemText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl Debug for ItemText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl Eq for ItemText {}

impl PartialEq for ItemText {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl PartialEq<String> for ItemText {
    fn eq(&self, other: &String) -> bool {
        **self == **other
    }
}

impl PartialEq<&str> for ItemText {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

/// A window as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "collections make it")]
pub struct Fetched {
    /// The rows, in forward order.
    pub rows: Vec<Row>,
    /// Whether items exist before the first row. Without rows: before the window, or, where the
    /// window starts at a place and goes forward, at or before the place.
    pub more_before: bool,
    /// Whether items exist after the last row. Without rows: as above, the other way round.
    pub more_after: bool,
    /// What an operator should know about how the rows were found.
    pub served: Served,
    /// What the items have.
    pub columns: Columns,
    /// How many items match, if [`Fetch::total`] asks for it.
    pub total: Option<u64>,
}

/// What the items of a window have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a collection selects columns or does not")]
pub enum Columns {
    /// Whatever they have in their source: what was not asked for has yet to be left out.
    All,
    /// The columns of [`Fetch::columns`], and nothing else. A promise: nobody looks again.
    Asked,
}

/// How the rows of a window were found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "either is reported or not")]
pub enum Served {
    /// By an index, or in memory: as fast at every depth.
    Directly,
    /// By reading everything that matches; with what would help.
    ByScan {
        /// For example: "an index on (created_at, id) would serve this order".
        hint: String,
    },
}

/// For people who look at what there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "collections make it")]
pub struct About {
    /// What it is: "sqlite table", "json array".
    pub source: String,
    /// How many items there are, if that is known without counting for long.
    pub items: Option<u64>,
    /// Bytes of storage, if that is known.
    pub bytes: Option<u64>,
    /// Indexes that serve orders: for people, such as "(status, id) unique".
    pub indexes: Vec<String>,
}

/// Why a collection did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectionError {
    /// A place of a cursor belongs to a state of the source that is gone: the file was changed.
    #[error("the source has changed since the cursor was given out")]
    Changed,
    /// A column that a cursor's place has a value of holds values of another type now, which have
    /// another order: the file was changed.
    #[error("column '{column}' {change}")]
    OtherType {
        /// Which one.
        column: String,
        /// What it held and what it holds, for people.
        change: &'static str,
    },
    /// A column of the query is not there any more: the table was changed.
    #[error("the source has no column '{column}' any more")]
    ColumnGone {
        /// The name of the column.
        column: String,
    },
    /// A value does not fit its column.
    #[error("column '{field}' takes {expected}")]
    BadValue {
        /// Which member.
        field: String,
        /// What it takes.
        expected: String,
    },
    /// A place that this collection did not give out.
    #[error("a place that does not fit the order")]
    BadPlace,
    /// The order is not served by an index, and configuration wants that.
    #[error("no index serves this order")]
    NotIndexed {
        /// What would help.
        hint: String,
    },
    /// The source is not there any more: dropped, deleted, renamed.
    #[error("the source is gone: {0}")]
    Gone(String),
    /// The source did not answer in time, is locked, or cannot be reached: to try again later. The
    /// text is told to callers: no paths, addresses or statements.
    #[error("the source is not available: {0}")]
    Unavailable(String),
    /// The source holds something that cannot be shown, such as text that is not UTF-8. Never said
    /// of a source that merely did not take a question.
    #[error("the source is damaged: {0}")]
    Damaged(String),
    /// What a JSON pointer leads to: nothing.
    #[error("there is nothing at '{0}'")]
    NothingAt(Pointer),
    /// The source did not take what it was asked, for a reason of its own.
    #[error("the source did not take the question: {0}")]
    Refused(String),
    /// An item, or a copy of items, is larger than what may be held.
    #[error("{what} has more than {limit} {unit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// What it is measured in.
        unit: &'static str,
        /// How much is allowed.
        limit: u64,
    },
}
