//! The server: what it is configured with, what it opens, and what it listens on.

mod clock;
mod config;
mod connections;
#[cfg(debug_assertions)]
mod faults;
mod keys;
mod patient;
mod quick;
mod rewound;
mod router;
mod server;

pub use config::{DEFAULT_LISTEN, ServerConfig, StoreChoice};
#[cfg(debug_assertions)]
pub use faults::{BadKillPoint, KillPoint};
pub use keys::KeyError;
pub use server::{Server, StartError};
