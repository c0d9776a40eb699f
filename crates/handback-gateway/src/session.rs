//! Clients of the older era, who have a connection, and so has each upstream for them.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use futures_util::future::join_all;
use handback_identity::Caller;
use handback_mcp::Era;
use handback_mcp::wire::{Id, Object};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::cancellation::Cancellation;
use crate::catalog::Catalogs;
use crate::following::{Following, pause_after};
use crate::gateway::{Gateway, TOGETHER_TIME, make_room};
use crate::programs::ProgramAccount;
use crate::retry::Delivery;
use crate::slot::{OnLine, Slot};
use crate::talk::{Question, Talk, ToClient, WAITING_MAX, progress_token};
use crate::upstream::{
    Answer, Heard, LEVEL_META, Line, LineError, Opening, Raw, RequestedLevel, level_number,
};
use crate::words::{self, INTERNAL_ERROR, METHOD_NOT_FOUND, NOT_ASKED};

/// What says that a request is not wanted any more.
pub(crate) const CANCELLED: &str = "notifications/cancelled";

/// How a client says how far it is with what it was asked.
const PROGRESS: &str = "notifications/progress";

/// What concerns every upstream that a client says.
const ROOTS_CHANGED: &str = "notifications/roots/list_changed";

/// Questions of upstreams that one client has not answered yet, at most.
const ASKED_MAX: usize = 256;

/// Tasks of the older era that one client is remembered to have been given.
const TASKS_MAX: usize = 1_024;

/// The first revision with content blocks of the type `resource_link`.
const LINKS_SINCE: &str = "2025-06-18";

/// Who asks the client something.
enum Asker {
    Upstream {
        line: Line,
        id: Id<'static>,
        /// The token under which it wants to hear how far the client is.
        token: Option<Value>,
        /// The call that it was asked beside has ended: it may have been a part of it, or not.
        is_left: bool,
    },
    Gateway(oneshot::Sender<Result<Bytes, Bytes>>),
}

/// A client of the older era.
pub struct Session {
    gateway: Gateway,
    caller: Caller,
    client: Option<String>,
    /// What the client said of itself.
    greeting: Value,
    /// One for each upstream, in their order, and the last one for our own tools.
    slots: Vec<Arc<Slot>>,
    pub(crate) catalogs: Catalogs,
    /// Where what belongs to no question goes.
    out: mpsc::Sender<ToClient>,
    asked: Mutex<HashMap<u64, Asker>>,
    next: AtomicU64,
    /// What is under way, by the JSON of its id.
    under_way: Mutex<HashMap<String, Cancellation>>,
    /// Ids of tasks that this client was given, and the tools that were called.
    tasks: Mutex<VecDeque<(String, String)>>,
    /// What the client follows at servers of the newer era, by their number.
    following: Vec<OnceLock<Following>>,
    /// The level of log messages that the client has requested.
    log_level: RequestedLevel,
}

