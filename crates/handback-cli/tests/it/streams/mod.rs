//! `handback serve` as a real process, over real sockets.

mod bounds;
mod encrypted;
mod faults;
mod killed;
mod proofs;
mod server;
mod tickets;
