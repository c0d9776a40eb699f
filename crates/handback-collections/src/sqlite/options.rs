//! What an operator chooses about a SQLite collection.

use std::time::Duration;

/// How long a locked database is waited for, unless an option says otherwise: writers hold the
/// lock for milliseconds, and a caller is still there after this.
pub const DEFAULT_BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// How long one operation may take, unless an option says otherwise: the time after which most
/// callers have given up.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(10);

/// How many connections a collection keeps open at most, unless an option says otherwise. Each
/// holds one file and up to 8 MiB of cache.
pub const DEFAULT_CONNECTIONS_MAX: usize = 8;

/// What makes the rows of a table unique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Key {
    /// What the table declares: its primary key, else a unique index without nulls. SQLite lets
    /// nulls into a primary key that is not declared `NOT NULL`, unless it is an integer: such a one
    /// is the key if there is no other, and is checked for nulls once, when the collection is opened.
    #[default]
    Declared,
    /// The rowid, under which SQLite files the row. Items then show it as a column, so that an
    /// item can be asked for by it. `VACUUM` may number the rows of a table anew that has no
    /// `INTEGER PRIMARY KEY`; a walk that goes on afterwards may miss rows or meet them again.
    Rowid,
    /// These columns. That they are unique and hold no null is checked once, when the collection is
    /// opened. The way to give a view a key. Rows that come to share one later, if nothing declared
    /// keeps them out, are passed over behind the first page that has one of them.
    Columns(Vec<String>),
}

/// Settings of a [`SqliteCollection`](crate::sqlite::SqliteCollection).
#[derive(Clone, Debug)]
#[must_use]
pub struct SqliteOptions {
    pub(crate) key: Key,
    pub(crate) require_index: bool,
    pub(crate) busy_timeout: Duration,
    pub(crate) time_limit: Duration,
    pub(crate) connections_max: usize,
}

impl SqliteOptions {
    /// What makes rows unique.
    pub fn key(mut self, key: Key) -> Self {
        self.key = key;
        self
    }

    /// Whether orders that no index serves are refused, instead of read by a scan.
    pub const fn require_index(mut self, require: bool) -> Self {
        self.require_index = require;
        self
    }

    /// How long a locked database is waited for.
    pub const fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// How long one operation may take. In a scan, which has a caller that takes rows at its own
    /// pace, it is the time between two rows.
    pub const fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// How many connections are open at most; at least one.
    pub const fn connections_max(mut self, max: usize) -> Self {
        self.connections_max = if max == 0 { 1 } else { max };
        self
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            key: Key::Declared,
            require_index: false,
            busy_timeout: DEFAULT_BUSY_TIMEOUT,
            time_limit: DEFAULT_TIME_LIMIT,
            connections_max: DEFAULT_CONNECTIONS_MAX,
        }
    }
}
