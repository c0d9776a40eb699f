//! `handback stream resume`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use handback_client::duplex::{DEFAULT_LOOKBACK_MS, Duplex, Duplexes, Phase, Settings, Why};
use serde::Serialize;

use super::send::receive;
use super::server::{ServerArgs, duplex_failure, state_directory};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;

/// How often it is looked whether the server has everything.
const LOOK: Duration = Duration::from_millis(50);

/// Go on with everything that was interrupted, and clear what cannot go on
///
/// What an interrupted `send` had read is sent, and the events that were not printed are printed. A `send`
/// that had not read all of its input is left open when the server has what was read: repeat it with --key
/// and the same input, or end it with --close. Each goes on at the server that it was sent to; a bearer
/// token is shown to the one of --url only.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members, one line for each event, then one for the end:
  key, event_id, and data (text) or base64
  resumed [{key, state, events, error}], cleared [{key, folder, why}], left [{folder, error}]

Examples:
  handback stream resume
  handback stream resume --close --window-ms 7200000")]
pub(crate) struct ResumeArgs {
    /// How long ago it may have been interrupted, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = DEFAULT_LOOKBACK_MS,
          value_parser = clap::value_parser!(u64).range(..=7_200_000))]
    window_ms: u64,

    /// Say to the server that no more will come
    #[arg(long)]
    close: bool,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Default, Serialize)]
struct Answer {
    resumed: Vec<Resumed>,
    cleared: Vec<Cleared>,
    left: Vec<Left>,
}

#[derive(Serialize)]
struct Resumed {
    key: String,
    /// `finished`, `open` or `failed`.
    state: &'static str,
    events: u64,
    error: Option<String>,
}

#[derive(Serialize)]
struct Cleared {
    key: Option<String>,
    folder: String,
    why: &'static str,
}

#[derive(Serialize)]
struct Left {
    folder: String,
    error: String,
}

pub(super) async fn run(args: &ResumeArgs, output: Output) -> Result<Exit, Failure> {
    let directory = state_directory()?;
    let settings = Settings {
        persist_idempotent_stream_state: true,
        retry_lookback_window_ms: args.window_ms,
    };
    // Each has its own server; the address here says which of them sees the token.
    let options = args.server.duplex()?.state(&directory, settings);
    let found = Duplexes::resume_all(&directory, &options).await.map_err(duplex_failure)?;
    let mut answer = Answer::default();
    for one in found.cleared {
        let why = why(one.why);
        let key = one.idempotency_key;
        output.note("cleared", &format!("{}: {why}", key.as_deref().unwrap_or("unnamed")));
        answer.cleared.push(Cleared { key, folder: one.folder.display().to_string(), why });
    }
    for one in found.left {
        let (folder, error) = (one.folder.display().to_string(), chain(&one.why));
        output.note("left", &format!("{folder}: {error}"));
        answer.left.push(Left { folder, error });
    }
    // All at once: one that waits for its other end must not hold up those behind it.
    let going: Vec<_> = found
        .resumed
        .into_iter()
        .map(|duplex| tokio::spawn(go_on(duplex, args.close, output)))
        .collect();
    for one in going {
        answer.resumed.push(one.await.map_err(Failure::new)?);
    }
    let is_failed = answer.resumed.iter().any(|one| one.state == "failed");
    match output.is_for_people() {
        true if answer.resumed.is_empty() => output.note("note", "nothing was interrupted"),
        true => {}
        false => output.text(&serde_json::to_string(&answer).unwrap_or_default())?,
    }
    Ok(if is_failed { Exit::FAILURE } else { Exit::OK })
}

async fn go_on(duplex: Duplex, closes: bool, output: Output) -> Resumed {
    let key = duplex.idempotency_key().to_owned();
    output.note("resumed", &key);
    if closes && let Err(error) = duplex.close().await {
        return Resumed { key, state: "failed", events: 0, error: Some(chain(&error)) };
    }
    let printed = AtomicU64::new(0);
    let ended = tokio::select! {
        received = receive(&duplex, &printed, output) => Some(received),
        () = handed_over(&duplex, &printed) => None,
    };
    let (state, error) = match ended {
        Some(Ok(())) => ("finished", None),
        Some(Err(failure)) => ("failed", Some(failure.message())),
        None => ("open", None),
    };
    let events = printed.load(Ordering::Relaxed);
    match (&error, state) {
        (Some(error), _) => output.note("failed", &format!("{key}: {error}")),
        (None, "open") => output.note("open", &format!("{key}: the server has what was read")),
        _ => output.note("finished", &key),
    }
    duplex.leave().await;
    Resumed { key, state, events, error }
}

/// Waits until the server has everything of a duplex that nobody closed, and has nothing to say.
async fn handed_over(duplex: &Duplex, printed: &AtomicU64) {
    let (mut quiet, mut before) = (0, 0);
    loop {
        tokio::time::sleep(LOOK).await;
        let now = printed.load(Ordering::Relaxed);
        let is_there = duplex.status().phase == Phase::Open;
        let is_quiet = is_there && now == before && !duplex.is_closed() && duplex.pending() == 0;
        before = now;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        if quiet >= 20 {
            return;
        }
    }
}

const fn why(why: Why) -> &'static str {
    match why {
        Why::Finished => "finished",
        Why::Expired => "expired",
        Why::Invalid => "invalid",
        Why::Superseded => "superseded",
        Why::TooOld => "too old",
        Why::NeverStarted => "never started",
        _ => "other",
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
