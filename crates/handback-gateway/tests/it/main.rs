//! The gateway against real servers.

mod stdio;
mod world;
