//! A server on a loopback port and a UNIX socket, and requests to it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use handback_identity::{Caller, UnixPeers};
use handback_mcp::{Clock, Front, FrontOptions, Stores};
use handback_store::sessions::{SessionOptions, Sessions};
use handback_token::{KeyRing, Sealer, SealerConfig, UnixTime, ring};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rmcp::ServerHandler;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};

use crate::handler::{Handler, Seen};
use crate::store::{Breakable, Switch};

const START: u64 = 1_900_000_000_000;

/// Far shorter than for users.
const KEEP_ALIVE: Duration = Duration::from_millis(300);

/// How callers say who they are here: a number.
pub(crate) const USER: &str = "x-user";

pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) socket: PathBuf,
    pub(crate) seen: Arc<Seen>,
    /// What the store does.
    pub(crate) switch: Arc<Switch>,
    stores: Stores,
    time: Arc<AtomicU64>,
    /// Connections that the server has.
    connections: Arc<AtomicU64>,
    _dir: tempfile::TempDir,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(FrontOptions::default()).await
    }

    pub(crate) async fn with(options: FrontOptions) -> Self {
        let time = Arc::new(AtomicU64::new(START));
        let clock: Clock = {
            let time = Arc::clone(&time);
            Arc::new(move || time.load(Ordering::SeqCst))
        };
        let now = UnixTime::from_secs(START / 1000);
        let ring = KeyRing::generate(&mut rand::rng(), ring::Mode::Sealed, now);
        let sealer = Arc::new(Sealer::new(&ring, SealerConfig::default()).unwrap());
        let kv = Breakable::default();
        let switch = Arc::clone(&kv.switch);
        Self::on(Stores { kv: Arc::new(kv), sealer, clock }, time, switch, options).await
    }

    /// Another process on the same store.
    pub(crate) async fn again(&self) -> Self {
        let (time, switch) = (Arc::clone(&self.time), Arc::clone(&self.switch));
        Self::on(self.stores.clone(), time, switch, FrontOptions::default()).await
    }

    /// Takes the store away, or gives it back.
    pub(crate) fn store_is_broken(&self, is_broken: bool) {
        self.switch.is_broken.store(is_broken, Ordering::SeqCst);
    }

    /// How many sessions a caller has, as the store counts them.
    pub(crate) fn sessions_of(&self, user: Option<u32>) -> usize {
        let sessions = Sessions::new(Arc::clone(&self.stores.kv), SessionOptions::new());
        let now = self.time.load(Ordering::SeqCst);
        sessions.count(caller_of(user).principal(), now).unwrap()
    }

    /// Waits until the server knows that all clients have left.
    pub(crate) async fn left(&self) {
        until(|| self.connections.load(Ordering::SeqCst) == 0).await;
    }

    pub(crate) fn pass(&self, millis: u64) {
        self.time.fetch_add(millis, Ordering::SeqCst);
    }

    async fn on(
        stores: Stores,
        time: Arc<AtomicU64>,
        switch: Arc<Switch>,
        options: FrontOptions,
    ) -> Self {
        let handler = Handler::default();
        let seen = Arc::clone(&handler.seen);
        let options = FrontOptions { keep_alive: KEEP_ALIVE, ..options };
        let front = Front::new(move || handler.clone(), stores.clone(), options);
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("mcp.sock");
        let unix = UnixListener::bind(&socket).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let other = front.clone();
        let connections = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = tcp.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let (front, counted) = (front.clone(), Arc::clone(&counted));
                tokio::spawn(async move {
                    serve(front, stream).await;
                    counted.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = unix.accept().await {
                tokio::spawn(serve(other.clone(), stream));
            }
        });
        Self { address, socket, seen, switch, stores, time, connections, _dir: dir }
    }

    pub(crate) fn post(&self, user: Option<u32>, message: &Value) -> Ask {
        Ask::post(self.address, user, message)
    }

    pub(crate) fn get(&self, user: Option<u32>) -> Ask {
        Ask::get(self.address, user)
    }

    pub(crate) fn delete(&self, user: Option<u32>) -> Ask {
        Ask::new(self.address, Method::DELETE, user)
    }

    /// A new session of the old era.
    pub(crate) async fn begin(&self, user: Option<u32>) -> String {
        let answer = self.post(user, &initialize()).send().await;
        assert_eq!(answer.status, StatusCode::OK);
        let session = answer.headers.get("mcp-session-id").unwrap().to_str().unwrap().to_owned();
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let answer = self.post(user, &message).session(&session).send().await;
        assert_eq!(answer.status, StatusCode::ACCEPTED);
        session
    }

    /// What a session's owner sees in it.
    pub(crate) async fn whoami(&self, user: Option<u32>, session: &str) -> Answer {
        self.post(user, &call("whoami", None)).session(session).send().await
    }
}

pub(crate) async fn serve<H: ServerHandler>(
    front: Front<H>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        let front = front.clone();
        async move {
            let caller = caller(request.headers());
            let principal = caller.principal().clone();
            request.extensions_mut().insert(caller);
            Ok::<_, Infallible>(front.handle(request, &principal).await)
        }
    });
    let http = hyper::server::conn::http1::Builder::new();
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

