//! Pages of a SQLite table.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use handback_collections::sqlite::{SqliteCollection, SqliteOptions};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Row, Statement, params, params_from_iter};

use crate::args::Args;
use crate::case::{Case, Contender, Measured, STATUS, Table};
use crate::data::{self, Order, Shown};
use crate::handback::Handback;
use crate::measure::Effort;
use crate::report::grouped;

/// As the collection has it, for the bare queries.
const CACHE_KIB: i64 = 8 * 1024;

pub(crate) fn run(args: &Args, folder: &Path) -> Result<Measured> {
    let path = data::kept(folder, "orders", args.rows, "sqlite", |path| generate(path, args.rows))?;
    let cases = Case::all(args.rows);
    let collection = SqliteCollection::open(&path, "orders", SqliteOptions::default())?;
    let handback = Handback::over(Arc::new(collection))?;
    let requests = cases.iter().map(|case| handback.request(case)).collect::<Result<_>>()?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(&path, flags)?;
    db.pragma_update(None, "cache_size", -CACHE_KIB)?;
    let bare = |case: &Case, sql: &str, place| -> Result<Bare<'_>> {
        let status = case.filtered.then(|| STATUS.to_owned().into());
        let parameters = status.into_iter().chain(place).collect();
        Ok(Bare { statement: db.prepare(sql)?, parameters })
    };
    let keyset = cases.iter().map(|case| {
        let place = if case.filtered { "?2" } else { "?1" };
        bare(case, &case.keyset_sql("?1", place), Some(case.place().into()))
    });
    let offset = cases.iter().map(|case| bare(case, &case.offset_sql("?1"), None));
    let mut table = Sqlite {
        handback,
        requests,
        keyset: keyset.collect::<Result<_>>()?,
        offset: offset.collect::<Result<_>>()?,
    };
    let title = format!("SQLite {}, {} rows", rusqlite::version(), grouped(args.rows));
    Measured::run(title, cases, &mut table, &Effort::of(args.smoke))
}

struct Sqlite<'c> {
    handback: Handback,
    requests: Vec<Vec<u8>>,
    keyset: Vec<Bare<'c>>,
    offset: Vec<Bare<'c>>,
}

impl Table for Sqlite<'_> {
    fn page(&mut self, contender: Contender, number: usize) -> Result<String> {
        let bare = match contender {
            Contender::Handback => {
                return self.handback.ask(self.requests.get(number).context("no such case")?);
            }
            Contender::Keyset => self.keyset.get_mut(number),
            Contender::Offset => self.offset.get_mut(number),
        };
        bare.context("no such case")?.page()
    }
}

/// A statement, prepared once.
struct Bare<'c> {
    statement: Statement<'c>,
    parameters: Vec<Value>,
}

impl Bare<'_> {
    /// Its rows as a JSON array, each written as it comes.
    fn page(&mut self) -> Result<String> {
        let mut rows = self.statement.query(params_from_iter(&self.parameters))?;
        let mut out = Vec::with_capacity(4096);
        out.push(b'[');
        while let Some(row) = rows.next()? {
            if out.len() > 1 {
                out.push(b',');
            }
            serde_json::to_writer(&mut out, &shown(row)?)?;
        }
        out.push(b']');
        Ok(String::from_utf8(out)?)
    }
}

fn shown<'r>(row: &'r Row<'_>) -> Result<Shown<'r>> {
    Ok(Shown {
        id: row.get(0)?,
        status: row.get_ref(1)?.as_str()?,
        customer: row.get_ref(2)?.as_str()?,
        total: row.get(3)?,
        created_at: row.get_ref(4)?.as_str()?,
        note: row.get_ref(5)?.as_str_or_null()?.map(Cow::Borrowed),
    })
}

fn generate(path: &Path, rows: i64) -> Result<()> {
    let mut db = Connection::open(path)?;
    db.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -262144;
         CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL, customer TEXT NOT NULL,
             total REAL NOT NULL, created_at TEXT NOT NULL, note TEXT);",
    )?;
    let transaction = db.transaction()?;
    let mut insert = transaction.prepare("INSERT INTO orders VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for order in Order::upto(rows) {
        let Order { id, status, customer, total, created_at, note } = order;
        insert.execute(params![id, status, customer, total, created_at, note])?;
    }
    drop(insert);
    transaction.commit()?;
    db.execute_batch("CREATE INDEX orders_by_status ON orders (status, id); ANALYZE;")?;
    Ok(())
}
