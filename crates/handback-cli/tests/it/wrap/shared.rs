//! `shared = true`: one process of an older server for all callers.

use std::thread;

use serde_json::{Value, json};

use super::{World, text};
use crate::streams::server::Server;
use crate::support::Sandbox;

/// A server with identities, before an upstream.
pub(super) struct Served {
    pub(super) world: World,
    pub(super) server: Server,
    pub(super) alice: String,
    pub(super) bob: String,
    /// May revoke.
    pub(super) operator: String,
}

/// A client of the older era, in a session.
pub(super) struct Session<'a> {
    served: &'a Served,
    token: &'a str,
    id: String,
    /// What the server said of itself.
    welcome: Value,
}

impl Served {
    fn new(more: &str) -> Self {
        Self::before("older", more)
    }

    /// Before an upstream that speaks so; `more` is configured of it.
    pub(super) fn before(speaks: &str, more: &str) -> Self {
        Self::started(Sandbox::new(), speaks, more)
    }

    /// The same, in a sandbox whose variables the server has.
    pub(super) fn started(sandbox: Sandbox, speaks: &str, more: &str) -> Self {
        let world = World::with(sandbox);
        let sandbox = &world.sandbox;
        let token = |subject: &str| {
            let line = format!("identity add --subject {subject} --file identities");
            sandbox.json(&line)["token"].as_str().unwrap().to_owned()
        };
        let (alice, bob) = (token("alice"), token("bob"));
        let operator = token("operator --scope handback:revoke");
        let path = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
        let (upstream, record) = (path("upstream.py"), path("record"));
        let command = format!(
            "[\"/usr/bin/env\", \"PATH=/usr/local/bin:/usr/bin:/bin\", \"python3\", \"{upstream}\", \
             \"{record}\", \"{speaks}\"]"
        );
        let config = format!(
            "demo = false\n[identity]\nmode = \"static\"\nserver_id = \"test\"\n[identity.static]\nfile = \
             \"identities\"\n[upstreams.up]\ncommand = {command}\n{more}"
        );
        sandbox.write("handback.toml", &config);
        let config = path("handback.toml");
        let server =
            Server::start_with(sandbox, &sandbox.path("data"), &["--config", config.as_str()]);
        Self { server, alice, bob, operator, world }
    }

    /// What comes back: the session that it began, and all messages.
    fn post(
        &self,
        token: &str,
        headers: &[(&str, &str)],
        message: &Value,
    ) -> (Option<String>, Vec<Value>) {
        self.post_text(token, headers, &message.to_string())
    }

    fn post_text(
        &self,
        token: &str,
        headers: &[(&str, &str)],
        message: &str,
    ) -> (Option<String>, Vec<Value>) {
        let bearer = format!("Bearer {token}");
        let mut all = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        all.extend(headers);
        let answer = self.server.ask("POST /mcp", &all, message.as_bytes());
        let body = String::from_utf8(answer.body.clone()).unwrap();
        let events: Vec<_> = body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        let texts = if events.is_empty() { vec![body.as_str()] } else { events };
        let messages = texts.into_iter().filter_map(|text| serde_json::from_str(text).ok());
        (answer.headers.get("mcp-session-id").cloned(), messages.collect())
    }

    pub(super) fn begin<'a>(&'a self, token: &'a str) -> Session<'a> {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello()});
        let (id, messages) = self.post(token, &[], &hello);
        let welcome = messages[0]["result"].clone();
        Session { served: self, token, id: id.unwrap(), welcome }
    }

    /// A call of the newer era.
    pub(super) fn call(&self, token: &str, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.ask(token, "tools/call", Some(tool), params)["result"].clone()
    }

    /// A question of the newer era.
    fn ask(&self, token: &str, method: &str, name: Option<&str>, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        });
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        headers.extend(name.map(|name| ("mcp-name", name)));
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.post(token, &headers, &message).1.pop().unwrap()
    }

    /// How often an upstream was greeted: each process is, once.
    fn greeted(&self) -> Vec<String> {
        self.world.effects("hello")
    }
}

