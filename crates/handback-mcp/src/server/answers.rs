//! From what the pipeline gives to what the protocol has.

use handback_token::{Outside, Reason};
use handback_tool::{Abilities, Answer, Content, InputRequest, Inputs, Refusal, Reply};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, ClientCapabilities, ErrorCode, GetPromptResult, InputRequests,
    ReadResourceResult,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{CURSOR_ARGUMENT, NEXT_CURSOR_META, REASON_META, REPLAYED_META};

const INVALID_PARAMS: i32 = -32602;
const INTERNAL_ERROR: i32 = -32603;

/// The frozen sentences about cursors of tools.
const EXPIRED_CURSOR: &str = "expired cursor: call again without it";
const INVALID_CURSOR: &str = "invalid cursor";

/// What a call came back with, if it came back with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brought {
    Nothing,
    Cursor,
    State,
}

/// The result of a tool.
pub(super) fn tool_result(answer: Answer) -> Result<CallToolResult, ErrorData> {
    let mut meta = Map::new();
    if answer.is_replay {
        meta.insert(REPLAYED_META.to_owned(), true.into());
    }
    let mut result = match answer.reply {
        Reply::Done(content) => done(content)?,
        Reply::Page { items, next } => {
            let mut blocks = vec![text(Value::Array(items.clone()).to_string())];
            if let Some(next) = next {
                blocks.push(text(format!(
                    "There are more. For the next page, call again with the same arguments and \
                     \"{CURSOR_ARGUMENT}\": \"{next}\"."
                )));
                meta.insert(NEXT_CURSOR_META.to_owned(), next.into());
            }
            json!({"content": blocks, "structuredContent": {"items": items}})
        }
        Reply::Failed { message, data, code: Some(code) } => {
            return Err(ErrorData::new(ErrorCode(code), message, data));
        }
        Reply::Failed { message, data, code: None } => {
            let mut result = json!({"content": [text(message)], "isError": true});
            if let (Some(data @ Value::Object(_)), Some(result)) = (data, result.as_object_mut()) {
                result.insert("structuredContent".to_owned(), data);
            }
            result
        }
        _ => return Err(ErrorData::internal_error("this is no result of a tool", None)),
    };
    if let Some(result) = result.as_object_mut().filter(|_| !meta.is_empty()) {
        let all = result.entry("_meta").or_insert_with(|| json!({}));
        if let Some(all) = all.as_object_mut() {
            all.extend(meta);
        }
    }
    complete(result)
}

fn done(content: Content) -> Result<Value, ErrorData> {
    Ok(match content {
        Content::Value(value @ Value::Object(_)) => {
            json!({"content": [text(value.to_string())], "structuredContent": value})
        }
        Content::Value(value) => json!({"content": [text(value.to_string())]}),
        Content::Text(line) => json!({"content": [text(line)]}),
        Content::Result(result) => result,
        Content::Raw(bytes) => {
            json!({"content": [text(String::from_utf8_lossy(&bytes).into_owned())]})
        }
        Content::Held(handle) => json!({"content": [text(handle)]}),
        _ => return Err(ErrorData::internal_error("this is no result of a tool", None)),
    })
}

fn text(text: String) -> Value {
    json!({"type": "text", "text": text})
}

/// What a refused call of a tool gets: an error of the protocol where the protocol is at fault, else
/// a result that says why there is none.
pub(super) fn tool_refusal(
    refusal: &Refusal,
    brought: Brought,
) -> Result<CallToolResult, ErrorData> {
    let message = match refusal {
        Refusal::Continuation { outside, .. } if brought == Brought::Cursor => match outside {
            Outside::Expired => EXPIRED_CURSOR.to_owned(),
            _ => INVALID_CURSOR.to_owned(),
        },
        Refusal::Continuation { .. }
        | Refusal::NotFound
        | Refusal::BadAnswers(_)
        | Refusal::Cancelled
        | Refusal::Unavailable => return Err(protocol_error(refusal)),
        other => other.to_string(),
    };
    let reason = match refusal {
        Refusal::Continuation { outside, .. } => outside.as_str(),
        other => other.reason(),
    };
    complete(json!({
        "content": [text(message)],
        "isError": true,
        "_meta": {REASON_META: reason},
    }))
}

