//! Makes the shop: the same rows, always.

use std::fs::File;
use std::io;
use std::path::Path;

use rusqlite::{Connection, Transaction, params};

use super::error::DemoError;

/// How many customers there are.
pub const CUSTOMERS: u32 = 2_000;

/// How many products there are.
pub const PRODUCTS: u32 = 200;

/// How many orders there are.
pub const ORDERS: u32 = 100_000;

/// The tables, as the resource `shop://schema` shows them.
pub(super) const SCHEMA: &str = "\
CREATE TABLE customers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  city TEXT NOT NULL,
  country TEXT NOT NULL,
  joined_at TEXT NOT NULL
);
CREATE TABLE products (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  category TEXT NOT NULL,
  price_cents INTEGER NOT NULL,
  stock INTEGER NOT NULL
);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id),
  product_id INTEGER NOT NULL REFERENCES products (id),
  quantity INTEGER NOT NULL,
  total_cents INTEGER NOT NULL,
  status TEXT NOT NULL,
  placed_at TEXT NOT NULL
);
";

/// Made when the rows are there: that is faster.
const INDEXES: &str = "\
CREATE INDEX customers_by_name ON customers (name);
CREATE INDEX customers_by_city ON customers (city);
CREATE INDEX products_by_category ON products (category, price_cents);
CREATE INDEX orders_by_customer ON orders (customer_id, id);
CREATE INDEX orders_by_product ON orders (product_id, total_cents);
CREATE INDEX orders_by_status ON orders (status, id);
CREATE INDEX orders_by_time ON orders (placed_at);
CREATE INDEX orders_by_total ON orders (total_cents);
";

/// Makes the shop at this path, unless it is there. It appears there when it is whole.
pub(super) fn once(file: &Path) -> Result<(), DemoError> {
    let unwritten = |source: io::Error| DemoError::Write { file: file.to_owned(), source };
    if file.try_exists().map_err(unwritten)? {
        return Ok(());
    }
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    let made = tempfile::Builder::new().prefix(".shop-").tempfile_in(folder).map_err(unwritten)?;
    let filled = Connection::open(made.path()).and_then(fill);
    filled.map_err(|source| DemoError::Database { file: file.to_owned(), source })?;
    made.as_file().sync_all().map_err(unwritten)?;
    made.persist(file).map_err(|error| unwritten(error.error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(unwritten)
}

fn fill(mut connection: Connection) -> rusqlite::Result<()> {
    // A file that is not whole is not used: there is nothing to roll back to.
    connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    let mut dice = Dice(SEED);
    customers(&transaction, &mut dice)?;
    let prices = products(&transaction, &mut dice)?;
    orders(&transaction, &mut dice, &prices)?;
    transaction.execute_batch(INDEXES)?;
    transaction.commit()?;
    connection.execute_batch("ANALYZE;")?;
    connection.close().map_err(|(_, error)| error)
}

fn customers(transaction: &Transaction<'_>, dice: &mut Dice) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare(
        "INSERT INTO customers VALUES (?1, ?2, ?3, ?4, strftime('%Y-%m-%d', ?5, 'unixepoch'))",
    )?;
    for id in 1..=CUSTOMERS {
        let name = format!("{} {}", dice.pick(&FIRST_NAMES, ""), dice.pick(&LAST_NAMES, ""));
        let (city, country) = dice.pick(&CITIES, ("", ""));
        // In the year before the first order.
        let joined = FIRST_ORDER_S - i64::from(dice.below(365 * DAY_S));
        insert.execute(params![id, name, city, country, joined])?;
    }
    Ok(())
}

/// Gives the prices.
fn products(transaction: &Transaction<'_>, dice: &mut Dice) -> rusqlite::Result<Vec<u32>> {
    let mut insert = transaction.prepare("INSERT INTO products VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let things = CATEGORIES.iter().flat_map(|(category, things)| {
        let of_kind = MATERIALS.iter().map(move |material| (category, material, things));
        of_kind.flat_map(|(category, material, things)| {
            things.iter().map(move |thing| (category, format!("{material} {thing}")))
        })
    });
    let mut prices = Vec::new();
    for (id, (category, name)) in (1..=PRODUCTS).zip(things) {
        let price = 199 + 100 * dice.below(240);
        insert.execute(params![id, name, category, price, dice.below(500)])?;
        prices.push(price);
    }
    Ok(prices)
}

