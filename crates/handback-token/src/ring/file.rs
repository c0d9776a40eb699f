//! The key file: the one place of this crate that touches the file system.
//!
//! A key file is readable by its owner only (mode 0600), is replaced in one step, and is changed
//! under a lock, so that two rotations at once do not lose a key. Beside it, a folder `wrapped`
//! holds what is wrapped under the ring (one text per file, named `*.key`), so that a slot that is
//! still needed is never dropped.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{KeyRing, MAX_KEY_FILE_BYTES, ParseRingError, RingError, UnwrapError, WrappedKey};

/// A file that holds a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// The file at `path`, which need not exist yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a new file. An existing one is never overwritten: it may be the only copy of its keys.
    ///
    /// # Errors
    ///
    /// [`KeyFileError::Exists`], or [`KeyFileError::Io`].
    pub fn create(&self, ring: &KeyRing) -> Result<(), KeyFileError> {
        let temporary = self.write_temporary(ring)?;
        temporary.persist_noclobber(&self.path).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => KeyFileError::Exists { path: self.path.clone() },
            _ => self.io(error.error),
        })?;
        self.sync_folder()
    }

    /// Makes the folder that the file is to be in, for its owner only, if it is not there.
    ///
    /// # Errors
    ///
    /// [`KeyFileError::Io`].
    pub fn create_folder(&self) -> Result<(), KeyFileError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(self.folder()).map_err(|error| self.io(error))
    }

    /// Reads the ring.
    ///
    /// # Errors
    ///
    /// [`KeyFileError`] if the file cannot be read, is readable by others than its owner, or does not
    /// hold a ring.
    pub fn load(&self) -> Result<KeyRing, KeyFileError> {
        let file = File::open(&self.path).map_err(|error| self.io(error))?;
        self.check_permissions(&file)?;
        let text = read_bounded(file, MAX_KEY_FILE_BYTES).map_err(|error| self.io(error))?;
        KeyRing::parse(&text)
            .map_err(|source| KeyFileError::Parse { path: self.path.clone(), source })
    }

    /// Changes the ring under the file's lock and writes it back; if `change` refuses, the file stays
    /// as it is.
    ///
    /// # Errors
    ///
    /// [`KeyFileError`], also for what `change` refuses.
    pub fn update<T>(
        &self,
        change: impl FnOnce(&mut KeyRing, &[WrappedKey]) -> Result<T, RingError>,
    ) -> Result<(T, KeyRing), KeyFileError> {
        let file = Self::new(fs::canonicalize(&self.path).map_err(|error| self.io(error))?);
        let _locked = file.lock()?;
        let mut ring = file.load()?;
        let done = change(&mut ring, &file.wrapped()?)
            .map_err(|source| KeyFileError::Ring { path: self.path.clone(), source })?;
        let temporary = file.write_temporary(&ring)?;
        temporary.persist(&file.path).map_err(|error| self.io(error.error))?;
        file.sync_folder()?;
        Ok((done, ring))
    }

    /// Everything that is wrapped under the ring: the texts in the folder `wrapped` beside the file.
    ///
    /// # Errors
    ///
    /// [`KeyFileError::Wrapped`] if one of them cannot be read: it may be wrapped under any slot.
    pub fn wrapped(&self) -> Result<Vec<WrappedKey>, KeyFileError> {
        let folder = self.folder().join("wrapped");
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|source| KeyFileError::Io { path: folder, source })?,
        };
        let mut wrapped = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| self.io(error))?.path();
            if path.extension() == Some(OsStr::new("key")) {
                wrapped.push(read_wrapped(path)?);
            }
        }
        Ok(wrapped)
    }

    /// A temporary file of mode 0600 in the same folder, synced.
    fn write_temporary(&self, ring: &KeyRing) -> Result<tempfile::NamedTempFile, KeyFileError> {
        let mut temporary = tempfile::Builder::new()
            .prefix(".keys-")
            .tempfile_in(self.folder())
            .map_err(|error| self.io(error))?;
        temporary
            .write_all(ring.dangerous_to_text().as_bytes())
            .and_then(|()| temporary.write_all(b"\n"))
            .and_then(|()| temporary.as_file().sync_all())
            .map_err(|error| self.io(error))?;
        Ok(temporary)
    }

    fn lock(&self) -> Result<File, KeyFileError> {
        let mut name = self.path.clone().into_os_string();
        name.push(".lock");
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        // Nobody else may open it, and so nobody else can hold the lock.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let lock = options.open(name).map_err(|error| self.io(error))?;
        lock.lock().map_err(|error| self.io(error))?;
        Ok(lock)
    }

    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    fn sync_folder(&self) -> Result<(), KeyFileError> {
        File::open(self.folder()).and_then(|folder| folder.sync_all()).map_err(|e| self.io(e))
    }

    #[cfg(unix)]
    fn check_permissions(&self, file: &File) -> Result<(), KeyFileError> {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = file.metadata().map_err(|error| self.io(error))?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyFileError::TooOpen { path: self.path.clone(), mode });
        }
        Ok(())
    }

    #[cfg(not(unix))]
    fn check_permissions(&self, _file: &File) -> Result<(), KeyFileError> {
        Ok(())
    }

    fn io(&self, source: io::Error) -> KeyFileError {
        KeyFileError::Io { path: self.path.clone(), source }
    }
}

/// A wrapped key has 71 characters and perhaps a line end.
const MAX_WRAPPED_FILE_BYTES: usize = 256;

