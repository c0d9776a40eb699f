//! Held results: values that stay at the server under a short random name.
//!
//! A [`Handle`](handback_token::Handle) names a value that a caller reads in parts; a spill id names
//! what did not fit into a token; an outcome that is too long for its row of the
//! [`journal`](crate::journal) is kept the same way. All are written by a [`HeldWriter`] and read by
//! position with a [`HeldReader`], without ever being in memory as a whole.
//!
//! - **Owned.** A value is filed under its owner. Somebody else's handle is one that does not exist,
//!   by the same look-up.
//! - **Two lives.** One hour from the last use, 24 hours at most. For another 24 hours a tombstone
//!   tells the owner that it was there: [`LookUp::Expired`] and not [`LookUp::Unknown`].
//! - **Quota.** What a principal holds is counted in one row, in the same write as the value's row.
//!   The count never falls below what is held. Values that end give their bytes back when they are
//!   swept, and at the latest when the quota is reached: then all are counted anew.
//! - **Two places.** Up to [`MAX_IN_STORE_BYTES`] a value is kept in the store, in chunks. What is
//!   longer is a file, if there is a folder for files; written under another name, synced and
//!   renamed before its row says that it is there. Each chunk of a file is encrypted by itself, if a
//!   key is given, else it has a checksum; either is bound to the value and to the place in it.
//! - **Nothing is left over.** A row in state `writing` is there before the first chunk, and has an
//!   end of life. A file whose row is gone is removed by [`HeldStore::sweep`].
//!
//! Replicas that share a store do not share files, unless their folder is a shared one. Without a
//! folder everything is in the store. Rows, keys and files: `docs/spec/journal.md`.

mod elsewhere;
mod error;
mod file;
mod options;
mod reader;
mod row;
mod store;
mod sweep;
mod tally;
mod usage;
mod writer;

pub use error::HeldError;
pub use options::{HeldOptions, NewValue};
pub use reader::HeldReader;
pub use row::MAX_NOTE_BYTES;
pub use store::{Held, HeldStore, LookUp, SpillId};
pub use sweep::Swept;
pub use tally::HeldTally;
pub use usage::VALUE_COST_BYTES;
pub use writer::HeldWriter;

use crate::Millis;

/// Bytes of a value that is kept in the store; what is longer is a file, from its first byte on: a store
/// keeps in memory what was written to it last, and writes it twice.
pub const MAX_IN_STORE_BYTES: usize = 1 << 20;

/// Bytes of a chunk: what is read at least, and what a value of a store has at most.
pub const CHUNK_BYTES: usize = 64 << 10;

/// How long a tombstone tells an owner that something was there.
pub const TOMBSTONE_LIFE_MS: Millis = 24 * 60 * 60 * 1_000;
