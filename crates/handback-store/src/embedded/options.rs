//! Settings of the embedded engine, and why it does not open.

use std::io;
use std::path::{Path, PathBuf};

use super::damage::Damage;
use crate::StoreError;

/// Settings of an [`EmbeddedStore`](super::EmbeddedStore).
#[derive(Clone, Debug)]
#[must_use]
pub struct EmbeddedOptions {
    pub(super) cache_bytes: u64,
    pub(super) headroom_bytes: u64,
    pub(super) memtable_bytes: u64,
    pub(super) workers: usize,
}

impl EmbeddedOptions {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            cache_bytes: 64 << 20,
            headroom_bytes: 256 << 20,
            memtable_bytes: 64 << 20,
            workers: 2,
        }
    }

    /// Memory for blocks that were read from the disk. 64 MiB unless set.
    pub const fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// How much of the disk is left free: with less, writes are refused as
    /// [`StoreError::Full`]. 256 MiB unless set, which is a new journal and all tables that may be
    /// under way; 0 turns the check off, and a full disk breaks the store.
    pub const fn headroom_bytes(mut self, bytes: u64) -> Self {
        self.headroom_bytes = bytes;
        self
    }

    /// How much of what was written is kept in memory, for each of four kinds of rows, before it is
    /// flushed to a table. 64 MiB unless set. A directory keeps what it was made with.
    pub const fn memtable_bytes(mut self, bytes: u64) -> Self {
        self.memtable_bytes = bytes;
        self
    }

    /// Threads that flush and compact. 2 unless set; at least 1.
    pub const fn workers(mut self, workers: usize) -> Self {
        self.workers = if workers == 0 { 1 } else { workers };
        self
    }
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a directory cannot be opened as a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open, or this one has, already.
    #[error("the data directory is in use by another process")]
    Locked,
    /// It was made by another version of this program, or by another one.
    #[error("the data directory has another format: {0}")]
    Format(String),
    /// A file is missing, cut or changed.
    #[error("the store is damaged: {0}")]
    Damaged(Damage),
    /// There is no store in the directory.
    #[error("there is no store in {}", .0.display())]
    Absent(PathBuf),
    /// The disk is too full.
    #[error(
        "the disk is too full: the store in {} wants {wanted} bytes free, and {free} are",
        path.display()
    )]
    Full {
        /// The directory of the store.
        path: PathBuf,
        /// Bytes that are to be free.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// Files cannot be read or written.
    #[error("the data directory cannot be used")]
    Io(#[source] io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<fjall::Error> for OpenError {
    fn from(error: fjall::Error) -> Self {
        match error {
            fjall::Error::Locked => Self::Locked,
            fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
                Self::Io(error)
            }
            fjall::Error::InvalidVersion(_) => Self::Format("not of this database".to_owned()),
            other => Self::Damaged(Damage::new(Path::new(""), Path::new(""), other.to_string())),
        }
    }
}

impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Damaged(damage) => Self::Damaged(damage.to_string()),
            OpenError::Full { .. } => Self::Full,
            OpenError::Io(error) if error.kind() == io::ErrorKind::StorageFull => Self::Full,
            OpenError::Io(error) => Self::Unavailable(error.to_string()),
            OpenError::Locked | OpenError::Format(_) | OpenError::Absent(_) => {
                Self::Unavailable(error.to_string())
            }
        }
    }
}
