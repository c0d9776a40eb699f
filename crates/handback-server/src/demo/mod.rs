//! What `handback serve` shows when nothing else is configured: a small shop.
//!
//! | name | what it shows |
//! |---|---|
//! | collections `customers`, `products`, `orders` | MCP-AQL over SQLite tables |
//! | tool `shop_orders` | pages, whose size may differ from one to the next |
//! | tool `shop_refund` | asking back by a form, single use, one effect under one key |
//! | tool `shop_report` | a long call that tells how far it is, and can be cancelled |
//! | prompt `shop_letter`, resource `shop://schema` | the other two kinds |
//!
//! The shop is generated once, in a database file of the data directory; the same one everywhere.
//! Refunds go to a second file, so that the shop can be read by anybody and written by nobody.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use handback_server::demo;
//! use handback_tool::Registry;
//!
//! let data = tempfile::tempdir()?;
//! let mut registry = Registry::new();
//! let collections = demo::register(&mut registry, data.path())?;
//! assert_eq!(collections.names().collect::<Vec<_>>(), ["customers", "orders", "products"]);
//! # Ok(())
//! # }
//! ```

mod error;
mod generate;
mod intro;
mod orders;
mod refund;
mod refunds;
mod report;
mod shop;
mod texts;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use handback_collections::sqlite::{SqliteCollection, SqliteOptions};
use handback_page::aql::Catalog;
use handback_tool::Registry;

pub use error::DemoError;
pub use generate::{CUSTOMERS, ORDERS, PRODUCTS};
pub use intro::{Endpoints, intro};
pub use orders::{DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE};
pub use refund::MAX_REASON_CHARS;
pub use report::{DEFAULT_PAUSE_MS, MAX_PAUSE_MS};

use refunds::Refunds;
use shop::Shop;

/// Makes the shop, if it is not there, adds its tools, prompt and resource, and gives its
/// collections: for [`aql_tools::register`](crate::aql_tools::register).
///
/// It waits for the disk: a second or two when the shop is made, milliseconds later.
///
/// # Errors
///
/// [`DemoError`].
pub fn register(registry: &mut Registry, data_dir: &Path) -> Result<Catalog, DemoError> {
    let folder = data_dir.join("demo");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|source| DemoError::Folder { folder: folder.clone(), source })?;
    let file = folder.join(SHOP_FILE);
    generate::once(&file)?;
    let shop = Arc::new(Shop::new(file.clone()));
    let refunds = Arc::new(Refunds::open(&folder.join(REFUNDS_FILE))?);
    registry.add(orders::Orders { shop: Arc::clone(&shop) })?;
    registry.add(refund::Refund { shop: Arc::clone(&shop), refunds })?;
    registry.add(report::Report { shop: Arc::clone(&shop) })?;
    registry.add(texts::Letter { shop })?;
    registry.add(texts::SchemaText)?;
    let mut catalog = Catalog::new();
    for (table, description) in [
        ("customers", "Everybody who ever bought something in the demo shop."),
        ("products", "What the demo shop sells, by category."),
        ("orders", "What was bought, by whom and when. Prices are in cents."),
    ] {
        let collection = SqliteCollection::open(&file, table, SqliteOptions::default())?;
        catalog.add(table, description, Arc::new(collection))?;
    }
    Ok(catalog)
}

/// The file of the shop. Another number when the shop is another one.
const SHOP_FILE: &str = "shop-1.db";

/// The file of the refunds of that shop.
const REFUNDS_FILE: &str = "refunds-1.db";
