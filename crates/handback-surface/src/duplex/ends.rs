//! The two streams of a duplex, as those who consume chunks and make events use them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use handback_store::ReadLimit;
use handback_stream::duplex::{ABORT, HANDLER, Mark};
use handback_stream::{
    Acquire, Append, Command, Payload, ProducerTag, Record, RecordKey, Refusal, Reply, StreamKey,
    View,
};

use tokio::sync::watch;

use crate::streams::{NotTaken, Streams};

/// What tells of changes of a stream.
pub(super) type Watch = watch::Receiver<Option<View>>;

/// Chunks that are consumed in one commit.
const CHUNKS: usize = 64;

/// Bytes of them.
const BYTES: usize = 256 << 10;

/// How long to wait when the store does not take writes.
pub(super) const RETRY: Duration = Duration::from_millis(500);

/// Why somebody stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The duplex is over, or somebody else goes on, or there are no more streams.
    Over,
    /// Nothing is left, and no connection is there.
    Idle,
}

/// Chunks, to be read.
pub(super) struct Input {
    streams: Weak<Streams>,
    pub(super) view: View,
    key: Option<RecordKey>,
}

impl Input {
    pub(super) fn new(streams: &Arc<Streams>, view: View, key: Option<&StreamKey>) -> Self {
        let key = key.map(|key| key.records(view.meta.id()));
        Self { streams: Arc::downgrade(streams), view, key }
    }

    /// What tells that there is more.
    pub(super) fn watch(&self) -> Result<Watch, Stop> {
        let streams = self.streams.upgrade().ok_or(Stop::Over)?;
        streams.watch(self.view.meta.id().name()).ok_or(Stop::Over)
    }

    /// Looks again at how far it goes.
    pub(super) fn update(&mut self, watch: &mut Watch) -> Result<(), Stop> {
        let view = watch.borrow_and_update().clone();
        let is_same = |view: &View| view.meta.id() == self.view.meta.id();
        self.view = view.filter(is_same).ok_or(Stop::Over)?;
        Ok(())
    }

    /// Some of the records after this one.
    pub(super) async fn read(&self, after: u64) -> Result<Vec<(u64, Record)>, Stop> {
        let limit = ReadLimit { records: CHUNKS, bytes: BYTES };
        let (id, upto) = (self.view.meta.id(), self.view.last);
        loop {
            let streams = self.streams.upgrade().ok_or(Stop::Over)?;
            let read =
                tokio::task::spawn_blocking(move || streams.stored(id, after + 1, upto, limit));
            match read.await {
                Ok(Ok(records)) => {
                    let decode = |(number, stored): (u64, handback_stream::Stored)| {
                        Some((number, Record::decode(&stored.record)?))
                    };
                    let records: Option<_> = records.into_iter().map(decode).collect();
                    return records.ok_or(Stop::Over);
                }
                Ok(Err(why)) => {
                    tracing::error!(%why, "chunks cannot be read");
                    wait_for_store(&NotTaken::Busy).await?;
                }
                Err(_) => return Err(Stop::Over),
            }
        }
    }

    /// The bytes of a chunk.
    pub(super) fn data(&self, number: u64, record: &Record) -> Result<Bytes, Stop> {
        record.data(self.key.as_ref(), number).ok_or_else(|| {
            tracing::error!(stream = %self.view.meta.id(), number, "a chunk is damaged");
            Stop::Over
        })
    }
}

/// Events, to be written. Of two who write, the earlier one is refused.
pub(super) struct Output {
    streams: Weak<Streams>,
    pub(super) view: View,
    key: Option<StreamKey>,
    /// Nothing, as long as there is nothing to write.
    acquired: Option<Acquired>,
}

/// As what events are written.
#[derive(Clone, Copy, Debug)]
struct Acquired {
    epoch: u64,
    next_seq: u64,
}

/// What is written for an event, or for the end.
#[derive(Debug)]
pub(super) struct Event {
    data: Option<Bytes>,
    mark: Option<String>,
}

impl Event {
    pub(super) const fn new(data: Bytes, mark: Option<String>) -> Self {
        Self { data: Some(data), mark }
    }

