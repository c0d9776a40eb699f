//! The file of the audit, rotated by size.
//!
//! A full file gets the suffix `.1`, the one before it `.2`, and so on; the oldest is removed. A line is
//! never split over two files. Only regular files are rotated: a pipe or a device stays as it is.
//!
//! Processes that share a file rotate it once: each looks, under a lock, whether the path still leads to
//! the file that it has open. Each looks once a second as well, so that no line goes to a file that
//! others have rotated away.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two looks whether another process has rotated the file.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The file that lines are appended to.
#[derive(Debug)]
pub(crate) struct AuditFile {
    path: PathBuf,
    file: File,
    /// Absent if the file is not rotated.
    bytes: Option<u64>,
    bytes_max: u64,
    files_max: u32,
    checked: Instant,
    /// True while only a part of a line is written: the rest goes to the same file.
    is_in_line: bool,
}

impl AuditFile {
    /// Opens a file for appending. Past `bytes_max` another one is begun, and `files_max` full ones are
    /// kept.
    pub(crate) fn open(path: &Path, bytes_max: u64, files_max: u32) -> io::Result<Self> {
        let mut file = appended(path)?;
        // A full disk or a loss of power has torn the last line of an earlier process.
        if ends_in_line(&file, path)
            && let Err(error) = file.write_all(b"\n")
        {
            tracing::error!(%error, "the last line of the audit is torn, and was not ended");
        }
        let bytes = size(&file)?;
        // Where a link leads: the file is renamed, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let checked = Instant::now();
        Ok(Self { path, file, bytes, bytes_max, files_max, checked, is_in_line: false })
    }

