//! What the surfaces of tools have in common.

use std::sync::Arc;

use handback_tool::{Answer, Content, Pipeline, Refusal, Request};
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
