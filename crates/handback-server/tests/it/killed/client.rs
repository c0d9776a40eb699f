//! A client that notices when it is cut off.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::process::Process;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a call goes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Http,
    Mcp,
    Socket,
}

/// A call, as often as it is made.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) door: Door,
    pub(crate) tool: String,
    pub(crate) args: Value,
    pub(crate) key: Option<String>,
    pub(crate) back: Back,
    pub(crate) knows_tasks: bool,
}

/// What it comes back with.
#[derive(Clone, Debug)]
pub(crate) enum Back {
    Nothing,
    Cursor(String),
    /// The state of an exchange, and yes for an answer.
    Yes(String),
}

/// What a client got.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ended {
    /// The connection ended before the answer did.
    Cut,
    Ambiguous,
    Done(Done),
    /// A question, with this state.
    Asked(String),
    /// The handle of a task.
    Task(String),
    Other(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Done {
    pub(crate) tag: String,
    pub(crate) number: i64,
    pub(crate) bytes: usize,
    pub(crate) is_replay: bool,
    pub(crate) next: Option<String>,
}

impl Ended {
    #[track_caller]
    pub(crate) fn done(self) -> Done {
        match self {
            Self::Done(done) => done,
            other => panic!("not done: {other:?}"),
        }
    }
}

impl Call {
    pub(crate) fn new(door: Door, tool: impl Into<String>, tag: &str) -> Self {
        let (tool, args) = (tool.into(), json!({"tag": tag}));
        Self { door, tool, args, key: None, back: Back::Nothing, knows_tasks: false }
    }

    pub(crate) fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    pub(crate) fn back(&self, back: Back) -> Self {
        Self { back, ..self.clone() }
    }

    /// Makes the call, to its end.
    pub(crate) fn make(&self, server: &Process) -> Ended {
        // A server that dies meanwhile is not reached.
        let Ok(mut open) = Open::try_to(server, self.door) else { return Ended::Cut };
        open.send(&self.bytes());
        open.end()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self.door {
            Door::Http => self.http(),
            Door::Mcp => self.mcp(),
            Door::Socket => self.frame(),
        }
    }

    fn http(&self) -> Vec<u8> {
        let (verb, body) = match &self.back {
            Back::Nothing => ("run", json!({"arguments": self.args})),
            Back::Cursor(cursor) => ("continue", json!({"cursor": cursor})),
            Back::Yes(state) => {
                let answers = json!({"sure": yes()});
                let back = json!({"requestState": state, "inputResponses": answers});
                ("run", with(json!({"arguments": self.args}), back))
            }
        };
        let key = self.key.iter().map(|key| ("idempotency-key", key.as_str())).collect::<Vec<_>>();
        post(&format!("/v1/tools/{}/{verb}", self.tool), &key, &body)
    }

    fn mcp(&self) -> Vec<u8> {
        let mut arguments = self.args.clone();
        let mut params = json!({"name": self.tool});
        match &self.back {
            Back::Nothing => {}
            Back::Cursor(cursor) => arguments = with(arguments, json!({"__cursor": cursor})),
            Back::Yes(state) => {
                let back = json!({"requestState": state, "inputResponses": {"sure": yes()}});
                params = with(params, back);
            }
        }
        params = with(params, json!({"arguments": arguments}));
        if let Some(key) = &self.key {
            params = with(params, json!({"_meta": {"dev.handback/idempotency-key": key}}));
        }
        mcp("tools/call", &self.tool, params, self.knows_tasks)
    }

    fn frame(&self) -> Vec<u8> {
        let mut message = match &self.back {
            Back::Nothing => json!({"type": "run_tool", "args": self.args}),
            Back::Cursor(cursor) => json!({"type": "run_tool_continue", "cursor": cursor}),
            Back::Yes(_) => panic!("this protocol has no answers"),
        };
        message = with(message, json!({"tool_id": self.tool, "idempotency_key": self.key}));
        let body = message.to_string();
        let length = u32::try_from(body.len()).unwrap();
        [&length.to_be_bytes(), body.as_bytes()].concat()
    }
}

fn yes() -> Value {
    json!({"action": "accept", "content": {"confirm": true}})
}

fn with(mut object: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("no object: {more}") };
    let object_members: &mut Map<_, _> = object.as_object_mut().unwrap();
    object_members.extend(more);
    object
}

/// What becomes of a task.
pub(crate) fn task(server: &Process, id: &str) -> Value {
    let mut open = Open::to(server, Door::Mcp);
    open.send(&mcp("tasks/get", id, json!({"taskId": id}), true));
    open.message().expect("an answer")["result"].clone()
}

fn mcp(method: &str, name: &str, mut params: Value, knows_tasks: bool) -> Vec<u8> {
    let extensions =
        if knows_tasks { json!({"io.modelcontextprotocol/tasks": {}}) } else { json!({}) };
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": {},
            "extensions": extensions,
        },
    });
    let known = params["_meta"].take();
    let meta = if known.is_null() { meta } else { with(meta, known) };
    params = with(params, json!({"_meta": meta}));
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let headers = [
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
        ("mcp-name", name),
    ];
    post("/mcp", &headers, &message)
}

