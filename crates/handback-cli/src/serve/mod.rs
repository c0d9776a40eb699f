//! `handback serve`.

pub(crate) mod log;
pub(crate) mod upstream;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use handback_server::demo::{self, Endpoints};
use handback_server::file::{Host, Origin, Parsed, Settings, Within};
use handback_server::gateway::bound::Budget;
use handback_server::{
    KeyError, Reload, Server, ServerConfig, StartError, Upstream, check_socket, serve_stdio,
};
use handback_store::OpenError;
use handback_store::embedded::Damage;
use handback_tool::Registry;
use serde::Serialize;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use self::log::Log;
use crate::args::RingArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::{collections, config, config_file, rings, text};

/// Run the server: tools, collections and durable streams on this machine
///
/// With neither collections nor upstreams it shows a demo: a shop of 100,000 orders, made once in the
/// data directory. The demo is left out with --no-demo, with --memory, and with `demo = false` in the
/// configuration.
///
/// Listens until it is interrupted, then ends what is under way. On SIGHUP it reads its certificate
/// and the identities of callers again. What it acknowledged is on the
/// disk, encrypted under a key that the key ring wraps.
///
/// With --output json it prints one line when it listens, with the members address, url, data, key
/// (the id of the key that signs its events), identity (the mode) and demo. Warnings are lines on stderr.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The configuration [default: HANDBACK_CONFIG, or handback.toml in the data directory]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Where to listen; port 0 takes a free one [default: HANDBACK_LISTEN, the configuration, or
    /// 127.0.0.1:8420]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// The data directory [default: as for all commands]
    #[arg(long, value_name = "DIR", conflicts_with = "memory")]
    data: Option<PathBuf>,

    /// Keep streams in memory only: they are gone when the server stops
    #[arg(long)]
    memory: bool,

    /// Speak MCP on standard input and output, to whoever started this, and listen on nothing
    #[arg(long, conflicts_with_all = ["listen", "long_poll_ms", "allow_origin", "allow_host"])]
    stdio: bool,

    /// Show the demo, a shop of 100,000 orders as collections and tools, also if collections are
    /// configured: in their place
    #[arg(long, conflicts_with_all = ["no_demo", "memory"])]
    demo: bool,

    /// Do not show the demo, also if nothing else is configured
    #[arg(long)]
    no_demo: bool,

    /// An MCP server to stand before, such as `files=npx -y @scope/server /home` or
    /// `shop=https://shop.example/mcp`; may be repeated
    #[arg(long, value_name = "NAME=URL|COMMAND", value_parser = upstream::parse)]
    upstream: Vec<Upstream>,

    /// How much of a result of such a server a client gets at once, in bytes (`64KiB`) or tokens
    /// (`10000t`), unless the configuration has a budget for the tool or the client; the rest is held
    #[arg(long, value_name = "SIZE")]
    budget: Option<Budget>,

    /// Images, audio and blobs of a result that a client gets at once, as base64 [default:
    /// 8MiB]
    #[arg(long, value_name = "SIZE")]
    media_budget: Option<Budget>,

    /// Do not sign events
    #[arg(long)]
    no_signing: bool,

    /// How long a long poll waits, in milliseconds [default: 15000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    long_poll_ms: Option<u32>,

    /// An origin whose pages may ask, such as `https://app.example`; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<Origin>,

    /// Another name and port under which this server is asked; may be repeated
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<Host>,

    #[command(flatten)]
    ring: RingArgs,
}

impl ServeArgs {
    /// What the flags say counts more than what was found.
    fn over(&self, mut settings: Settings) -> Settings {
        if let Some(listen) = self.listen {
            settings.listen = listen;
        }
        if let Some(folder) = &self.data {
            settings.data = Some(folder.clone());
            settings.memory = false;
        }
        if self.memory {
            settings.data = None;
            settings.memory = true;
        }
        if self.demo || self.no_demo {
            settings.demo = Some(self.demo);
        }
        if settings.demo.is_none() && !self.upstream.is_empty() {
            // There is something else to show.
            settings.demo = Some(false);
        }
        if self.no_signing {
            settings.signing = false;
        }
        if let Some(time) = self.long_poll_ms.and_then(Within::new) {
            settings.long_poll_ms = time;
        }
        settings.origins.extend(self.allow_origin.iter().cloned().map(Parsed::from));
        settings.hosts.extend(self.allow_host.iter().cloned().map(Parsed::from));
        settings
    }

    /// Checks the settings and the UNIX socket, before the ring, the demo and the data directory are made.
    fn check(&self, settings: &Settings) -> Result<(), Failure> {
        config_file::check(settings).map_err(hinted)?;
        match &settings.unix_socket {
            Some(socket) if !self.stdio => check_socket(socket).map_err(failure),
            _ => Ok(()),
        }
    }

