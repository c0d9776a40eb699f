//! Every setting, as it is in the file.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handback_identity::discovery::{FetchUrl, KeySchedule};
use handback_identity::jwt::{Algorithm, DEFAULT_ALGORITHMS, JwtPolicy};
use handback_identity::permissions::{DefaultAccess, Rule};
use handback_identity::{Glob, Permissions};
use handback_page::aql;
use handback_stream::duplex::{self, CHUNK_BYTES_MAX, CREDIT_BYTES};
use handback_stream::{MAX_PAYLOAD_BYTES, atd};
use handback_surface::streams::{COMMAND_BYTES, TargetPattern, WAITING_BYTES_MAX};
use handback_token::{KeyRing, SealerConfig};
use handback_tool::{Rate, RefusalRate, Share};
use serde::{Deserialize, Serialize};

use super::error::FileError;
use super::upstreams::{GatewaySettings, UpstreamSettings};
use super::values::{Host, Origin, Parsed, Scope, Source, Within};
use crate::config::{DEFAULT_LISTEN, ServerConfig, WebhookOptions};
use crate::identity::{IdentityMode, OidcSettings};
use crate::limits::Limits;
use crate::tls::TlsFiles;

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::exhaustive_structs, reason = "flags and variables change what a file said")]
pub struct Settings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// A UNIX socket to listen on as well.
    pub unix_socket: Option<PathBuf>,
    /// The data directory.
    pub data: Option<PathBuf>,
    /// Whether everything is kept in memory.
    pub memory: bool,
    /// The key file.
    pub keys: Option<PathBuf>,
    /// Whether events are signed.
    pub signing: bool,
    /// How long a long poll waits.
    pub long_poll_ms: Within<1, 60_000>,
    /// Other names of this server.
    pub hosts: Vec<Parsed<Host>>,
    /// Origins whose pages may ask.
    pub origins: Vec<Parsed<Origin>>,
    /// Where the audit goes.
    pub audit: Option<PathBuf>,
    /// Whether the demo is shown.
    pub demo: Option<bool>,
    /// `[tls]`.
    pub tls: TlsSettings,
    /// `[identity]`.
    pub identity: IdentitySettings,
    /// `[permissions]`.
    pub permissions: PermissionSettings,
    /// `[limits]`.
    pub limits: LimitSettings,
    /// `[held]`.
    pub held: HeldSettings,
    /// `[tokens]`.
    pub tokens: TokenSettings,
    /// `[pages]`.
    pub pages: PageSettings,
    /// `[collections]`: where each comes from, as `--collection` takes it.
    pub collections: BTreeMap<String, Source>,
    /// `[mcp]`.
    pub mcp: McpSettings,
    /// `[webhooks]`.
    pub webhooks: WebhookSettings,
    /// `[upstreams]`.
    pub upstreams: BTreeMap<String, UpstreamSettings>,
    /// `[gateway]`.
    pub gateway: GatewaySettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: DEFAULT_LISTEN,
            unix_socket: None,
            data: None,
            memory: false,
            keys: None,
            signing: true,
            long_poll_ms: Within::of::<15_000>(),
            hosts: Vec::new(),
            origins: Vec::new(),
            audit: None,
            demo: None,
            tls: TlsSettings::default(),
            identity: IdentitySettings::default(),
            permissions: PermissionSettings::default(),
            limits: LimitSettings::default(),
            held: HeldSettings::default(),
            tokens: TokenSettings::default(),
            pages: PageSettings::default(),
            collections: BTreeMap::new(),
            mcp: McpSettings::default(),
            webhooks: WebhookSettings::default(),
            upstreams: BTreeMap::new(),
            gateway: GatewaySettings::default(),
        }
    }
}

/// `[tls]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct TlsSettings {
    /// The certificate.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

/// `[identity]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct IdentitySettings {
    /// Which of the modes.
    pub mode: IdentityName,
    /// What this server is called in the identities that it makes itself.
    pub server_id: Option<String>,
    /// `[identity.static]`.
    #[serde(rename = "static")]
    pub file: StaticFileSettings,
    /// `[identity.oidc]`.
    pub oidc: OidcFileSettings,
}

/// How callers are identified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum IdentityName {
    /// Not at all.
    #[default]
    None,
    /// By bearer tokens from a file.
    Static,
    /// By access tokens of an issuer.
    Oidc,
}

/// `[identity.static]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StaticFileSettings {
    /// The file of bearer tokens.
    pub file: Option<PathBuf>,
}

