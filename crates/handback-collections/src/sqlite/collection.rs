//! A SQLite table or view as a collection.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use handback_page::{
    About, Collection, CollectionError, Fetch, Fetched, Filter, Query, Schema, Search, Sink,
};
use rusqlite::Connection;

use super::error::{OpenError, failure};
use super::introspect::{self, Described, Proof};
use super::options::SqliteOptions;
use super::pool::{Db, FileId, Pool};
use super::source::Source;
use crate::sql::quoted;

/// For how long what was seen of a table is taken for granted where nothing else is read. Reading
/// rows always looks again.
const SCHEMA_GOOD_FOR: Duration = Duration::from_secs(1);

/// For how long the file at the path is taken to be the one that was seen there: to ask before
/// every page would cost more than to open its cursor. A request this soon after a file was
/// replaced or deleted may be answered from the one before.
const FILE_GOOD_FOR: Duration = Duration::from_millis(1);

/// How long the check of a given key may take: it reads the whole table, once.
const KEY_CHECK_LIMIT: Duration = Duration::from_secs(60);

/// How long people wait who only look at what there is.
const ABOUT_LIMIT: Duration = Duration::from_millis(50);

/// A table or view of a SQLite database, read only.
#[derive(Debug)]
pub struct SqliteCollection {
    pool: Pool,
    table: String,
    options: SqliteOptions,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    source: Arc<Source>,
    is_view: bool,
    file: FileId,
    /// SQLite counts the changes of a database's schema.
    version: i64,
    at: Instant,
}

impl SqliteCollection {
    /// Opens `table` of the database file at `path`. The file is never created, nor written to.
    ///
    /// # Errors
    ///
    /// [`OpenError`], with a hint where an operator can do something about it.
    pub fn open(
        path: impl AsRef<Path>,
        table: &str,
        options: SqliteOptions,
    ) -> Result<Self, OpenError> {
        let pool = Pool::new(path.as_ref(), &options)?.file_good_for(FILE_GOOD_FOR);
        // The transaction knows errors of collections only: others are carried beside it.
        let seen = pool.read(KEY_CHECK_LIMIT, |db| {
            Ok(look(db, table, &options).and_then(|(seen, proof)| {
                check_key(db.connection(), &seen.source, proof)?;
                Ok(seen)
            }))
        })??;
        Ok(Self { pool, table: table.to_owned(), options, seen: Mutex::new(seen) })
    }

    /// The tables and views of the database file at `path`.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if there is no such file, or it cannot be read.
    pub fn tables(path: impl AsRef<Path>) -> Result<Vec<String>, OpenError> {
        let options = SqliteOptions::default();
        let pool = Pool::new(path.as_ref(), &options)?;
        let names = |db: &Connection| introspect::names(db).map_err(|error| failure(&error));
        Ok(pool.read(options.time_limit, |db| names(db.connection()))?)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table as it is in the transaction that `db` is in.
    fn source(&self, db: &Db) -> Result<Arc<Source>, CollectionError> {
        let mut seen = self.lock();
        if seen.version == db.schema_version() && seen.file == db.file() {
            seen.at = Instant::now();
            return Ok(Arc::clone(&seen.source));
        }
        drop(seen);
        let (seen, _) =
            look(db, &self.table, &self.options).map_err(OpenError::into_collection_error)?;
        let source = Arc::clone(&seen.source);
        *self.lock() = seen;
        Ok(source)
    }

    fn read<R>(
        &self,
        read: impl FnOnce(&Db, &Source) -> Result<R, CollectionError>,
    ) -> Result<R, CollectionError> {
        self.pool.read(self.options.time_limit, |db| {
            let source = self.source(db)?;
            read(db, &source)
        })
    }
}

impl Collection for SqliteCollection {
    fn schema(&self) -> Result<Arc<Schema>, CollectionError> {
        {
            let seen = self.lock();
            if seen.at.elapsed() < SCHEMA_GOOD_FOR {
                return Ok(Arc::clone(&seen.source.schema));
            }
        }
        self.read(|_, source| Ok(Arc::clone(&source.schema)))
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Result<Fetched, CollectionError> {
        self.read(|db, source| source.fetch(db.connection(), fetch))
    }

    fn count(&self, query: &Query) -> Result<u64, CollectionError> {
        self.read(|db, source| source.count(db.connection(), query))
    }

    fn scan(&self, query: &Query, sink: Sink<'_>) -> Result<(), CollectionError> {
        self.read(|db, source| source.scan(db, query, self.options.time_limit, sink))
    }

    fn about(&self) -> Result<About, CollectionError> {
        let indexes = self
            .read(|_, source| Ok(source.table.indexes.iter().map(ToString::to_string).collect()))?;
        let items = self.pool.read(ABOUT_LIMIT, |db| {
            let source = self.source(db)?;
            let order = source.schema.total_order(vec![]);
            let query = Query { filter: Filter::EVERYTHING, search: Search::default(), order };
            source.count(db.connection(), &query)
        });
        let kind = if self.lock().is_view { "sqlite view" } else { "sqlite table" };
        Ok(About { source: kind.to_owned(), items: items.ok(), bytes: None, indexes })
    }
}

fn look(db: &Db, table: &str, options: &SqliteOptions) -> Result<(Seen, Proof), OpenError> {
    let Described { table, is_view, proof } =
        introspect::describe(db.connection(), table, &options.key)?;
    let mut source = Source::new(table);
    source.require_index = options.require_index;
    source.key_is_proven = proof != Proof::Nothing;
    let at = Instant::now();
    let (source, file, version) = (Arc::new(source), db.file(), db.schema_version());
    Ok((Seen { source, is_view, file, version, at }, proof))
}

/// Whether the key is one, as far as that is not declared: neither nulls nor two rows that are alike.
fn check_key(db: &Connection, source: &Source, proof: Proof) -> Result<(), OpenError> {
    if proof == Proof::Whole {
        return Ok(());
    }
    let table = &source.table;
    for column in &table.key {
        let sql = format!("SELECT 1 FROM {} WHERE {} IS NULL LIMIT 1", table.name, quoted(column));
        if db.prepare(&sql)?.exists([])? {
            return Err(OpenError::NullInKey { column: column.clone() });
        }
    }
    if proof == Proof::ButForNulls {
        return Ok(());
    }
    let names: Vec<_> = table.key.iter().map(|column| quoted(column)).collect();
    let names = names.join(", ");
    let sql = format!("SELECT 1 FROM {} GROUP BY {names} HAVING count(*) > 1 LIMIT 1", table.name);
    if db.prepare(&sql)?.exists([])? {
        return Err(OpenError::KeyNotUnique { columns: table.key.clone() });
    }
    Ok(())
}
