//! Calls through the whole pipeline, on real stores.

#![expect(clippy::unwrap_used, reason = "a helper that finds something else fails the test")]

mod bench;
mod cancel;
mod keys;
mod pages;
mod relays;
mod revoked;
mod rounds;
mod trail;
