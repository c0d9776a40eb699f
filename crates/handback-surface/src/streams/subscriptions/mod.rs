//! Subscriptions: durable cursors over streams, which wake workers by webhook or by a stream.
//!
//! A subscription has one wake at a time. Each has a generation, an id and a token; whoever comes
//! with those of an earlier one is fenced off, and can move nothing.

mod deliver;
mod glob;
mod manager;
mod routes;
mod state;

pub use deliver::Targets;
pub(crate) use manager::Subscriptions;
pub(crate) use routes::CONTROL;
