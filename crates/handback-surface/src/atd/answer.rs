//! From what the pipeline says to what the protocol has for it.

use handback_token::Outside;
use handback_tool::{Answer, Definition, InputRefusal, Refusal, Reply, ToolClass};
use serde_json::{Value, json};

use super::wire::ServerMessage;
use crate::calls::{Shown, shown};

/// The caller has as many calls under way as it may have, or calls too fast.
const RATE_LIMITED: u16 = 1002;
/// A delegation that is not taken.
pub(super) const UCAN_INVALID: u16 = 1010;
/// A delegation for nobody in particular.
pub(super) const AUDIENCE_MISMATCH: u16 = 1013;
/// A cursor that opened, and is too old.
const CURSOR_EXPIRED: u16 = handback_token::ERR_CURSOR_EXPIRED;
/// Any other cursor that does not open.
const CURSOR_INVALID: u16 = handback_token::ERR_CURSOR_INVALID;
/// Everything that the protocol has no code for.
const UNHANDLED: u16 = 1999;

/// Characters of a name that an answer repeats: names come from callers.
const NAME_CHARS_MAX: usize = handback_tool::MAX_NAME_CHARS;

/// The tiers that the protocol knows.
pub(super) const TIERS: [&str; 3] = ["hot", "warm", "cold"];

/// The tier of every tool here: what the protocol takes where none is said.
const TIER: &str = "warm";

/// A refusal in words, with no code: for what the protocol has none for.
pub(super) fn plain(message: impl Into<String>) -> ServerMessage<Shown> {
    coded(None, false, message)
}

pub(super) fn coded(
    code: Option<u16>,
    is_retryable: bool,
    message: impl Into<String>,
) -> ServerMessage<Shown> {
    let retryable = Some(is_retryable);
    ServerMessage::Error { message: message.into(), code, retryable, details: None }
}

/// The answer to a frame that was refused before all of it had arrived.
pub(super) fn unfinished(refusal: InputRefusal) -> ServerMessage<Shown> {
    coded(Some(RATE_LIMITED), true, refusal.to_string())
}

/// What is answered where a result does not fit a frame.
pub(super) fn too_long() -> ServerMessage<Shown> {
    coded(Some(UNHANDLED), false, "the answer is longer than a frame may be")
}

/// What a call gave.
pub(super) fn answered(tool_id: String, answer: Answer) -> ServerMessage<Shown> {
    let replayed = answer.is_replay;
    let failed = |code: &str, message: String, data: Option<Value>| {
        let mut result = json!({"code": code, "message": message, "retryable": false});
        if let (Some(result), Some(data)) = (result.as_object_mut(), data) {
            result.insert("data".to_owned(), data);
        }
        (Shown::Value(result), false, None)
    };
    let (result, success, next_cursor) = match answer.reply {
        Reply::Done(content) => match shown(content) {
            Some(shown) => (shown, true, None),
            None => return refused(&tool_id, &Refusal::Broken),
        },
        Reply::Page { items, next } => (Shown::Value(Value::Array(items)), true, next),
        Reply::Failed { message, data, .. } => failed("TOOL_FAILED", message, data),
        // The protocol has no message that could carry an answer.
        Reply::NeedsInput { .. } => {
            failed("INPUT_REQUIRED", "this tool asks back: use another surface".to_owned(), None)
        }
        _ => return refused(&tool_id, &Refusal::Broken),
    };
    ServerMessage::ToolResult { tool_id, result, success, dry_run: false, next_cursor, replayed }
}

/// What is said to arguments that would do.
pub(super) fn checked(tool_id: String, args: Value) -> ServerMessage<Shown> {
    let result = json!({"dry_run": true, "tool_id": tool_id, "args_preview": args});
    let result = Shown::Value(result);
    ServerMessage::ToolResult {
        tool_id,
        result,
        success: true,
        dry_run: true,
        next_cursor: None,
        replayed: false,
    }
}

/// Why there is no answer. What is wrong with a cursor is one of two frozen sentences.
pub(super) fn refused(tool_id: &str, refusal: &Refusal) -> ServerMessage<Shown> {
    let name: String = tool_id.chars().take(NAME_CHARS_MAX).collect();
    match refusal {
        // Clients look for these words.
        Refusal::NotFound => plain(format!("tool not found: {name}")),
        Refusal::BadArguments(why) => plain(format!("invalid args for {name}: {why}")),
        Refusal::BadKey => plain(refusal.to_string()),
        Refusal::Busy | Refusal::TooFast => coded(Some(RATE_LIMITED), true, refusal.to_string()),
        Refusal::Continuation { outside: Outside::Expired, .. } => {
            coded(Some(CURSOR_EXPIRED), false, "expired cursor: make the call again from the start")
        }
        Refusal::Continuation { .. } => coded(Some(CURSOR_INVALID), false, "invalid cursor"),
        other => coded(Some(UNHANDLED), other.is_retryable(), other.to_string()),
    }
}

/// A tool in a list.
pub(super) fn summary(tool: &Definition) -> Value {
    json!({
        "id": tool.name(),
        "name": tool.shown_title().unwrap_or_else(|| tool.name()),
        "description": tool.description(),
        "domain": domain(tool.name()),
        "tags": [],
        "visibility": visibility(tool),
        "tier": TIER,
        "input_schema": tool.schema(),
    })
}

/// A tool, in the form that the protocol prescribes.
pub(super) fn definition(tool: &Definition) -> Value {
    let is_read = tool.known_class() == ToolClass::ReadOnly;
    let any = Value::Object(serde_json::Map::new());
    json!({
        "id": tool.name(),
        "name": tool.shown_title().unwrap_or_else(|| tool.name()),
        "description": tool.description(),
        "version": env!("CARGO_PKG_VERSION"),
        "capability": {
            "domain": domain(tool.name()),
            "actions": [],
            "tags": [],
            "intent_examples": [],
        },
        "input_schema": tool.schema(),
        "output_schema": tool.result_schema().unwrap_or(&any),
        "bindings": [],
        "safety": {
            "level": if is_read { "Read" } else { "Write" },
            "dry_run": true,
            "side_effects": [],
            "data_sensitivity": null,
        },
        "resources": {
            "timeout_ms": u64::try_from(tool.longest_call().as_millis()).unwrap_or(u64::MAX),
            "max_concurrent": u32::try_from(handback_tool::IN_FLIGHT_MAX).unwrap_or(u32::MAX),
            "rate_limit_per_min": null,
            "estimated_tokens": null,
        },
        "trust": {"publisher": "", "trust_level": "L0Unverified", "signature": null},
        "visibility": visibility(tool),
        "required_capabilities": tool.scopes(),
        "tier": TIER,
        "errors": [],
    })
}

fn visibility(tool: &Definition) -> &'static str {
    if tool.known_class() == ToolClass::ReadOnly { "read" } else { "write" }
}

/// What a name starts with, up to its first dot: `fs` of `fs.read`.
fn domain(name: &str) -> &str {
    name.split_once('.').map_or("", |(domain, _)| domain)
}
