//! The file of the audit, rotated by size.
//!
//! A full file gets the suffix `.1`, the one before it `.2`, and so on; the oldest is removed. A line is
//! never split over two files. Processes that share a file rotate it once: each looks, under a lock,
//! whether the path still leads to the file that it has open.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The file that lines are appended to.
#[derive(Debug)]
pub(crate) struct AuditFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
    files_max: u32,
}

impl AuditFile {
    /// Opens a file for appending. Past `bytes_max` another one is begun, and `files_max` full ones are
    /// kept.
    pub(crate) fn open(path: &Path, bytes_max: u64, files_max: u32) -> io::Result<Self> {
        let file = appended(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes, bytes_max, files_max })
    }

    /// Begins another file, unless another process has done so.
    fn rotate(&mut self) -> io::Result<()> {
        self.file.lock()?;
        if self.is_current()? {
            for number in (1..self.files_max).rev() {
                move_if_there(&self.numbered(number), &self.numbered(number + 1))?;
            }
            fs::rename(&self.path, self.numbered(1))?;
        }
        // The lock ends with the file that was open.
        self.file = appended(&self.path)?;
        self.bytes = self.file.metadata()?.len();
        Ok(())
    }

    /// Whether the path leads to the file that is open.
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

fn move_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

/// A line is written with one call of [`Write::write_all`].
impl Write for AuditFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let written = self.file.write(line)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        let is_full = self.bytes > 0 && self.bytes + line.len() as u64 > self.bytes_max;
        if is_full && let Err(error) = self.rotate() {
            tracing::error!(%error, "the audit file was not rotated, and grows");
            // It is tried again after as many bytes.
            self.bytes = 0;
        }
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(())
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
}
