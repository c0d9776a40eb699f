//! Streams from outside: a hub over a disk that is a map.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![expect(clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod crashes;
mod disk;
mod forks;
mod life;
mod producers;
mod proofs;
mod quotas;
