//! The Durable Streams protocol.
//!
//! `PUT` creates, `POST` appends and closes, `GET` reads (also `live=long-poll` and `live=sse`),
//! `HEAD` tells, `DELETE` deletes. What the server adds is additive: a client that knows the
//! protocol only notices nothing of it.

pub(crate) mod answer;
mod append;
mod channels;
mod create;
mod cursor;
mod directory;
mod driver;
mod live;
pub mod log;
mod params;
mod queue;
mod read;
mod records;
mod routes;
mod subscriptions;
mod sweep;
mod ticket;
mod turns;
mod uncounted;
mod writer;

pub use answer::{OverQuota, busy};
pub use driver::{Clock, Mode, NotTaken, Streams};
pub use queue::{COMMAND_BYTES, WAITING_BYTES_MAX};
pub use routes::{PREFIX, Settings, StreamRoutes, SubscriptionSettings};
pub use subscriptions::{SubscriptionQuotas, TargetError, TargetPattern, WebhookTargets};
