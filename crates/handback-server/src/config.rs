//! What a server is configured with. Everything here is already valid.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use handback_gateway::options as gateway;
use handback_gateway::upstream::{Place, Spec, StartLimits, StderrUse};
use handback_identity::Permissions;
use handback_page::aql::{self, Catalog};
use handback_surface::streams::TargetPattern;
use handback_token::ring::source::{AtdKeyUse, LoadRingError, LoadedRing, Sources};
use handback_token::{KeyRing, Mode, SealerConfig, UnixTime};
use handback_tool::{MAX_RESULT_BYTES, Registry, RegistryError, Tool};
use percent_encoding::percent_decode_str;

use crate::clock;
use crate::identity::IdentityMode;
use crate::limits::Limits;
use crate::tls::TlsFiles;

/// Where a server listens unless told otherwise: this machine only.
pub const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8420);

/// Where streams live.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreChoice {
    /// In a directory of this machine.
    Embedded(PathBuf),
    /// Nowhere: what is acknowledged is lost when the process ends.
    Memory,
}

/// A server to stand before.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// Whether all callers share one connection of the older era, on which it cannot ask them
    /// anything.
    pub is_shared: bool,
    /// Limits of the start.
    pub start: StartLimits,
    /// Use of what a program writes to its standard error.
    pub stderr: StderrUse,
}

/// Targets of the webhooks of subscriptions.
#[derive(Clone, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct WebhookOptions {
    /// Targets. Without any, there are no webhooks where callers are identified; elsewhere every target
    /// on this machine is one.
    pub targets: Vec<TargetPattern>,
    /// Certificate authorities for targets over TLS, instead of those of this machine.
    pub ca_file: Option<PathBuf>,
}

/// What a server is configured with.
#[derive(Debug)]
#[must_use]
pub struct ServerConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) store: StoreChoice,
    pub(crate) ring: KeyRing,
    /// Where the keys of the store are kept, wrapped under the ring.
    pub(crate) wrapped: Option<PathBuf>,
    pub(crate) signing: bool,
    pub(crate) long_poll: Option<Duration>,
    pub(crate) origins: Vec<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) identity: IdentityMode,
    pub(crate) permissions: Permissions,
    pub(crate) server_id: Option<String>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) limits: Limits,
    pub(crate) webhooks: WebhookOptions,
    pub(crate) tokens: SealerConfig,
    pub(crate) registry: Registry,
    pub(crate) collections: Option<(Catalog, aql::Settings)>,
    pub(crate) upstreams: Vec<Spec>,
    /// Variables that none of them gets.
    withheld: Vec<String>,
    pub(crate) gateway: gateway::Options,
    pub(crate) audit: Option<PathBuf>,
    pub(crate) socket: Option<PathBuf>,
    #[cfg(debug_assertions)]
    pub(crate) kill_at: Option<crate::KillPoint>,
    #[cfg(debug_assertions)]
    pub(crate) clock_offset_ms: i64,
}

impl ServerConfig {
    /// A server that keeps everything in a data directory, its key ring (`keys.json`) as well. Both
    /// are made if they are not there. The environment says nothing here.
    ///
    /// # Errors
    ///
    /// [`LoadRingError`] if the ring cannot be read or made.
    pub fn open(data: impl Into<PathBuf>) -> Result<Self, LoadRingError> {
        let data = data.into();
        let sources = Sources {
            key_file: None,
            environment: &|_| None,
            atd_key: AtdKeyUse::Ring,
            data_directory: Some(&data),
            mode: Mode::Sealed,
        };
        let now = UnixTime::from_secs(clock::now_ms() / 1000);
        let ring = LoadedRing::load(&sources, &mut rand::rng(), now)?.ring;
        Ok(Self::new(ring, data))
    }

    /// A server with the streams of a data directory.
    pub fn new(ring: KeyRing, data: PathBuf) -> Self {
        let wrapped = Some(data.join("wrapped"));
        with_store(ring, StoreChoice::Embedded(data.join("store")), wrapped)
    }

    /// A server that forgets everything when it stops.
    pub fn in_memory(ring: KeyRing) -> Self {
        with_store(ring, StoreChoice::Memory, None)
    }

    /// Listens there.
    pub const fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Whether commits are signed.
    pub const fn signing(mut self, signing: bool) -> Self {
        self.signing = signing;
        self
    }

    /// How long a long poll waits.
    pub const fn long_poll(mut self, time: Duration) -> Self {
        self.long_poll = Some(time);
        self
    }

    /// Lets pages of this origin ask.
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Is known by this name and port as well.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Identifies callers so.
    pub fn identity(mut self, mode: IdentityMode) -> Self {
        self.identity = mode;
        self
    }

    /// Has one more tool, prompt or resource.
    ///
    /// # Errors
    ///
    /// [`RegistryError`] if its name or its schema is none, or there is another one of the name.
    pub fn tool<T: Tool>(mut self, tool: T) -> Result<Self, RegistryError> {
        self.registry.add(tool)?;
        Ok(self)
    }

