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
use tokio::time::{Instant, sleep};

use crate::calls::says;
use crate::catalog::member;
use crate::complete::completed;
use crate::envelope::without_envelope;
use crate::listening::{LISTS, UPDATED};
use crate::relay::{Ear, relayed};
use crate::session::{CANCELLED, Session};
use crate::talk::{Talk, ToClient};
use crate::upstream::{
    Answer, Ask, DEAF_AFTER, HEARD_MAX, Heard, LEVEL_META, LOG_MESSAGE, Line, LineError, REVISION,
    Raw, SET_LEVEL, level_number,
};
use crate::words::{self, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, NOT_ASKED};

/// Rounds of one call that are run for an older client at most.
const ROUNDS_MAX: usize = 16;

/// Calls of one caller that are parked at most.
const PARKED_MAX: usize = 64;

/// Bytes of the questions of one caller that its parked calls ask, at most. That is two of the largest
/// that there are by default: most have some hundred bytes.
const PARKED_BYTES_MAX: usize = 16 << 20;

/// How long a call stays parked.
const PARKED_TIME: Duration = Duration::from_secs(300);

/// How the state of a parked call begins.
const PARKED: &str = "parked:";

/// The name of the one question that a parked call asks at a time.
const QUESTION: &str = "question";

/// What a server is told whose question has no room to wait for an answer.
const NO_ROOM: &str = "too many calls of this client wait for its answers";

/// Calls that wait for their callers.
#[derive(Debug, Default)]
pub(crate) struct Parking(Arc<Mutex<HashMap<String, Parked>>>);

/// A call that waits for an answer of its caller.
#[derive(Debug)]
struct Parked {
    owner: String,
    call: UnderWay,
    /// What the upstream knows its question by.
    asked: Id<'static>,
    /// The JSON of the question, as the caller gets it.
    question: String,
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
    /// Parks a call; gives what its caller is asked. The call itself, if its caller has too many, or is
    /// asked too much in them.
    fn park(&self, parked: Parked) -> Result<Answer, Parked> {
        let mut all = lock(&self.0);
        let of_owner = all.values().filter(|other| other.owner == parked.owner);
        let (calls, bytes) = of_owner.fold((1, parked.question.len()), |(calls, bytes), other| {
            (calls + 1, bytes + other.question.len())
        });
        if calls > PARKED_MAX || bytes > PARKED_BYTES_MAX {
            return Err(parked);
        }
        let name = format!("{:032x}", rand::rng().random::<u128>());
        let asks = parked.asks(&name);
        all.insert(name.clone(), parked);
        drop(all);
        let parking = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            sleep(PARKED_TIME).await;
            // Its caller did not come back: the upstream is told so.
            let given_up = parking.upgrade().and_then(|all| lock(&all).remove(&name));
            drop(given_up);
        });
        Ok(asks)
    }

    /// What the caller of a parked call is asked.
    fn asks(&self, name: &str, owner: &str) -> Option<Answer> {
        let all = lock(&self.0);
        all.get(name).filter(|parked| parked.owner == owner).map(|parked| parked.asks(name))
    }

    fn take(&self, name: &str, owner: &str) -> Option<Parked> {
        let mut all = lock(&self.0);
        let is_own = all.get(name).is_some_and(|parked| parked.owner == owner);
        if is_own { all.remove(name) } else { None }
    }
}

impl Parked {
    /// The question and the state to come back with, for a call that is parked under this name.
    fn asks(&self, name: &str) -> Answer {
        let question = &self.question;
        let json = format!(
            r#"{{"resultType":"input_required","inputRequests":{{"{QUESTION}":{question}}},"requestState":"{PARKED}{name}"}}"#
        );
        Answer::Result(Raw::Memory(json.into()))
    }
}

/// What is around the call of a newer client before an older server.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) parking: &'a Parking,
    /// Hears what is said beside the call, and is for those who listen: what has changed.
    pub(crate) listeners: &'a (dyn Fn(String, Option<Bytes>) + Send + Sync),
}

