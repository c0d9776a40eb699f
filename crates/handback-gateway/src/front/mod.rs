//! Where clients come in.

pub mod http;
mod sessions;
pub mod stdio;
