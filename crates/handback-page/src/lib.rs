//! Pagination, filters and collections: the cursor pagination of MCP-AQL over anything that can be
//! listed.
//!
//! Nothing here reads a file, a socket or a clock: `now`, randomness and sources are given.

pub mod aql;
pub mod collection;
pub mod edits;
pub mod excerpt;
pub mod filter;
pub mod json;
pub mod keyset;
pub mod order;
mod place;
mod project;
pub mod scalar;
pub mod schema;
pub mod shelf;
pub mod text;

pub use collection::{
    About, Collection, CollectionError, Columns, Fetch, Fetched, ItemText, Places, Query, Row,
    Search, Served, Sink, Unread, Whereabouts, Window,
};
pub use excerpt::{Excerpt, Extent, Located, LongItem};
pub use filter::{Filter, Member};
pub use json::{ByteSource, InMemory, JsonCollection, JsonOptions};
pub use order::{Direction, Nulls, Order, SortKey};
pub use scalar::Scalar;
pub use schema::{Column, FieldPath, Kind, Preset, Schema, Shape};
pub use text::TextCollection;
