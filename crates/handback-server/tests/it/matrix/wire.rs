//! Clients of all surfaces, which say exactly what they are told to, and keep every byte that comes.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use handback_stream::atd::{ClientMessage, Frames, frame};
use handback_stream::duplex::{ClientFrame, Format, Hello, ServerFrame};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use super::world::World;

/// How long an answer may take: many times what it does.
const PATIENCE: Duration = Duration::from_secs(20);

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) status: u16,
    /// The status line and all headers but the date, as they came.
    head: String,
    pub(crate) body: String,
}

impl Http {
    /// All that is not different every time: ids of events are, like those of requests.
    pub(crate) fn raw(&self) -> String {
        let lines = self.body.lines().filter(|line| !line.starts_with("id: "));
        format!("{}\n\n{}", self.head, lines.collect::<Vec<_>>().join("\n"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// What the events of a stream say.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| !data.is_empty())
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    /// The answer to a message of JSON-RPC, in a stream or not.
    pub(crate) fn message(&self) -> Value {
        self.events().pop().unwrap_or_else(|| self.json())
    }

    /// The ids of the events.
    pub(crate) fn event_ids(&self) -> Vec<String> {
        self.body.lines().filter_map(|line| line.strip_prefix("id: ")).map(str::to_owned).collect()
    }
}

pub(crate) fn http(
    world: &World,
    line: &str,
    headers: &[(&str, Option<&str>)],
    body: &str,
) -> Http {
    let mut stream = TcpStream::connect(world.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = world.address;
    let mut text = format!("{line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    for (name, value) in headers {
        if let Some(value) = value {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let is_chunked = head.lines().any(|line| line == "transfer-encoding: chunked");
    Http {
        status: head[9..12].parse().unwrap(),
        head: head
            .lines()
            .filter(|line| !line.starts_with("date: "))
            .collect::<Vec<_>>()
            .join("\n"),
        body: if is_chunked { joined(body) } else { body.to_owned() },
    }
}

/// Chunks as one.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        body.push_str(&rest[..length]);
        chunks = rest[length..].strip_prefix("\r\n").unwrap();
    }
    body
}

/// Asks over the UNIX socket; gives the message as it came.
pub(crate) fn socket(world: &World, message: &ClientMessage) -> String {
    let mut stream = UnixStream::connect(&world.socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&frame(message).unwrap()).unwrap();
    let mut frames = Frames::default();
    loop {
        if let Some(message) = frames.next_message().unwrap() {
            return String::from_utf8(message.to_vec()).unwrap();
        }
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "the server hung up");
        frames.buffer_mut().extend_from_slice(&bytes[..count]);
    }
}

/// A duplex connection.
pub(crate) struct Duplex(WebSocket<TcpStream>);

impl Duplex {
    pub(crate) fn open(world: &World, bearer: Option<&str>, handler: &str, hello: Hello) -> Self {
        let url = format!("ws://{}/v1/duplex?handler={handler}", world.address);
        let mut request = url.into_client_request().unwrap();
        if let Some(bearer) = bearer {
            request.headers_mut().insert("authorization", bearer.parse().unwrap());
        }
        let stream = TcpStream::connect(world.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (socket, _) = client(request, stream).unwrap_or_else(|error| panic!("{error}"));
        let mut duplex = Self(socket);
        duplex.say(&ClientFrame::Hello(hello));
        duplex
    }

    pub(crate) fn say(&mut self, frame: &ClientFrame) {
        let text = String::from_utf8(frame.encode(Format::Json).to_vec()).unwrap();
        self.0.send(Message::text(text)).unwrap();
    }

    /// The next frame, as it came. Pings do not make the wait for it longer.
    pub(crate) fn hear(&mut self) -> (ServerFrame, String) {
        let last = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < last, "the server says nothing");
            if let Message::Text(text) = self.0.read().unwrap() {
                let bytes = Bytes::from(text.to_string());
                return (ServerFrame::decode(Format::Json, &bytes).unwrap(), text.to_string());
            }
        }
    }

    /// With what it is closed.
    pub(crate) fn closed(&mut self) -> String {
        loop {
            if let Message::Close(close) = self.0.read().unwrap() {
                let close = close.unwrap();
                return format!("{} {:?}", close.code, close.reason.as_str());
            }
        }
    }
}

/// A message of JSON-RPC to `/mcp`, in the new era.
pub(crate) fn modern(world: &World, bearer: Option<&str>, method: &str, params: &Value) -> Http {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": {},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        },
    });
    let name = ["name", "taskId"].iter().find_map(|name| params[*name].as_str().map(str::to_owned));
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let headers = [
        ("authorization", bearer),
        ("content-type", Some("application/json")),
        ("accept", Some("application/json, text/event-stream")),
        ("mcp-protocol-version", Some("2026-07-28")),
        ("mcp-method", Some(method)),
        ("mcp-name", name.as_deref()),
    ];
    http(world, "POST /mcp", &headers, &message.to_string())
}

/// The same in the old one.
pub(crate) fn legacy(
    world: &World,
    bearer: Option<&str>,
    session: Option<&str>,
    message: &Value,
) -> Http {
    let headers = [
        ("authorization", bearer),
        ("content-type", Some("application/json")),
        ("accept", Some("application/json, text/event-stream")),
        ("mcp-session-id", session),
    ];
    http(world, "POST /mcp", &headers, &message.to_string())
}

/// A request of the old era.
pub(crate) fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

/// Comes back for events.
pub(crate) fn resume(world: &World, bearer: Option<&str>, session: &str, event: &str) -> Http {
    let headers = [
        ("authorization", bearer),
        ("accept", Some("text/event-stream")),
        ("mcp-session-id", Some(session)),
        ("last-event-id", Some(event)),
    ];
    http(world, "GET /mcp", &headers, "")
}

/// Begins a session of the old era.
pub(crate) fn begin(world: &World, bearer: Option<&str>) -> String {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        "clientInfo": {"name": "test", "version": "0"},
    });
    let answer = legacy(world, bearer, None, &request("initialize", &params));
    let session = answer.header("mcp-session-id");
    let session = session.unwrap_or_else(|| panic!("no session: {answer:?}")).to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let answer = legacy(world, bearer, Some(&session), &ready);
    assert_eq!(answer.status, 202, "{answer:?}");
    session
}
