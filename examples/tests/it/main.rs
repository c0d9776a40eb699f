//! The examples, as they are, with real clients.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod plain_rmcp;
mod tool_server;
