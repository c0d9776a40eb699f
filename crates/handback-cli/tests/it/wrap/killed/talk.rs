//! Clients of both eras over HTTP, who can be cut off anywhere.

use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use super::site::PATIENCE;
use crate::mcp_client::Era;
use crate::streams::server::{Server, read, request};

/// Where a key is said.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Meta,
    Header,
    OtherHeader,
}

pub(super) const PLACES: [Place; 3] = [Place::Meta, Place::Header, Place::OtherHeader];

/// A call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) tool: &'static str,
    pub(super) id: String,
    /// Bytes of its answer, if it is to be a long one.
    pub(super) fill: usize,
    pub(super) key: Option<(Place, String)>,
    /// The state that comes back, with an answer to what was asked.
    pub(super) state: Option<String>,
}

impl Call {
    pub(super) fn new(tool: &'static str, id: &str) -> Self {
        Self { tool, id: id.to_owned(), fill: 0, key: None, state: None }
    }

    pub(super) fn key(self, place: Place, key: &str) -> Self {
        Self { key: Some((place, key.to_owned())), ..self }
    }

    pub(super) fn state(self, state: &str) -> Self {
        Self { state: Some(state.to_owned()), ..self }
    }
}

/// How a call ended, as its client sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ended {
    /// With its effect, which has this number.
    Done { id: String, number: u64, is_replay: bool, bytes: usize },
    /// It asks something.
    Asked(String),
    /// There is no answer, for this reason, in these words.
    Refused(String, String),
    /// The connection ended before.
    Cut,
}

impl Ended {
    /// The number of the effect, and whether the answer is marked as one to an earlier try.
    #[track_caller]
    pub(super) fn done(self) -> (u64, bool) {
        match self {
            Self::Done { number, is_replay, .. } => (number, is_replay),
            other => panic!("not done: {other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn asked(self) -> String {
        match self {
            Self::Asked(state) => state,
            other => panic!("nothing is asked: {other:?}"),
        }
    }

    /// Why there is no answer.
    #[track_caller]
    pub(super) fn reason(self) -> String {
        match self {
            Self::Refused(reason, _) => reason,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// A client.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) era: Era,
    address: SocketAddr,
    /// Of the older era.
    session: Option<String>,
    requests: Cell<u64>,
}

/// A call that is under way.
pub(super) struct Open {
    stream: TcpStream,
    /// What was read.
    bytes: Vec<u8>,
}

impl Caller {
    /// A client that has said hello, if its era does so.
    #[track_caller]
    pub(super) fn of(server: &Server, era: Era) -> Self {
        let address = server.address;
        let mut caller = Self { era, address, session: None, requests: Cell::new(0) };
        if era == Era::Older {
            let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"elicitation": {}},
                "clientInfo": {"name": "test", "version": "1"},
            }});
            let mut open = caller.connect();
            open.send(&caller.bytes(&[], &hello));
            let welcome = read(&mut open.stream);
            let body = String::from_utf8_lossy(&welcome.body);
            let session = welcome.headers.get("mcp-session-id");
            caller.session = Some(session.unwrap_or_else(|| panic!("no session: {body}")).clone());
            caller.tell("notifications/initialized", &json!({}));
        }
        caller
    }

