//! Tools: the pipeline, what it stands on, and the surfaces that it has.

use std::collections::HashSet;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handback_gateway::front::http::HttpFront;
use handback_gateway::gateway::UPSTREAMS_MAX;
use handback_gateway::retry::Retries;
use handback_gateway::upstream::{Spec, check_name};
use handback_gateway::{Gateway, Options};
use handback_identity::Permissions;
use handback_mcp::seal::EventIds;
use handback_mcp::server::HELD_RESULTS_EXTENSION;
use handback_mcp::server::tasks::Tasks;
use handback_mcp::{About, Front, FrontOptions, McpServer, Stores};
use handback_page::aql::{self, Catalog};
use handback_store::held::{HeldError, HeldOptions, HeldStore};
use handback_store::journal::{InstanceId, Journal, JournalError};
use handback_store::revocations::RevocationError;
use handback_store::sessions::SessionOptions;
use handback_store::{Change, Condition, DataKey, Kv, KvBatch, KvError, Millis, StoreError};
use handback_token::Sealer;
use handback_tool::audit::{AuditSink, JsonLines, NoAudit};
use handback_tool::{
    CallHeld, CallJournal, Clock, Gate, LimitedRefusals, Pipeline, PipelineParts, Quota, Rate,
    RefusalRate, Registry, RevocationWatch, Share,
};
use rand::RngExt as _;

use crate::aql_tools::{self, AqlError, AqlParts};
use crate::audit_file::AuditFile;
use crate::config::{ServerConfig, StoreChoice};
use crate::limits::Limits;

/// What tells the time.
pub(crate) type Time = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Rows that are settled or removed at a time.
const ROWS: usize = 1_000;

/// Where the id of this instance is kept.
const INSTANCE_KEY: &[u8] = b"server/instance";

/// What tools need.
#[derive(Debug)]
pub(crate) struct ToolParts {
    pub(crate) registry: Registry,
    pub(crate) collections: Option<(Catalog, aql::Settings)>,
    pub(crate) upstreams: Vec<Spec>,
    pub(crate) gateway: Options,
    pub(crate) permissions: Permissions,
    pub(crate) kv: Arc<dyn Kv>,
    pub(crate) key: DataKey,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) in_flight_max: usize,
    pub(crate) rate: Rate,
    pub(crate) limits: Limits,
    pub(crate) held_folder: Option<PathBuf>,
    pub(crate) audit: Option<PathBuf>,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
}

impl ToolParts {
    /// What a configuration says of tools.
    pub(crate) fn of(
        config: ServerConfig,
        kv: Arc<dyn Kv>,
        key: DataKey,
        sealer: Arc<Sealer>,
    ) -> Self {
        let mut catalogs = config.collections.iter().map(|(catalog, _)| catalog);
        let has_collections = catalogs.any(|catalog| catalog.names().next().is_some());
        Self {
            registry: config.registry,
            // What a gateway holds is read with the tools of collections, also if there are none.
            collections: config.collections.or_else(|| {
                let reads = !config.upstreams.is_empty();
                reads.then(|| (Catalog::new(), aql::Settings::default()))
            }),
            upstreams: config.upstreams,
            gateway: Options { has_collections, ..config.gateway },
            permissions: config.permissions,
            kv,
            key,
            sealer,
            in_flight_max: config.limits.calls_per_caller,
            rate: config.limits.call_rate,
            limits: config.limits,
            // Large values are files.
            held_folder: match &config.store {
                StoreChoice::Embedded(path) => Some(path.with_file_name("held")),
                StoreChoice::Memory => None,
            },
            audit: config.audit,
            hosts: config.hosts,
            origins: config.origins,
        }
    }
}

/// Tools that can be called.
pub(crate) struct Tools {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) mcp: Front<McpServer>,
    pub(crate) server: McpServer,
    /// What stands before other servers, if there are any.
    pub(crate) gateway: Option<Gateway>,
    pub(crate) gateway_front: Option<HttpFront>,
    pub(crate) gate: Gate,
    pub(crate) time: Time,
    held: CallHeld,
    journal: Arc<CallJournal>,
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tools").field("pipeline", &self.pipeline).finish_non_exhaustive()
    }
}

