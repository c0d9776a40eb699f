//! Tables and views of PostgreSQL 13 and later.
//!
//! A [`PostgresSource`] is a database with a pool of connections; each [`PostgresCollection`] is a
//! table or view of it. Nothing is ever written: every connection is read-only from its start, and
//! every read is a `READ ONLY` transaction that is rolled back, so that functions in views cannot
//! change a connection for later reads. The settings of a connection are sent as startup `options`,
//! which a pooler in between must let through.
//!
//! ```no_run
//! use handback_collections::postgres::{PostgresOptions, PostgresSource};
//! use handback_page::Collection as _;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = tokio::runtime::Runtime::new()?;
//! let source = PostgresSource::connect("postgres://reader@localhost/shop", runtime.handle())?;
//! let orders = source.open("public", "orders", PostgresOptions::default())?;
//! println!("{:?}", orders.schema()?.key());
//! # Ok(())
//! # }
//! ```
//!
//! # One statement per page
//!
//! A page, and whether anything is on its other side, is one statement, and so one snapshot:
//!
//! ```sql
//! SELECT * FROM ((SELECT (a, id) = ($1, $2), … WHERE (a, id) >= ($1, $2) ORDER BY a, id LIMIT 22)
//!      UNION ALL (SELECT false, … WHERE a IS NULL ORDER BY a, id LIMIT 22)) s LIMIT 22
//! ```
//!
//! It starts *at* its place: the row that was shown last is met again, so that something is there.
//! Whether a row is at the place, the server says, since it knows what a type or a collation takes
//! for the same. If the row is gone, which takes another statement to find out, the page is asked
//! for by one that looks on the other side as well, and so are the next ones of the walk:
//!
//! ```sql
//! SELECT EXISTS (SELECT 1 FROM ((SELECT 1 FROM t WHERE (a, id) <= ($1, $2)
//!                                ORDER BY a DESC, id DESC LIMIT 1)) s), …
//! ```
//!
//! A row in front of the others says it where there may be no others, and has the total if that is
//! asked for. Columns that are believed to hold no null are looked up beside it all, by their
//! numbers: what is found without them would not be all.
//!
//! Each branch is one seek in an index, and branches that are not needed do not run: an `Append`
//! without parallel workers runs them as they are written. `ORDER BY` is spelled exactly as the
//! index has it, down to where nulls go, since the planner sorts otherwise: it does not conclude
//! that rows with `a IS NULL` in the order of `(a, id)` are in the order of `id`, nor that nulls do
//! not matter in a column that has none. Rejected: one row comparison for all, which can do neither
//! mixed directions nor nulls; cursors of the server, which keep a transaction open between pages.
//!
//! Prepared statements are kept, and the server's choice between plans for all values and for the
//! very ones (`plan_cache_mode = auto`): planning anew makes a page four times as slow.
//!
//! # Values
//!
//! Values travel as text and get the type of their column in the statement, by the name that the
//! catalog has for it, so that a page sorted by a date goes on by the rules of dates. In items:
//!
//! | type | JSON |
//! |---|---|
//! | `boolean`, `smallint`, `integer`, `bigint`, `real`, `double precision`, `numeric`, text types, `bytea` | as [`handback_page::scalar`] writes them |
//! | `json`, `jsonb` | as they are |
//! | dates, times, `uuid`, `inet`, enums and whatever else has an order | their text; dates and times by ISO 8601, in UTC |
//! | arrays, composites, ranges and the rest | by `to_json`, not compared |
//!
//! Blanks at the end of `character(n)` are not shown, nor do they count.
//!
//! # Security
//!
//! TLS is not available in this build: the network to the server must be trusted, or be a tunnel.
//! Neither errors nor `Debug` show the URL, an address, a statement or a value.

mod alarm;
mod branch;
mod call;
mod catalog;
mod collection;
mod dialect;
mod error;
mod fit;
mod pages;
mod plan;
mod rows;
mod session;
mod settings;
mod source;
mod statement;
mod types;

#[cfg(test)]
mod tests;

pub use collection::PostgresCollection;
pub use error::PostgresError;
pub use settings::{PostgresOptions, PostgresSettings};
pub use source::PostgresSource;