    /// Says something that is not answered.
    #[track_caller]
    pub(super) fn tell(&self, method: &str, params: &Value) {
        self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Answers a question of the server.
    #[track_caller]
    pub(super) fn reply(&self, id: &Value) {
        let result = json!({"action": "accept", "content": {"sure": true}});
        self.say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    #[track_caller]
    fn say(&self, message: &Value) {
        let mut open = self.connect();
        open.send(&self.bytes(&[], message));
        assert_eq!(read(&mut open.stream).status, 202);
    }

    /// Says that the answer to the last question is not wanted.
    pub(super) fn cancel(&self) {
        self.tell("notifications/cancelled", &json!({"requestId": self.requests.get()}));
    }

    pub(super) fn connect(&self) -> Open {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Open { stream, bytes: Vec::new() }
    }

    /// Makes a call, and waits for its end.
    #[track_caller]
    pub(super) fn call(&self, call: &Call) -> Ended {
        self.begin(call).end()
    }

    /// Makes a call.
    pub(super) fn begin(&self, call: &Call) -> Open {
        let mut open = self.connect();
        open.send(&self.request(call));
        open
    }

    /// The bytes of a call.
    pub(super) fn request(&self, call: &Call) -> Vec<u8> {
        let mut arguments = json!({"id": call.id});
        if call.fill > 0 {
            arguments["fill"] = call.fill.into();
        }
        let mut params = json!({"name": call.tool, "arguments": arguments});
        let mut headers = Vec::new();
        match &call.key {
            Some((Place::Meta, key)) => {
                params["_meta"]["dev.handback/idempotency-key"] = key.as_str().into()
            }
            Some((Place::Header, key)) => headers.push(("Idempotency-Key", key.as_str())),
            Some((Place::OtherHeader, key)) => headers.push(("x-idempotency-key", key.as_str())),
            None => {}
        }
        if let Some(state) = &call.state {
            params["requestState"] = state.as_str().into();
            params["inputResponses"] = json!({
                "q": {"action": "accept", "content": {"sure": true}},
                "question": {"action": "accept", "content": {}},
            });
        }
        if self.era == Era::Newest {
            for (name, value) in [
                ("protocolVersion", json!("2026-07-28")),
                ("clientInfo", json!({"name": "test", "version": "1"})),
                ("clientCapabilities", json!({"elicitation": {}})),
            ] {
                params["_meta"][format!("io.modelcontextprotocol/{name}")] = value;
            }
            headers.extend([("mcp-method", "tools/call"), ("mcp-name", call.tool)]);
        }
        self.requests.set(self.requests.get() + 1);
        let id = self.requests.get();
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.bytes(&headers, &message)
    }

    fn bytes(&self, more: &[(&str, &str)], message: &Value) -> Vec<u8> {
        let version = match self.era {
            Era::Older => "2025-11-25",
            Era::Newest => "2026-07-28",
        };
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", version),
        ];
        headers.extend(self.session.as_deref().map(|session| ("mcp-session-id", session)));
        headers.extend(more);
        request(self.address, "POST /mcp", &headers, message.to_string().as_bytes())
    }
}

impl Open {
    /// Sends some bytes; a gateway that is gone does not take them.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
        let _ = self.stream.flush();
    }

    /// Reads a little of a long answer: more than what is said before it.
    pub(super) fn taste(&mut self) {
        let mut bytes = [0; 4096];
        self.stream.read_exact(&mut bytes).unwrap();
    }

    /// Waits for what the client of the older era is asked; gives the id of the question.
    pub(super) fn question(&mut self) -> Value {
        loop {
            let text = String::from_utf8_lossy(&self.bytes).into_owned();
            let whole = text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
            let asked = whole.lines().filter_map(|line| line.strip_prefix("data: "));
            let mut asked = asked.filter_map(|json| serde_json::from_str::<Value>(json).ok());
            if let Some(asked) = asked.next_back().filter(|asked| !asked["method"].is_null()) {
                return asked["id"].clone();
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "nothing is asked: {text}");
            self.bytes.extend_from_slice(&bytes[..count]);
        }
    }

    /// Waits for the end.
    pub(super) fn end(mut self) -> Ended {
        // What came before it broke may be all of it.
        let _ = self.stream.read_to_end(&mut self.bytes);
        message(&self.bytes).map_or(Ended::Cut, |message| ended(&message))
    }
}

/// The last message of a response, if it came to its end.
fn message(bytes: &[u8]) -> Option<Value> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).unwrap().to_ascii_lowercase();
    let body = &bytes[end + 4..];
    let text = if head.contains("transfer-encoding: chunked") {
        if !body.ends_with(b"0\r\n\r\n") {
            return None;
        }
        let mut text = Vec::new();
        let mut rest = body;
        while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
            let length =
                usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap(), 16).unwrap();
            text.extend_from_slice(&rest[at + 2..][..length]);
            rest = &rest[at + 4 + length..];
        }
        text
    } else {
        body.to_vec()
    };
    let text = String::from_utf8(text).unwrap();
    let last = text.lines().rev().find_map(|line| line.strip_prefix("data: "));
    serde_json::from_str(last.unwrap_or(&text)).ok()
}

fn ended(message: &Value) -> Ended {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let result = &message["result"];
    if let Some(state) = text(&result["requestState"]) {
        return Ended::Asked(state);
    }
    let said = text(&result["content"][0]["text"]).or_else(|| text(&message["error"]["message"]));
    let said = said.unwrap_or_else(|| message.to_string());
    let reason = text(&result["_meta"]["dev.handback/reason"])
        .or_else(|| text(&message["error"]["data"]["reason"]));
    let mut words = said.split(' ');
    match (reason, words.next(), words.next(), words.next()) {
        (None, Some("done"), Some(id), Some(number)) => Ended::Done {
            id: id.to_owned(),
            number: number.parse().unwrap(),
            is_replay: result["_meta"]["dev.handback/replayed"] == true,
            bytes: said.len(),
        },
        (reason, ..) => Ended::Refused(reason.unwrap_or_default(), said),
    }
}
