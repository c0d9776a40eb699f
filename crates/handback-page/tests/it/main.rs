//! Pagination from the outside: requests in, answers out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![expect(clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod budget;
mod cursors;
mod harness;
mod introspection;
mod limits;
mod long_items;
mod long_members;
mod operations;
mod seed;
mod vectors;