fn orders(transaction: &Transaction<'_>, dice: &mut Dice, prices: &[u32]) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare(
        "INSERT INTO orders VALUES \
         (?1, ?2, ?3, ?4, ?5, ?6, strftime('%Y-%m-%dT%H:%M:%SZ', ?7, 'unixepoch'))",
    )?;
    for id in 1..=ORDERS {
        let customer = 1 + dice.below(CUSTOMERS);
        let product = 1 + dice.below(PRODUCTS);
        let price = prices.get(product as usize - 1).copied().unwrap_or_default();
        let quantity = 1 + dice.below(4);
        let status = match dice.below(100) {
            0..4 => "cancelled",
            4..10 => "paid",
            10..18 => "shipped",
            _ => "delivered",
        };
        let placed = FIRST_ORDER_S + i64::from(id) * ORDER_EVERY_S + i64::from(dice.below(600));
        insert.execute(params![
            id,
            customer,
            product,
            quantity,
            price * quantity,
            status,
            placed
        ])?;
    }
    Ok(())
}

/// Pseudorandom numbers, the same ones in every version: the state is mixed as `SplitMix64` does.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    fn below(&mut self, limit: u32) -> u32 {
        let scaled = (u128::from(self.next()) * u128::from(limit)) >> 64;
        u32::try_from(scaled).unwrap_or_default()
    }

    fn pick<T: Copy>(&mut self, from: &[T], none: T) -> T {
        let count = u32::try_from(from.len()).unwrap_or(u32::MAX);
        from.get(self.below(count) as usize).copied().unwrap_or(none)
    }
}

const SEED: u64 = 0x5348_4f50;
const DAY_S: u32 = 86_400;

/// 2024-01-01.
const FIRST_ORDER_S: i64 = 1_704_067_200;

/// So that the orders are of two years.
const ORDER_EVERY_S: i64 = 631;

const FIRST_NAMES: [&str; 20] = [
    "Ada",
    "Amal",
    "Bela",
    "Chen",
    "Dana",
    "Edsger",
    "Fatima",
    "Grace",
    "Hedy",
    "Ines",
    "Jun",
    "Katherine",
    "Lena",
    "Mary",
    "Niklaus",
    "Olga",
    "Priya",
    "Radia",
    "Sofie",
    "Tove",
];

const LAST_NAMES: [&str; 20] = [
    "Almeida", "Berg", "Costa", "Dijkstra", "Eriksen", "Fischer", "Garcia", "Hopper", "Ito",
    "Jensen", "Kowalski", "Lovelace", "Moreau", "Novak", "Okafor", "Perlman", "Quist", "Rossi",
    "Sato", "Turing",
];

const CITIES: [(&str, &str); 12] = [
    ("Amsterdam", "NL"),
    ("Barcelona", "ES"),
    ("Bergen", "NO"),
    ("Berlin", "DE"),
    ("Gdansk", "PL"),
    ("Lagos", "NG"),
    ("Lisbon", "PT"),
    ("London", "GB"),
    ("Lyon", "FR"),
    ("Osaka", "JP"),
    ("Turin", "IT"),
    ("Zurich", "CH"),
];

const MATERIALS: [&str; 5] = ["Oak", "Steel", "Linen", "Glass", "Cork"];

const CATEGORIES: [(&str, [&str; 4]); 10] = [
    ("bath", ["tray", "stool", "basket", "mirror"]),
    ("desk", ["organizer", "lamp", "stand", "shelf"]),
    ("garden", ["planter", "bench", "lantern", "trellis"]),
    ("hall", ["hook", "rack", "bowl", "mat"]),
    ("kids", ["blocks", "puzzle", "chair", "box"]),
    ("kitchen", ["board", "jar", "trivet", "spoon"]),
    ("light", ["pendant", "sconce", "candlestick", "shade"]),
    ("living", ["table", "frame", "vase", "cushion"]),
    ("sleep", ["headboard", "blanket box", "bedside table", "clock"]),
    ("travel", ["case", "flask", "tag", "kit"]),
];

/// The categories, in order.
pub(super) fn categories() -> impl ExactSizeIterator<Item = &'static str> {
    CATEGORIES.iter().map(|(category, _)| *category)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shop_is_the_same_everywhere() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shop.db");
        once(&file).unwrap();
        let made = std::fs::metadata(&file).unwrap().modified().unwrap();
        once(&file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), made, "made once");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left over");
        let shop = Connection::open(&file).unwrap();
        let ask = |sql: &str| shop.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(ask("SELECT count(*) FROM customers"), i64::from(CUSTOMERS));
        assert_eq!(ask("SELECT count(*) FROM products"), i64::from(PRODUCTS));
        assert_eq!(ask("SELECT count(*) FROM orders"), i64::from(ORDERS));
        assert_eq!(ask("SELECT count(DISTINCT name) FROM products"), i64::from(PRODUCTS));
        assert_eq!(ask("SELECT count(*) FROM pragma_foreign_key_check"), 0);
        let sum = ask("SELECT sum(total_cents * id % 1000003) FROM orders");
        let last: String =
            shop.query_row("SELECT max(placed_at) FROM orders", [], |row| row.get(0)).unwrap();
        assert_eq!((sum, last.as_str()), (49_993_595_711, "2025-12-31T07:53:49Z"));
    }
}