/// Asks, whatever the eras of the two are.
pub(crate) async fn asked(
    talk: Talk,
    (which, line): (usize, Line),
    ask: Ask,
    around: Around<'_>,
) -> Result<Answer, LineError> {
    match (talk.era, line.era()) {
        (Era::Legacy, Era::Modern) => for_older(talk, (which, line), ask).await,
        (Era::Modern, Era::Legacy) => for_newer(talk, line, ask, around).await,
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
        SET_LEVEL => return Ok(set_level(&session, text("level").as_deref())),
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
    let no_object = |message: &str| words::refused(INVALID_PARAMS, message, None);
    let given = ask.params.clone().unwrap_or_else(|| Bytes::from_static(b"{}"));
    let Some(mut params) = object(&given) else {
        return Ok(no_object("the parameters are no object"));
    };
    let of_client = session.meta(REVISION);
    let said = params.get("_meta").unwrap_or("{}").to_owned();
    let Some(mut meta) = object(said.as_bytes()) else {
        return Ok(no_object("`_meta` is no object"));
    };
    for (name, value) in &of_client {
        meta.set(name, value.to_string());
    }
    params.set("_meta", meta.to_json());
    for number in 0..ROUNDS_MAX {
        let round = Ask {
            method: ask.method.clone(),
            params: Some(params.to_json().into()),
            headers: ask.headers.clone(),
            heard: None,
            time_limit: ask.time_limit,
            subscription: None,
            owner: None,
        };
        let asked = session.gateway().relayed(talk.clone(), (which, line.clone()), round);
        let answered = asked.await;
        // That nothing happened in this round says nothing of those before.
        let answer = answered.map_err(|why| if number == 0 { why } else { begun(why) })?;
        let Some(Questions { requests, state }) = Questions::of(&answer)? else {
            return Ok(answer);
        };
        let mut answers = Object::default();
        for Request { name, method, params: about } in &requests {
            let answer = match session.ask_client(&talk.out, method, about.clone()).await {
                Some(answer) => answer.ok().and_then(|json| String::from_utf8(json.into()).ok()),
                // It is gone. What nobody was asked is no answer that a later try could be given.
                None => return Err(LineError::Lost),
            };
            let Some(answer) = answer else {
                let message = "the client did not answer what the server has to know";
                return Ok(words::tool_error(Era::Legacy, message, "unanswered"));
            };
            answers.set(name, answer);
        }
        params.set("inputResponses", answers.to_json());
        match state {
            Some(state) => params.set("requestState", state),
            None => drop(params.remove("requestState")),
        }
    }
    let message = "the server asks without end";
    Ok(words::tool_error(Era::Legacy, message, "too_many_rounds"))
}

/// The members of an object, if it is one that can be looked into.
fn object(json: &[u8]) -> Option<Object<'_>> {
    let raw: &RawValue = serde_json::from_slice(json).ok()?;
    Object::read(raw).ok()
}

/// Sets the level of log messages of a session, in the place of a server without `logging/setLevel`.
pub(crate) fn set_level(session: &Session, level: Option<&str>) -> Answer {
    match level.is_some_and(|level| session.set_level(level)) {
        true => words::result(&json!({})),
        false => words::refused(INVALID_PARAMS, "there is no such level", None),
    }
}

/// Why there is no answer to a call that has begun: that something was not said now does not mean
/// that nothing happened.
pub(crate) fn begun(why: LineError) -> LineError {
    if why.nothing_happened() { LineError::Lost } else { why }
}

/// What a result of a newer server asks its client.
struct Questions {
    requests: Vec<Request>,
    /// The JSON of the state that goes with it.
    state: Option<String>,
}

/// One of them.
struct Request {
    name: String,
    method: String,
    /// The JSON of its parameters.
    params: Option<Bytes>,
}

impl Questions {
    /// Nothing, if the result asks nothing. What it asks is not guessed at: a server that is answered
    /// something else might act on it.
    fn of(answer: &Answer) -> Result<Option<Self>, LineError> {
        let Answer::Result(Raw::Memory(json)) = answer else { return Ok(None) };
        if !says(json, b"input_required") {
            return Ok(None);
        }
        let result = object(json);
        let asks =
            |result: &Object<'_>| result.text("resultType").as_deref() == Some("input_required");
        let Some(result) = result.filter(asks) else { return Ok(None) };
        let state = result.get("requestState").map(str::to_owned);
        let requests = match result.get("inputRequests") {
            None => Vec::new(),
            Some(requests) => {
                Self::read(requests).ok_or(LineError::Protocol("what it asks cannot be read"))?
            }
        };
        Ok(Some(Self { requests, state }))
    }

