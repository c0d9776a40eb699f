//! A duplex whose handler is a tool: one call of the pipeline, which goes on over all connections.
//!
//! The first chunk is the arguments; the others are what the tool takes while it works. What it tells
//! and what it gives become events. The journal knows the call by the key of the duplex: after a
//! crash the next connection of its caller makes it again, gets its outcome, or learns that nobody
//! knows what became of it. Without a connection nobody knows what the caller may do, so a start of
//! the server makes no calls.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use handback_identity::Caller;
use handback_stream::View;
use handback_stream::duplex::{ABORT, CHUNK_BYTES_MAX};
use handback_token::Operation;
use handback_tool::{
    Answer, Arguments, CHUNKS_WAITING_MAX, Chunks, DuplexEnds, EVENTS_WAITING_MAX, Event as Told,
    Pipeline, Refusal, Reply, Request, Surface,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::ends::{Event, Input, Output, RETRY, Stop};
use super::open::Opened;
use super::routes::Shared;
use super::runner::Known;
use crate::calls;
use crate::tools::answer;

/// A call of a tool as somebody who would open its duplex makes it.
pub(super) fn request(caller: &Caller, name: &str, arguments: Value) -> Request {
    let arguments = Arguments::Given(arguments);
    Request::new(caller.clone(), Surface::Duplex, Operation::Duplex, name, arguments)
}

/// Makes the call of one duplex.
pub(super) struct ToolRun {
    pipeline: Arc<Pipeline>,
    caller: Caller,
    tool: String,
    key: String,
    known: Known,
    connections: watch::Receiver<usize>,
    input: Input,
    output: Output,
}

type Ended = Result<Answer, Refusal>;

impl ToolRun {
    pub(super) fn new(
        shared: &Shared,
        pipeline: &Arc<Pipeline>,
        opened: &Opened,
        known: Known,
    ) -> Self {
        let (streams, key) = (&shared.streams, opened.stream_key.as_ref());
        Self {
            pipeline: Arc::clone(pipeline),
            caller: opened.caller.clone(),
            tool: opened.name.handler().to_owned(),
            key: opened.name.key().to_owned(),
            connections: known.connections(),
            known,
            input: Input::new(streams, opened.input.clone(), key),
            output: Output::new(streams, &shared.settings.waiting, opened.output.clone(), key),
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let stop = self.serve().await.err().unwrap_or(Stop::Over);
            if self.known.is_done(stop) {
                return;
            }
        }
    }

    async fn serve(&mut self) -> Result<(), Stop> {
        let first = self.arguments().await?;
        self.output.acquire().await?;
        let Some((at, arguments)) = first else {
            return self.finish(Err(Refusal::Cancelled)).await;
        };
        loop {
            match self.call(at, &arguments).await? {
                // Another time it may be made.
                Err(refusal) if refusal.is_retryable() => tokio::time::sleep(RETRY).await,
                ended => return self.finish(ended).await,
            }
            if *self.connections.borrow() == 0 {
                return Err(Stop::Idle);
            }
        }
    }

    /// Waits for the first chunk; gives its number, and what it says. Who closes without one has no
    /// arguments. Nothing, if it was aborted.
    async fn arguments(&mut self) -> Result<Option<(u64, Value)>, Stop> {
        let (mut watch, mut after) = (self.input.watch()?, 0);
        loop {
            self.input.update(&mut watch)?;
            while after < self.input.view.last {
                let records = self.input.read(after).await?;
                let Some((last, _)) = records.last() else { return Err(Stop::Over) };
                after = *last;
                for (number, record) in records {
                    if record.writer_seq() == Some(ABORT) {
                        return Ok(None);
                    }
                    if record.closes() || record.is_end() {
                        // What ends the chunks is read again.
                        return Ok(Some((number - 1, Value::Null)));
                    }
                    if record.payload().is_some() {
                        let data = self.input.data(number, &record)?;
                        // What is no JSON is no object either: the pipeline says so.
                        let not_json = |_| Value::String("not JSON".to_owned());
                        let arguments = serde_json::from_slice(&data).unwrap_or_else(not_json);
                        return Ok(Some((number, arguments)));
                    }
                }
            }
            if *self.connections.borrow_and_update() == 0 {
                return Err(Stop::Idle);
            }
            tokio::select! {
                changed = watch.changed() => changed.map_err(|_| Stop::Over)?,
                changed = self.connections.changed() => changed.map_err(|_| Stop::Over)?,
            }
        }
    }

    /// Makes the call: chunks go in, and what the tool tells is written, until it has ended.
    async fn call(&mut self, after: u64, arguments: &Value) -> Result<Ended, Stop> {
        let (chunks, incoming) = mpsc::channel(CHUNKS_WAITING_MAX);
        let (sink, mut told) = mpsc::channel(EVENTS_WAITING_MAX);
        let (written, is_written) = watch::channel(0);
        let stop = CancellationToken::new();
        let (incoming, is_stopped) = (Chunks::new(incoming), stop.clone());
        let ends = DuplexEnds { chunks: incoming, written: is_written, stop: is_stopped };
        let request = request(&self.caller, &self.tool, arguments.clone());
        let request = request.key(&self.key).events(sink).duplex(ends);
        let mut call = calls::spawn(&self.pipeline, request);
        let mut output = self.output.watch()?;
        let feed = feed(&mut self.input, after, chunks.clone());
        tokio::pin!(feed);
        let mut chunks = Some(chunks);
        // Whatever ends this ends the call; and before the chunks seem to have ended.
        let _stops = stop.drop_guard();
        // So many were written before a crash, and are not written again.
        let mut there = self.output.count();
        loop {
            tokio::select! {
                biased;
                // It was aborted, or it is gone.
                () = output.wait_for(|output| is_over(output.as_ref())).map(drop) => return Err(Stop::Over),
                // Before what is told: a tool that tells without a pause still gets its chunks.
                fed = &mut feed, if chunks.is_some() => match fed? {
                    Fed::Closed => chunks = None,
                    Fed::Aborted => return Ok(Err(Refusal::Cancelled)),
                },
                Some(first) = told.recv() => {
                    let count = write(&mut self.output, &mut there, first, &mut told).await?;
                    written.send_modify(|written| *written += count);
                }
                ended = &mut call => {
                    // One that broke has not waited for what it told.
                    if let Ok(first) = told.try_recv() {
                        write(&mut self.output, &mut there, first, &mut told).await?;
                    }
                    return Ok(ended.unwrap_or(Err(Refusal::Broken)));
                }
            }
        }
    }

    /// Writes what the call gave, and the end.
    async fn finish(&mut self, ended: Ended) -> Result<(), Stop> {
        if matches!(ended, Err(Refusal::Cancelled)) {
            // It was aborted: who did that wants to hear nothing.
            return self.output.write(vec![Event::end(true)]).await;
        }
        let ended = ended.and_then(|answer| match answer.reply {
            // There is nobody who could answer, or go on.
            Reply::NeedsInput { .. } | Reply::Page { next: Some(_), .. } => Err(Refusal::Broken),
            _ => Ok(answer),
        });
        let text = answer::text(ended).and_then(|text| match text.len() > CHUNK_BYTES_MAX {
            true => Err(Refusal::TooLarge),
            false => Ok(text),
        });
        let (text, is_abort) = match text {
            Ok(text) => (text, false),
            Err(refusal) => (answer::error_text(&refusal), true),
        };
        let last = Event::new(Bytes::from(text), None);
        self.output.write(vec![last, Event::end(is_abort)]).await
    }
}

/// How the chunks ended.
enum Fed {
    /// There are no more, or the tool wants no more.
    Closed,
    /// The caller does not want it any more.
    Aborted,
}

/// Hands chunks to the tool, as it takes them, until there are no more.
async fn feed(input: &mut Input, mut after: u64, chunks: mpsc::Sender<Bytes>) -> Result<Fed, Stop> {
    let mut watch = input.watch()?;
    loop {
        input.update(&mut watch)?;
        while after < input.view.last {
            let records = input.read(after).await?;
            let Some((last, _)) = records.last() else { return Err(Stop::Over) };
            after = *last;
            for (number, record) in records {
                if record.closes() || record.is_end() {
                    let is_abort = record.writer_seq() == Some(ABORT);
                    return Ok(if is_abort { Fed::Aborted } else { Fed::Closed });
                }
                if record.payload().is_some() {
                    let data = input.data(number, &record)?;
                    if chunks.send(data).await.is_err() {
                        return Ok(Fed::Closed);
                    }
                }
            }
        }
        watch.changed().await.map_err(|_| Stop::Over)?;
    }
}

fn is_over(output: Option<&View>) -> bool {
    output.is_none_or(|view| view.closed)
}

/// Writes what the tool has told, all that waits in one commit; gives how many that were.
async fn write(
    output: &mut Output,
    there: &mut u64,
    first: Told,
    told: &mut mpsc::Receiver<Told>,
) -> Result<u64, Stop> {
    let (mut events, mut count, mut next) = (Vec::new(), 0, Some(first));
    while let Some(event) = next {
        count += 1;
        match there.checked_sub(1) {
            Some(left) => *there = left,
            None => events.push(Event::new(shown(&event), None)),
        }
        next = if count < EVENTS_WAITING_MAX as u64 { told.try_recv().ok() } else { None };
    }
    output.write(events).await?;
    Ok(count)
}

/// What a tool tells, as an event. What is too large to be one is left out, and said to be.
fn shown(event: &Told) -> Bytes {
    let shown = match event {
        Told::Progress { done, total, message } => {
            json!({"progress": {"done": done, "total": total, "message": message}})
        }
        Told::Log { level, data } => json!({"log": {"level": level, "data": data}}),
        Told::Part(part) => json!({ "part": part }),
        _ => json!({}),
    };
    let shown = shown.to_string();
    match shown.len() > CHUNK_BYTES_MAX {
        true => Bytes::from(json!({"left_out": {"bytes": shown.len()}}).to_string()),
        false => Bytes::from(shown),
    }
}
