//! How each continuation is got, and how it is presented, on each surface.

use handback_stream::atd::ClientMessage;
use handback_stream::duplex::{ClientFrame, Code, Hello, ServerFrame};
use serde_json::{Value, json};

use super::wire::{self, Duplex, Http};
use super::world::{People, Who, World};

/// Something that was handed out.
#[derive(Clone, Debug)]
pub(super) struct Minted {
    pub(super) text: String,
    /// In which session, if that matters; or under which key, of a duplex.
    pub(super) of: String,
}

/// How it is presented.
#[derive(Clone, Debug)]
pub(super) struct How<'a> {
    pub(super) who: Who,
    pub(super) minted: &'a Minted,
    pub(super) other_tool: bool,
    pub(super) other_arguments: bool,
    pub(super) other_answers: bool,
}

impl<'a> How<'a> {
    pub(super) const fn own(minted: &'a Minted) -> Self {
        Self {
            who: Who::Alice,
            minted,
            other_tool: false,
            other_arguments: false,
            other_answers: false,
        }
    }

    pub(super) const fn by(self, who: Who) -> Self {
        Self { who, ..self }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) outcome: &'static str,
    /// What it gave.
    pub(super) result: Value,
    pub(super) is_replay: bool,
    /// What is presented the next time, where that is another one each time.
    pub(super) next: Option<String>,
    /// Every byte of the answer that is not different every time.
    pub(super) raw: String,
}

impl Seen {
    const fn new(outcome: &'static str, result: Value, raw: String) -> Self {
        Self { outcome, result, is_replay: false, next: None, raw }
    }
}

/// One surface of one server, and who may ask.
pub(super) struct At<'a> {
    pub(super) world: &'a World,
    pub(super) people: &'a People,
    pub(super) surface: &'static str,
}

const AQL: &str = "mcp_aql_read";

