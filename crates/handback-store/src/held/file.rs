//! Values in files: chunk after chunk, each of them readable by itself.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use super::CHUNK_BYTES;
use super::error::HeldError;
use super::row::{Name, Place};
use crate::encrypted::key::{CHUNK_OVERHEAD_BYTES, Keys, Kind};

/// How a file is called before it is whole.
pub(super) const UNFINISHED: &str = ".part";

/// Bytes of a checksum.
const SUM_BYTES: usize = 8;

/// A file that is being written.
pub(super) struct FileWriter {
    file: File,
    path: PathBuf,
    folder: PathBuf,
    name: String,
}

impl FileWriter {
    pub(super) fn create(folder: &Path, name: &Name) -> io::Result<Self> {
        let name = name.file();
        let path = folder.join(format!("{name}{UNFINISHED}"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path, folder: folder.to_owned(), name })
    }

    /// Adds the chunk with this number. All but the last are full.
    pub(super) fn push(
        &mut self,
        keys: Option<&Keys>,
        number: u64,
        chunk: &[u8],
    ) -> Result<(), HeldError> {
        let identity = identity(&self.name, number);
        match keys {
            Some(keys) => {
                self.file.write_all(&keys.seal(Kind::Chunk, &identity, &[], chunk)?)?;
            }
            None => {
                self.file.write_all(chunk)?;
                self.file.write_all(&sum(&identity, chunk))?;
            }
        }
        Ok(())
    }

    /// Makes it durable, and gives it its name.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        let path = self.folder.join(&self.name);
        fs::rename(&self.path, &path)?;
        self.path = path;
        File::open(&self.folder)?.sync_all()
    }
}

/// A file that is whole. It stays readable when its name is gone.
pub(super) struct FileReader {
    file: File,
    name: String,
    is_sealed: bool,
}

impl FileReader {
    pub(super) fn open(folder: &Path, name: &Name, place: Place) -> io::Result<Self> {
        let name = name.file();
        let file = File::open(folder.join(&name))?;
        Ok(Self { file, name, is_sealed: place == Place::SealedFile })
    }

    /// The chunk with this number, of a value of so many bytes.
    pub(super) fn chunk(
        &self,
        keys: Option<&Keys>,
        number: u64,
        size: u64,
    ) -> Result<Bytes, HeldError> {
        let overhead = if self.is_sealed { CHUNK_OVERHEAD_BYTES } else { SUM_BYTES };
        let before = number.checked_mul(CHUNK_BYTES as u64).ok_or(HeldError::Damaged)?;
        let left = size.checked_sub(before).ok_or(HeldError::Damaged)?;
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let mut stored = vec![0; length + overhead];
        let at = number.saturating_mul((CHUNK_BYTES + overhead) as u64);
        self.file.read_exact_at(&mut stored, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => HeldError::Damaged,
            _ => error.into(),
        })?;
        let identity = identity(&self.name, number);
        if self.is_sealed {
            let keys = keys.ok_or(HeldError::Damaged)?;
            let chunk = keys.open(Kind::Chunk, &identity, &stored);
            return chunk.map_err(|_| HeldError::Damaged);
        }
        let stored = Bytes::from(stored);
        let (chunk, found) = (stored.slice(..length), stored.slice(length..));
        if sum(&identity, &chunk) != *found {
            return Err(HeldError::Damaged);
        }
        Ok(chunk)
    }
}

/// Removes a file, whole or not. One that is not there is removed already.
pub(super) fn remove(folder: &Path, name: &Name) -> io::Result<()> {
    let name = name.file();
    for path in [folder.join(&name), folder.join(format!("{name}{UNFINISHED}"))] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// What a chunk belongs to: the name of the file, and the number.
fn identity(name: &str, number: u64) -> Vec<u8> {
    [name.as_bytes(), &number.to_be_bytes()].concat()
}

fn sum(identity: &[u8], chunk: &[u8]) -> [u8; SUM_BYTES] {
    let mut hash = Xxh3::new();
    hash.update(identity);
    hash.update(chunk);
    hash.digest().to_be_bytes()
}
