//! Takes away commits that prove nothing any more: those of streams that are all gone.
//!
//! Commits and their signatures are kept for all streams together. When a stream ends, its records
//! go at once; the commits that it was in are looked for later, some at a time.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use handback_store::{Batch, LogId, ReadLimit, StoreError};
use handback_stream::{Commit, StreamId};

use super::driver::Streams;

/// Commits that are looked at in one step: some milliseconds.
const COMMITS_PER_STEP: usize = 1000;

/// Bytes of them.
const BYTES_PER_STEP: usize = 4 << 20;

/// Where the sweep is.
#[derive(Debug, Default)]
pub(super) struct Sweep(Mutex<Pass>);

#[derive(Debug, Default)]
struct Pass {
    /// The next commit to look at.
    next: u64,
    /// The last commit of the step before: what is later may be of a stream that is not shown yet.
    last: u64,
    /// Streams when the pass began, and when the one before did.
    streams: HashSet<StreamId>,
    before: HashSet<StreamId>,
}

impl Streams {
    /// Looks at some commits, and takes away those that no stream needs. Gives how many that were.
    /// To be called from time to time; blocks.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if they cannot be read, or nothing can be written.
    pub fn sweep_commits(&self) -> Result<usize, StoreError> {
        let log = |id: StreamId| LogId::from_bytes(*id.as_bytes());
        let mut pass = self.sweep.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pass.next == 0 {
            let streams = self.ids();
            if pass.before.is_subset(&streams) && !pass.before.is_empty() {
                // Nothing has ended since the last pass: nothing is to be found.
                pass.before = streams;
                return Ok(0);
            }
            pass.streams = streams;
            pass.next = 1;
        }
        let last = self.log.last(log(StreamId::COMMITS))?.map_or(0, |last| last.number);
        // The last signature is stored with the last commit, and is of the one before: without it the
        // store would be taken to be damaged.
        let upto = std::mem::replace(&mut pass.last, last).min(last.saturating_sub(2));
        let limit = ReadLimit { records: COMMITS_PER_STEP, bytes: BYTES_PER_STEP };
        let commits = self.log.read(log(StreamId::COMMITS), pass.next, limit)?;
        let there = self.ids();
        let mut batch = Batch::default();
        let mut is_end = commits.is_empty();
        for record in commits {
            if record.number > upto {
                is_end = true;
                break;
            }
            pass.next = record.number + 1;
            let damaged = || StoreError::Damaged(format!("commit {}", record.number));
            let commit = Commit::decode(record.number, &record.bytes).ok_or_else(damaged)?;
            if !commit.entries.iter().any(|entry| there.contains(&entry.stream)) {
                batch.dropped.push((log(StreamId::COMMITS), record.number));
                batch.dropped.push((log(StreamId::SIGNATURES), record.number));
            }
        }
        if is_end {
            pass.next = 0;
            pass.before = std::mem::take(&mut pass.streams);
        }
        drop(pass);
        if !batch.is_empty() {
            self.log.commit(&batch)?;
        }
        Ok(batch.dropped.len() / 2)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use handback_store::{Log as _, MemoryStore};
    use handback_stream::{Append, Command, Create, Life, Payload, SigningKey, StreamName};

    use super::*;
    use crate::streams::{Clock, Mode};

    fn name(path: &str) -> StreamName {
        StreamName::new("owner", path).unwrap()
    }

    fn open(store: &Arc<MemoryStore>) -> Arc<Streams> {
        let key = Arc::new(SigningKey::from_seed(&[1; 32]).unwrap());
        let clock: Clock = Arc::new(|| 1000);
        let log = Arc::clone(store) as Arc<dyn handback_store::Log>;
        Streams::open(log, Some(key), clock, Mode::Memory).unwrap()
    }

    async fn create(streams: &Streams, path: &str) {
        let create = Create {
            name: name(path),
            content_type: None,
            life: Life::Unlimited,
            closed: false,
            payload: None,
            fork: None,
            key: None,
            incarnation: rand::random(),
        };
        streams.command(Command::Create(Box::new(create)), 0).await.unwrap();
    }

    async fn append(streams: &Streams, path: &str) {
        let payload = Payload::parse("x".into(), false).unwrap();
        let append = Append::new(name(path).id(), Some(payload), false, 0);
        streams.command(Command::Append(append), 0).await.unwrap();
    }

    fn kept(store: &MemoryStore, id: StreamId) -> usize {
        let all = ReadLimit { records: usize::MAX, bytes: usize::MAX };
        store.read(LogId::from_bytes(*id.as_bytes()), 0, all).unwrap().len()
    }

    #[tokio::test]
    async fn commits_of_streams_that_ended_are_taken_away() {
        let store = Arc::new(MemoryStore::new());
        let streams = open(&store);
        create(&streams, "stays").await;
        append(&streams, "stays").await;
        for path in ["a", "b"] {
            create(&streams, path).await;
            for _ in 0..50 {
                append(&streams, path).await;
            }
        }
        append(&streams, "stays").await;
        for _ in 0..3 {
            assert_eq!(streams.sweep_commits().unwrap(), 0);
        }
        assert_eq!(kept(&store, StreamId::COMMITS), 105);
        streams.command(Command::Delete(name("a").id()), 0).await.unwrap();
        let swept: usize = (0..3).map(|_| streams.sweep_commits().unwrap()).sum();
        assert_eq!(swept, 51);
        streams.command(Command::Delete(name("b").id()), 0).await.unwrap();
        let swept: usize = (0..3).map(|_| streams.sweep_commits().unwrap()).sum();
        // Those just before the end are kept, whatever they are of.
        assert!((49..=51).contains(&swept), "{swept}");
        assert_eq!(kept(&store, StreamId::COMMITS), 105 - 51 - swept);
        // What is left proves what is there, and is enough to start again.
        let view = streams.view(name("stays").id()).unwrap();
        for number in [0, 1, 2] {
            let stored = streams.record(&view, number).unwrap().unwrap();
            assert!(streams.commit(stored.commit).unwrap().is_some());
        }
        streams.stop();
        let streams = open(&store);
        append(&streams, "stays").await;
        assert_eq!(streams.view(name("stays").id()).unwrap().number, 3);
    }
}
