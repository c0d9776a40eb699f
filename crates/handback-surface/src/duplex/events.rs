//! Events as they are sent: read from the log, plain or with what proves them.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use handback_store::{ReadLimit, StoreError};
use handback_stream::duplex::{ABORT, Event, EventBody, Proof, ServerFrame};
use handback_stream::{CommitProof, Offset, Record, RecordKeys, Stored, View};

use crate::streams::Streams;

/// Records that are read at a time.
const RECORDS: usize = 64;

/// Bytes of them: what a connection holds, besides one record.
const BYTES: usize = 256 << 10;

/// One event that is to be sent, with the proof that follows it.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The record.
    pub(super) number: u64,
    /// What it counts in flow control.
    pub(super) bytes: usize,
    /// Whether its commit goes on behind it: it is not proved before that was sent as well.
    pub(super) is_inside: bool,
    pub(super) frames: Vec<ServerFrame>,
}

/// Reads the events of a duplex one after the other.
#[derive(Debug)]
pub(super) struct Events {
    streams: Arc<Streams>,
    keys: Arc<RecordKeys>,
    proofs: bool,
    /// The number of the next record.
    next: u64,
    ready: VecDeque<Outgoing>,
}

impl Events {
    /// The events after a number; with proofs from the very first record on, if nothing was kept.
    pub(super) fn new(
        streams: Arc<Streams>,
        keys: Arc<RecordKeys>,
        proofs: bool,
        after: u64,
        from_start: bool,
    ) -> Self {
        let next = if proofs && from_start { 0 } else { after + 1 };
        Self { streams, keys, proofs, next, ready: VecDeque::new() }
    }

    /// Whether all that a view shows was taken.
    pub(super) fn is_done(&self, view: &View) -> bool {
        self.ready.is_empty() && self.next > self.last(view)
    }

    /// The last record that is shown.
    const fn last(&self, view: &View) -> u64 {
        // With proofs, an end without data is shown as well: it is signed.
        if self.proofs { view.last } else { view.number }
    }

    /// The next one, if it was read.
    pub(super) fn front(&self) -> Option<&Outgoing> {
        self.ready.front()
    }

    pub(super) fn take(&mut self) -> Option<Outgoing> {
        self.ready.pop_front()
    }

    /// Reads on, if nothing is ready.
    pub(super) async fn fill(&mut self, view: &View) -> Result<(), StoreError> {
        while self.ready.is_empty() && self.next <= self.last(view) {
            let records = self.read(view).await?;
            let Some((last, _)) = records.last() else { return Ok(()) };
            self.next = last + 1;
            self.ready = match self.proofs {
                false => self.plain(view, records)?,
                true => self.proved(view, records).await?,
            };
        }
        Ok(())
    }

    async fn read(&self, view: &View) -> Result<Vec<(u64, Stored)>, StoreError> {
        let limit = ReadLimit { records: RECORDS, bytes: BYTES };
        let (from, upto) = (self.next, self.last(view));
        if from > 0 && upto == view.number {
            return self.streams.read(view, from - 1, limit).await;
        }
        let (streams, id) = (Arc::clone(&self.streams), view.meta.id());
        blocking(move || streams.stored(id, from, upto, limit)).await
    }

    fn plain(
        &self,
        view: &View,
        records: Vec<(u64, Stored)>,
    ) -> Result<VecDeque<Outgoing>, StoreError> {
        let mut ready = VecDeque::with_capacity(records.len());
        for (number, stored) in records {
            let damaged = || StoreError::Damaged(format!("record {number} of {}", view.meta.id()));
            let record = Record::decode(&stored.record).ok_or_else(damaged)?;
            if record.payload().is_none() {
                continue;
            }
            let key = self.keys.of(view.meta.id());
            let data = record.data(key, number).ok_or_else(damaged)?;
            // Nothing: a chunk that made no event.
            if !data.is_empty() {
                let bytes = data.len();
                ready.push_back(outgoing(number, bytes, EventBody::Data(data)));
            }
        }
        Ok(ready)
    }

    /// Every record, and after the last one of each commit the proof.
    async fn proved(
        &self,
        view: &View,
        records: Vec<(u64, Stored)>,
    ) -> Result<VecDeque<Outgoing>, StoreError> {
        let (streams, id) = (Arc::clone(&self.streams), view.meta.id());
        let prove = move || {
            let mut ready = VecDeque::with_capacity(records.len());
            for (number, stored) in records {
                let record = Bytes::clone(&stored.record);
                let bytes = record.len();
                let mut one = outgoing(number, bytes, EventBody::Record { number, record });
                let signed = streams.commit(stored.commit)?;
                let proof = signed.as_ref().and_then(|(commit, signature)| {
                    commit.proof(id).map(|(entry, path)| (commit, signature, entry, path))
                });
                if let Some((commit, signature, entry, path)) = proof {
                    if entry.number != number {
                        one.is_inside = true;
                        ready.push_back(one);
                        continue;
                    }
                    let proof = CommitProof {
                        commit: commit.number,
                        time: commit.time,
                        number,
                        head: entry.head,
                        path,
                        signature: signature.bytes,
                    };
                    let proof = Proof { commit: proof, key: signature.key };
                    one.frames.push(ServerFrame::Proof(Box::new(proof)));
                }
                ready.push_back(one);
            }
            Ok(ready)
        };
        blocking(prove).await
    }
}

fn outgoing(number: u64, bytes: usize, body: EventBody) -> Outgoing {
    let event = Event { event_id: Offset::after(number).to_string(), body };
    Outgoing { number, bytes, is_inside: false, frames: vec![ServerFrame::Event(event)] }
}

/// Whether a stream of events that is closed was ended by an abort. Blocks.
pub(super) async fn is_aborted(streams: &Arc<Streams>, view: &View) -> Result<bool, StoreError> {
    let (streams, id, last) = (Arc::clone(streams), view.meta.id(), view.last);
    let limit = ReadLimit { records: 1, bytes: 1 };
    let found = blocking(move || streams.stored(id, last, last, limit)).await?;
    let record = found.first().and_then(|(_, stored)| Record::decode(&stored.record));
    Ok(record.is_some_and(|record| record.writer_seq() == Some(ABORT)))
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let stopped = |_| Err(StoreError::Unavailable("reading was stopped".to_owned()));
    tokio::task::spawn_blocking(read).await.unwrap_or_else(stopped)
}
