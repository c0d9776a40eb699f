//! The client against servers that follow a script.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop"
)]

mod lives;
mod proofs;
mod protocol;
mod script;
mod streams;
mod tools;
