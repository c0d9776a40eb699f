//! JSON documents as collections.
//!
//! A document is read once, from a [`ByteSource`], to check that it is JSON and to note where its
//! items start. Nothing else is kept of it but what queries have found: a few bytes per item. A
//! page reads and parses its own items, and a filter or sort order only the members that it is
//! about.
//!
//! Rejected: parsing everything into values takes several times the memory of the text and more
//! time than all pages that are ever read of it; parsing from the start for every page costs the
//! more the deeper the page is.

mod canonical;
mod collection;
mod index;
mod infer;
pub(crate) mod listing;
mod patch;
pub(crate) mod pick;
mod plan;
mod pointer;
pub(crate) mod scan;
mod skim;
mod sort_key;
mod sorter;
mod source;
pub(crate) mod starts;
pub(crate) mod stored;
mod view;
pub(crate) mod window;

#[cfg(test)]
mod tests;

pub use collection::{JsonCollection, JsonOptions};
pub use index::locate;
pub use patch::{MAX_OPERATIONS, MAX_TAKEN_APART, OperationFault, Patch, PatchError};
pub use pointer::{Pointer, PointerError};
pub use scan::MAX_DEPTH;
pub use source::{ByteSource, InMemory};
pub use starts::MAX_ITEMS;
pub use window::{MAX_NAME_BYTES, MAX_VALUE_BYTES};