    fn read(requests: &str) -> Option<Vec<Request>> {
        let requests = object(requests.as_bytes())?;
        let read = |name: &str| {
            let request = object(requests.get(name)?.as_bytes())?;
            let method = request.text("method")?.into_owned();
            let params = request.get("params").map(|json| Bytes::from(json.to_owned()));
            Some(Request { name: name.to_owned(), method, params })
        };
        requests.names().map(read).collect()
    }
}

/// A newer client before an older server.
async fn for_newer(
    talk: Talk,
    line: Line,
    mut ask: Ask,
    around: Around<'_>,
) -> Result<Answer, LineError> {
    if ask.method == "server/discover" {
        return Ok(discovered(&line));
    }
    // It was looked for before there was a line.
    if let Some(name) = comes_back(talk.era, &ask) {
        let state = TokenFingerprint::of(&name);
        tracing::info!(%state, "a parked call is gone");
        return Err(LineError::GivenUp);
    }
    let client = SaidOfClient::in_question(&ask);
    ask.params = ask.params.map(without_envelope);
    let (sender, heard) = mpsc::channel(HEARD_MAX);
    ask.heard = Some(sender);
    let own = line.clone();
    let call = UnderWay { heard, answer: tokio::spawn(async move { own.ask(ask).await }) };
    waited(talk, line, call, client, around).await
}

/// The name of the call that a newer client comes back to, if it was parked here. What a newer server
/// gave out may look like it, and is not among them.
pub(crate) fn comes_back(era: Era, ask: &Ask) -> Option<String> {
    let params = ask.params.as_deref().filter(|_| era == Era::Modern)?;
    if !says(params, PARKED.as_bytes()) {
        return None;
    }
    let state = member(params, "requestState")?;
    state.strip_prefix(PARKED).map(str::to_owned)
}

/// A call that was parked goes on, on the line that it was made on: there may be another one by now, or
/// none. Nothing, if there is no such call of this client.
pub(crate) async fn gone_on(
    talk: Talk,
    name: &str,
    ask: &Ask,
    around: Around<'_>,
) -> Option<Result<Answer, LineError>> {
    let owner = talk.caller.principal().binding();
    // Without an answer it is not used up: the client is asked the same again.
    let Some(with) = response(ask) else { return around.parking.asks(name, &owner).map(Ok) };
    let Parked { call, asked, line, .. } = around.parking.take(name, &owner)?;
    if let Err(why) = line.answer(asked, Ok(with)).await {
        return Some(Err(begun(why)));
    }
    let client = SaidOfClient::in_question(ask);
    Some(waited(talk, line, call, client, around).await.map_err(begun))
}

