//! Tools over a UNIX socket, in the frames of ATD (Agent Tool Dispatch).
//!
//! `ping`, `hello`, `tool_list`, `tool_schema`, `run_tool` and `run_tool_continue`, one at a time on
//! a connection. The published clients of that protocol work unchanged; `docs/spec/atd-socket.md`
//! has every byte.
//!
//! Who calls is who the operating system says is at the other end. The `client_id` of a `hello` is
//! no identity: cursors are bound to it, so that programs of one user do not go on with each
//! other's walks by mistake.

mod answer;
mod connection;
mod listener;

use handback_stream::atd as wire;

pub use connection::{Settings, serve_connection};
pub use listener::{Listener, check_free, listen};
