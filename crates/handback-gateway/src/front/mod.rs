//! Where clients come in.

pub mod http;
mod lines;
mod sessions;
mod share;
pub mod stdio;
mod watch;