/// Waits for the answer of an older server, or for what it asks before.
async fn waited(
    talk: Talk,
    line: Line,
    mut call: UnderWay,
    client: SaidOfClient,
    around: Around<'_>,
) -> Result<Answer, LineError> {
    let owner = talk.caller.principal().binding();
    let mut ear = Ear::of(&talk);
    loop {
        let heard = tokio::select! {
            biased;
            answer = &mut call.answer => {
                // What came before it goes before it; but a client that is slow to take that gets its
                // answer.
                let until = Instant::now() + DEAF_AFTER;
                while let Ok(heard) = call.heard.try_recv() {
                    ear.is_deaf |= Instant::now() >= until;
                    match heard {
                        Heard::Notification { method, params } => {
                            told(&mut ear, &talk, (&client, &around), method, params).await;
                        }
                        // It did not wait for what comes of that.
                        Heard::Request { id, .. } => {
                            let error = words::error(METHOD_NOT_FOUND, NOT_ASKED, None);
                            let _ = line.answer(id, Err(error)).await;
                        }
                    }
                }
                return match answer {
                    Ok(answer) => Ok(completed(answer?).await),
                    Err(_) => Err(LineError::Lost),
                };
            }
            Some(heard) = call.heard.recv() => heard,
        };
        match heard {
            Heard::Notification { method, params } => {
                told(&mut ear, &talk, (&client, &around), method, params).await;
            }
            Heard::Request { id, method, params } => {
                if !client.can_be_asked(&method) {
                    let error = words::error(METHOD_NOT_FOUND, NOT_ASKED, None);
                    line.answer(id, Err(error)).await.map_err(begun)?;
                    continue;
                }
                let question = question(&method, params.as_deref());
                let owner = owner.clone();
                let parked = Parked { owner, call, asked: id, question, line: line.clone() };
                match around.parking.park(parked) {
                    Ok(asks) => return Ok(asks),
                    // The call has begun, and what comes of it without an answer is the server's to say.
                    Err(Parked { call: own, asked, .. }) => {
                        call = own;
                        let error = words::error(INTERNAL_ERROR, NO_ROOM, None);
                        line.answer(asked, Err(error)).await.map_err(begun)?;
                    }
                }
            }
        }
    }
}

