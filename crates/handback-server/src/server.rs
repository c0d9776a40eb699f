//! Start and stop.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use handback_gateway::upstream::{Place, StartLimits, StderrUse};
use handback_gateway::{Options, front};
use handback_identity::{InvalidIdentity, UnixPeers};
use handback_mcp::server::StdioError;
use handback_store::{
    EmbeddedOptions, EmbeddedStore, Encrypted, Kv, Log, MemoryStore, Millis, OpenError, StoreError,
};
use handback_stream::{PublicKey, RecoverError};
use handback_surface::atd;
use handback_surface::duplex::{DuplexRoutes, DuplexSettings};
use handback_surface::guard::Guard;
use handback_surface::streams::{Clock, Mode, Settings, StreamRoutes, Streams, SubscriptionQuotas};
use handback_token::{KeyRing, Mode as TokenMode, Sealer, SealerError, UnixTime};
use handback_tool::{InputBudget, Metrics, Quota};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::config::{ServerConfig, StoreChoice, Upstream};
use crate::identity::{FetchError, Identity, IdentityError};
use crate::keys::{self, KeyError, StoreKeys};
use crate::limits::Limits;
use crate::quotas::RequestQuotas;
use crate::router::Router;
use crate::tls::{Tls, TlsError};
use crate::tools::{ToolParts, Tools, ToolsError};
use crate::{clock, connections, files, reachability, webhooks};

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    router: Arc<Router>,
    streams: Arc<Streams>,
    kv: Arc<dyn Kv>,
    key: PublicKey,
    tls: Option<Arc<Tls>>,
    socket: Option<(atd::Listener, UnixPeers)>,
}

/// Has a server read again what may have changed: the file of identities, the certificate.
#[derive(Clone, Debug)]
pub struct Reload {
    identity: Arc<Identity>,
    tls: Option<Arc<Tls>>,
}

impl Reload {
    /// Reads the files again. A file that is no good does not take the place of the one before. Blocks
    /// for as long as small files take, and for some seconds if one of them cannot be read.
    pub fn now(&self) {
        self.identity.reload();
        if let Some(tls) = &self.tls {
            tls.reload();
        }
    }

