//! Has the chunks of duplexes consumed, whether a connection is there or not.
//!
//! A runner goes on as long as a connection is there, or chunks are left. It becomes the only one
//! that writes events by acquiring their producer: of two, the earlier one is refused. Where it
//! stood follows from the stream of events itself.

use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use handback_store::ReadLimit;
use handback_stream::duplex::{
    ABORT, CHUNK_BYTES_MAX, Chunk, DuplexHandler, DuplexName, EVENT_BYTES_PER_CHUNK_MAX,
    EVENTS_PER_CHUNK_MAX, HANDLER, Mark,
};
use handback_stream::{
    Acquire, Append, Command, Payload, ProducerTag, Record, RecordKey, Refusal, Reply, StreamId,
    StreamKey, View,
};
use tokio::sync::watch;

use super::open::Opened;
use super::routes::Shared;
use crate::streams::{NotTaken, Streams};

/// Chunks that are consumed in one commit.
const CHUNKS: usize = 64;

/// Bytes of them.
const BYTES: usize = 256 << 10;

/// How long to wait when the store does not take writes.
const RETRY: Duration = Duration::from_millis(500);

/// All runners, by the stream of chunks.
#[derive(Debug, Default)]
pub(super) struct Runners(Running);

/// For each one, how many connections it goes on for.
type Running = Arc<Mutex<HashMap<StreamId, Count>>>;

type Count = Arc<watch::Sender<usize>>;

/// A connection for which a runner goes on.
#[derive(Debug)]
pub(super) struct Attached(Count);

impl Drop for Attached {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// A runner that is known. Whatever ends it, a panic too, it is known no longer.
#[derive(Debug)]
struct Known {
    running: Running,
    input: StreamId,
    count: Count,
}

impl Drop for Known {
    fn drop(&mut self) {
        let mut running = lock(&self.running);
        if running.get(&self.input).is_some_and(|count| Arc::ptr_eq(count, &self.count)) {
            running.remove(&self.input);
        }
    }
}

impl Runners {
    /// Has a runner go on for a connection; relays have none.
    pub(super) fn attach(&self, shared: &Arc<Shared>, opened: &Opened) -> Option<Attached> {
        let factory = shared.handler(opened.name.handler())?.as_ref()?;
        let (input, output) = (opened.input.clone(), opened.output.clone());
        Some(Attached(self.start(shared, factory(), input, output, opened.stream_key.clone(), 1)))
    }

    /// Has consumed what the process before has left.
    pub(super) fn start_left(&self, shared: &Arc<Shared>) {
        for input in shared.streams.all() {
            let Some(name) = DuplexName::of_input(input.meta.path()) else { continue };
            let Some(output) = name.output(input.meta.owner()) else { continue };
            let Some(output) = shared.streams.view(output.id()) else { continue };
            let Some(Some(factory)) = shared.handler(name.handler()) else { continue };
            // What is encrypted waits for who has the key.
            if !output.closed && !output.deleted && input.meta.key_commitment().is_none() {
                self.start(shared, factory(), input, output, None, 0);
            }
        }
    }

