//! Faults that tests ask a real process for. Builds without debug assertions have none of this.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use handback_store::{
    Batch, Kv, KvBatch, KvError, Log, LogId, Millis, ReadLimit, Record, StoreError,
};

/// Where a process kills itself, as kill -9 does, or stands still until it is told to go on: before
/// or after its n-th commit of a stream, or its n-th step in the record of calls, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillPoint {
    is_still: bool,
    is_after: bool,
    write: Write,
    number: u64,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Commit,
    Step,
}

/// A text that is no [`KillPoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not `before-commit:N`, `after-commit:N`, `before-step:N` nor `after-step:N`, \
     with `still-` before it or without"
)]
#[non_exhaustive]
pub struct BadKillPoint;

impl FromStr for KillPoint {
    type Err = BadKillPoint;

    fn from_str(text: &str) -> Result<Self, BadKillPoint> {
        let (is_still, text) = match text.strip_prefix("still-") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (name, number) = text.split_once(':').ok_or(BadKillPoint)?;
        let (is_after, write) = match name {
            "before-commit" => (false, Write::Commit),
            "after-commit" => (true, Write::Commit),
            "before-step" => (false, Write::Step),
            "after-step" => (true, Write::Step),
            _ => return Err(BadKillPoint),
        };
        let number = number.parse().map_err(|_| BadKillPoint)?;
        Ok(Self { is_still, is_after, write, number })
    }
}

/// How the keys of calls start: docs/spec/journal.md.
const CALLS: &[u8] = b"j/r/";

/// A store that kills the process at a point, if there is one.
pub(crate) fn under(
    log: Arc<dyn Log>,
    kv: Arc<dyn Kv>,
    point: Option<KillPoint>,
) -> (Arc<dyn Log>, Arc<dyn Kv>) {
    match point {
        None => (log, kv),
        Some(point) if point.write == Write::Commit => {
            (Arc::new(Killing { inner: log, count: Count::to(point) }), kv)
        }
        Some(point) => (log, Arc::new(Killing { inner: kv, count: Count::to(point) })),
    }
}

/// Counts writes.
struct Count {
    point: KillPoint,
    writes: AtomicU64,
}

impl Count {
    const fn to(point: KillPoint) -> Self {
        Self { point, writes: AtomicU64::new(0) }
    }

    /// Does a write that counts.
    fn over<T>(&self, write: impl FnOnce() -> T) -> T {
        let is_it = self.writes.fetch_add(1, Ordering::Relaxed) + 1 == self.point.number;
        if is_it && !self.point.is_after {
            self.point.act();
        }
        let done = write();
        if is_it && self.point.is_after {
            self.point.act();
        }
        done
    }
}

/// What kills the process at a point.
struct Killing<T> {
    inner: T,
    count: Count,
}

impl<T> fmt::Debug for Killing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Killing").field("point", &self.count.point).finish_non_exhaustive()
    }
}

impl KillPoint {
    fn act(self) {
        let own = rustix::process::getpid();
        if self.is_still {
            // All of the process stands still, until somebody sends the signal to go on.
            let _ = rustix::process::kill_process(own, rustix::process::Signal::STOP);
            return;
        }
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        // Until the signal has come.
        loop {
            std::thread::park();
        }
    }
}

impl Log for Killing<Arc<dyn Log>> {
    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        self.count.over(|| self.inner.commit(batch))
    }

    fn read(&self, log: LogId, from: u64, limit: ReadLimit) -> Result<Vec<Record>, StoreError> {
        self.inner.read(log, from, limit)
    }

    fn last(&self, log: LogId) -> Result<Option<Record>, StoreError> {
        self.inner.last(log)
    }

    fn note(&self, log: LogId) -> Result<Option<Bytes>, StoreError> {
        self.inner.note(log)
    }

    fn noted(&self, after: Option<LogId>, limit: usize) -> Result<Vec<(LogId, Bytes)>, StoreError> {
        self.inner.noted(after, limit)
    }

    fn recover(&self) -> Result<(), StoreError> {
        self.inner.recover()
    }
}

impl Kv for Killing<Arc<dyn Kv>> {
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        self.inner.get(key, now)
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.inner.scan(prefix, after, limit, now)
    }

    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        if batch.changes.iter().any(|(key, _)| key.starts_with(CALLS)) {
            return self.count.over(|| self.inner.write(batch, now));
        }
        self.inner.write(batch, now)
    }

    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        self.inner.sweep(now, limit)
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.inner.settle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_named() {
        let point = |text: &str| text.parse::<KillPoint>();
        let at =
            |is_after, write, number| Ok(KillPoint { is_still: false, is_after, write, number });
        assert_eq!(point("before-commit:3"), at(false, Write::Commit, 3));
        assert_eq!(point("after-commit:1"), at(true, Write::Commit, 1));
        assert_eq!(point("before-step:1"), at(false, Write::Step, 1));
        assert_eq!(point("after-step:2"), at(true, Write::Step, 2));
        let still = KillPoint { is_still: true, is_after: true, write: Write::Step, number: 2 };
        assert_eq!(point("still-after-step:2"), Ok(still));
        for bad in [
            "",
            "still-",
            "still-now:1",
            "after-commit",
            "after-commit:",
            "after-commit:x",
            "now:1",
        ] {
            assert_eq!(point(bad), Err(BadKillPoint), "{bad}");
        }
    }
}