/// `[identity.oidc]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct OidcFileSettings {
    /// The issuer.
    pub issuer: Option<String>,
    /// What this server is called as a protected resource.
    pub resource: Option<Parsed<FetchUrl>>,
    /// What must be in the audience of tokens.
    pub audiences: Vec<String>,
    /// With which algorithms tokens may be signed.
    pub algorithms: Vec<Parsed<Algorithm>>,
    /// How far clocks may differ.
    pub skew_s: Within<0, 600>,
    /// The `typ` that tokens must have.
    pub required_type: Option<String>,
    /// Where the keys are.
    pub jwks_uri: Option<Parsed<FetchUrl>>,
    /// Certificate authorities to believe.
    pub ca_file: Option<PathBuf>,
    /// The scopes that clients are told of.
    pub scopes: Vec<Parsed<Scope>>,
    /// How long keys are kept before they are fetched again.
    pub refresh_s: Within<1, 86_400>,
    /// How long it takes at least until they are fetched once more.
    pub min_refresh_s: Within<1, 3_600>,
}

impl Default for OidcFileSettings {
    fn default() -> Self {
        Self {
            issuer: None,
            resource: None,
            audiences: Vec::new(),
            algorithms: DEFAULT_ALGORITHMS.map(Parsed::from).to_vec(),
            skew_s: Within::of::<60>(),
            required_type: None,
            jwks_uri: None,
            ca_file: None,
            scopes: Vec::new(),
            refresh_s: Within::of::<900>(),
            min_refresh_s: Within::of::<30>(),
        }
    }
}

/// `[permissions]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PermissionSettings {
    /// Who may use what no rule speaks of.
    pub default: Option<AccessName>,
    /// The rules.
    pub rules: Vec<RuleSettings>,
}

/// Who may use what no rule speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AccessName {
    /// Every caller that is let in.
    Identified,
    /// Nobody.
    Nobody,
}

/// `[[permissions.rules]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RuleSettings {
    /// Tools that are allowed.
    pub allow: Vec<Parsed<Glob>>,
    /// Tools that are denied.
    pub deny: Vec<Parsed<Glob>>,
    /// To whom.
    pub subjects: Vec<Parsed<Glob>>,
    /// Of which issuers.
    pub issuers: Vec<Parsed<Glob>>,
    /// With which scopes.
    pub scopes: Vec<Parsed<Scope>>,
}

/// `[limits]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LimitSettings {
    /// Bytes of the body of a request.
    pub body_bytes: Within<1_024, 67_108_864>,
    /// Bytes of the headers of a request.
    pub header_bytes: Within<1_024, 65_536>,
    /// Connections at a time.
    pub connections: Within<1, 1_000_000>,
    /// One identified caller may use one part in this many of each limit for all callers.
    pub caller_share: Within<1, 1_000>,
    /// Bytes of requests and frames that have begun to arrive and are not complete.
    pub input_bytes: Within<1_048_576, 4_294_967_295>,
    /// WebSocket connections of all callers.
    pub websockets: Within<1, 1_000_000>,
    /// Event streams of all callers.
    pub event_streams: Within<1, 1_000_000>,
    /// Streams of all callers.
    pub streams: Within<1, 100_000_000>,
    /// Stored bytes of the streams of all callers, in MiB.
    pub stream_mib: Within<1, 1_073_741_824>,
    /// Sessions of older MCP clients, of all callers.
    pub sessions: Within<1, 1_000_000>,
    /// Programs that are started for single callers, of all callers.
    pub programs: Within<1, 100_000>,
    /// Refused calls per second that the audit has lines of.
    pub audit_refusals_per_second: Within<1, 1_000_000>,
    /// Size of a file of the audit, in MiB.
    pub audit_file_mib: Within<1, 1_048_576>,
    /// Full files of the audit that are kept.
    pub audit_files: Within<1, 10_000>,
    /// Subscriptions of streams of all callers.
    pub subscriptions: Within<1, 1_000_000>,
    /// Bytes of these subscriptions.
    pub subscription_bytes: Within<65_536, 4_294_967_295>,
    /// Calls in flight of one caller.
    pub calls_per_caller: Within<1, 100_000>,
    /// Calls of one caller per second, in the long run.
    pub calls_per_second: Within<1, 1_000_000>,
    /// Calls of one caller at once, after a pause.
    pub calls_burst: Within<1, 10_000_000>,
    /// How long a call may take.
    pub call_time_s: Within<1, 86_400>,
    /// How deep JSON may be nested.
    pub json_depth: Within<1, 128>,
    /// Bytes of a result of a tool.
    pub result_bytes: Within<65_536, 4_294_967_295>,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            body_bytes: Within::of::<4_194_304>(),
            header_bytes: Within::of::<16_384>(),
            connections: Within::of::<10_000>(),
            caller_share: Within::of::<{ Share::ONE_IN }>(),
            input_bytes: Within::of::<268_435_456>(),
            websockets: Within::of::<4_096>(),
            event_streams: Within::of::<4_096>(),
            streams: Within::of::<800_000>(),
            stream_mib: Within::of::<65_536>(),
            sessions: Within::of::<800>(),
            programs: Within::of::<256>(),
            audit_refusals_per_second: Within::of::<{ RefusalRate::PER_SECOND }>(),
            audit_file_mib: Within::of::<64>(),
            audit_files: Within::of::<8>(),
            subscriptions: Within::of::<10_000>(),
            subscription_bytes: Within::of::<134_217_728>(),
            calls_per_caller: Within::of::<64>(),
            calls_per_second: Within::of::<{ Rate::PER_SECOND }>(),
            calls_burst: Within::of::<{ Rate::BURST }>(),
            call_time_s: Within::of::<120>(),
            json_depth: Within::of::<32>(),
            result_bytes: Within::of::<268_435_456>(),
        }
    }
}