/// What an older server says on the stream of a call, to whom it is for.
async fn told(
    ear: &mut Ear,
    talk: &Talk,
    (client, around): (&SaidOfClient, &Around<'_>),
    method: String,
    params: Option<Bytes>,
) {
    if method == CANCELLED {
        // What it takes back was answered, or the call is parked by it.
    } else if is_of_change(&method) {
        (around.listeners)(method, params);
    } else if method != LOG_MESSAGE || client.wants_logged(params.as_deref()) {
        ear.tell(talk, ToClient::Notification { method, params }).await;
    }
}

/// The JSON of a question of an older server, as a newer client is asked it.
fn question(method: &str, params: Option<&[u8]>) -> String {
    let method = Value::from(method);
    match params.and_then(|params| std::str::from_utf8(params).ok()) {
        Some(params) => format!(r#"{{"method":{method},"params":{params}}}"#),
        None => format!(r#"{{"method":{method}}}"#),
    }
}

/// Whether a server says by this that something has changed: that is for who listens to it.
fn is_of_change(method: &str) -> bool {
    method == UPDATED || LISTS.iter().any(|(_, _, told)| *told == method)
}

/// What a newer client says of itself in a question.
#[derive(Debug, Default)]
struct SaidOfClient {
    /// What it can be asked in the answer.
    can: Value,
    /// From which level on it wants to have logged what is done for it: the number of the level. Without
    /// one, nothing.
    level: Option<usize>,
}

impl SaidOfClient {
    fn in_question(ask: &Ask) -> Self {
        let said = || {
            let params = object(ask.params.as_deref()?)?;
            let meta = object(params.get("_meta")?.as_bytes())?;
            // Only these have answers that ask.
            let asks =
                matches!(ask.method.as_str(), "tools/call" | "prompts/get" | "resources/read");
            let can = meta.get("io.modelcontextprotocol/clientCapabilities").filter(|_| asks);
            let can = can.and_then(|can| serde_json::from_str(can).ok()).unwrap_or_default();
            let level = meta.text(LEVEL_META);
            let level = level.and_then(|level| level_number(&level));
            Some(Self { can, level })
        };
        said().unwrap_or_default()
    }

    fn can_be_asked(&self, method: &str) -> bool {
        let ability = match method {
            "elicitation/create" => "elicitation",
            "sampling/createMessage" => "sampling",
            "roots/list" => "roots",
            _ => return false,
        };
        self.can.get(ability).is_some()
    }

    /// Whether it wants to hear of what is logged with these parameters.
    fn wants_logged(&self, params: Option<&[u8]>) -> bool {
        let level = params.and_then(|params| level_number(&member(params, "level")?));
        self.level.zip(level).is_some_and(|(wanted, level)| level >= wanted)
    }
}

/// The answer of a client to the question of a parked call.
fn response(ask: &Ask) -> Option<Bytes> {
    let params = object(ask.params.as_deref()?)?;
    let answers = object(params.get("inputResponses")?.as_bytes())?;
    answers.get(QUESTION).map(|answer| Bytes::copy_from_slice(answer.as_bytes()))
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

#[cfg(test)]
mod tests {
    use handback_identity::UnixPeers;
    use tokio::io::{
        AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf,
        WriteHalf,
    };

    use super::*;
    use crate::retry::Delivery;
    use crate::upstream::LEVELS;

    /// An older server, which does what a test says.
    struct Server {
        heard: Lines<BufReader<ReadHalf<DuplexStream>>>,
        output: WriteHalf<DuplexStream>,
    }

    impl Server {
        /// It, and a line to it.
        fn start() -> (Self, Line) {
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            let (input, output) = tokio::io::split(theirs);
            (Self { heard: BufReader::new(input).lines(), output }, Line::bridged(ours))
        }

        async fn next(&mut self) -> Value {
            let line = self.heard.next_line().await.unwrap().unwrap();
            serde_json::from_str(&line).unwrap()
        }

        async fn say(&mut self, message: &Value) {
            self.output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        }

        /// Asks its client something.
        async fn asks(&mut self, id: &str) {
            let params = json!({"message": id});
            let (method, version) = ("elicitation/create", "2.0");
            let question =
                json!({"jsonrpc": version, "id": id, "method": method, "params": params});
            self.say(&question).await;
        }

        /// Answers a call.
        async fn ends(&mut self, call: &Value) {
            let result = json!({"content": []});
            self.say(&json!({"jsonrpc": "2.0", "id": call["id"], "result": result})).await;
        }
    }

    fn talk() -> Talk {
        let caller = UnixPeers::new("test").unwrap().caller(1);
        let (out, _) = mpsc::channel(1);
        let delivery = Delivery::default();
        Talk { caller, era: Era::Modern, out, session: None, delivery, has_headers: true }
    }

    /// A call of a client that can be asked, with more in its parameters.
    fn call(more: Value) -> Ask {
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
        let mut params = json!({"name": "act", "arguments": {}, "_meta": meta});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Ask {
            method: "tools/call".to_owned(),
            params: Some(params.to_string().into()),
            headers: Vec::new(),
            heard: None,
            time_limit: None,
            subscription: None,
            owner: None,
        }
    }

    /// The next round of a call that is parked under this state, with an answer.
    fn back(state: &str) -> Ask {
        let answers = json!({QUESTION: {"action": "accept"}});
        call(json!({"requestState": state, "inputResponses": answers}))
    }

    fn result(answered: Result<Answer, LineError>) -> Value {
        match answered {
            Ok(Answer::Result(raw)) => serde_json::from_slice(&raw.whole().unwrap()).unwrap(),
            other => panic!("a result: {other:?}"),
        }
    }

    /// What is asked in a result, and its state.
    #[track_caller]
    fn asked(result: &Value) -> (&str, &str) {
        assert_eq!(result["resultType"], "input_required", "{result}");
        let question = &result["inputRequests"][QUESTION]["params"]["message"];
        (question.as_str().unwrap(), result["requestState"].as_str().unwrap())
    }

    /// What is around a call where nobody listens.
    fn around(parking: &Parking) -> Around<'_> {
        Around { parking, listeners: &|_, _| {} }
    }

    /// A call that is parked: what its client is told, and as what the server knows it.
    async fn park(server: &mut Server, line: &Line, parking: &Parking, id: &str) -> (Value, Value) {
        let asking = async {
            let call = server.next().await;
            server.asks(id).await;
            call
        };
        let first = for_newer(talk(), line.clone(), call(json!({})), around(parking));
        let (told, of_server) = tokio::join!(first, asking);
        (result(told), of_server)
    }

    /// Comes back to a parked call.
    async fn comes_with(ask: Ask, parking: &Parking) -> Option<Result<Answer, LineError>> {
        let name = comes_back(Era::Modern, &ask).unwrap();
        gone_on(talk(), &name, &ask, around(parking)).await
    }

    #[tokio::test]
    async fn a_parked_call_goes_on_where_it_was_made() {
        let parking = Parking::default();
        let (mut server, line) = Server::start();
        let (first, of_server) = park(&mut server, &line, &parking, "one").await;
        let (question, state) = asked(&first);
        assert_eq!(question, "one");
        // Whoever has the line now, the call keeps it.
        drop(line);
        let asking = async {
            let answer = server.next().await;
            assert_eq!(
                (&answer["id"], &answer["result"]["action"]),
                (&json!("one"), &json!("accept"))
            );
            server.asks("two").await;
        };
        let (second, ()) = tokio::join!(comes_with(back(state), &parking), asking);
        let second = result(second.unwrap());
        let (question, state) = asked(&second);
        assert_eq!(question, "two");
        let ending = async {
            assert_eq!(server.next().await["id"], "two");
            server.ends(&of_server).await;
        };
        let (third, ()) = tokio::join!(comes_with(back(state), &parking), ending);
        assert_eq!(result(third.unwrap())["resultType"], "complete");
        assert!(
            comes_with(back(state), &parking).await.is_none(),
            "there is nothing to come back to"
        );
    }

    #[tokio::test]
    async fn who_comes_back_without_an_answer_is_asked_again() {
        let parking = Parking::default();
        let (mut server, line) = Server::start();
        let (first, of_server) = park(&mut server, &line, &parking, "one").await;
        let (_, state) = asked(&first);
        for answers in [Value::Null, json!([]), json!({}), json!({"other": {"action": "accept"}})] {
            let bare = call(json!({"requestState": state, "inputResponses": answers}));
            assert_eq!(result(comes_with(bare, &parking).await.unwrap()), first);
        }
        let ending = async {
            assert_eq!(
                server.next().await["result"]["action"],
                "accept",
                "it was told nothing else"
            );
            server.ends(&of_server).await;
        };
        let (told, ()) = tokio::join!(comes_with(back(state), &parking), ending);
        assert_eq!(result(told.unwrap())["resultType"], "complete");
    }

    #[test]
    fn what_is_logged_is_told_from_the_level_on_that_is_wanted() {
        let check = |wanted: Value, told: &[&str]| {
            let level = json!({"io.modelcontextprotocol/logLevel": wanted});
            let client = SaidOfClient::in_question(&call(json!({"_meta": level})));
            let is_told = |level: &&str| {
                client.wants_logged(Some(json!({"level": level}).to_string().as_bytes()))
            };
            let levels = LEVELS.iter().chain(&["loud"]).copied().filter(is_told);
            assert_eq!(levels.collect::<Vec<_>>(), told, "{wanted}");
            assert!(!client.wants_logged(None), "{wanted}");
        };
        check(json!("debug"), &LEVELS);
        check(json!("error"), &["error", "critical", "alert", "emergency"]);
        check(json!("emergency"), &["emergency"]);
        for none in [Value::Null, json!("loud"), json!(3)] {
            check(none, &[]);
        }
    }

    #[test]
    fn a_question_is_asked_as_it_is_written() {
        let asked = question("elicitation/create", Some(br#"{"b":1e2,"a":12345678901234567890}"#));
        let params = r#"{"b":1e2,"a":12345678901234567890}"#;
        assert_eq!(asked, format!(r#"{{"method":"elicitation/create","params":{params}}}"#));
        assert_eq!(question("roots/list", None), r#"{"method":"roots/list"}"#);
    }

    #[tokio::test]
    async fn of_a_parked_call_whose_server_is_gone_nobody_knows() {
        let parking = Parking::default();
        let (mut server, line) = Server::start();
        let (first, _) = park(&mut server, &line, &parking, "one").await;
        drop(server);
        line.closed().await;
        let answered = comes_with(back(asked(&first).1), &parking).await.unwrap();
        assert_eq!(answered.unwrap_err(), LineError::Lost);
    }

    #[tokio::test]
    async fn who_comes_back_to_a_call_that_is_gone_is_told_that_it_was_given_up() {
        let (_server, line) = Server::start();
        let ask = back("parked:00000000000000000000000000000000");
        let answered = for_newer(talk(), line, ask, around(&Parking::default())).await;
        assert_eq!(answered.unwrap_err(), LineError::GivenUp);
    }

    #[tokio::test]
    async fn a_question_that_has_no_room_to_wait_is_refused_and_its_call_goes_on() {
        let parking = Parking::default();
        let mut parked = Vec::new();
        for number in 0..PARKED_MAX {
            let (mut server, line) = Server::start();
            let (told, _) = park(&mut server, &line, &parking, &format!("q{number}")).await;
            asked(&told);
            parked.push((server, told));
        }
        let (mut server, line) = Server::start();
        let ending = async {
            let call = server.next().await;
            server.asks("one too many").await;
            let refused = server.next().await;
            assert_eq!(refused["id"], "one too many");
            assert_eq!(refused["error"]["code"], INTERNAL_ERROR, "{refused}");
            server.ends(&call).await;
        };
        let last = for_newer(talk(), line, call(json!({})), around(&parking));
        let (told, ()) = tokio::join!(last, ending);
        assert_eq!(result(told)["resultType"], "complete", "what the server made of it");
        // Another caller has room, and so has this one again once somebody was answered.
        let (mut server, line) = Server::start();
        let caller = UnixPeers::new("test").unwrap().caller(2);
        let others = async {
            server.next().await;
            server.asks("of another").await;
        };
        let other = for_newer(Talk { caller, ..talk() }, line, call(json!({})), around(&parking));
        let (told, ()) = tokio::join!(other, others);
        assert_eq!(asked(&result(told)).0, "of another");
        let (mut first, told) = parked.remove(0);
        let answering = async {
            first.next().await;
            first.asks("again").await;
        };
        let (told, ()) = tokio::join!(comes_with(back(asked(&told).1), &parking), answering);
        assert_eq!(asked(&result(told.unwrap())).0, "again");
    }

    #[tokio::test]
    async fn what_waits_for_one_caller_is_bounded_in_bytes() {
        let parking = Parking::default();
        let (_server, line) = Server::start();
        let parked = |owner: &str, bytes: usize| {
            let (_, heard) = mpsc::channel(1);
            let call = UnderWay { heard, answer: tokio::spawn(std::future::pending()) };
            let question = question(&"x".repeat(bytes), None);
            let (owner, asked) = (owner.to_owned(), Id::number(1));
            parking.park(Parked { owner, call, asked, question, line: line.clone() })
        };
        let half = PARKED_BYTES_MAX / 2;
        let first = result(Ok(parked("one", half).unwrap()));
        parked("one", half).unwrap_err();
        parked("one", 100).unwrap();
        // Another caller has room, and so has this one again once it has answered.
        parked("other", half).unwrap();
        let state = first["requestState"].as_str().unwrap();
        parking.take(state.strip_prefix(PARKED).unwrap(), "one").unwrap();
        parked("one", half).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_client_does_not_come_back_is_given_up() {
        let parking = Parking::default();
        let (mut server, line) = Server::start();
        let (told, call) = park(&mut server, &line, &parking, "one").await;
        let (_, state) = asked(&told);
        sleep(PARKED_TIME - Duration::from_secs(1)).await;
        let name = state.strip_prefix(PARKED).unwrap();
        assert!(lock(&parking.0).contains_key(name), "there is time left");
        sleep(Duration::from_secs(2)).await;
        let cancelled = server.next().await;
        assert_eq!(cancelled["method"], CANCELLED, "{cancelled}");
        assert_eq!(cancelled["params"]["requestId"], call["id"]);
        assert!(comes_with(back(state), &parking).await.is_none());
    }

    #[tokio::test]
    async fn a_parked_call_is_nothing_to_another_caller() {
        let parking = Parking::default();
        let (mut server, line) = Server::start();
        let (first, _) = park(&mut server, &line, &parking, "one").await;
        let ask = back(asked(&first).1);
        let name = comes_back(Era::Modern, &ask).unwrap();
        let caller = UnixPeers::new("test").unwrap().caller(2);
        let other = Talk { caller, ..talk() };
        assert!(gone_on(other, &name, &ask, around(&parking)).await.is_none());
        assert!(parking.take(&name, &talk().caller.principal().binding()).is_some());
    }
}
