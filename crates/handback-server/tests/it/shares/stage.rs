//! A server with small limits, and two identified callers.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use handback_identity::roster::{Entry, FIRST_LINE, NewToken};
use handback_server::{IdentityMode, Limits, ServerConfig};
use handback_tool::{
    CallContext, Definition, Outcome, Registry, Share, Tool, ToolClass, ToolError,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::killed::process::Process;
use crate::support::{Answer, Running, ask_over, config};

/// The caller that goes to its limits, and the one that works.
pub(super) const ADA: usize = 0;
pub(super) const BOB: usize = 1;

/// The most that anything may take before a test gives up.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The file with the callers and their tokens.
const IDENTITIES: &str = "identities";

/// Answers at once.
struct Echo;

impl Tool for Echo {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::tool("echo", "Is there.").class(ToolClass::ReadOnly)
    }

    async fn call(&self, _: Value, _: &CallContext) -> Result<Outcome, ToolError> {
        Ok(Outcome::text("here"))
    }
}

pub(super) struct Stage {
    address: SocketAddr,
    /// Runs the server in this process; absent for a server in a process of its own.
    _server: Option<Running>,
    tokens: Vec<String>,
    pub(super) folder: tempfile::TempDir,
}

/// A quarter of each limit for one caller.
pub(super) fn quarters() -> Limits {
    Limits { caller_share: Share::one_in(4), ..Limits::default() }
}

/// The server of a stage, with what is in its folder.
pub(super) fn configured(folder: &Path) -> ServerConfig {
    let mut registry = Registry::new();
    registry.add(Echo).unwrap();
    config()
        .identity(IdentityMode::Static { file: folder.join(IDENTITIES) })
        .tools(registry)
        .audit(folder.join("audit.jsonl"))
}

impl Stage {
    pub(super) async fn new(limits: Limits) -> Self {
        Self::with(limits, |config, _| config).await
    }

    pub(super) async fn with(
        limits: Limits,
        edit: impl FnOnce(ServerConfig, &Path) -> ServerConfig,
    ) -> Self {
        let mut stage = Self::without_server();
        let config = configured(stage.folder.path()).limits(limits);
        let server = Running::start(edit(config, stage.folder.path())).await;
        stage.address = server.address;
        stage._server = Some(server);
        stage
    }

    /// Callers of a server in a process of its own.
    pub(super) fn apart(test: &str) -> (Self, Process) {
        let mut stage = Self::without_server();
        let process = Process::start(test, stage.folder.path());
        stage.address = process.address;
        (stage, process)
    }

    fn without_server() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut file = format!("{FIRST_LINE}\n");
        let mut tokens = Vec::new();
        for name in ["ada", "bob"] {
            let token = NewToken::generate(&mut rand::rng());
            file.push_str(&format!("{}\n", Entry::new(&token, name, &["use"], None).unwrap()));
            tokens.push(format!("Bearer {}", token.dangerous_text()));
        }
        std::fs::write(folder.path().join(IDENTITIES), file).unwrap();
        let address = (Ipv4Addr::UNSPECIFIED, 0).into();
        Self { address, _server: None, tokens, folder }
    }

    pub(super) async fn ask(&self, who: usize, line: &str, body: &str) -> Answer {
        self.ask_with(who, line, &[], body).await
    }

    pub(super) async fn ask_with(
        &self,
        who: usize,
        line: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut all = vec![("authorization", self.tokens[who].as_str())];
        all.extend(headers);
        let stream = TcpStream::connect(self.address).await.unwrap();
        ask_over(stream, &self.address.to_string(), line, &all, body).await
    }

    /// Sends a message of an older MCP client.
    pub(super) async fn mcp(&self, who: usize, session: Option<&str>, message: &Value) -> Answer {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        headers.extend(session.map(|id| ("mcp-session-id", id)));
        self.ask_with(who, "POST /mcp", &headers, &message.to_string()).await
    }

    /// Begins a session of an older client.
    pub(super) async fn begin(&self, who: usize) -> Answer {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        self.mcp(who, None, &message).await
    }

    pub(super) async fn end(&self, who: usize, session: &str) -> Answer {
        self.ask_with(who, "DELETE /mcp", &[("mcp-session-id", session)], "").await
    }

    /// Calls a tool; a tool that is not there is refused.
    pub(super) async fn call(&self, who: usize, tool: &str) -> Answer {
        let headers = [("content-type", "application/json")];
        self.ask_with(who, &format!("POST /v1/tools/{tool}/run"), &headers, "{}").await
    }

    /// Sends a request whose answer does not end, and reads the head of the answer.
    pub(super) async fn hold(&self, who: usize, line: &str, headers: &[(&str, &str)]) -> Held {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let host = self.address;
        let token = &self.tokens[who];
        let mut text = format!("{line} HTTP/1.1\r\nhost: {host}\r\nauthorization: {token}\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        Held::read(stream).await
    }

    pub(super) async fn web_socket(&self, who: usize) -> Held {
        let headers = [
            ("upgrade", "websocket"),
            ("connection", "upgrade"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        self.hold(who, "GET /v1/duplex?handler=echo", &headers).await
    }

    /// Does something until it succeeds: what was given back may be counted for a moment.
    pub(super) async fn until<F: Future<Output = bool>>(&self, mut done: impl FnMut() -> F) {
        let waited = tokio::time::timeout(PATIENCE, async {
            while !done().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        waited.await.expect("what was given back is free again");
    }

    /// The lines of the audit, in all of its files.
    pub(super) fn audit(&self) -> Vec<Value> {
        let mut lines = Vec::new();
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().starts_with("audit.jsonl") {
                let text = std::fs::read_to_string(path).unwrap();
                // Another process may be at the next line.
                let (text, _) = text.rsplit_once('\n').unwrap_or_default();
                lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
            }
        }
        lines
    }

    /// Checks that Ada was refused a resource at her share, and that nobody else was refused anything.
    pub(super) fn check_audit(&self, resource: &str) {
        let lines = self.audit();
        let refused: Vec<_> = lines.iter().filter(|line| line["event"] == "refusal").collect();
        assert!(!refused.is_empty(), "{lines:?}");
        for line in refused {
            let told = [&line["subject"], &line["operation"], &line["name"], &line["reason"]];
            assert_eq!(told, ["ada", "quota", resource, "caller_share"], "{line}");
        }
    }
}

/// The head of an answer, and its connection.
pub(super) struct Held {
    pub(super) status: u16,
    pub(super) head: String,
    _stream: TcpStream,
}

impl Held {
    async fn read(mut stream: TcpStream) -> Self {
        let mut head = Vec::new();
        let read = tokio::time::timeout(PATIENCE, async {
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
        });
        read.await.unwrap();
        let head = String::from_utf8(head).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, _stream: stream }
    }
}

/// Checks the answer to a caller at its share: it says whose limit it is, and nothing of others.
pub(super) fn check_refused(answer: &Answer, status: u16, resource: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["error"]["code"], "CALLER_SHARE", "{answer:?}");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with(&format!("the caller's share of {resource} is used up")),
        "{message}"
    );
}