/// `[held]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct HeldSettings {
    /// Bytes that are held for one caller.
    pub bytes_per_caller: Within<1_048_576, 4_294_967_295>,
    /// How long something is held without being used.
    pub idle_s: Within<1, 604_800>,
    /// How long something is held at most.
    pub longest_s: Within<1, 604_800>,
}

impl Default for HeldSettings {
    fn default() -> Self {
        Self {
            bytes_per_caller: Within::of::<268_435_456>(),
            idle_s: Within::of::<3_600>(),
            longest_s: Within::of::<86_400>(),
        }
    }
}

/// `[tokens]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct TokenSettings {
    /// How long cursors live.
    pub cursor_ttl_s: Within<1, 86_400>,
    /// How long request state lives.
    pub state_ttl_s: Within<1, 3_600>,
    /// How long resume tokens live.
    pub resume_ttl_s: Within<1, 7_200>,
    /// What they are bound to besides.
    pub audience: Option<String>,
}

impl Default for TokenSettings {
    fn default() -> Self {
        Self {
            cursor_ttl_s: Within::of::<900>(),
            state_ttl_s: Within::of::<300>(),
            resume_ttl_s: Within::of::<900>(),
            audience: None,
        }
    }
}

/// `[pages]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PageSettings {
    /// Items of a page when no number is asked for.
    pub default_size: Within<1, 1_000>,
    /// Items of a page at most.
    pub max_size: Within<1, 1_000>,
    /// What `page_preset` may name.
    pub presets: BTreeMap<String, PresetSettings>,
}

impl Default for PageSettings {
    fn default() -> Self {
        let (default_size, max_size) = (Within::of::<20>(), Within::of::<100>());
        Self { default_size, max_size, presets: BTreeMap::new() }
    }
}

/// `[pages.presets.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PresetSettings {
    /// Items of a page.
    pub size: Option<Within<1, 1_000>>,
    /// Whether all items are counted.
    pub total: Option<bool>,
    /// Whether each item has its cursor.
    pub edges: Option<bool>,
}

/// `[webhooks]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WebhookSettings {
    /// Targets of deliveries.
    pub targets: Vec<Parsed<TargetPattern>>,
    /// Certificate authorities of targets over TLS.
    pub ca_file: Option<PathBuf>,
}

/// `[mcp]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct McpSettings {
    /// How collections are offered as tools.
    pub tools: McpTools,
}

/// How collections are offered as tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum McpTools {
    /// One tool for each kind of operation.
    #[default]
    Semantic,
    /// One tool for all.
    Single,
    /// Both.
    All,
}

impl Settings {
    /// Whether the demo is shown: if nobody says so, where there is nothing else to show.
    #[must_use]
    pub fn shows_demo(&self) -> bool {
        let shows_nothing = self.collections.is_empty() && self.upstreams.is_empty();
        self.demo.unwrap_or(shows_nothing && !self.memory)
    }

