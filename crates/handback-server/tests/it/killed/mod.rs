//! Servers that are killed at every stage of a call. What their tools did is counted in a database
//! that Handback knows nothing of.

mod calls;
mod client;
mod crowds;
mod process;
mod steps;
mod tasks;
mod tools;
