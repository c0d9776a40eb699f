//! Completions, from who has what is completed.

use std::borrow::Cow;

use bytes::Bytes;
use handback_mcp::wire::Object;
use handback_token::Operation;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::gateway::Gateway;
use crate::lists::is_unsupported;
use crate::names::ambiguous;
use crate::options::ToolNames;
use crate::talk::{Question, Talk};
use crate::upstream::Answer;
use crate::words::{self, INVALID_PARAMS, METHOD_NOT_FOUND};

impl Gateway {
    /// What completes an argument of a prompt or of a template, of who has it.
    pub(crate) async fn complete(&self, talk: &Talk, question: Question<'_>) -> Answer {
        let Some(params) = question.params else { return unknown() };
        let Ok(mut object) = Object::read(params) else { return unknown() };
        let reference = object.get("ref").map(str::to_owned).unwrap_or_default();
        let Ok(reference) = serde_json::from_str::<&RawValue>(&reference) else {
            return unknown();
        };
        let Ok(mut reference) = Object::read(reference) else { return unknown() };
        let kind = reference.text("type").map(Cow::into_owned);
        let uri = reference.text("uri").map(Cow::into_owned);
        let has_name = reference.get("name").is_some();
        // What it is about is said once.
        if let Some(uri) = uri {
            if has_name || kind.as_deref() != Some("ref/resource") {
                return unknown();
            }
            let Some(which) = self.has_resource(talk, &uri).await else {
                return nothing(self, talk, &question).await;
            };
            return self.pass(talk, which, &question, question.params_bytes()).await;
        }
        if kind.as_deref() != Some("ref/prompt") || reference.get("uri").is_some() {
            return unknown();
        }
        let name = reference.text("name").map(Cow::into_owned).unwrap_or_default();
        let Some(target) = self.target(talk, Operation::Prompt, &name).await else {
            if let Some(answer) = ambiguous(self, talk, Operation::Prompt, &name).await {
                return answer;
            }
            return nothing(self, talk, &question).await;
        };
        let (registry, which) = (self.pipeline().registry(), target.which);
        let ToolNames { own: own_name, upstream, .. } = target.names(self, &name);
        // What is ours was found for the caller.
        if which != self.own() && !registry.allows_relayed(&talk.caller, &name, own_name, upstream)
        {
            return unknown();
        }
        if own_name == name {
            return self.pass(talk, which, &question, question.params_bytes()).await;
        }
        reference.set("name", Value::from(own_name).to_string());
        let reference = reference.to_json();
        object.set("ref", reference);
        let params = Bytes::from(object.to_json());
        self.pass(talk, which, &question, Some(params)).await
    }
}

fn unknown() -> Answer {
    words::refused(INVALID_PARAMS, "there is nothing to complete", None)
}

/// The answer about a prompt or template that nobody has, or that the caller may not use.
async fn nothing(gateway: &Gateway, talk: &Talk, question: &Question<'_>) -> Answer {
    // Where callers may use different things, servers are not asked about what may be denied.
    let may_ask = gateway.pipeline().registry().is_same_for_all();
    let params = question.params_bytes();
    if may_ask && is_unsupported(gateway, talk, (question, params.as_ref(), None)).await {
        return words::refused(METHOD_NOT_FOUND, "no server behind this one completes", None);
    }
    unknown()
}
