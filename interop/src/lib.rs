//! What the tests and the benchmark share.

pub mod clock;
