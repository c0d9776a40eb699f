//! The embedded engine: one process, one directory, no set-up.
//!
//! It is built on fjall, a log-structured merge tree with one journal for all keyspaces: a commit is
//! one batch in the journal and one `fdatasync`, whatever it touches.
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | `records-1` | log (24 bytes), number u64be | the record |
//! | `notes-1` | log | the note |
//! | `removed-1` | log | nothing |
//! | `values-1` | `00`, key | `00`, value; or `01`, until u64be, value |
//! | | `01`, until u64be, key | nothing |
//!
//! **Removing.** A log can be of any length, a batch cannot. Up to [`MAX_REMOVED_PER_COMMIT`] records
//! are removed by the commit itself. A longer log is named in `removed-1` by the same batch; from
//! then on it reads as empty, also after a crash. Its records are taken away in small batches by
//! [`Kv::sweep`](crate::Kv::sweep), the last of which takes the name away as well; or at once, before
//! something is written to a log of that name. What a sweep takes away of them counts as keys do.
//!
//! **Trouble.** When a write or a sync fails, nobody knows what is on the disk: the store is
//! [`Broken`](StoreError::Broken), and so is every answer until [`Log::recover`](crate::Log::recover) has
//! closed the database, written its journals anew, checked them and opened it again. Records are read
//! all the same, until the disk takes a test file: only then is the database closed. A disk that
//! is nearly full is noticed before that: see [`EmbeddedOptions::headroom_bytes`]. What only removes
//! is let through even then.
//!
//! **Damage.** Before the database is opened its files are compared with the watermark and with each
//! other, and journals are checked batch by batch. An interrupted write at the end of the journals is
//! removed; whatever else is missing, cut or changed is [`Damage`], and the store does not open. Blocks
//! of tables are checked whenever they are read. Nothing is repaired by leaving it out, unless
//! [`accept_loss`] is called. `docs/spec/journal.md` says what is proved, and how.
//!
//! That records follow each other is taken on trust: looking would cost a read per commit.

mod acknowledged;
mod ahead;
mod background;
mod check;
mod damage;
mod database;
mod journal;
mod kv;
mod log;
mod manifest;
mod options;
mod rows;
mod space;
mod store;
mod survey;
mod watermark;

pub use check::{AcceptError, Checked, accept_loss, check};
pub use damage::Damage;
pub use options::{EmbeddedOptions, OpenError};
pub use store::EmbeddedStore;

#[cfg(doc)]
use crate::StoreError;

/// Records that a commit removes itself. More would hold up what else is committed.
pub const MAX_REMOVED_PER_COMMIT: usize = 1_024;
