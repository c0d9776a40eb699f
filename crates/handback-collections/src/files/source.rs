//! A file as bytes to be read by position, in one of its states.

use std::borrow::Cow;
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::path::Path;

use handback_page::CollectionError;
use handback_page::json::ByteSource;

/// What tells one state of a file from another: another file, another length, another time of
/// change. A change within the clock tick of the last one, that keeps the length, goes unnoticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    changed_ns: i128,
}

impl Stamp {
    /// The state of the file that has this path now.
    pub(crate) fn of(path: &Path) -> Result<Self, CollectionError> {
        let metadata = fs::metadata(path).map_err(|error| unreadable(&error))?;
        if !metadata.is_file() {
            return Err(CollectionError::Gone("it is not a file".to_owned()));
        }
        Ok(Self::from(&metadata))
    }

    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// The state as text, to be kept beside what was made of it.
    pub(crate) fn text(&self) -> String {
        format!("{}:{}:{}:{}", self.device, self.inode, self.len, self.changed_ns)
    }

    /// The state as a number, which is the same after a restart.
    pub(crate) fn edition(&self) -> u64 {
        // FNV-1a: no adversary chooses inodes and times to make two states alike.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let parts = [self.device, self.inode, self.len].map(u64::to_le_bytes).concat();
        for byte in parts.into_iter().chain(self.changed_ns.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash
    }
}

#[cfg(unix)]
impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        // The time of the last change of anything, which nobody can set back.
        let changed_ns =
            i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
        Self { device: metadata.dev(), inode: metadata.ino(), len: metadata.len(), changed_ns }
    }
}

#[cfg(not(unix))]
impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Self {
        let since = metadata.modified().ok().and_then(|time| {
            time.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_nanos())
        });
        let changed_ns = since.and_then(|ns| i128::try_from(ns).ok()).unwrap_or_default();
        Self { device: 0, inode: 0, len: metadata.len(), changed_ns }
    }
}

/// `EF BB BF`, which some programs put in front of UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An open file in the state in which it was opened. Its bytes are those behind the byte order mark,
/// if it has one.
#[derive(Debug)]
pub(crate) struct FileSource {
    file: File,
    stamp: Stamp,
    /// How many bytes the mark has.
    skipped: u64,
}

impl FileSource {
    pub(crate) fn open(path: &Path) -> Result<Self, CollectionError> {
        // A pipe would block.
        Stamp::of(path)?;
        let file = File::open(path).map_err(|error| unreadable(&error))?;
        let metadata = file.metadata().map_err(|error| unreadable(&error))?;
        let mut start = [0; BYTE_ORDER_MARK.len()];
        let is_marked = read_exact_at(&file, &mut start, 0).is_ok() && start == BYTE_ORDER_MARK;
        let skipped = if is_marked { start.len() as u64 } else { 0 };
        Ok(Self { stamp: Stamp::from(&metadata), file, skipped })
    }

    pub(crate) const fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    fn check(&self) -> Result<(), CollectionError> {
        let metadata = self.file.metadata().map_err(|error| unreadable(&error))?;
        if Stamp::from(&metadata) == self.stamp { Ok(()) } else { Err(CollectionError::Changed) }
    }
}

impl ByteSource for FileSource {
    fn size_bytes(&self) -> u64 {
        self.stamp.len.saturating_sub(self.skipped)
    }

    fn edition(&self) -> u64 {
        self.stamp.edition()
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError> {
        let len = usize::try_from(range.end.saturating_sub(range.start))
            .map_err(|_| CollectionError::Changed)?;
        let mut bytes = vec![0; len];
        match read_exact_at(&self.file, &mut bytes, range.start + self.skipped) {
            Ok(()) => {}
            // It was cut.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(CollectionError::Changed);
            }
            Err(error) => return Err(unreadable(&error)),
        }
        // After reading: what was read is of the state that was opened.
        self.check()?;
        Ok(Cow::Owned(bytes))
    }
}

/// Fills `bytes` from a position of a file.
pub(crate) fn read_exact_at(file: &File, bytes: &mut [u8], position: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, bytes, position);
    #[cfg(not(unix))]
    {
        use std::io::{Read as _, Seek as _};
        // A handle of its own, so that two readers do not move each other's place.
        let mut own = file.try_clone()?;
        own.seek(io::SeekFrom::Start(position))?;
        own.read_exact(bytes)
    }
}

/// Why a file cannot be read, without its path.
pub(crate) fn unreadable(error: &io::Error) -> CollectionError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            CollectionError::Gone("there is no such file".to_owned())
        }
        kind => CollectionError::Unavailable(format!("the file: {kind}")),
    }
}
