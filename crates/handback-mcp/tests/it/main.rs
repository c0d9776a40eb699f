//! The front over real sockets: rmcp's own client, and requests written by hand.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a helper that finds something else fails the test"
)]

mod bounds;
mod cancelling;
mod client;
mod handler;
mod owners;
mod pipeline;
mod resuming;
mod store;
mod world;
