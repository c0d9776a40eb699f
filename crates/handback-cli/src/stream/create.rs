//! `handback stream create`.

use std::fmt;

use clap::Args;
use handback_client::streams::CreateOptions;
use serde::Serialize;

use super::server::{ServerArgs, StreamKeyArgs, streams_failure};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;

/// Create a stream, or find that it is there
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  path, is_new, next_offset

Examples:
  handback stream create logs/today
  handback stream create events --content-type application/json --ttl 86400")]
pub(crate) struct CreateArgs {
    /// The path of the stream
    path: String,

    /// What it holds
    #[arg(long, value_name = "TYPE", default_value = "application/octet-stream")]
    content_type: String,

    /// How many seconds it lives after its last use [default: until it is deleted]
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u64>,

    #[command(flatten)]
    key: StreamKeyArgs,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Serialize)]
struct Answer<'a> {
    path: &'a str,
    is_new: bool,
    next_offset: String,
}

pub(super) async fn run(args: &CreateArgs, output: Output) -> Result<Exit, Failure> {
    let mut options = CreateOptions::new(&args.content_type);
    if let Some(ttl) = args.ttl {
        options = options.ttl_s(ttl);
    }
    if let Some(key) = args.key.key()? {
        options = options.stream_key(key);
    }
    let created = args.server.streams()?.create(&args.path, &options).await;
    let created = created.map_err(streams_failure)?;
    let (is_new, next_offset) = (created.is_new, created.next_offset);
    output.answer(&Answer { path: &args.path, is_new, next_offset })?;
    Ok(Exit::OK)
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_new { "Created" } else { "There is" };
        write!(f, "{verb} the stream {}; it ends at {}", self.path, self.next_offset)
    }
}
