//! Snapshots and long places as files in a folder of the data directory.
//!
//! A file is named by its id and for its owner only (folder 0700, file 0600). It starts with eight
//! bytes `HBSHELF1` and the second until which it is kept (u64, big endian); the rest is what was
//! put there. It appears under its name when it is complete. What has expired is removed
//! now and then when something is put on the shelf.
//!
//! Contents are not encrypted: they are as safe as the folder, like the tables that they come
//! from.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handback_page::CollectionError;
use handback_page::json::ByteSource;
use handback_page::shelf::{Shelf, ShelfId, ShelfWriter};
use handback_token::UnixTime;

const MAGIC: &[u8; 8] = b"HBSHELF1";
const HEADER_BYTES: usize = 16;

/// Bytes on a shelf unless told: four of the largest snapshots.
pub const DEFAULT_SHELF_BYTES: u64 = 1 << 30;

/// A folder of files that are kept for a while.
#[derive(Debug)]
pub struct FileShelf {
    folder: PathBuf,
    max_bytes: u64,
    tidied: Mutex<Tidied>,
}

/// When the folder was looked through last, and how much was in it, with what was put since.
#[derive(Clone, Copy, Debug, Default)]
struct Tidied {
    at: Option<UnixTime>,
    used: u64,
}

/// How often the folder is looked through, in seconds: and when half of it is full. Not for each file
/// that is put there, of which a page may have two hundred and the folder a hundred thousand.
const TIDY_EVERY_S: u64 = 60;
const TIDY_FULL_EVERY_S: u64 = 1;

impl FileShelf {
    /// A shelf in this folder, which is made when something is put there.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), max_bytes: DEFAULT_SHELF_BYTES, tidied: Mutex::default() }
    }

    /// For so many bytes in all.
    #[must_use]
    pub const fn with_max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    fn path(&self, id: ShelfId) -> PathBuf {
        self.folder.join(id.to_string())
    }

    fn make_folder(&self) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.folder)
    }

    /// How many bytes there are. Looks through the folder now and then, and oftener when it fills.
    fn used(&self, now: UnixTime) -> io::Result<u64> {
        let mut tidied = self.tidied();
        let is_filling = tidied.used >= self.max_bytes / 2;
        let every = if is_filling { TIDY_FULL_EVERY_S } else { TIDY_EVERY_S };
        let is_recent =
            tidied.at.is_some_and(|at| now >= at && now.as_secs() - at.as_secs() < every);
        if !is_recent {
            *tidied = Tidied { at: Some(now), used: self.tidy(now)? };
        }
        Ok(tidied.used)
    }

    fn tidied(&self) -> MutexGuard<'_, Tidied> {
        self.tidied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes what has expired, and says how many bytes are left.
    fn tidy(&self, now: UnixTime) -> io::Result<u64> {
        let mut used = 0;
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            match File::open(&path).and_then(|mut file| Ok((header(&mut file)?, file.metadata()?)))
            {
                // Another process removed it, or is still writing it.
                Err(_) => {}
                Ok((Some(until), metadata)) if until > now => used += metadata.len(),
                Ok((Some(_), _)) => {
                    let _ = fs::remove_file(&path);
                }
                // Not ours: left alone.
                Ok((None, _)) => {}
            }
        }
        Ok(used)
    }
}

/// The second until which a file is kept, if it is one of ours.
fn header(file: &mut File) -> io::Result<Option<UnixTime>> {
    let mut header = [0; HEADER_BYTES];
    match file.read_exact(&mut header) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let (magic, until) = header.split_at(MAGIC.len());
    let until: [u8; 8] = until.try_into().expect("16 − 8 bytes");
    Ok((magic == MAGIC).then(|| UnixTime::from_secs(u64::from_be_bytes(until))))
}

