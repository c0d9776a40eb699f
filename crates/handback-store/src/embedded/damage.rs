//! Damage: a file of the store that is missing, cut or changed.

use std::fmt;
use std::path::{Path, PathBuf};

/// A file of the store that is not as it was left.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The directory of the store.
    pub store: PathBuf,
    /// The file, relative to that directory.
    pub file: PathBuf,
    /// Sentence about the file, without its name.
    pub what: String,
    /// Length in bytes that the file should have, if that is known.
    pub expected_bytes: Option<u64>,
    /// Length in bytes that the file has, if that is what is wrong.
    pub found_bytes: Option<u64>,
    /// True if the store can go on without what is lost.
    pub is_acceptable: bool,
}

impl Damage {
    /// Damage of a file below `store`.
    pub(super) fn new(store: &Path, file: &Path, what: impl Into<String>) -> Self {
        let file = file.strip_prefix(store).unwrap_or(file).to_owned();
        Self {
            store: store.to_owned(),
            file,
            what: what.into(),
            expected_bytes: None,
            found_bytes: None,
            is_acceptable: false,
        }
    }

    /// A file that is not there.
    pub(super) fn missing(store: &Path, file: &Path) -> Self {
        Self::new(store, file, "is missing")
    }

    /// A file that is too short.
    pub(super) fn cut(store: &Path, file: &Path, expected: u64, found: u64) -> Self {
        let what = format!("was cut: it had {expected} bytes or more, and has {found}");
        let cut = Self::new(store, file, what);
        Self { expected_bytes: Some(expected), found_bytes: Some(found), ..cut }
    }

    /// The same, of a file that the store can go on without.
    pub(super) fn acceptable(self) -> Self {
        Self { is_acceptable: true, ..self }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.store.join(&self.file).display(), self.what)
    }
}

/// Paths within the directory of a store.
#[derive(Clone, Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(store: &Path) -> Self {
        Self(store.to_owned())
    }

    pub(super) fn store(&self) -> &Path {
        &self.0
    }

    /// The database.
    pub(super) fn database(&self) -> PathBuf {
        self.0.join("fjall")
    }

    /// A journal of the database.
    pub(super) fn journal(&self, id: u64) -> PathBuf {
        self.database().join(format!("{id}.jnl"))
    }

    /// Second names of the journals.
    pub(super) fn links(&self) -> PathBuf {
        self.0.join("journals")
    }

    /// The second name of a journal.
    pub(super) fn link(&self, id: u64) -> PathBuf {
        self.links().join(format!("{id}.jnl"))
    }

    /// The proof of what was acknowledged.
    pub(super) fn watermark(&self) -> PathBuf {
        self.0.join("watermark")
    }

    /// The version of the directory.
    pub(super) fn format(&self) -> PathBuf {
        self.0.join("format")
    }
}
