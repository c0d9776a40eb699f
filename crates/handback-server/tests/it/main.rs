//! A real server, asked over real sockets.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a helper that finds something else than it made fails the test"
)]

mod aql;
mod bench;
mod bounds;
mod clock;
mod config;
mod damage;
mod demo;
mod derive;
mod duplex_tools;
mod issuer;
mod killed;
mod large;
mod matrix;
mod misbehaved;
mod names;
mod oidc;
mod rates;
mod revoke;
mod roster;
mod shares;
mod subscriptions;
mod support;
mod tls;
mod vectors;
mod webhooks;

/// As in the binary: what memory is measured depends on it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