    pub(super) fn end(is_abort: bool) -> Self {
        Self { data: None, mark: is_abort.then(|| ABORT.to_owned()) }
    }

    fn bytes(&self) -> usize {
        self.data.as_ref().map_or(0, Bytes::len)
    }
}

impl Output {
    pub(super) fn new(streams: &Arc<Streams>, view: View, key: Option<&StreamKey>) -> Self {
        Self { streams: Arc::downgrade(streams), view, key: key.cloned(), acquired: None }
    }

    /// What tells that it has ended.
    pub(super) fn watch(&self) -> Result<Watch, Stop> {
        let streams = self.streams.upgrade().ok_or(Stop::Over)?;
        streams.watch(self.view.meta.id().name()).ok_or(Stop::Over)
    }

    /// Whether this one may write already.
    pub(super) const fn is_acquired(&self) -> bool {
        self.acquired.is_some()
    }

    /// How many events were written, by this one or by another before it.
    pub(super) fn count(&self) -> u64 {
        self.acquired.map_or(0, |acquired| acquired.next_seq)
    }

    /// Becomes the one that writes events. Gives where the one before stood.
    pub(super) async fn acquire(&mut self) -> Result<Option<Mark>, Stop> {
        let reply = loop {
            let acquire = Acquire {
                stream: self.view.meta.id().name(),
                expected: Some(self.view.meta.id()),
                producer: HANDLER.to_owned(),
                heard_of: None,
            };
            let streams = self.streams.upgrade().ok_or(Stop::Over)?;
            match streams.command(Command::Acquire(acquire), 0).await {
                Ok(reply) => break reply,
                Err(why) => {
                    drop(streams);
                    wait_for_store(&why).await?;
                }
            }
        };
        let Reply::Acquired { epoch, next_seq, writer_seq, .. } = reply else {
            return Err(Stop::Over);
        };
        self.acquired = Some(Acquired { epoch, next_seq });
        Ok(writer_seq.as_deref().and_then(Mark::parse))
    }

    /// Writes events in one commit, as often as it takes.
    pub(super) async fn write(&mut self, events: Vec<Event>) -> Result<(), Stop> {
        if events.is_empty() {
            return Ok(());
        }
        loop {
            let streams = self.streams.upgrade().ok_or(Stop::Over)?;
            let bytes = events.iter().map(Event::bytes).sum();
            let appends = self.appends(&events, streams.now());
            let done = streams.command(Command::AppendAll(appends), bytes).await;
            drop(streams);
            match done {
                Ok(Reply::All(replies)) => {
                    return match replies.into_iter().find_map(Result::err) {
                        None => {
                            if let Some(acquired) = &mut self.acquired {
                                acquired.next_seq += events.len() as u64;
                            }
                            Ok(())
                        }
                        Some(Refusal::Closed { .. }) => Err(Stop::Over),
                        Some(refusal) => {
                            tracing::info!(%refusal, "a handler was stopped");
                            Err(Stop::Over)
                        }
                    };
                }
                Ok(_) => return Err(Stop::Over),
                // What was written all the same is found to be there: it has the same sequence.
                Err(why) => wait_for_store(&why).await?,
            }
        }
    }

    fn appends(&self, events: &[Event], now: u64) -> Vec<Append> {
        let id = self.view.meta.id();
        let Some(Acquired { epoch, next_seq }) = self.acquired else { return Vec::new() };
        let append = |(event, seq): (&Event, u64)| {
            let data = event.data.clone();
            let payload = data.map(|data| Payload::parse(data, false).unwrap_or_default());
            let closes = payload.is_none();
            let tag = ProducerTag { id: HANDLER.to_owned(), epoch, seq };
            Append::new(id.name(), payload, closes, now)
                .to(id)
                .key(self.key.as_ref().map(|key| key.records(id)))
                .producer(Some(tag))
                .writer_seq(event.mark.clone())
        };
        events.iter().zip(next_seq..).map(append).collect()
    }
}

/// Waits a while, unless there is nothing to wait for.
async fn wait_for_store(why: &NotTaken) -> Result<(), Stop> {
    if *why == NotTaken::Stopping {
        return Err(Stop::Over);
    }
    tokio::time::sleep(RETRY).await;
    Ok(())
}
