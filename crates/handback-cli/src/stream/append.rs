//! `handback stream append`.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use handback_client::streams::{AppendOptions, From, Producer};
use handback_stream::MAX_PAYLOAD_BYTES;
use serde::Serialize;

use super::input;
use super::server::{ServerArgs, StreamKeyArgs, streams_failure};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;

/// Append a file, or stdin, to a stream: all of it or nothing
///
/// With --producer the append is tried again when the connection breaks, and is there once however
/// often it was tried: give the same numbers again after a failure, and the next --seq after a success.
/// Without it, it is tried once.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  path, bytes, next_offset, is_duplicate, is_closed

Examples:
  echo hello | handback stream append logs/today
  handback stream append logs/today part-7.txt --producer worker --epoch 0 --seq 7")]
pub(crate) struct AppendArgs {
    /// The path of the stream
    path: String,

    /// What to append; `-` is stdin
    #[arg(default_value = "-", value_name = "FILE")]
    file: PathBuf,

    /// What it is [default: what the stream holds]
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    /// Who appends
    #[arg(long, value_name = "ID", requires = "seq")]
    producer: Option<String>,

    /// The producer's epoch; a later one fences off the earlier ones
    #[arg(long, value_name = "N", default_value_t = 0, requires = "producer")]
    epoch: u64,

    /// The number of the append in the epoch, from 0
    #[arg(long, value_name = "N", requires = "producer")]
    seq: Option<u64>,

    /// Close the stream with it
    #[arg(long)]
    close: bool,

    #[command(flatten)]
    key: StreamKeyArgs,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Serialize)]
struct Answer<'a> {
    path: &'a str,
    bytes: usize,
    next_offset: String,
    is_duplicate: bool,
    is_closed: bool,
}

pub(super) async fn run(args: &AppendArgs, output: Output) -> Result<Exit, Failure> {
    let body = input::whole(&args.file, MAX_PAYLOAD_BYTES)?;
    let bytes = body.len();
    let streams = args.server.streams()?;
    let key = args.key.key()?;
    let content_type = match &args.content_type {
        Some(content_type) => content_type.clone(),
        None => {
            let page = streams.read(&args.path, &From::Now, key.as_ref()).await;
            page.map_err(streams_failure)?.content_type.unwrap_or_default()
        }
    };
    let mut options = AppendOptions::new(content_type);
    if let Some(key) = key {
        options = options.stream_key(key);
    }
    if args.close {
        options = options.closes();
    }
    let appended = match (&args.producer, args.seq) {
        (Some(id), Some(seq)) => {
            let mut producer = Producer { id: id.clone(), epoch: args.epoch, seq };
            streams.produce(&args.path, body, &mut producer, &options).await
        }
        _ => streams.append(&args.path, body, &options).await,
    };
    let appended = appended.map_err(streams_failure)?;
    output.answer(&Answer {
        path: &args.path,
        bytes,
        next_offset: appended.next_offset,
        is_duplicate: appended.is_duplicate,
        is_closed: appended.is_closed,
    })?;
    Ok(Exit::OK)
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, bytes, next_offset, .. } = self;
        match self.is_duplicate {
            true => write!(f, "It was there already; {path} ends at {next_offset}")?,
            false => write!(f, "Appended {bytes} bytes; {path} ends at {next_offset}")?,
        }
        if self.is_closed { f.write_str(", and is closed") } else { Ok(()) }
    }
}
