//! The published client, unchanged, on the UNIX socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atd_protocol::{AtdError, ToolResult};
use atd_sdk::{AtdClient, CallAllOptions, CallOptions, DiscoverFilter, Endpoint};
use handback_identity::UnixPeers;
use handback_store::held::{HeldOptions, HeldStore};
use handback_store::journal::{InstanceId, Journal};
use handback_store::{Kv, MemoryStore};
use handback_surface::atd::{Settings, listen};
use handback_token::{KeyRing, Mode, Sealer, SealerConfig, UnixTime};
use handback_tool::audit::NoAudit;
use handback_tool::{
    CallContext, Clock, Definition, Outcome, Pipeline, PipelineParts, Position, Registry,
    RevocationWatch, Tool, ToolClass, ToolError,
};
use serde_json::{Value, json};
use tokio::sync::watch;

const START_MS: u64 = 1_800_000_000_000;

#[derive(Debug)]
struct Hands(AtomicU64);

impl Clock for Hands {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The numbers below `below`, ten at a time.
struct Numbers(&'static str);

impl Tool for Numbers {
    type Args = Value;

    fn definition(&self) -> Definition {
        let schema = json!({
            "type": "object",
            "properties": {"below": {"type": "integer", "minimum": 0}},
            "required": ["below"],
        });
        Definition::tool(self.0, "Numbers, in pages.")
            .input_schema(schema)
            .class(ToolClass::ReadOnly)
            .paginated()
    }

    async fn call(&self, args: Value, ctx: &CallContext) -> Result<Outcome, ToolError> {
        self.call_paginated(args, ctx, None).await
    }

    async fn call_paginated(
        &self,
        args: Value,
        _ctx: &CallContext,
        position: Option<Position>,
    ) -> Result<Outcome, ToolError> {
        let below = args["below"].as_u64().unwrap_or_default();
        let start: u64 = position.map_or(Ok(0), |position| position.read())?;
        let end = below.min(start + 10);
        let next = (end < below).then(|| Position::of(&end)).transpose()?;
        Outcome::page(start..end, next)
    }
}

/// Says what it was told, or that it failed.
struct Echo;

impl Tool for Echo {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::tool("echo.say", "Says it again.").title("Echo")
    }

    async fn call(&self, args: Value, _ctx: &CallContext) -> Result<Outcome, ToolError> {
        match args.get("fail") {
            Some(why) => Err(ToolError::new(why.as_str().unwrap_or_default())),
            None => Outcome::json(args),
        }
    }
}

/// One pipeline behind two sockets, which name their callers differently.
struct World {
    folder: PathBuf,
    clock: Arc<Hands>,
    stop: watch::Sender<bool>,
}

impl World {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("hb-{}-{name}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let kv: Arc<dyn Kv> = Arc::new(MemoryStore::new());
        let clock = Arc::new(Hands(AtomicU64::new(START_MS)));
        let mut rng = rand::rng();
        let ring = KeyRing::generate(&mut rng, Mode::Sealed, UnixTime::from_secs(START_MS / 1000));
        let mut registry = Registry::new();
        registry.add(Numbers("numbers")).unwrap();
        registry.add(Numbers("others")).unwrap();
        registry.add(Echo).unwrap();
        let journal = Journal::open(Arc::clone(&kv), InstanceId::generate(&mut rng), START_MS);
        let pipeline = Arc::new(Pipeline::new(PipelineParts {
            registry,
            sealer: Arc::new(Sealer::new(&ring, SealerConfig::default()).unwrap()),
            journal: Arc::new(journal.unwrap()),
            held: HeldStore::new(Arc::clone(&kv), HeldOptions::new()).unwrap(),
            revocations: RevocationWatch::new(kv, START_MS).unwrap(),
            audit: Arc::new(NoAudit),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            in_flight_max: 64,
            counts_recorded: true,
            result_bytes_max: 32 << 20,
        }));
        let (stop, stops) = watch::channel(false);
        for socket in ["one", "two"] {
            let listener = listen(&folder.join(socket)).unwrap();
            let peers = UnixPeers::new(socket).unwrap();
            let settings = Settings::default();
            tokio::spawn(listener.serve(peers, Arc::clone(&pipeline), settings, stops.clone()));
        }
        Self { folder, clock, stop }
    }

