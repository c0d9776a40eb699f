//! From what a client asks for to a call.

#![expect(deprecated, reason = "log messages are still a part of the protocol")]

use std::sync::Arc;

use futures_util::future::BoxFuture;
use handback_identity::Caller;
use handback_token::Operation;
use handback_tool::{
    Abilities, Answer, Arguments, Continuation, EVENTS_WAITING_MAX, Event, Refusal, Request,
    Surface,
};
use hyper::http::request::Parts;
use rmcp::model::{
    InputResponses, JsonObject, LoggingLevel, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::answers::Brought;
use super::session::{Session, rank};
use super::{BUDGET_META, CURSOR_ARGUMENT, KEY_META, McpServer};

/// A call as a client asked for it: each of its rounds is made from it.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub(super) caller: Caller,
    pub(super) operation: Operation,
    pub(super) name: String,
    pub(super) arguments: Value,
    pub(super) key: Option<String>,
    pub(super) abilities: Abilities,
    pub(super) log_level: Option<String>,
    pub(super) budget_bytes: Option<usize>,
    pub(super) continuation: Option<Continuation>,
}

impl Incoming {
    pub(super) fn read(
        server: &McpServer,
        context: &RequestContext<RoleServer>,
        operation: Operation,
        name: String,
        arguments: Option<JsonObject>,
        came_back: (Option<String>, Option<InputResponses>),
    ) -> Result<Self, ErrorData> {
        let caller = server.caller(context)?;
        let mut arguments = arguments.unwrap_or_default();
        let tool = server.pipeline.registry().named(&caller, operation, &name);
        let is_paginated = tool.is_some_and(|tool| tool.definition().is_paginated());
        // To a tool that does not page it is an argument like others.
        let given = is_paginated.then(|| arguments.remove(CURSOR_ARGUMENT)).flatten();
        let cursor = match given {
            None => None,
            Some(Value::String(cursor)) => Some(cursor),
            Some(_) => {
                let message = format!("`{CURSOR_ARGUMENT}` is a string");
                return Err(ErrorData::invalid_params(message, None));
            }
        };
        let continuation = match (cursor, came_back) {
            (None, (None, None)) => None,
            (None, (state, answers)) => {
                let answers: Map<_, _> = answers.unwrap_or_default().into_iter().collect();
                Some(Continuation::State { state, answers })
            }
            (Some(cursor), (None, None)) => Some(Continuation::Cursor(cursor)),
            (Some(_), _) => {
                let message = "a call goes on by a cursor or by request state, not by both";
                return Err(ErrorData::invalid_params(message, None));
            }
        };
        Ok(Self {
            caller,
            operation,
            name,
            arguments: Value::Object(arguments),
            key: key(context)?,
            abilities: abilities(context),
            log_level: level_name(context.meta.log_level()),
            budget_bytes: budget(context),
            continuation,
        })
    }

    pub(super) const fn brought(&self) -> Brought {
        match self.continuation {
            None => Brought::Nothing,
            Some(Continuation::Cursor(_)) => Brought::Cursor,
            Some(Continuation::State { .. }) => Brought::State,
        }
    }

    /// One round.
    pub(super) fn request(&self, continuation: Option<Continuation>) -> Request {
        let arguments = Arguments::Given(self.arguments.clone());
        let mut request = Request::new(
            self.caller.clone(),
            Surface::Mcp,
            self.operation,
            self.name.clone(),
            arguments,
        )
        .abilities(self.abilities);
        if let Some(key) = &self.key {
            request = request.key(key.clone());
        }
        if let Some(level) = &self.log_level {
            request = request.log_level(level.clone());
        }
        if let Some(bytes) = self.budget_bytes {
            request = request.budget_bytes(bytes);
        }
        match continuation {
            Some(continuation) => request.continuation(continuation),
            None => request,
        }
    }
}

/// A round under way, which lives as long as somebody wants it.
pub(super) type UnderWay = BoxFuture<'static, Result<Answer, Refusal>>;

/// A round under way, and what it tells.
pub(super) struct Running {
    pub(super) call: UnderWay,
    events: mpsc::Receiver<Event>,
    session: Arc<Session>,
}

impl McpServer {
    pub(super) fn start(
        &self,
        incoming: &Incoming,
        continuation: Option<Continuation>,
        cancel: CancellationToken,
    ) -> Running {
        let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        let request = incoming.request(continuation).events(sender).cancel(cancel);
        let pipeline = Arc::clone(&self.pipeline);
        let session = Arc::clone(&self.session);
        Running { call: Box::pin(async move { pipeline.call(request).await }), events, session }
    }
}

