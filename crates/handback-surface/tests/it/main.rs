//! Duplexes on a loopback listener, with a clock that is set and a store that fails by plan; tools on
//! a UNIX socket and over HTTP.

#![expect(clippy::unwrap_used, reason = "a helper that finds something else fails the test")]

mod atd;
mod bench;
mod handlers;
mod late;
mod stores;
mod tools;
mod world;
