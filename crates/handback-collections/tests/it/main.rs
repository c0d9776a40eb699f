//! Collections over real sources.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![expect(clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod engine;
mod files;
mod sqlite;
mod support;
