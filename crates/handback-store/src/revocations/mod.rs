//! What is not good any more, although it opens and is in time.
//!
//! A revocation names a principal, a session or a slot of the key ring, or is a cut-off: everything
//! that was born before some moment, of everybody or of one principal. It lives until no token that it
//! could concern can still be in time, [`REVOCATION_LIFE_MS`], and is forgotten then.
//!
//! Tokens are checked against a [`Revocations`], which is in memory. Whoever keeps it loads it anew
//! every second or two by [`RevocationStore::refresh`], which costs one read while nothing was added.
//! It says when it was loaded: if that is longer ago than [`STALE_AFTER_MS`], what may be used once
//! and request state answer 503, and cursors go on.
//!
//! Revocations are numbered, and their number is counted in the same write, so that whoever has read
//! up to a number has read all before it. One that is lifted changes a second number, after which all
//! are read again. Rows and keys: `docs/spec/journal.md`.

mod row;
mod snapshot;
mod store;

pub use row::Revocation;
pub use snapshot::{Revocations, Subject};
pub use store::{RevocationError, RevocationStore};

use handback_token::RETIRE_AFTER_S;

use crate::Millis;

/// How long a revocation lives: the longest life of a token, and the skew of the clocks twice.
pub const REVOCATION_LIFE_MS: Millis = RETIRE_AFTER_S * 1_000;

/// How old a snapshot may be.
pub const STALE_AFTER_MS: Millis = 5_000;

/// Revocations at one time. They are all in memory; whoever has more to revoke wants a cut-off.
pub const MAX_REVOCATIONS: usize = 100_000;
