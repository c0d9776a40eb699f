//! Files of the configuration, read with bounds on time and size.
//!
//! A FIFO without a writer, or a mount whose server is gone, blocks a read for ever, and no signal ends
//! it. So each file is read in a thread of its own. After [`READ_TIME`] the thread is given up: the
//! process ends without it, and the next attempt has another one.
//!
//! Rejected: the blocking threads of the runtime, which waits for them when it ends; and a refusal of all
//! that is no regular file, since a FIFO with a writer is a way to hand over a key.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

/// Time for one file: local files take less than a millisecond, and a network mount some hundred.
pub(crate) const READ_TIME: Duration = Duration::from_secs(5);

/// Bytes of a file with certificates or a key: a hundred times a chain of certificates.
pub(crate) const PEM_BYTES_MAX: usize = 1 << 20;

/// Threads at most that are blocked. Each costs a stack, and comes of a reload that failed with words.
const THREADS_MAX: usize = 32;

/// Threads that read now, those that were given up among them.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Reads a file of at most `bytes_max` bytes.
///
/// # Errors
///
/// [`io::Error`]: `TimedOut` after [`READ_TIME`], `FileTooLarge` if it is larger.
pub(crate) fn read(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let path = path.to_owned();
    in_time(move || bounded(File::open(path)?, bytes_max))
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
    if THREADS.fetch_add(1, Ordering::Relaxed) >= THREADS_MAX {
        THREADS.fetch_sub(1, Ordering::Relaxed);
        let why = format!("{THREADS_MAX} earlier reads of files are still blocked");
        return Err(io::Error::other(why));
    }
    let begun = thread::Builder::new().name("file".to_owned()).spawn(|| {
        work();
        THREADS.fetch_sub(1, Ordering::Relaxed);
    });
    begun.map(drop).inspect_err(|_| {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wound_a12_a_file_has_a_size_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 100]).unwrap();
        assert_eq!(read(&path, 100).unwrap().len(), 100);
        assert_eq!(read(&path, 99).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        // One that never ends is not read to its end.
        let endless = read(Path::new("/dev/zero"), PEM_BYTES_MAX).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
    }
}
