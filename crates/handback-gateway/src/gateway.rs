//! From the questions of clients to the answers of upstreams.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use handback_identity::{Caller, Scopes};
use handback_mcp::Era;
use handback_mcp::server::McpServer;
use handback_mcp::wire::Object;
use handback_token::Operation;
use handback_tool::{Definition, Kind, Pipeline};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::{OnceCell, mpsc};
use tokio_util::sync::CancellationToken;

use crate::bridge::{self, Parking};
use crate::catalog::{Catalog, Catalogs, OWN};
use crate::lists::List;
use crate::options::Options;
use crate::retry::Retries;
use crate::slot::{Slot, Source};
use crate::talk::{Question, Talk, ToClient, WAITING_MAX};
use crate::upstream::{Answer, Ask, Heard, Line, LineError, Opening, Spec};
use crate::words::{self, INVALID_PARAMS, METHOD_NOT_FOUND};

/// Callers whose line to our own tools is kept open.
const OWN_LINES_MAX: usize = 256;

/// How long a client may listen to changes: it is for as long as it wants, and it comes back.
const LISTENING_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// What a server says first to who listens.
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// The revision that questions of the gateway itself are asked in.
pub(crate) const REVISION: &str = "2026-07-28";

/// How long a server may take to say what it is.
const DISCOVERY_TIME: Duration = Duration::from_secs(10);

/// Upstreams of one gateway at most: a place in a list has a byte for them.
pub const UPSTREAMS_MAX: usize = 64;

/// Servers that are not ours, and our own tools, as one server. Clones are the same one.
#[derive(Clone)]
pub struct Gateway(Arc<Inner>);

struct Inner {
    upstreams: Vec<Arc<Spec>>,
    /// Lines of the newer era, which all callers share.
    modern: Vec<Slot>,
    /// Which era each upstream speaks, once that is known: the newer, if it speaks both.
    eras: Vec<OnceCell<Era>>,
    /// Lines of the older era for newer clients, by caller and upstream.
    bridges: Mutex<HashMap<(String, usize), Arc<Slot>>>,
    parking: Parking,
    retries: Retries,
    /// Our own tools.
    own: McpServer,
    /// Lines to them, by caller, with what the caller was granted: the line has it.
    own_lines: Mutex<HashMap<String, (Scopes, Arc<Slot>)>>,
    pipeline: Arc<Pipeline>,
    options: Options,
    catalogs: Catalogs,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("upstreams", &self.0.upstreams).finish_non_exhaustive()
    }
}

impl Gateway {
    /// A gateway before these upstreams. `own` is the server of our own tools, on the same pipeline.
    #[must_use]
    pub fn new(
        upstreams: Vec<Spec>,
        own: McpServer,
        pipeline: Arc<Pipeline>,
        options: Options,
    ) -> Self {
        let upstreams: Vec<_> = upstreams.into_iter().take(UPSTREAMS_MAX).map(Arc::new).collect();
        let modern = upstreams.iter().map(|spec| {
            // Nothing of the newer era belongs to no question.
            let (sender, _) = mpsc::channel(1);
            Slot::new(Source::Upstream(Arc::clone(spec)), Opening::Modern, sender)
        });
        let modern = modern.collect();
        let eras = upstreams.iter().map(|_| OnceCell::new()).collect();
        Self(Arc::new(Inner {
            upstreams,
            modern,
            eras,
            bridges: Mutex::default(),
            parking: Parking::default(),
            retries: Retries::default(),
            own,
            own_lines: Mutex::default(),
            pipeline,
            options,
            catalogs: Catalogs::default(),
        }))
    }

    pub(crate) fn pipeline(&self) -> &Arc<Pipeline> {
        &self.0.pipeline
    }

