//! Servers that are killed at every stage of a call. What their tools did is counted in a database
//! that Handback knows nothing of.

mod calls;
pub(crate) mod client;
mod crowds;
pub(crate) mod process;
mod steps;
mod tasks;
pub(crate) mod tools;
