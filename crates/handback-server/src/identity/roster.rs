//! The file of bearer tokens, read again when it changes.
//!
//! A file that cannot be read or understood does not take the place of the one before: nobody is
//! locked out, or let in, by half a file. Whoever wants to let nobody in leaves the first line alone.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use handback_identity::Roster;
use handback_identity::roster::{MAX_ROSTER_BYTES, RosterError};

use crate::files;

/// How often it is looked whether the file has changed.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Bits of the mode that let others read or write.
const OTHERS: u32 = 0o077;

/// Why the file of bearer tokens cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RosterFileError {
    /// It cannot be read.
    #[error("cannot read {path}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is not understood.
    #[error("{path} is not a file of identities")]
    Parse {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: RosterError,
    },
}

/// A file of bearer tokens.
pub(super) struct RosterFile {
    path: PathBuf,
    server_id: String,
    current: RwLock<Arc<Roster>>,
    /// What the file looked like when it was last read.
    seen: Mutex<Option<Stamp>>,
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl RosterFile {
    pub(super) fn open(path: &Path, server_id: &str) -> Result<Self, RosterFileError> {
        let (roster, stamp) = read_in_time(path, server_id)?;
        Ok(Self {
            path: path.to_owned(),
            server_id: server_id.to_owned(),
            current: RwLock::new(Arc::new(roster)),
            seen: Mutex::new(Some(stamp)),
        })
    }

    /// The tokens as they are now.
    pub(super) fn current(&self) -> Arc<Roster> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the file again, whether it looks changed or not.
    pub(super) fn reload(&self) {
        let path = self.path.clone();
        // From before it is read: a change in between makes another state, which is still to be read.
        let stamp = match files::in_time(move || Ok(stamp_of(&path))) {
            Ok(stamp) => stamp,
            Err(source) => return stays(&RosterFileError::Io { path: self.path.clone(), source }),
        };
        match read_in_time(&self.path, &self.server_id) {
            Ok((roster, stamp)) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(roster);
                self.note(Some(stamp));
            }
            Err(error) => {
                // It is told once for each state of the file.
                self.note(stamp);
                stays(&error);
            }
        }
    }

    /// Reads the file again whenever it has changed.
    pub(super) async fn watch(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let this = Arc::clone(self);
            files::apart(move || {
                if stamp_of(&this.path) != *this.lock_seen() {
                    this.reload();
                }
            })
            .await;
        }
    }

    fn note(&self, stamp: Option<Stamp>) {
        *self.lock_seen() = stamp;
    }

    fn lock_seen(&self) -> std::sync::MutexGuard<'_, Option<Stamp>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stays(error: &RosterFileError) {
    let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    tracing::warn!(%error, why, "the identities stay as they were");
}

fn read_in_time(path: &Path, server_id: &str) -> Result<(Roster, Stamp), RosterFileError> {
    let (file, id) = (path.to_owned(), server_id.to_owned());
    let failed = |source| RosterFileError::Io { path: path.to_owned(), source };
    files::in_turn(path, move || Ok(read(&file, &id))).unwrap_or_else(|source| Err(failed(source)))
}

fn read(path: &Path, server_id: &str) -> Result<(Roster, Stamp), RosterFileError> {
    let failed = |source| RosterFileError::Io { path: path.to_owned(), source };
    let file = fs::File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.mode() & OTHERS != 0 {
        tracing::warn!(path = %path.display(), "others can read the identities: chmod 600 it");
    }
    let text = files::bounded(file, MAX_ROSTER_BYTES).map_err(failed)?;
    let roster = Roster::parse(&text, server_id);
    let roster =
        roster.map_err(|source| RosterFileError::Parse { path: path.to_owned(), source })?;
    Ok((roster, Stamp::of(&metadata)))
}

fn stamp_of(path: &Path) -> Option<Stamp> {
    fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata))
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}
