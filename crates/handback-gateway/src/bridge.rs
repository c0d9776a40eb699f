//! Clients of one era before servers of the other.
//!
//! | client | server behind | |
//! |---|---|---|
//! | older | newer | the gateway runs the rounds: what the server needs to know, the client is asked; what the client follows is listened to (`following`), and how much it wants to have logged is said in each question |
//! | newer | older | a question inside of a call parks it, and becomes `input_required`; with the answer, the call goes on |
//!
//! A parked call lives in this process, on the connection that it was made on. It is given up after a
//! while, and who comes back to one that is gone is told that nobody knows what became of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use handback_mcp::Era;
use handback_mcp::wire::{Id, Object};
use handback_token::TokenFingerprint;
use rand::RngExt as _;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::catalog::member;
use crate::gateway::REVISION;
use crate::relay::{Ear, relayed};
use crate::session::{CANCELLED, Session};
use crate::talk::{Talk, ToClient, WAITING_MAX};
use crate::upstream::{Answer, Ask, Heard, Line, LineError, Raw};
use crate::words::{self, INVALID_PARAMS, METHOD_NOT_FOUND};

/// How much can be logged.
const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Rounds of one call that are run for an older client at most.
const ROUNDS_MAX: usize = 16;

/// Calls of one caller that are parked at most.
const PARKED_MAX: usize = 64;

/// How long a call stays parked.
const PARKED_TIME: Duration = Duration::from_secs(300);

/// How the state of a parked call begins.
const PARKED: &str = "parked:";

/// The name of the one question that a parked call asks at a time.
const QUESTION: &str = "question";

/// Calls that wait for their callers.
#[derive(Debug, Default)]
pub(crate) struct Parking(Arc<Mutex<HashMap<String, Parked>>>);

/// A call that waits for an answer of its caller.
#[derive(Debug)]
struct Parked {
    owner: String,
    call: UnderWay,
    /// What the upstream asked.
    asked: Id<'static>,
    line: Line,
}

/// A call at an upstream of the older era.
#[derive(Debug)]
struct UnderWay {
    heard: mpsc::Receiver<Heard>,
    answer: JoinHandle<Result<Answer, LineError>>,
}

/// Nobody waits for it any more: the upstream is told so.
impl Drop for UnderWay {
    fn drop(&mut self) {
        self.answer.abort();
    }
}

impl Parking {
    /// Parks a call; gives its state. Nothing, if the caller has too many.
    fn park(&self, parked: Parked) -> Option<String> {
        let mut all = lock(&self.0);
        let of_owner = all.values().filter(|other| other.owner == parked.owner).count();
        if of_owner >= PARKED_MAX {
            return None;
        }
        let name = format!("{:032x}", rand::rng().random::<u128>());
        let state = format!("{PARKED}{name}");
        all.insert(name.clone(), parked);
        drop(all);
        let parking = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            sleep(PARKED_TIME).await;
            // Its caller did not come back: the upstream is told so.
            let given_up = parking.upgrade().and_then(|all| lock(&all).remove(&name));
            drop(given_up);
        });
        Some(state)
    }

    fn take(&self, name: &str, owner: &str) -> Option<Parked> {
        let mut all = lock(&self.0);
        let is_own = all.get(name).is_some_and(|parked| parked.owner == owner);
        if is_own { all.remove(name) } else { None }
    }
}

/// Asks, whatever the eras of the two are.
pub(crate) async fn asked(
    talk: Talk,
    (which, line): (usize, Line),
    ask: Ask,
    parking: &Parking,
) -> Result<Answer, LineError> {
    match (talk.era, line.era()) {
        (Era::Legacy, Era::Modern) => for_older(talk, (which, line), ask).await,
        (Era::Modern, Era::Legacy) => for_newer(talk, line, ask, parking).await,
        _ => relayed(talk, line, ask).await,
    }
}

