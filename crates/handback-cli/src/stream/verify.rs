//! `handback stream verify`.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use clap::Args;
use handback_client::streams::{KeptHead, StreamsError, VerifyOptions};
use handback_client::{Keys, KeysError};
use handback_stream::KeyId;
use serde::Serialize;

use super::server::{ServerArgs, streams_failure};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;

/// Walk all records of a stream, and prove that they are what the server signed
///
/// What is proved: every record up to the last signed commit is what a server with this key committed, in
/// this order, with none left out. What is not: that there is nothing after it. Keep the head in a file:
/// then a server that goes back is noticed the next time. Records behind the last signed commit are counted
/// as not proved, and make the exit code 4.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  path, stream, records, proved, head, unproved, is_closed

Examples:
  handback stream verify logs/today
  handback stream verify logs/today --key-id 79d7c3ab7512f0aa --kept-head today.head")]
pub(crate) struct VerifyArgs {
    /// The path of the stream
    path: String,

    /// Believe the keys of this JSON Web Key Set only [default: the server's at /v1/keys]
    #[arg(long, value_name = "FILE", conflicts_with = "key_id")]
    keys: Option<PathBuf>,

    /// Believe those keys of the server only that have this id; may be repeated
    #[arg(long, value_name = "ID", value_parser = parse_key_id)]
    key_id: Vec<KeyId>,

    /// The head that was kept the last time: it must come again, and is replaced by the new one
    #[arg(long, value_name = "FILE")]
    kept_head: Option<PathBuf>,

    #[command(flatten)]
    server: ServerArgs,
}

fn parse_key_id(text: &str) -> Result<KeyId, String> {
    text.parse().map_err(|_| "a key id is 16 hexadecimal digits".to_owned())
}

#[derive(Serialize)]
struct Answer<'a> {
    path: &'a str,
    stream: Option<String>,
    records: u64,
    /// The number of the last record that is proved.
    proved: Option<u64>,
    head: Option<String>,
    unproved: u64,
    is_closed: bool,
}

pub(super) async fn run(args: &VerifyArgs, output: Output) -> Result<Exit, Failure> {
    let keys = match &args.keys {
        Some(path) => {
            let about = |error: Failure| error.about(format!("cannot read {}", path.display()));
            let bytes = fs::read(path).map_err(|error| about(Failure::new(error)))?;
            Keys::parse_set(&bytes).map_err(|error| about(Failure::new(error)))?
        }
        None if args.key_id.is_empty() => Keys::Server,
        None => Keys::Pinned(args.key_id.clone()),
    };
    let mut options = VerifyOptions::new().keys(keys);
    if let Some(path) = &args.kept_head
        && let Some(kept) = KeptHead::load(path).map_err(streams_failure)?
    {
        options = options.kept(kept);
    }
    let streams = args.server.streams()?;
    let verified = streams.verify(&args.path, &options, |_, _, _| {}).await;
    let verified = verified.map_err(|error| match error {
        StreamsError::Keys(KeysError::NonePinned) => Failure::of(Exit::UNPROVED, error),
        StreamsError::Keys(KeysError::NoKeys) => {
            Failure::of(Exit::UNPROVED, error).hint("the server may run with --no-signing")
        }
        error => streams_failure(error),
    })?;
    if let (Some(path), Some(proved)) = (&args.kept_head, &verified.proved) {
        proved.save(path).map_err(streams_failure)?;
    }
    output.answer(&Answer {
        path: &args.path,
        stream: verified.proved.map(|kept| kept.stream.to_string()),
        records: verified.records,
        proved: verified.proved.map(|kept| kept.number),
        head: verified.proved.map(|kept| kept.head.to_string()),
        unproved: verified.unproved,
        is_closed: verified.is_closed,
    })?;
    if verified.proved.is_none() {
        return Err(Failure::of(Exit::UNPROVED, "no record is signed")
            .hint("the server may run with --no-signing, or sign in a moment"));
    }
    if verified.unproved > 0 {
        // An honest server shows a record together with what proves it: these could be anybody's.
        let count = verified.unproved;
        return Err(Failure::of(
            Exit::UNPROVED,
            format!("the last {count} of the records are not proved"),
        )
        .hint("do not trust those; if the server signs in a moment, try again"));
    }
    Ok(Exit::OK)
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, records, unproved, .. } = self;
        if let (Some(proved), Some(head)) = (self.proved, &self.head) {
            writeln!(f, "Proved: {path} up to record {proved}")?;
            writeln!(f, "Head:   {head}")?;
        }
        write!(f, "Read {records} records, of which {unproved} are not proved yet")?;
        if self.is_closed { f.write_str("; the end is proved") } else { Ok(()) }
    }
}
