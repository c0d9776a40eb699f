//! The shop's database, for reading.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use handback_tool::ToolError;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, params};
use serde::Serialize;

use crate::blocking::Room;

/// Statements that run at the same time, and connections that are kept for that.
const READERS_MAX: usize = 4;

/// The shop's database, for reading.
#[derive(Debug)]
pub(super) struct Shop {
    file: PathBuf,
    idle: Mutex<Vec<Connection>>,
    room: Room,
}

/// An order, as the tools show it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Order {
    pub(super) id: i64,
    pub(super) customer_id: i64,
    pub(super) product: String,
    pub(super) quantity: i64,
    pub(super) total_cents: i64,
    pub(super) status: String,
    pub(super) placed_at: String,
}

impl Shop {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file, idle: Mutex::default(), room: Room::new(READERS_MAX) }
    }

    /// Reads something, where that may block.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, ToolError> {
        let shop = Arc::clone(self);
        let read = self.room.run(move || shop.with_connection(read)).await?;
        read.map_err(|error| {
            tracing::error!(%error, "the demo shop cannot be read");
            ToolError::new("the shop cannot be read now").nothing_happened()
        })
    }

    fn with_connection<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => Connection::open_with_flags(
                &self.file,
                OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )?,
        };
        let found = read(&connection)?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(found)
    }
}

/// The columns of an order, for [`order`].
const ORDER: &str = "SELECT orders.id, customer_id, products.name, quantity, total_cents, status, \
                     placed_at FROM orders JOIN products ON products.id = product_id";

fn order(row: &Row<'_>) -> rusqlite::Result<Order> {
    Ok(Order {
        id: row.get(0)?,
        customer_id: row.get(1)?,
        product: row.get(2)?,
        quantity: row.get(3)?,
        total_cents: row.get(4)?,
        status: row.get(5)?,
        placed_at: row.get(6)?,
    })
}

/// So many orders before this one, the newest first; of one customer, or all.
pub(super) fn orders_before(
    shop: &Connection,
    customer: Option<i64>,
    before: i64,
    limit: u32,
) -> rusqlite::Result<Vec<Order>> {
    let of_customer = if customer.is_some() { "customer_id = ?3 AND" } else { "?3 IS NULL AND" };
    let sql =
        format!("{ORDER} WHERE {of_customer} orders.id < ?1 ORDER BY orders.id DESC LIMIT ?2");
    let mut statement = shop.prepare_cached(&sql)?;
    statement.query_map(params![before, limit, customer], order)?.collect()
}

/// One order.
pub(super) fn find_order(shop: &Connection, id: i64) -> rusqlite::Result<Option<Order>> {
    let mut statement = shop.prepare_cached(&format!("{ORDER} WHERE orders.id = ?1"))?;
    statement.query_row([id], order).optional()
}

/// The name of a customer.
pub(super) fn customer_name(shop: &Connection, id: i64) -> rusqlite::Result<Option<String>> {
    let mut statement = shop.prepare_cached("SELECT name FROM customers WHERE id = ?1")?;
    statement.query_row([id], |row| row.get(0)).optional()
}

/// How many orders of a category there are, and what they come to. Cancelled ones do not count.
pub(super) fn sales_of(shop: &Connection, category: &str) -> rusqlite::Result<(i64, i64)> {
    let mut statement = shop.prepare_cached(
        "SELECT count(*), coalesce(sum(total_cents), 0) FROM orders \
         WHERE product_id IN (SELECT id FROM products WHERE category = ?1) \
         AND status <> 'cancelled'",
    )?;
    statement.query_row([category], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Cents as people read them.
pub(super) fn money(cents: i64) -> String {
    format!("{}.{:02} EUR", cents / 100, cents % 100)
}
