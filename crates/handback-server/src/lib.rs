//! The server: what it is configured with, what it opens, and what it listens on.
//!
//! Whoever writes a tool server depends on this crate alone: [`prelude`] has what tools are made of,
//! and what serves them.
//!
//! ```no_run
//! use handback_server::prelude::*;
//!
//! struct Hello;
//!
//! impl Tool for Hello {
//!     type Args = serde_json::Value;
//!
//!     fn definition(&self) -> Definition {
//!         Definition::tool("hello", "Greets.").class(ToolClass::ReadOnly)
//!     }
//!
//!     async fn call(&self, _: serde_json::Value, ctx: &CallContext) -> ToolResult {
//!         Ok(Outcome::text(format!("hello from {}", ctx.name())))
//!     }
//! }
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ServerConfig::open("data")?.tool(Hello)?;
//! Server::start(config).await?.run_until(tokio::signal::ctrl_c()).await;
//! # Ok(())
//! # }
//! ```
//!
//! `examples/tool_server.rs` in the repository is a whole one.

pub mod aql_tools;
mod audit_file;
mod blocking;
mod clock;
mod config;
mod connections;
pub mod demo;
#[cfg(debug_assertions)]
mod faults;
pub mod file;
mod files;
pub mod identity;
mod input;
mod keys;
mod limits;
mod metrics;
mod patient;
pub mod prelude;
mod quick;
mod quotas;
mod reachability;
mod revoke;
mod rewound;
mod router;
mod server;
mod tls;
mod tools;
mod webhooks;

pub use config::{DEFAULT_LISTEN, ServerConfig, StoreChoice, Upstream, WebhookOptions};
#[cfg(debug_assertions)]
pub use faults::{BadKillPoint, KillPoint};
pub use handback_gateway as gateway;
pub use identity::{Identity, IdentityMode};
pub use keys::{KeyError, missing_keys};
pub use limits::Limits;
pub use metrics::SCOPE as METRICS_SCOPE;
pub use revoke::SCOPE as REVOKE_SCOPE;
pub use server::{
    Reload, SUMS, Server, StartError, Startup, check_socket, connect_stdio, serve_stdio,
};
pub use tls::{TlsError, TlsFiles};
pub use tools::ToolsError;
