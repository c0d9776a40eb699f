//! Streams under crashes, disk faults and a bad network, by seed.
//!
//! A world has one server (a hub over a disk that fails by plan), producers that send again what
//! they were not told of, takers-over that fence them off, zombies that do not know it yet, readers,
//! and a network that loses, repeats and reorders. Everything follows from the seed: a run that
//! fails is run again by its number.
//!
//! A ledger outside of the system counts what was asked for; at the end, and on the way, the oracle
//! compares: nothing that was acknowledged is lost, nothing is there twice, each producer's appends
//! are in order, nothing that a reader saw is taken back, no fenced producer writes, every record is
//! proved by a signature, and an edited one is not.

#![expect(clippy::indexing_slicing, reason = "indexes come from the same vectors")]

mod client;
mod network;
mod oracle;
mod server;
mod world;

pub use world::{Broken, Report, run};
