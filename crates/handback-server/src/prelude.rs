//! What a tool server is written with: `use handback_server::prelude::*`.
//!
//! Arguments, answers and state are types of one's own, with `serde` and `schemars` derived.

pub use handback_tool::{
    CallContext, Chunks, Definition, Event, Inputs, Outcome, Position, Round, Tool, ToolClass,
    ToolError, ToolResult,
};
pub use serde_json::{Value, json};

pub use crate::config::{DEFAULT_LISTEN, ServerConfig};
pub use crate::server::Server;