    pub(crate) fn retries(&self) -> &Retries {
        &self.0.retries
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// The number of our own tools among upstreams: the last one.
    pub(crate) fn own(&self) -> usize {
        self.0.upstreams.len()
    }

    /// The name of an upstream.
    pub(crate) fn name_of(&self, which: usize) -> &str {
        self.0.upstreams.get(which).map_or(OWN, |spec| spec.name.as_str())
    }

    /// The number of the upstream of this name.
    pub(crate) fn number_of(&self, name: &str) -> Option<usize> {
        let known = self.0.upstreams.iter().position(|spec| spec.name == name);
        known.or_else(|| (name == OWN).then(|| self.own()))
    }

    /// What a session has lines to.
    pub(crate) fn sources(&self, caller: &Caller) -> Vec<Source> {
        let upstreams = self.0.upstreams.iter().map(|spec| Source::Upstream(Arc::clone(spec)));
        upstreams.chain([self.own_source(caller)]).collect()
    }

    fn own_source(&self, caller: &Caller) -> Source {
        Source::Own(self.0.own.for_session(), caller.clone())
    }

    /// The line to an upstream for this client.
    pub(crate) async fn line(&self, talk: &Talk, which: usize) -> Result<Line, LineError> {
        if let Some(session) = &talk.session {
            return session.line(which).await;
        }
        let binding = || talk.caller.principal().binding();
        if self.0.modern.get(which).is_some() {
            return match self.era_of(which).await? {
                Era::Modern => self.modern_line(which).await,
                _ => self.bridge(binding(), which).await,
            };
        }
        let binding = binding();
        let slot = {
            let mut lines = self.0.own_lines.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() >= OWN_LINES_MAX && !lines.contains_key(&binding) {
                // They come back when they are wanted.
                lines.clear();
            }
            let granted = talk.caller.scopes();
            let known = lines.get(&binding).filter(|(scopes, _)| scopes == granted);
            match known {
                Some((_, slot)) => Arc::clone(slot),
                None => {
                    let (sender, _) = mpsc::channel(1);
                    let source = self.own_source(&talk.caller);
                    let slot = Arc::new(Slot::new(source, Opening::Modern, sender));
                    lines.insert(binding, (granted.clone(), Arc::clone(&slot)));
                    slot
                }
            }
        };
        slot.line().await
    }

    /// The line of the newer era to an upstream.
    pub(crate) async fn modern_line(&self, which: usize) -> Result<Line, LineError> {
        match self.0.modern.get(which) {
            Some(slot) => slot.line().await,
            None => Err(LineError::Era),
        }
    }

    /// The era that an upstream speaks: the newer, if it speaks both. It is asked once.
    async fn era_of(&self, which: usize) -> Result<Era, LineError> {
        let Some(era) = self.0.eras.get(which) else { return Ok(Era::Modern) };
        let found = era.get_or_try_init(async || {
            let line = self.modern_line(which).await?;
            let ask = Ask {
                method: "server/discover".to_owned(),
                params: Some(own_params(Era::Modern, None)),
                headers: Vec::new(),
                heard: None,
                time_limit: Some(DISCOVERY_TIME),
                subscription: None,
            };
            match line.ask(ask).await {
                Ok(Answer::Result(_)) => Ok(Era::Modern),
                Err(error @ (LineError::Unreachable(_) | LineError::Busy)) => Err(error),
                // It did not understand the question.
                Ok(Answer::Error(_)) | Err(_) => {
                    if let Some(slot) = self.0.modern.get(which) {
                        slot.drop_line();
                    }
                    Ok(Era::Legacy)
                }
            }
        });
        found.await.copied()
    }

    /// The line of the older era to an upstream, for a caller of the newer one.
    async fn bridge(&self, binding: String, which: usize) -> Result<Line, LineError> {
        let Some(spec) = self.0.upstreams.get(which) else { return Err(LineError::Era) };
        let slot = {
            let mut bridges = self.0.bridges.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (binding, which);
            if bridges.len() >= OWN_LINES_MAX && !bridges.contains_key(&key) {
                // They come back when they are wanted.
                bridges.clear();
            }
            let new = || {
                let (sender, _) = mpsc::channel(1);
                let opening = Opening::Legacy { initialize: bridge::greeting() };
                Arc::new(Slot::new(Source::Upstream(Arc::clone(spec)), opening, sender))
            };
            Arc::clone(bridges.entry(key).or_insert_with(new))
        };
        slot.line().await
    }

    /// What an older client is greeted with by an upstream that speaks the newer era only.
    pub(crate) async fn welcome_by_newer(&self, which: usize, initialize: &[u8]) -> Option<Bytes> {
        let line = self.modern_line(which).await.ok()?;
        let ask = Ask {
            method: "server/discover".to_owned(),
            params: Some(own_params(Era::Modern, None)),
            headers: Vec::new(),
            heard: None,
            time_limit: Some(DISCOVERY_TIME),
            subscription: None,
        };
        let Ok(Answer::Result(raw)) = line.ask(ask).await else { return None };
        bridge::welcomed(raw.in_memory()?, initialize)
    }

    /// Asks an upstream, whatever the eras of the two are. A line that is found gone, so that nothing
    /// was asked, is opened once more.
    pub(crate) async fn asked(
        &self,
        talk: &Talk,
        which: usize,
        ask: Ask,
    ) -> Result<Answer, LineError> {
        // Until there is a line, nothing is asked.
        let unreached = |error: LineError| LineError::Unreachable(error.to_string());
        let line = self.line(talk, which).await.map_err(unreached)?;
        match self.asked_on(talk.clone(), line.clone(), ask.clone()).await {
            Err(LineError::Unreachable(_)) if line.is_closed() => {
                let line = self.line(talk, which).await.map_err(unreached)?;
                self.asked_on(talk.clone(), line, ask).await
            }
            answered => answered,
        }
    }

    async fn asked_on(&self, talk: Talk, line: Line, ask: Ask) -> Result<Answer, LineError> {
        if talk.era == line.era() {
            return relayed(talk, line, ask).await;
        }
        Box::pin(bridge::asked(talk, line, ask, &self.0.parking)).await
    }

    /// What there is, under which names.
    pub(crate) async fn catalog(&self, talk: &Talk) -> Arc<Catalog> {
        let catalogs = match &talk.session {
            Some(session) => &session.catalogs,
            None => &self.0.catalogs,
        };
        Box::pin(catalogs.current(self, talk)).await
    }

    /// Forgets what there is: it has changed.
    pub(crate) fn forget(&self, talk: &Talk) {
        match &talk.session {
            Some(session) => session.catalogs.forget(),
            None => self.0.catalogs.forget(),
        }
    }

    /// Answers a question.
    pub async fn ask(
        &self,
        talk: &Talk,
        question: Question<'_>,
        cancel: CancellationToken,
    ) -> Answer {
        if let Some(list) = List::of_method(question.method) {
            return self.list(talk, &question, list).await;
        }
        match question.method {
            "ping" if talk.era == Era::Legacy => words::result(&json!({})),
            "tools/call" => self.call(talk, question, Operation::Call, cancel).await,
            "prompts/get" => self.call(talk, question, Operation::Prompt, cancel).await,
            "resources/read" => self.call(talk, question, Operation::Read, cancel).await,
            "resources/subscribe" | "resources/unsubscribe" => {
                self.about_resource(talk, question).await
            }
            "completion/complete" => self.complete(talk, question).await,
            "server/discover" => self.discover(talk, question).await,
            "subscriptions/listen" => self.listen(talk, question).await,
            "logging/setLevel" => self.everywhere(talk, question).await,
            method if method.starts_with("tasks/") => self.task(talk, question).await,
            _ if self.own() == 1 => self.pass(talk, 0, &question, question.params_bytes()).await,
            method => {
                let message = format!("no server behind this one was asked: `{method}`");
                words::refused(METHOD_NOT_FOUND, &message, None)
            }
        }
    }

    /// Asks an upstream, and passes on what comes before the answer.
    pub(crate) async fn pass(
        &self,
        talk: &Talk,
        which: usize,
        question: &Question<'_>,
        params: Option<Bytes>,
    ) -> Answer {
        let ask = Ask {
            method: question.method.to_owned(),
            params,
            headers: question.headers.clone(),
            heard: None,
            time_limit: None,
            subscription: None,
        };
        let answered = self.asked(talk, which, ask).await;
        answered.unwrap_or_else(|error| words::unanswered(self.name_of(which), &error))
    }

    /// What an older client is greeted with.
    pub(crate) fn welcome_legacy(
        &self,
        caller: &Caller,
        opened: &[Result<Bytes, LineError>],
    ) -> Result<Bytes, Answer> {
        let own = self.own();
        let mut hellos = Vec::new();
        for (which, line) in opened.iter().enumerate() {
            match line {
                Ok(hello) => hellos.extend(self.said(caller, which, hello)),
                // With one server behind, there is nothing without it.
                Err(error) if own == 1 && which == 0 => {
                    return Err(words::unanswered(self.name_of(which), error));
                }
                Err(error) => {
                    tracing::warn!(upstream = self.name_of(which), %error, "it is left out");
                }
            }
        }
        self.merged(hellos).ok_or_else(|| {
            words::refused(words::INTERNAL_ERROR, "no server behind this one can be reached", None)
        })
    }

    /// What a server says of itself; our own, only of what it has for this caller.
    fn said(&self, caller: &Caller, which: usize, hello: &Bytes) -> Option<Map<String, Value>> {
        let mut hello: Map<String, Value> = serde_json::from_slice(hello).ok()?;
        if which != self.own() {
            return Some(hello);
        }
        let kinds: Vec<&Kind> =
            self.0.pipeline.registry().visible(caller).map(Definition::kind).collect();
        let has = |name: &str| match name {
            "tools" => kinds.iter().any(|kind| matches!(kind, Kind::Tool)),
            "prompts" => kinds.iter().any(|kind| matches!(kind, Kind::Prompt)),
            "resources" => kinds
                .iter()
                .any(|kind| matches!(kind, Kind::Resource { .. } | Kind::Template { .. })),
            _ => false,
        };
        if let Some(Value::Object(capabilities)) = hello.get_mut("capabilities") {
            capabilities.retain(|name, _| has(name));
        }
        Some(hello)
    }

    /// What servers say of themselves, as one: the first one's words, and what any of them can do.
    fn merged(&self, hellos: Vec<Map<String, Value>>) -> Option<Bytes> {
        let mut hellos = hellos.into_iter();
        let mut first = hellos.next()?;
        let rest: Vec<_> = hellos.collect();
        let is_alone = self.own() == 1;
        let mut instructions: Vec<String> = Vec::new();
        let said = |hello: &Map<String, Value>| {
            hello.get("instructions").and_then(Value::as_str).map(str::to_owned)
        };
        instructions.extend(said(&first));
        let mut lowest = first.get("protocolVersion").cloned();
        for hello in &rest {
            if let Some(more) = hello.get("capabilities") {
                let capabilities = first.entry("capabilities").or_insert_with(|| json!({}));
                unite(capabilities, more);
            }
            if let (Some(low), Some(version)) = (&lowest, hello.get("protocolVersion"))
                && version.as_str() < low.as_str()
            {
                lowest = Some(version.clone());
            }
            instructions.extend(said(hello));
        }
        if let Some(lowest) = lowest {
            first.insert("protocolVersion".to_owned(), lowest);
        }
        if !is_alone {
            let info = json!({"name": OWN, "version": env!("CARGO_PKG_VERSION")});
            if first.contains_key("serverInfo") {
                first.insert("serverInfo".to_owned(), info);
            }
        }
        if !instructions.is_empty() {
            first.insert("instructions".to_owned(), instructions.join("\n\n").into());
        }
        Some(Value::Object(first).to_string().into())
    }

    async fn discover(&self, talk: &Talk, question: Question<'_>) -> Answer {
        let asked = (0..=self.own())
            .map(|which| self.pass(talk, which, &question, question.params_bytes()));
        let answers = join_all(asked).await;
        let mut hellos = Vec::new();
        for (which, answer) in answers.into_iter().enumerate() {
            match answer {
                Answer::Result(raw) => {
                    let hello = raw.in_memory();
                    hellos.extend(hello.and_then(|hello| self.said(&talk.caller, which, hello)));
                }
                // The one server behind does not speak this era, or is not there.
                error if self.own() == 1 && which == 0 => {
                    if let Some(slot) = self.0.modern.first() {
                        slot.drop_line();
                    }
                    return error;
                }
                Answer::Error(_) => {}
            }
        }
        match self.merged(hellos) {
            Some(hello) => Answer::Result(crate::upstream::Raw::Memory(hello)),
            None => words::refused(METHOD_NOT_FOUND, "no server behind this one knows it", None),
        }
    }

    async fn about_resource(&self, talk: &Talk, question: Question<'_>) -> Answer {
        let uri = question.params.and_then(|params| text_of(params, "uri"));
        let Some(which) = self.has_resource(talk, uri.as_deref().unwrap_or_default()).await else {
            return words::refused(INVALID_PARAMS, "there is no such resource", None);
        };
        self.pass(talk, which, &question, question.params_bytes()).await
    }

    /// The upstream that has a resource, for who may use it.
    pub(crate) async fn has_resource(&self, talk: &Talk, uri: &str) -> Option<usize> {
        let registry = self.0.pipeline.registry();
        if !registry.allows_name(&talk.caller, uri) {
            return None;
        }
        let catalog = self.catalog(talk).await;
        // The only server behind may have what it does not list.
        catalog.resource(uri).or_else(|| (self.own() == 1).then_some(0))
    }

    async fn complete(&self, talk: &Talk, question: Question<'_>) -> Answer {
        let unknown = || words::refused(INVALID_PARAMS, "there is nothing to complete", None);
        let Some(params) = question.params else { return unknown() };
        let Ok(mut object) = Object::read(params) else { return unknown() };
        let reference = object.get("ref").map(str::to_owned).unwrap_or_default();
        let Ok(reference) = serde_json::from_str::<&RawValue>(&reference) else {
            return unknown();
        };
        let Ok(mut reference) = Object::read(reference) else { return unknown() };
        let uri = reference.text("uri").map(std::borrow::Cow::into_owned);
        if let Some(uri) = uri {
            let Some(which) = self.has_resource(talk, &uri).await else { return unknown() };
            return self.pass(talk, which, &question, question.params_bytes()).await;
        }
        let name = reference.text("name").map(std::borrow::Cow::into_owned).unwrap_or_default();
        let catalog = self.catalog(talk).await;
        let Some((which, own_name)) = catalog.prompt(&name) else { return unknown() };
        if own_name == name {
            return self.pass(talk, which, &question, question.params_bytes()).await;
        }
        reference.set("name", Value::from(own_name).to_string());
        let reference = reference.to_json();
        object.set("ref", reference);
        let params = Bytes::from(object.to_json());
        self.pass(talk, which, &question, Some(params)).await
    }

    /// A question for all; the first that is answered well is the answer.
    async fn everywhere(&self, talk: &Talk, question: Question<'_>) -> Answer {
        let asked = (0..=self.own())
            .map(|which| self.pass(talk, which, &question, question.params_bytes()));
        let mut answers = join_all(asked).await.into_iter();
        let first = answers.next();
        let good = |answer: &Answer| matches!(answer, Answer::Result(_));
        match first {
            Some(first) if good(&first) => first,
            first => answers.find(good).or(first).unwrap_or_else(|| words::result(&json!({}))),
        }
    }

    /// What changes, of all upstreams, as it happens.
    async fn listen(&self, talk: &Talk, question: Question<'_>) -> Answer {
        let id = Bytes::copy_from_slice(question.id.as_bytes());
        let (out, mut told) = mpsc::channel(WAITING_MAX);
        let inner = Talk { out, ..talk.clone() };
        let asked = (0..=self.own()).map(|which| {
            let ask = Ask {
                method: question.method.to_owned(),
                params: question.params_bytes(),
                headers: question.headers.clone(),
                heard: None,
                // For as long as the client wants it.
                time_limit: Some(LISTENING_TIME),
                subscription: Some(id.clone()),
            };
            let talk = inner.clone();
            async move {
                match self.line(&talk, which).await {
                    Ok(line) => relayed(talk, line, ask).await,
                    Err(error) => Err(error),
                }
            }
        });
        let mut answers = std::pin::pin!(join_all(asked));
        drop(inner);
        let mut is_acknowledged = false;
        let answers = loop {
            tokio::select! {
                biased;
                Some(told) = told.recv() => {
                    let ToClient::Notification { method, .. } = &told else { continue };
                    if method.ends_with("/list_changed") {
                        self.forget(talk);
                    }
                    // All of them acknowledge the one subscription.
                    let is_ack = method == ACKNOWLEDGED;
                    if !(is_ack && std::mem::replace(&mut is_acknowledged, true)) {
                        drop(talk.out.send(told).await);
                    }
                }
                answers = &mut answers => break answers,
            }
        };
        let found = answers.into_iter().find_map(Result::ok);
        found.unwrap_or_else(|| words::unanswered(OWN, &LineError::Lost))
    }

    async fn task(&self, talk: &Talk, question: Question<'_>) -> Answer {
        let unknown = || {
            let data = json!({"reason": "invalid"});
            words::refused(INVALID_PARAMS, "there is no such task", Some(data))
        };
        let Some(params) = question.params else { return unknown() };
        let shown = text_of(params, "taskId").unwrap_or_default();
        let hop = self.hop(&talk.caller);
        let is_alone = self.own() == 1;
        let Some(task) = hop.open_task(&shown).await else {
            // It may be one of our own; or, in a session, of the one server behind, whose tasks have
            // their own names there.
            let which = if talk.session.is_some() && is_alone { 0 } else { self.own() };
            return self.pass(talk, which, &question, question.params_bytes()).await;
        };
        let Some(which) = self.number_of(&task.upstream) else { return unknown() };
        let params = crate::hop::with_text(params.get().as_bytes(), "taskId", &task.task);
        let answer = self.pass(talk, which, &question, params).await;
        match &answer {
            Answer::Result(raw) => {
                let bytes = raw.in_memory();
                let has_id = bytes.is_some_and(|bytes| {
                    crate::catalog::member(bytes, "taskId").as_deref() == Some(&task.task)
                });
                let changed = bytes
                    .filter(|_| has_id)
                    .and_then(|bytes| crate::hop::with_text(bytes, "taskId", &shown));
                changed.map_or(answer, |json| Answer::Result(crate::upstream::Raw::Memory(json)))
            }
            Answer::Error(_) => answer,
        }
    }

    pub(crate) fn hop<'a>(&'a self, caller: &'a Caller) -> crate::hop::Hop<'a> {
        let pipeline = &self.0.pipeline;
        crate::hop::Hop { pipeline, held: pipeline.held(), caller }
    }
}

/// Asks, and passes on what comes before the answer.
pub(crate) async fn relayed(talk: Talk, line: Line, mut ask: Ask) -> Result<Answer, LineError> {
    let (sender, mut heard) = mpsc::channel(WAITING_MAX);
    ask.heard = Some(sender);
    let mut asked = std::pin::pin!(line.ask(ask));
    let answered = loop {
        tokio::select! {
            biased;
            Some(heard) = heard.recv() => pass_on(&talk, &line, heard).await,
            answered = &mut asked => break answered,
        }
    };
    while let Ok(heard) = heard.try_recv() {
        pass_on(&talk, &line, heard).await;
    }
    answered
}

async fn pass_on(talk: &Talk, line: &Line, heard: Heard) {
    let told = match (&talk.session, heard) {
        (Some(session), heard) => session.to_client(line, heard),
        (None, Heard::Notification { method, params }) => {
            Ok(ToClient::Notification { method, params })
        }
        (None, Heard::Request { id, .. }) => Err((line.clone(), id)),
    };
    match told {
        Ok(told) => {
            // The client may be gone; the call goes on if it is to.
            let _ = talk.out.send(told).await;
        }
        Err((line, id)) => {
            let error = words::error(METHOD_NOT_FOUND, "the client cannot be asked", None);
            let _ = line.answer(id, Err(error)).await;
        }
    }
}

/// A text among parameters.
pub(crate) fn text_of(params: &RawValue, member: &str) -> Option<String> {
    Object::read(params).ok()?.text(member).map(std::borrow::Cow::into_owned)
}

/// The parameters of a question that the gateway asks itself.
pub(crate) fn own_params(era: Era, cursor: Option<&str>) -> Bytes {
    let mut params = Map::new();
    if let Some(cursor) = cursor {
        params.insert("cursor".to_owned(), cursor.into());
    }
    if era == Era::Modern {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo":
                {"name": OWN, "version": env!("CARGO_PKG_VERSION")},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        params.insert("_meta".to_owned(), meta);
    }
    Value::Object(params).to_string().into()
}

/// Adds what another one can do.
fn unite(all: &mut Value, more: &Value) {
    match (all, more) {
        (Value::Object(all), Value::Object(more)) => {
            for (name, value) in more {
                match all.get_mut(name) {
                    Some(known) => unite(known, value),
                    None => drop(all.insert(name.clone(), value.clone())),
                }
            }
        }
        (all @ Value::Bool(false), Value::Bool(true)) => *all = Value::Bool(true),
        _ => {}
    }
}
