//! Indexed files as collections.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handback_page::{About, Collection, CollectionError, Fetch, Fetched, Query, Schema, Sink};
use sha2::{Digest as _, Sha256};

use super::build::{self, Format, Indexed};
use super::options::FileOptions;
use crate::files::source::{FileSource, Stamp, unreadable};
use crate::sqlite::{Db, FileId, OpenError, Pool, Source};

/// Is told, from time to time, how many bytes of how many are indexed.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// How often a file that changes while it is read is tried again.
const TRIES: usize = 3;

/// The lines of a JSONL file: one JSON value each.
#[derive(Debug)]
pub struct JsonlCollection(IndexedFile);

impl JsonlCollection {
    /// Opens a file, and indexes it under `data_dir` unless that was done before.
    ///
    /// # Errors
    ///
    /// [`CollectionError`] if it cannot be read, or a line is not JSON.
    pub fn open(
        path: impl AsRef<Path>,
        data_dir: impl AsRef<Path>,
        options: FileOptions,
        progress: Progress<'_>,
    ) -> Result<Self, CollectionError> {
        let (path, data_dir) = (path.as_ref(), data_dir.as_ref());
        IndexedFile::open(path, data_dir, Format::Jsonl, options, progress).map(Self)
    }
}

/// The rows of a CSV file.
#[derive(Debug)]
pub struct CsvCollection(IndexedFile);

impl CsvCollection {
    /// Opens a file, and indexes it under `data_dir` unless that was done before.
    ///
    /// # Errors
    ///
    /// [`CollectionError`] if it cannot be read, or a row has more or fewer cells than the first
    /// line.
    pub fn open(
        path: impl AsRef<Path>,
        data_dir: impl AsRef<Path>,
        options: FileOptions,
        progress: Progress<'_>,
    ) -> Result<Self, CollectionError> {
        let (path, data_dir) = (path.as_ref(), data_dir.as_ref());
        IndexedFile::open(path, data_dir, Format::Csv, options, progress).map(Self)
    }
}

#[derive(Debug)]
struct IndexedFile {
    path: PathBuf,
    format: Format,
    options: FileOptions,
    index: PathBuf,
    pool: Pool,
    /// What the index said when it was read last.
    seen: Mutex<Option<(FileId, Indexed)>>,
    building: Mutex<()>,
}

impl IndexedFile {
    fn open(
        path: &Path,
        data_dir: &Path,
        format: Format,
        options: FileOptions,
        progress: Progress<'_>,
    ) -> Result<Self, CollectionError> {
        let path = path.canonicalize().map_err(|error| unreadable(&error))?;
        let folder = data_dir.join("index");
        let index = folder.join(file_name(&path, format, &options));
        make_folder(&folder).and_then(|()| touch(&index)).map_err(|error| not_written(&error))?;
        let pool = Pool::new(&index, &options.sqlite).map_err(OpenError::into_collection_error)?;
        let (seen, building) = (Mutex::new(None), Mutex::new(()));
        let opened = Self { path, format, options, index, pool, seen, building };
        if opened.ask(&mut |_, _| Ok(()))?.is_none() {
            opened.build(progress)?;
        }
        Ok(opened)
    }

    /// Asks the index of the file as it is now, which is made if it is not there.
    fn read<R>(
        &self,
        read: &mut dyn FnMut(&Db, &Indexed) -> Result<R, CollectionError>,
    ) -> Result<R, CollectionError> {
        for _ in 0..TRIES {
            if let Some(answer) = self.ask(read)? {
                return Ok(answer);
            }
            self.build(&mut |_, _| {})?;
        }
        Err(CollectionError::Unavailable("the file changes too often".to_owned()))
    }

    /// Asks the index; nothing if it is not of the file as it is now.
    fn ask<R>(
        &self,
        read: &mut dyn FnMut(&Db, &Indexed) -> Result<R, CollectionError>,
    ) -> Result<Option<R>, CollectionError> {
        let stamp = Stamp::of(&self.path)?;
        if !self.index.exists() {
            return Ok(None);
        }
        let mut is_read = false;
        let time_limit = self.options.sqlite.time_limit;
        let answer = self.pool.read(time_limit, |db| match self.indexed(db, &stamp) {
            Some(indexed) => {
                is_read = true;
                read(db, &indexed).map(Some)
            }
            None => Ok(None),
        });
        match answer {
            Err(CollectionError::Damaged(text)) => {
                // Whatever it is, a new index is made; by the next one, if rows went out already.
                *self.seen() = None;
                let _ = std::fs::remove_file(&self.index);
                if is_read { Err(CollectionError::Damaged(text)) } else { Ok(None) }
            }
            answer => answer,
        }
    }