impl Shelf for FileShelf {
    fn put(
        &self,
        id: ShelfId,
        now: UnixTime,
        until: UnixTime,
    ) -> Result<Box<dyn ShelfWriter + '_>, CollectionError> {
        let start = || -> io::Result<_> {
            self.make_folder()?;
            let used = self.used(now)?;
            // Mode 0600, and removed if it is dropped before it has its name.
            let file = tempfile::Builder::new().prefix(".").tempfile_in(&self.folder)?;
            let mut file = BufWriter::new(file);
            file.write_all(MAGIC)?;
            file.write_all(&until.as_secs().to_be_bytes())?;
            Ok((used, file))
        };
        let (used, file) = start().map_err(unavailable)?;
        let path = self.path(id);
        let others = used.saturating_sub(bytes_of(&path));
        let left = self.max_bytes.saturating_sub(others + HEADER_BYTES as u64);
        Ok(Box::new(FileWriter { shelf: self, file, left, path }))
    }

    fn open(
        &self,
        id: ShelfId,
        now: UnixTime,
    ) -> Result<Option<Arc<dyn ByteSource>>, CollectionError> {
        let opened = open_kept(&self.path(id), now).map_err(unavailable)?;
        Ok(opened.map(|kept| Arc::new(kept) as Arc<dyn ByteSource>))
    }
}

/// How long a file is, if it is there.
fn bytes_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn open_kept(path: &Path, now: UnixTime) -> io::Result<Option<KeptFile>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let size = file.metadata()?.len();
    let until = header(&mut file)?;
    let is_kept = until.is_some_and(|until| until > now);
    Ok(is_kept.then(|| KeptFile { file, size: size - HEADER_BYTES as u64 }))
}

struct FileWriter<'a> {
    shelf: &'a FileShelf,
    file: BufWriter<tempfile::NamedTempFile>,
    left: u64,
    path: PathBuf,
}

impl ShelfWriter for FileWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), CollectionError> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Err(CollectionError::TooLarge {
                what: "snapshot",
                unit: "bytes on the shelf",
                limit: self.shelf.max_bytes,
            });
        };
        self.left = left;
        self.file.write_all(bytes).map_err(unavailable)
    }

    fn finish(self: Box<Self>) -> Result<(), CollectionError> {
        let Self { shelf, file, path, .. } = *self;
        let file = file.into_inner().map_err(|error| unavailable(error.into_error()))?;
        let replaced = bytes_of(&path);
        let file = file.persist(&path).map_err(|error| unavailable(error.error))?;
        let put = file.metadata().map_err(unavailable)?.len();
        let mut tidied = shelf.tidied();
        tidied.used = tidied.used.saturating_add(put).saturating_sub(replaced);
        Ok(())
    }
}

/// A file on the shelf. It is never written to again, and stays readable when it is removed.
#[derive(Debug)]
struct KeptFile {
    file: File,
    size: u64,
}