    fn start(
        &self,
        shared: &Arc<Shared>,
        handler: Box<dyn DuplexHandler>,
        input: View,
        output: View,
        key: Option<StreamKey>,
        connections: usize,
    ) -> Count {
        let id = input.meta.id();
        let mut running = lock(&self.0);
        if let Some(known) = running.get(&id) {
            known.send_modify(|count| *count += connections);
            return Arc::clone(known);
        }
        let count = Arc::new(watch::Sender::new(connections));
        let known = Known { running: Arc::clone(&self.0), input: id, count: Arc::clone(&count) };
        let runner = Runner {
            streams: Arc::downgrade(&shared.streams),
            connections: count.subscribe(),
            known,
            handler,
            input_key: key.as_ref().map(|key| key.records(id)),
            key,
            input,
            output,
            acquired: None,
            consumed: 0,
        };
        running.insert(id, Arc::clone(&count));
        tokio::spawn(runner.run());
        count
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Runner {
    streams: Weak<Streams>,
    known: Known,
    connections: watch::Receiver<usize>,
    handler: Box<dyn DuplexHandler>,
    key: Option<StreamKey>,
    input_key: Option<RecordKey>,
    input: View,
    output: View,
    /// Nothing, as long as there is nothing to write.
    acquired: Option<Acquired>,
    /// The last record of the input that was consumed.
    consumed: u64,
}

/// As what events are written.
#[derive(Clone, Copy, Debug)]
struct Acquired {
    epoch: u64,
    next_seq: u64,
}

/// Why a runner stops.
enum Stop {
    /// The duplex is over, or another runner goes on, or there are no more streams.
    Over,
    /// Nothing is left, and no connection is there.
    Idle,
}

impl Runner {
    async fn run(mut self) {
        let id = self.input.meta.id();
        loop {
            let stop = self.consume().await;
            let mut running = lock(&self.known.running);
            // A connection may have come since.
            let has_company = *self.known.count.borrow() > 0;
            if matches!(stop, Stop::Over) || !has_company {
                running.remove(&id);
                return;
            }
        }
    }

    /// Becomes the one that writes events. False if another one has consumed more meanwhile.
    async fn acquire(&mut self) -> Result<bool, Stop> {
        let reply = loop {
            let acquire = Acquire {
                stream: self.output.meta.id().name(),
                expected: Some(self.output.meta.id()),
                producer: HANDLER.to_owned(),
                heard_of: None,
            };
            match self.streams()?.command(Command::Acquire(acquire), 0).await {
                Ok(reply) => break reply,
                Err(why) => wait_for_store(&why).await?,
            }
        };
        let Reply::Acquired { epoch, next_seq, writer_seq, .. } = reply else {
            return Err(Stop::Over);
        };
        let mark = writer_seq.as_deref().and_then(Mark::parse);
        if mark.map_or(0, |mark| mark.chunk) > self.consumed {
            return Ok(false);
        }
        self.acquired = Some(Acquired { epoch, next_seq });
        Ok(true)
    }

    /// Tells a new handler of what another one has consumed.
    async fn recall(&mut self, upto: u64) -> Result<(), Stop> {
        let mut after = 0;
        while after < upto {
            let records = self.read(after).await?;
            let Some((last, _)) = records.last() else { return Ok(()) };
            after = *last;
            for (number, record) in records.into_iter().filter(|(number, _)| *number <= upto) {
                if record.payload().is_some() {
                    let data = record.data(self.input_key.as_ref(), number).ok_or(Stop::Over)?;
                    self.handler.recall(Chunk { number, data });
                }
            }
        }
        Ok(())
    }

    async fn consume(&mut self) -> Stop {
        let Ok(streams) = self.streams() else { return Stop::Over };
        let Some(mut input) = streams.watch(self.input.meta.id().name()) else {
            return Stop::Over;
        };
        // Where the one before stood follows from what it wrote.
        let output = streams.view(self.output.meta.id().name());
        let Some(output) = output.filter(|view| view.meta.id() == self.output.meta.id()) else {
            return Stop::Over;
        };
        drop(streams);
        if self.consumed == 0 && self.acquired.is_none() {
            let consumed = output.consumed.map_or(0, |mark| mark.chunk);
            if self.handler.wants_history()
                && let Err(stop) = self.recall(consumed).await
            {
                return stop;
            }
            self.consumed = consumed;
        }
        loop {
            if let Some(view) = input.borrow_and_update().clone()
                && view.meta.id() == self.input.meta.id()
            {
                self.input = view;
            } else {
                return Stop::Over;
            }
            while self.consumed < self.input.last {
                if let Err(stop) = self.step().await {
                    return stop;
                }
            }
            let mut connections = self.connections.clone();
            if *connections.borrow_and_update() == 0 {
                return Stop::Idle;
            }
            tokio::select! {
                changed = input.changed() => if changed.is_err() { return Stop::Over },
                changed = connections.changed() => if changed.is_err() { return Stop::Over },
            }
        }
    }

    /// Consumes some records, and writes what they make.
    async fn step(&mut self) -> Result<(), Stop> {
        let records = self.read(self.consumed).await?;
        let Some((last, _)) = records.last() else { return Err(Stop::Over) };
        let last = *last;
        let mut events = Vec::new();
        for (number, record) in records {
            if record.closes() || record.is_end() {
                let is_abort = record.writer_seq() == Some(ABORT);
                let left = match is_abort {
                    true => Some(Vec::new()),
                    false => self.made(|handler| handler.close()),
                };
                let Some(left) = left else { return self.fail(events).await };
                events.extend(self.events(number, left));
                events.push(self.end(is_abort));
            } else if record.payload().is_some() {
                let Some(data) = record.data(self.input_key.as_ref(), number) else {
                    tracing::error!(stream = %self.input.meta.id(), number, "a chunk is damaged");
                    return Err(Stop::Over);
                };
                let made = self.made(|handler| handler.chunk(Chunk { number, data }));
                let Some(mut made) = made else { return self.fail(events).await };
                if made.is_empty() {
                    // That it was consumed is written down all the same.
                    made.push(Bytes::new());
                }
                events.extend(self.events(number, made));
            }
        }
        self.write(events).await?;
        self.consumed = last;
        Ok(())
    }

    /// What the handler makes. Nothing if it panics, or makes more than there may be.
    fn made(
        &mut self,
        work: impl FnOnce(&mut dyn DuplexHandler) -> Vec<Bytes>,
    ) -> Option<Vec<Bytes>> {
        let handler = self.handler.as_mut();
        let made = panic::catch_unwind(AssertUnwindSafe(|| work(handler)));
        let why = match made {
            Err(_) => "it panicked",
            Ok(made) if made.len() > EVENTS_PER_CHUNK_MAX => "it made too many events of a chunk",
            Ok(made) if made.iter().any(|data| data.len() > CHUNK_BYTES_MAX) => {
                "it made an event that is too large"
            }
            Ok(made) if made.iter().map(Bytes::len).sum::<usize>() > EVENT_BYTES_PER_CHUNK_MAX => {
                "the events that it made of a chunk are too large"
            }
            Ok(made) => return Some(made),
        };
        tracing::error!(stream = %self.input.meta.id(), why, "a handler failed");
        None
    }

    /// A handler failed: what was made of the chunks before is written, and the duplex ends as one
    /// that was aborted. Another handler would fail at the same chunk.
    async fn fail(&mut self, mut events: Vec<Event>) -> Result<(), Stop> {
        events.push(self.end(true));
        self.write(events).await?;
        Err(Stop::Over)
    }

    fn events(&self, chunk: u64, made: Vec<Bytes>) -> Vec<Event> {
        let marks = Mark::of(chunk).map(|mark| mark.to_string());
        let event = |(data, mark)| Event { data: Some(data), mark: Some(mark) };
        made.into_iter().zip(marks).map(event).collect()
    }

    fn end(&self, is_abort: bool) -> Event {
        Event { data: None, mark: is_abort.then(|| ABORT.to_owned()) }
    }

    /// Writes events in one commit, as often as it takes.
    async fn write(&mut self, events: Vec<Event>) -> Result<(), Stop> {
        if events.is_empty() {
            return Ok(());
        }
        if self.acquired.is_none() && !self.acquire().await? {
            return Err(Stop::Over);
        }
        loop {
            let streams = self.streams()?;
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
        let id = self.output.meta.id();
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

    async fn read(&mut self, after: u64) -> Result<Vec<(u64, Record)>, Stop> {
        let limit = ReadLimit { records: CHUNKS, bytes: BYTES };
        let (id, upto) = (self.input.meta.id(), self.input.last);
        loop {
            let streams = self.streams()?;
            let read =
                tokio::task::spawn_blocking(move || streams.stored(id, after + 1, upto, limit));
            match read.await {
                Ok(Ok(records)) => {
                    let decode = |(number, stored): (u64, handback_stream::Stored)| {
                        Some((number, Record::decode(&stored.record)?))
                    };
                    return records
                        .into_iter()
                        .map(decode)
                        .collect::<Option<_>>()
                        .ok_or(Stop::Over);
                }
                Ok(Err(why)) => {
                    tracing::error!(%why, "chunks cannot be read");
                    wait_for_store(&NotTaken::Busy).await?;
                }
                Err(_) => return Err(Stop::Over),
            }
        }
    }

    fn streams(&self) -> Result<Arc<Streams>, Stop> {
        self.streams.upgrade().ok_or(Stop::Over)
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

/// What is written for an event, or for the end.
#[derive(Debug)]
struct Event {
    data: Option<Bytes>,
    mark: Option<String>,
}

impl Event {
    fn bytes(&self) -> usize {
        self.data.as_ref().map_or(0, Bytes::len)
    }
}
