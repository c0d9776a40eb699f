//! Tools and clients that do not do what they should: whatever they do, others are served.

mod clients;
mod results;
pub(crate) mod tools;
