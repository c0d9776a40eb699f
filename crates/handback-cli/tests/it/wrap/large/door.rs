//! Two ways to a server behind the binary.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::mcp_client::{Client, Era};
use crate::streams::server::{Server, request};
use crate::support::Sandbox;

/// Far more than a busy machine takes for the largest result.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What no answer is larger than: the budget of clients that are not known.
const BUDGET_BYTES: usize = 40 << 10;

/// A way to the tools of a server.
pub(super) trait Door {
    fn name(&self) -> &'static str;

    fn sandbox(&self) -> &Sandbox;

    /// The process of the binary.
    fn pid(&self) -> u32;

    /// Calls a tool, perhaps under a key.
    fn ask(&mut self, tool: &str, arguments: &Value, key: Option<&str>) -> Value;

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.ask(tool, arguments, None);
        let bytes = result.to_string().len();
        assert!(bytes <= BUDGET_BYTES, "{tool} gave {bytes} bytes");
        result
    }

    fn call_with_key(&mut self, tool: &str, arguments: &Value, key: &str) -> Value {
        self.ask(tool, arguments, Some(key))
    }

    /// How often the server was called.
    fn calls(&self) -> usize {
        fs::read_to_string(self.sandbox().path("record")).unwrap().lines().count()
    }

    /// Forgets the most memory that the process ever had; gives what it has.
    fn forget_peak(&self) -> u64 {
        let file = format!("/proc/{}/clear_refs", self.pid());
        fs::write(file, "5").expect("a process of the same user");
        self.memory("VmRSS:")
    }

    /// The most memory that the process had since.
    fn peak(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
    }
}

fn sandbox(settings: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("upstream.py", include_str!("upstream.py"));
    sandbox.write("record", "");
    sandbox.write("handback.toml", settings);
    sandbox
}

/// The words that start the server.
fn command(sandbox: &Sandbox, way: &str) -> Vec<String> {
    let path = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
    let words = ["/usr/bin/env", "PATH=/usr/local/bin:/usr/bin:/bin", "python3"].map(str::to_owned);
    [&words[..], &[path("upstream.py"), path("record"), way.to_owned()]].concat()
}

/// `handback wrap`.
pub(super) struct Wrapped {
    client: Client,
    sandbox: Sandbox,
}

impl Wrapped {
    pub(super) fn start(settings: &str) -> Self {
        let sandbox = sandbox(settings);
        let config = sandbox.path("handback.toml");
        let words = ["wrap", "--config", config.to_str().unwrap(), "--"].map(str::to_owned);
        let words = [&words[..], &command(&sandbox, "stdio")].concat();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let client = Client::of(&sandbox, &words, Era::Newest, json!({})).patient(PATIENCE);
        Self { client: client.greeted(), sandbox }
    }
}

impl Door for Wrapped {
    fn name(&self) -> &'static str {
        "wrap"
    }

    fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    fn pid(&self) -> u32 {
        self.client.pid()
    }

    fn ask(&mut self, tool: &str, arguments: &Value, key: Option<&str>) -> Value {
        let mut params = json!({"name": tool, "arguments": arguments});
        if let Some(key) = key {
            params["_meta"] = json!({"dev.handback/idempotency-key": key});
        }
        self.client.ask("tools/call", params)
    }
}

/// How the binary reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Http,
    Stdio,
}

/// `handback serve --upstream`, with two callers.
pub(super) struct Served {
    server: Option<Server>,
    upstream: String,
    /// The server, if it is not started by the binary.
    process: Option<Child>,
    alice: String,
    bob: String,
    over: Over,
    sandbox: Sandbox,
}

impl Served {
    pub(super) fn start(settings: &str, over: Over) -> Self {
        let identities =
            "[identity]\nmode = \"static\"\n[identity.static]\nfile = \"identities\"\n";
        let sandbox = sandbox(&format!("{identities}{settings}"));
        let token = |subject: &str| {
            let line = format!("identity add --subject {subject} --file identities");
            sandbox.json(&line)["token"].as_str().unwrap().to_owned()
        };
        let (alice, bob) = (token("alice"), token("bob"));
        let (process, upstream) = match over {
            Over::Http => {
                let words = command(&sandbox, "http");
                let mut process = Command::new(&words[0])
                    .args(&words[1..])
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut port = String::new();
                BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
                (Some(process), format!("up=http://127.0.0.1:{}/", port.trim()))
            }
            Over::Stdio => (None, format!("up={}", command(&sandbox, "stdio").join(" "))),
        };
        let mut served = Self { server: None, upstream, process, alice, bob, over, sandbox };
        served.server = Some(served.launched(&[]));
        served
    }

    fn launched(&self, variables: &[(&str, &str)]) -> Server {
        let config = self.sandbox.path("handback.toml");
        let more = ["--config", config.to_str().unwrap(), "--upstream", &self.upstream];
        Server::start_under(&self.sandbox, &self.sandbox.path("data"), &more, variables)
    }

    /// Starts the binary again, so many milliseconds later.
    pub(super) fn restart(&mut self, later_ms: &str) {
        self.server.take().unwrap().stop();
        self.server = Some(self.launched(&[("HANDBACK_TEST_CLOCK_MS", later_ms)]));
    }

    /// What the other caller gets.
    pub(super) fn bob(&self, tool: &str, arguments: &Value) -> Value {
        self.as_caller(&self.bob, tool, arguments, None)
    }

    fn as_caller(&self, token: &str, tool: &str, arguments: &Value, key: Option<&str>) -> Value {
        let server = self.server.as_ref().unwrap();
        let params = json!({"name": tool, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let bearer = format!("Bearer {token}");
        let mut headers = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", tool),
        ];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = message.to_string();
        let asked = request(server.address, "POST /mcp", &headers, body.as_bytes());
        stream.write_all(&asked).unwrap();
        let answer = crate::streams::server::read(&mut stream);
        let body = String::from_utf8(answer.body).unwrap();
        // The last event is the answer.
        let json = body.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&body);
        let message: Value = serde_json::from_str(json).unwrap_or_else(|error| {
            panic!("{error}: {} {body}", answer.status);
        });
        assert!(message["error"].is_null(), "{message}");
        message["result"].clone()
    }
}

impl Door for Served {
    fn name(&self) -> &'static str {
        match self.over {
            Over::Http => "serve, from HTTP",
            Over::Stdio => "serve, from stdio",
        }
    }

    fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    fn pid(&self) -> u32 {
        self.server.as_ref().unwrap().pid()
    }

    fn ask(&mut self, tool: &str, arguments: &Value, key: Option<&str>) -> Value {
        self.as_caller(&self.alice, tool, arguments, key)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
