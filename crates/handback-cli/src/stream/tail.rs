//! `handback stream tail`.

use clap::Args;
use handback_client::streams::{From, Page};
use serde::Serialize;

use super::printed::{Data, print};
use super::server::{ServerArgs, StreamKeyArgs, streams_failure};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;

/// Print a stream, and wait for more with --follow
///
/// The bytes go to stdout as they are. Where to go on is said on stderr at the end.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members, one line for each page:
  next_offset, is_closed, and data (text) or base64

Examples:
  handback stream tail logs/today
  handback stream tail logs/today --from now --follow")]
pub(crate) struct TailArgs {
    /// The path of the stream
    path: String,

    /// Where to start: an offset, `start` or `now`
    #[arg(long, value_name = "OFFSET", default_value = "start")]
    from: String,

    /// Wait for more, until the stream is closed
    #[arg(long)]
    follow: bool,

    #[command(flatten)]
    key: StreamKeyArgs,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Serialize)]
struct Line<'a> {
    next_offset: &'a str,
    is_closed: bool,
    #[serde(flatten)]
    data: Data,
}

pub(super) async fn run(args: &TailArgs, output: Output) -> Result<Exit, Failure> {
    let streams = args.server.streams()?;
    let key = args.key.key()?;
    let mut from = match args.from.as_str() {
        "start" | "-1" => From::Start,
        "now" => From::Now,
        offset => From::After(offset.to_owned()),
    };
    if args.follow {
        let mut tail = streams.tail(&args.path, from, key);
        while let Some(page) = tail.next().await.map_err(streams_failure)? {
            if !show(output, &page)? {
                return Ok(Exit::OK);
            }
        }
        output.note("note", "the stream is closed");
        return Ok(Exit::OK);
    }
    loop {
        let page = streams.read(&args.path, &from, key.as_ref()).await.map_err(streams_failure)?;
        if !page.body.is_empty() && !show(output, &page)? {
            return Ok(Exit::OK);
        }
        if page.is_up_to_date {
            output.note("next offset", &page.next_offset);
            return Ok(Exit::OK);
        }
        from = From::After(page.next_offset);
    }
}

fn show(output: Output, page: &Page) -> Result<bool, Failure> {
    let (next_offset, is_closed) = (page.next_offset.as_str(), page.is_closed);
    print(output, &page.body, &Line { next_offset, is_closed, data: Data::new(&page.body) })
}