/// A refusal as an error of the protocol.
pub(super) fn protocol_error(refusal: &Refusal) -> ErrorData {
    let (code, data) = match refusal {
        Refusal::Continuation { outside, .. } => {
            (INVALID_PARAMS, Some(json!({"reason": outside.as_str()})))
        }
        Refusal::NotFound => (INVALID_PARAMS, None),
        Refusal::BadArguments(_) | Refusal::BadAnswers(_) | Refusal::BadKey | Refusal::Mismatch => {
            (INVALID_PARAMS, Some(json!({"reason": refusal.reason()})))
        }
        other => (INTERNAL_ERROR, Some(json!({"reason": other.reason()}))),
    };
    let message = match refusal {
        Refusal::Continuation { outside: Outside::Expired, .. } => {
            "expired request state".to_owned()
        }
        Refusal::Continuation { .. } => "invalid request state".to_owned(),
        other => other.to_string(),
    };
    ErrorData::new(ErrorCode(code), message, data)
}

/// A cursor of a list that does not open.
pub(super) fn refused_list(reason: Reason) -> ErrorData {
    let outside = reason.outside();
    let message = match outside {
        Outside::Expired => "expired cursor",
        _ => "invalid cursor",
    };
    let data = json!({"reason": outside.as_str()});
    ErrorData::new(ErrorCode(INVALID_PARAMS), message, Some(data))
}

/// The result of a prompt.
pub(super) fn prompt_result(reply: Reply) -> Result<GetPromptResult, ErrorData> {
    match reply {
        Reply::Done(Content::Result(result)) => complete(result),
        Reply::Done(Content::Text(line)) => {
            complete(json!({"messages": [{"role": "user", "content": text(line)}]}))
        }
        Reply::Done(Content::Value(value)) => {
            let content = text(value.to_string());
            complete(json!({"messages": [{"role": "user", "content": content}]}))
        }
        other => Err(failed(other)),
    }
}

/// The contents of a resource.
pub(super) fn resource_result(
    uri: &str,
    mime_type: Option<&str>,
    reply: Reply,
) -> Result<ReadResourceResult, ErrorData> {
    let contents = |line: String, otherwise: &str| {
        let mime_type = mime_type.unwrap_or(otherwise);
        json!({"contents": [{"uri": uri, "mimeType": mime_type, "text": line}]})
    };
    match reply {
        Reply::Done(Content::Result(result)) => complete(result),
        Reply::Done(Content::Text(line)) => complete(contents(line, "text/plain")),
        Reply::Done(Content::Value(value)) => {
            complete(contents(value.to_string(), "application/json"))
        }
        other => Err(failed(other)),
    }
}

fn failed(reply: Reply) -> ErrorData {
    match reply {
        Reply::Failed { message, data, code } => {
            ErrorData::new(ErrorCode(code.unwrap_or(INTERNAL_ERROR)), message, data)
        }
        _ => ErrorData::internal_error("this is no result", None),
    }
}

/// Questions as the protocol has them, if the client can answer them.
pub(super) fn questions(inputs: &Inputs, can: Abilities) -> Result<InputRequests, ErrorData> {
    let question = |request: &InputRequest| -> Result<Value, &'static str> {
        Ok(match request {
            InputRequest::Form { message, schema } if can.forms => json!({
                "method": "elicitation/create",
                "params": {"mode": "form", "message": message, "requestedSchema": schema},
            }),
            InputRequest::Url { message, url, id } if can.urls => json!({
                "method": "elicitation/create",
                "params": {"mode": "url", "message": message, "url": url, "elicitationId": id},
            }),
            InputRequest::Sample(params) if can.sampling => {
                json!({"method": "sampling/createMessage", "params": params})
            }
            InputRequest::Roots if can.roots => json!({"method": "roots/list"}),
            InputRequest::Sample(_) => return Err("sampling"),
            InputRequest::Roots => return Err("roots"),
            _ => return Err("elicitation"),
        })
    };
    inputs
        .iter()
        .map(|(name, request)| {
            let question = question(request).map_err(missing)?;
            Ok((name.to_owned(), typed(question)?))
        })
        .collect()
}

/// The client did not say that it can do this.
fn missing(capability: &str) -> ErrorData {
    let needed = serde_json::from_value::<ClientCapabilities>(json!({capability: {}}));
    ErrorData::missing_required_client_capability(needed.unwrap_or_default())
}

/// From JSON to a type of rmcp.
pub(super) fn typed<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| {
        tracing::error!(%error, "something does not fit the protocol");
        ErrorData::internal_error("the result does not fit the protocol", None)
    })
}

/// The same for a whole result. Read from JSON, one that does not name its kind has none; rmcp takes
/// the kind away where the client is too old for it, but never adds it.
pub(super) fn complete<T: DeserializeOwned>(mut result: Value) -> Result<T, ErrorData> {
    if let Some(members) = result.as_object_mut() {
        members.insert("resultType".to_owned(), "complete".into());
    }
    typed(result)
}