fn caller(headers: &HeaderMap) -> Caller {
    caller_of(headers.get(USER).map(|user| user.to_str().unwrap().parse().unwrap()))
}

fn caller_of(user: Option<u32>) -> Caller {
    match user {
        Some(user) => UnixPeers::new("test").unwrap().caller(user),
        None => Caller::unauthenticated(),
    }
}

/// Waits until something is so.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    let waited = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waited).await.unwrap();
}

/// A request, not yet sent.
pub(crate) struct Ask {
    address: SocketAddr,
    request: Request<Full<Bytes>>,
}

impl Ask {
    pub(crate) fn post(address: SocketAddr, user: Option<u32>, message: &Value) -> Self {
        let ask = Self::new(address, Method::POST, user);
        let ask = ask.header("content-type", "application/json");
        ask.header("accept", "application/json, text/event-stream").body(message.to_string())
    }

    pub(crate) fn get(address: SocketAddr, user: Option<u32>) -> Self {
        Self::new(address, Method::GET, user).header("accept", "text/event-stream")
    }

    fn new(address: SocketAddr, method: Method, user: Option<u32>) -> Self {
        let mut request = Request::new(Full::default());
        *request.method_mut() = method;
        *request.uri_mut() = "/mcp".parse().unwrap();
        let ask = Self { address, request }.header("host", &address.to_string());
        match user {
            Some(user) => ask.header(USER, &user.to_string()),
            None => ask,
        }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.request.headers_mut().append(name, value.parse().unwrap());
        self
    }

    pub(crate) fn session(self, id: &str) -> Self {
        self.header("mcp-session-id", id)
    }

    /// With the headers of 2026-07-28.
    pub(crate) fn modern(self, method: &str, name: &str) -> Self {
        let ask = self.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
        if name.is_empty() { ask } else { ask.header("mcp-name", name) }
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        *self.request.body_mut() = Full::new(body.into());
        self
    }

    /// Sends it; the answer comes as it comes.
    pub(crate) async fn open(self) -> Open {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(async move { drop(connection.await) });
        let response = sender.send_request(self.request).await.unwrap();
        Open { response, text: String::new(), _sender: sender, connection }
    }

    /// Sends it, and hangs up before there is an answer.
    pub(crate) async fn hang_up_after(self, ready: impl Future<Output = ()>) {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(async move { drop(connection.await) });
        let sent = tokio::spawn(sender.send_request(self.request));
        ready.await;
        sent.abort();
        connection.abort();
    }

    /// Sends it; the answer is complete.
    pub(crate) async fn send(self) -> Answer {
        let collected = async {
            let Open { response, _sender, .. } = self.open().await;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            Answer {
                status: parts.status,
                headers: parts.headers,
                body: String::from_utf8(body.to_vec()).unwrap(),
            }
        };
        tokio::time::timeout(Duration::from_secs(20), collected).await.unwrap()
    }
}

/// An answer that still comes.
pub(crate) struct Open {
    pub(crate) response: Response<Incoming>,
    text: String,
    _sender: SendRequest<Full<Bytes>>,
    connection: tokio::task::JoinHandle<()>,
}

impl Open {
    /// Reads on until something was said.
    pub(crate) async fn until(&mut self, wanted: &str) -> String {
        let read = async {
            while !self.text.contains(wanted) {
                let frame = self.response.body_mut().frame().await.unwrap().unwrap();
                self.text += std::str::from_utf8(&frame.into_data().unwrap()).unwrap();
            }
        };
        let read = tokio::time::timeout(Duration::from_secs(20), read).await;
        assert!(read.is_ok(), "no {wanted:?} in {:?}", self.text);
        self.text.clone()
    }

    pub(crate) fn hang_up(self) {
        self.connection.abort();
    }
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    /// All that is not different every time.
    pub(crate) fn to_compare(&self) -> (StatusCode, Vec<(String, String)>, &str) {
        let headers = self.headers.iter().filter(|(name, _)| *name != "date");
        let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap().to_owned();
        let headers = headers.map(|(name, value)| (name.to_string(), text(value))).collect();
        (self.status, headers, &self.body)
    }
}

/// The ids in a stream of events.
pub(crate) fn ids(stream: &str) -> Vec<&str> {
    stream.lines().filter_map(|line| line.strip_prefix("id: ")).collect()
}

pub(crate) fn initialize() -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "0" },
        },
    })
}

/// A call of the old era.
pub(crate) fn call(tool: &str, progress_token: Option<u32>) -> Value {
    let mut message = json!({
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": { "name": tool, "arguments": {} },
    });
    if let Some(token) = progress_token {
        message["params"]["_meta"] = json!({ "progressToken": token });
    }
    message
}

/// A call of the new one.
pub(crate) fn modern_call(tool: &str, progress_token: Option<u32>) -> Value {
    let mut message = call(tool, None);
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    if let Some(token) = progress_token {
        message["params"]["_meta"]["progressToken"] = json!(token);
    }
    message
}
