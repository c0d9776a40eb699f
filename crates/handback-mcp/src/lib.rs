//! The MCP surface: the Model Context Protocol on rmcp, with what rmcp leaves open.
//!
//! rmcp speaks both eras of the protocol, with sessions up to 2025-11-25 and without from 2026-07-28
//! on. It knows no callers: whoever knows the id of a session can use it, end it, and read its
//! events again. And a server that keeps events for sessions no longer notices when a caller of the
//! newer era hangs up, which is how that era cancels. So [`Front`] stands before it:
//!
//! ```text
//!                    ┌ 2026-07-28 ─ rmcp, no sessions, no events: hanging up cancels
//! POST, GET, DELETE ─┤
//!                    └ earlier ──── owner? ─ rmcp, sessions and events on our store
//!                                     └ event ids are sealed on the way out, opened on the way in
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | [`era`] | which of the two a request belongs to |
//! | [`bounds`] | how long and how deep a body may be |
//! | [`sessions`] | who owns a session; rmcp's `SessionStore` |
//! | [`events`] | what a session has sent; rmcp's `EventStore` |
//! | [`seal`], `sse` | ids of events, as tokens of their owner |
//! | `late` | keeps the connection up until rmcp says the first thing |
//! | [`front`] | all of it in order |
//! | [`wire`] | messages as bytes, for what is passed on |
//!
//! # Security
//!
//! A session and its event ids are of use to the principal that began it, and to nobody else. What
//! another one gets is the answer for a session that never was, to the byte; it changes nothing, not
//! even how long the session lives.

pub mod bounds;
pub mod era;
pub mod events;
pub mod front;
mod late;
pub mod seal;
pub mod server;
pub mod sessions;
mod sse;

use std::sync::Arc;

pub use era::Era;
pub use front::{Front, FrontOptions, Stores};
pub use server::{About, Changes, McpServer};

/// Messages as bytes, for what is passed on.
///
/// They are read in a crate without IO: see [`handback_wire`].
pub mod wire {
    pub use handback_wire::{
        Id, MAX_ID_BYTES, MAX_MEMBERS, MAX_METHOD_BYTES, Message, MessageError, Object, ObjectError,
    };
}

/// What tells the time, in milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;