    async fn client(&self, socket: &str, id: &str) -> AtdClient {
        let client = connect(&self.folder.join(socket)).await;
        client.hello(Some(id), Vec::new()).await.unwrap();
        client
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

async fn connect(path: &Path) -> AtdClient {
    AtdClient::connect(Endpoint::UnixSocket(path.to_owned())).await.unwrap()
}

/// The text of the error that going on with a cursor gives.
async fn refusal(client: &AtdClient, tool: &str, cursor: &str) -> String {
    let page = client.call_page(tool, Value::Null, Some(cursor), CallOptions::default()).await;
    std::error::Error::source(&page.unwrap_err()).unwrap().to_string()
}

#[tokio::test]
async fn call_page_and_call_all_walk_to_the_end() {
    let world = World::new("walk");
    let client = world.client("one", "walker").await;
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let args = json!({"below": 95});
        let page = client
            .call_page("numbers", args, cursor.as_deref(), CallOptions::default())
            .await
            .unwrap();
        all.extend(page.value.as_array().unwrap().clone());
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<Value> = (0..95).map(Value::from).collect();
    assert_eq!(all, expected);
    let options = CallAllOptions::default();
    let merged = client.call_all("numbers", json!({"below": 95}), options).await.unwrap();
    assert_eq!(merged, Value::Array(expected));
    // Without a hello, too.
    let client = connect(&world.folder.join("one")).await;
    let options = CallAllOptions::default();
    let merged = client.call_all("others", json!({"below": 12}), options).await.unwrap();
    assert_eq!(merged.as_array().unwrap().len(), 12);
}

#[tokio::test]
async fn cursors_that_do_not_open_are_1021_and_old_ones_1020() {
    let world = World::new("cursors");
    let client = world.client("one", "me").await;
    let args = json!({"below": 95});
    let page = client.call_page("numbers", args, None, CallOptions::default()).await.unwrap();
    let cursor = page.next_cursor.unwrap();
    let mut edited = cursor.clone().into_bytes();
    edited[10] = if edited[10] == b'A' { b'B' } else { b'A' };
    let edited = String::from_utf8(edited).unwrap();
    let (other_client, other_caller) =
        (world.client("one", "you").await, world.client("two", "me").await);
    for (who, tool, cursor) in [
        (&client, "numbers", edited.as_str()),
        (&client, "numbers", ""),
        (&client, "others", &cursor),
        (&client, "echo.say", &cursor),
        (&other_client, "numbers", &cursor),
        (&other_caller, "numbers", &cursor),
    ] {
        let refused = refusal(who, tool, cursor).await;
        assert!(refused.contains("code=Some(1021) retryable=Some(false)"), "{tool}: {refused}");
    }
    let page =
        client.call_page("numbers", Value::Null, Some(&cursor), CallOptions::default()).await;
    assert_eq!(page.unwrap().value[0], 10);
    world.clock.0.fetch_add(17 * 60_000, Ordering::SeqCst);
    let refused = refusal(&client, "numbers", &cursor).await;
    assert!(refused.contains("code=Some(1020) retryable=Some(false)"), "{refused}");
}

#[tokio::test]
async fn tools_are_discovered_described_called_and_tried() {
    let world = World::new("tools");
    let client = world.client("one", "me").await;
    let found = client.discover(None, DiscoverFilter::default()).await.unwrap();
    let ids: Vec<_> = found.iter().map(|tool| tool.id.as_str()).collect();
    assert_eq!(ids, ["echo.say", "numbers", "others"]);
    assert_eq!((found[0].name.as_str(), found[0].domain.as_str()), ("Echo", "echo"));
    let numbers = client.describe("numbers").await.unwrap();
    assert_eq!(numbers.input_schema["required"], json!(["below"]));
    let none = client.describe("none").await.unwrap_err();
    assert!(matches!(none, AtdError::ToolNotFound { .. }), "{none}");
    let said = client.call("echo.say", json!({"a": 1}), CallOptions::default()).await.unwrap();
    let ToolResult::Success { data, .. } = said else { panic!("{said:?}") };
    assert_eq!(data, json!({"a": 1}));
    let failed = client.call("echo.say", json!({"fail": "no"}), CallOptions::default()).await;
    let ToolResult::Error { message, .. } = failed.unwrap() else { panic!("it did") };
    assert_eq!(message, "no");
    let dry = CallOptions { dry_run: true, ..CallOptions::default() };
    let tried = client.call("numbers", json!({"below": 1}), dry.clone()).await.unwrap();
    assert!(matches!(tried, ToolResult::Success { .. }), "{tried:?}");
    assert!(client.call("numbers", json!({"below": -1}), dry).await.is_err());
}