    /// Begins another file, unless another process has done so or is at it.
    fn rotate(&mut self) -> io::Result<()> {
        match self.file.try_lock() {
            Ok(()) => {}
            // The line goes to the full file, and the next one looks again.
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let rotated = self.rotate_locked();
        if rotated.is_err() {
            // The file stays open: without this, no other process could rotate it.
            let _ = self.file.unlock();
        }
        rotated
    }

    fn rotate_locked(&mut self) -> io::Result<()> {
        if self.is_current()? {
            for number in (1..self.files_max).rev() {
                move_if_there(&self.numbered(number), &self.numbered(number + 1))?;
            }
            fs::rename(&self.path, self.numbered(1))?;
        }
        self.reopen()
    }

    /// Opens the file at the path. The lock ends with the file that was open.
    fn reopen(&mut self) -> io::Result<()> {
        self.file = appended(&self.path)?;
        self.bytes = size(&self.file)?;
        Ok(())
    }

    /// Goes on in the file at the path, if another process has rotated the one that is open.
    fn follow(&mut self) -> io::Result<()> {
        if self.bytes.is_none() || self.checked.elapsed() < CHECK_INTERVAL {
            return Ok(());
        }
        self.checked = Instant::now();
        if self.is_current()? { Ok(()) } else { self.reopen() }
    }

    /// True if the path leads to the file that is open.
    fn is_current(&self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        match fs::symlink_metadata(&self.path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn appended(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// The bytes of a regular file.
fn size(file: &File) -> io::Result<Option<u64>> {
    let found = file.metadata()?;
    Ok(found.is_file().then_some(found.len()))
}

fn move_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

/// True if a regular file does not end with a newline.
fn ends_in_line(file: &File, path: &Path) -> bool {
    let last = || -> io::Result<u8> {
        let Some(at) = size(file)?.and_then(|bytes| bytes.checked_sub(1)) else { return Ok(b'\n') };
        let mut last = [0];
        File::open(path)?.read_exact_at(&mut last, at)?;
        let [last] = last;
        Ok(last)
    };
    // A file that may not be read is written to all the same.
    last().is_ok_and(|last| last != b'\n')
}

impl AuditFile {
    /// Before a line of so many bytes: goes on in another file, where that is due.
    fn begin_line(&mut self, length: u64) {
        if let Err(error) = self.follow() {
            tracing::error!(%error, "the audit file at its path was not opened");
        }
        let is_full = self.bytes.is_some_and(|bytes| bytes > 0 && bytes + length > self.bytes_max);
        if is_full && let Err(error) = self.rotate() {
            tracing::error!(%error, "the audit file was not rotated, and grows");
            // It is tried again after as many bytes.
            self.bytes = Some(0);
        }
    }
}

/// A line begins with a call of [`Write::write`], and ends where a call ends with its newline.
impl Write for AuditFile {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if !self.is_in_line {
            self.begin_line(text.len() as u64);
        }
        let written = self.file.write(text)?;
        self.bytes = self.bytes.map(|bytes| bytes + written as u64);
        if let Some(last) = text.get(..written).and_then(<[u8]>::last) {
            self.is_in_line = *last != b'\n';
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(folder: &Path) -> Vec<(String, String)> {
        let mut found: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, fs::read_to_string(path).unwrap())
            })
            .collect();
        found.sort();
        found
    }

    fn named(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn full_files_are_kept_up_to_a_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        fs::write(&path, "0000\n").unwrap();
        let mut file = AuditFile::open(&path, 10, 2).unwrap();
        for line in ["1111\n", "2222\n", "3333\n", "4444\n", "5555\n", "6666\n"] {
            file.write_all(line.as_bytes()).unwrap();
        }
        let expected =
            [("audit", "6666\n"), ("audit.1", "4444\n5555\n"), ("audit.2", "2222\n3333\n")];
        assert_eq!(lines(folder.path()), named(&expected));
        // A line that is longer than a file has one of its own.
        file.write_all(b"a long line of its own\n").unwrap();
        assert_eq!(lines(folder.path())[0].1, "a long line of its own\n");
    }

    #[test]
    fn a_torn_line_ends_before_the_next_one_and_in_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        fs::write(&path, "0000\n11").unwrap();
        let mut file = AuditFile::open(&path, 9, 2).unwrap();
        assert_eq!(file.write(b"2222222").unwrap(), 7);
        // The rest of a line that was written in part.
        file.write_all(b"33\n").unwrap();
        assert_eq!(lines(folder.path())[0].1, "222222233\n");
        assert_eq!(lines(folder.path())[1].1, "0000\n11\n");
        drop(AuditFile::open(&path, 9, 2).unwrap());
        assert_eq!(lines(folder.path())[0].1, "222222233\n", "a whole line is not ended twice");
    }

    #[test]
    fn two_processes_rotate_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let mut one = AuditFile::open(&path, 10, 4).unwrap();
        let mut two = AuditFile::open(&path, 10, 4).unwrap();
        for _ in 0..2 {
            one.write_all(b"1111\n").unwrap();
            two.write_all(b"2222\n").unwrap();
        }
        one.write_all(b"3333\n").unwrap();
        two.write_all(b"4444\n").unwrap();
        let expected = [("audit", "3333\n4444\n"), ("audit.1", "1111\n2222\n1111\n2222\n")];
        assert_eq!(lines(folder.path()), named(&expected));
    }

    #[test]
    fn a_rotation_that_fails_holds_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        // A full file that no file can take the place of.
        fs::create_dir(folder.path().join("audit.1")).unwrap();
        let mut file = AuditFile::open(&path, 10, 1).unwrap();
        for line in ["1111\n", "2222\n", "3333\n"] {
            file.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "1111\n2222\n3333\n");
        File::open(&path).unwrap().try_lock().unwrap();
    }

    #[test]
    fn the_target_of_a_link_is_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("audit"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let mut file = AuditFile::open(&link, 10, 1).unwrap();
        for line in ["1111\n", "2222\n", "3333\n"] {
            file.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&link).unwrap(), "3333\n");
        assert_eq!(fs::read_to_string(folder.path().join("audit.1")).unwrap(), "1111\n2222\n");
    }

    #[test]
    fn a_device_is_not_rotated() {
        let mut file = AuditFile::open(Path::new("/dev/null"), 10, 1).unwrap();
        for line in ["1111\n", "2222\n", "3333\n"] {
            file.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(file.bytes, None);
    }

    #[test]
    fn lines_go_to_the_file_at_the_path_once_it_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let mut file = AuditFile::open(&path, 10, 1).unwrap();
        fs::rename(&path, folder.path().join("audit.1")).unwrap();
        file.checked = Instant::now().checked_sub(CHECK_INTERVAL).unwrap();
        file.write_all(b"1111\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1111\n");
    }
}