    /// Where the key ring is: the file's word counts only where nobody else says anything.
    fn ring(&self, settings: &Settings) -> RingArgs {
        let mut ring = self.ring.clone();
        if ring.keys.is_none() && rings::overriding_variable().is_none() {
            ring.keys.clone_from(&settings.keys);
        }
        ring
    }
}

/// What is told when the server listens.
#[derive(Debug, Serialize)]
struct Listening {
    address: String,
    url: String,
    data: Option<String>,
    key: String,
    identity: &'static str,
    demo: bool,
    /// Of the demo, for people.
    #[serde(skip)]
    intro: Option<String>,
}

/// Refuses budgets where no upstream has results.
fn check_budgets(args: &ServeArgs, settings: &Settings) -> Result<(), Failure> {
    let budgets =
        [("--budget", args.budget.is_some()), ("--media-budget", args.media_budget.is_some())];
    match budgets.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) if args.upstream.is_empty() && settings.upstreams.is_empty() => {
            let hint = "--upstream names one, and so does [upstreams] in the configuration";
            let message = format!("{flag} is for the results of upstreams: there is none");
            Err(Failure::usage(message).hint(hint))
        }
        _ => Ok(()),
    }
}

pub(crate) fn run(args: &ServeArgs, output: Output) -> Result<Exit, Failure> {
    let (settings, _) = config_file::find(args.config.as_deref(), args.data.as_deref())?;
    let settings = args.over(settings);
    args.check(&settings)?;
    check_budgets(args, &settings)?;
    let ring_args = args.ring(&settings);
    let ring = rings::find_or_make_in(&ring_args, settings.data.as_deref(), None, output)?.ring;
    let data = match (&settings.data, settings.memory) {
        (_, true) => None,
        (Some(folder), false) => Some(folder.clone()),
        (None, false) => Some(config::data_directory()?),
    };
    let mut config = settings.server_config(ring, data.clone())?;
    let shows_demo = settings.shows_demo();
    if shows_demo {
        let folder = data.as_deref().ok_or_else(|| {
            Failure::usage("the demo needs a data directory").hint("leave `memory` out")
        })?;
        let mut registry = Registry::new();
        let catalog = demo::register(&mut registry, folder)
            .map_err(|error| Failure::new(error).about("cannot make the demo".to_owned()))?;
        config = config.tools(registry).collections(catalog, settings.page_settings()?);
    } else if !settings.collections.is_empty() {
        let sources = settings.collections.iter();
        let sources = sources.map(|(name, source)| (name.as_str(), source.as_str()));
        let catalog = collections::configured(sources, output)?;
        config = config.collections(catalog, settings.page_settings()?);
    }
    config = config.withhold(settings.secret_variables());
    let upstreams = settings.upstreams(&config::text_variable)?;
    for upstream in upstreams.into_iter().chain(args.upstream.iter().cloned()) {
        config = config.upstream(config::with_limits(upstream));
    }
    let mut options = settings.gateway_options()?;
    options.budget = args.budget.unwrap_or(options.budget);
    options.media_budget = args.media_budget.or(options.media_budget);
    config = config.gateway(options);
    #[cfg(debug_assertions)]
    {
        config = config::faults(config);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(error).about("cannot start a runtime".to_owned()))?;
    if args.stdio {
        // Standard output is the protocol's.
        let _log = Log::start();
        let stop = stopping(&runtime)?;
        let served = runtime.block_on(serve_stdio(config, collections::own_uid(), stop));
        // What still reads standard input is not waited for.
        runtime.shutdown_background();
        return served.map(|_| Exit::OK).map_err(failure);
    }
    let identity = settings.identity_mode()?.name();
    let shown = Shown { data, socket: settings.unix_socket.clone(), shows_demo, identity };
    runtime.block_on(serve(config, shown, output))
}

/// What is told besides.
struct Shown {
    data: Option<PathBuf>,
    socket: Option<PathBuf>,
    shows_demo: bool,
    identity: &'static str,
}

async fn serve(config: ServerConfig, shown: Shown, output: Output) -> Result<Exit, Failure> {
    let Shown { data, socket, shows_demo, identity } = shown;
    let _log = Log::start();
    let _kept = outlive_file_limits()?;
    let server = Server::start(config).await.map_err(failure)?;
    let scheme = if server.is_tls() { "https" } else { "http" };
    let url = format!("{scheme}://{}", server.address());
    let listening = Listening {
        address: server.address().to_string(),
        url: url.clone(),
        data: data.map(|folder| folder.display().to_string()),
        key: server.key().id().to_string(),
        identity,
        demo: shows_demo,
        intro: shows_demo
            .then(|| demo::intro(&Endpoints { http: url, socket, program: program(), identity })),
    };
    // Before anyone knows that it runs: a signal that comes at once is heard.
    let (hangup, terminate) = (heard(SignalKind::hangup())?, heard(SignalKind::terminate())?);
    let interrupt = heard(SignalKind::interrupt())?;
    output.answer(&listening)?;
    let (stop, stopped) = watch::channel(false);
    let reloads = tokio::spawn(reload(server.reload(), hangup));
    let run = tokio::spawn(server.run(stopped));
    either(terminate, interrupt).await;
    output.note("note", "stopping: ending what is under way");
    let _ = stop.send(true);
    let _ = run.await;
    reloads.abort();
    Ok(Exit::OK)
}

