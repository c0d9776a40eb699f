//! `handback serve --upstream`: two callers with one upstream behind, over HTTP.

use serde_json::{Value, json};

use super::World;
use crate::streams::server::Server;
use crate::support::Sandbox;

const STATIC: &str = "[identity]\nmode = \"static\"\n[identity.static]\nfile = \"identities\"\n";

struct Callers {
    world: World,
    server: Server,
    alice: String,
    bob: String,
}

/// What came back: the status, the session that it began, and the message.
struct Told {
    status: u16,
    session: Option<String>,
    message: Value,
}

impl Callers {
    fn new() -> Self {
        let world = World::with(Sandbox::new());
        let sandbox = &world.sandbox;
        let token = |subject: &str| {
            let line = format!("identity add --subject {subject} --file identities");
            sandbox.json(&line)["token"].as_str().unwrap().to_owned()
        };
        let (alice, bob) = (token("alice"), token("bob"));
        sandbox.write("handback.toml", STATIC);
        let path = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
        let upstream = format!(
            "up=/usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin python3 {} {} both",
            path("upstream.py"),
            path("record")
        );
        let config = path("handback.toml");
        let more = ["--config", config.as_str(), "--upstream", &upstream];
        let server = Server::start_with(sandbox, &sandbox.path("data"), &more);
        Self { server, alice, bob, world }
    }

    fn post(&self, token: &str, headers: &[(&str, &str)], message: &Value) -> Told {
        let bearer = format!("Bearer {token}");
        let mut all = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        all.extend(headers);
        let answer = self.server.ask("POST /mcp", &all, message.to_string().as_bytes());
        let body = String::from_utf8(answer.body.clone()).unwrap();
        // The last event is the answer.
        let json = body.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&body);
        let session = answer.headers.get("mcp-session-id").cloned();
        let message = serde_json::from_str(json).unwrap_or(Value::Null);
        Told { status: answer.status, session, message }
    }

    /// A question of the newer era.
    fn ask(&self, token: &str, tool: &str, mut params: Value) -> Value {
        params["name"] = tool.into();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        });
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", tool),
        ];
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        self.post(token, &headers, &message).message
    }
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
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    let begun = callers.post(alice, &[], &hello);
    let session = begun.session.unwrap();
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
