//! `handback serve --upstream`: two callers with one upstream behind, over HTTP.

use std::io::Write as _;
use std::net::TcpStream;

use serde_json::{Value, json};

use super::World;
use crate::streams::server::{Server, request};
use crate::support::Sandbox;

const STATIC: &str = "[identity]\nmode = \"static\"\n[identity.static]\nfile = \"identities\"\n";

pub(super) struct Callers {
    pub(super) world: World,
    server: Server,
    pub(super) alice: String,
    pub(super) bob: String,
}

/// What came back: the status, the session that it began, and the message.
struct Told {
    status: u16,
    session: Option<String>,
    message: Value,
}

impl Callers {
    fn new() -> Self {
        Self::before(&[("up", "both")], "")
    }

    /// Callers of a gateway before these servers, each with the eras that it speaks; `more` is
    /// configured.
    pub(super) fn before(upstreams: &[(&str, &str)], more: &str) -> Self {
        // Who waits for a server that never comes up does not wait for as long as everywhere.
        let world = World::with(Sandbox::new().set("HANDBACK_TEST_START_MS", "20000"));
        let upstreams = commands(&world, upstreams);
        Self::of(world, &upstreams, more)
    }

    /// Callers of a gateway before servers that are named as its flag has it.
    pub(super) fn of(world: World, upstreams: &[String], more: &str) -> Self {
        let sandbox = &world.sandbox;
        let token = |subject: &str| {
            let line = format!("identity add --subject {subject} --file identities");
            sandbox.json(&line)["token"].as_str().unwrap().to_owned()
        };
        let (alice, bob) =
            (token("alice --scope handback:metrics --scope handback:revoke"), token("bob"));
        sandbox.write("handback.toml", &format!("{STATIC}{more}"));
        let server = serve(&world, upstreams);
        Self { server, alice, bob, world }
    }

    /// The same callers, after the gateway was started again before these servers.
    pub(super) fn now_before(self, upstreams: &[(&str, &str)]) -> Self {
        let Self { world, server, alice, bob } = self;
        server.stop();
        let server = serve(&world, &commands(&world, upstreams));
        Self { server, alice, bob, world }
    }

    /// The same, with something else configured.
    pub(super) fn now_with(self, upstreams: &[(&str, &str)], more: &str) -> Self {
        self.world.sandbox.write("handback.toml", &format!("{STATIC}{more}"));
        self.now_before(upstreams)
    }

    fn post(&self, token: &str, headers: &[(&str, &str)], message: &Value) -> Told {
        told(self.begin_post(token, headers, message))
    }

    /// A request, whose answer nobody has read yet.
    fn begin_post(&self, token: &str, headers: &[(&str, &str)], message: &Value) -> TcpStream {
        self.begin_text(token, headers, &message.to_string())
    }

    fn begin_text(&self, token: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let bearer = format!("Bearer {token}");
        let mut all = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        all.extend(headers);
        let mut stream = self.server.connect();
        let bytes = request(self.server.address, "POST /mcp", &all, body.as_bytes());
        stream.write_all(&bytes).unwrap();
        stream
    }

    /// A sample of the metrics.
    #[track_caller]
    pub(super) fn number(&self, name: &str) -> u64 {
        let bearer = format!("Bearer {}", self.alice);
        let answer = self.server.ask("GET /metrics", &[("authorization", bearer.as_str())], b"");
        let text = String::from_utf8(answer.body).unwrap();
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// A call of the newer era that nobody has read the answer of.
    pub(super) fn begin_to_ask(&self, token: &str, tool: &str, mut params: Value) -> TcpStream {
        params["name"] = tool.into();
        let (headers, message) = newest("tools/call", tool, params, json!({}));
        self.begin_post(token, &headers, &message)
    }

    /// A call with more headers, in a session of the older era or, without one, of the newer; nobody has
    /// read its answer.
    pub(super) fn begin_saying(
        &self,
        (token, session): (&str, Option<&str>),
        more: &[(&str, &str)],
        mut params: Value,
        tool: &str,
    ) -> TcpStream {
        params["name"] = tool.into();
        let (mut headers, message) = match session {
            None => newest("tools/call", tool, params, json!({})),
            Some(session) => {
                let message =
                    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
                (in_session(session), message)
            }
        };
        headers.extend(more);
        self.begin_post(token, &headers, &message)
    }

    /// Says something in a session that is not answered.
    pub(super) fn tell_in(&self, token: &str, session: &str, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        assert_eq!(self.post(token, &in_session(session), &message).status, 202);
    }

    /// Ends a session.
    pub(super) fn end(&self, token: &str, session: &str) {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("mcp-session-id", session)];
        assert_eq!(self.server.ask("DELETE /mcp", &headers, b"").status, 202);
    }

