use std::io;
use std::path::PathBuf;

/// Why what is kept on the disk cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The disk or the file system.
    #[error("failed to {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What came of it.
        source: io::Error,
    },
    /// A file is not what was written: damaged, edited, cut or of another folder.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Another process, or another part of this one, drives this duplex.
    #[error("{} is in use by another process", path.display())]
    Owned {
        /// The folder.
        path: PathBuf,
    },
    /// Others can read a file that must be private.
    #[error("others can read {}", path.display())]
    NotPrivate {
        /// Which file.
        path: PathBuf,
    },
    /// A write failed before: what is on the disk is not known any more.
    #[error("an earlier write failed; open it again")]
    Broken,
}