impl Running {
    /// Waits for the end, and tells the client what happens on the way.
    pub(super) async fn told(
        &mut self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Answer, Refusal> {
        let ended = loop {
            tokio::select! {
                ended = &mut self.call => break ended,
                Some(event) = self.events.recv() => tell(context, &self.session, event).await,
            }
        };
        while let Ok(event) = self.events.try_recv() {
            tell(context, &self.session, event).await;
        }
        ended
    }
}

/// Tells the client of this request something. It may be gone; the call goes on.
async fn tell(context: &RequestContext<RoleServer>, session: &Session, event: Event) {
    match event {
        Event::Progress { done, total, message } => {
            let Some(token) = context.meta.get_progress_token() else { return };
            let mut progress = ProgressNotificationParam::new(token, done);
            if let Some(total) = total {
                progress = progress.with_total(total);
            }
            if let Some(message) = message {
                progress = progress.with_message(message);
            }
            let _ = context.peer.notify_progress(progress).await;
        }
        Event::Log { level, data } => {
            // Newer clients say with each request from which level on they want any.
            let is_wanted = match level_name(context.meta.log_level()) {
                Some(wanted) => rank(&level) >= rank(&wanted),
                None => !is_modern(context) && session.wants(&level),
            };
            if !is_wanted {
                return;
            }
            let level = serde_json::from_value(level.into()).unwrap_or(LoggingLevel::Info);
            let message = LoggingMessageNotificationParam::new(level, data);
            let _ = context.peer.notify_logging_message(message).await;
        }
        // The result has all parts.
        _ => {}
    }
}

/// A level as the protocol writes it.
pub(super) fn level_name(level: Option<LoggingLevel>) -> Option<String> {
    let name = serde_json::to_value(level?).ok()?;
    name.as_str().map(str::to_owned)
}

pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// The idempotency key of a request: of the message, or of the headers it came with. It may be said
/// in several places, but not differently: a call under the wrong key is a second call.
fn key(context: &RequestContext<RoleServer>) -> Result<Option<String>, ErrorData> {
    let bad = |message: String| ErrorData::invalid_params(message, None);
    let mut keys = Vec::new();
    if let Some(key) = context.meta.get(KEY_META) {
        let text = key.as_str().map(str::to_owned);
        keys.push(text.ok_or_else(|| bad(format!("`_meta[\"{KEY_META}\"]` is a string")))?);
    }
    if let Some(parts) = context.extensions.get::<Parts>() {
        for name in ["idempotency-key", "x-idempotency-key"] {
            for value in parts.headers.get_all(name) {
                let text = value.to_str().map(str::to_owned);
                keys.push(text.map_err(|_| bad("the idempotency key is no text".to_owned()))?);
            }
        }
    }
    keys.dedup();
    match keys.len() {
        0 | 1 => Ok(keys.pop()),
        _ => Err(bad("there are two idempotency keys".to_owned())),
    }
}

/// Bytes of the text of a result, of a client that says how many bytes it takes of a result. What is no
/// number says nothing.
fn budget(context: &RequestContext<RoleServer>) -> Option<usize> {
    let bytes = context.meta.get(BUDGET_META)?.as_u64()?;
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    Some(bytes.max(BUDGET_BYTES_MIN).saturating_sub(RESULT_BYTES))
}

/// A budget that is smaller counts as this one: page info with two cursors has to fit, and a piece of an
/// item.
const BUDGET_BYTES_MIN: usize = 4 << 10;

/// Bytes of a result around its text, also of one that is a replay.
const RESULT_BYTES: usize = 192;

fn abilities(context: &RequestContext<RoleServer>) -> Abilities {
    let capabilities = context.client_capabilities();
    let Some(Value::Object(can)) = capabilities.and_then(|can| serde_json::to_value(can).ok())
    else {
        return Abilities::default();
    };
    let elicitation = can.get("elicitation").and_then(Value::as_object);
    let has = |way: &str| elicitation.is_some_and(|ways| ways.contains_key(way));
    Abilities {
        // Without ways, it is forms.
        forms: elicitation.is_some() && (has("form") || !has("url")),
        urls: has("url"),
        sampling: can.contains_key("sampling"),
        roots: can.contains_key("roots"),
    }
}
