//! MCP of 2026-07-28, over streamable HTTP: no handshake, no session, one request for each call.
//!
//! What is ours travels in `_meta`: the key goes there, and the cursor of the next page comes there.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::answer::{Answer, Asks, Event, Failed, Given, Question, ToolInfo, ToolList};
use super::call::{Call, Continuation};
use super::client::{MAX_LISTED, Try};
use super::error::{Refused, ToolsError};
use super::http::{json as to_json, unwritable};
use super::server_events::{Events, is_events, read_to_end, under_way};
use crate::http::Http;

/// The revision that is spoken.
const VERSION: &str = "2026-07-28";

const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

const KEY_META: &str = "dev.handback/idempotency-key";

/// The member of `_meta` of a list with the upstreams that are not there.
const UNAVAILABLE_META: &str = "dev.handback/unavailable";

/// Upstreams of one page that are looked at: a gateway has 64.
const MAX_UNAVAILABLE: usize = 64;
const NEXT_CURSOR_META: &str = "dev.handback/nextCursor";
const REPLAYED_META: &str = "dev.handback/replayed";
const REASON_META: &str = "dev.handback/reason";
const UPSTREAM_META: &str = "dev.handback/upstream";

/// Gateways between this client and a server that pages, at most: more than anybody puts in a row.
const GATEWAYS_MAX: usize = 8;

/// The id of every request: there is one for each HTTP request.
const ID: u32 = 1;

#[derive(Clone, Debug)]
pub(super) struct McpTools {
    pub(super) http: Http,
    pub(super) path: String,
}

#[derive(Serialize)]
struct Message<'a> {
    jsonrpc: &'static str,
    id: u32,
    method: &'static str,
    params: Params<'a>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(rename = "_meta")]
    meta: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_responses: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
}

/// A message of the server: a notification, or the answer.
#[derive(Deserialize)]
struct Heard {
    id: Option<Value>,
    method: Option<String>,
    params: Option<Value>,
    result: Option<Box<RawValue>>,
    error: Option<RpcError>,
}