/// An older client before a newer server.
async fn for_older(
    talk: Talk,
    (which, line): (usize, Line),
    ask: Ask,
) -> Result<Answer, LineError> {
    let Some(session) = talk.session.clone() else { return Err(LineError::Era) };
    let text = |name: &str| ask.params.as_deref().and_then(|params| member(params, name));
    match ask.method.as_str() {
        // Newer servers have none: each question says it.
        "logging/setLevel" => return Ok(set_level(&session, text("level"))),
        // Nor have they these: what is followed is listened to.
        "resources/subscribe" | "resources/unsubscribe" => {
            let is_wanted = ask.method == "resources/subscribe";
            let Some(uri) = text("uri") else {
                return Ok(words::refused(INVALID_PARAMS, "there is no uri", None));
            };
            return Ok(session.follow(which, uri, is_wanted).await);
        }
        _ => {}
    }
    let mut params: Map<String, Value> = match &ask.params {
        None => Map::new(),
        Some(params) => {
            serde_json::from_slice(params).map_err(|_| LineError::Protocol("no object"))?
        }
    };
    let meta = params.entry("_meta").or_insert_with(|| json!({}));
    if let Some(meta) = meta.as_object_mut() {
        meta.extend(session.meta(REVISION));
    }
    for number in 0..ROUNDS_MAX {
        let round = Ask {
            method: ask.method.clone(),
            params: Some(Value::Object(params.clone()).to_string().into()),
            headers: ask.headers.clone(),
            heard: None,
            time_limit: ask.time_limit,
            subscription: None,
        };
        let asked = session.gateway().relayed(talk.clone(), (which, line.clone()), round);
        let answered = asked.await;
        // That nothing happened in this round says nothing of those before.
        let answer = answered.map_err(|why| if number == 0 { why } else { begun(why) })?;
        let Some((requests, state)) = questions(&answer) else { return Ok(answer) };
        let mut answers = Map::new();
        for (name, request) in requests {
            let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
            let asked = request.get("params").map(|params| Bytes::from(params.to_string()));
            match session.ask_client(&talk.out, method, asked).await {
                Some(Ok(answer)) => {
                    let answer = serde_json::from_slice(&answer).unwrap_or_default();
                    answers.insert(name, answer);
                }
                Some(Err(_)) => {
                    let message = "the client did not answer what the server has to know";
                    return Ok(words::tool_error(Era::Legacy, message, "unanswered"));
                }
                // It is gone. What nobody was asked is no answer that a later try could be given.
                None => return Err(LineError::Lost),
            }
        }
        params.insert("inputResponses".to_owned(), answers.into());
        match state {
            Some(state) => drop(params.insert("requestState".to_owned(), state)),
            None => drop(params.remove("requestState")),
        }
    }
    let message = "the server asks without end";
    Ok(words::tool_error(Era::Legacy, message, "too_many_rounds"))
}

/// Remembers how much a client wants to have logged.
fn set_level(session: &Session, level: Option<String>) -> Answer {
    match level.filter(|level| LEVELS.contains(&level.as_str())) {
        Some(level) => {
            session.set_level(level);
            words::result(&json!({}))
        }
        None => words::refused(INVALID_PARAMS, "there is no such level", None),
    }
}

/// Why there is no answer to a call that has begun: that something was not said now does not mean
/// that nothing happened.
fn begun(why: LineError) -> LineError {
    if why.nothing_happened() { LineError::Lost } else { why }
}

/// What a result asks, and the state that goes with it.
fn questions(answer: &Answer) -> Option<(Map<String, Value>, Option<Value>)> {
    let Answer::Result(Raw::Memory(json)) = answer else { return None };
    memchr::memmem::find(json, b"input_required")?;
    let mut result: Map<String, Value> = serde_json::from_slice(json).ok()?;
    if result.get("resultType").and_then(Value::as_str) != Some("input_required") {
        return None;
    }
    let requests = match result.remove("inputRequests") {
        Some(Value::Object(requests)) => requests,
        _ => Map::new(),
    };
    Some((requests, result.remove("requestState")))
}

/// A newer client before an older server.
async fn for_newer(
    talk: Talk,
    line: Line,
    mut ask: Ask,
    parking: &Parking,
) -> Result<Answer, LineError> {
    if ask.method == "server/discover" {
        return Ok(discovered(&line));
    }
    let owner = talk.caller.principal().binding();
    let params = ask.params.clone().unwrap_or_default();
    // Only these have answers that ask.
    let can = match ask.method.as_str() {
        "tools/call" | "prompts/get" | "resources/read" => abilities(&params),
        _ => Value::Null,
    };
    let state = member(&params, "requestState");
    let parked = state.as_deref().and_then(|state| state.strip_prefix(PARKED));
    let call = match parked {
        None => {
            let (sender, heard) = mpsc::channel(WAITING_MAX);
            ask.heard = Some(sender);
            let own = line.clone();
            UnderWay { heard, answer: tokio::spawn(async move { own.ask(ask).await }) }
        }
        Some(name) => {
            let Some(parked) = parking.take(name, &owner) else {
                let state = TokenFingerprint::of(name);
                tracing::info!(%state, "a parked call is gone");
                let message = "the call was given up while it waited for an answer: whether it had \
                               its effect is not known";
                return Ok(words::tool_error(Era::Modern, message, "ambiguous"));
            };
            let Parked { call, asked, line, .. } = parked;
            let with = response(&params).ok_or_else(|| {
                words::error(INVALID_PARAMS, "there is no answer to what was asked", None)
            });
            line.answer(asked, with).await.map_err(begun)?;
            call
        }
    };
    waited(talk, line, call, (can, owner), parking).await
}

