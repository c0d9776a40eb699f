//! Streams under crashes, disk faults and a bad network, by seed.
//!
//! A world has one server (a hub over a disk that fails: bytes in memory, or the real engine on a
//! directory), producers that send again what they were not told of, takers-over that fence them
//! off, zombies that do not know it yet, streams that are created, forked, closed, deleted and
//! outlived, duplexes with clients, handlers and two windows each, readers, and a network that loses,
//! repeats and reorders. Everything follows from the seed: a run that fails is run again by its
//! number.
//!
//! Ledgers outside of the system count what was asked for and told; on the way and at the end the
//! oracle compares: nothing that was acknowledged is lost, nothing is there twice, appends are in
//! order, nothing that a reader saw is taken back, no fenced producer writes, what was deleted stays
//! so, nothing ends before its time, only the right key reads, every chunk is consumed once, every
//! record is proved by a signature, and what was tampered with is not.

#![expect(clippy::indexing_slicing, reason = "indexes come from the same vectors")]

mod client;
mod disk;
mod duplex;
mod fate;
mod network;
mod oracle;
mod places;
mod producers;
mod report;
mod server;
mod world;

pub use report::{Broken, Engine, Report};
pub use world::run;