    /// What a server is started with. Checks what depends on more than one key.
    ///
    /// # Errors
    ///
    /// [`FileError::Together`] if keys do not go together.
    pub fn server_config(
        &self,
        ring: KeyRing,
        data: Option<PathBuf>,
    ) -> Result<ServerConfig, FileError> {
        self.check()?;
        let config = match data {
            Some(folder) => ServerConfig::new(ring, folder),
            None => ServerConfig::in_memory(ring),
        };
        let mut config = config
            .listen(self.listen)
            .signing(self.signing)
            .long_poll(Duration::from_millis(self.long_poll_ms.get().into()))
            .identity(self.identity_mode()?)
            .permissions(self.permissions()?)
            .limits(self.limits())
            .tokens(self.tokens())
            .webhooks(WebhookOptions {
                targets: self.webhooks.targets.iter().map(|t| t.get().clone()).collect(),
                ca_file: self.webhooks.ca_file.clone(),
            });
        if let Some(files) = self.tls_files()? {
            config = config.tls(files);
        }
        if let Some(id) = &self.identity.server_id {
            config = config.server_id(id);
        }
        if let Some(file) = &self.audit {
            config = config.audit(file.clone());
        }
        if let Some(socket) = &self.unix_socket {
            config = config.socket(socket.clone());
        }
        config = self.origins.iter().fold(config, |config, o| config.origin(o.get().to_string()));
        Ok(self.hosts.iter().fold(config, |config, host| config.host(host.get().to_string())))
    }

    /// Checks what depends on more than one key.
    ///
    /// # Errors
    ///
    /// [`FileError::Together`] if keys do not go together.
    pub fn check(&self) -> Result<(), FileError> {
        self.tls_files()?;
        let mode = self.identity_mode()?;
        let _ = self.permissions()?;
        self.page_settings()?;
        self.gateway_options()?;
        if self.held.idle_s.get() > self.held.longest_s.get() {
            return Err(FileError::together("held.idle_s", "it is longer than longest_s"));
        }
        let limits = self.limits();
        check_input(&limits, mode.is_none(), self.unix_socket.is_some())?;
        if !mode.is_none() {
            check_appends(&limits)?;
        }
        if self.memory && self.data.is_some() {
            return Err(FileError::together(
                "memory",
                "what is kept in memory has no data directory",
            ));
        }
        if self.identity.server_id.as_ref().is_some_and(|id| id.is_empty() || id.contains('\0')) {
            return Err(FileError::together("identity.server_id", "it is empty, or has a NUL"));
        }
        if !self.listen.ip().is_loopback() {
            if mode.is_none() {
                let why = "without identities the server listens on loopback addresses only";
                return Err(FileError::together("listen", why));
            }
            if self.hosts.is_empty() {
                let why = "others reach this address: name the hosts by which they ask";
                return Err(FileError::together("hosts", why));
            }
        }
        Ok(())
    }

    /// The rules about tools.
    ///
    /// # Errors
    ///
    /// [`FileError::Together`] if a rule says nothing.
    pub fn permissions(&self) -> Result<Permissions, FileError> {
        let mut rules = Vec::new();
        for rule in &self.permissions.rules {
            if rule.allow.is_empty() && rule.deny.is_empty() {
                let why = "a rule has tools to allow or to deny";
                return Err(FileError::together("permissions.rules", why));
            }
            let globs = |globs: &[Parsed<Glob>]| {
                globs.iter().map(|glob| glob.get().clone()).collect::<Vec<_>>()
            };
            let narrowed = |made: Rule| {
                let scopes = rule.scopes.iter().map(|scope| scope.get().to_string());
                made.subjects(globs(&rule.subjects)).issuers(globs(&rule.issuers)).scopes(scopes)
            };
            if !rule.allow.is_empty() {
                rules.push(narrowed(Rule::allow(globs(&rule.allow))));
            }
            if !rule.deny.is_empty() {
                rules.push(narrowed(Rule::deny(globs(&rule.deny))));
            }
        }
        let permissions = Permissions::new(rules);
        Ok(match self.permissions.default {
            None => permissions,
            Some(AccessName::Identified) => permissions.with_default(DefaultAccess::Identified),
            Some(AccessName::Nobody) => permissions.with_default(DefaultAccess::Nobody),
        })
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let LimitSettings {
            body_bytes,
            header_bytes,
            connections,
            caller_share,
            input_bytes,
            websockets,
            event_streams,
            streams,
            stream_mib,
            sessions,
            programs,
            audit_refusals_per_second,
            audit_file_mib,
            audit_files,
            subscriptions,
            subscription_bytes,
            calls_per_caller,
            calls_per_second,
            calls_burst,
            call_time_s,
            json_depth,
            result_bytes,
        } = &self.limits;
        let HeldSettings { bytes_per_caller, idle_s, longest_s } = &self.held;
        Limits {
            body_bytes: body_bytes.size(),
            header_bytes: header_bytes.size(),
            connections: connections.size(),
            caller_share: Share::one_in(caller_share.get()),
            input_bytes: input_bytes.get().into(),
            websockets: websockets.size(),
            event_streams: event_streams.size(),
            streams: streams.get().into(),
            stream_bytes: u64::from(stream_mib.get()) << 20,
            sessions: sessions.size(),
            programs: programs.size(),
            audit_refusals: audit_refusals_per_second.get(),
            audit_file_bytes: u64::from(audit_file_mib.get()) << 20,
            audit_files: audit_files.get(),
            subscriptions: subscriptions.get().into(),
            subscription_bytes: subscription_bytes.get().into(),
            calls_per_caller: calls_per_caller.size(),
            call_rate: Rate { per_second: calls_per_second.get(), burst: calls_burst.get() },
            call_time: Duration::from_secs(call_time_s.get().into()),
            json_depth: json_depth.size(),
            result_bytes: result_bytes.size(),
            held_bytes_per_caller: bytes_per_caller.get().into(),
            held_idle: Duration::from_secs(idle_s.get().into()),
            held_longest: Duration::from_secs(longest_s.get().into()),
        }
    }

