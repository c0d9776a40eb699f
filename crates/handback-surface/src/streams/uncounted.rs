//! Counts the stored bytes of streams whose notes were written before notes had a count.
//!
//! The count needs every record, so a start does not wait for it: the records are read in the background,
//! some at a time. Until then a stream counts what was appended since its note. The count goes into the
//! next note of the stream, which is written at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use handback_store::{LogId, ReadLimit, StoreError};
use handback_stream::{Command, Reply, Uncounted};

use super::driver::{Streams, lock};

/// Records that are read at a time: some milliseconds.
const STEP: ReadLimit = ReadLimit { records: 1000, bytes: 4 << 20 };

impl Streams {
    /// Counts stored bytes that notes of earlier versions do not have, for so long. To be called from
    /// time to time.
    pub async fn count_stored(self: &Arc<Self>, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            let Some(count) = lock(&self.uncounted).pop() else { return };
            let (counted, is_done) = self.count_some(count).await;
            lock(&self.uncounted).extend(counted);
            if !is_done {
                // The store is in trouble: it is tried again later.
                return;
            }
        }
    }

    /// Counts some records. Gives what is left of the stream, and false if that failed.
    async fn count_some(self: &Arc<Self>, count: Uncounted) -> (Option<Uncounted>, bool) {
        let this = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || this.read_sizes(count)).await;
        let Ok(Ok(count)) = read else { return (Some(count), false) };
        if count.next <= count.upto {
            return (Some(count), true);
        }
        match self.command(Command::Count(count), 0).await {
            Ok(Reply::Uncounted(upto)) => (Some(Uncounted { upto, ..count }), true),
            Ok(_) => (None, true),
            Err(_) => (Some(count), false),
        }
    }

    fn read_sizes(&self, mut count: Uncounted) -> Result<Uncounted, StoreError> {
        let log = LogId::from_bytes(*count.stream.as_bytes());
        let records = self.log.read(log, count.next, STEP)?;
        if records.is_empty() {
            // The stream is gone.
            count.next = count.upto + 1;
        }
        for record in records.into_iter().take_while(|record| record.number <= count.upto) {
            count.bytes += record.bytes.len() as u64;
            count.next = record.number + 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use handback_store::{Batch, Log, MemoryStore};
    use handback_stream::{Append, Create, Life, Payload, StreamName, StreamQuotas};

    use super::*;
    use crate::streams::Mode;

    fn open(log: &Arc<MemoryStore>, bytes: u64) -> Arc<Streams> {
        let quotas = StreamQuotas { bytes, ..StreamQuotas::default() };
        Streams::open_within(Arc::clone(log) as _, None, Arc::new(|| 1000), Mode::Memory, quotas)
            .unwrap()
    }

    async fn append(streams: &Streams, text: &str) -> Reply {
        let payload = Payload::parse(Bytes::from(text.to_owned()), false).unwrap();
        let name = StreamName::new("owner", "s").unwrap().id();
        let append = Append::new(name, Some(payload), false, 1000);
        streams.command(Command::Append(append), 0).await.unwrap()
    }

    #[tokio::test]
    async fn streams_from_before_the_count_are_counted_after_a_start() {
        let log = Arc::new(MemoryStore::new());
        let streams = open(&log, u64::MAX);
        let name = StreamName::new("owner", "s").unwrap();
        let create = Create {
            name,
            content_type: None,
            life: Life::Unlimited,
            closed: false,
            payload: None,
            fork: None,
            key: None,
            incarnation: 1,
        };
        streams.command(Command::Create(Box::new(create)), 0).await.unwrap();
        // More than a step, and enough for a note behind them.
        let text = "x".repeat(10_000);
        for _ in 0..600 {
            assert!(matches!(append(&streams, &text).await, Reply::Appended(_)));
        }
        streams.stop();
        // The note as the version before wrote it: without the stored bytes at its end.
        let (id, note) = log.noted(None, 1).unwrap().pop().unwrap();
        let mut note = note.to_vec();
        note.truncate(note.len() - 8);
        note[0] = 2;
        log.commit(&Batch { notes: vec![(id, note.into())], ..Batch::default() }).unwrap();
        for is_counted in [false, true] {
            let streams = open(&log, 6_000_000);
            if !is_counted {
                assert!(matches!(append(&streams, "y").await, Reply::Appended(_)), "undercounted");
                streams.count_stored(Duration::from_secs(60)).await;
            }
            // Also after another start: the note has the count.
            assert!(matches!(append(&streams, "y").await, Reply::Refused(_)));
            streams.stop();
        }
    }
}
