//! What an operator chooses about an indexed file.

use crate::sqlite::SqliteOptions;

/// How long a line, or the record of a CSV file, may be: it is held in memory as a whole.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// How many members of JSON objects become columns. Others are in the items all the same.
pub const MAX_JSONL_COLUMNS: usize = 200;

/// How many columns a CSV file may have: half of what SQLite takes.
pub const MAX_CSV_COLUMNS: usize = 1000;

/// Settings of a [`JsonlCollection`](crate::files::JsonlCollection) or
/// [`CsvCollection`](crate::files::CsvCollection).
#[derive(Clone, Debug)]
#[must_use]
pub struct FileOptions {
    pub(super) key: Option<String>,
    pub(super) indexes: Vec<Vec<String>>,
    pub(super) delimiter: u8,
    pub(super) sqlite: SqliteOptions,
}

impl FileOptions {
    /// Items differ in this column, which all of them have. It is checked when the file is
    /// indexed.
    pub fn key(mut self, column: impl Into<String>) -> Self {
        self.key = Some(column.into());
        self
    }

    /// Also serves the order by these columns at every depth.
    pub fn index<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.indexes.push(columns.into_iter().map(Into::into).collect());
        self
    }

    /// What is between the cells of a CSV file, if it is not a comma.
    pub const fn delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = delimiter;
        self
    }

    /// How the index is read: time limits, connections, and whether it is required to serve an
    /// order. Its key is not used.
    pub fn reading(mut self, sqlite: SqliteOptions) -> Self {
        self.sqlite = sqlite;
        self
    }

    /// What of them the index depends on.
    pub(super) fn text(&self) -> String {
        format!("{:?} {:?} {}", self.key, self.indexes, self.delimiter)
    }
}

impl Default for FileOptions {
    fn default() -> Self {
        let sqlite = SqliteOptions::default();
        Self { key: None, indexes: Vec::new(), delimiter: b',', sqlite }
    }
}
