//! Pages of a PostgreSQL table.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures_util::SinkExt as _;
use handback_collections::postgres::{PostgresOptions, PostgresSource};
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};

use crate::args::Args;
use crate::case::{Case, Contender, Measured, STATUS, Table};
use crate::data::{Order, Shown};
use crate::handback::Handback;
use crate::measure::Effort;
use crate::report::grouped;

const SCHEMA: &str = "handback_bench_pages";

/// What is sent of a copy at a time.
const COPY_BYTES: usize = 1 << 16;

pub(crate) fn run(args: &Args, url: &str) -> Result<Measured> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let client = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        generate(&client, args.rows).await?;
        anyhow::Ok(client)
    })?;
    let measured = measure(args, url, &runtime, &client);
    runtime.block_on(client.batch_execute(&format!("DROP SCHEMA {SCHEMA} CASCADE")))?;
    measured
}

fn measure(args: &Args, url: &str, runtime: &Runtime, client: &Client) -> Result<Measured> {
    let cases = Case::all(args.rows);
    let source = PostgresSource::connect(url, runtime.handle())?;
    let collection = source.open(SCHEMA, "orders", PostgresOptions::default())?;
    let handback = Handback::over(Arc::new(collection))?;
    let requests = cases.iter().map(|case| handback.request(case)).collect::<Result<_>>()?;
    let bare = |case: &Case, sql: &str, place| -> Result<Bare> {
        let statement = runtime.block_on(client.prepare(sql))?;
        Ok(Bare { statement, status: case.filtered.then_some(STATUS), place })
    };
    let keyset = cases.iter().map(|case| {
        let place = if case.filtered { "$2" } else { "$1" };
        bare(case, &case.keyset_sql("$1", place), Some(case.place()))
    });
    let offset = cases.iter().map(|case| bare(case, &case.offset_sql("$1"), None));
    let mut table = Postgres {
        handback,
        requests,
        keyset: keyset.collect::<Result<_>>()?,
        offset: offset.collect::<Result<_>>()?,
        runtime,
        client,
    };
    let version: String = runtime.block_on(client.query_one("SHOW server_version", &[]))?.get(0);
    let version = version.split(' ').next().unwrap_or_default();
    let title = format!("PostgreSQL {version}, {} rows", grouped(args.rows));
    Measured::run(title, cases, &mut table, &Effort::of(args.smoke))
}

struct Postgres<'c> {
    handback: Handback,
    requests: Vec<Vec<u8>>,
    keyset: Vec<Bare>,
    offset: Vec<Bare>,
    runtime: &'c Runtime,
    client: &'c Client,
}

impl Table for Postgres<'_> {
    fn page(&mut self, contender: Contender, number: usize) -> Result<String> {
        let bare = match contender {
            Contender::Handback => {
                return self.handback.ask(self.requests.get(number).context("no such case")?);
            }
            Contender::Keyset => self.keyset.get(number),
            Contender::Offset => self.offset.get(number),
        };
        bare.context("no such case")?.page(self.runtime, self.client)
    }
}

/// A statement, prepared once.
struct Bare {
    statement: Statement,
    status: Option<&'static str>,
    place: Option<i64>,
}

impl Bare {
    /// Its rows as a JSON array. The collection waits for its answers in the same way.
    fn page(&self, runtime: &Runtime, client: &Client) -> Result<String> {
        let status = self.status.as_ref().map(|status| status as &(dyn ToSql + Sync));
        let place = self.place.as_ref().map(|place| place as &(dyn ToSql + Sync));
        let parameters: Vec<_> = status.into_iter().chain(place).collect();
        let rows = runtime.block_on(client.query(&self.statement, &parameters))?;
        let shown = rows.iter().map(shown).collect::<Result<Vec<_>>>()?;
        Ok(serde_json::to_string(&shown)?)
    }
}

fn shown(row: &Row) -> Result<Shown<'_>> {
    Ok(Shown {
        id: row.try_get(0)?,
        status: row.try_get(1)?,
        customer: row.try_get(2)?,
        total: row.try_get(3)?,
        created_at: row.try_get(4)?,
        note: row.try_get::<_, Option<&str>>(5)?.map(Cow::Borrowed),
    })
}

async fn generate(client: &Client, rows: i64) -> Result<()> {
    client
        .batch_execute(&format!(
            "DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA {SCHEMA};
             SET search_path = {SCHEMA}; SET maintenance_work_mem = '512MB';
             CREATE UNLOGGED TABLE orders (id bigint NOT NULL, status text NOT NULL,
                 customer text NOT NULL, total double precision NOT NULL,
                 created_at text NOT NULL, note text);"
        ))
        .await?;
    let mut copy = pin!(client.copy_in::<_, Bytes>("COPY orders FROM STDIN").await?);
    let mut lines = String::new();
    for order in Order::upto(rows) {
        let Order { id, status, customer, total, created_at, note } = order;
        // Nothing in it has to be escaped.
        let note = note.unwrap_or("\\N");
        writeln!(lines, "{id}\t{status}\t{customer}\t{total}\t{created_at}\t{note}")?;
        if lines.len() >= COPY_BYTES {
            copy.send(std::mem::take(&mut lines).into()).await?;
        }
    }
    copy.send(lines.into()).await?;
    copy.finish().await?;
    // One by one: `VACUUM` does not run among others.
    for statement in [
        "ALTER TABLE orders ADD PRIMARY KEY (id)",
        "CREATE INDEX ON orders (status, id)",
        "VACUUM ANALYZE orders",
        "CHECKPOINT",
    ] {
        client.batch_execute(statement).await?;
    }
    Ok(())
}
