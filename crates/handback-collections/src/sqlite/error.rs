//! Why a collection did not open, and what SQLite's errors mean.

use std::path::PathBuf;

use handback_page::CollectionError;
use rusqlite::ErrorCode;

/// Why a SQLite collection did not open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such file. Handback never creates one.
    #[error("no database file at '{}'", path.display())]
    NoFile {
        /// Where it should be.
        path: PathBuf,
    },
    /// The database has no such table or view.
    #[error("no table or view '{table}'")]
    NoTable {
        /// What was asked for.
        table: String,
        /// What there is.
        others: Vec<String>,
    },
    /// Nothing declared tells the rows apart.
    #[error("'{table}' has no key: no primary key or unique index without nulls")]
    NoKey {
        /// Which table.
        table: String,
        /// Whether it could be read by its rowid.
        has_rowid: bool,
    },
    /// The rowid was asked for as the key, and there is none, or its names are taken by columns.
    #[error("'{table}' has no rowid to read it by")]
    NoRowid {
        /// Which table.
        table: String,
    },
    /// A column of the given key does not exist, or the key is empty.
    #[error("no column '{column}' for the key")]
    NoKeyColumn {
        /// Which one.
        column: String,
    },
    /// A column of the key holds null.
    #[error("key column '{column}' holds null")]
    NullInKey {
        /// Which one.
        column: String,
    },
    /// Two rows have the same values in the columns of the given key.
    #[error("the key ({}) is not unique", columns.join(", "))]
    KeyNotUnique {
        /// Which columns.
        columns: Vec<String>,
    },
    /// The database did not answer.
    #[error(transparent)]
    Source(#[from] CollectionError),
}

impl OpenError {
    /// What an operator can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoTable { others, .. } if !others.is_empty() => {
                Some(format!("the database has: {}", others.join(", ")))
            }
            Self::NoKey { has_rowid: true, .. } => Some(
                "name unique columns with 'key', or choose 'order=rowid' to read by rowid"
                    .to_owned(),
            ),
            Self::NoKey { has_rowid: false, .. } | Self::NoRowid { .. } => {
                Some("name unique columns with 'key'".to_owned())
            }
            Self::NullInKey { .. } => Some(
                "name columns without nulls with 'key', or choose 'order=rowid' to read a table \
                 by rowid"
                    .to_owned(),
            ),
            Self::KeyNotUnique { .. } => Some("add columns until no two rows are alike".to_owned()),
            _ => None,
        }
    }

    /// What it means for a collection that had been open.
    pub(crate) fn into_collection_error(self) -> CollectionError {
        match self {
            Self::Source(error) => error,
            Self::NoFile { .. } => CollectionError::Gone("the database file is not there".into()),
            other => CollectionError::Gone(other.to_string()),
        }
    }
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Source(failure(&error))
    }
}

/// How deep SQLite takes expressions to be nested: its own default.
const EXPRESSION_DEPTH_MAX: u64 = 1000;

/// What an error of SQLite means for a caller. The texts name neither files nor statements.
pub(crate) fn failure(error: &rusqlite::Error) -> CollectionError {
    let (code, message) = match error {
        rusqlite::Error::SqliteFailure(error, message) => (error.code, message.as_deref()),
        rusqlite::Error::SqlInputError { error, msg, .. } => (error.code, Some(msg.as_str())),
        _ => (ErrorCode::Unknown, None),
    };
    let unavailable = |text: &str| CollectionError::Unavailable(text.to_owned());
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            unavailable("the database is locked by a writer")
        }
        ErrorCode::OperationInterrupted => unavailable("it did not answer in time"),
        ErrorCode::NotADatabase => CollectionError::Damaged("not a SQLite database".to_owned()),
        ErrorCode::DatabaseCorrupt => {
            CollectionError::Damaged("the database file is malformed".to_owned())
        }
        ErrorCode::CannotOpen => unavailable("the database file cannot be opened"),
        ErrorCode::PermissionDenied | ErrorCode::ReadOnly => {
            unavailable("the database file cannot be read with these permissions")
        }
        ErrorCode::TooBig => CollectionError::TooLarge {
            what: "a value",
            unit: "bytes",
            limit: u64::from(super::pool::VALUE_BYTES_MAX.unsigned_abs()),
        },
        ErrorCode::OutOfMemory => unavailable("out of memory"),
        ErrorCode::DiskFull => unavailable("no space for temporary files"),
        ErrorCode::SystemIoFailure => unavailable("the database file cannot be read"),
        _ => {
            let message = message.unwrap_or("SQLite gave no reason");
            if message.starts_with("no such table") || message.starts_with("no such column") {
                CollectionError::Gone("the table is not what it was".to_owned())
            } else if message.starts_with("Expression tree is too large") {
                let (what, unit) = ("statement", "levels of conditions");
                CollectionError::TooLarge { what, unit, limit: EXPRESSION_DEPTH_MAX }
            } else {
                // Not "damaged", which would make an index of a file be thrown away: SQLite says
                // that in other ways.
                CollectionError::Refused(message.to_owned())
            }
        }
    }
}