    /// The same in a thread of its own, for which a runtime that ends does not wait.
    pub async fn apart(self) {
        files::apart(move || self.now()).await;
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Without identities, only this machine may ask.
    #[error("without identities the server listens on loopback addresses only, not on {0}")]
    NotLoopback(SocketAddr),
    /// Others than this machine reach it, and it knows no name by which they ask.
    #[error("on {0}, which others reach, the server must know by which hosts it is asked for")]
    NoHosts(SocketAddr),
    /// Who calls.
    #[error("cannot identify callers")]
    Identity(#[from] IdentityError),
    /// TLS to the targets of webhooks.
    #[error("cannot deliver webhooks over TLS")]
    Webhooks(#[from] FetchError),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which one.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The keys of the store.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The store.
    #[error("cannot open the store")]
    Store(#[source] OpenError),
    /// What tokens are sealed with.
    #[error("cannot seal tokens")]
    Sealer(#[from] SealerError),
    /// What is stored.
    #[error("cannot use what is stored")]
    Streams(#[from] RecoverError<StoreError>),
    /// Tools.
    #[error(transparent)]
    Tools(#[from] ToolsError),
    /// MCP on standard input.
    #[error(transparent)]
    Stdio(#[from] StdioError),
    /// The client of a gateway on standard input.
    #[error(transparent)]
    Client(#[from] front::stdio::StdioError),
    /// A server answers on the UNIX socket.
    #[error("another server listens on the UNIX socket {}", path.display())]
    SocketInUse {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The UNIX socket.
    #[error("cannot listen on {}", path.display())]
    Socket {
        /// Which one.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The id of the server.
    #[error("the id of the server cannot name its peers")]
    ServerId(#[from] InvalidIdentity),
}

/// Checks that no server answers on a UNIX socket. To be called before anything is made for a server,
/// which [`Server::start`] does for what it makes itself.
///
/// # Errors
///
/// [`StartError::SocketInUse`], or [`StartError::Socket`] if something else than a socket is there.
pub fn check_socket(path: &Path) -> Result<(), StartError> {
    atd::check_free(path).map_err(|source| socket_error(path, source))
}

fn socket_error(path: &Path, source: io::Error) -> StartError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::AddrInUse => StartError::SocketInUse { path },
        _ => StartError::Socket { path, source },
    }
}

impl Server {
    /// Opens everything and listens. Connections wait until [`Server::run`].
    ///
    /// # Errors
    ///
    /// [`StartError`], before anything was answered.
    pub async fn start(mut config: ServerConfig) -> Result<Self, StartError> {
        if let Some(path) = &config.socket {
            check_socket(path)?;
        }
        config.limits = limits_of(&config);
        let is_loopback = config.listen.ip().is_loopback();
        if !is_loopback && config.identity.is_none() {
            return Err(StartError::NotLoopback(config.listen));
        }
        if !is_loopback && config.hosts.is_empty() {
            return Err(StartError::NoHosts(config.listen));
        }
        if !is_loopback && config.tls.is_none() {
            tracing::warn!("credentials come in without TLS: there should be a proxy in front");
        }
        let server_id = config.server_id.clone().unwrap_or_else(|| config.ring.id().to_string());
        let identity = Arc::new(Identity::open(&config.identity, &server_id, clock(&config))?);
        let tls = config.tls.clone().map(Tls::open).transpose()?.map(Arc::new);
        let (log, kv, keys) = open(&config)?;
        let key = *keys.events.public();
        let signing = config.signing.then(|| Arc::clone(&keys.events));
        let mode = match config.store {
            StoreChoice::Embedded(_) => Mode::Durable,
            StoreChoice::Memory => Mode::Memory,
        };
        #[cfg(debug_assertions)]
        let (log, kv) = crate::faults::under(log, kv, config.kill_at);
        let time = clock(&config);
        let quotas = config.limits.stream_quotas();
        let streams = Streams::open_within(log, signing, Arc::clone(&time), mode, quotas)?;
        let listen = |source| StartError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let settings = stream_settings(&config);
        let guard = config.origins.iter().fold(Guard::loopback(), |guard, o| guard.origin(o));
        let guard = config.hosts.iter().fold(guard, |guard, host| guard.host(host));
        let subscriptions = webhooks::settings(&config, address, Arc::clone(&kv), keys.webhooks)?;
        let sealer = Arc::new(Sealer::new(&config.ring, config.tokens.clone())?);
        let mut settings_duplex = duplex_settings(&config);
        let (is_signing, limits) = (config.signing, config.limits);
        reachability::check(&config);
        let socket = match config.socket.clone() {
            None => None,
            Some(path) => {
                let listener = atd::listen(&path).map_err(|source| socket_error(&path, source))?;
                Some((listener, UnixPeers::new(&server_id)?))
            }
        };
        let tools = ToolParts::of(config, Arc::clone(&kv), keys.data, Arc::clone(&sealer));
        let tools = Tools::open(tools, &time)?;
        let input = InputBudget::new(limits.input_bytes, limits.caller_share);
        let _ = tools.pipeline.metrics().input.set(input.clone());
        settings_duplex.input = input.clone();
        let gate = tools.pipeline.gate();
        let SubscriptionQuotas { count, bytes } = subscriptions.quotas.clone();
        tools.pipeline.metrics().show_subscriptions(count, bytes);
        let routes =
            StreamRoutes::new(Arc::clone(&streams), settings).with_tickets(Arc::clone(&sealer));
        settings_duplex.waiting = routes.waiting();
        let settings_duplex = settings_duplex.tools(Arc::clone(&tools.pipeline));
        let duplex = DuplexRoutes::new(Arc::clone(&streams), sealer, settings_duplex);
        let router = Router {
            guard,
            streams: routes.with_subscriptions(subscriptions).map_err(RecoverError::Read)?,
            duplex,
            keys: if is_signing { vec![key] } else { Vec::new() },
            identity,
            tools,
            limits,
            input,
            quotas: RequestQuotas::new(&limits, gate),
        };
        Ok(Self { listener, address, router: Arc::new(router), streams, kv, key, tls, socket })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What its events are signed with.
    #[must_use]
    pub const fn key(&self) -> &PublicKey {
        &self.key
    }

    /// Whether it speaks TLS.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// What has it read again what may have changed.
    #[must_use]
    pub fn reload(&self) -> Reload {
        Reload { identity: Arc::clone(&self.router.identity), tls: self.tls.clone() }
    }

    /// What the server keeps beside its streams, for tests that want to see what changes.
    #[cfg(debug_assertions)]
    #[must_use]
    pub fn dangerous_store(&self) -> Arc<dyn Kv> {
        Arc::clone(&self.kv)
    }

    /// Answers until something has happened (`tokio::signal::ctrl_c()`), then ends what is under way.
    pub async fn run_until<T>(self, stop: impl Future<Output = T>) {
        let (stopped, stops) = watch::channel(false);
        let run = self.run(stops);
        tokio::pin!(run);
        tokio::select! {
            () = &mut run => return,
            _ = stop => {}
        }
        stopped.send_replace(true);
        run.await;
    }

    /// Answers until `stop` says so, then ends what is under way.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let sweeper =
            tokio::spawn(sweep(self.kv, Arc::clone(&self.streams), Arc::clone(&self.router)));
        let keeper = tokio::spawn(Arc::clone(&self.router.identity).keep());
        let socket = self.socket.map(|(listener, peers)| {
            let pipeline = Arc::clone(&self.router.tools.pipeline);
            let settings = atd::Settings::default().input(self.router.input.clone());
            tokio::spawn(listener.serve(peers, pipeline, settings, stop.clone()))
        });
        connections::serve(self.listener, Arc::clone(&self.router), self.tls, stop).await;
        keeper.abort();
        if let Some(mut socket) = socket
            && tokio::time::timeout(SOCKET_DRAIN_TIME, &mut socket).await.is_err()
        {
            tracing::warn!("calls on the socket were cut that did not end in time");
            socket.abort();
        }
        if tokio::time::timeout(DUPLEX_DRAIN_TIME, self.router.duplex.drained()).await.is_err() {
            tracing::warn!("duplex connections were cut that did not end in time");
        }
        if tokio::time::timeout(CALLS_DRAIN_TIME, self.router.tools.settled()).await.is_err() {
            tracing::warn!("calls were cut that did not end in time");
        }
        if let Some(gateway) = &self.router.tools.gateway {
            gateway.close(std::future::pending()).await;
        }
        sweeper.abort();
        let streams = self.streams;
        let stopped = tokio::task::spawn_blocking(move || streams.stop());
        let _ = stopped.await;
    }
}

/// How long calls on the socket may take to end, once the server stops.
const SOCKET_DRAIN_TIME: Duration = Duration::from_secs(5);

/// How long duplex connections may take to end, once they were told to.
const DUPLEX_DRAIN_TIME: Duration = Duration::from_secs(5);

/// How long calls may take to come to their record whose callers have left.
const CALLS_DRAIN_TIME: Duration = Duration::from_secs(5);

/// How often the store is cleared of what is over.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Rows that are removed at a time: some milliseconds.
const SWEEP_ROWS: usize = 2000;

/// Time for the count of streams that an earlier version wrote, at a time: a tenth of the disk's time.
const COUNT_TIME: Duration = Duration::from_secs(1);

/// Steps of the sweep over commits at a time.
const COMMIT_STEPS: usize = 20;

/// Removes from the disk what was deleted, or has outlived its time.
async fn sweep(kv: Arc<dyn Kv>, streams: Arc<Streams>, router: Arc<Router>) {
    loop {
        let swept = Arc::clone(&router);
        let _ = tokio::task::spawn_blocking(move || swept.tools.sweep(clock::now_ms())).await;
        let swept_streams = Arc::clone(&streams);
        // What fails now is tried again later; the writer notices a store that is broken.
        let _ = tokio::task::spawn_blocking(move || {
            (0..COMMIT_STEPS).try_for_each(|_| swept_streams.sweep_commits().map(drop))
        })
        .await;
        streams.count_stored(COUNT_TIME).await;
        tokio::time::sleep(sweep_values(&kv, clock::now_ms()).await).await;
    }
}

/// The start of the servers behind one on standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Startup {
    /// There is none, none was wanted, or one came up.
    Fine,
    /// One was started, and none ever came up.
    NeverUp,
}

/// Serves MCP on standard input and output, to the user who started this process, until the input
/// ends, or until `stop` says so. Nothing is listened on.
///
/// # Errors
///
/// [`StartError`].
pub async fn serve_stdio(
    mut config: ServerConfig,
    uid: u32,
    mut stop: watch::Receiver<bool>,
) -> Result<Startup, StartError> {
    let server_id = config.server_id.clone().unwrap_or_else(|| config.ring.id().to_string());
    let peers = UnixPeers::new(&server_id)?;
    config.limits = config.limits.of_one_caller();
    let bytes_max = config.limits.body_bytes;
    let (log, kv, keys) = open(&config)?;
    #[cfg(debug_assertions)]
    let (log, kv) = crate::faults::under(log, kv, config.kill_at);
    let time = clock(&config);
    let sealer = Arc::new(Sealer::new(&config.ring, config.tokens.clone())?);
    let parts = ToolParts::of(config, Arc::clone(&kv), keys.data, sealer);
    let tools = Arc::new(Tools::open(parts, &time)?);
    let caller = peers.caller(uid);
    let sweeper = tokio::spawn(sweep_tools(kv, Arc::clone(&tools)));
    let mender = tokio::spawn(mend(log));
    let served = match &tools.gateway {
        None => tokio::select! {
            served = tools.server.clone().for_caller(caller).serve_stdio() => {
                served.map(|()| Startup::Fine).map_err(StartError::from)
            }
            Ok(_) = stop.wait_for(|stop| *stop) => Ok(Startup::Fine),
        },
        Some(gateway) => {
            let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
            let served =
                front::stdio::serve(gateway.clone(), caller, input, output, bytes_max, stop).await;
            if !gateway.is_direct() {
                tell_sums(tools.pipeline.metrics());
            }
            let startup = if gateway.never_came_up() { Startup::NeverUp } else { Startup::Fine };
            served.map(|()| startup).map_err(StartError::from)
        }
    };
    for beside in [sweeper, mender] {
        beside.abort();
        // What it holds of the tools and of the store ends with it.
        let _ = beside.await;
    }
    tools.flush().await;
    served
}

/// How soon a store that does not take writes is opened anew.
const MEND_EVERY: Duration = Duration::from_secs(1);

/// Brings a store back that was broken by a failed write. Where there are streams, their writer does.
async fn mend(log: Arc<dyn Log>) {
    loop {
        tokio::time::sleep(MEND_EVERY).await;
        let broken = Arc::clone(&log);
        // What fails now is tried again later.
        let _ = tokio::task::spawn_blocking(move || broken.recover()).await;
    }
}

/// As [`sweep`], where there are no streams.
async fn sweep_tools(kv: Arc<dyn Kv>, tools: Arc<Tools>) {
    loop {
        let (swept, now) = (Arc::clone(&tools), (tools.time)());
        let _ = tokio::task::spawn_blocking(move || swept.sweep(now)).await;
        tokio::time::sleep(sweep_values(&kv, now).await).await;
    }
}

/// Removes a piece of what has outlived its time; gives how long to wait before the next one.
async fn sweep_values(kv: &Arc<dyn Kv>, now: Millis) -> Duration {
    let this = Arc::clone(kv);
    match tokio::task::spawn_blocking(move || this.sweep(now, SWEEP_ROWS)).await {
        // There may be more.
        Ok(Ok(SWEEP_ROWS..)) => Duration::from_millis(100),
        _ => SWEEP_EVERY,
    }
}

/// Passes on what comes on standard input to a server that runs already, and what it says to standard
/// output, until the input ends, or until `stop` says so. Nothing is kept here: journal, keys and held
/// results are the server's.
///
/// # Errors
///
/// [`StartError`].
pub async fn connect_stdio(
    url: String,
    headers: Vec<(String, String)>,
    stop: watch::Receiver<bool>,
) -> Result<(), StartError> {
    let now = UnixTime::from_secs(clock::now_ms() / 1000);
    // Nothing is sealed under it that leaves this process.
    let ring = KeyRing::generate(&mut rand::rng(), TokenMode::Sealed, now);
    let place = Place::Http { url, headers };
    let options = Options { is_direct: true, ..Options::default() };
    let (name, start, stderr) = ("server".to_owned(), StartLimits::default(), StderrUse::Logged);
    let upstream = Upstream { name, place, is_shared: false, start, stderr };
    let config = ServerConfig::in_memory(ring).upstream(upstream).gateway(options);
    // Who calls is told by the credential, to the server.
    serve_stdio(config, 0, stop).await.map(drop)
}

/// Where the sums of a run are told, by the target of the event.
pub const SUMS: &str = "handback::sums";

/// What there is no endpoint for is told at the end, in one line.
fn tell_sums(metrics: &Metrics) {
    tracing::info!(
        target: SUMS,
        calls = metrics.calls(),
        replays = metrics.replays(),
        joins = metrics.joins(),
        refusals = metrics.refusals(),
        results_held = metrics.held_results.get(),
        bytes_held = metrics.held_result_bytes.get(),
        bytes_given = metrics.given_bytes.get(),
        tokens_saved = metrics.saved_tokens.get(),
        "sums of this run"
    );
}

fn stream_settings(config: &ServerConfig) -> Settings {
    let mut settings = Settings::default();
    settings.share = config.limits.caller_share;
    match config.long_poll {
        Some(time) => settings.long_poll(time),
        None => settings,
    }
}

fn duplex_settings(config: &ServerConfig) -> DuplexSettings {
    let (mut settings, limits) = (DuplexSettings::default(), &config.limits);
    settings.resume_ttl = Duration::from_secs(config.tokens.resume_ttl_s.into());
    settings.connections = Quota::new(limits.websockets as u64, limits.caller_share);
    settings
}

/// The limits of a server, as this system and its callers allow them.
fn limits_of(config: &ServerConfig) -> Limits {
    let limits = match config.identity.is_none() {
        true => config.limits.of_one_caller(),
        false => config.limits,
    };
    let connections = connections::connections_max(limits.connections);
    let websockets = limits.websockets.min(connections);
    Limits { connections, websockets, ..limits }
}

/// What tells the time.
#[cfg(debug_assertions)]
fn clock(config: &ServerConfig) -> Clock {
    let offset = config.clock_offset_ms;
    Arc::new(move || clock::now_ms().saturating_add_signed(offset))
}

/// What tells the time.
#[cfg(not(debug_assertions))]
fn clock(_config: &ServerConfig) -> Clock {
    Arc::new(clock::now_ms)
}

type Opened = (Arc<dyn Log>, Arc<dyn Kv>, StoreKeys);

fn open(config: &ServerConfig) -> Result<Opened, StartError> {
    let mut rng = rand::rng();
    match (&config.store, &config.wrapped) {
        (StoreChoice::Embedded(path), Some(wrapped)) => {
            let keys = keys::load(&config.ring, wrapped, path, &mut rng)?;
            let store = EmbeddedStore::open(path, EmbeddedOptions::new());
            let store = store.map_err(StartError::Store)?;
            // A start writes: it would fail without the numbers.
            store.check_free_space().map_err(StartError::Store)?;
            let store = Arc::new(Encrypted::new(store, &keys.data));
            Ok((Arc::clone(&store) as _, store, keys))
        }
        _ => {
            let store = Arc::new(MemoryStore::new());
            Ok((Arc::clone(&store) as _, store, keys::throw_away(&mut rng)?))
        }
    }
}
