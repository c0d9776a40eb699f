//! The gateway against real servers.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a helper that finds something else fails the test"
)]

mod misbehaving;
mod over_http;
mod plain_rmcp;
mod raw_http;
mod stdio;
mod web;
mod world;