impl Session {
    /// Begins a session: every upstream is greeted with what the client says of itself.
    ///
    /// # Errors
    ///
    /// The answer that says why there is none.
    pub async fn begin(
        gateway: &Gateway,
        caller: Caller,
        initialize: &RawValue,
        out: mpsc::Sender<ToClient>,
    ) -> Result<(Arc<Self>, Answer), Answer> {
        let client = Object::read(initialize).ok().and_then(|params| {
            let info: Value = serde_json::from_str(params.get("clientInfo")?).ok()?;
            info.get("name").and_then(Value::as_str).map(str::to_owned)
        });
        let opening =
            Opening::Legacy { initialize: Bytes::copy_from_slice(initialize.get().as_bytes()) };
        let mut slots = Vec::new();
        let mut heard = Vec::new();
        let (programs, gate) = (&gateway.options().programs, gateway.pipeline().gate());
        let account = ProgramAccount::new(programs, gate, &caller);
        let log_level = RequestedLevel::default();
        for (which, source) in gateway.sources(&caller).into_iter().enumerate() {
            let (sender, receiver) = mpsc::channel(WAITING_MAX);
            let own = || {
                let slot = Slot::new(source, opening.clone(), sender);
                let slot = slot.logging_at(log_level.clone(), !gateway.is_direct());
                Arc::new(slot.on_account(account.clone()))
            };
            slots.push(gateway.shared(which).cloned().unwrap_or_else(own));
            heard.push(receiver);
        }
        let owner = &caller;
        let opened = slots.iter().enumerate().map(|(which, slot)| async move {
            // Nobody waits for one that did not greet lately: it comes late.
            if gateway.was_late_to_greet(which) {
                return (Err(LineError::TimedOut), false);
            }
            let mut opened = opened_soon(gateway, slot).await;
            if let Err(LineError::OverQuota(part)) = opened
                && make_room(gateway, owner, part).await
            {
                opened = opened_soon(gateway, slot).await;
            }
            gateway.greets(which, !matches!(opened, Err(LineError::TimedOut)));
            match opened {
                Ok(line) => (Ok(line.hello().cloned().unwrap_or_default()), false),
                Err(LineError::Era) => {
                    let greeted = gateway.welcome_by_newer(which, initialize.get().as_bytes());
                    (greeted.await.ok_or(LineError::Era), true)
                }
                Err(error) => (Err(error), false),
            }
        });
        let opened = join_all(opened).await.into_iter();
        let (opened, are_newer): (Vec<_>, Vec<_>) = opened.unzip();
        let hellos = gateway.welcome_legacy(&caller, &opened)?;
        let greeting = serde_json::from_str(initialize.get()).unwrap_or_default();
        let following = slots.iter().map(|_| OnceLock::new()).collect();
        let session = Arc::new(Self {
            gateway: gateway.clone(),
            caller,
            client,
            greeting,
            slots,
            catalogs: Catalogs::default(),
            out,
            asked: Mutex::default(),
            next: AtomicU64::new(1),
            under_way: Mutex::default(),
            tasks: Mutex::default(),
            following,
            log_level,
        });
        for (which, (opened, is_newer)) in opened.iter().zip(are_newer).enumerate() {
            if let (Ok(hello), true) = (opened, is_newer) {
                session.follow_newer(which, hello);
            }
        }
        for ((which, receiver), opened) in heard.into_iter().enumerate().zip(&opened) {
            tokio::spawn(listen(Arc::downgrade(&session), which, receiver));
            if opened.is_err() {
                tokio::spawn(comes_late(Arc::downgrade(&session), which));
            }
        }
        Ok((session, Answer::Result(Raw::Memory(hellos))))
    }

    /// Answers a question; what comes before the answer goes to `out`. Whoever hands the answer over
    /// says so to `delivery`. Once the client has cancelled the question, `cancellation` says so.
    pub async fn ask(
        self: &Arc<Self>,
        question: Question<'_>,
        out: mpsc::Sender<ToClient>,
        delivery: Delivery,
        cancellation: Cancellation,
    ) -> Answer {
        let id = question.id.to_owned();
        let cancel = cancellation.cancel.clone();
        self.register(&id, cancellation);
        let listed = Listed { session: Arc::clone(self), id };
        // A server on a line that others share would begin anew for all of them.
        if question.method == "initialize" {
            return words::begun_before();
        }
        let talk = Talk {
            caller: self.caller.clone(),
            era: Era::Legacy,
            out,
            session: Some(Arc::clone(self)),
            delivery,
            has_headers: false,
        };
        let answer = self.gateway.ask(&talk, question, cancel).await;
        drop(listed);
        answer
    }

    /// Notes that a question is under way, so that the client can cancel it.
    pub(crate) fn register(&self, id: &str, cancellation: Cancellation) {
        lock(&self.under_way).insert(id.to_owned(), cancellation);
    }

