//! A schema of its own for each test, and short ways to ask.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use handback_page::{
    Collection, Direction, Fetch, Fetched, Filter, Nulls, Places, Query, Row, Scalar, Search,
    SortKey, Window,
};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use super::config;
use crate::postgres::{PostgresCollection, PostgresOptions, PostgresSettings, PostgresSource};

/// A schema that is dropped with this.
pub(super) struct Db {
    pub(super) url: String,
    pub(super) schema: String,
    pub(super) source: PostgresSource,
    admin: Client,
    pub(super) runtime: Runtime,
}

impl Db {
    /// A new schema, in which the statements have run; nothing if there is no server.
    pub(super) fn new(sql: &str) -> Option<Self> {
        Self::with_settings(sql, &PostgresSettings::default())
    }

    pub(super) fn with_settings(sql: &str, settings: &PostgresSettings) -> Option<Self> {
        let url = config::server()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let admin = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        });
        let schema = format!("hb test {:016x}", RandomState::new().build_hasher().finish());
        let source = PostgresSource::connect_with(&url, settings, runtime.handle()).unwrap();
        let db = Self { url, schema, source, admin, runtime };
        db.execute(&format!("CREATE SCHEMA \"{0}\"; SET search_path = \"{0}\"", db.schema));
        db.execute(sql);
        Some(db)
    }

    #[track_caller]
    pub(super) fn execute(&self, sql: &str) {
        let done = self.runtime.block_on(self.admin.batch_execute(sql));
        done.unwrap_or_else(|error| panic!("{}", error.as_db_error().unwrap()));
    }

    /// The first column of a result, as text.
    #[track_caller]
    pub(super) fn texts(&self, sql: &str) -> Vec<String> {
        let rows = self.runtime.block_on(self.admin.query(sql, &[])).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    pub(super) fn open(&self, table: &str) -> PostgresCollection {
        self.open_with(table, PostgresOptions::default())
    }

    pub(super) fn open_with(&self, table: &str, options: PostgresOptions) -> PostgresCollection {
        self.source.open(&self.schema, table, options).unwrap()
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        let sql = format!("DROP SCHEMA \"{}\" CASCADE", self.schema);
        let dropped = self.runtime.block_on(self.admin.batch_execute(&sql));
        assert!(dropped.is_ok() || std::thread::panicking(), "{dropped:?}");
    }
}

/// A query: a filter in JSON, and keys such as `-a` (descending) or `a<` (nulls first).
#[track_caller]
pub(super) fn query(collection: &dyn Collection, filter: &Value, keys: &[&str]) -> Query {
    let schema = collection.schema().unwrap();
    let keys = keys.iter().map(|text| {
        let (text, direction) = match text.strip_prefix('-') {
            Some(text) => (text, Direction::Descending),
            None => (*text, Direction::Ascending),
        };
        let (name, nulls) = match text.strip_suffix('<') {
            Some(name) => (name, Nulls::First),
            None => (text, Nulls::Last),
        };
        let field = schema.resolve(name).unwrap_or_else(|| panic!("no column {name}"));
        SortKey { field, direction, nulls, nullable: schema.column(name).unwrap().nullable }
    });
    Query {
        filter: Filter::parse(filter, &schema).unwrap(),
        search: Search::default(),
        order: schema.total_order(keys.collect()),
    }
}

pub(super) fn fetch<'a>(query: &'a Query, window: Window<'a>) -> Fetch<'a> {
    Fetch {
        query,
        window,
        columns: None,
        budget_bytes: usize::MAX,
        places: Places::All,
        total: false,
    }
}

#[track_caller]
pub(super) fn forward(
    collection: &dyn Collection,
    query: &Query,
    after: Option<&[Scalar]>,
    limit: usize,
) -> Fetched {
    collection.fetch(&fetch(query, Window::Forward { after, limit })).unwrap()
}

#[track_caller]
pub(super) fn backward(
    collection: &dyn Collection,
    query: &Query,
    before: Option<&[Scalar]>,
    limit: usize,
) -> Fetched {
    collection.fetch(&fetch(query, Window::Backward { before, limit })).unwrap()
}

/// All rows, page by page.
#[track_caller]
pub(super) fn walk(collection: &dyn Collection, query: &Query, limit: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let after = rows.last().map(|row| row.place.clone());
        let page = forward(collection, query, after.as_deref(), limit);
        assert_eq!(page.more_before, after.is_some());
        rows.extend(page.rows);
        if !page.more_after {
            return rows;
        }
    }
}

/// All rows, page by page, from the end.
#[track_caller]
pub(super) fn walk_back(collection: &dyn Collection, query: &Query, limit: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let before = rows.first().map(|row| row.place.clone());
        let page = backward(collection, query, before.as_deref(), limit);
        assert_eq!(page.more_after, before.is_some());
        rows.splice(0..0, page.rows);
        if !page.more_before {
            return rows;
        }
    }
}

pub(super) fn json(row: &Row) -> Value {
    serde_json::from_str(&row.item).unwrap_or_else(|error| panic!("{error}: {}", row.item))
}

/// One member of each item.
pub(super) fn members(rows: &[Row], name: &str) -> Vec<Value> {
    rows.iter().map(|row| json(row)[name].clone()).collect()
}

/// The member `id` of each item.
pub(super) fn ids(rows: &[Row]) -> Vec<i64> {
    members(rows, "id").iter().map(|id| id.as_i64().unwrap()).collect()
}
