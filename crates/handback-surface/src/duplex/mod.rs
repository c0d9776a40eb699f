//! Duplex: chunks in, events out, over one connection after another.
//!
//! `docs/spec/duplex.md` says what is on the wire. A connection is opened (`open`): its streams are
//! found or created, its token is checked, and it becomes the next generation. Then it is served
//! (`connection`), while a runner has the chunks consumed (`runner`), whether a connection is
//! there or not. The chunks of a tool go to its call instead (`tool`).

mod connection;
mod counted;
mod ends;
mod events;
mod open;
mod quota;
mod resume;
mod routes;
mod runner;
mod tool;
mod writer;

pub use handback_tool::Again;
pub use routes::{CONNECTIONS_MAX, DuplexRoutes, DuplexSettings, HandlerFactory, PATH};
