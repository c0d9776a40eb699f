//! SQLite tables and views.
//!
//! A database is opened read-only, and only if it is there. All statements of a page run in one
//! read transaction, so that a page is one moment of the database; nothing stays open between
//! pages. What the table looks like is read from the database itself, and again whenever SQLite
//! counts a change of its schema.
//!
//! Rows need a key: the primary key, a unique index without nulls, the rowid, or columns that the
//! operator names (see [`Key`]). In an order that an index serves, every page is one or a few seeks
//! in that index; another order is one scan that keeps the rows of the page, or is refused
//! ([`SqliteOptions::require_index`]). Orders and comparisons of text go by the collation that the
//! column was declared with.
//!
//! What was left out: memory-mapped reading, which is faster, but a file that someone truncates
//! would kill the process; and `SELECT *`, which would change its shape under a walk.

mod collection;
mod dialect;
mod error;
mod introspect;
mod options;
mod plan;
mod plans;
mod pool;
mod source;

pub use collection::SqliteCollection;
pub use error::OpenError;
pub use options::{
    DEFAULT_BUSY_TIMEOUT, DEFAULT_CONNECTIONS_MAX, DEFAULT_TIME_LIMIT, Key, SqliteOptions,
};

pub(crate) use dialect::{Affinity, Values};
pub(crate) use error::failure;
pub(crate) use pool::{Db, FileId, Pool};
pub(crate) use source::{CONTAINER, Items, Source, encode};
