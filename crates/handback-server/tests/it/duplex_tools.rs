//! Tools as handlers of duplexes, over real WebSockets.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use handback_client::Backoff;
use handback_client::duplex::{Duplex, DuplexOptions, Settings};
use handback_identity::roster::{Entry, FIRST_LINE, NewToken};
use handback_server::prelude::*;
use handback_server::{IdentityMode, StartError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::support::{Running, config};

const PATIENCE: Duration = Duration::from_secs(30);

/// What tools have done.
#[derive(Default)]
struct Seen {
    calls: AtomicUsize,
    chunks: AtomicUsize,
    dropped: Arc<Dropped>,
}

struct Dropped(Semaphore);

impl Default for Dropped {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

/// Adds up what comes, from a start on.
struct Sum {
    name: &'static str,
    class: ToolClass,
    seen: Arc<Seen>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Start {
    start: i64,
}

struct OnDrop(Arc<Dropped>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.0.add_permits(1);
    }
}

impl Tool for Sum {
    type Args = Start;

    fn definition(&self) -> Definition {
        Definition::duplex(self.name, "Adds up.").class(self.class)
    }

    async fn call_duplex(&self, args: Start, ctx: &CallContext, mut chunks: Chunks) -> ToolResult {
        let _on_drop = OnDrop(Arc::clone(&self.seen.dropped));
        self.seen.calls.fetch_add(1, Ordering::SeqCst);
        let mut sum = args.start;
        while let Some(chunk) = chunks.next().await {
            let text = String::from_utf8_lossy(&chunk).into_owned();
            sum += text.parse::<i64>().map_err(|_| ToolError::new("not a number"))?;
            ctx.emit(Event::Part(json!(sum))).await;
            self.seen.chunks.fetch_add(1, Ordering::SeqCst);
        }
        Outcome::json(sum)
    }
}

struct Breaks;

impl Tool for Breaks {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::duplex("breaks", "Panics at its first chunk.")
    }

    async fn call_duplex(&self, _: Value, ctx: &CallContext, mut chunks: Chunks) -> ToolResult {
        ctx.emit(Event::Part(json!("begun"))).await;
        let chunk = chunks.next().await;
        assert!(chunk.is_none(), "what is thrown");
        Ok(Outcome::text("nothing came"))
    }
}

struct Guarded;

impl Tool for Guarded {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::duplex("guarded", "For operators.").scope("operate")
    }

    async fn call_duplex(&self, _: Value, _: &CallContext, _: Chunks) -> ToolResult {
        Ok(Outcome::text("opened"))
    }
}

fn with_tools(config: ServerConfig, seen: &Arc<Seen>) -> ServerConfig {
    let sum = |name, class| Sum { name, class, seen: Arc::clone(seen) };
    let config = config.tool(sum("sum", ToolClass::ReadOnly)).unwrap();
    let config = config.tool(sum("sum.once", ToolClass::Unknown)).unwrap();
    config.tool(Breaks).unwrap().tool(Guarded).unwrap()
}

fn options(address: SocketAddr, tool: &str, key: &str) -> DuplexOptions {
    DuplexOptions::new(format!("http://{address}"))
        .handler(tool)
        .idempotency_key(key)
        .backoff(Backoff { first: Duration::from_millis(1), max: Duration::from_millis(50) })
}

/// All events that are left, and whether it was aborted.
async fn rest(duplex: &Duplex) -> (Vec<Value>, bool) {
    let rest = async {
        let mut events = Vec::new();
        while let Some(event) = duplex.next_event().await.unwrap() {
            events.push(serde_json::from_slice(event.data()).unwrap());
        }
        (events, duplex.finished().await.unwrap().aborted)
    };
    tokio::time::timeout(PATIENCE, rest).await.unwrap()
}

async fn next(duplex: &Duplex) -> Value {
    let event = tokio::time::timeout(PATIENCE, duplex.next_event()).await.unwrap();
    serde_json::from_slice(event.unwrap().unwrap().data()).unwrap()
}