    /// The client says something that is not answered.
    pub async fn tell(&self, method: &str, params: Option<Bytes>) {
        match method {
            // Every upstream was told when it was greeted.
            "notifications/initialized" => {}
            CANCELLED => self.cancel(params.as_deref()),
            PROGRESS if self.gateway.own() > 1 => {
                // Tokens are the upstreams' own: to another one, it would be how far something else is.
                if let Some(line) = self.awaiting(params.as_deref()) {
                    // It is gone, or it is told.
                    let _ = line.tell(method, params).await;
                }
            }
            // Of several upstreams, nobody knows whom it is for.
            _ if self.gateway.own() > 1 && method != ROOTS_CHANGED => {}
            _ => {
                let told = self.slots.iter().enumerate().map(async |(which, slot)| {
                    if self.gateway.shared(which).is_some() {
                        // It would be told for all callers.
                        return;
                    }
                    if let Ok(line) = opened_soon(&self.gateway, slot).await {
                        // It is gone, or it is told.
                        let _ = line.tell(method, params.clone()).await;
                    }
                });
                join_all(told).await;
            }
        }
    }

    /// The line on which the client was asked something that it now says how far it is with; nothing,
    /// if there is none, or more than one.
    fn awaiting(&self, params: Option<&[u8]>) -> Option<Line> {
        let raw: &RawValue = serde_json::from_slice(params?).ok()?;
        let params = Object::read(raw).ok()?;
        let wanted: Value = serde_json::from_str(params.get("progressToken")?).ok()?;
        let asked = lock(&self.asked);
        let mut lines = asked.values().filter_map(|asker| match asker {
            Asker::Upstream { line, token, .. } if token.as_ref() == Some(&wanted) => Some(line),
            _ => None,
        });
        let line = lines.next()?;
        lines.all(|other| other.is(line)).then(|| line.clone())
    }

    /// The client answers a question of an upstream.
    pub async fn answer(&self, id: u64, with: Result<Bytes, Bytes>) {
        let asked = lock(&self.asked).remove(&id);
        match asked {
            // It is gone, or it is told.
            Some(Asker::Upstream { line, id, .. }) => drop(line.answer(id, with).await),
            Some(Asker::Gateway(sender)) => drop(sender.send(with)),
            None => {}
        }
    }

    /// An upstream takes back what it asked: by the number that the client knows it under. What was
    /// not asked of this client is not taken back from it.
    fn taken_back(&self, line: &Line, params: Option<&[u8]>) -> Option<Bytes> {
        let wanted = request_id(params)?;
        let mut asked = lock(&self.asked);
        let is_it = |asker: &Asker| match asker {
            Asker::Upstream { line: by, id, .. } => by.is(line) && id.as_json() == wanted,
            Asker::Gateway(_) => false,
        };
        let number = asked.iter().find(|(_, asker)| is_it(asker)).map(|(number, _)| *number)?;
        asked.remove(&number);
        let raw: &RawValue = serde_json::from_slice(params?).ok()?;
        let mut params = Object::read(raw).ok()?;
        params.set("requestId", number.to_string());
        Some(params.to_json().into())
    }

    /// Whether something is under way.
    pub(crate) fn is_busy(&self) -> bool {
        !lock(&self.under_way).is_empty()
    }

    /// The client has left: it wants no answer any more.
    pub(crate) fn cancel_all(&self) {
        lock(&self.under_way).values().for_each(Cancellation::end);
    }

    /// The client does not want an answer any more.
    pub(crate) fn cancel(&self, params: Option<&[u8]>) {
        let id = request_id(params);
        let cancellation = id.and_then(|id| lock(&self.under_way).get(&id).cloned());
        if let Some(cancellation) = cancellation {
            cancellation.cancelled();
        }
    }