/// How this program is called from a shell: by its path, as it may not be where shells look.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("handback"));
    text::shell_word(&path.to_string_lossy())
}

/// Reads again what may have changed, whenever someone wants that.
async fn reload(reload: Reload, mut wanted: Signal) {
    while wanted.recv().await.is_some() {
        reload.clone().apart().await;
    }
}

fn heard(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::new(error).about("cannot listen for signals".to_owned()))
}

impl fmt::Display for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, data, key, identity, intro, .. } = self;
        if let Some(intro) = intro {
            let place = data.as_deref().unwrap_or_default();
            return write!(f, "Handback listens on {url}, with its data in {place}.\n\n{intro}");
        }
        let credential =
            if *identity == "none" { "" } else { " -H \"Authorization: Bearer $TOKEN\"" };
        let place = data.as_ref().map_or_else(
            || "Streams are in memory, and gone when the server stops.".to_owned(),
            |folder| format!("Streams are in {folder}."),
        );
        write!(
            f,
            "Handback listens on {url}
{place} Events are signed by key {key}.

Try it, in another window:
  curl -X PUT {url}/v1/stream/hello{credential} -H 'Content-Type: text/plain'
  curl -N '{url}/v1/stream/hello?offset=-1&live=sse'{credential}
  curl {url}/v1/stream/hello{credential} -H 'Content-Type: text/plain' -d 'hello, world'

Interrupt it with Ctrl-C: a restart goes on where it stopped."
        )
    }
}

/// A write beyond the size that files may have is an error then, as one to a full disk is, and the
/// process goes on to answer reads. Without it the system ends the process.
fn outlive_file_limits() -> Result<Signal, Failure> {
    heard(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))
}

/// Waits until someone wants the server to stop.
async fn either(mut terminate: Signal, mut interrupt: Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Says when a process at standard streams is to end: every signal that asks for it is as good as the
/// end of its input. Limits of files do not end it.
pub(crate) fn stopping(runtime: &Runtime) -> Result<watch::Receiver<bool>, Failure> {
    let _entered = runtime.enter();
    let (terminate, interrupt) = (heard(SignalKind::terminate())?, heard(SignalKind::interrupt())?);
    let mut hangup = heard(SignalKind::hangup())?;
    let files = outlive_file_limits()?;
    let (sender, stop) = watch::channel(false);
    tokio::spawn(async move {
        let _kept = files;
        tokio::select! {
            () = either(terminate, interrupt) => {}
            _ = hangup.recv() => {}
        }
        sender.send_replace(true);
    });
    Ok(stop)
}

const NOT_LOOPBACK: &str = "identify callers ([identity] in the configuration), put a proxy that \
                            knows its callers in front, or listen on 127.0.0.1";

/// What keys that do not go together are about.
fn hinted(failure: Failure) -> Failure {
    match failure.message().starts_with("listen: ") {
        true => failure.hint(NOT_LOOPBACK),
        false => failure,
    }
}

pub(crate) fn failure(error: StartError) -> Failure {
    let hint = match &error {
        StartError::SocketInUse { .. } => {
            Some("stop it first, or name another `unix_socket` in the configuration".to_owned())
        }
        StartError::NotLoopback(_) => Some(NOT_LOOPBACK.to_owned()),
        StartError::Listen { .. } => {
            Some("another server may be running; --listen takes another".to_owned())
        }
        StartError::Keys(KeyError::Missing { .. }) => {
            Some("restore the file from a backup of the data directory".to_owned())
        }
        StartError::Keys(_) => {
            Some("--keys names the ring that the data directory was made with".to_owned())
        }
        StartError::Store(OpenError::Damaged(damage)) => Some(damage_hint(damage)),
        _ => None,
    };
    let failure = Failure::new(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The commands that say more about damage, and that accept it.
fn damage_hint(damage: &Damage) -> String {
    let data = damage.store.parent().unwrap_or(&damage.store);
    let data = text::shell_word(&data.to_string_lossy());
    let check = format!("`handback store check --data {data}` lists all damage");
    if damage.is_acceptable {
        return format!(
            "{check}; restore a backup, or go on with what is there: `handback store check --data \
             {data} --accept-loss`"
        );
    }
    format!("{check}; restore the data directory from a backup")
}