    /// How long tokens live.
    #[must_use]
    pub fn tokens(&self) -> SealerConfig {
        SealerConfig {
            audience: self.tokens.audience.clone(),
            cursor_ttl_s: self.tokens.cursor_ttl_s.get(),
            state_ttl_s: self.tokens.state_ttl_s.get(),
            resume_ttl_s: self.tokens.resume_ttl_s.get(),
        }
    }

    /// How collections are paged, and offered as tools.
    ///
    /// # Errors
    ///
    /// [`FileError::Together`] if sizes do not go together.
    pub fn page_settings(&self) -> Result<aql::Settings, FileError> {
        let PageSettings { default_size, max_size, presets } = &self.pages;
        let is_larger = |size: usize| size > max_size.size();
        if is_larger(default_size.size()) {
            return Err(FileError::together("pages.default_size", "it is larger than max_size"));
        }
        let sizes = presets.values().filter_map(|preset| preset.size);
        if sizes.map(Within::size).any(is_larger) {
            return Err(FileError::together("pages.presets", "a size is larger than max_size"));
        }
        let preset = |preset: &PresetSettings| aql::PagePreset {
            page_size: preset.size.map(Within::size),
            include_total: preset.total,
            include_edges: preset.edges,
        };
        Ok(aql::Settings {
            default_page_size: default_size.size(),
            max_page_size: max_size.size(),
            presets: presets.iter().map(|(name, set)| (name.clone(), preset(set))).collect(),
            mode: match self.mcp.tools {
                McpTools::Semantic => aql::Mode::Semantic,
                McpTools::Single => aql::Mode::Single,
                McpTools::All => aql::Mode::All,
            },
            ..aql::Settings::default()
        })
    }

    /// How callers are identified.
    ///
    /// # Errors
    ///
    /// [`FileError::Together`] if the mode lacks what it needs.
    pub fn identity_mode(&self) -> Result<IdentityMode, FileError> {
        match self.identity.mode {
            IdentityName::None => Ok(IdentityMode::None),
            IdentityName::Static => match &self.identity.file.file {
                Some(file) => Ok(IdentityMode::Static { file: file.clone() }),
                None => Err(FileError::together("identity.static.file", "mode static needs it")),
            },
            IdentityName::Oidc => self.oidc().map(|oidc| IdentityMode::Oidc(Box::new(oidc))),
        }
    }

