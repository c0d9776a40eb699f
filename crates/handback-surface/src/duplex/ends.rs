//! The two streams of a duplex, as those who consume chunks and make events use them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use handback_identity::binding;
use handback_store::ReadLimit;
use handback_stream::duplex::{ABORT, HANDLER, Mark};
use handback_stream::{
    Acquire, Append, Command, Payload, ProducerTag, Record, RecordKey, Refusal, Reply, StreamKey,
    View,
};
use handback_tool::{Charge, Quota};
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

/// Time between two attempts to get a part of a quota that is used up: some commits.
const QUOTA_RETRY: Duration = Duration::from_millis(20);

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
    /// Counts the bytes of events that wait to be written, with those of other appends of the owner.
    waiting: Quota,
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
    pub(super) fn new(
        streams: &Arc<Streams>,
        waiting: &Quota,
        view: View,
        key: Option<&StreamKey>,
    ) -> Self {
        let (streams, waiting) = (Arc::downgrade(streams), waiting.clone());
        Self { streams, view, key: key.cloned(), acquired: None, waiting }
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
        let bytes = events.iter().map(Event::bytes).sum();
        let _charge = self.charge(bytes).await?;
        loop {
            let streams = self.streams.upgrade().ok_or(Stop::Over)?;
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

    /// Counts bytes of events for the owner of the duplex until they are written, and waits for as long
    /// as its quota is used up. The queue itself bounds what unauthenticated owners have together.
    async fn charge(&self, bytes: usize) -> Result<Option<Charge>, Stop> {
        let owner = self.view.meta.owner();
        if binding::is_unauthenticated(owner) {
            return Ok(None);
        }
        // What one chunk made is one commit, which may be larger than a share: then it is all of it.
        let bytes = (bytes as u64).min(self.waiting.limit_of_stored(owner));
        loop {
            if let Ok(charge) = self.waiting.charge_stored(owner, bytes) {
                return Ok(Some(charge));
            }
            self.streams.upgrade().ok_or(Stop::Over)?;
            tokio::time::sleep(QUOTA_RETRY).await;
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

#[cfg(test)]
mod tests {
    use handback_identity::UnixPeers;
    use handback_store::MemoryStore;
    use handback_stream::{Create, Life, StreamName};
    use handback_tool::Share;

    use super::*;
    use crate::streams::Mode;

    /// An event stream of an owner.
    async fn output(owner: &str, waiting: &Quota) -> (Output, Arc<Streams>) {
        let log = Arc::new(MemoryStore::new());
        let streams = Streams::open(log, None, Arc::new(|| 1000), Mode::Memory).unwrap();
        let name = StreamName::new(owner, "out").unwrap();
        let create = Create {
            name: name.clone(),
            content_type: None,
            life: Life::Unlimited,
            closed: false,
            payload: None,
            fork: None,
            key: None,
            incarnation: 1,
        };
        streams.command(Command::Create(Box::new(create)), 0).await.unwrap();
        let view = streams.view(name.id()).unwrap();
        let mut output = Output::new(&streams, waiting, view, None);
        output.acquire().await.unwrap();
        (output, streams)
    }

    #[tokio::test]
    async fn wound_a7_events_wait_for_the_share_of_their_owner() {
        let waiting = Quota::new(64, Share::one_in(2));
        let owner = UnixPeers::new("test").unwrap().principal(1).binding();
        let (mut output, streams) = output(&owner, &waiting).await;
        let others = waiting.charge_stored(&owner, 1).unwrap();
        // More than the share, of one chunk.
        let events = vec![Event::new(Bytes::from_static(&[b'x'; 100]), None)];
        let name = output.view.meta.id().name();
        let before = streams.view(name).unwrap().number;
        let mut written = tokio::spawn(async move { output.write(events).await });
        assert!(tokio::time::timeout(3 * QUOTA_RETRY, &mut written).await.is_err(), "it waits");
        assert_eq!(streams.view(name).unwrap().number, before);
        drop(others);
        written.await.unwrap().unwrap();
        assert_eq!(streams.view(name).unwrap().number, before + 1, "and is not lost");
        assert_eq!(waiting.used(), 0);
    }
}