    /// The index that `db` reads, if it is of this state of the file. One that cannot be read is
    /// none.
    fn indexed(&self, db: &Db, stamp: &Stamp) -> Option<Indexed> {
        let mut seen = self.seen();
        let known = seen.as_ref().filter(|(file, _)| *file == db.file());
        let indexed = match known {
            Some((_, indexed)) => indexed.clone(),
            None => {
                let read = build::read(db.connection(), self.format, &self.options);
                let indexed = read.ok().flatten()?;
                *seen = Some((db.file(), indexed.clone()));
                indexed
            }
        };
        (indexed.stamp == stamp.text()).then_some(indexed)
    }

    /// Makes the index. Whoever comes while it is made waits for it.
    fn build(&self, progress: Progress<'_>) -> Result<(), CollectionError> {
        let _building = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        if self.ask(&mut |_, _| Ok(()))?.is_some() {
            return Ok(());
        }
        for _ in 0..2 {
            if self.build_once(progress)? {
                return Ok(());
            }
        }
        Err(CollectionError::Unavailable("the file changes while it is indexed".to_owned()))
    }

    /// Makes the index; not, if the file changed in between.
    fn build_once(&self, progress: Progress<'_>) -> Result<bool, CollectionError> {
        let opened = FileSource::open(&self.path)?;
        let stamp = opened.stamp();
        let is_same = || Stamp::of(&self.path).is_ok_and(|now| now == stamp);
        let folder = self.index.parent().unwrap_or_else(|| Path::new("."));
        let temporary = make_folder(folder)
            .and_then(|()| tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(folder))
            .map_err(|error| not_written(&error))?;
        remove_leftovers(folder, temporary.as_file());
        let (format, options) = (self.format, &self.options);
        let written =
            build::write(opened.file(), &stamp, format, options, temporary.path(), progress);
        if !is_same() {
            return Ok(false);
        }
        written?;
        temporary.persist(&self.index).map_err(|error| not_written(&error.error))?;
        Ok(true)
    }

    fn seen(&self) -> MutexGuard<'_, Option<(FileId, Indexed)>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether everything matches, which was counted already.
fn is_all(query: &Query) -> bool {
    query.filter.is_everything() && query.search.is_empty()
}

/// How the names of indexes start that are being made.
const TEMPORARY: &str = ".index-";

/// An index that has not been written to for so long is being made by nobody.
const LEFT_OVER_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Removes what processes left behind that were killed while they made an index. The clock is that
/// of the file system: `new` was made just now.
fn remove_leftovers(folder: &Path, new: &File) {
    let written = |metadata: std::fs::Metadata| metadata.modified();
    let Ok(now) = new.metadata().and_then(written) else { return };
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_temporary = entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes());
        let age =
            entry.metadata().and_then(written).ok().and_then(|at| now.duration_since(at).ok());
        if is_temporary && age.is_some_and(|age| age > LEFT_OVER_AFTER) {
            // Another process may have been faster.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl Collection for IndexedFile {
    fn schema(&self) -> Result<Arc<Schema>, CollectionError> {
        self.read(&mut |_, indexed| Ok(Arc::clone(&indexed.source.schema)))
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Result<Fetched, CollectionError> {
        let all = fetch.total && is_all(fetch.query);
        let fetch = Fetch { total: fetch.total && !all, ..fetch.clone() };
        self.read(&mut |db, indexed| {
            let mut fetched = indexed.source.fetch(db.connection(), &fetch)?;
            if all {
                fetched.total = Some(indexed.items);
            }
            Ok(fetched)
        })
    }

    fn count(&self, query: &Query) -> Result<u64, CollectionError> {
        self.read(&mut |db, indexed| {
            if is_all(query) {
                Ok(indexed.items)
            } else {
                indexed.source.count(db.connection(), query)
            }
        })
    }

    fn scan(&self, query: &Query, sink: Sink<'_>) -> Result<(), CollectionError> {
        let time_limit = self.options.sqlite.time_limit;
        self.read(&mut |db, indexed| indexed.source.scan(db, query, time_limit, sink))
    }

    fn about(&self) -> Result<About, CollectionError> {
        let bytes = Stamp::of(&self.path)?.len();
        self.read(&mut |_, indexed| {
            let source: &Source = &indexed.source;
            Ok(About {
                source: format!("{} file", self.format.name()),
                items: Some(indexed.items),
                bytes: Some(bytes),
                indexes: source.table.indexes.iter().map(ToString::to_string).collect(),
            })
        })
    }
}

delegate!(JsonlCollection);
delegate!(CsvCollection);

/// Named after the file and what else decides what is in the index.
fn file_name(path: &Path, format: Format, options: &FileOptions) -> String {
    let mut hash = Sha256::new();
    for part in [path.as_os_str().as_encoded_bytes(), format.name().as_bytes()] {
        hash.update(part);
        hash.update([0]);
    }
    hash.update(options.text().as_bytes());
    let hex: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}.sqlite")
}

fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// An empty file, for its owner only, if there is none.
fn touch(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn not_written(error: &std::io::Error) -> CollectionError {
    CollectionError::Unavailable(format!("the index cannot be written: {}", error.kind()))
}