    fn oidc(&self) -> Result<OidcSettings, FileError> {
        let oidc = &self.identity.oidc;
        let needs = |key| FileError::together(key, "mode oidc needs it");
        let issuer = oidc.issuer.clone().ok_or_else(|| needs("identity.oidc.issuer"))?;
        let resource = oidc.resource.as_ref().ok_or_else(|| needs("identity.oidc.resource"))?;
        let jwks_uri = oidc.jwks_uri.as_ref().map(|url| url.get().clone());
        if jwks_uri.is_none()
            && let Err(error) = handback_identity::discovery::metadata_urls(&issuer)
        {
            return Err(FileError::together("identity.oidc.issuer", error.to_string()));
        }
        let audiences = match oidc.audiences.as_slice() {
            [] => vec![resource.get().to_string()],
            audiences => audiences.to_vec(),
        };
        let refused = |error: handback_identity::jwt::PolicyError| {
            FileError::together("identity.oidc", error.to_string())
        };
        let mut policy = JwtPolicy::new(&issuer, audiences)
            .and_then(|policy| policy.with_algorithms(oidc.algorithms.iter().map(|a| *a.get())))
            .and_then(|policy| policy.with_skew(oidc.skew_s.get().into()))
            .map_err(refused)?;
        if let Some(typ) = &oidc.required_type {
            policy = policy.with_required_type(typ).map_err(refused)?;
        }
        Ok(OidcSettings {
            issuer,
            policy,
            resource: resource.get().clone(),
            jwks_uri,
            ca_file: oidc.ca_file.clone(),
            scopes: oidc.scopes.iter().map(|scope| scope.get().to_string()).collect(),
            schedule: KeySchedule {
                min_interval_s: oidc.min_refresh_s.get().into(),
                refresh_after_s: oidc.refresh_s.get().into(),
            },
        })
    }

    fn tls_files(&self) -> Result<Option<TlsFiles>, FileError> {
        match (&self.tls.certificate, &self.tls.key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => {
                Ok(Some(TlsFiles { certificate: certificate.clone(), key: key.clone() }))
            }
            (Some(_), None) => Err(FileError::together("tls.key", "a certificate needs its key")),
            (None, Some(_)) => {
                Err(FileError::together("tls.certificate", "a key needs its certificate"))
            }
        }
    }

    /// Makes paths that are relative to the file's folder what they are to this process.
    pub(super) fn resolve(&mut self, folder: &Path) {
        let paths = [
            &mut self.unix_socket,
            &mut self.data,
            &mut self.keys,
            &mut self.audit,
            &mut self.tls.certificate,
            &mut self.tls.key,
            &mut self.identity.file.file,
            &mut self.identity.oidc.ca_file,
            &mut self.webhooks.ca_file,
        ];
        for path in paths.into_iter().flatten() {
            *path = folder.join(&path);
        }
        for upstream in self.upstreams.values_mut() {
            upstream.resolve(folder);
        }
        for source in self.collections.values_mut() {
            let text = source.as_str();
            if let Some((kind, rest)) = text.split_once(':')
                && !rest.starts_with("//")
                && !rest.starts_with('/')
            {
                let file = folder.join(rest);
                let joined = format!("{kind}:{}", file.display());
                source.replace(joined);
            }
        }
    }
}

/// Checks that the largest request and the largest frame fit into a caller's share of unfinished input.
fn check_input(limits: &Limits, is_one_caller: bool, has_socket: bool) -> Result<(), FileError> {
    let share = if is_one_caller { Share::WHOLE } else { limits.caller_share };
    let share = share.of(limits.input_bytes);
    let frame = if has_socket { atd::MAX_FRAME_BYTES } else { 0 };
    let parts = [
        (limits.body_bytes, "limits.body_bytes"),
        (duplex::FRAME_BYTES_MAX, "a frame of a WebSocket may have (1 MiB)"),
        (frame, "a frame of the UNIX socket may have (10 MiB)"),
    ];
    match parts.into_iter().find(|(bytes, _)| share < *bytes as u64) {
        None => Ok(()),
        Some((_, what)) => {
            let why = format!("a caller's share of it is less than {what}");
            Err(FileError::together("limits.input_bytes", why))
        }
    }
}

/// Checks that the largest append fits into a caller's share of the bytes that wait to be written.
fn check_appends(limits: &Limits) -> Result<(), FileError> {
    let share = limits.caller_share.of(WAITING_BYTES_MAX as u64);
    let append = limits.body_bytes.min(MAX_PAYLOAD_BYTES) + COMMAND_BYTES;
    if share < append as u64 {
        let why = "a caller's share of the 64 MiB that may wait to be written is less than an append \
                   with limits.body_bytes (4 MiB at most)";
        return Err(FileError::together("limits.caller_share", why));
    }
    // A connection takes chunks up to its credit, and perhaps a whole chunk more.
    if share < u64::from(CREDIT_BYTES) + CHUNK_BYTES_MAX as u64 {
        let why = "a caller's share of the 64 MiB that may wait to be written is less than the chunks \
                   of one duplex (512 KiB)";
        return Err(FileError::together("limits.caller_share", why));
    }
    Ok(())
}