impl Session<'_> {
    /// All that comes until the answer, which is the last of it.
    fn ask(&self, method: &str, params: &Value) -> Vec<Value> {
        let headers =
            [("mcp-session-id", self.id.as_str()), ("mcp-protocol-version", "2025-11-25")];
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
        self.served.post(self.token, &headers, &message).1
    }

    /// The answer to a question with the text of its parameters.
    fn ask_text(&self, method: &str, params: &str) -> Value {
        let headers =
            [("mcp-session-id", self.id.as_str()), ("mcp-protocol-version", "2025-11-25")];
        let message =
            format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{params}}}"#);
        self.served.post_text(self.token, &headers, &message).1.pop().unwrap()
    }

    pub(super) fn call(&self, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.ask("tools/call", &params).pop().unwrap()["result"].clone()
    }
}

/// What a client of the older era says of itself.
fn hello() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    })
}

pub(super) const SHARED: &str = "shared = true\n";

#[test]
fn two_callers_have_one_process_or_two() {
    for (more, processes) in [(SHARED, 1), ("", 2)] {
        let served = Served::new(more);
        let (alice, bob) = (served.begin(&served.alice), served.begin(&served.bob));
        assert_eq!(text(&alice.call("look", &json!({"text": "a"}))), "a");
        assert_eq!(text(&bob.call("look", &json!({"text": "b"}))), "b");
        assert_eq!(served.greeted().len(), processes, "sessions, {more:?}");
        let served = Served::new(more);
        for token in [&served.alice, &served.bob] {
            assert_eq!(text(&served.call(token, "look", &json!({"text": "a"}))), "a");
        }
        assert_eq!(served.greeted().len(), processes, "newer clients, {more:?}");
    }
}

#[test]
fn on_a_shared_connection_nobody_is_asked() {
    let served = Served::new(SHARED);
    let session = served.begin(&served.alice);
    let messages = session.ask("tools/call", &json!({"name": "confirm", "arguments": {}}));
    assert_eq!(messages.len(), 1, "no question: {messages:?}");
    assert_eq!(text(&messages[0]["result"]), "confirmed");
    let confirmed = served.call(&served.bob, "confirm", &json!({}));
    assert_eq!(text(&confirmed), "confirmed", "it is not parked: {confirmed}");
    assert_eq!(served.world.effects("refused"), ["refused -32601", "refused -32601"]);
    assert_eq!(served.greeted(), ["hello "], "and the server was told that nobody can be");
    // Where it is not shared, the caller is asked.
    let served = Served::new("");
    let asked = served.call(&served.bob, "confirm", &json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
}

#[test]
fn answers_and_progress_go_to_who_asked() {
    let served = Served::new(SHARED);
    let (alice, bob) = (served.begin(&served.alice), served.begin(&served.bob));
    let ask = |session: &Session<'_>, name: &str| {
        // The same token, and the same id, of two callers.
        let arguments = json!({"text": name, "delay_ms": 1500});
        let meta = json!({"progressToken": "same"});
        session.ask("tools/call", &json!({"name": "slow", "arguments": arguments, "_meta": meta}))
    };
    let of_both = thread::scope(|scope| {
        let one = scope.spawn(|| ask(&alice, "of alice"));
        let other = scope.spawn(|| ask(&bob, "of bob"));
        [("of alice", one.join().unwrap()), ("of bob", other.join().unwrap())]
    });
    for (name, messages) in of_both {
        assert_eq!(messages.len(), 2, "what is for nobody is not heard: {messages:?}");
        let progress = &messages[0]["params"];
        assert_eq!(
            (&progress["message"], &progress["progressToken"]),
            (&json!(name), &json!("same"))
        );
        assert_eq!(text(&messages[1]["result"]), format!("slow {name}"));
    }
    assert_eq!(served.greeted().len(), 1);
}

