//! Plain HTTP: `docs/spec/tools-http.md`.

use bytes::Bytes;
use http_body_util::Full;
use hyper::StatusCode;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::answer::{Answer, Asks, Event, Failed, Given, Question, ToolInfo};
use super::call::{Call, Continuation};
use super::client::{MAX_LISTED, Try};
use super::error::{Refused, ToolsError};
use super::server_events::{Events, is_events, read_to_end, under_way};
use crate::http::Http;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What a segment of a path keeps as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Clone, Debug)]
pub(super) struct HttpTools {
    pub(super) http: Http,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run<'a> {
    arguments: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_responses: Option<&'a Map<String, Value>>,
}

#[derive(Serialize)]
struct Continue<'a> {
    cursor: &'a str,
}

/// The body of a 200.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    result: Option<Box<RawValue>>,
    next_cursor: Option<String>,
    input_requests: Option<Map<String, Value>>,
    request_state: Option<String>,
    #[serde(default)]
    is_error: bool,
    error: Option<WireError>,
    #[serde(default)]
    replayed: bool,
}

#[derive(Deserialize)]
struct WireError {
    #[serde(default)]
    code: String,
    message: String,
    data: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WirePage {
    tools: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
}

impl HttpTools {
    pub(super) async fn call(&self, call: &Call, limits: &Try<'_>) -> Result<Answer, ToolsError> {
        let (verb, body) = match &call.continuation {
            None => ("run", json(&run(call, None, None))),
            Some(Continuation::State { state, answers }) => {
                ("run", json(&run(call, Some(state), Some(answers))))
            }
            Some(Continuation::Cursor(cursor)) => ("continue", json(&Continue { cursor })),
        };
        let target = format!("/v1/tools/{}/{verb}", utf8_percent_encode(&call.tool, SEGMENT));
        let mut request = self
            .http
            .request("POST", &target)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream, application/json");
        if let Some(key) = &call.key {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(unwritable)?;
        let answer = under_way(self.http.open(request), limits).await?;
        if answer.status() != StatusCode::OK {
            return Err(Refused::of(&read_to_end(answer, limits).await?).into());
        }
        if is_events(&answer) {
            return watched(Events::new(answer.into_body(), limits.response_max), limits).await;
        }
        answered(&read_to_end(answer, limits).await?.body)
    }

    pub(super) async fn list(&self, limits: &Try<'_>) -> Result<Vec<ToolInfo>, ToolsError> {
        let (mut all, mut target) = (Vec::new(), "/v1/tools?limit=1000".to_owned());
        while all.len() <= MAX_LISTED {
            let page: WirePage = serde_json::from_slice(&self.get(&target, limits).await?)
                .map_err(|_| ToolsError::Misbehaved("this is no list of tools"))?;
            for text in page.tools {
                all.push(info(text)?);
            }
            let Some(cursor) = page.next_cursor else { return Ok(all) };
            let cursor = utf8_percent_encode(&cursor, SEGMENT);
            target = format!("/v1/tools?limit=1000&cursor={cursor}");
        }
        Err(ToolsError::Misbehaved("there are too many tools"))
    }

    pub(super) async fn describe(
        &self,
        tool: &str,
        limits: &Try<'_>,
    ) -> Result<ToolInfo, ToolsError> {
        let target = format!("/v1/tools/{}", utf8_percent_encode(tool, SEGMENT));
        let body = self.get(&target, limits).await?;
        info(serde_json::from_slice(&body).map_err(|_| NOT_JSON)?)
    }

    async fn get(&self, target: &str, limits: &Try<'_>) -> Result<Bytes, ToolsError> {
        let request = self.http.request("GET", target);
        let request = request.body(Full::new(Bytes::new())).map_err(unwritable)?;
        let answer = under_way(self.http.open(request), limits).await?;
        let answer = read_to_end(answer, limits).await?;
        match answer.status {
            StatusCode::OK => Ok(answer.body),
            _ => Err(Refused::of(&answer).into()),
        }
    }
}

const NOT_JSON: ToolsError = ToolsError::Misbehaved("the answer is not the JSON that was expected");

pub(super) fn unwritable(_: hyper::http::Error) -> ToolsError {
    ToolsError::Unreached("the request has a value that cannot be sent".to_owned())
}

fn run<'a>(
    call: &'a Call,
    request_state: Option<&'a str>,
    input_responses: Option<&'a Map<String, Value>>,
) -> Run<'a> {
    Run { arguments: call.arguments.raw(), request_state, input_responses }
}

/// What is made of plain members can be written.
pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// The events of a call, to its end.
async fn watched(mut events: Events, limits: &Try<'_>) -> Result<Answer, ToolsError> {
    while let Some(event) = events.next().await? {
        match event.name.as_str() {
            "result" => return answered(event.data.as_bytes()),
            "error" => {
                let (code, message) = crate::http::error_of(event.data.as_bytes());
                return Err(Refused::new(code, message).into());
            }
            "progress" => limits.tell(progress(&event.data)?),
            "log" => limits.tell(log(&event.data)?),
            // The result has all parts.
            _ => {}
        }
    }
    Err(ToolsError::Lost("the events ended without a result".to_owned()))
}

#[derive(Deserialize)]
struct WireProgress {
    done: f64,
    total: Option<f64>,
    message: Option<String>,
}

fn progress(data: &str) -> Result<Event, ToolsError> {
    let WireProgress { done, total, message } = serde_json::from_str(data).map_err(|_| NOT_JSON)?;
    Ok(Event::Progress { done, total, message })
}

#[derive(Deserialize)]
struct WireLog {
    level: String,
    data: Value,
}

fn log(data: &str) -> Result<Event, ToolsError> {
    let WireLog { level, data } = serde_json::from_str(data).map_err(|_| NOT_JSON)?;
    Ok(Event::Log { level, data })
}

/// The body of a 200.
fn answered(body: &[u8]) -> Result<Answer, ToolsError> {
    let wire: Wire = serde_json::from_slice(body).map_err(|_| NOT_JSON)?;
    let is_replay = wire.replayed;
    if wire.is_error {
        let WireError { code, message, data } = wire.error.ok_or(NOT_JSON)?;
        return match code.as_str() {
            "" | "tool_failed" => Ok(Answer::Failed(Failed { message, data, is_replay })),
            _ => Err(Refused::new(code, message).into()),
        };
    }
    if let Some(asked) = wire.input_requests {
        let state = wire.request_state.ok_or(NOT_JSON)?;
        let questions = asked.into_iter().map(|(name, asked)| (name, question(asked))).collect();
        return Ok(Answer::Asks(Asks { questions, state }));
    }
    let result = wire.result.ok_or(NOT_JSON)?;
    Ok(Answer::Given(Given { result, next_cursor: wire.next_cursor, is_replay }))
}

fn question(asked: Value) -> Question {
    let text = |name: &str| asked.get(name).and_then(Value::as_str).map(str::to_owned);
    let message = text("message").unwrap_or_default();
    match (text("type").as_deref(), text("url")) {
        (Some("form"), _) => {
            let schema = asked.get("schema").cloned().unwrap_or_default();
            Question::Form { message, schema }
        }
        (Some("url"), Some(url)) => Question::Url { message, url },
        _ => Question::Other(asked),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireInfo {
    id: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    input_schema: Value,
}

fn info(text: Box<RawValue>) -> Result<ToolInfo, ToolsError> {
    let WireInfo { id, description, input_schema } =
        serde_json::from_str(text.get()).map_err(|_| NOT_JSON)?;
    Ok(ToolInfo { name: id, description, input_schema, text })
}
