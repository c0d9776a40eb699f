//! Databases in temporary files.

use handback_collections::sqlite::{Key, OpenError, SqliteCollection, SqliteOptions};
use rusqlite::Connection;
use tempfile::TempDir;

/// A database file with a connection that writes to it.
pub(crate) struct TestDb {
    pub(crate) dir: TempDir,
    pub(crate) db: Connection,
}

impl TestDb {
    pub(crate) fn new(sql: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let db = Connection::open(dir.path().join("test.db")).unwrap();
        db.execute_batch("PRAGMA synchronous = OFF").unwrap();
        db.execute_batch(sql).unwrap();
        Self { dir, db }
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("test.db")
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.db.execute_batch(sql).unwrap();
    }

    pub(crate) fn try_open(
        &self,
        table: &str,
        options: SqliteOptions,
    ) -> Result<SqliteCollection, OpenError> {
        SqliteCollection::open(self.path(), table, options)
    }

    pub(crate) fn open(&self, table: &str) -> SqliteCollection {
        self.try_open(table, SqliteOptions::default()).unwrap()
    }

    pub(crate) fn open_by(&self, table: &str, key: &[&str]) -> SqliteCollection {
        let key = Key::Columns(key.iter().map(|name| (*name).to_owned()).collect());
        self.try_open(table, SqliteOptions::default().key(key)).unwrap()
    }
}
