//! Subscriptions: durable cursors over streams, which wake workers by webhook or by a stream.
//!
//! A subscription has one wake at a time. Each has a generation, an id and a token; whoever comes
//! with those of an earlier one is fenced off, and can move nothing.

mod agenda;
mod book;
mod deliver;
mod making;
mod manager;
mod matching;
mod owners;
mod routes;
mod rows;
mod signer;
mod slices;
mod state;
mod tails;
mod target;
mod worker;

pub use book::SubscriptionQuotas;
pub(crate) use manager::{Parts, Subscriptions};
pub(crate) use routes::CONTROL;
pub use target::{TargetError, TargetPattern, WebhookTargets};

#[cfg(test)]
mod tests;
