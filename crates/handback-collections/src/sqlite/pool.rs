//! A few connections to one database file, opened when they are needed.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use handback_page::CollectionError;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use super::error::{OpenError, failure};
use super::options::SqliteOptions;

/// How many instructions of SQLite's machine run between two looks at the clock: some tens of
/// microseconds.
const OPS_BETWEEN_CHECKS: i32 = 2000;

/// The longest text, blob or row that is read, in bytes: several times what an answer may have, and
/// no danger to the memory of a server.
pub(super) const VALUE_BYTES_MAX: i32 = 64 << 20;

/// Statements kept prepared per connection: those of some twenty walks at a time.
const STATEMENTS_MAX: usize = 64;

/// Pages of the file kept in memory per connection, in KiB.
const CACHE_KIB: i64 = 8 * 1024;

/// Connections to one file.
#[derive(Debug)]
pub(crate) struct Pool {
    path: PathBuf,
    busy_timeout: Duration,
    connections_max: usize,
    file_good_for: Duration,
    born: Instant,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Db>,
    /// The file that was at the path, and when.
    seen: Option<(FileId, Instant)>,
    /// How many there are, idle or not.
    open: usize,
    /// How many wait for one. To wake up nobody costs a system call.
    waiting: usize,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Db {
    connection: Connection,
    born: Instant,
    /// When SQLite is to stop, in nanoseconds since `born`.
    deadline: Arc<AtomicU64>,
    file: FileId,
    schema_version: Cell<i64>,
}

/// Which file a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    #[cfg(unix)]
    fn of(metadata: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// Without inodes a replaced file is not noticed; but open files cannot be replaced there.
    #[cfg(not(unix))]
    fn of(_metadata: &std::fs::Metadata) -> Self {
        Self { device: 0, inode: 0 }
    }
}

impl Pool {
    /// Connections to the file at `path`, which must be there.
    pub(crate) fn new(path: &Path, options: &SqliteOptions) -> Result<Self, OpenError> {
        // An absolute path is neither `:memory:` nor a URI.
        let path = std::path::absolute(path)
            .map_err(|_| OpenError::NoFile { path: path.to_path_buf() })?;
        let pool = Self {
            path,
            busy_timeout: options.busy_timeout,
            connections_max: options.connections_max,
            file_good_for: Duration::ZERO,
            born: Instant::now(),
            state: Mutex::default(),
            returned: Condvar::new(),
        };
        match pool.file() {
            Ok(_) => Ok(pool),
            Err(_) => Err(OpenError::NoFile { path: pool.path }),
        }
    }

    /// With a file that is looked for this often only.
    pub(crate) const fn file_good_for(mut self, time: Duration) -> Self {
        self.file_good_for = time;
        self
    }

    /// Runs `read` in one read transaction, so that all that it reads is of one moment.
    pub(crate) fn read<R>(
        &self,
        time_limit: Duration,
        read: impl FnOnce(&Db) -> Result<R, CollectionError>,
    ) -> Result<R, CollectionError> {
        let mut lease = Lease { pool: self, db: Some(self.take()?), is_good: false };
        let Some(db) = &lease.db else {
            return Err(CollectionError::Unavailable("no connection".to_owned()));
        };
        db.extend(time_limit);
        let result = db.in_transaction(read);
        db.deadline.store(u64::MAX, Ordering::Relaxed);
        lease.is_good = db.connection.is_autocommit();
        result
    }

