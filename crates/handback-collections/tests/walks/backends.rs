//! The same rows in a JSON file, a SQLite table and a Postgres table.

use std::fs;
use std::sync::Arc;

use handback_collections::files::{JsonFileCollection, JsonFileOptions};
use handback_collections::postgres::{PostgresOptions, PostgresSource};
use handback_collections::sqlite::{SqliteCollection, SqliteOptions};
use handback_page::Collection;
use rusqlite::Connection;
use serde_json::json;

use crate::model::Row;

/// Somewhere that rows can be.
pub(crate) trait Backend {
    fn name(&self) -> &'static str;

    /// Makes these the rows, before a walk.
    fn reset(&self, rows: &[Row]);

    /// Makes these the rows, under a walk.
    fn change_to(&self, rows: &[Row]);

    fn collection(&self) -> Arc<dyn Collection>;
}

pub(crate) struct JsonFile {
    folder: tempfile::TempDir,
}

impl JsonFile {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn write(&self, rows: &[Row]) {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| json!({"id": row.id, "a": row.a, "b": row.b, "c": row.c, "d": row.d}))
            .collect();
        // As editors and exports do it: a new file takes the place of the old one.
        let (new, file) = (self.folder.path().join("new"), self.folder.path().join("rows.json"));
        fs::write(&new, json!({"rows": rows}).to_string()).unwrap();
        fs::rename(&new, &file).unwrap();
    }
}

impl Backend for JsonFile {
    fn name(&self) -> &'static str {
        "json"
    }

    fn reset(&self, rows: &[Row]) {
        self.write(rows);
    }

    fn change_to(&self, rows: &[Row]) {
        self.write(rows);
    }

    fn collection(&self) -> Arc<dyn Collection> {
        let options = JsonFileOptions::new().with_pointer("/rows".parse().unwrap()).with_key("id");
        let path = self.folder.path().join("rows.json");
        Arc::new(JsonFileCollection::open(path, options).unwrap())
    }
}

pub(crate) struct Sqlite {
    folder: tempfile::TempDir,
    connection: Connection,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("rows.db")).unwrap();
        connection
            .execute_batch(
                "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY;
                 CREATE TABLE rows (id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c REAL,
                                    d INTEGER NOT NULL);
                 CREATE INDEX by_a ON rows (a);
                 CREATE INDEX by_d_b ON rows (d, b);
                 CREATE INDEX by_c ON rows (c DESC);",
            )
            .unwrap();
        Self { folder, connection }
    }
}

impl Backend for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn reset(&self, rows: &[Row]) {
        self.change_to(rows);
    }

    fn change_to(&self, rows: &[Row]) {
        let transaction = self.connection.unchecked_transaction().unwrap();
        transaction.execute("DELETE FROM rows", []).unwrap();
        for row in rows {
            let sql = "INSERT INTO rows VALUES (?, ?, ?, ?, ?)";
            let mut insert = transaction.prepare_cached(sql).unwrap();
            insert.execute((row.id, row.a, &row.b, row.c, row.d)).unwrap();
        }
        transaction.commit().unwrap();
    }

    fn collection(&self) -> Arc<dyn Collection> {
        let path = self.folder.path().join("rows.db");
        Arc::new(SqliteCollection::open(path, "rows", SqliteOptions::default()).unwrap())
    }
}

pub(crate) struct Postgres {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
    source: PostgresSource,
    schema: String,
}

impl Postgres {
    pub(crate) fn new(url: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (client, connection) =
            runtime.block_on(tokio_postgres::connect(url, tokio_postgres::NoTls)).unwrap();
        runtime.spawn(connection);
        let schema = format!("walks_{}", std::process::id());
        let sql = format!(
            "DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema};
             CREATE TABLE {schema}.rows (id bigint PRIMARY KEY, a bigint, b text COLLATE \"C\",
                                         c double precision, d bigint NOT NULL);
             CREATE INDEX ON {schema}.rows (a, id);
             CREATE INDEX ON {schema}.rows (d, b, id);
             CREATE INDEX ON {schema}.rows (c DESC, id DESC);"
        );
        runtime.block_on(client.batch_execute(&sql)).unwrap();
        let source = PostgresSource::connect(url, runtime.handle()).unwrap();
        Self { runtime, client, source, schema }
    }
}

impl Backend for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn reset(&self, rows: &[Row]) {
        self.change_to(rows);
    }

    fn change_to(&self, rows: &[Row]) {
        let schema = &self.schema;
        let columns = (
            rows.iter().map(|row| row.id).collect::<Vec<_>>(),
            rows.iter().map(|row| row.a).collect::<Vec<_>>(),
            rows.iter().map(|row| row.b.clone()).collect::<Vec<_>>(),
            rows.iter().map(|row| row.c).collect::<Vec<_>>(),
            rows.iter().map(|row| row.d).collect::<Vec<_>>(),
        );
        // One statement, so that no page sees half of it.
        let sql = format!(
            "WITH gone AS (DELETE FROM {schema}.rows WHERE NOT id = ANY($1))
             INSERT INTO {schema}.rows
             SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::float8[], $5::bigint[])
             ON CONFLICT (id) DO UPDATE SET a = excluded.a, b = excluded.b, c = excluded.c, d = excluded.d"
        );
        self.runtime
            .block_on(
                self.client
                    .execute(&sql, &[&columns.0, &columns.1, &columns.2, &columns.3, &columns.4]),
            )
            .unwrap();
    }

    fn collection(&self) -> Arc<dyn Collection> {
        Arc::new(self.source.open(&self.schema, "rows", PostgresOptions::default()).unwrap())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let sql = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema);
        let _ = self.runtime.block_on(self.client.batch_execute(&sql));
    }
}