#[derive(Deserialize)]
struct RpcError {
    code: i64,
    message: String,
    data: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult {
    result_type: Option<String>,
    #[serde(default)]
    content: Vec<Value>,
    structured_content: Option<Box<RawValue>>,
    #[serde(default)]
    is_error: bool,
    input_requests: Option<Map<String, Value>>,
    request_state: Option<String>,
    #[serde(rename = "_meta", default)]
    meta: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListResult {
    tools: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
    #[serde(rename = "_meta", default)]
    meta: Map<String, Value>,
}

impl McpTools {
    pub(super) async fn call(&self, call: &Call, limits: &Try<'_>) -> Result<Answer, ToolsError> {
        let mut params = Params { name: Some(&call.tool), ..Params::default() };
        let with_cursor = call.at().map(|cursor| call.arguments.with_cursor(cursor));
        params.arguments = Some(with_cursor.as_deref().unwrap_or_else(|| call.arguments.raw()));
        if let Some(Continuation::State { state, answers }) = &call.continuation {
            params.request_state = Some(state);
            params.input_responses = Some(answers);
        }
        if let Some(key) = &call.key {
            params.meta.insert(KEY_META.to_owned(), key.as_str().into());
        }
        params.meta.insert("progressToken".to_owned(), ID.into());
        let result = self.ask("tools/call", params, limits).await?;
        answered(serde_json::from_str(result.get()).map_err(|_| NO_RESULT)?)
    }

    pub(super) async fn list(&self, limits: &Try<'_>) -> Result<ToolList, ToolsError> {
        let (mut all, mut cursor) = (ToolList::default(), None::<String>);
        while all.tools.len() <= MAX_LISTED {
            let params = Params { cursor: cursor.as_deref(), ..Params::default() };
            let result = self.ask("tools/list", params, limits).await?;
            let page: ListResult = serde_json::from_str(result.get())
                .map_err(|_| ToolsError::Misbehaved("this is no list of tools"))?;
            for text in page.tools {
                all.tools.push(info(text)?);
            }
            let away = page.meta.get(UNAVAILABLE_META).and_then(Value::as_array);
            let messages = away.into_iter().flatten().filter_map(|it| it.get("message")?.as_str());
            all.unavailable.extend(messages.take(MAX_UNAVAILABLE).map(str::to_owned));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(all);
            }
        }
        Err(ToolsError::Misbehaved("there are too many tools"))
    }

    /// The result of a request.
    async fn ask(
        &self,
        method: &'static str,
        mut params: Params<'_>,
        limits: &Try<'_>,
    ) -> Result<Box<RawValue>, ToolsError> {
        about_us(&mut params.meta);
        let mut request = self
            .http
            .request("POST", &self.path)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header(VERSION_HEADER, VERSION)
            .header(METHOD_HEADER, method);
        if let Some(name) = params.name {
            request = request.header(NAME_HEADER, header_text(name)?);
        }
        let body = to_json(&Message { jsonrpc: "2.0", id: ID, method, params });
        let request = request.body(Full::new(Bytes::from(body))).map_err(unwritable)?;
        let answer = under_way(self.http.open(request), limits).await?;
        if answer.status() == StatusCode::OK && is_events(&answer) {
            return watched(answer, limits).await;
        }
        let answer = read_to_end(answer, limits).await?;
        match serde_json::from_slice::<Heard>(&answer.body) {
            Ok(Heard { result: Some(result), id, .. }) => own(id.as_ref(), result),
            Ok(Heard { error: Some(error), id, .. }) if answer.status.is_success() => {
                Err(own_error(id.as_ref(), error))
            }
            // Whatever stands between may refuse, and does not know the id.
            Ok(Heard { error: Some(error), .. }) => Err(refused(error)),
            // It did not refuse: whether the call was made is not known.
            _ if answer.status.is_success() => {
                Err(ToolsError::Lost("the answer is no message".to_owned()))
            }
            _ => Err(Refused::of(&answer).into()),
        }
    }
}

/// A result, if it is that of the request.
fn own(id: Option<&Value>, result: Box<RawValue>) -> Result<Box<RawValue>, ToolsError> {
    match id == Some(&ID.into()) {
        true => Ok(result),
        false => Err(ANOTHERS),
    }
}

/// An error, if it can be that of the request: one to a request that was not understood has no id.
fn own_error(id: Option<&Value>, error: RpcError) -> ToolsError {
    match id.is_none_or(|id| *id == ID) {
        true => refused(error),
        false => ANOTHERS,
    }
}

const ANOTHERS: ToolsError = ToolsError::Misbehaved("the answer is to another request");

const NO_RESULT: ToolsError = ToolsError::Misbehaved("this is no result of a tool");

/// What every request says of its client.
fn about_us(meta: &mut Map<String, Value>) {
    let mut set = |name: &str, value: Value| {
        meta.insert(format!("io.modelcontextprotocol/{name}"), value);
    };
    set("protocolVersion", VERSION.into());
    set("clientInfo", json!({"name": "handback", "version": env!("CARGO_PKG_VERSION")}));
    set("clientCapabilities", json!({"elicitation": {"form": {}, "url": {}}}));
}

/// A name as a header has it: as it is, where that can be.
fn header_text(name: &str) -> Result<HeaderValue, ToolsError> {
    let is_plain = name.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    match HeaderValue::from_str(name) {
        Ok(value) if is_plain => Ok(value),
        _ => Err(Refused::new("not_found", "no tool of MCP has such a name").into()),
    }
}

/// The events of a request, to its answer.
async fn watched(
    answer: Response<Incoming>,
    limits: &Try<'_>,
) -> Result<Box<RawValue>, ToolsError> {
    let mut events = Events::new(answer.into_body(), limits.response_max);
    while let Some(event) = events.next().await? {
        let heard: Heard = serde_json::from_str(&event.data)
            .map_err(|_| ToolsError::Misbehaved("an event is no message"))?;
        match heard {
            Heard { result: Some(result), id, .. } => return own(id.as_ref(), result),
            Heard { error: Some(error), id, .. } => return Err(own_error(id.as_ref(), error)),
            Heard { method: Some(method), params: Some(params), .. } => {
                if let Some(event) = told(&method, &params) {
                    limits.tell(event);
                }
            }
            _ => {}
        }
    }
    Err(ToolsError::Lost("the events ended without a result".to_owned()))
}

fn told(method: &str, params: &Value) -> Option<Event> {
    match method {
        "notifications/progress" => Some(Event::Progress {
            done: params.get("progress")?.as_f64()?,
            total: params.get("total").and_then(Value::as_f64),
            message: params.get("message").and_then(Value::as_str).map(str::to_owned),
        }),
        "notifications/message" => Some(Event::Log {
            level: params.get("level")?.as_str()?.to_owned(),
            data: params.get("data").cloned().unwrap_or_default(),
        }),
        _ => None,
    }
}

fn refused(error: RpcError) -> ToolsError {
    let reason = error.data.as_ref().and_then(|data| data.get("reason")).and_then(Value::as_str);
    let code = reason.map_or_else(|| error.code.to_string(), str::to_owned);
    Refused::new(code, error.message).into()
}

/// A result of `tools/call`.
fn answered(result: ToolResult) -> Result<Answer, ToolsError> {
    if result.result_type.as_deref() == Some("input_required") {
        let (Some(asked), Some(state)) = (result.input_requests, result.request_state) else {
            return Err(ToolsError::Misbehaved("it asks, but not what"));
        };
        let questions = asked.into_iter().map(|(name, asked)| (name, question(asked))).collect();
        return Ok(Answer::Asks(Asks { questions, state }));
    }
    let is_replay = result.meta.get(REPLAYED_META) == Some(&Value::Bool(true));
    let text = |name: &str| result.meta.get(name).and_then(Value::as_str).map(str::to_owned);
    if result.is_error {
        let message = first_text(&result.content).unwrap_or("the tool failed").to_owned();
        return match text(REASON_META) {
            Some(reason) => Err(Refused::new(reason, message).into()),
            None => {
                Ok(Answer::Failed(Failed { message, data: result.structured_content, is_replay }))
            }
        };
    }
    let next_cursor = next_cursor(&result.meta);
    Ok(Answer::Given(Given { result: value(result)?, next_cursor, is_replay }))
}

/// The cursor of the next page: of the server, or of one behind it, whose marks each gateway between has put
/// one level deeper. It goes back to where it came from in any case.
fn next_cursor(meta: &Map<String, Value>) -> Option<String> {
    let mut meta = meta;
    for _ in 0..=GATEWAYS_MAX {
        if let Some(cursor) = meta.get(NEXT_CURSOR_META).and_then(Value::as_str) {
            return Some(cursor.to_owned());
        }
        meta = meta.get(UPSTREAM_META)?.as_object()?;
    }
    None
}

/// The value of a result: of what is structured, or of the text that stands for it. A page is
/// structured as an object with its items, and its text is the array of them.
fn value(result: ToolResult) -> Result<Box<RawValue>, ToolsError> {
    let text = first_text(&result.content);
    let written = text.and_then(|text| serde_json::from_str::<Box<RawValue>>(text).ok());
    let starts = |sign: char| written.as_ref().is_some_and(|raw| raw.get().starts_with(sign));
    match (result.structured_content, &written) {
        (Some(structured), Some(array)) if starts('[') && holds_items(&structured) => {
            Ok(array.clone())
        }
        (Some(structured), _) => Ok(structured),
        (None, Some(raw)) if starts('[') || starts('{') => Ok(raw.clone()),
        (None, _) => {
            let plain = match (text, result.content.as_slice()) {
                (Some(text), [_]) => Value::from(text),
                _ => Value::Array(result.content),
            };
            serde_json::value::to_raw_value(&plain).map_err(|_| NO_RESULT)
        }
    }
}

fn holds_items(structured: &RawValue) -> bool {
    let members = serde_json::from_str::<Map<String, Value>>(structured.get());
    members.is_ok_and(|members| members.keys().eq(["items"]))
}

fn first_text(content: &[Value]) -> Option<&str> {
    content.first()?.get("text")?.as_str()
}

fn question(asked: Value) -> Question {
    let text = |name: &str| asked.get("params")?.get(name)?.as_str().map(str::to_owned);
    let is_form = asked.get("method").and_then(Value::as_str) == Some("elicitation/create");
    let message = text("message").unwrap_or_default();
    let schema = asked.get("params").and_then(|params| params.get("requestedSchema"));
    match (text("url"), schema) {
        (Some(url), _) if is_form => Question::Url { message, url },
        (None, Some(schema)) if is_form => Question::Form { message, schema: schema.clone() },
        _ => Question::Other(asked),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireInfo {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    input_schema: Value,
}

fn info(text: Box<RawValue>) -> Result<ToolInfo, ToolsError> {
    let WireInfo { name, description, input_schema } =
        serde_json::from_str(text.get()).map_err(|_| ToolsError::Misbehaved("this is no tool"))?;
    Ok(ToolInfo { name, description, input_schema, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(result: Value, expected: &str) {
        let answer = answered(serde_json::from_value(result).unwrap()).unwrap();
        let Answer::Given(given) = answer else { panic!("{answer:?}") };
        assert_eq!(given.result.get(), expected);
    }

    #[test]
    fn the_value_of_a_result_is_the_same_as_elsewhere() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let items = json!({"items": [1, 2]});
        check(
            json!({"content": [text("[1,2]"), text("more")], "structuredContent": items}),
            "[1,2]",
        );
        check(
            json!({"content": [text("{\"items\":[1,2]}")], "structuredContent": items}),
            "{\"items\":[1,2]}",
        );
        check(json!({"content": [text("two rows")], "structuredContent": {"a": 1}}), "{\"a\":1}");
        check(json!({"content": [text("{\"a\": 1.50}")]}), "{\"a\": 1.50}");
        check(json!({"content": [text("17")]}), "\"17\"");
        check(json!({"content": [{"type": "image"}]}), "[{\"type\":\"image\"}]");
        check(json!({"content": []}), "[]");
    }

    #[test]
    fn the_cursor_of_a_server_behind_gateways_is_found() {
        let found = |meta: Value| next_cursor(meta.as_object().unwrap());
        assert_eq!(found(json!({})), None);
        let mut meta = json!({NEXT_CURSOR_META: "c"});
        for _ in 0..=GATEWAYS_MAX {
            assert_eq!(found(meta.clone()).as_deref(), Some("c"));
            meta = json!({"x": 1, UPSTREAM_META: meta});
        }
        assert_eq!(found(meta), None);
        let nearest = json!({UPSTREAM_META: {NEXT_CURSOR_META: "far"}, NEXT_CURSOR_META: "near"});
        assert_eq!(found(nearest).as_deref(), Some("near"));
    }

    #[test]
    fn a_refusal_is_no_failure_of_the_tool() {
        let result = |meta: Value| {
            let result =
                json!({"content": [{"type": "text", "text": "x"}], "isError": true, "_meta": meta});
            answered(serde_json::from_value(result).unwrap())
        };
        assert!(matches!(result(json!({})), Ok(Answer::Failed(_))));
        let refused = result(json!({"dev.handback/reason": "busy"}));
        assert!(matches!(refused, Err(ToolsError::Refused(Refused { is_retryable: true, .. }))));
    }
}
