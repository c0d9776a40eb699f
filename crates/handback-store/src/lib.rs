//! Where streams, journals, sessions and held results live.
//!
//! Two small traits: [`Log`], numbered records that are appended in atomic, durable batches, and
//! [`Kv`], values with conditions and an end of life. Everything else is written once, on them.
//!
//! | engine | for |
//! |---|---|
//! | [`MemoryStore`] | tests, and servers that keep nothing |
//! | [`EmbeddedStore`] | one process, one directory |
//! | [`Encrypted`] | in front of another engine: no value reaches it in the clear |
//! | [`Behind`] | in front of another engine: what is not worth a sync |
//! | [`faulty::FaultyStore`] | simulations: it fails, forgets and crashes by a plan |
//!
//! [`GroupWriter`] is what makes appends fast: it merges what many callers want to write at the
//! same time, so that they share one sync. What is written on [`Kv`]: [`journal`], [`sessions`],
//! [`held`] results, [`revocations`] and [`tries`]. The module `suite` (feature of the same name) has the
//! tests that every engine must pass.
//!
//! ```
//! use bytes::Bytes;
//! use handback_store::{Batch, Log, LogId, MemoryStore, ReadLimit, Record};
//!
//! let store = MemoryStore::new();
//! let log = LogId::from_bytes([7; 24]);
//! let record = Record { log, number: 0, bytes: Bytes::from_static(b"first") };
//! store.commit(&Batch { records: vec![record.clone()], ..Batch::default() })?;
//! let read = store.read(log, 0, ReadLimit { records: 10, bytes: 1_000 })?;
//! assert_eq!(read, [record]);
//! # Ok::<(), handback_store::StoreError>(())
//! ```

mod behind;
mod coding;
pub mod embedded;
pub mod encrypted;
mod error;
pub mod faulty;
pub mod held;
pub mod journal;
mod kv;
mod log;
mod memory;
mod owner;
pub mod revocations;
pub mod sessions;
mod shared;
mod state;
#[cfg(feature = "suite")]
pub mod suite;
pub mod tries;
pub mod writer;

pub use behind::Behind;
pub use embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
pub use encrypted::{DataKey, Encrypted};
pub use error::StoreError;
pub use kv::{Change, Condition, Kv, KvBatch, KvError, MAX_KEY_BYTES, Millis};
pub use log::{Batch, LOG_ID_BYTES, Log, LogId, ReadLimit, Record};
pub use memory::MemoryStore;
pub use owner::owner_tag_of;
pub use writer::{CommitHook, GroupWriter, Pending, SubmitError, WriterOptions};