/// Why there are no tools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolsError {
    /// The record of calls.
    #[error("cannot open the record of calls")]
    Journal(#[from] JournalError),
    /// What is held.
    #[error("cannot open what is held")]
    Held(#[from] HeldError),
    /// What was revoked.
    #[error("cannot read what was revoked")]
    Revocations(#[from] RevocationError),
    /// The store.
    #[error("cannot use the store")]
    Store(#[from] StoreError),
    /// The tools over collections.
    #[error(transparent)]
    Collections(#[from] AqlError),
    /// Upstreams that cannot be told apart, or too many of them for the limits.
    #[error("{0}")]
    Upstreams(String),
    /// Where large answers of upstreams are set aside.
    #[error("cannot make {path}, where large answers are set aside")]
    Spool {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The audit.
    #[error("cannot write the audit to {path}")]
    Audit {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Tools {
    /// Opens everything, and settles what an earlier start left open.
    pub(crate) fn open(parts: ToolParts, time: &Time) -> Result<Self, ToolsError> {
        let ToolParts { mut registry, permissions, kv, key, sealer, in_flight_max, rate, .. } =
            parts;
        let (kv, sealer) = (&kv, &sealer);
        let now = time();
        let instance = instance(&**kv, now)?;
        let journal = Arc::new(Journal::open(Arc::clone(kv), instance, now)?);
        while journal.recover(ROWS, now)?.has_more {}
        let limits = parts.limits;
        let mut options = HeldOptions::new()
            .per_principal_bytes(limits.held_bytes_per_caller)
            .idle_ms(millis(limits.held_idle))
            .longest_ms(millis(limits.held_longest));
        if let Some(folder) = &parts.held_folder {
            options = options.folder(folder).encrypted_under(&key);
        }
        let held = HeldStore::new(Arc::clone(kv), options)?;
        let audit = audit(parts.audit.as_deref(), &limits)?;
        let revocations = RevocationWatch::new(Arc::clone(kv), now)?;
        let clock: Arc<dyn Clock> = Arc::new(TimeOf(Arc::clone(time)));
        if let Some((catalog, settings)) = parts.collections {
            let aql = AqlParts {
                catalog,
                settings,
                held: held.clone(),
                sealer: Arc::clone(sealer),
                revocations: revocations.clone(),
                clock: Arc::clone(&clock),
            };
            aql_tools::register(&mut registry, aql)?;
        }
        check_upstreams(&parts.upstreams, &limits)?;
        for spec in &parts.upstreams {
            // What is in it has no name, and is the upstream's word for word.
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&spec.spool);
            made.map_err(|source| ToolsError::Spool { path: spec.spool.clone(), source })?;
        }
        let parts_of_calls = PipelineParts {
            registry: registry.permissions(permissions),
            sealer: Arc::clone(sealer),
            journal: Arc::clone(&journal),
            held: held.clone(),
            revocations,
            audit,
            clock: Arc::clone(&clock),
            in_flight_max,
            result_bytes_max: limits.result_bytes,
            counts_recorded: limits.caller_share != Share::WHOLE,
        };
        let pipeline = Arc::new(Pipeline::with_rate(parts_of_calls, rate));
        let tasks = Tasks::new(Arc::clone(kv), held.clone(), Arc::clone(time), instance);
        let mut server = McpServer::new(Arc::clone(&pipeline), about(), tasks);
        server.extensions = &[HELD_RESULTS_EXTENSION];
        let stores =
            Stores { kv: Arc::clone(kv), sealer: Arc::clone(sealer), clock: Arc::clone(time) };
        let sessions = Quota::new(limits.sessions as u64, limits.caller_share);
        let mut front = front_options(&sessions);
        front.hosts.extend(parts.hosts);
        front.origins.extend(parts.origins);
        let gate = pipeline.gate();
        front.gate = Some(gate.clone());
        let offered = server.clone();
        let mcp = Front::new(move || offered.for_session(), stores, front);
        let gateway = match parts.upstreams {
            upstreams if upstreams.is_empty() => None,
            upstreams => {
                let bounded =
                    |spec: Spec| Spec { answer_bytes_max: limits.result_bytes as u64, ..spec };
                let upstreams = upstreams.into_iter().map(bounded).collect();
                let retries = Retries::open(Arc::clone(kv), instance, clock)?;
                let (own, pipeline) = (server.clone(), Arc::clone(&pipeline));
                let programs = Quota::new(limits.programs as u64, limits.caller_share);
                let options = Options { sessions, programs, ..parts.gateway };
                Some(Gateway::new(upstreams, own, pipeline, options, retries))
            }
        };
        let gateway_front = gateway.clone().map(|gateway| {
            let ids = EventIds::new(Arc::clone(sealer), Arc::clone(time));
            HttpFront::new(gateway, mcp.clone(), ids)
        });
        Ok(Self {
            pipeline,
            mcp,
            server,
            gateway,
            gateway_front,
            gate,
            time: Arc::clone(time),
            held,
            journal,
        })
    }

    /// Waits until what is recorded has come to its record.
    pub(crate) async fn settled(&self) {
        match &self.gateway {
            Some(gateway) => gateway.settled().await,
            None => self.pipeline.settled().await,
        }
        self.flush().await;
    }

    /// Writes what waits in memory: counts of recorded outcomes and of refused calls.
    pub(crate) async fn flush(&self) {
        let pipeline = Arc::clone(&self.pipeline);
        let counted = tokio::task::spawn_blocking(move || pipeline.count_all_recorded()).await;
        if let Err(error) = counted {
            tracing::warn!(%error, "recorded outcomes were not counted");
        }
        self.pipeline.flush_audit();
    }

    /// Settles and removes what is over, a bounded piece of it. Blocks.
    pub(crate) fn sweep(&self, now: Millis) {
        self.pipeline.flush_audit();
        self.pipeline.count_recorded();
        // What fails now is tried again later.
        if let Err(error) = self.journal.recover(ROWS, now) {
            tracing::warn!(%error, "calls were not settled");
        }
        if let Some(gateway) = &self.gateway
            && let Err(error) = gateway.retries().sweep(ROWS)
        {
            tracing::warn!(%error, "calls without a key were not settled");
        }
        if let Err(error) = self.held.sweep(ROWS, now) {
            tracing::warn!(%error, "what is held was not swept");
        }
    }
}

/// Name and version of this server.
fn about() -> About {
    About {
        name: "handback".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: None,
    }
}

/// The sink of the audit: a file that is rotated, with a rate for refused calls.
fn audit(path: Option<&Path>, limits: &Limits) -> Result<Arc<dyn AuditSink>, ToolsError> {
    let Some(path) = path else { return Ok(Arc::new(NoAudit)) };
    let file = AuditFile::open(path, limits.audit_file_bytes, limits.audit_files);
    let file = file.map_err(|source| ToolsError::Audit { path: path.to_owned(), source })?;
    let rate = RefusalRate { per_second: limits.audit_refusals, share: limits.caller_share };
    Ok(Arc::new(LimitedRefusals::new(Arc::new(JsonLines::new(file)), rate)))
}

/// The options of the front of our own tools, whose sessions are counted by a quota.
fn front_options(sessions: &Quota) -> FrontOptions {
    let per_caller = usize::try_from(sessions.per_caller()).unwrap_or(usize::MAX);
    let stored = SessionOptions::new().per_principal(per_caller);
    FrontOptions { sessions: stored, live: sessions.clone(), ..FrontOptions::default() }
}

/// Checks that upstreams can be told apart, and that a session may have all of them.
fn check_upstreams(upstreams: &[Spec], limits: &Limits) -> Result<(), ToolsError> {
    check_names(upstreams)?;
    let wanted = upstreams.iter().filter(|spec| spec.is_program() && !spec.is_shared).count();
    let share = limits.caller_share.of(limits.programs as u64);
    if wanted as u64 <= share {
        return Ok(());
    }
    let programs = limits.programs;
    Err(ToolsError::Upstreams(format!(
        "{wanted} upstreams are programs that no callers share, and each session of an older client \
         starts all of them, but one caller may have {share} programs: raise `limits.programs` \
         ({programs}), lower `limits.caller_share`, or set `shared = true` where a server keeps nothing \
         for a client"
    )))
}

/// What comes back goes by the name of the upstream that gave it.
fn check_names(upstreams: &[Spec]) -> Result<(), ToolsError> {
    if upstreams.len() > UPSTREAMS_MAX {
        let message = format!("there are {} upstreams, at most {UPSTREAMS_MAX}", upstreams.len());
        return Err(ToolsError::Upstreams(message));
    }
    for spec in upstreams {
        let bad = |bad| ToolsError::Upstreams(format!("`{}`: {bad}", spec.name));
        check_name(&spec.name).map_err(bad)?;
    }
    let mut names = HashSet::new();
    match upstreams.iter().find(|spec| !names.insert(spec.name.as_str())) {
        Some(spec) => {
            Err(ToolsError::Upstreams(format!("two upstreams are called `{}`", spec.name)))
        }
        None => Ok(()),
    }
}

fn millis(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}

#[derive(Clone)]
struct TimeOf(Time);

impl Clock for TimeOf {
    fn now_ms(&self) -> u64 {
        (self.0)()
    }
}

impl std::fmt::Debug for TimeOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TimeOf(..)")
    }
}

/// The id of this instance: made once, and the same after a restart.
fn instance(kv: &dyn Kv, now: Millis) -> Result<InstanceId, StoreError> {
    loop {
        if let Some(stored) = kv.get(INSTANCE_KEY, now)? {
            let bytes = <[u8; 16]>::try_from(&*stored);
            let bytes = bytes.map_err(|_| {
                StoreError::Damaged("the id of this instance has another length".to_owned())
            })?;
            return Ok(InstanceId::from_bytes(bytes));
        }
        let id: [u8; 16] = rand::rng().random();
        let key = Bytes::from_static(INSTANCE_KEY);
        let value = Bytes::copy_from_slice(&id);
        let batch = KvBatch {
            conditions: vec![(key.clone(), Condition::Absent)],
            changes: vec![(key, Change::Put { value, until: None })],
        };
        match kv.write(&batch, now) {
            // Somebody else may have been faster.
            Ok(()) | Err(KvError::Unmet(_)) => {}
            Err(KvError::Store(error)) => return Err(error),
            Err(error) => return Err(StoreError::Unavailable(error.to_string())),
        }
    }
}