/// Passes bytes on, and cuts its first connection when the client has got so many.
async fn cutting(server: SocketAddr, after: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let is_first = count.fetch_add(1, Ordering::SeqCst) == 0;
            tokio::spawn(async move {
                let server = TcpStream::connect(server).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let back = async {
                    let (mut left, mut buffer) = (after, [0; 512]);
                    while !is_first || left > 0 {
                        let Ok(read @ 1..) = from_server.read(&mut buffer).await else { return };
                        let some = if is_first { read.min(left) } else { read };
                        left = left.saturating_sub(some);
                        if to_client.write_all(&buffer[..some]).await.is_err() {
                            return;
                        }
                    }
                };
                tokio::select! {
                    _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
                    () = back => {}
                }
            });
        }
    });
    (address, connections)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_on_over_connections_that_are_cut() {
    let seen = Arc::new(Seen::default());
    let server = Running::start(with_tools(config(), &seen)).await;
    let mut cuts = 0;
    for after in (150..1500).step_by(75) {
        let (address, connections) = cutting(server.address, after).await;
        let duplex = Duplex::open(options(address, "sum", &format!("k{after}"))).await.unwrap();
        for chunk in ["{\"start\": 100}", "1", "20", "300"] {
            duplex.send(chunk).await.unwrap();
        }
        duplex.close().await.unwrap();
        let (events, aborted) = rest(&duplex).await;
        let told = [json!({"part": 101}), json!({"part": 121}), json!({"part": 421})];
        assert_eq!(events[..3], told, "{after}");
        assert_eq!((&events[3], events.len()), (&json!({"result": 421}), 4), "{after}");
        assert!(!aborted);
        cuts += connections.load(Ordering::SeqCst) - 1;
    }
    assert!(cuts > 5, "{cuts}");
    assert_eq!(seen.calls.load(Ordering::SeqCst), 18, "one call for each");
    assert_eq!(seen.chunks.load(Ordering::SeqCst), 3 * 18);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abort_drops_the_tool() {
    let seen = Arc::new(Seen::default());
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("audit");
    let server = Running::start(with_tools(config(), &seen).audit(audit.clone())).await;
    let duplex = Duplex::open(options(server.address, "sum", "k")).await.unwrap();
    duplex.send("{\"start\": 1}").await.unwrap();
    duplex.send("1").await.unwrap();
    assert_eq!(next(&duplex).await, json!({"part": 2}));
    duplex.abort().await.unwrap();
    let dropped = tokio::time::timeout(PATIENCE, seen.dropped.0.acquire()).await.unwrap();
    dropped.unwrap().forget();
    assert_eq!(rest(&duplex).await, (Vec::new(), true));
    // The line is written when the call has ended.
    for _ in 0..300 {
        if fs::read_to_string(&audit).unwrap().contains("\"decision\":\"cancelled\"") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{}", fs::read_to_string(&audit).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_breaks_ends_its_duplex_for_good() {
    let server = Running::start(with_tools(config(), &Arc::default())).await;
    let duplex = Duplex::open(options(server.address, "breaks", "k")).await.unwrap();
    duplex.send("{}").await.unwrap();
    duplex.send("x").await.unwrap();
    let broken = json!({"error": {"code": "broken", "message": "the tool failed"}});
    let events = vec![json!({"part": "begun"}), broken];
    assert_eq!(rest(&duplex).await, (events.clone(), true));
    let kept = server.ask("GET /v1/stream/__duplex/breaks/k/out", None, "").await;
    assert_eq!(kept.body, format!("{}{}", events[0], events[1]), "whoever comes back gets it");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_chunk_is_the_arguments() {
    let seen = Arc::new(Seen::default());
    let server = Running::start(with_tools(config(), &seen)).await;
    for (key, first) in [("a", "no JSON"), ("b", "7"), ("c", "{\"start\":\"x\"}"), ("d", "{}")] {
        let duplex = Duplex::open(options(server.address, "sum", key)).await.unwrap();
        duplex.send(first).await.unwrap();
        let (events, aborted) = rest(&duplex).await;
        assert_eq!(events[0]["error"]["code"], "bad_arguments", "{events:?}");
        assert!(aborted && events.len() == 1);
    }
    let duplex = Duplex::open(options(server.address, "breaks", "e")).await.unwrap();
    duplex.close().await.unwrap();
    let (events, aborted) = rest(&duplex).await;
    assert_eq!(events, [json!({"part": "begun"}), json!({"result": "nothing came"})]);
    assert!(!aborted, "without a chunk there are none");
    assert_eq!(seen.calls.load(Ordering::SeqCst), 0);
}

/// A server that can be stopped.
struct Stoppable {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    ran: JoinHandle<()>,
}

impl Stoppable {
    /// Starts as soon as the one before has let go of the folder.
    async fn start(folder: &Path, listen: SocketAddr, seen: &Arc<Seen>) -> Self {
        let mut tries = 0;
        let server = loop {
            let config = ServerConfig::open(folder).unwrap();
            match Server::start(with_tools(config.listen(listen), seen)).await {
                Ok(server) => break server,
                Err(StartError::Store(_)) if tries < 200 => tries += 1,
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let (stop, stopped) = watch::channel(false);
        Self { address: server.address(), stop, ran: tokio::spawn(server.run(stopped)) }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.ran.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_a_tool_that_may_is_called_again_and_tells_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Arc::new(Seen::default());
    let data = folder.path().join("data");
    let server = Stoppable::start(&data, "127.0.0.1:0".parse().unwrap(), &seen).await;
    let kept = |address, tool| {
        let state = folder.path().join("client");
        options(address, tool, tool).auto_ack(false).state(state, Settings::persistent())
    };
    let may = Duplex::open(kept(server.address, "sum")).await.unwrap();
    let may_not = Duplex::open(kept(server.address, "sum.once")).await.unwrap();
    for duplex in [&may, &may_not] {
        for chunk in ["{\"start\": 0}", "1", "2"] {
            duplex.send(chunk).await.unwrap();
        }
        assert_eq!(next(duplex).await, json!({"part": 1}));
        assert_eq!(next(duplex).await, json!({"part": 3}));
    }
    may.leave().await;
    may_not.leave().await;
    let address = server.address;
    server.stop().await;

    let server = Stoppable::start(&data, address, &seen).await;
    let may = Duplex::open(kept(server.address, "sum")).await.unwrap();
    may.send("4").await.unwrap();
    may.close().await.unwrap();
    let events = [json!({"part": 1}), json!({"part": 3}), json!({"part": 7}), json!({"result": 7})];
    assert_eq!(rest(&may).await, (events.to_vec(), false));
    let may_not = Duplex::open(kept(server.address, "sum.once")).await.unwrap();
    may_not.close().await.unwrap();
    let (events, aborted) = rest(&may_not).await;
    assert_eq!(events[..2], [json!({"part": 1}), json!({"part": 3})]);
    assert_eq!(
        (&events[2]["error"]["code"], events.len(), aborted),
        (&json!("ambiguous"), 3, true)
    );
    assert_eq!(seen.calls.load(Ordering::SeqCst), 3, "two, and one again");
    server.stop().await;
}

/// Says something on a new connection; gives the first answer.
async fn say(address: SocketAddr, token: &str, tool: &str, hello: &Value) -> Value {
    let url = format!("ws://{address}/v1/duplex?handler={tool}");
    let mut request = url.into_client_request().unwrap();
    let value = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", value);
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    socket.send(Message::text(hello.to_string())).await.unwrap();
    let answer = tokio::time::timeout(PATIENCE, socket.next()).await.unwrap();
    serde_json::from_str(answer.unwrap().unwrap().to_text().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_goes_on_and_what_one_may_not_use_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let (file, audit) = (folder.path().join("identities"), folder.path().join("audit"));
    let mut lines = format!("{FIRST_LINE}\n");
    let mut token = |name: &str, scopes: &[&str]| {
        let token = NewToken::generate(&mut rand::rng());
        lines.push_str(&format!("{}\n", Entry::new(&token, name, scopes, None).unwrap()));
        token.dangerous_text().to_owned()
    };
    let (alice, bob) = (token("alice", &["operate"]), token("bob", &["read"]));
    fs::write(&file, lines).unwrap();
    let seen = Arc::new(Seen::default());
    let config = with_tools(config(), &seen).audit(audit.clone());
    let server = Running::start(config.identity(IdentityMode::Static { file })).await;

    let hello = json!({"type": "hello", "idempotency_key": "k"});
    let welcome = say(server.address, &alice, "guarded", &hello).await;
    assert_eq!(welcome["type"], "welcome");
    let foreign = json!({
        "type": "hello", "idempotency_key": "k", "resume_token": welcome["resume_token"],
    });
    assert_eq!(say(server.address, &alice, "guarded", &foreign).await["type"], "welcome");
    let refused = say(server.address, &bob, "sum", &foreign).await;
    assert_eq!((&refused["type"], &refused["code"]), (&json!("error"), &json!("INVALID")));

    let upgrade = |token: &str, tool: &str| {
        let line = format!("GET /v1/duplex?handler={tool}");
        let token = format!("Bearer {token}");
        let server = &server;
        async move {
            let headers = [
                ("authorization", token.as_str()),
                ("upgrade", "websocket"),
                ("connection", "upgrade"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ];
            let answer = server.ask_with(&line, &headers, "").await;
            (answer.status, answer.body)
        }
    };
    let refused = upgrade(&bob, "guarded").await;
    assert_eq!(refused.0, 404);
    assert_eq!(refused, upgrade(&bob, "nothing").await, "equal to the byte");
    let trail = fs::read_to_string(&audit).unwrap();
    let trail: Vec<Value> = trail.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_refused = |line: &&Value| line["name"] == "guarded" && line["reason"] == "not_found";
    let line = trail.iter().find(is_refused).unwrap();
    assert_eq!((&line["surface"], &line["subject"]), (&json!("duplex"), &json!("bob")));

    // Neither is it a tool of the other kind.
    let answer = server.ask("GET /v1/tools", Some(&alice), "").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "{\"tools\":[]}"));
    let body = "{\"arguments\":{\"start\":1}}";
    let headers = format!("Bearer {alice}");
    let headers = [("authorization", headers.as_str()), ("content-type", "application/json")];
    assert_eq!(server.ask_with("POST /v1/tools/sum/run", &headers, body).await.status, 404);
    assert_eq!(seen.calls.load(Ordering::SeqCst), 0);
}
