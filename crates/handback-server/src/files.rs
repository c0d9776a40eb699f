//! Files of the configuration, read with bounds on time and size.
//!
//! A FIFO without a writer, or a mount whose server is gone, blocks a read for ever, and no signal ends
//! it. So each file is read in a thread of its own. After [`READ_TIME`] the thread is given up: the
//! process ends without it, and the next attempt has another one.
//!
//! Rejected: the blocking threads of the runtime, which waits for them when it ends; and a refusal of all
//! that is no regular file, since a FIFO with a writer is a way to hand over a key.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Time for one file: local files take less than a millisecond, and a network mount some hundred.
pub(crate) const READ_TIME: Duration = Duration::from_secs(5);

/// Bytes of a file with certificates or a key: a hundred times a chain of certificates.
pub(crate) const PEM_BYTES_MAX: usize = 1 << 20;

/// Threads at most that are blocked. Each costs a stack, and comes of a reload that failed with words.
const THREADS_MAX: usize = 32;

/// Threads that read now, those that were given up among them.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Devices and inodes of the files that are read now. A FIFO that blocks has one thread, however
/// often it is to be read.
static READING: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// Reads a file of at most `bytes_max` bytes.
///
/// # Errors
///
/// [`io::Error`]: `TimedOut` after [`READ_TIME`], `FileTooLarge` if it is larger.
pub(crate) fn read(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let file = path.to_owned();
    in_turn(path, move || bounded(File::open(file)?, bytes_max))
}

/// As [`in_time`], for work that opens and reads a file. The work waits for an earlier read of the
/// same file, and is not done at all if that read does not end.
///
/// # Errors
///
/// Those of [`in_time`].
pub(crate) fn in_turn<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let path = path.to_owned();
    in_time(move || {
        let _turn = Turn::take(&path)?;
        work()
    })
}

/// Reads all of an open file of at most `bytes_max` bytes.
///
/// # Errors
///
/// As [`read`]; but this one waits as long as the file does.
pub(crate) fn bounded(file: File, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more shows that it is too large.
    let most = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max {
        let why = format!("it has more than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Does work on a file in a thread that is given up after [`READ_TIME`].
///
/// # Errors
///
/// Those of the work; `TimedOut`; or those of the thread, of which there are not more than
/// [`THREADS_MAX`].
pub(crate) fn in_time<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (done, result) = mpsc::channel();
    detached(move || drop(done.send(work())))?;
    result.recv_timeout(READ_TIME).unwrap_or_else(|_| {
        let why = format!(
            "it was not read within {} s: is it a FIFO, or on a mount that hangs?",
            READ_TIME.as_secs()
        );
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    })
}

/// Does work that may block for ever, and waits for it without a thread of the runtime.
pub(crate) async fn apart(work: impl FnOnce() + Send + 'static) {
    let (done, end) = oneshot::channel();
    let begun = detached(move || {
        work();
        let _ = done.send(());
    });
    match begun {
        Ok(()) => drop(end.await),
        Err(error) => tracing::warn!(%error, "a file was not looked at"),
    }
}

fn detached(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let slot = Slot::take()?;
    let begun = thread::Builder::new().name("file".to_owned()).spawn(move || {
        let _slot = slot;
        work();
    });
    begun.map(drop)
}

/// One of [`THREADS_MAX`] threads, given back when it ends, also by a panic.
struct Slot;

impl Slot {
    fn take() -> io::Result<Self> {
        if THREADS.fetch_add(1, Ordering::Relaxed) >= THREADS_MAX {
            THREADS.fetch_sub(1, Ordering::Relaxed);
            let why = format!("{THREADS_MAX} earlier reads of files are still blocked");
            return Err(io::Error::other(why));
        }
        Ok(Self)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A file that no other thread reads meanwhile.
struct Turn(Option<(u64, u64)>);

impl Turn {
    /// Pause between two looks whether an earlier read has ended.
    const PAUSE: Duration = Duration::from_millis(20);

    fn take(path: &Path) -> io::Result<Self> {
        // A file that is not there fails when it is opened, with its own reason.
        let Ok(metadata) = fs::metadata(path) else { return Ok(Self(None)) };
        let (file, start) = ((metadata.dev(), metadata.ino()), Instant::now());
        while !reading().insert(file) {
            // The caller of this thread has left by then.
            if start.elapsed() > 2 * READ_TIME {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(Self::PAUSE);
        }
        Ok(Self(Some(file)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(file) = self.0 {
            reading().remove(&file);
        }
    }
}

fn reading() -> MutexGuard<'static, BTreeSet<(u64, u64)>> {
    READING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wound_a12_a_file_has_a_size_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [7; 100]).unwrap();
        assert_eq!(read(&path, 100).unwrap().len(), 100);
        assert_eq!(read(&path, 99).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        // One that never ends is not read to its end.
        let endless = read(Path::new("/dev/zero"), PEM_BYTES_MAX).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn wound_a12_a_file_that_blocks_costs_one_thread() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        thread::scope(|scope| {
            for _ in 0..6 {
                let late =
                    || assert_eq!(read(&path, 100).unwrap_err().kind(), io::ErrorKind::TimedOut);
                scope.spawn(late);
            }
        });
        let start = Instant::now();
        while THREADS.load(Ordering::Relaxed) > 1 {
            assert!(start.elapsed() < Duration::from_secs(60), "threads stay blocked");
            thread::sleep(Duration::from_millis(20));
        }
        // Another file in its place is read, and the thread ends with the first writer.
        let other = folder.path().join("other");
        fs::write(&other, [7; 100]).unwrap();
        assert_eq!(read(&other, 100).unwrap().len(), 100);
        drop(File::options().write(true).open(&path).unwrap());
    }
}