impl At<'_> {
    /// Has a continuation handed out.
    pub(super) fn mint(&self, kind: &str, who: Who) -> Minted {
        let minted = |text: Value| Minted {
            text: text.as_str().unwrap_or_else(|| panic!("{kind}: {text}")).to_owned(),
            of: String::new(),
        };
        match kind {
            "tool_cursor" => minted(self.call(who, "numbers", json!({})).next),
            "aql_cursor" => {
                let page = envelope(&self.call(who, AQL, list("things", json!({"first": 2}))));
                minted(page["data"]["pageInfo"]["endCursor"].clone())
            }
            "list_cursor" => match self.surface {
                "http" => minted(self.get_list(who, None).json()["nextCursor"].clone()),
                _ => minted(
                    self.rpc(who, "tools/list", &json!({})).message()["result"]["nextCursor"]
                        .clone(),
                ),
            },
            "request_state" => minted(self.call(who, "pay", json!({"amount": 1})).state),
            "handle" => minted(self.call(who, "keep", json!({})).handle),
            "task" => self.mint_task(who),
            "session" => Minted { text: self.begin(who), of: String::new() },
            "event_id" => {
                let session = self.begin(who);
                let call = json!({"name": "numbers", "arguments": {}});
                let call = wire::request("tools/call", &call);
                let bearer = self.people.bearer(who);
                let answer = wire::legacy(self.world, bearer.as_deref(), Some(&session), &call);
                Minted { text: answer.event_ids().swap_remove(0), of: session }
            }
            "resume_token" => self.mint_resume(who),
            other => panic!("nobody hands out a {other}"),
        }
    }

    /// Brings a continuation back.
    pub(super) fn present(&self, kind: &str, how: &How<'_>) -> Seen {
        let text = how.minted.text.as_str();
        match kind {
            "tool_cursor" => self.present_cursor(how),
            "aql_cursor" => {
                let collection = if how.other_tool { "others" } else { "things" };
                let mut params = json!({"first": 2, "after": text});
                if how.other_arguments {
                    params["filter"] = json!({"even": 1});
                }
                seen_envelope(&self.call(how.who, AQL, list(collection, params)))
            }
            "handle" => {
                let tool = if how.other_tool { "mcp_aql" } else { AQL };
                seen_envelope(&self.call(how.who, tool, list(text, json!({"first": 10}))))
            }
            "list_cursor" => self.present_list(how),
            "request_state" => self.present_state(how),
            "task" => {
                let answer = self.rpc(how.who, "tasks/get", &json!({"taskId": text}));
                seen_rpc(&answer, |result| result["result"]["structuredContent"].clone())
            }
            "session" => {
                let ping = wire::request("ping", &json!({}));
                let bearer = self.people.bearer(how.who);
                let answer = wire::legacy(self.world, bearer.as_deref(), Some(text), &ping);
                let is_unknown = answer.body == "Not Found: Session not found";
                let outcome = match answer.status {
                    200 => "works",
                    404 if is_unknown => "invalid",
                    _ => "?",
                };
                Seen::new(outcome, Value::Null, answer.raw())
            }
            "event_id" => self.present_event(how),
            "resume_token" => self.present_resume(how),
            other => panic!("nobody takes a {other}"),
        }
    }

    fn present_cursor(&self, how: &How<'_>) -> Seen {
        let tool = if how.other_tool { "others" } else { "numbers" };
        let mut arguments = json!({});
        if how.other_arguments {
            arguments["below"] = 11.into();
        }
        let text = how.minted.text.as_str();
        let said = match self.surface {
            "http" => {
                let line = format!("POST /v1/tools/{tool}/continue");
                let body = json!({"cursor": text}).to_string();
                Said::of_http(&self.post(how.who, &line, &body))
            }
            "socket" => {
                let (tool_id, cursor) = (tool.to_owned(), text.to_owned());
                let message =
                    ClientMessage::RunToolContinue { tool_id, cursor, idempotency_key: None };
                Said::of_socket(wire::socket(self.world, &message))
            }
            _ => {
                arguments["__cursor"] = text.into();
                self.call(how.who, tool, arguments)
            }
        };
        said.seen()
    }

    fn present_list(&self, how: &How<'_>) -> Seen {
        let text = how.minted.text.as_str();
        if self.surface == "http" {
            let answer = self.get_list(how.who, Some(text));
            let names = |body: &Value| body["tools"][0]["id"].clone();
            let outcome = http_outcome(&answer);
            let result = if outcome == "works" { names(&answer.json()) } else { Value::Null };
            return Seen::new(outcome, result, answer.raw());
        }
        let method = if how.other_tool { "prompts/list" } else { "tools/list" };
        let answer = self.rpc(how.who, method, &json!({"cursor": text}));
        seen_rpc(&answer, |result| result["tools"][0]["name"].clone())
    }

    fn present_state(&self, how: &How<'_>) -> Seen {
        let tool = if how.other_tool { "pay_too" } else { "pay" };
        let amount = if how.other_arguments { 2 } else { 1 };
        let answers = match how.other_answers {
            true => json!({"sure": {"action": "decline"}}),
            false => json!({"sure": {"action": "accept", "content": {"confirm": true}}}),
        };
        let body = json!({
            "arguments": {"amount": amount},
            "requestState": how.minted.text,
            "inputResponses": answers,
        });
        if self.surface == "http" {
            let line = format!("POST /v1/tools/{tool}/run");
            return Said::of_http(&self.post(how.who, &line, &body.to_string())).seen();
        }
        let mut params = body;
        params["name"] = tool.into();
        let answer = self.rpc(how.who, "tools/call", &params);
        let mut seen = seen_rpc(&answer, |result| result["structuredContent"].clone());
        let message = answer.message();
        seen.is_replay = message["result"]["_meta"]["dev.handback/replayed"] == true;
        seen
    }

    fn present_event(&self, how: &How<'_>) -> Seen {
        let own = &how.minted.of;
        // Another's id is presented in one's own session: what is another's session is no session.
        let session = match how.who {
            Who::Alice if how.other_arguments => self.begin(Who::Alice),
            Who::Alice => own.clone(),
            other => self.session(other),
        };
        let bearer = self.people.bearer(how.who);
        let answer = wire::resume(self.world, bearer.as_deref(), &session, &how.minted.text);
        let outcome = match (answer.status, answer.body.as_str()) {
            (200, _) => "works",
            (400, "invalid event id") => "invalid",
            (410, "expired event id") => "expired",
            _ => "?",
        };
        let result = if outcome == "works" { json!(answer.events()) } else { Value::Null };
        // The pages in it have cursors, which differ.
        let result = result[0]["result"]["structuredContent"].clone();
        Seen::new(outcome, result, answer.raw())
    }

    fn mint_task(&self, who: Who) -> Minted {
        let call = json!({"name": "work", "arguments": {}});
        let message = self.rpc(who, "tools/call", &call).message();
        let id = message["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{message}"));
        loop {
            let task = self.rpc(who, "tasks/get", &json!({"taskId": id})).message();
            match task["result"]["status"].as_str() {
                Some("working") => std::thread::yield_now(),
                Some("completed") => break,
                _ => panic!("{task}"),
            }
        }
        Minted { text: id.to_owned(), of: String::new() }
    }

    fn mint_resume(&self, who: Who) -> Minted {
        let key = format!("{:032x}", rand::random::<u128>());
        let hello = Hello { idempotency_key: key.clone(), ..Hello::default() };
        let bearer = self.people.bearer(who);
        let mut duplex = Duplex::open(self.world, bearer.as_deref(), "echo", hello);
        let (ServerFrame::Welcome(welcome), _) = duplex.hear() else { panic!("no welcome") };
        duplex.say(&ClientFrame::Chunk { seqno: 0, data: "x".into() });
        while !matches!(duplex.hear().0, ServerFrame::Ack { .. }) {}
        Minted { text: welcome.token.resume_token, of: key }
    }

    fn present_resume(&self, how: &How<'_>) -> Seen {
        let handler = if how.other_tool { "relay" } else { "echo" };
        let mut key = how.minted.of.clone();
        if how.other_arguments {
            key.push('x');
        }
        let hello = Hello {
            idempotency_key: key,
            resume_token: Some(how.minted.text.clone()),
            ..Hello::default()
        };
        let bearer = self.people.bearer(how.who);
        let mut duplex = Duplex::open(self.world, bearer.as_deref(), handler, hello);
        match duplex.hear() {
            (ServerFrame::Welcome(welcome), _) => Seen {
                next: Some(welcome.token.resume_token),
                ..Seen::new("works", welcome.next_seqno.into(), String::new())
            },
            (ServerFrame::Error { code, .. }, text) => {
                let outcome = match code {
                    Code::Expired => "expired",
                    Code::Invalid => "invalid",
                    _ => "?",
                };
                let raw = format!("{text} {}", duplex.closed());
                Seen::new(outcome, Value::Null, raw)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Calls a tool.
    fn call(&self, who: Who, tool: &str, arguments: Value) -> Said {
        match self.surface {
            "http" => {
                let line = format!("POST /v1/tools/{tool}/run");
                let body = json!({"arguments": arguments}).to_string();
                Said::of_http(&self.post(who, &line, &body))
            }
            "socket" => {
                let (tool_id, args) = (tool.to_owned(), arguments);
                let message =
                    ClientMessage::RunTool { tool_id, args, dry_run: false, idempotency_key: None };
                Said::of_socket(wire::socket(self.world, &message))
            }
            _ => {
                let params = json!({"name": tool, "arguments": arguments});
                Said::of_mcp(&self.rpc(who, "tools/call", &params))
            }
        }
    }

    fn rpc(&self, who: Who, method: &str, params: &Value) -> Http {
        let bearer = self.people.bearer(who);
        if self.surface == "mcp_2026_07_28" {
            return wire::modern(self.world, bearer.as_deref(), method, params);
        }
        let session = self.session(who);
        let message = wire::request(method, params);
        wire::legacy(self.world, bearer.as_deref(), Some(&session), &message)
    }

    /// A session of the old era that stays.
    pub(super) fn session(&self, who: Who) -> String {
        if let Some(session) = self.world.sessions.borrow().get(&who) {
            return session.clone();
        }
        let session = self.begin(who);
        self.world.sessions.borrow_mut().insert(who, session.clone());
        session
    }

    fn begin(&self, who: Who) -> String {
        wire::begin(self.world, self.people.bearer(who).as_deref())
    }

    fn post(&self, who: Who, line: &str, body: &str) -> Http {
        let bearer = self.people.bearer(who);
        let headers =
            [("authorization", bearer.as_deref()), ("content-type", Some("application/json"))];
        wire::http(self.world, line, &headers, body)
    }

    fn get_list(&self, who: Who, cursor: Option<&str>) -> Http {
        let bearer = self.people.bearer(who);
        let encode =
            |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let cursor = cursor.map(|text| format!("&cursor={}", encode(text))).unwrap_or_default();
        let line = format!("GET /v1/tools?limit=1{cursor}");
        wire::http(self.world, &line, &[("authorization", bearer.as_deref())], "")
    }
}

/// A request of MCP-AQL.
fn list(collection: &str, params: Value) -> Value {
    json!({"operation": "list_elements", "element_type": collection, "params": params})
}

/// What a call of a tool was answered with.
struct Said {
    outcome: &'static str,
    result: Value,
    next: Value,
    state: Value,
    handle: Value,
    is_replay: bool,
    raw: String,
}

impl Said {
    fn of_http(answer: &Http) -> Self {
        let body = answer.json();
        Self {
            outcome: http_outcome(answer),
            result: body["result"].clone(),
            next: body["nextCursor"].clone(),
            state: body["requestState"].clone(),
            handle: body["result"]["$held"].clone(),
            is_replay: body["replayed"] == true,
            raw: answer.raw(),
        }
    }

    fn of_socket(raw: String) -> Self {
        let message: Value = serde_json::from_str(&raw).unwrap();
        let outcome = match (message["type"].as_str(), message["code"].as_u64()) {
            (Some("tool_result"), _) => "works",
            (_, Some(1020)) => "expired",
            (_, Some(1021)) => "invalid",
            _ => "?",
        };
        Self {
            outcome,
            result: message["result"].clone(),
            next: message["next_cursor"].clone(),
            state: Value::Null,
            handle: message["result"]["$held"].clone(),
            is_replay: message["replayed"] == true,
            raw,
        }
    }

    fn of_mcp(answer: &Http) -> Self {
        let message = answer.message();
        let result = &message["result"];
        let outcome = match result["_meta"]["dev.handback/reason"].as_str() {
            None if result.is_object() && result["isError"] != true => "works",
            Some("expired") => "expired",
            Some("invalid") => "invalid",
            _ => "?",
        };
        let text = &result["content"][0]["text"];
        let is_page = result["structuredContent"]["items"].is_array();
        Self {
            outcome,
            result: match is_page {
                true => result["structuredContent"]["items"].clone(),
                false => text.clone(),
            },
            next: result["_meta"]["dev.handback/nextCursor"].clone(),
            state: result["requestState"].clone(),
            handle: text.clone(),
            is_replay: result["_meta"]["dev.handback/replayed"] == true,
            raw: answer.raw(),
        }
    }

    fn seen(self) -> Seen {
        let Self { outcome, result, is_replay, raw, .. } = self;
        Seen { is_replay, ..Seen::new(outcome, result, raw) }
    }
}

/// The envelope of MCP-AQL, which is a text in MCP.
fn envelope(said: &Said) -> Value {
    match &said.result {
        Value::String(text) => serde_json::from_str(text).unwrap(),
        other => other.clone(),
    }
}

fn seen_envelope(said: &Said) -> Seen {
    let envelope = envelope(said);
    let details = envelope["error"].to_string();
    let says = |what: &str| details.contains(what);
    let outcome = match envelope["success"].as_bool() {
        Some(true) => "works",
        _ if says("expired cursor") || says("expired handle") => "expired",
        _ if says("invalid cursor") || says("invalid handle") => "invalid",
        _ if says("mistyped handle") => "mistyped",
        _ => "?",
    };
    Seen::new(outcome, envelope["data"]["items"].clone(), said.raw.clone())
}

fn seen_rpc(answer: &Http, result: impl Fn(&Value) -> Value) -> Seen {
    let message = answer.message();
    let error = &message["error"];
    let outcome = match (error["code"].as_i64(), error["data"]["reason"].as_str()) {
        (None, _) if message["result"].is_object() => "works",
        (Some(-32602), Some("expired")) => "expired",
        (Some(-32602), Some("invalid")) => "invalid",
        _ => "?",
    };
    Seen::new(outcome, result(&message["result"]), answer.raw())
}

fn http_outcome(answer: &Http) -> &'static str {
    match answer.status {
        200 => "works",
        400 if answer.json()["error"]["code"] == "invalid" => "invalid",
        410 if answer.json()["error"]["code"] == "expired" => "expired",
        _ => "?",
    }
}
