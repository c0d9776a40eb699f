//! Files that only their owner reads, written whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::StateError;

pub(super) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError::Io { what, path, source }
}

/// Makes a folder that only its owner enters, if it is not there.
pub(super) fn make_folder(path: &Path) -> Result<(), StateError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(failed("make", path))
}

/// Opens a file that only its owner reads.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Writes a file so that after a crash it is the old one or the new one.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<File, StateError> {
    let next = path.with_extension("new");
    let mut file = private(OpenOptions::new().read(true).write(true).create(true).truncate(true))
        .open(&next)
        .map_err(failed("make", &next))?;
    file.write_all(bytes).map_err(failed("write", &next))?;
    file.sync_all().map_err(failed("sync", &next))?;
    fs::rename(&next, path).map_err(failed("rename", &next))?;
    sync_folder_of(path)?;
    Ok(file)
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder_of(path: &Path) -> Result<(), StateError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("sync", folder))
}

/// All of a file, if it is there.
pub(super) fn read(path: &Path, bytes_max: usize) -> Result<Option<Vec<u8>>, StateError> {
    let file = match File::open(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed("open", path))?,
    };
    let mut bytes = Vec::new();
    let limit = bytes_max as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(failed("read", path))?;
    if bytes.len() > bytes_max {
        return Err(StateError::Damaged { path: path.to_owned(), what: "too large" });
    }
    Ok(Some(bytes))
}

/// Removes a file or a folder; that it is gone already is fine.
pub(super) fn remove(path: &Path) -> Result<(), StateError> {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    match removed {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(failed("remove", path)),
    }
}

/// Removes the files of a folder that were written before a time, in milliseconds since 1970; looks
/// at so many at most.
pub(super) fn remove_older(folder: &Path, before_ms: u64, max: usize) -> Result<(), StateError> {
    let entries = fs::read_dir(folder).map_err(failed("read", folder))?;
    for entry in entries.take(max).flatten() {
        let written = entry.metadata().map(|metadata| metadata.mtime());
        if written.is_ok_and(|written| written.saturating_mul(1000).cast_unsigned() < before_ms) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}