#[test]
fn nobody_puts_progress_into_the_call_of_another() {
    let served = Served::new(SHARED);
    let (alice, bob) = (served.begin(&served.alice), served.begin(&served.bob));
    let heard = thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let arguments = json!({"text": "of alice", "delay_ms": 3000});
            let meta = json!({"progressToken": "hers"});
            let call = json!({"name": "slow", "arguments": arguments, "_meta": meta});
            alice.ask("tools/call", &call)
        });
        served.world.until_effect("slow of alice");
        // Her question has one of the first numbers. What one reader takes for the token, another does
        // not see: that it is there twice is found before anybody reads it, also behind a number that
        // some readers give up over.
        for number in 1..30 {
            let odd = if number % 2 == 0 { "1" } else { "1e999" };
            let params = format!(
                r#"{{"name":"slow","arguments":{{"text":"of bob","n":{odd}}},
                    "_meta":{{"progressToken":0,"progressToken":{number}}}}}"#
            );
            let refused = bob.ask_text("tools/call", &params);
            assert_eq!(refused["error"]["code"], -32600, "{refused}");
        }
        slow.join().unwrap()
    });
    assert_eq!(heard.len(), 2, "her own progress, and the answer: {heard:?}");
    assert_eq!(served.world.effects("slow"), ["slow of alice"]);
}

#[test]
fn nobody_changes_what_is_for_all() {
    let served = Served::new(SHARED);
    let session = served.begin(&served.alice);
    let capabilities = &session.welcome["capabilities"];
    assert!(capabilities["tools"].is_object(), "{capabilities}");
    assert!(capabilities.get("logging").is_none(), "{capabilities}");
    let asked = |session: &Session<'_>| {
        let tasks = json!({"taskId": "1"});
        for (method, params) in [("tasks/get", &tasks), ("logging/setLevel", &json!({}))] {
            session.ask(method, params);
        }
        session.served.world.effects("state")
    };
    assert!(asked(&session).is_empty(), "it reached the server: {:?}", asked(&session));
    let unshared = Served::new("");
    let session = unshared.begin(&unshared.alice);
    assert!(session.welcome["capabilities"]["logging"].is_object(), "{}", session.welcome);
    assert_eq!(asked(&session), ["state tasks/get", "state logging/setLevel"]);
}

#[test]
fn wound_a13_the_log_level_of_a_shared_server_is_refused() {
    let level = json!({"level": "debug"});
    let served = Served::new(SHARED);
    let session = served.begin(&served.alice);
    let refused = session.ask("logging/setLevel", &level).pop().unwrap();
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("shared"), "{refused}");
    // With a connection of its own, the same caller sets it.
    let unshared = Served::new("");
    let session = unshared.begin(&unshared.alice);
    let set = session.ask("logging/setLevel", &level).pop().unwrap();
    assert!(set["result"].is_object(), "{set}");
}

#[test]
fn nobody_begins_anew_for_all() {
    let served = Served::new(SHARED);
    let (alice, bob) = (served.begin(&served.alice), served.begin(&served.bob));
    let again = alice.ask("initialize", &hello()).pop().unwrap();
    assert_eq!(again["error"]["code"], -32600, "{again}");
    assert_eq!(served.greeted().len(), 1, "it reached the server");
    assert_eq!(text(&bob.call("look", &json!({"text": "b"}))), "b");
    assert_eq!(text(&alice.call("look", &json!({"text": "a"}))), "a");
}

#[test]
fn a_process_that_dies_is_started_again_for_all() {
    let served = Served::new(SHARED);
    let (alice, bob) = (served.begin(&served.alice), served.begin(&served.bob));
    alice.call("wrong", &json!({"how": "die"}));
    assert_eq!(text(&bob.call("look", &json!({"text": "b"}))), "b");
    assert_eq!(text(&alice.call("look", &json!({"text": "a"}))), "a");
    assert_eq!(served.greeted().len(), 2);
}

#[test]
fn a_server_that_does_not_say_what_it_is_is_not_started_again() {
    let served = Served::before("newest shy", SHARED);
    assert_eq!(text(&served.call(&served.alice, "look", &json!({"text": "a"}))), "a");
    let refused = served.ask(&served.alice, "server/discover", None, json!({}));
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    assert_eq!(text(&served.call(&served.bob, "look", &json!({"text": "b"}))), "b");
    assert_eq!(served.world.effects("start").len(), 1);
}