    /// A session of the older era.
    pub(super) fn begin(&self, token: &str) -> String {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }});
        self.post(token, &[], &hello).session.unwrap()
    }

    /// A question in a session; gives the message that answers it.
    pub(super) fn ask_in(&self, token: &str, session: &str, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
        self.post(token, &in_session(session), &message).message
    }

    /// A call of the newer era.
    pub(super) fn ask(&self, token: &str, tool: &str, mut params: Value) -> Value {
        params["name"] = tool.into();
        self.ask_of(token, "tools/call", tool, params, json!({"elicitation": {}}))
    }

    /// A question of the newer era; `name` is what the protocol wants in a header.
    pub(super) fn ask_of(
        &self,
        token: &str,
        method: &str,
        name: &str,
        params: Value,
        capabilities: Value,
    ) -> Value {
        let (headers, message) = newest(method, name, params, capabilities);
        self.post(token, &headers, &message).message
    }

    /// The bytes that answer a question, of the newer era or in a session.
    pub(super) fn body_of(
        &self,
        (token, session): (&str, Option<&str>),
        method: &str,
        name: &str,
        params: Value,
        capabilities: Value,
    ) -> String {
        let (headers, message) = match session {
            None => newest(method, name, params, capabilities),
            Some(session) => {
                let message =
                    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
                (in_session(session), message)
            }
        };
        let mut stream = self.begin_post(token, &headers, &message);
        let body = crate::streams::server::read(&mut stream).body;
        let body = String::from_utf8(body).unwrap();
        let event = body.lines().rev().find_map(|line| line.strip_prefix("data: "));
        event.unwrap_or(&body).to_owned()
    }

    /// Revokes everything that was given out so far.
    pub(super) fn revoke_until_now(&self) {
        // Long after all of it.
        let body = json!({"before_ms": 4_000_000_000_000_u64}).to_string();
        let bearer = format!("Bearer {}", self.alice);
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let answer = self.server.ask("POST /v1/revocations", &headers, body.as_bytes());
        assert_eq!(answer.status, 201);
    }

    /// Listens to what changes; `notifications` is JSON, or nearly.
    pub(super) fn listen_to(&self, token: &str, notifications: &str) -> TcpStream {
        self.listen_as(token, notifications, json!({}))
    }

    /// The same, for a client that can do this.
    pub(super) fn listen_as(
        &self,
        token: &str,
        notifications: &str,
        capabilities: Value,
    ) -> TcpStream {
        let params = json!({"notifications": "HERE"});
        let (headers, message) = newest("subscriptions/listen", "", params, capabilities);
        let message = message.to_string().replace("\"HERE\"", notifications);
        self.begin_text(token, &headers, &message)
    }

    /// The names of all tools that this caller sees.
    pub(super) fn tools(&self, token: &str) -> Vec<String> {
        let (mut names, mut params) = (Vec::new(), json!({}));
        loop {
            let page = self.ask_of(token, "tools/list", "", params, json!({}));
            let tools = page["result"]["tools"].as_array().unwrap_or_else(|| panic!("{page}"));
            names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
            match &page["result"]["nextCursor"] {
                Value::Null => return names,
                cursor => params = json!({"cursor": cursor}),
            }
        }
    }
}

/// What came back of a request.
fn told(mut stream: TcpStream) -> Told {
    let answer = crate::streams::server::read(&mut stream);
    let body = String::from_utf8(answer.body.clone()).unwrap();
    // The last event is the answer.
    let json = body.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&body);
    let session = answer.headers.get("mcp-session-id").cloned();
    let message = serde_json::from_str(json).unwrap_or(Value::Null);
    Told { status: answer.status, session, message }
}

/// The message that answers a request.
pub(super) fn answer(stream: TcpStream) -> Value {
    told(stream).message
}

/// Headers of what is said in a session.
fn in_session(session: &str) -> Vec<(&str, &str)> {
    vec![("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")]
}

