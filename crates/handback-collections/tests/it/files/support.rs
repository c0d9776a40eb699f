//! Files in a temporary folder, with a data directory beside them.

use std::path::PathBuf;

use handback_collections::files::{CsvCollection, FileOptions, JsonlCollection};
use handback_page::CollectionError;
use tempfile::TempDir;

pub(crate) struct TestFile {
    pub(crate) dir: TempDir,
}

impl TestFile {
    pub(crate) fn new(content: impl AsRef<[u8]>) -> Self {
        let file = Self { dir: TempDir::new().unwrap() };
        file.write(content);
        file
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The index files, and whatever else is beside them.
    pub(crate) fn indexes(&self) -> Vec<PathBuf> {
        let folder = std::fs::read_dir(self.data_dir().join("index")).unwrap();
        folder.map(|entry| entry.unwrap().path()).collect()
    }

    /// Replaces the file, so that its inode changes whatever the clock says.
    pub(crate) fn write(&self, content: impl AsRef<[u8]>) {
        let new = self.dir.path().join("new");
        std::fs::write(&new, content).unwrap();
        std::fs::rename(new, self.path()).unwrap();
    }

    pub(crate) fn try_jsonl(
        &self,
        options: FileOptions,
    ) -> Result<JsonlCollection, CollectionError> {
        JsonlCollection::open(self.path(), self.data_dir(), options, &mut |_, _| {})
    }

    pub(crate) fn jsonl(&self) -> JsonlCollection {
        self.try_jsonl(FileOptions::default()).unwrap()
    }

    pub(crate) fn try_csv(&self, options: FileOptions) -> Result<CsvCollection, CollectionError> {
        CsvCollection::open(self.path(), self.data_dir(), options, &mut |_, _| {})
    }

    pub(crate) fn csv(&self) -> CsvCollection {
        self.try_csv(FileOptions::default()).unwrap()
    }
}

/// What is wrong with a file.
#[track_caller]
pub(crate) fn damage<T: std::fmt::Debug>(result: Result<T, CollectionError>) -> String {
    match result.unwrap_err() {
        CollectionError::Damaged(text) => text,
        other => panic!("{other}"),
    }
}
