//! How much room is left on the disk.
//!
//! A write that meets a full disk breaks the database, which then has to be reopened. Nobody would
//! be told before that nothing of it was written. So a part of the disk is never used: when less
//! than that is free, writes are refused as [`StoreError::Full`], and what is under way in the
//! background (flushing, compaction, a new journal) still has room to finish.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::options::OpenError;
use crate::StoreError;

/// How long an answer of the file system is good for.
const ANSWER_LIFE: Duration = Duration::from_millis(200);

/// After how many bytes written it is asked again, in parts of the headroom.
const HEADROOM_PARTS: u64 = 8;

#[derive(Debug)]
pub(super) struct Space {
    path: PathBuf,
    headroom_bytes: u64,
    /// When the file system last said that there is room, and what was written since.
    last: Mutex<Option<(Instant, u64)>>,
}

impl Space {
    pub(super) fn new(path: &Path, headroom_bytes: u64) -> Self {
        Self { path: path.to_owned(), headroom_bytes, last: Mutex::new(None) }
    }

    /// Before `bytes` are written: whether there is room for them.
    pub(super) fn check(&self, bytes: usize) -> Result<(), StoreError> {
        if self.headroom_bytes == 0 {
            return Ok(());
        }
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((asked, written)) = last.as_mut() {
            *written = written.saturating_add(bytes);
            if *written < self.headroom_bytes / HEADROOM_PARTS && asked.elapsed() < ANSWER_LIFE {
                return Ok(());
            }
        }
        *last = None;
        let free = free_bytes(&self.path)?;
        if free < self.headroom_bytes.saturating_add(bytes) {
            return Err(StoreError::Full);
        }
        *last = Some((Instant::now(), 0));
        Ok(())
    }

    /// Fails if the disk has no room for what a start writes, with the numbers.
    pub(super) fn check_start(&self) -> Result<(), OpenError> {
        let (path, wanted) = (self.path.clone(), self.headroom_bytes);
        match free_bytes(&self.path) {
            Ok(free) if free < wanted => Err(OpenError::Full { path, wanted, free }),
            _ => Ok(()),
        }
    }

    /// The same error, or the numbers that belong to it if the disk is full.
    pub(super) fn named(&self, error: OpenError) -> OpenError {
        match error {
            OpenError::Io(error) if error.kind() == io::ErrorKind::StorageFull => {
                let free = free_bytes(&self.path).unwrap_or_default();
                let wanted = self.headroom_bytes.max(NEW_STORE_BYTES);
                OpenError::Full { path: self.path.clone(), wanted, free }
            }
            other => other,
        }
    }
}

/// Bytes that a new store takes: a journal, and the first zeros in it.
const NEW_STORE_BYTES: u64 = 64 << 20;

fn free_bytes(path: &Path) -> Result<u64, StoreError> {
    let stat = rustix::fs::statvfs(path)
        .map_err(|error| StoreError::Unavailable(format!("the disk does not answer: {error}")))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