/// Headers and message of a question of the newer era.
fn newest<'a>(
    method: &'a str,
    name: &'a str,
    mut params: Value,
    capabilities: Value,
) -> (Vec<(&'a str, &'a str)>, Value) {
    for (member, value) in [
        ("protocolVersion", json!("2026-07-28")),
        ("clientInfo", json!({"name": "test", "version": "1"})),
        ("clientCapabilities", capabilities),
    ] {
        params["_meta"][format!("io.modelcontextprotocol/{member}")] = value;
    }
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    headers.extend((!name.is_empty()).then_some(("mcp-name", name)));
    (headers, json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
}

/// What starts these servers, as the flag has it.
pub(super) fn commands(world: &World, upstreams: &[(&str, &str)]) -> Vec<String> {
    let path = |name: &str| world.sandbox.path(name).to_str().unwrap().to_owned();
    let (script, record) = (path("upstream.py"), path("record"));
    let python = "/usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin python3";
    let command =
        |(name, speaks): &(&str, &str)| format!("{name}={python} {script} {record} {speaks}");
    upstreams.iter().map(command).collect()
}

fn serve(world: &World, upstreams: &[String]) -> Server {
    let (config, data) = (world.sandbox.path("handback.toml"), world.sandbox.path("data"));
    let mut more = vec!["--config", config.to_str().unwrap()];
    more.extend(upstreams.iter().flat_map(|upstream| ["--upstream", upstream.as_str()]));
    Server::start_with(&world.sandbox, &data, &more)
}

fn handle(answer: &Value) -> String {
    let held = &answer["result"]["_meta"]["dev.handback/held"][0]["handle"];
    held.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn what_one_holds_is_nothing_to_the_other() {
    let callers = Callers::new();
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    let document = callers.ask(alice, "document", json!({"arguments": {"bytes": 100_000}}));
    let handle = handle(&document);
    let read = |who: &str, handle: &str| {
        let params = json!({"operation": "list_elements", "element_type": handle, "params": {}});
        callers.ask(who, "mcp_aql_read", json!({"arguments": params}))["result"].clone()
    };
    assert!(super::text(&read(alice, &handle)).contains("\"success\":true"));
    let refused = read(bob, &handle);
    assert!(super::text(&refused).contains("invalid handle"), "{refused}");
    let listed = json!({"arguments": {"operation": "list_collections", "params": {}}});
    let listed = callers.ask(bob, "mcp_aql_read", listed).to_string();
    assert!(!listed.contains(&handle), "{listed}");
    // Nor can it be passed on by who does not own it; and that is told as of one that never was.
    let write = |who: &str, handle: &str| {
        let text = format!("$held:{handle}");
        callers.ask(who, "write_document", json!({"arguments": {"text": text}}))["result"].clone()
    };
    let foreign = write(bob, &handle);
    assert_eq!(foreign["isError"], true, "{foreign}");
    let never = handback_token::Handle::generate(&mut rand::rng()).to_string();
    assert_eq!(foreign, write(bob, &never));
    assert!(callers.world.effects("write").is_empty());
    assert_eq!(super::text(&write(alice, &handle)), "written");
}

#[test]
fn the_state_of_one_is_nothing_to_the_other() {
    let callers = Callers::new();
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    let call = json!({"arguments": {"what": "x"}});
    let asked = callers.ask(alice, "confirm", call.clone());
    let mut back = call;
    back["requestState"] = asked["result"]["requestState"].clone();
    back["inputResponses"] = json!({"q": {"action": "accept"}});
    let refused = callers.ask(bob, "confirm", back.clone());
    assert_eq!(refused["error"]["data"]["reason"], "invalid", "{refused}");
    assert!(callers.world.effects("confirm").is_empty());
    let confirmed = callers.ask(alice, "confirm", back);
    assert_eq!(super::text(&confirmed["result"]), "confirmed upstream-state:x");
}

#[test]
fn the_key_of_one_is_not_that_of_the_other() {
    let callers = Callers::new();
    let params = json!({"arguments": {"text": "a"}});
    let by = |who: &str| {
        let mut params = params.clone();
        params["name"] = "append".into();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "append"),
            ("idempotency-key", "k"),
        ];
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        callers.post(who, &headers, &message).message["result"].clone()
    };
    let first = by(&callers.alice);
    assert!(first["_meta"]["dev.handback/replayed"].is_null(), "{first}");
    assert_eq!(by(&callers.alice)["_meta"]["dev.handback/replayed"], true);
    assert!(by(&callers.bob)["_meta"]["dev.handback/replayed"].is_null());
    assert_eq!(callers.world.effects("append").len(), 2);
}

#[test]
fn the_session_of_one_is_nothing_to_the_other() {
    let callers = Callers::new();
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    let session = callers.begin(alice);
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}});
    let asked = |who: &str, session: &str| {
        callers.post(
            who,
            &[("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")],
            &list,
        )
    };
    assert_eq!((asked(alice, &session).status, asked(bob, &session).status), (200, 404));
    assert_eq!(asked(bob, "no").status, 404);
    let delete = |who: &str| {
        let bearer = format!("Bearer {who}");
        let headers = [("authorization", bearer.as_str()), ("mcp-session-id", session.as_str())];
        callers.server.ask("DELETE /mcp", &headers, b"").status
    };
    assert_eq!(delete(bob), 404);
    assert_eq!(asked(alice, &session).status, 200, "it is still there");
    assert_eq!(delete(alice), 202);
    assert_eq!(asked(alice, &session).status, 404);
}
