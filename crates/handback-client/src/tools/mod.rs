//! Tools of a server: call them, go on with what they give, and answer what they ask.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use handback_client::tools::{AllOptions, Arguments, Call, Tools};
//!
//! let tools = Tools::new(&"http://127.0.0.1:8420".parse()?)?;
//! let orders = Call::new("shop_orders", Arguments::parse(r#"{"customer":7}"#)?);
//! let all = tools.call_all(&orders, &AllOptions::default()).await?;
//! println!("{} in {} pages", all.merged.unwrap_or_default(), all.pages);
//! # Ok(()) }
//! ```
//!
//! One [`Tools`] speaks plain HTTP (`/v1/tools`), MCP of 2026-07-28 or the frames of the UNIX socket:
//! its [`Endpoint`] says which. What it gives is the same.
//!
//! - [`Tools::call`] makes a call, or goes on with one. With an idempotency key it is tried again when
//!   the connection breaks, since the server knows it again. Without one it is tried once: an answer
//!   that did not come is [`ToolsError::Lost`], and nobody knows whether the call was made.
//! - [`Tools::walk`] gives the pages of a tool one by one, within [`Limits`].
//! - [`Tools::call_all`] merges them. What was merged before something went wrong is not lost, and
//!   says where to go on.

mod answer;
mod call;
mod client;
mod endpoint;
mod error;
mod http;
mod mcp;
mod merge;
mod server_events;
mod socket;
mod walk;

pub use answer::{Answer, Asks, Event, Failed, Given, Question, ToolInfo, ToolList};
pub use call::{Arguments, BadArguments, Call, MAX_ARGUMENTS_BYTES};
pub use client::{DEFAULT_RESPONSE_BYTES, DEFAULT_TIMEOUT, MAX_LISTED, Tools};
pub use endpoint::{BadEndpoint, Endpoint};
pub use error::{Refused, ToolsError};
pub use merge::{Merge, MergeError, Merger};
pub use walk::{
    AllOptions, DEFAULT_MAX_BYTES, DEFAULT_MAX_PAGES, Ended, Limit, Limits, Walk, Walked,
};
