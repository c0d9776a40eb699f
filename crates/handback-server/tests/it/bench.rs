//! The tools of the server on a real pipeline, without a socket.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use handback_identity::{Caller, UnixPeers};
use handback_page::aql::{Catalog, Settings};
use handback_server::aql_tools::{self, AqlParts};
use handback_server::demo;
use handback_store::held::{HeldOptions, HeldStore};
use handback_store::journal::{InstanceId, Journal};
use handback_store::{Kv, MemoryStore};
use handback_token::ring::Mode;
use handback_token::{KeyRing, Sealer, SealerConfig, UnixTime};
use handback_tool::audit::JsonLines;
use handback_tool::{
    Answer, CallHeld, Clock, Content, Continuation, Pipeline, PipelineParts, Refusal, Registry,
    Reply, Request, RevocationWatch, Surface,
};
use serde_json::{Map, Value, json};

pub(crate) const START_MS: u64 = 1_800_000_000_000;

/// A clock that stands until it is moved.
#[derive(Debug)]
pub(crate) struct Hands(AtomicU64);

impl Clock for Hands {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A pipeline with the tools over some collections.
pub(crate) struct Bench {
    pub(crate) pipeline: Pipeline,
    pub(crate) held: CallHeld,
    pub(crate) revocations: RevocationWatch,
    pub(crate) clock: Arc<Hands>,
    /// The audit. A file: what is in memory is measured.
    audit: File,
}

impl Bench {
    /// The demo, in a folder of its own.
    pub(crate) fn demo(data: &Path) -> Self {
        let folder = data.join("demo");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(made_shop(), folder.join("shop-1.db")).unwrap();
        let mut registry = Registry::new();
        let catalog = demo::register(&mut registry, data).unwrap();
        Self::with(registry, catalog, Settings::default(), HeldOptions::new())
    }

    pub(crate) fn over(catalog: Catalog) -> Self {
        Self::with(Registry::new(), catalog, Settings::default(), HeldOptions::new())
    }

    pub(crate) fn with(
        registry: Registry,
        catalog: Catalog,
        settings: Settings,
        options: HeldOptions,
    ) -> Self {
        Self::on(Arc::new(MemoryStore::new()), registry, catalog, settings, options)
    }

    /// On a store of its own.
    pub(crate) fn on(
        kv: Arc<dyn Kv>,
        mut registry: Registry,
        catalog: Catalog,
        settings: Settings,
        options: HeldOptions,
    ) -> Self {
        let audit = tempfile::tempfile().unwrap();
        let mut rng = rand::rng();
        let ring = KeyRing::generate(&mut rng, Mode::Sealed, UnixTime::from_secs(START_MS / 1000));
        let sealer = Arc::new(Sealer::new(&ring, SealerConfig::default()).unwrap());
        let held = HeldStore::new(Arc::clone(&kv), options).unwrap();
        let revocations = RevocationWatch::new(Arc::clone(&kv), START_MS).unwrap();
        let clock = Arc::new(Hands(AtomicU64::new(START_MS)));
        let parts = AqlParts {
            catalog,
            settings,
            held: held.clone(),
            sealer: Arc::clone(&sealer),
            revocations: revocations.clone(),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
        };
        aql_tools::register(&mut registry, parts).unwrap();
        let journal =
            Journal::open(Arc::clone(&kv), InstanceId::generate(&mut rng), START_MS).unwrap();
        let pipeline = Pipeline::new(PipelineParts {
            registry,
            sealer,
            journal: Arc::new(journal),
            held: held.clone(),
            revocations: revocations.clone(),
            audit: Arc::new(JsonLines::new(audit.try_clone().unwrap())),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            in_flight_max: 8,
            result_bytes_max: 64 << 20,
            counts_recorded: true,
        });
        Self { pipeline, held, revocations, clock, audit }
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// The reasons in the audit, in order.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let mut bytes = vec![0; usize::try_from(self.audit.metadata().unwrap().len()).unwrap()];
        self.audit.read_exact_at(&mut bytes, 0).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| Some(line["reason"].as_str()?.to_owned())).collect()
    }

    pub(crate) async fn call(
        &self,
        who: Caller,
        name: &str,
        args: Value,
    ) -> Result<Answer, Refusal> {
        self.pipeline.call(request(who, name, args)).await
    }

    pub(crate) async fn page(
        &self,
        who: Caller,
        name: &str,
        args: Value,
        cursor: &str,
    ) -> Result<Answer, Refusal> {
        let cursor = Continuation::Cursor(cursor.to_owned());
        self.pipeline.call(request(who, name, args).continuation(cursor)).await
    }

    /// The envelope that a tool of MCP-AQL answers with, as its text is.
    pub(crate) async fn text(&self, who: Caller, name: &str, args: Value) -> String {
        match self.call(who, name, args).await.unwrap().reply {
            Reply::Done(Content::Raw(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("no envelope: {other:?}"),
        }
    }

    pub(crate) async fn ask(&self, who: Caller, args: Value) -> Value {
        serde_json::from_str(&self.text(who, "mcp_aql_read", args).await).unwrap()
    }

    /// `data` of a page of a collection.
    pub(crate) async fn list(&self, who: Caller, collection: &str, params: Value) -> Value {
        let answer = self.ask(who, list(collection, params)).await;
        assert_eq!(answer["success"], true, "{answer}");
        answer["data"].clone()
    }

    /// The text of an answer that is a failure.
    pub(crate) async fn refused(&self, who: Caller, args: Value) -> String {
        let text = self.text(who, "mcp_aql_read", args).await;
        assert!(text.starts_with(r#"{"error":"#) && text.contains(r#""success":false"#), "{text}");
        text
    }
}

/// A request for elements.
pub(crate) fn list(collection: &str, params: Value) -> Value {
    json!({"operation": "list_elements", "element_type": collection, "params": params})
}

pub(crate) fn request(who: Caller, name: &str, args: Value) -> Request {
    Request::call(who, Surface::Library, name, args)
}

pub(crate) fn round(
    who: Caller,
    name: &str,
    args: Value,
    state: &str,
    answers: Map<String, Value>,
) -> Request {
    let state = Some(state.to_owned());
    request(who, name, args).continuation(Continuation::State { state, answers })
}

pub(crate) fn alice() -> Caller {
    UnixPeers::new("test").unwrap().caller(1)
}

pub(crate) fn bob() -> Caller {
    UnixPeers::new("test").unwrap().caller(2)
}

/// The shop, made once for all tests.
fn made_shop() -> &'static Path {
    static MADE: OnceLock<(tempfile::TempDir, std::path::PathBuf)> = OnceLock::new();
    let (_, file) = MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        demo::register(&mut Registry::new(), folder.path()).unwrap();
        let file = folder.path().join("demo/shop-1.db");
        (folder, file)
    });
    file
}
