//! `handback serve` as a real process, over real sockets.

mod bounds;
mod client;
pub(crate) mod encrypted;
mod faults;
mod killed;
pub(crate) mod proofs;
pub(crate) mod server;
mod stored;
mod tampered;
mod tickets;
