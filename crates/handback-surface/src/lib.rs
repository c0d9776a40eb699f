//! Handback's own protocols on sockets.
//!
//! Everything here takes requests that were read from a connection, and gives responses: listeners,
//! identities and configuration are the business of the server.

pub mod atd;
pub mod body;
mod calls;
pub mod duplex;
pub mod guard;
pub mod streams;
pub mod tools;
