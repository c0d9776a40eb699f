//! `handback serve`.

mod log;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use handback_server::{DEFAULT_LISTEN, Server, ServerConfig, StartError};
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use self::log::Log;
use crate::args::RingArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::{config, rings};

/// Run the server: durable streams on this machine
///
/// Listens until it is interrupted, then ends what is under way. What it acknowledged is on the
/// disk, encrypted under a key that the key ring wraps.
///
/// With --output json it prints one line when it listens, with the members address, url, data and
/// key (the id of the key that signs its events). Warnings are lines on stderr.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value_t = DEFAULT_LISTEN)]
    listen: SocketAddr,

    /// The data directory [default: as for all commands]
    #[arg(long, value_name = "DIR", conflicts_with = "memory")]
    data: Option<PathBuf>,

    /// Keep streams in memory only: they are gone when the server stops
    #[arg(long)]
    memory: bool,

    /// Do not sign events
    #[arg(long)]
    no_signing: bool,

    /// How long a long poll waits, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 15_000,
          value_parser = clap::value_parser!(u64).range(1..=60_000))]
    long_poll_ms: u64,

    /// An origin whose pages may ask, such as `https://app.example`; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,

    /// Another name and port under which this server is asked; may be repeated
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,

    #[command(flatten)]
    ring: RingArgs,
}

/// What is told when the server listens.
#[derive(Debug, Serialize)]
struct Listening {
    address: String,
    url: String,
    data: Option<String>,
    key: String,
}

pub(crate) fn run(args: &ServeArgs, output: Output) -> Result<Exit, Failure> {
    let ring = rings::find_or_make_in(&args.ring, args.data.as_deref(), output)?.ring;
    let data = match (&args.data, args.memory) {
        (_, true) => None,
        (Some(folder), false) => Some(folder.clone()),
        (None, false) => Some(config::data_directory()?),
    };
    let mut config = match &data {
        Some(folder) => ServerConfig::new(ring, folder.clone()),
        None => ServerConfig::in_memory(ring),
    };
    config = config
        .listen(args.listen)
        .signing(!args.no_signing)
        .long_poll(Duration::from_millis(args.long_poll_ms));
    for origin in &args.allow_origin {
        config = config.origin(origin);
    }
    for host in &args.allow_host {
        config = config.host(host);
    }
    #[cfg(debug_assertions)]
    {
        config = config::faults(config);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(error).about("cannot start a runtime".to_owned()))?;
    runtime.block_on(serve(config, data, output))
}

async fn serve(
    config: ServerConfig,
    data: Option<PathBuf>,
    output: Output,
) -> Result<Exit, Failure> {
    let _log = Log::start();
    let _kept = outlive_file_limits()?;
    let server = Server::start(config).await.map_err(failure)?;
    let url = format!("http://{}", server.address());
    let listening = Listening {
        address: server.address().to_string(),
        url,
        data: data.map(|folder| folder.display().to_string()),
        key: server.key().id().to_string(),
    };
    output.answer(&listening)?;
    let (stop, stopped) = watch::channel(false);
    let run = tokio::spawn(server.run(stopped));
    interrupted().await?;
    output.note("note", "stopping: ending what is under way");
    let _ = stop.send(true);
    let _ = run.await;
    Ok(Exit::OK)
}

impl fmt::Display for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, data, key, .. } = self;
        let place = data.as_ref().map_or_else(
            || "Streams are in memory, and gone when the server stops.".to_owned(),
            |folder| format!("Streams are in {folder}."),
        );
        write!(
            f,
            "Handback listens on {url}
{place} Events are signed by key {key}.

Try it, in another window:
  curl -X PUT {url}/v1/stream/hello -H 'Content-Type: text/plain'
  curl -N '{url}/v1/stream/hello?offset=-1&live=sse'
  curl {url}/v1/stream/hello -H 'Content-Type: text/plain' -d 'hello, world'

Interrupt it with Ctrl-C: a restart goes on where it stopped."
        )
    }
}

/// A write beyond the size that files may have is an error then, as one to a full disk is, and the
/// process goes on to answer reads. Without it the system ends the process.
fn outlive_file_limits() -> Result<Signal, Failure> {
    let kind = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    signal(kind).map_err(|error| Failure::new(error).about("cannot listen for signals".to_owned()))
}

/// Waits until someone wants the server to stop.
async fn interrupted() -> Result<(), Failure> {
    let failed = |error| Failure::new(error).about("cannot listen for signals".to_owned());
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

fn failure(error: StartError) -> Failure {
    let hint = match &error {
        StartError::NotLoopback(_) => {
            Some("put a proxy that knows its callers in front, or listen on 127.0.0.1")
        }
        StartError::Listen { .. } => Some("another server may be running; --listen takes another"),
        StartError::Keys(_) => Some("--keys names the ring that the data directory was made with"),
        _ => None,
    };
    let failure = Failure::new(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
