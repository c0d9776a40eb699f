//! The client side: calls of tools, durable streams over HTTP, and duplex exchanges with an outbox
//! that survives.
//!
//! [`tools`] calls the tools of a server over HTTP, MCP or a UNIX socket, and walks their pages.
//! [`streams`] reads, writes and verifies streams. [`duplex`] drives one exchange over as many
//! connections as it takes: what was sent is kept until the server has it, what was received is not
//! received again, and what a crash interrupted is resumed by [`duplex::Duplexes::resume_all`].
//!
//! # Design
//!
//! - What is kept on the disk is written and synced before anybody is told of it: a chunk before it
//!   is sent, an event before it is acknowledged, a token before it is confirmed.
//! - Degraded mode at the server never clears anything here.
//! - Nothing here reads the environment, and only `clock.rs` reads the time.

mod backoff;
mod bearer;
mod clock;
pub mod duplex;
mod http;
mod keys;
pub mod state;
pub mod streams;
mod tls;
pub mod tools;

pub use backoff::Backoff;
pub use bearer::{BadBearer, BearerToken, MAX_BEARER_CHARS};
pub use clock::{Clock, SystemClock};
pub use http::{HttpError, UrlError};
pub use keys::{Keys, KeysError};
