//! The database's own threads, which flush and compact, step back behind those that answer.

use std::thread;

/// How far they step back, on the scale of `nice`.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Runs something on a thread of lower priority: threads that it starts have the same. `Err` if it
/// panics. Where threads have no priority of their own, they have that of the others: then writing is
/// less even, and nothing else.
pub(super) fn stepping_back<T: Send>(work: impl FnOnce() -> T + Send) -> thread::Result<T> {
    let work = || {
        #[cfg(target_os = "linux")]
        let _ = rustix::process::setpriority_process(None, NICE);
        work()
    };
    thread::scope(|scope| scope.spawn(work).join())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, getpriority_process};

    use super::NICE;
    use crate::{EmbeddedOptions, EmbeddedStore};

    /// What the database calls its threads.
    const NAME: &str = "fjall:worker";

    /// All threads of this process, by name and priority.
    fn threads() -> Vec<(String, i32)> {
        let thread = |entry: fs::DirEntry| {
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            let id = entry.file_name().to_str()?.parse().ok()?;
            Some((name.trim_end().to_owned(), getpriority_process(Pid::from_raw(id)).ok()?))
        };
        fs::read_dir("/proc/self/task").unwrap().flatten().filter_map(thread).collect()
    }

    #[test]
    fn the_threads_of_the_database_step_back_and_this_one_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let before = getpriority_process(None).unwrap();
        let _store = EmbeddedStore::open(directory.path(), EmbeddedOptions::new()).unwrap();
        assert_eq!(getpriority_process(None).unwrap(), before);
        // A thread has its name a moment after it was started.
        let start = Instant::now();
        while threads().iter().filter(|(name, _)| name == NAME).count() < 2 {
            assert!(start.elapsed() < Duration::from_secs(20), "{:?}", threads());
        }
        for (name, nice) in threads() {
            assert!(name != NAME || nice == before.max(NICE), "{name} {nice}");
        }
    }
}