/// Waits for the answer of an older server, or for what it asks before.
async fn waited(
    talk: Talk,
    line: Line,
    mut call: UnderWay,
    (can, owner): (Value, String),
    parking: &Parking,
) -> Result<Answer, LineError> {
    let mut ear = Ear::of(&talk);
    loop {
        let heard = tokio::select! {
            biased;
            Some(heard) = call.heard.recv() => heard,
            answer = &mut call.answer => {
                return match answer {
                    Ok(answer) => answer.map(completed),
                    Err(_) => Err(LineError::Lost),
                };
            }
        };
        match heard {
            // What it takes back was answered, or the call is parked by it.
            Heard::Notification { method, .. } if method == CANCELLED => {}
            Heard::Notification { method, params } => {
                ear.tell(&talk, ToClient::Notification { method, params }).await;
            }
            Heard::Request { id, method, params } => {
                let ability = match method.as_str() {
                    "elicitation/create" => "elicitation",
                    "sampling/createMessage" => "sampling",
                    "roots/list" => "roots",
                    _ => "",
                };
                if can.get(ability).is_none() {
                    let error = words::error(METHOD_NOT_FOUND, "the client cannot be asked", None);
                    line.answer(id, Err(error)).await.map_err(begun)?;
                    continue;
                }
                let params: Option<Value> =
                    params.and_then(|params| serde_json::from_slice(&params).ok());
                let parked = Parked { owner, call, asked: id, line: line.clone() };
                let Some(state) = parking.park(parked) else {
                    // The call has begun, and goes no further.
                    let message = "too many calls wait for answers: whether this one had its effect \
                                   is not known";
                    return Ok(words::tool_error(Era::Modern, message, "ambiguous"));
                };
                let mut request = json!({"method": method});
                if let (Some(params), Some(request)) = (params, request.as_object_mut()) {
                    request.insert("params".to_owned(), params);
                }
                return Ok(words::result(&json!({
                    "resultType": "input_required",
                    "inputRequests": {QUESTION: request},
                    "requestState": state,
                })));
            }
        }
    }
}

/// What a client can be asked.
fn abilities(params: &[u8]) -> Value {
    let params: Value = serde_json::from_slice(params).unwrap_or_default();
    let meta =
        params.get("_meta").and_then(|meta| meta.get("io.modelcontextprotocol/clientCapabilities"));
    meta.cloned().unwrap_or_default()
}

/// The answer of a client to the question of a parked call.
fn response(params: &[u8]) -> Option<Bytes> {
    let raw: &RawValue = serde_json::from_slice(params).ok()?;
    let params = Object::read(raw).ok()?;
    let answers: &RawValue = serde_json::from_str(params.get("inputResponses")?).ok()?;
    let answers = Object::read(answers).ok()?;
    answers.get(QUESTION).map(|answer| Bytes::copy_from_slice(answer.as_bytes()))
}

/// A result of an older server, as newer clients know it.
fn completed(answer: Answer) -> Answer {
    let Answer::Result(Raw::Memory(json)) = &answer else { return answer };
    let whole = || {
        let raw: &RawValue = serde_json::from_slice(json).ok()?;
        let mut result = Object::read(raw).ok()?;
        if result.get("resultType").is_none() {
            result.set("resultType", "\"complete\"".to_owned());
        }
        let is_kept = ["tools", "prompts", "resources", "resourceTemplates", "contents"]
            .iter()
            .any(|member| result.get(member).is_some());
        if is_kept && result.get("ttlMs").is_none() {
            result.set("ttlMs", "0".to_owned());
            result.set("cacheScope", "\"private\"".to_owned());
        }
        Some(Answer::Result(Raw::Memory(result.to_json().into())))
    };
    whole().unwrap_or(answer)
}

/// What an older server said of itself, as newer clients ask for it.
fn discovered(line: &Line) -> Answer {
    let hello = line.hello().and_then(|hello| serde_json::from_slice(hello).ok());
    let mut hello: Map<String, Value> = hello.unwrap_or_default();
    hello.remove("protocolVersion");
    let more = json!({
        "resultType": "complete",
        "supportedVersions": [REVISION],
        "ttlMs": 0,
        "cacheScope": "private",
    });
    if let Value::Object(more) = more {
        hello.extend(more);
    }
    words::result(&Value::Object(hello))
}

/// What an older server is greeted with for a newer client. What the client cannot be asked is
/// refused when it is asked.
pub(crate) fn greeting() -> Bytes {
    json!({
        "protocolVersion": "2025-11-25",
        "clientInfo": {"name": "handback", "version": env!("CARGO_PKG_VERSION")},
        "capabilities": {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}},
    })
    .to_string()
    .into()
}

/// What an older server is greeted with on a line that all callers share: it cannot ask any of them.
pub(crate) fn shared_greeting() -> Bytes {
    json!({
        "protocolVersion": "2025-11-25",
        "clientInfo": {"name": "handback", "version": env!("CARGO_PKG_VERSION")},
        "capabilities": {},
    })
    .to_string()
    .into()
}

/// What an older client is greeted with by a newer server, which said this.
pub(crate) fn welcomed(discovered: &[u8], initialize: &[u8]) -> Option<Bytes> {
    let mut hello: Map<String, Value> = serde_json::from_slice(discovered).ok()?;
    for member in ["resultType", "supportedVersions", "ttlMs", "cacheScope"] {
        hello.remove(member);
    }
    let asked: Value = serde_json::from_slice(initialize).ok()?;
    let version = asked.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let version = if version < REVISION { version } else { "2025-11-25" };
    hello.insert("protocolVersion".to_owned(), version.into());
    hello.entry("serverInfo").or_insert_with(|| json!({"name": "server", "version": "0"}));
    Some(Value::Object(hello).to_string().into())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
