//! The key file: the one place of this crate that touches the file system.
//!
//! A key file is readable by its owner only (mode 0600), is replaced in one step, and is changed
//! under a lock, so that two rotations at once do not lose a key. Beside it, a folder `wrapped`
//! holds what is wrapped under the ring (one text per file, named `*.key`), so that a slot that is
//! still needed is never dropped.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
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
        let file = self.open()?;
        self.check_permissions(&file)?;
        let text = read_bounded(file, MAX_KEY_FILE_BYTES).map_err(|error| self.io(error))?;
        KeyRing::parse(&text)
            .map_err(|source| KeyFileError::Parse { path: self.path.clone(), source })
    }

    /// Changes the ring under a lock and writes it back; if `change` refuses, the file stays as it
    /// is. The new file belongs to whom the old one belonged to.
    ///
    /// # Errors
    ///
    /// [`KeyFileError`], also for what `change` refuses.
    pub fn update<T>(
        &self,
        change: impl FnOnce(&mut KeyRing) -> Result<T, RingError>,
    ) -> Result<(T, KeyRing), KeyFileError> {
        self.update_with(|_| Ok(Vec::new()), |ring, _| change(ring))
    }

    /// As [`update`](Self::update), for a change that may drop a slot: it is told what is
    /// [wrapped](Self::wrapped) under the ring.
    ///
    /// # Errors
    ///
    /// As there, and if something that is wrapped cannot be read.
    pub fn update_knowing_wrapped<T>(
        &self,
        change: impl FnOnce(&mut KeyRing, &[WrappedKey]) -> Result<T, RingError>,
    ) -> Result<(T, KeyRing), KeyFileError> {
        self.update_with(Self::wrapped, change)
    }

    fn update_with<T>(
        &self,
        wrapped: impl FnOnce(&Self) -> Result<Vec<WrappedKey>, KeyFileError>,
        change: impl FnOnce(&mut KeyRing, &[WrappedKey]) -> Result<T, RingError>,
    ) -> Result<(T, KeyRing), KeyFileError> {
        let file = Self::new(fs::canonicalize(&self.path).map_err(|error| self.io(error))?);
        let locked = file.lock()?;
        file.remove_leftovers()?;
        let mut ring = file.load()?;
        let done = change(&mut ring, &wrapped(&file)?)
            .map_err(|source| KeyFileError::Ring { path: self.path.clone(), source })?;
        let temporary = file.write_temporary(&ring)?;
        file.keep_owner(&locked.0, temporary.as_file())?;
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
            .prefix(&self.temporary_prefix())
            .tempfile_in(self.folder())
            .map_err(|error| self.io(error))?;
        temporary
            .write_all(ring.dangerous_to_text().as_bytes())
            .and_then(|()| temporary.write_all(b"\n"))
            .and_then(|()| temporary.as_file().sync_all())
            .map_err(|error| self.io(error))?;
        Ok(temporary)
    }

    fn temporary_prefix(&self) -> OsString {
        let mut prefix = OsString::from(".");
        prefix.push(self.path.file_name().unwrap_or_default());
        prefix.push("-");
        prefix
    }

    /// Removes what a process that died in the middle of an update left behind: it holds keys.
    fn remove_leftovers(&self) -> Result<(), KeyFileError> {
        let prefix = self.temporary_prefix();
        for entry in fs::read_dir(self.folder()).map_err(|error| self.io(error))? {
            let entry = entry.map_err(|error| self.io(error))?;
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(prefix.as_encoded_bytes()) {
                fs::remove_file(entry.path()).map_err(|error| self.io(error))?;
            }
        }
        Ok(())
    }

    /// Locks the file itself, which only its owner can open, so that only its owner can hold the
    /// lock. An update replaces the file: whoever waited for the old one looks again.
    fn lock(&self) -> Result<Locked, KeyFileError> {
        loop {
            let file = self.open()?;
            file.lock().map_err(|error| self.io(error))?;
            let locked = Locked(file);
            if self.is_still(&locked.0)? {
                return Ok(locked);
            }
        }
    }

    /// Makes an empty file here and locks it until it is closed; `None` if another process has it.
    pub(super) fn try_to_be_alone(&self) -> Result<Option<Locked>, KeyFileError> {
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&self.path).map_err(|error| self.io(error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Locked(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(self.io(error)),
        }
    }

    /// Opens the file, if it is one: a pipe would block.
    fn open(&self) -> Result<File, KeyFileError> {
        if !fs::metadata(&self.path).map_err(|error| self.io(error))?.is_file() {
            return Err(KeyFileError::NotAFile { path: self.path.clone() });
        }
        File::open(&self.path).map_err(|error| self.io(error))
    }

    #[cfg(unix)]
    fn is_still(&self, file: &File) -> Result<bool, KeyFileError> {
        use std::os::unix::fs::MetadataExt as _;
        let (opened, there) = file
            .metadata()
            .and_then(|opened| Ok((opened, fs::metadata(&self.path)?)))
            .map_err(|error| self.io(error))?;
        Ok((opened.dev(), opened.ino()) == (there.dev(), there.ino()))
    }

    #[cfg(not(unix))]
    fn is_still(&self, _file: &File) -> Result<bool, KeyFileError> {
        Ok(true)
    }

    /// An operator who is root must not take the file away from its service.
    #[cfg(unix)]
    fn keep_owner(&self, old: &File, new: &File) -> Result<(), KeyFileError> {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        let (old, made) = old
            .metadata()
            .and_then(|old| Ok((old, new.metadata()?)))
            .map_err(|error| self.io(error))?;
        if (old.uid(), old.gid()) == (made.uid(), made.gid()) {
            return Ok(());
        }
        fchown(new, Some(old.uid()), Some(old.gid())).map_err(|error| self.io(error))
    }

    #[cfg(not(unix))]
    fn keep_owner(&self, _old: &File, _new: &File) -> Result<(), KeyFileError> {
        Ok(())
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

/// A file that is locked until this is dropped. It is unlocked explicitly: a child process that is
/// just being started has a copy of every open file for a moment, and closing ours would not do.
#[derive(Debug)]
pub(super) struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // If it fails, closing the file unlocks it a moment later.
        let _ = self.0.unlock();
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
    /// It is a folder, a pipe or something else.
    #[error("{} is not a file", path.display())]
    NotAFile {
        /// Where.
        path: PathBuf,
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
        file.update(|ring| ring.rotate(&mut rand::rng(), Mode::Sealed, NOW)).unwrap();
        assert_eq!(mode(&file), 0o600);
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
        let refused = file.update(|ring| ring.promote(SlotNumber::FIRST, NOW));
        assert!(matches!(refused, Err(KeyFileError::Ring { .. })));
        assert_eq!(file.load().unwrap().fingerprint(), ring.fingerprint());
    }

    #[test]
    fn changes_at_the_same_time_are_all_kept() {
        let (_folder, file, _ring) = file();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    file.update(|ring| ring.add(&mut rand::rng(), Mode::Sealed, NOW)).unwrap()
                });
            }
        });
        let ring = file.load().unwrap();
        assert_eq!((ring.slots().count(), ring.generation()), (9, 9));
    }

    #[test]
    fn a_lock_on_a_file_that_was_replaced_is_not_taken_for_one_on_its_successor() {
        let (_folder, file, _ring) = file();
        let opened = file.open().unwrap();
        assert!(file.is_still(&opened).unwrap());
        let successor = file.path.with_extension("successor");
        fs::copy(&file.path, &successor).unwrap();
        fs::rename(&successor, &file.path).unwrap();
        assert!(!file.is_still(&opened).unwrap());
    }

    #[test]
    fn a_slot_that_wraps_a_stored_key_is_kept() {
        let (folder, file, ring) = file();
        let rng = &mut rand::rng();
        let wrapped = ring.wrap(&mut rand::rng(), "store", &DataKey::generate(rng)).unwrap();
        fs::create_dir(folder.path().join("wrapped")).unwrap();
        let stored = folder.path().join("wrapped/store.key");
        fs::write(&stored, wrapped.to_text() + "\n").unwrap();
        file.update(|ring| ring.rotate(&mut rand::rng(), Mode::Sealed, NOW)).unwrap();
        file.update(|ring| ring.retire(SlotNumber::FIRST, Retire::Immediately, NOW)).unwrap();
        let drop = || {
            file.update_knowing_wrapped(|ring, wrapped| ring.drop_slot(SlotNumber::FIRST, wrapped))
        };
        let error = drop().unwrap_err();
        assert!(
            matches!(error, KeyFileError::Ring { source: RingError::Wraps(_), .. }),
            "{error:?}"
        );
        fs::write(&stored, "damaged").unwrap();
        assert!(matches!(drop(), Err(KeyFileError::Wrapped { .. })));
        file.update(|ring| ring.rotate(&mut rand::rng(), Mode::Sealed, NOW)).unwrap();
        fs::remove_file(&stored).unwrap();
        drop().unwrap();
    }

    #[test]
    fn what_a_dead_process_left_behind_is_removed() {
        let (folder, file, ring) = file();
        let leftover = file.write_temporary(&ring).unwrap().keep().unwrap().1;
        let other = folder.path().join(".other.json-abc");
        fs::write(&other, "not ours").unwrap();
        file.update(|ring| ring.rotate(&mut rand::rng(), Mode::Sealed, NOW)).unwrap();
        assert!(!leftover.exists() && other.exists());
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [".other.json-abc", "keys.json"]);
    }

    #[cfg(unix)]
    #[test]
    fn the_owner_of_the_file_stays_its_owner() {
        use std::os::unix::fs::{MetadataExt as _, chown};
        let (_folder, file, _ring) = file();
        // Only root may give files away; for others there is nothing to keep.
        let (uid, gid) = if chown(file.path(), Some(12_345), Some(23_456)).is_ok() {
            (12_345, 23_456)
        } else {
            let own = fs::metadata(file.path()).unwrap();
            (own.uid(), own.gid())
        };
        file.update(|ring| ring.rotate(&mut rand::rng(), Mode::Sealed, NOW)).unwrap();
        let after = fs::metadata(file.path()).unwrap();
        assert_eq!((after.uid(), after.gid(), after.mode() & 0o777), (uid, gid, 0o600));
    }

    #[test]
    fn what_is_wrapped_must_be_readable_or_absent() {
        let (folder, file, _ring) = file();
        assert_eq!(file.wrapped().unwrap(), []);
        fs::write(folder.path().join("wrapped"), "a file, not a folder").unwrap();
        assert!(matches!(file.wrapped(), Err(KeyFileError::Io { .. })));
    }

    #[test]
    fn a_bare_name_is_in_the_current_folder() {
        assert_eq!(KeyFile::new("keys.json").folder(), Path::new("."));
        assert_eq!(KeyFile::new("a/keys.json").folder(), Path::new("a"));
    }

    #[test]
    fn only_a_file_is_a_key_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = KeyFile::new(folder.path()).load().unwrap_err();
        assert!(matches!(error, KeyFileError::NotAFile { .. }), "{error:?}");
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
