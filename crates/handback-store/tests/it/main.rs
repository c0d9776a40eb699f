//! Tests of the engines and the writer.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![expect(clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod behind;
mod cut;
mod damage;
mod encryption;
mod engines;
mod faults;
mod held;
mod journal;
mod kill;
mod power;
mod process;
mod story;
mod trouble;
mod writer;
