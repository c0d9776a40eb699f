//! Refunds: a database file of their own.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, TransactionBehavior, params};
use serde::Serialize;

use super::error::DemoError;
use crate::blocking::Room;

/// How long another process that writes is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Callers that wait for the one connection on threads of their own.
const WAITING_MAX: usize = 4;

const SCHEMA: &str = "\
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS refunds (
  id INTEGER PRIMARY KEY,
  effect_key TEXT NOT NULL UNIQUE,
  order_id INTEGER NOT NULL UNIQUE,
  total_cents INTEGER NOT NULL,
  reason TEXT NOT NULL,
  made_at INTEGER NOT NULL
);
";

/// What was refunded.
#[derive(Debug)]
pub(super) struct Refunds {
    connection: Mutex<Connection>,
    room: Room,
}

/// A refund that is to be made.
#[derive(Clone, Debug)]
pub(super) struct NewRefund {
    /// The same for every try of one call, and of no other.
    pub(super) effect_key: String,
    pub(super) order: i64,
    pub(super) total_cents: i64,
    pub(super) reason: String,
    /// Seconds since 1970.
    pub(super) made_at: u64,
}

/// A refund that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Made {
    refunded: bool,
    refund: i64,
    order: i64,
    total_cents: i64,
    reason: String,
    made_at: i64,
}

/// Why nothing was refunded.
#[derive(Debug, thiserror::Error)]
pub(super) enum RefundError {
    #[error("the order was refunded already")]
    AlreadyRefunded,
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
}

impl Refunds {
    pub(super) fn open(file: &Path) -> Result<Self, DemoError> {
        let failed = |source| DemoError::Database { file: file.to_owned(), source };
        let connection = Connection::open(file).map_err(failed)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        connection.execute_batch(SCHEMA).map_err(failed)?;
        Ok(Self { connection: Mutex::new(connection), room: Room::new(WAITING_MAX) })
    }

    pub(super) const fn room(&self) -> &Room {
        &self.room
    }

    pub(super) fn is_refunded(&self, order: i64) -> Result<bool, RefundError> {
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached("SELECT 1 FROM refunds WHERE order_id = ?1")?;
        Ok(statement.exists([order])?)
    }

    /// Refunds an order once. The same key gets what was made under it, whenever it comes.
    pub(super) fn refund(&self, new: &NewRefund) -> Result<Made, RefundError> {
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some(made) = made_under(&transaction, &new.effect_key)? {
            return Ok(made);
        }
        let made_at = i64::try_from(new.made_at).unwrap_or(i64::MAX);
        let inserted = transaction.execute(
            "INSERT INTO refunds (effect_key, order_id, total_cents, reason, made_at) \
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![new.effect_key, new.order, new.total_cents, new.reason, made_at],
        );
        match inserted {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                return Err(RefundError::AlreadyRefunded);
            }
            inserted => inserted?,
        };
        let made = made_under(&transaction, &new.effect_key)?;
        transaction.commit()?;
        made.ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn made_under(connection: &Connection, key: &str) -> rusqlite::Result<Option<Made>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, order_id, total_cents, reason, made_at FROM refunds WHERE effect_key = ?1",
    )?;
    let made = |row: &Row<'_>| {
        Ok(Made {
            refunded: true,
            refund: row.get(0)?,
            order: row.get(1)?,
            total_cents: row.get(2)?,
            reason: row.get(3)?,
            made_at: row.get(4)?,
        })
    };
    statement.query_row([key], made).optional()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(key: &str, order: i64, made_at: u64) -> NewRefund {
        let (effect_key, reason) = (key.to_owned(), "broken".to_owned());
        NewRefund { effect_key, order, total_cents: 500, reason, made_at }
    }

    #[test]
    fn one_key_is_one_refund_over_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("refunds.db");
        let first = Refunds::open(&file).unwrap().refund(&new("a", 17, 1)).unwrap();
        let refunds = Refunds::open(&file).unwrap();
        assert_eq!(refunds.refund(&new("a", 17, 9)).unwrap(), first);
        assert_eq!(first.made_at, 1);
        let other = refunds.refund(&new("b", 17, 9));
        assert!(matches!(other, Err(RefundError::AlreadyRefunded)), "{other:?}");
        assert_eq!(refunds.refund(&new("b", 18, 9)).unwrap().refund, 2);
        assert!(refunds.is_refunded(17).unwrap() && !refunds.is_refunded(19).unwrap());
    }
}
