//! The files that large messages are in, and how much all of them have together.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of all messages of a gateway that are in files at most, unless one alone may have more: sixteen
/// of the largest that there are by default. They have no names and no owners, so that nothing else
/// bounds what many calls at once take of the disk.
const ASIDE_BYTES_MAX: u64 = 4 << 30;

/// How much all messages have that are in files. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aside(Arc<AtomicU64>);

impl Aside {
    /// One that has no room.
    #[cfg(test)]
    pub(super) fn full() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }

    /// Takes room for more bytes, if there is so much within `most`.
    fn take(&self, bytes: u64, most: u64) -> bool {
        let more = |taken: u64| taken.checked_add(bytes).filter(|all| *all <= most);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// A message in a file without a name. With it, its room is free again.
#[derive(Debug)]
pub struct Spooled {
    file: File,
    size_bytes: u64,
    aside: Aside,
    /// What all may have together.
    aside_bytes_max: u64,
}

impl Spooled {
    /// A file that has nothing in it, for a message that may have so many bytes.
    pub(super) fn new(file: File, aside: &Aside, bytes_max: u64) -> Self {
        let aside_bytes_max = ASIDE_BYTES_MAX.max(bytes_max);
        Self { file, size_bytes: 0, aside: aside.clone(), aside_bytes_max }
    }

    /// A file that has something in it, which counts nowhere.
    #[cfg(test)]
    pub(crate) fn of_file(file: File) -> Self {
        Self::new(file, &Aside::default(), 0)
    }

    /// Puts bytes behind the others.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.aside.take(bytes.len() as u64, self.aside_bytes_max) {
            let why = "all that is set aside has as many bytes as it may";
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, why));
        }
        self.size_bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// How many bytes it has.
    #[cfg(test)]
    pub(super) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Reads as many bytes as there is room for, from this one on.
    pub(super) fn read_exact_at(&self, bytes: &mut [u8], from: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, from)
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        self.aside.0.fetch_sub(self.size_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spooled(aside: &Aside, bytes_max: u64) -> Spooled {
        Spooled::new(tempfile::tempfile().unwrap(), aside, bytes_max)
    }

    /// As if others had taken so much.
    fn taken(bytes: u64) -> Aside {
        let aside = Aside::default();
        aside.0.store(bytes, Ordering::Relaxed);
        aside
    }

    #[test]
    fn all_files_have_so_many_bytes_together() {
        let aside = taken(ASIDE_BYTES_MAX - 10);
        let mut one = spooled(&aside, 100);
        one.write(b"12345678").unwrap();
        let mut other = spooled(&aside.clone(), 100);
        let why = other.write(b"123").unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::QuotaExceeded);
        other.write(b"12").unwrap();
        // What is not there any more makes room, and nothing else does.
        drop(one);
        other.write(b"12345678").unwrap();
        other.write(b"1").unwrap_err();
        assert_eq!(other.size_bytes(), 10);
        drop(other);
        assert_eq!(aside.0.load(Ordering::Relaxed), ASIDE_BYTES_MAX - 10);
    }

    #[test]
    fn one_that_may_be_larger_has_room() {
        let aside = taken(ASIDE_BYTES_MAX);
        spooled(&aside, ASIDE_BYTES_MAX).write(b"1").unwrap_err();
        let mut large = spooled(&aside, ASIDE_BYTES_MAX + 1);
        large.write(b"1").unwrap();
        large.write(b"1").unwrap_err();
        assert!(!taken(u64::MAX).take(1, u64::MAX));
    }
}