fn post(path: &str, headers: &[(&str, &str)], body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let mut head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n",
        body.len(),
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{head}\r\n{body}").into_bytes()
}

/// A connection with a call on it.
pub(crate) struct Open {
    door: Door,
    stream: Stream,
    got: Vec<u8>,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn as_read(&mut self) -> &mut dyn std::io::Read {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        }
    }

    fn as_write(&mut self) -> &mut dyn Write {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        }
    }
}

impl Open {
    pub(crate) fn to(server: &Process, door: Door) -> Self {
        Self::try_to(server, door).unwrap()
    }

    fn try_to(server: &Process, door: Door) -> std::io::Result<Self> {
        let stream = if door == Door::Socket {
            let stream = UnixStream::connect(&server.socket)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Stream::Unix(stream)
        } else {
            let stream = TcpStream::connect(server.address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            Stream::Tcp(stream)
        };
        Ok(Self { door, stream, got: Vec::new() })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        // A server that dies meanwhile reads no more.
        let _ = self.stream.as_write().write_all(bytes);
    }

    /// Waits for the beginning of the answer.
    pub(crate) fn begin(&mut self) {
        let mut first = [0; 16];
        if self.stream.as_read().read_exact(&mut first).is_ok() {
            self.got.extend(first);
        }
    }

    /// Reads the answer to its end.
    pub(crate) fn end(&mut self) -> Ended {
        let Some(message) = self.message() else { return Ended::Cut };
        let ended = match self.door {
            Door::Http => of_http(&message),
            Door::Mcp => of_mcp(&message),
            Door::Socket => of_socket(&message),
        };
        ended.unwrap_or_else(|| Ended::Other(message.to_string()))
    }

    /// The message in a whole answer.
    pub(crate) fn message(&mut self) -> Option<Value> {
        let mut part = vec![0; 64 << 10];
        loop {
            if let Some(body) = whole(self.door, &self.got) {
                let text = String::from_utf8(body).unwrap();
                let mut data = text.lines().filter_map(|line| line.strip_prefix("data: "));
                let message = data.rfind(|data| !data.is_empty());
                let message = serde_json::from_str(message.unwrap_or(&text));
                return Some(message.unwrap_or_else(|error| panic!("{error}: {text}")));
            }
            match self.stream.as_read().read(&mut part) {
                Ok(0) => return None,
                Ok(bytes) => self.got.extend_from_slice(&part[..bytes]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("no answer"),
                Err(_) => return None,
            }
        }
    }
}

/// The body of an answer, once all of it is there.
fn whole(door: Door, got: &[u8]) -> Option<Vec<u8>> {
    if door == Door::Socket {
        let length = u32::from_be_bytes(*got.first_chunk::<4>()?);
        return got.get(4..4 + usize::try_from(length).unwrap()).map(<[u8]>::to_vec);
    }
    let end = got.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&got[..end]).unwrap().to_ascii_lowercase();
    let body = &got[end + 4..];
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    match length {
        Some(length) => body.get(..length.parse().unwrap()).map(<[u8]>::to_vec),
        None => unchunked(body),
    }
}

fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(end + 2..end + 2 + length)?);
        rest = rest.get(end + 4 + length..)?;
    }
}

fn of_http(message: &Value) -> Option<Ended> {
    if message["error"]["code"] == "ambiguous" {
        return Some(Ended::Ambiguous);
    }
    if let Some(state) = message["requestState"].as_str() {
        return Some(Ended::Asked(state.to_owned()));
    }
    let is_replay = message["replayed"] == true;
    done(&message["result"], is_replay, &message["nextCursor"])
}

fn of_mcp(message: &Value) -> Option<Ended> {
    let result = &message["result"];
    if result["_meta"]["dev.handback/reason"] == "ambiguous" {
        return Some(Ended::Ambiguous);
    }
    match result["resultType"].as_str()? {
        "input_required" => Some(Ended::Asked(result["requestState"].as_str()?.to_owned())),
        "task" => Some(Ended::Task(result["taskId"].as_str()?.to_owned())),
        _ => {
            let given = &result["structuredContent"];
            let given = given.get("items").unwrap_or(given);
            let is_replay = result["_meta"]["dev.handback/replayed"] == true;
            done(given, is_replay, &result["_meta"]["dev.handback/nextCursor"])
        }
    }
}

fn of_socket(message: &Value) -> Option<Ended> {
    if message["message"].as_str().is_some_and(|words| words.contains("effect is not known")) {
        return Some(Ended::Ambiguous);
    }
    done(&message["result"], message["replayed"] == true, &message["next_cursor"])
}

/// What a tool of these tests gave: an object, or a page with one.
fn done(given: &Value, is_replay: bool, next: &Value) -> Option<Ended> {
    let given = if given.is_array() { &given[0] } else { given };
    Some(Ended::Done(Done {
        tag: given["tag"].as_str()?.to_owned(),
        number: given["number"].as_i64()?,
        bytes: given["fill"].as_str()?.len(),
        is_replay,
        next: next.as_str().map(str::to_owned),
    }))
}
