//! What the surfaces of tools have in common.

use std::sync::Arc;

use handback_identity::Caller;
use handback_tool::{
    Answer, Content, Definition, Kind, MAX_ARGUMENTS_DEPTH, Pipeline, Refusal, Request,
};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::task::JoinHandle;

/// Makes a call that runs to its end, whether the one who asked is still there or not.
pub(crate) async fn call(pipeline: &Arc<Pipeline>, request: Request) -> Result<Answer, Refusal> {
    spawn(pipeline, request).await.unwrap_or(Err(Refusal::Broken))
}

/// The same, to be waited for later: a task of its own, as what waits is dropped with its
/// connection.
pub(crate) fn spawn(
    pipeline: &Arc<Pipeline>,
    request: Request,
) -> JoinHandle<Result<Answer, Refusal>> {
    let pipeline = Arc::clone(pipeline);
    tokio::spawn(async move { pipeline.call(request.runs_on()).await })
}

/// A result as JSON.
#[derive(Debug)]
pub(crate) enum Shown {
    /// A value.
    Value(Value),
    /// The text that the tool gave, as it is.
    Raw(Box<RawValue>),
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(out),
            Self::Raw(raw) => raw.serialize(out),
        }
    }
}

/// A result as JSON; nothing, if the tool said that it is JSON and it is not.
pub(crate) fn shown(content: Content) -> Option<Shown> {
    Some(match content {
        Content::Value(value) | Content::Result(value) => Shown::Value(value),
        Content::Text(text) => Shown::Value(Value::String(text)),
        Content::Raw(bytes) => Shown::Raw(serde_json::from_slice(&bytes).ok()?),
        // As it is written where something held is meant.
        Content::Held(handle) => Shown::Value(serde_json::json!({ "$held": handle })),
        _ => return None,
    })
}

/// The tools that a caller may use, by name.
pub(crate) fn tools<'a>(pipeline: &'a Pipeline, caller: &'a Caller) -> Vec<&'a Definition> {
    let visible = pipeline.registry().visible(caller);
    let mut tools: Vec<_> = visible.filter(|tool| *tool.kind() == Kind::Tool).collect();
    tools.sort_unstable_by_key(|tool| tool.name());
    tools
}

/// How deep a message is at most: what it has members for may be as deep as arguments.
const MAX_DEPTH: usize = MAX_ARGUMENTS_DEPTH + 1;

/// Whether a message is deeper than it may be.
pub(crate) fn is_too_deep(text: &[u8]) -> bool {
    is_deeper(text, MAX_DEPTH)
}

/// Whether a JSON text is deeper than this. Of what is no JSON, the parser says so.
fn is_deeper(text: &[u8], limit: usize) -> bool {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn depth_is_that_of_the_value(depth in 1_usize..40, limit in 1_usize..40, text: String) {
            let open = (0..depth).fold(serde_json::json!(text), |inner, _| {
                serde_json::json!({ "[\\\"": inner })
            });
            prop_assert_eq!(is_deeper(open.to_string().as_bytes(), limit), depth > limit);
        }
    }
}
