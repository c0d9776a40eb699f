//! A connection in use, and the read-only transaction around each read.
//!
//! A view can call a function that changes the settings of its connection: for example
//! `set_config('default_transaction_read_only', 'off', false)`. So a connection that was read-only at
//! its start is not proof. Each read runs in a transaction that begins with `READ ONLY` and with its
//! own time limits, and ends with `ROLLBACK`, which takes back every setting that the read changed.
//! The settings are compared when the connection comes back, and a connection whose settings differ
//! is closed.
//!
//! PostgreSQL refuses `transaction_read_only = off` after the first snapshot of a transaction, so
//! that no statement of the read itself can turn writing on.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::BytesMut;
use deadpool_postgres::{Client, Object, Transaction};
use futures_util::TryStreamExt as _;
use futures_util::future::join;
use handback_page::Scalar;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{
    CancelToken, Portal, Row, RowStream, SimpleQueryMessage, SimpleQueryStream, Statement,
};

use super::call::{self, Call};
use super::error::Fault;
use super::settings::PostgresSettings;

/// Statements that a connection keeps prepared. Callers choose the shape of filters, so that there
/// is no end to them; those of one walk are a handful.
const STATEMENTS_MAX: usize = 128;

/// The name of the statement that tells the settings of a connection. A function that replaces the
/// statement changes nothing but the comparison: the settings were rolled back by then.
const CHECK: &str = "handback_settings";

/// The statements around each read of a source, and the settings that its connections have.
#[derive(Debug)]
pub(super) struct Transactions {
    begin: String,
    limits: String,
    end: String,
    /// The settings of a connection that has read nothing yet.
    settings: OnceLock<String>,
}

impl Transactions {
    pub(super) fn new(settings: &PostgresSettings) -> Self {
        let limits = settings.limits_of_transaction();
        // A lock is waited for within the time of the statement, and a page leaves no transaction idle.
        let begin = format!("START TRANSACTION READ ONLY; {}", settings.limit_of_statement());
        let end = format!("ROLLBACK; EXECUTE {CHECK}");
        Self { begin, limits, end, settings: OnceLock::new() }
    }

    /// Statements for a new connection: the comparison of settings is planned once.
    pub(super) fn prepare() -> String {
        format!("PREPARE {CHECK} AS {}", PostgresSettings::query_of_settings())
    }

    /// True if a connection has the settings that the first connection of the source had.
    fn are_unchanged(&self, settings: &str) -> bool {
        self.settings.get_or_init(|| settings.to_owned()) == settings
    }
}

/// A connection while it is used.
pub(super) struct Session {
    client: Client,
    transactions: Arc<Transactions>,
    spoiled: AtomicBool,
    /// The response to the end of the transaction, if the end was sent behind the last statement.
    end: Mutex<Option<Pin<Box<SimpleQueryStream>>>>,
}

impl Session {
    pub(super) fn new(client: Client, transactions: Arc<Transactions>) -> Self {
        let (spoiled, end) = (AtomicBool::new(false), Mutex::new(None));
        Self { client, transactions, spoiled, end }
    }

    /// Does some work in a transaction of its own. The first statement is sent right behind the
    /// start of the transaction, without waiting for a response.
    pub(super) async fn read<T>(
        &self,
        work: &impl AsyncFn(&Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        // Nobody waits for the response. If one of these failed, the next statement fails: a transaction
        // that is aborted takes none.
        drop(self.client.simple_query_raw(&self.transactions.begin).await?);
        let result = work(self).await;
        self.end().await;
        result
    }

    /// Ends the transaction, if there is one, and compares the settings. A connection on which that
    /// fails is not used again.
    pub(super) async fn end(&self) {
        if self.is_spoiled() {
            return;
        }
        match self.settings_after_end().await {
            Ok(Some(settings)) if self.transactions.are_unchanged(&settings) => {}
            _ => self.spoil(),
        }
    }

    async fn settings_after_end(&self) -> Result<Option<String>, tokio_postgres::Error> {
        let sent = self.end.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut messages = match sent {
            Some(messages) => messages,
            None => Box::pin(self.client.simple_query_raw(&self.transactions.end).await?),
        };
        let mut settings = None;
        while let Some(message) = messages.try_next().await? {
            if let SimpleQueryMessage::Row(row) = message {
                settings = row.try_get(0)?.map(str::to_owned);
            }
        }
        Ok(settings)
    }

    /// Opens the rows of a statement as a portal of a transaction, which the caller rolls back.
    pub(super) async fn portal(
        &mut self,
        call: Call<'_>,
    ) -> Result<(Transaction<'_>, Portal), Fault> {
        let transaction = self.client.build_transaction().read_only(true).start().await?;
        transaction.batch_execute(&self.transactions.limits).await?;
        let statement = transaction.prepare_cached(call.sql()).await?;
        let values = call.values().map(|(value, _)| Text(value));
        let portal = transaction.bind_raw(&statement, values).await?;
        Ok((transaction, portal))
    }

    /// Starts a statement, which is prepared if it was not before.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<RowStream, Fault> {
        self.query(call.sql(), call.values().map(|(value, _)| value)).await
    }

    /// Starts the last statement of a read, and sends the end of the transaction right behind it:
    /// a page takes one round trip.
    pub(super) async fn last_call(&self, call: Call<'_>) -> Result<RowStream, Fault> {
        let statement = self.prepare(call.sql()).await?;
        let values = call.values().map(|(value, _)| Text(value));
        let rows = self.client.query_raw(&statement, values);
        let (rows, end) = join(rows, self.client.simple_query_raw(&self.transactions.end)).await;
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::pin(end?));
        Ok(rows?)
    }

    /// Starts a statement with these values.
    pub(super) async fn query<'a>(
        &self,
        sql: &str,
        values: impl ExactSizeIterator<Item = &'a Scalar>,
    ) -> Result<RowStream, Fault> {
        let statement = self.prepare(sql).await?;
        Ok(self.client.query_raw(&statement, values.map(Text)).await?)
    }

    /// The rows of a statement about the catalog.
    pub(super) async fn look(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Fault> {
        let statement = self.prepare(sql).await?;
        Ok(self.client.query(&statement, parameters).await?)
    }

    async fn prepare(&self, sql: &str) -> Result<Statement, Fault> {
        if self.client.statement_cache.size() >= STATEMENTS_MAX {
            self.client.statement_cache.clear();
        }
        Ok(self.client.prepare_cached(sql).await?)
    }

    /// Tells the server to give up the statement of this connection.
    pub(super) fn cancel_token(&self) -> CancelToken {
        self.client.cancel_token()
    }

    /// Says that the connection is not to be used again, for example because rows are on their way
    /// that nobody wants.
    pub(super) fn spoil(&self) {
        self.spoiled.store(true, Ordering::Relaxed);
    }

    fn is_spoiled(&self) -> bool {
        self.spoiled.load(Ordering::Relaxed)
    }

    /// Returns the connection to its pool, or closes the connection.
    pub(super) fn give_back<T>(self, result: Result<T, Fault>) -> Result<T, Fault> {
        if matches!(result, Err(Fault::Stale(_))) {
            self.client.statement_cache.clear();
        }
        if matches!(result, Err(Fault::Lost)) || self.is_spoiled() {
            drop(Object::take(self.client));
        }
        result
    }
}

/// A value as text, whatever type the server reads it as.
#[derive(Debug)]
struct Text<'a>(&'a Scalar);

impl ToSql for Text<'_> {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self.0 {
            Scalar::Text(text) => out.extend_from_slice(text.as_bytes()),
            other => out.extend_from_slice(call::text(other).as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}
