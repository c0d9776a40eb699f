//! What tools there are.

use std::sync::Arc;

use handback_identity::Caller;
use handback_token::{Context, Cursor, Operation};
use handback_tool::{Definition, Pipeline, Refusal, Surface, ToolClass};
use hyper::Response;
use serde_json::{Map, Value, json};

use super::answer;
use super::read::{self, Bad};
use crate::body::ReplyBody;
use crate::calls;

/// What the cursors of the list are bound to: other lists have cursors of other shapes.
const LIST_NAME: &str = "/v1/tools";

/// A page of the tools that a caller may use, in the order of their names. A cursor has the name of
/// the last tool in it, so that tools that come and go between two pages shift nothing.
pub(super) async fn list(
    query: Option<String>,
    caller: &Caller,
    pipeline: &Arc<Pipeline>,
) -> Result<Response<ReplyBody>, Bad> {
    let page = read::page(query.as_deref())?;
    let context = Context::new(caller.principal().caller(), Operation::List).name(LIST_NAME);
    let broken = |_| Bad::Refused(Refusal::Broken);
    let bound = pipeline.sealer().bind::<Cursor>(&context).map_err(broken)?;
    let now = pipeline.now();
    let opened = match page.cursor {
        None => None,
        Some(cursor) => {
            let opened = pipeline.open_list(Surface::Http, caller, LIST_NAME, &cursor).await;
            Some(opened.map_err(|reason| Bad::Refused(reason.into()))?)
        }
    };
    let after = opened.as_ref().map(|opened| opened.payload());
    let mut left = calls::tools(pipeline, caller)
        .into_iter()
        .skip_while(|tool| after.is_some_and(|after| tool.name().as_bytes() <= after))
        .peekable();
    let shown: Vec<_> = left.by_ref().take(page.limit).collect();
    let mut body = json!({"tools": shown.iter().map(|tool| entry(tool)).collect::<Vec<_>>()});
    if let (Some(_), Some(last), Some(body)) = (left.peek(), shown.last(), body.as_object_mut()) {
        let (rng, last) = (&mut rand::rng(), last.name().as_bytes());
        let next = match &opened {
            Some(opened) => bound.seal_after(opened, rng, now, last),
            None => bound.seal(rng, now, last),
        };
        let next = next.map_err(|_| Bad::Refused(Refusal::Broken))?;
        body.insert("nextCursor".to_owned(), next.into_string().into());
    }
    Ok(answer::json(&body))
}

/// One tool, if the caller may use it.
pub(super) fn one(
    name: &str,
    caller: &Caller,
    pipeline: &Arc<Pipeline>,
) -> Result<Response<ReplyBody>, Bad> {
    let found = pipeline.registry().named(caller, Operation::Call, name);
    let tool = found.ok_or(Bad::Refused(Refusal::NotFound))?;
    Ok(answer::json(&entry(tool.definition())))
}

/// A tool, as the list has it.
fn entry(tool: &Definition) -> Value {
    let mut entry = Map::new();
    let mut put = |name: &str, value: Value| entry.insert(name.to_owned(), value);
    put("id", tool.name().into());
    put("description", tool.description().into());
    put("inputSchema", tool.schema().clone());
    put("paginated", tool.is_paginated().into());
    put("class", class(tool.known_class()).into());
    if let Some(title) = tool.shown_title() {
        put("title", title.into());
    }
    if let Some(schema) = tool.result_schema() {
        put("outputSchema", schema.clone());
    }
    if !tool.scopes().is_empty() {
        put("scopes", tool.scopes().into());
    }
    Value::Object(entry)
}

/// What is known of the effects of a tool: whether a call may be made again without a key.
const fn class(class: ToolClass) -> &'static str {
    match class {
        ToolClass::Transactional => "transactional",
        ToolClass::TakesKey => "takes_key",
        ToolClass::ReadOnly => "read_only",
        ToolClass::Unknown => "unknown",
    }
}
