//! What the tests, the benchmark and the servers under test share.

pub mod clock;
pub mod fixture;