    fn file(&self) -> Result<FileId, CollectionError> {
        match std::fs::metadata(&self.path) {
            Ok(metadata) if metadata.is_file() => Ok(FileId::of(&metadata)),
            Ok(_) => Err(CollectionError::Gone("the database file is not a file".to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(CollectionError::Gone("the database file is not there".to_owned()))
            }
            Err(error) => Err(CollectionError::Unavailable(error.kind().to_string())),
        }
    }

    /// A connection to the file that is there now.
    fn take(&self) -> Result<Db, CollectionError> {
        let mut state = self.lock();
        let file = match state.seen {
            Some((file, at)) if at.elapsed() < self.file_good_for => file,
            _ => {
                state.seen = None;
                let file = self.file()?;
                state.seen = Some((file, Instant::now()));
                file
            }
        };
        loop {
            match state.idle.pop() {
                Some(db) if db.file == file => return Ok(db),
                Some(_) => state.open -= 1,
                None if state.open < self.connections_max => {
                    state.open += 1;
                    break;
                }
                None => {
                    state.waiting += 1;
                    let (again, waited) = self
                        .returned
                        .wait_timeout(state, self.busy_timeout)
                        .unwrap_or_else(PoisonError::into_inner);
                    state = again;
                    state.waiting -= 1;
                    let is_full = state.open >= self.connections_max;
                    if waited.timed_out() && state.idle.is_empty() && is_full {
                        let text = "all connections are in use";
                        return Err(CollectionError::Unavailable(text.to_owned()));
                    }
                }
            }
        }
        drop(state);
        let opened = self.open();
        if opened.is_err() {
            self.give_back(None);
        }
        opened
    }

    fn give_back(&self, db: Option<Db>) {
        let mut state = self.lock();
        match db {
            Some(db) => state.idle.push(db),
            None => state.open -= 1,
        }
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.returned.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<Db, CollectionError> {
        // The file may be replaced while it is opened.
        for _ in 0..3 {
            let file = self.file()?;
            let db = self.connect(file).map_err(|error| failure(&error))?;
            if self.file()? == file {
                return Ok(db);
            }
        }
        Err(CollectionError::Unavailable("the database file is being replaced".to_owned()))
    }

    fn connect(&self, file: FileId) -> rusqlite::Result<Db> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(self.busy_timeout)?;
        // A name in double quotes that is no column would else be taken as text.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        // The same plan for every page of a walk, whatever values are bound.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        let deadline = Arc::new(AtomicU64::new(u64::MAX));
        let (born, shared) = (self.born, Arc::clone(&deadline));
        let is_late = move || born.elapsed() > Duration::from_nanos(shared.load(Ordering::Relaxed));
        connection.progress_handler(OPS_BETWEEN_CHECKS, Some(is_late))?;
        Ok(Db { connection, born, deadline, file, schema_version: Cell::new(0) })
    }
}

/// A connection in use. It goes back when it is dropped; one that was left in the middle of
/// something, as by a panic, is closed.
struct Lease<'a> {
    pool: &'a Pool,
    db: Option<Db>,
    is_good: bool,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let db = self.db.take();
        self.pool.give_back(db.filter(|_| self.is_good));
    }
}

impl Db {
    /// For statements.
    pub(crate) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Which file it reads, whatever the path leads to by now.
    pub(crate) const fn file(&self) -> FileId {
        self.file
    }

    /// Gives SQLite this much time from now on.
    pub(crate) fn extend(&self, time_limit: Duration) {
        let deadline = self.born.elapsed().saturating_add(time_limit).as_nanos();
        self.deadline.store(u64::try_from(deadline).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// SQLite's count of the changes of the schema, as of the transaction that this is in.
    pub(crate) const fn schema_version(&self) -> i64 {
        self.schema_version.get()
    }

    /// A statement that has been started and not finished holds a read transaction, and all others
    /// of the connection share it. The one that asks for the schema's version has to run anyway:
    /// `BEGIN` and `COMMIT` would be two more.
    fn in_transaction<R>(
        &self,
        read: impl FnOnce(&Self) -> Result<R, CollectionError>,
    ) -> Result<R, CollectionError> {
        let failed = |error| failure(&error);
        let mut version =
            self.connection.prepare_cached("PRAGMA main.schema_version").map_err(failed)?;
        let mut unfinished = version.raw_query();
        let row = unfinished.next().map_err(failed)?;
        let version = row.map(|row| row.get(0)).transpose().map_err(failed)?;
        self.schema_version.set(version.unwrap_or_default());
        read(self)
    }
}