fn read_wrapped(path: PathBuf) -> Result<WrappedKey, KeyFileError> {
    let text = match File::open(&path).and_then(|file| read_bounded(file, MAX_WRAPPED_FILE_BYTES)) {
        Ok(text) => text,
        Err(source) => return Err(KeyFileError::Io { path, source }),
    };
    WrappedKey::parse(text.trim_end()).map_err(|source| KeyFileError::Wrapped { path, source })
}

/// Reads at most one byte more than `max`, which is enough for a parser to see that it is too much.
fn read_bounded(file: File, max: usize) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::with_capacity(max + 1));
    file.take(max as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// There is one already.
    #[error("{} exists already and is not overwritten", path.display())]
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// Others than the owner may read or write it.
    #[error("{} has mode {mode:04o}, but keys are for their owner only (0600)", path.display())]
    TooOpen {
        /// Where.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It does not hold a ring.
    #[error("{} does not hold a key ring", path.display())]
    Parse {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        source: ParseRingError,
    },
    /// The ring does not allow the change.
    #[error("the key ring in {} was not changed", path.display())]
    Ring {
        /// Where.
        path: PathBuf,
        /// Why.
        source: RingError,
    },
    /// Something beside it that should be a wrapped key is not one.
    #[error("{} does not hold a wrapped key", path.display())]
    Wrapped {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        source: UnwrapError,
    },
    /// It cannot be read or written.
    #[error("cannot read or write {}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{DataKey, Mode, Retire, SlotNumber};
    use crate::time::UnixTime;

    const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

    fn file() -> (tempfile::TempDir, KeyFile, KeyRing) {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::new(folder.path().join("keys.json"));
        let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, NOW);
        file.create(&ring).unwrap();
        (folder, file, ring)
    }

    #[test]
    fn a_restart_keeps_the_ring() {
        let (_folder, file, ring) = file();
        assert_eq!(file.load().unwrap().dangerous_to_text(), ring.dangerous_to_text());
    }

    #[test]
    fn an_existing_file_is_never_overwritten() {
        let (_folder, file, ring) = file();
        let other = KeyRing::generate(&mut rand::rng(), Mode::Sealed, NOW);
        assert!(matches!(file.create(&other), Err(KeyFileError::Exists { .. })));
        assert_eq!(file.load().unwrap().fingerprint(), ring.fingerprint());
    }

    #[cfg(unix)]
    #[test]
    fn is_written_for_its_owner_only_and_refused_otherwise() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_folder, file, _ring) = file();
        let mode = |file: &KeyFile| fs::metadata(file.path()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file), 0o600);
        file.update(|ring, _| ring.rotate(&mut rand::rng(), Mode::Sealed, NOW)).unwrap();
        assert_eq!(mode(&file), 0o600);
        let lock = KeyFile::new(file.path().with_extension("json.lock"));
        assert_eq!(mode(&lock), 0o600);
        for open in [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o666] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(open)).unwrap();
            let error = file.load().unwrap_err();
            assert!(matches!(error, KeyFileError::TooOpen { mode, .. } if mode == open));
        }
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o400)).unwrap();
        file.load().unwrap();
    }

    #[test]
    fn a_refused_change_leaves_the_file_alone() {
        let (_folder, file, ring) = file();
        let refused = file.update(|ring, _| ring.promote(SlotNumber::FIRST, NOW));
        assert!(matches!(refused, Err(KeyFileError::Ring { .. })));
        assert_eq!(file.load().unwrap().fingerprint(), ring.fingerprint());
    }

    #[test]
    fn changes_at_the_same_time_are_all_kept() {
        let (_folder, file, _ring) = file();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    file.update(|ring, _| ring.add(&mut rand::rng(), Mode::Sealed, NOW)).unwrap()
                });
            }
        });
        let ring = file.load().unwrap();
        assert_eq!((ring.slots().count(), ring.generation()), (9, 9));
    }

    #[test]
    fn a_slot_that_wraps_a_stored_key_is_kept() {
        let (folder, file, ring) = file();
        let rng = &mut rand::rng();
        let wrapped = ring.wrap(&mut rand::rng(), "store", &DataKey::generate(rng)).unwrap();
        fs::create_dir(folder.path().join("wrapped")).unwrap();
        let stored = folder.path().join("wrapped/store.key");
        fs::write(&stored, wrapped.to_text() + "\n").unwrap();
        file.update(|ring, _| ring.rotate(&mut rand::rng(), Mode::Sealed, NOW)).unwrap();
        file.update(|ring, _| ring.retire(SlotNumber::FIRST, Retire::Immediately, NOW)).unwrap();
        let drop = || file.update(|ring, wrapped| ring.drop_slot(SlotNumber::FIRST, wrapped));
        let error = drop().unwrap_err();
        assert!(
            matches!(error, KeyFileError::Ring { source: RingError::Wraps(_), .. }),
            "{error:?}"
        );
        fs::write(&stored, "damaged").unwrap();
        assert!(matches!(drop(), Err(KeyFileError::Wrapped { .. })));
        fs::remove_file(&stored).unwrap();
        drop().unwrap();
    }

    #[test]
    fn an_endless_file_is_read_to_its_bound_only() {
        let (folder, _file, _ring) = file();
        let long = folder.path().join("long");
        fs::write(&long, " ".repeat(10 << 20)).unwrap();
        let text = read_bounded(File::open(&long).unwrap(), MAX_KEY_FILE_BYTES).unwrap();
        assert_eq!(text.len(), MAX_KEY_FILE_BYTES + 1);
    }
}
