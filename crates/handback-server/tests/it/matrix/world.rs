//! A server that can be stopped and started again, as another one, on the same data.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use handback_identity::roster::{Entry, FIRST_LINE, NewToken};
use handback_page::aql;
use handback_server::{IdentityMode, Limits, REVOKE_SCOPE, Server, ServerConfig};
use handback_store::Kv;
use handback_token::{KeyRing, Mode, SealerConfig, UnixTime};
use handback_tool::Rate;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::tools;
use crate::clock::now_ms;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    Alice,
    Bob,
    Operator,
    Anonymous,
}

/// The credentials of all, which all servers know.
pub(crate) struct People {
    /// Their lines of the file of identities.
    lines: Vec<(Who, String)>,
    tokens: HashMap<Who, String>,
}

impl People {
    pub(crate) fn new() -> Self {
        Self::with(None)
    }

    /// People whose credentials end then.
    pub(crate) fn until(second: u64) -> Self {
        Self::with(Some(second))
    }

    fn with(expires_at: Option<u64>) -> Self {
        let mut people = Self { lines: Vec::new(), tokens: HashMap::new() };
        for (who, name, scope) in [
            (Who::Alice, "alice", "use"),
            (Who::Bob, "bob", "use"),
            (Who::Operator, "operator", REVOKE_SCOPE),
        ] {
            let token = NewToken::generate(&mut rand::rng());
            let entry = Entry::new(&token, name, &[scope], expires_at).unwrap();
            people.lines.push((who, format!("{entry}\n")));
            people.tokens.insert(who, token.dangerous_text().to_owned());
        }
        people
    }

    /// Somebody's credential is good no more.
    pub(crate) fn remove(&mut self, who: Who) {
        self.lines.retain(|(known, _)| *known != who);
    }

    fn file(&self) -> String {
        self.lines.iter().fold(format!("{FIRST_LINE}\n"), |file, (_, line)| file + line)
    }

    pub(crate) fn bearer(&self, who: Who) -> Option<String> {
        self.tokens.get(&who).map(|token| format!("Bearer {token}"))
    }
}

/// What survives a restart.
pub(crate) struct Site {
    folder: tempfile::TempDir,
    ring: KeyRing,
    audience: &'static str,
}

/// How a server is started.
#[derive(Clone, Copy, Default)]
pub(crate) struct Start {
    pub(crate) is_anonymous: bool,
    pub(crate) ahead_ms: i64,
}

impl Site {
    pub(crate) fn new(ring: &KeyRing, audience: &'static str, people: &People) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let site = Self { folder, ring: ring.clone(), audience };
        site.identify(people);
        site
    }

    /// Puts another file of identities in the place of the one before. Servers notice.
    pub(crate) fn identify(&self, people: &People) {
        let path = |name: &str| self.folder.path().join(name);
        fs::write(path("identities.new"), people.file()).unwrap();
        fs::rename(path("identities.new"), path("identities")).unwrap();
    }

    pub(crate) fn ring() -> KeyRing {
        KeyRing::generate(&mut rand::rng(), Mode::Sealed, UnixTime::from_secs(1))
    }

    pub(crate) fn start(&self, start: Start) -> World {
        let path = |name: &str| self.folder.path().join(name);
        let aql = aql::Settings { mode: aql::Mode::All, ..aql::Settings::default() };
        let rate = Rate { per_second: 1_000_000, burst: 1_000_000 };
        let tokens =
            SealerConfig { audience: Some(self.audience.to_owned()), ..SealerConfig::default() };
        let mut config = ServerConfig::new(self.ring.clone(), path("data"))
            .listen("127.0.0.1:0".parse().unwrap())
            .tools(tools::registry())
            .collections(tools::catalog(self.folder.path()), aql)
            .audit(path("audit.jsonl"))
            .socket(path("socket"))
            // The audit has a line of every attack.
            .limits(Limits { call_rate: rate, audit_refusals: 1_000_000, ..Limits::default() })
            .tokens(tokens)
            .server_id("test")
            .dangerous_clock_offset_ms(start.ahead_ms);
        if !start.is_anonymous {
            config = config.identity(IdentityMode::Static { file: path("identities") });
        }
        fs::create_dir_all(path("data")).unwrap();
        // A runtime of its own: with it ends all that holds the data directory.
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(Server::start(config)).unwrap();
        let (address, store) = (server.address(), server.dangerous_store());
        let (stop, stopped) = watch::channel(false);
        let running = runtime.spawn(server.run(stopped));
        World {
            address,
            socket: path("socket"),
            audit: path("audit.jsonl"),
            ahead_ms: start.ahead_ms,
            sessions: RefCell::default(),
            store,
            stop,
            running,
            runtime,
        }
    }
}

/// A server that runs.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) socket: PathBuf,
    audit: PathBuf,
    ahead_ms: i64,
    /// A session of the old era for each.
    pub(crate) sessions: RefCell<HashMap<Who, String>>,
    store: Arc<dyn Kv>,
    stop: watch::Sender<bool>,
    running: JoinHandle<()>,
    runtime: Runtime,
}

/// What callers have at the server: calls, held values, sessions and tasks.
pub(crate) type Rows = Vec<(Bytes, Bytes)>;

impl World {
    pub(crate) fn stop(self) {
        let Self { stop, running, runtime, store, .. } = self;
        stop.send(true).unwrap();
        runtime.block_on(running).unwrap();
        drop(store);
        drop(runtime);
    }

    /// The time at the server.
    pub(crate) fn now_ms(&self) -> u64 {
        now_ms().saturating_add_signed(self.ahead_ms)
    }

    pub(crate) fn rows(&self) -> Rows {
        let now = self.now_ms();
        let scan = |prefix: &&str| self.store.scan(prefix.as_bytes(), None, usize::MAX, now);
        let prefixes = ["j/", "h/", "s/", "mcp/task/"];
        prefixes.iter().flat_map(|prefix| scan(prefix).unwrap()).collect()
    }

    /// How far the audit goes.
    pub(crate) fn audit_len(&self) -> usize {
        fs::read(&self.audit).unwrap().len()
    }

    /// What was written down since.
    pub(crate) fn audit_since(&self, len: usize) -> Vec<Value> {
        let text = fs::read(&self.audit).unwrap();
        let text = std::str::from_utf8(&text[len..]).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
