//! Faults that tests ask a real process for. Builds without debug assertions have none of this.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use handback_store::{Batch, Log, LogId, ReadLimit, Record, StoreError};

/// Where a process kills itself, as kill -9 does: before or after its n-th commit, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillPoint {
    is_after: bool,
    commit: u64,
}

/// A text that is no [`KillPoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not `before-commit:N` nor `after-commit:N`")]
#[non_exhaustive]
pub struct BadKillPoint;

impl FromStr for KillPoint {
    type Err = BadKillPoint;

    fn from_str(text: &str) -> Result<Self, BadKillPoint> {
        let (name, commit) = text.split_once(':').ok_or(BadKillPoint)?;
        let is_after = match name {
            "before-commit" => false,
            "after-commit" => true,
            _ => return Err(BadKillPoint),
        };
        Ok(Self { is_after, commit: commit.parse().map_err(|_| BadKillPoint)? })
    }
}

/// A log that kills the process at a point.
pub(crate) struct Killing {
    log: Arc<dyn Log>,
    point: KillPoint,
    commits: AtomicU64,
}

impl Killing {
    pub(crate) const fn new(log: Arc<dyn Log>, point: KillPoint) -> Self {
        Self { log, point, commits: AtomicU64::new(0) }
    }
}

impl fmt::Debug for Killing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Killing").field("point", &self.point).finish_non_exhaustive()
    }
}

fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    // Until the signal has come.
    loop {
        std::thread::park();
    }
}

impl Log for Killing {
    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        let number = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        if number == self.point.commit && !self.point.is_after {
            die();
        }
        let done = self.log.commit(batch);
        if number == self.point.commit {
            die();
        }
        done
    }

    fn read(&self, log: LogId, from: u64, limit: ReadLimit) -> Result<Vec<Record>, StoreError> {
        self.log.read(log, from, limit)
    }

    fn last(&self, log: LogId) -> Result<Option<Record>, StoreError> {
        self.log.last(log)
    }

    fn note(&self, log: LogId) -> Result<Option<Bytes>, StoreError> {
        self.log.note(log)
    }

    fn noted(&self, after: Option<LogId>, limit: usize) -> Result<Vec<(LogId, Bytes)>, StoreError> {
        self.log.noted(after, limit)
    }

    fn recover(&self) -> Result<(), StoreError> {
        self.log.recover()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_named() {
        let point = |text: &str| text.parse::<KillPoint>();
        assert_eq!(point("before-commit:3"), Ok(KillPoint { is_after: false, commit: 3 }));
        assert_eq!(point("after-commit:1"), Ok(KillPoint { is_after: true, commit: 1 }));
        for bad in ["", "after-commit", "after-commit:", "after-commit:x", "now:1"] {
            assert_eq!(point(bad), Err(BadKillPoint), "{bad}");
        }
    }
}
