//! Has the chunks of duplexes consumed, whether a connection is there or not.
//!
//! A runner goes on as long as a connection is there, or chunks are left. It becomes the only one
//! that writes events by acquiring their producer: of two, the earlier one is refused. Where it
//! stood follows from the stream of events itself.

use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use handback_stream::duplex::{
    ABORT, CHUNK_BYTES_MAX, Chunk, DuplexHandler, DuplexName, EVENT_BYTES_PER_CHUNK_MAX,
    EVENTS_PER_CHUNK_MAX, Mark,
};
use handback_stream::{StreamId, StreamKey, View};
use tokio::sync::watch;

use super::ends::{Event, Input, Output, Stop};
use super::open::Opened;
use super::routes::Shared;
use super::tool::ToolRun;

/// Bytes of events past which no more chunks are consumed before the events are written.
const EVENT_BYTES: usize = 256 << 10;

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
pub(super) struct Known {
    running: Running,
    input: StreamId,
    count: Count,
}

impl Known {
    /// What tells how many connections it goes on for.
    pub(super) fn connections(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// Is not known any more, unless there is something to do for a connection that has come since.
    pub(super) fn is_done(&self, stop: Stop) -> bool {
        let mut running = lock(&self.running);
        let is_done = stop == Stop::Over || *self.count.borrow() == 0;
        if is_done {
            running.remove(&self.input);
        }
        is_done
    }
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
    /// Has somebody go on for a connection; relays have nobody.
    pub(super) fn attach(&self, shared: &Arc<Shared>, opened: &Opened) -> Option<Attached> {
        let id = opened.input.meta.id();
        let count = match shared.handler(opened.name.handler()) {
            Some(None) => return None,
            Some(Some(factory)) => self.start(id, 1, |known| {
                let (input, output) = (opened.input.clone(), opened.output.clone());
                let key = opened.stream_key.as_ref();
                tokio::spawn(Runner::new(shared, factory(), known, input, output, key).run());
            }),
            None if opened.output.closed => return None,
            None => {
                let pipeline = shared.tools()?;
                self.start(id, 1, |known| {
                    tokio::spawn(ToolRun::new(shared, pipeline, opened, known).run());
                })
            }
        };
        Some(Attached(count))
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
                self.start(input.meta.id(), 0, |known| {
                    tokio::spawn(Runner::new(shared, factory(), known, input, output, None).run());
                });
            }
        }
    }

    /// Starts somebody who consumes the chunks of a stream, if nobody does already.
    fn start(&self, id: StreamId, connections: usize, run: impl FnOnce(Known)) -> Count {
        let mut running = lock(&self.0);
        if let Some(known) = running.get(&id) {
            known.send_modify(|count| *count += connections);
            return Arc::clone(known);
        }
        let count = Arc::new(watch::Sender::new(connections));
        running.insert(id, Arc::clone(&count));
        run(Known { running: Arc::clone(&self.0), input: id, count: Arc::clone(&count) });
        count
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Runner {
    known: Known,
    connections: watch::Receiver<usize>,
    handler: Box<dyn DuplexHandler>,
    input: Input,
    output: Output,
    /// The last record of the input that was consumed.
    consumed: u64,
}

impl Runner {
    fn new(
        shared: &Arc<Shared>,
        handler: Box<dyn DuplexHandler>,
        known: Known,
        input: View,
        output: View,
        key: Option<&StreamKey>,
    ) -> Self {
        Self {
            connections: known.connections(),
            known,
            handler,
            input: Input::new(&shared.streams, input, key),
            output: Output::new(&shared.streams, &shared.settings.waiting, output, key),
            consumed: 0,
        }
    }

    async fn run(mut self) {
        loop {
            let stop = self.consume().await;
            if self.known.is_done(stop) {
                return;
            }
        }
    }

    /// Tells a new handler of what another one has consumed.
    async fn recall(&mut self, upto: u64) -> Result<(), Stop> {
        let mut after = 0;
        while after < upto {
            let records = self.input.read(after).await?;
            let Some((last, _)) = records.last() else { return Ok(()) };
            after = *last;
            for (number, record) in records.into_iter().filter(|(number, _)| *number <= upto) {
                if record.payload().is_some() {
                    let data = self.input.data(number, &record)?;
                    self.handler.recall(Chunk { number, data });
                }
            }
        }
        Ok(())
    }

    async fn consume(&mut self) -> Stop {
        match self.consume_all().await {
            Ok(()) => Stop::Idle,
            Err(stop) => stop,
        }
    }

    /// Consumes what there is, and what comes while a connection is there.
    async fn consume_all(&mut self) -> Result<(), Stop> {
        let mut input = self.input.watch()?;
        // Where the one before stood follows from what it wrote.
        let output = self.output.watch()?.borrow().clone();
        let is_same = |view: &View| view.meta.id() == self.output.view.meta.id();
        let output = output.filter(is_same).ok_or(Stop::Over)?;
        if self.consumed == 0 && !self.output.is_acquired() {
            let consumed = output.consumed.map_or(0, |mark| mark.chunk);
            if self.handler.wants_history() {
                self.recall(consumed).await?;
            }
            self.consumed = consumed;
        }
        loop {
            self.input.update(&mut input)?;
            while self.consumed < self.input.view.last {
                self.step().await?;
            }
            let mut connections = self.connections.clone();
            if *connections.borrow_and_update() == 0 {
                return Ok(());
            }
            tokio::select! {
                changed = input.changed() => changed.map_err(|_| Stop::Over)?,
                changed = connections.changed() => changed.map_err(|_| Stop::Over)?,
            }
        }
    }

    /// Consumes some records, and writes what they make.
    async fn step(&mut self) -> Result<(), Stop> {
        let records = self.input.read(self.consumed).await?;
        let Some((last, _)) = records.last() else { return Err(Stop::Over) };
        let last = *last;
        let (mut events, mut bytes) = (Vec::new(), 0);
        for (number, record) in records {
            if record.closes() || record.is_end() {
                let is_abort = record.writer_seq() == Some(ABORT);
                let left = match is_abort {
                    true => Some(Vec::new()),
                    false => self.made(|handler| handler.close()),
                };
                let Some(left) = left else { return self.fail(events).await };
                events.extend(made_of(number, left));
                events.push(Event::end(is_abort));
            } else if record.payload().is_some() {
                let data = self.input.data(number, &record)?;
                let made = self.made(|handler| handler.chunk(Chunk { number, data }));
                let Some(mut made) = made else { return self.fail(events).await };
                if made.is_empty() {
                    // That it was consumed is written down all the same.
                    made.push(Bytes::new());
                }
                bytes += made.iter().map(Bytes::len).sum::<usize>();
                events.extend(made_of(number, made));
            }
            if bytes > EVENT_BYTES {
                bytes = 0;
                self.write(std::mem::take(&mut events)).await?;
                self.consumed = number;
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
        tracing::error!(stream = %self.input.view.meta.id(), why, "a handler failed");
        None
    }

    /// A handler failed: what was made of the chunks before is written, and the duplex ends as one
    /// that was aborted. Another handler would fail at the same chunk.
    async fn fail(&mut self, mut events: Vec<Event>) -> Result<(), Stop> {
        events.push(Event::end(true));
        self.write(events).await?;
        Err(Stop::Over)
    }

    async fn write(&mut self, events: Vec<Event>) -> Result<(), Stop> {
        if !events.is_empty() && !self.output.is_acquired() {
            let mark = self.output.acquire().await?;
            // Another one has consumed more meanwhile.
            if mark.map_or(0, |mark| mark.chunk) > self.consumed {
                return Err(Stop::Over);
            }
        }
        self.output.write(events).await
    }
}

/// The events that a chunk made.
fn made_of(chunk: u64, made: Vec<Bytes>) -> impl Iterator<Item = Event> {
    let marks = Mark::of(chunk).map(|mark| mark.to_string());
    made.into_iter().zip(marks).map(|(data, mark)| Event::new(data, Some(mark)))
}
