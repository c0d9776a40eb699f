//! MCP-AQL operations over a set of collections.
//!
//! One request goes in, one [`Answer`] comes out: [`Engine::answer`] checks it against the
//! operation table, opens its cursor, asks the collection for a window, and seals the cursors of
//! the page. A page that waits for more comes out as [`Step::Wait`]: the caller sleeps, this crate
//! has no clock.
//!
//! `docs/spec/pagination.md` has every rule and format.

mod answer;
mod at;
mod catalog;
mod cursors;
mod derive;
mod engine;
mod failure;
mod introspect;
mod own;
mod page;
mod params;
mod piece;
mod request;
mod room;
mod settings;
mod snapshot;
mod sort;
mod table;
mod tools;

pub use answer::{Answer, Item, Page, PageInfo, Warning};
pub use catalog::{Catalog, CatalogError, MAX_NAME_CHARS};
pub use derive::MAX_DERIVED_BYTES;
pub use engine::{Call, Endpoint, Engine, Step, Waiting};
pub use failure::{Code, Failure, Inside};
pub use own::{NewOwn, Own, OwnEntry, OwnError, OwnList, OwnValue};
pub use request::{Limits, parse as parse_request};
pub use settings::{
    DEFAULT_MAX_PAGE_SIZE, DEFAULT_PAGE_SIZE, HARD_MAX_PAGE_SIZE, Mode, PagePreset, Settings,
    SettingsError,
};
pub use sort::{MAX_FIELDS, MAX_SORT_KEYS};
pub use table::Operation;
pub use tools::Tool;
