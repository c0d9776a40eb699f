//! `handback serve` as a real process, over real sockets.

mod bounds;
mod killed;
mod proofs;
mod server;
