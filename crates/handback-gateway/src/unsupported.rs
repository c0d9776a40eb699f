//! Methods that no server behind supports: their clients get -32601, as without a gateway.

use bytes::Bytes;
use futures_util::future::join_all;
use handback_tool::Kind;
use serde_json::Value;

use crate::gateway::Gateway;
use crate::talk::{Question, Talk};
use crate::upstream::Answer;
use crate::words::METHOD_NOT_FOUND;

/// True if every upstream, but for one that said so already, answers a request with -32601. One that
/// cannot be asked now may support it.
pub(crate) async fn is_unsupported(
    gateway: &Gateway,
    talk: &Talk,
    (question, params, except): (&Question<'_>, Option<&Bytes>, Option<usize>),
) -> bool {
    let others = (0..gateway.own()).filter(|which| Some(*which) != except);
    let asked = others.map(|which| gateway.pass_soon(talk, which, question, params.cloned()));
    let is_unknown = |answer: &Answer| match answer {
        Answer::Error(error) => is_unknown_method(error),
        Answer::Result(_) => false,
    };
    join_all(asked).await.iter().all(is_unknown)
}

/// True if an error says that there is no such method.
pub(crate) fn is_unknown_method(error: &[u8]) -> bool {
    let error: Value = serde_json::from_slice(error).unwrap_or_default();
    error.get("code").and_then(Value::as_i64) == Some(METHOD_NOT_FOUND.into())
}

/// True if there are prompts of our own for the caller.
pub(crate) fn own_prompts(gateway: &Gateway, talk: &Talk) -> bool {
    let mut listed = gateway.pipeline().registry().visible(&talk.caller);
    listed.any(|it| matches!(it.kind(), Kind::Prompt))
}
