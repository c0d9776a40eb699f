//! Integration tests of `handback-token`.
#![expect(clippy::unwrap_used, reason = "a test that goes wrong panics")]

mod attack;
#[cfg(feature = "compat")]
mod compat;
mod compile_fail;
mod cursor;
mod ring_sources;
mod state;
mod support;
mod traps;