impl ByteSource for KeptFile {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn edition(&self) -> u64 {
        // The name of a file never stands for other bytes.
        0
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError> {
        let len = usize::try_from(range.end.saturating_sub(range.start))
            .map_err(|_| CollectionError::BadPlace)?;
        let mut bytes = vec![0; len];
        let start = range.start + HEADER_BYTES as u64;
        crate::files::read_exact_at(&self.file, &mut bytes, start).map_err(unavailable)?;
        Ok(Cow::Owned(bytes))
    }
}

fn unavailable(error: io::Error) -> CollectionError {
    CollectionError::Unavailable(format!("the shelf: {}", error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_secs(1000);
    const LATER: UnixTime = UnixTime::from_secs(2000);

    fn put(shelf: &FileShelf, id: u8, bytes: &[u8]) -> Result<ShelfId, CollectionError> {
        let id = ShelfId::from_bytes([id; 16]);
        let mut writer = shelf.put(id, NOW, LATER)?;
        writer.write(bytes)?;
        writer.finish()?;
        Ok(id)
    }

    fn read(shelf: &FileShelf, id: ShelfId, now: UnixTime) -> Option<Vec<u8>> {
        let kept = shelf.open(id, now).unwrap()?;
        Some(kept.read(0..kept.size_bytes()).unwrap().into_owned())
    }

    #[test]
    fn what_is_put_is_found_until_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = FileShelf::new(folder.path().join("shelf"));
        let id = put(&shelf, 1, b"[1,2,3]").unwrap();
        assert_eq!(read(&shelf, id, NOW).as_deref(), Some(&b"[1,2,3]"[..]));
        let again = FileShelf::new(folder.path().join("shelf"));
        assert_eq!(read(&again, id, NOW).as_deref(), Some(&b"[1,2,3]"[..]));
        assert_eq!(read(&shelf, id, LATER), None);
        assert_eq!(read(&shelf, ShelfId::from_bytes([9; 16]), NOW), None);
        let kept = shelf.open(id, NOW).unwrap().unwrap();
        assert!(kept.read(3..99).is_err());
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = FileShelf::new(folder.path());
        let id = ShelfId::from_bytes([1; 16]);
        let mut writer = shelf.put(id, NOW, LATER).unwrap();
        writer.write(b"half").unwrap();
        assert_eq!(read(&shelf, id, NOW), None);
        drop(writer);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_shelf_has_an_end_and_what_expired_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = FileShelf::new(folder.path()).with_max_bytes(100);
        let first = put(&shelf, 1, &[b'x'; 60]).unwrap();
        let error = put(&shelf, 2, &[b'x'; 60]).unwrap_err();
        assert!(matches!(error, CollectionError::TooLarge { .. }));
        let id = ShelfId::from_bytes([3; 16]);
        let mut writer = shelf.put(id, LATER, UnixTime::from_secs(3000)).unwrap();
        writer.write(&[b'x'; 60]).unwrap();
        writer.finish().unwrap();
        assert_eq!(read(&shelf, first, NOW), None);
        assert_eq!(read(&shelf, id, LATER).map(|bytes| bytes.len()), Some(60));
    }

    #[test]
    fn what_is_put_again_takes_no_more_room() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = FileShelf::new(folder.path()).with_max_bytes(100);
        for _ in 0..5 {
            put(&shelf, 1, &[b'x'; 60]).unwrap();
        }
        assert_eq!(shelf.tidied().used, 76);
        put(&shelf, 1, &[b'x'; 20]).unwrap();
        put(&shelf, 2, &[b'x'; 20]).unwrap();
    }

    #[test]
    fn a_full_folder_is_not_looked_through_for_each_file() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = FileShelf::new(folder.path()).with_max_bytes(1000);
        put(&shelf, 1, &[b'x'; 600]).unwrap();
        // Whoever looks through the folder removes this.
        let expired = folder.path().join("expired");
        fs::write(&expired, [&MAGIC[..], &0u64.to_be_bytes()].concat()).unwrap();
        put(&shelf, 2, b"x").unwrap();
        put(&shelf, 3, b"x").unwrap();
        assert!(expired.exists());
        let next = UnixTime::from_secs(NOW.as_secs() + TIDY_FULL_EVERY_S);
        drop(shelf.put(ShelfId::from_bytes([4; 16]), next, LATER).unwrap());
        assert!(!expired.exists());
    }

    #[test]
    fn other_peoples_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("notes.txt"), "my notes, longer than a header").unwrap();
        let shelf = FileShelf::new(folder.path());
        put(&shelf, 1, b"x").unwrap();
        assert!(folder.path().join("notes.txt").exists());
    }

    #[cfg(unix)]
    #[test]
    fn files_are_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let shelf = FileShelf::new(folder.path().join("shelf"));
        let id = put(&shelf, 1, b"x").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&shelf.path(id)), 0o600);
        assert_eq!(mode(&folder.path().join("shelf")), 0o700);
    }
}
