//! `handback stream send`.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use clap::Args;
use handback_client::Keys;
use handback_client::duplex::{Duplex, Phase, Settings, Status};
use handback_stream::duplex::CHUNK_BYTES_MAX;
use serde::Serialize;
use tokio::sync::mpsc;

use super::input::{self, Chunks, Cut};
use super::printed::{Data, print};
use super::server::{ServerArgs, StreamKeyArgs, duplex_failure, state_directory};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;

/// Chunks that are read ahead, and written to the disk with one sync.
const AHEAD: usize = 64;

/// Send a file, or stdin, through a duplex, and print what comes back
///
/// What was read is kept in the data directory until the server has it. If the command is killed, or the
/// connection breaks, nothing is lost and nothing is sent twice: `handback stream resume` goes on with what
/// was read, and the same command with --key and the same input goes on with all of it. A key that came to
/// its end is not sent again for a day.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members, one line for each event, then one for the end:
  key, event_id, and data (text) or base64
  key, chunks, events, aborted

Examples:
  handback stream send --handler echo notes.txt
  tail -f app.log | handback stream send --key app-log -")]
pub(crate) struct SendArgs {
    /// What to send; `-` is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// What consumes it
    #[arg(long, value_name = "NAME", default_value = "relay")]
    handler: String,

    /// Which duplex; one that was interrupted goes on [default: a new one]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Send pieces of so many bytes instead of lines
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=262_144))]
    pieces: Option<u32>,

    /// Print events only when their signatures were checked
    #[arg(long)]
    verify: bool,

    #[command(flatten)]
    stream_key: StreamKeyArgs,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Serialize)]
struct Line<'a> {
    key: &'a str,
    event_id: &'a str,
    #[serde(flatten)]
    data: Data,
}

#[derive(Serialize)]
struct Answer<'a> {
    key: &'a str,
    chunks: u32,
    events: u64,
    aborted: bool,
}

pub(super) async fn run(args: &SendArgs, output: Output) -> Result<Exit, Failure> {
    let mut options = args
        .server
        .duplex()?
        .handler(&args.handler)
        .state(state_directory()?, Settings::persistent());
    if let Some(key) = &args.key {
        options = options.idempotency_key(key);
    }
    if let Some(key) = args.stream_key.key()? {
        options = options.stream_key(key);
    }
    if args.verify {
        options = options.verify(Keys::Server);
    }
    let cut = args.pieces.map_or(Cut::Lines, |size| Cut::Pieces(size as usize));
    let (input, path) = (input::open(&args.file)?, args.file.clone());
    let chunks = Chunks { input, path, cut, bytes_max: CHUNK_BYTES_MAX };
    let duplex = Duplex::open(options).await.map_err(duplex_failure)?;
    output.note("key", duplex.idempotency_key());
    if duplex.status().phase == Phase::Ended {
        output.note("finished", "it came to its end before; nothing is sent again");
    }
    let printed = AtomicU64::new(0);
    let (sent, ()) = tokio::try_join!(feed(&duplex, chunks), receive(&duplex, &printed, output))?;
    let finished = duplex.finished().await.map_err(duplex_failure)?;
    let key = duplex.idempotency_key();
    let answer = Answer {
        key,
        chunks: sent,
        events: printed.load(Ordering::Relaxed),
        aborted: finished.aborted,
    };
    match output.is_for_people() {
        true => output.note("sent", &answer.to_string()),
        false => output.answer(&answer)?,
    }
    Ok(Exit::OK)
}

/// Sends what is read, but what an earlier run sent.
async fn feed(duplex: &Duplex, chunks: Chunks) -> Result<u32, Failure> {
    let skip = duplex.next_seqno().await.map_err(duplex_failure)?;
    if duplex.is_closed() || duplex.status().phase == Phase::Ended {
        return Ok(skip);
    }
    let (sender, mut read) = mpsc::channel(AHEAD);
    // Reading blocks, for long if it is a person who types.
    tokio::task::spawn_blocking(move || pass(chunks, skip, &sender));
    let mut batch: Vec<Result<Bytes, Failure>> = Vec::new();
    while read.recv_many(&mut batch, AHEAD).await > 0 {
        let batch: Vec<_> = batch.drain(..).collect::<Result<_, _>>()?;
        duplex.send_all(batch).await.map_err(duplex_failure)?;
    }
    duplex.close().await.map_err(duplex_failure)?;
    duplex.next_seqno().await.map_err(duplex_failure)
}

fn pass(mut chunks: Chunks, skip: u32, sender: &mpsc::Sender<Result<Bytes, Failure>>) {
    let mut number = 0;
    while let Some(chunk) = chunks.next().transpose() {
        let is_failure = chunk.is_err();
        number += 1;
        if !is_failure && number <= skip {
            continue;
        }
        if sender.blocking_send(chunk).is_err() || is_failure {
            return;
        }
    }
}

/// Prints events, keeps that they were printed, and counts them.
pub(super) async fn receive(
    duplex: &Duplex,
    printed: &AtomicU64,
    output: Output,
) -> Result<(), Failure> {
    let mut status = duplex.watch();
    loop {
        let event = tokio::select! {
            event = duplex.next_event() => event.map_err(duplex_failure)?,
            changed = status.changed() => {
                if changed.is_ok() {
                    tell(output, &status.borrow_and_update());
                }
                continue;
            }
        };
        let Some(event) = event else { return Ok(()) };
        let key = duplex.idempotency_key();
        let line = Line { key, event_id: event.id(), data: Data::new(event.data()) };
        if !print(output, event.data(), &line)? {
            return Err(Failure::new("nobody reads the events any more")
                .hint("`handback stream resume` goes on with the first one that was not printed"));
        }
        printed.fetch_add(1, Ordering::Relaxed);
        duplex.ack(&event).await.map_err(duplex_failure)?;
    }
}

/// Says to people what they wait for.
fn tell(output: Output, status: &Status) {
    if status.phase == Phase::Waiting && status.attempts <= 1 {
        let why = status.last_error.as_deref().unwrap_or("the connection broke");
        output.note("waiting", &format!("{why}; trying again"));
    }
    if status.phase == Phase::Open && status.is_degraded() {
        let why = status.reason.as_deref().unwrap_or("the server is degraded");
        output.note("degraded", &format!("{why}; nothing is lost"));
    }
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chunks, events, .. } = self;
        write!(f, "{chunks} chunks, {events} events")?;
        if self.aborted { f.write_str("; aborted") } else { Ok(()) }
    }
}
