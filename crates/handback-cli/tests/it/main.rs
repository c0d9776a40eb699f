//! The real binary, in a folder of its own and with an environment of its own.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a helper that finds something else than it made fails the test"
)]

mod call;
mod config;
mod config_file;
mod context;
mod duplex;
mod files;
mod help;
mod identity;
mod keys;
mod mcp_client;
mod pipes;
mod query;
mod refusals;
mod rotation;
mod secrets;
mod sharing;
mod stdio;
mod store;
mod streams;
mod support;
mod token;
mod unfinished;
mod wrap;