    /// Has these tools, prompts and resources, and no others.
    pub fn tools(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Offers these collections as tools.
    pub fn collections(mut self, catalog: Catalog, settings: aql::Settings) -> Self {
        self.collections = Some((catalog, settings));
        self
    }

    /// Stands before this server as well.
    pub fn upstream(mut self, upstream: Upstream) -> Self {
        let Upstream { name, place, is_shared, start, stderr } = upstream;
        let spool = match &self.store {
            StoreChoice::Embedded(path) => path.with_file_name("spool"),
            StoreChoice::Memory => std::env::temp_dir(),
        };
        self.upstreams.push(Spec {
            name,
            place: with_authorization(place),
            time_limit: gateway::TIME_LIMIT,
            answer_bytes_max: MAX_RESULT_BYTES as u64,
            memory_bytes_max: gateway::MEMORY_BYTES_MAX,
            spool,
            is_shared,
            withheld: self.withheld.clone(),
            passes_marks: false,
            start,
            stderr,
        });
        self
    }

    /// Keeps these variables of this process from all servers that it starts by a command, before
    /// and after this, unless they are in what is added to the environment of one.
    pub fn withhold(mut self, variables: Vec<String>) -> Self {
        for upstream in &mut self.upstreams {
            upstream.withheld.extend(variables.iter().cloned());
        }
        self.withheld.extend(variables);
        self
    }

    /// Treats what such servers give in this way.
    pub fn gateway(mut self, options: gateway::Options) -> Self {
        self.gateway = options;
        self
    }

    /// Writes who called what, and how it ended, to the end of this file.
    pub fn audit(mut self, file: PathBuf) -> Self {
        self.audit = Some(file);
        self
    }

    /// Takes calls of tools on a UNIX socket as well.
    pub fn socket(mut self, path: PathBuf) -> Self {
        self.socket = Some(path);
        self
    }

    /// Has these rules about tools.
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// Is this server to the identities that it makes itself, of bearer tokens from a file and of
    /// peers of a socket. Without it, the id of the key ring is.
    pub fn server_id(mut self, id: impl Into<String>) -> Self {
        self.server_id = Some(id.into());
        self
    }

    /// Speaks TLS.
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// Has other limits.
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Delivers webhooks to these targets.
    pub fn webhooks(mut self, options: WebhookOptions) -> Self {
        self.webhooks = options;
        self
    }

    /// Makes tokens that live so long.
    pub fn tokens(mut self, tokens: SealerConfig) -> Self {
        self.tokens = tokens;
        self
    }

    /// Kills itself there.
    #[cfg(debug_assertions)]
    pub const fn dangerous_kill_at(mut self, point: crate::KillPoint) -> Self {
        self.kill_at = Some(point);
        self
    }

    /// Has a clock that is ahead by so much, or behind.
    #[cfg(debug_assertions)]
    pub const fn dangerous_clock_offset_ms(mut self, offset: i64) -> Self {
        self.clock_offset_ms = offset;
        self
    }
}

fn with_store(ring: KeyRing, store: StoreChoice, wrapped: Option<PathBuf>) -> ServerConfig {
    ServerConfig {
        listen: DEFAULT_LISTEN,
        wrapped,
        store,
        ring,
        signing: true,
        long_poll: None,
        origins: Vec::new(),
        hosts: Vec::new(),
        identity: IdentityMode::None,
        permissions: Permissions::default(),
        server_id: None,
        tls: None,
        limits: Limits::default(),
        webhooks: WebhookOptions::default(),
        tokens: SealerConfig::default(),
        registry: Registry::new(),
        collections: None,
        upstreams: Vec::new(),
        withheld: Vec::new(),
        gateway: gateway::Options::default(),
        audit: None,
        socket: None,
        #[cfg(debug_assertions)]
        kill_at: None,
        #[cfg(debug_assertions)]
        clock_offset_ms: 0,
    }
}

/// User information of a URL, as the header that says it to the server: in an address it is not sent. A
/// header that was given goes before it.
fn with_authorization(place: Place) -> Place {
    let Place::Http { url, mut headers } = place else { return place };
    let Some((scheme, rest)) = url.split_once("://") else { return Place::Http { url, headers } };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let Some((user, host)) = authority.rsplit_once('@') else {
        return Place::Http { url, headers };
    };
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
        let mut said: Vec<u8> = percent_decode_str(user).collect();
        if !user.contains(':') {
            said.push(b':');
        }
        headers.push(("Authorization".to_owned(), format!("Basic {}", STANDARD.encode(said))));
    }
    Place::Http { url: format!("{scheme}://{host}{path}"), headers }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_information_goes_in_a_header() {
        let made = |url: &str, headers: &[(&str, &str)]| {
            let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let place = Place::Http { url: url.to_owned(), headers: headers.collect() };
            let Place::Http { url, headers } = with_authorization(place) else { panic!("a URL") };
            (url, headers)
        };
        let basic = |value: &str| vec![("Authorization".to_owned(), value.to_owned())];
        for (url, sent, value) in [
            ("http://user:pw@h:1/mcp?a=b@c", "http://h:1/mcp?a=b@c", "Basic dXNlcjpwdw=="),
            ("https://us%40er:p%3aw@h", "https://h", "Basic dXNAZXI6cDp3"),
            ("http://key@h?x", "http://h?x", "Basic a2V5Og=="),
        ] {
            assert_eq!(made(url, &[]), (sent.to_owned(), basic(value)), "{url}");
        }
        for url in ["http://h/mcp", "http://h/@x", "http://h?q=a@b"] {
            assert_eq!(made(url, &[]), (url.to_owned(), Vec::new()));
        }
        let (url, headers) = made("http://user:pw@h/", &[("authorization", "Bearer k")]);
        assert_eq!(url, "http://h/");
        assert_eq!(headers, [("authorization".to_owned(), "Bearer k".to_owned())]);
    }
}
