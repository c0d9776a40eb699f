//! The server: what it is configured with, what it opens, and what it listens on.

pub mod aql_tools;
mod blocking;
mod clock;
mod config;
mod connections;
pub mod demo;
#[cfg(debug_assertions)]
mod faults;
pub mod file;
pub mod identity;
mod keys;
mod limits;
mod patient;
mod quick;
mod revoke;
mod rewound;
mod router;
mod server;
mod tls;
mod tools;

pub use config::{DEFAULT_LISTEN, ServerConfig, StoreChoice};
#[cfg(debug_assertions)]
pub use faults::{BadKillPoint, KillPoint};
pub use identity::{Identity, IdentityMode};
pub use keys::KeyError;
pub use limits::Limits;
pub use revoke::SCOPE as REVOKE_SCOPE;
pub use server::{Reload, Server, StartError, serve_stdio};
pub use tls::{TlsError, TlsFiles};
pub use tools::ToolsError;