    /// The client cancelled the question that a server asks it something in: the server is told that
    /// nobody can be asked.
    pub(crate) async fn refuse(&self, told: &ToClient) {
        if let ToClient::Request { id, .. } = told {
            self.answer(*id, Err(words::error(METHOD_NOT_FOUND, NOT_ASKED, None))).await;
        }
    }

    pub(crate) async fn line(&self, which: usize) -> Result<Line, LineError> {
        match self.slots.get(which) {
            Some(slot) => match opened(slot).await {
                Err(LineError::Era) => self.gateway.modern_line(which).await,
                line => line,
            },
            None => Err(LineError::Unreachable("there is none".to_owned())),
        }
    }

    /// The cause of the last start of an upstream for this session, if it failed.
    pub(crate) fn cause(&self, which: usize) -> Option<LineError> {
        self.slots.get(which)?.cause()
    }

    /// The line of this number, which may be heard from a moment before it is in its place. Nothing, if
    /// it is gone.
    async fn line_of(&self, which: usize, number: u64) -> Option<Line> {
        self.slots.get(which)?.numbered(number).await
    }

    /// What a question of the newer era says of the client.
    pub(crate) fn meta(&self, revision: &str) -> Map<String, Value> {
        let said = |name: &str| self.greeting.get(name).cloned().unwrap_or_else(|| json!({}));
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": said("clientInfo"),
            "io.modelcontextprotocol/clientCapabilities": said("capabilities"),
        });
        let mut meta = match meta {
            Value::Object(meta) => meta,
            _ => Map::new(),
        };
        if let Some(level) = self.log_level.name() {
            meta.insert(LEVEL_META.to_owned(), level.into());
        }
        meta
    }

    /// Sets the least level of log messages from now on. False if there is no such level.
    pub(crate) fn set_level(&self, level: &str) -> bool {
        level_number(level).inspect(|level| self.log_level.set(*level)).is_some()
    }

    /// Follows a resource of a server of the newer era, or does not any more.
    pub(crate) async fn follow(&self, which: usize, uri: String, is_wanted: bool) -> Answer {
        match self.following.get(which).and_then(OnceLock::get) {
            Some(following) => following.follow(uri, is_wanted).await,
            None => words::refused(METHOD_NOT_FOUND, "this server tells of no resources", None),
        }
    }

    /// Hears of what changes at a server of the newer era, which says this of itself.
    fn follow_newer(self: &Arc<Self>, which: usize, hello: &[u8]) {
        let following = Following::begin(self, which, hello);
        if let (Some(place), Some(following)) = (self.following.get(which), following) {
            // There is one already, if it is there.
            drop(place.set(following));
        }
    }

    pub(crate) const fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Where what belongs to no question goes.
    pub(crate) const fn out(&self) -> &mpsc::Sender<ToClient> {
        &self.out
    }

    /// Asks the client something; nothing, if it cannot be asked.
    pub(crate) async fn ask_client(
        self: &Arc<Self>,
        out: &mpsc::Sender<ToClient>,
        method: &str,
        params: Option<Bytes>,
    ) -> Option<Result<Bytes, Bytes>> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut asked = lock(&self.asked);
            if asked.len() >= ASKED_MAX && !forget_left(&mut asked) {
                return None;
            }
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            asked.insert(id, Asker::Gateway(sender));
            id
        };
        let mut beside = self.beside_question();
        beside.numbers.push(id);
        out.send(ToClient::Request { id, method: method.to_owned(), params }).await.ok()?;
        answer.await.ok()
    }

    /// What upstreams ask the client beside one question.
    pub(crate) fn beside_question(self: &Arc<Self>) -> Beside {
        Beside { session: Arc::clone(self), numbers: Vec::new() }
    }

    /// Remembers the task that a result of a tool of the older era is, if it is one.
    pub(crate) fn remember_task(&self, tool: &str, result: &[u8]) {
        #[derive(serde::Deserialize)]
        struct Created {
            task: Task,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Task {
            task_id: String,
        }

        let Ok(Created { task }) = serde_json::from_slice(result) else { return };
        let mut tasks = lock(&self.tasks);
        if tasks.len() >= TASKS_MAX {
            tasks.pop_front();
        }
        tasks.push_back((task.task_id, tool.to_owned()));
    }

    /// Whether this client was given a task of this id.
    pub(crate) fn was_given_task(&self, id: &str) -> bool {
        lock(&self.tasks).iter().any(|(known, _)| known == id)
    }

    /// The tool that was called, as it is shown, when this client was given a task of this id last.
    pub(crate) fn tool_of_task(&self, id: &str) -> Option<String> {
        let tasks = lock(&self.tasks);
        tasks.iter().rev().find(|(known, _)| known == id).map(|(_, tool)| tool.clone())
    }

    /// True if the revision of the client has blocks of the type `resource_link`.
    pub(crate) fn knows_links(&self) -> bool {
        let revision = self.greeting.get("protocolVersion").and_then(Value::as_str);
        revision.is_some_and(|revision| revision >= LINKS_SINCE)
    }

    /// The name that the client gives itself.
    pub(crate) fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// What an upstream says, on its way to the client; nothing, if it is not for this client.
    pub(crate) fn to_client(
        &self,
        line: &Line,
        heard: Heard,
    ) -> Result<Option<ToClient>, (Line, Id<'static>)> {
        match heard {
            Heard::Notification { method, params } if method == CANCELLED => {
                let params = self.taken_back(line, params.as_deref());
                Ok(params.map(|params| ToClient::Notification { method, params: Some(params) }))
            }
            Heard::Notification { method, params } => {
                Ok(Some(ToClient::Notification { method, params }))
            }
            Heard::Request { id, method, params } => {
                let mut asked = lock(&self.asked);
                if asked.len() >= ASKED_MAX && !forget_left(&mut asked) {
                    return Err((line.clone(), id));
                }
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                let token = params.as_deref().and_then(progress_token);
                let asker = Asker::Upstream { line: line.clone(), id, token, is_left: false };
                asked.insert(number, asker);
                Ok(Some(ToClient::Request { id: number, method, params }))
            }
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

/// Forgets the oldest question whose call has ended; says whether there was one.
fn forget_left(asked: &mut HashMap<u64, Asker>) -> bool {
    let is_left = |asker: &Asker| matches!(asker, Asker::Upstream { is_left: true, .. });
    let left = asked.iter().filter(|(_, asker)| is_left(asker)).map(|(number, _)| *number).min();
    left.is_some_and(|number| asked.remove(&number).is_some())
}

/// What the client was asked beside a question of its own. With the end of that one, nobody may wait for
/// the answers any more: they make room for others.
pub(crate) struct Beside {
    session: Arc<Session>,
    numbers: Vec<u64>,
}

impl Beside {
    /// Something was asked under this number.
    pub(crate) fn told(&mut self, told: &ToClient) {
        if let ToClient::Request { id, .. } = told {
            self.numbers.push(*id);
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.numbers.is_empty() {
            let mut asked = lock(&self.session.asked);
            for number in &self.numbers {
                match asked.get_mut(number) {
                    Some(Asker::Upstream { is_left, .. }) => *is_left = true,
                    Some(Asker::Gateway(_)) => drop(asked.remove(number)),
                    None => {}
                }
            }
        }
    }
}

/// A question among those that are under way, for as long as it is.
struct Listed {
    session: Arc<Session>,
    id: String,
}

impl Drop for Listed {
    fn drop(&mut self) {
        lock(&self.session.under_way).remove(&self.id);
    }
}

/// A line that comes about soon. With several upstreams, one that takes longer is not waited for; it
/// goes on to come about.
async fn opened_soon(gateway: &Gateway, slot: &Arc<Slot>) -> Result<Line, LineError> {
    if gateway.own() <= 1 {
        // A program for this client alone ends with it. Others may wait for one that is shared.
        return if slot.is_shared() { opened(slot).await } else { slot.line().await };
    }
    let late = |_| Err(LineError::TimedOut);
    tokio::time::timeout(TOGETHER_TIME, opened(slot)).await.unwrap_or_else(late)
}

/// A line. One that is not there yet comes about although who waits for it may leave.
async fn opened(slot: &Arc<Slot>) -> Result<Line, LineError> {
    if let Some(line) = slot.open_line() {
        return Ok(line);
    }
    let Some(place) = slot.place() else { return Err(LineError::Busy) };
    let slot = Arc::clone(slot);
    let opening = tokio::spawn(async move {
        let line = slot.line().await;
        drop(place);
        line
    });
    opening.await.unwrap_or(Err(LineError::Lost))
}

/// Tells the client what an upstream has that was not there when the session began, once it is there. It
/// is tried for as long as there is a session.
async fn comes_late(waiting: std::sync::Weak<Session>, which: usize) {
    let mut times = 0;
    let session = loop {
        let slot = waiting.upgrade().and_then(|session| session.slots.get(which).cloned());
        let Some(slot) = slot else { return };
        let line = {
            let mut opening = std::pin::pin!(slot.line());
            let soon = tokio::time::timeout(TOGETHER_TIME, &mut opening).await;
            if let Some(session) = waiting.upgrade() {
                session.gateway.greets(which, soon.is_ok());
            }
            match soon {
                Ok(line) => line,
                Err(_) => opening.await,
            }
        };
        drop(slot);
        let Some(session) = waiting.upgrade() else { return };
        if line.is_ok() {
            break session;
        }
        if matches!(line, Err(LineError::Era)) {
            let greeting = session.greeting.to_string();
            let hello = session.gateway.welcome_by_newer(which, greeting.as_bytes()).await;
            if let Some(hello) = hello {
                session.follow_newer(which, &hello);
                break session;
            }
        }
        // It may end meanwhile.
        drop(session);
        tokio::time::sleep(pause_after(times)).await;
        times = times.saturating_add(1);
    };
    // The client asks again once it is told, and is not to get what was known before.
    session.catalogs.late.forget(which);
    session.gateway.common_catalogs().late.forget(which);
    session.catalogs.forget();
    let out = session.out.clone();
    drop(session);
    for list in ["tools", "prompts", "resources"] {
        let method = format!("notifications/{list}/list_changed");
        // The client may be gone.
        let _ = out.send(ToClient::Notification { method, params: None }).await;
    }
}

/// Passes on what belongs to no question, for as long as there is a session.
async fn listen(
    session: std::sync::Weak<Session>,
    which: usize,
    mut heard: mpsc::Receiver<OnLine>,
) {
    while let Some((number, heard)) = heard.recv().await {
        let Some(session) = session.upgrade() else { return };
        if let Heard::Notification { method, .. } = &heard
            && method.ends_with("/list_changed")
        {
            session.catalogs.forget();
        }
        let told = match heard {
            Heard::Notification { method, params } if method != CANCELLED => {
                Ok(Some(ToClient::Notification { method, params }))
            }
            heard => match session.line_of(which, number).await {
                Some(line) => session.to_client(&line, heard),
                None => continue,
            },
        };
        let out = session.out.clone();
        drop(session);
        match told {
            Ok(None) => {}
            Ok(Some(told)) => {
                if out.send(told).await.is_err() {
                    return;
                }
            }
            Err((line, id)) => {
                let busy = words::error(INTERNAL_ERROR, "too many questions", Some(json!({})));
                let _ = line.answer(id, Err(busy)).await;
            }
        }
    }
}

/// The JSON of the id of the request that a notification is about.
pub(crate) fn request_id(params: Option<&[u8]>) -> Option<String> {
    let raw: &RawValue = serde_json::from_slice(params?).ok()?;
    Object::read(raw).ok()?.get("requestId").map(str::to_owned)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
