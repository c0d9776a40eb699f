//! Who hears what an upstream says.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use handback_mcp::Era;
use handback_mcp::wire::Id;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio::time::timeout;

use super::faults::{Fault, Faults};
use super::logs::{self, LOG_MESSAGE, SET_LEVEL};
use super::pending::{Calls, Pending, Route};
use super::room::Room;
use super::said::{Said, To};
use super::sanitize::Origin;
use super::{Answer, Heard, LineError, Raw, Spontaneous, frame, meta};

/// What a request of an upstream gets that nobody takes.
const REFUSED: &[u8] = br#"{"code":-32601,"message":"nobody here answers this"}"#;

/// What a request of an upstream gets when whoever should answer has too much to do.
const TOO_MUCH: &[u8] = br#"{"code":-32603,"message":"too many requests wait to be answered"}"#;

/// What a request of an upstream gets that is too large to be passed on.
const TOO_LARGE: &[u8] = br#"{"code":-32603,"message":"the request is larger than it may be"}"#;

/// How an upstream says how far it is.
const PROGRESS: &str = "notifications/progress";

/// How an upstream of the older era says how far a task is.
const TASK_STATUS: &str = "notifications/tasks/status";

/// Tasks of the older era on one line whose progress finds its way at most; of those before, it is
/// dropped. Clients look after far fewer at a time.
const TASKS_MAX: usize = 256;

/// Bytes of a result that says that a task was made, at most: it says little more.
const TASK_BYTES_MAX: usize = 16 << 10;

/// What a question gets whose progress could be taken for that of another one.
const UNCLEAR: &[u8] =
    br#"{"code":-32602,"message":"readers may differ about the progress token in `_meta`"}"#;

/// How a peer takes a request back.
const CANCELLED: &str = "notifications/cancelled";

/// Who hears what comes over one line.
#[derive(Debug)]
pub(super) struct Ears {
    pub(super) pending: Pending,
    pub(super) faults: Faults,
    spontaneous: mpsc::Sender<Spontaneous>,
    /// Room for what belongs to no question, and nobody has taken yet.
    room: Room,
    origin: Origin,
    /// Era of the line; of a program that is being asked, what it is asked in first.
    is_legacy: AtomicBool,
    /// Several callers are on the line: a request of the upstream could be for any of them.
    is_for_all: bool,
    /// Whether calls wait for each other: the upstream asks in calls, and does not say in which.
    takes_turns: AtomicBool,
    turn: Semaphore,
    /// Whether nobody can be asked but in a call.
    is_only_in_calls: AtomicBool,
    /// Tasks of the older era: their progress comes after the answer that made them.
    tasks: Mutex<VecDeque<Task>>,
}

/// A task of the older era that its client wants to hear the progress of.
#[derive(Debug)]
struct Task {
    id: String,
    /// The question that made it.
    number: u64,
    /// The JSON of the progress token that the caller chose.
    token: Bytes,
}

impl Ears {
    pub(super) fn new(name: &str, era: Era, spontaneous: mpsc::Sender<Spontaneous>) -> Self {
        let (pending, faults) = (Pending::default(), Faults::new(name));
        let (takes_turns, turn) = (AtomicBool::new(false), Semaphore::new(1));
        let is_only_in_calls = AtomicBool::new(false);
        let (is_for_all, tasks) = (false, Mutex::default());
        let is_legacy = AtomicBool::new(era == Era::Legacy);
        Self {
            pending,
            faults,
            spontaneous,
            room: Room::default(),
            origin: Origin::default(),
            is_legacy,
            is_for_all,
            takes_turns,
            turn,
            is_only_in_calls,
            tasks,
        }
    }

    /// Ears of a line that several callers share, if they do. In the newer era nothing is different:
    /// there are no requests, and everything has the id of its question.
    pub(super) fn shared(self, is_shared: bool) -> Self {
        Self { is_for_all: is_shared, ..self }
    }

    /// The program speaks this era.
    pub(super) fn settle(&self, era: Era) {
        self.is_legacy.store(era == Era::Legacy, Ordering::Relaxed);
        if era == Era::Modern {
            self.is_only_in_calls.store(false, Ordering::Relaxed);
        }
    }

    fn is_shared(&self) -> bool {
        self.is_for_all && self.era() == Era::Legacy
    }

    /// For messages that are the word of this server.
    pub(super) fn from(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    /// Nobody can be asked but in a call.
    pub(super) fn only_in_calls(&self) {
        self.is_only_in_calls.store(true, Ordering::Relaxed);
    }

    /// The name of the upstream.
    pub(super) fn name(&self) -> &str {
        self.faults.upstream()
    }

    pub(super) fn era(&self) -> Era {
        if self.is_legacy.load(Ordering::Relaxed) { Era::Legacy } else { Era::Modern }
    }

    /// Waits until a call may be made, on a line where there is one at a time.
    pub(super) async fn turn(
        &self,
        is_call: bool,
        limit: Duration,
    ) -> Result<Option<SemaphorePermit<'_>>, LineError> {
        if !is_call || !self.takes_turns.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // The rest is to make it.
        match timeout(limit / 4, self.turn.acquire()).await {
            Ok(turn) => Ok(turn.ok()),
            Err(_) => Err(LineError::Busy),
        }
    }

    /// Hands a message to whom it belongs, without waiting for anybody. Returns what is to be sent
    /// in return.
    pub(super) fn hear(&self, said: Said) -> Option<Vec<u8>> {
        match said {
            Said::Answer { to, answer } => {
                let is_wanted = match to {
                    To::Number(number) => {
                        if self.may_make_task(&answer)
                            && let Some(route) = self.pending.route(number)
                        {
                            self.remember_task(number, &route, &answer);
                        }
                        self.pending.end(number, Ok(answer))
                    }
                    To::Unknown | To::Nobody => false,
                };
                if !is_wanted {
                    self.faults.note(Fault::Unasked);
                }
                None
            }
            Said::Request { id, method, params } => {
                self.request(id, method, self.origin.params(params))
            }
            Said::Notification { method, params } => {
                self.notification(method, self.origin.params(params))
            }
        }
    }

    /// Hands over what came on the stream of one question, but for its answer. Waits until whoever
    /// asked takes it, nobody else is on that stream; but not for long: the answer is behind it. Returns
    /// what is to be sent in return.
    pub(super) async fn hear_beside(
        &self,
        number: u64,
        route: &Route,
        said: Said,
    ) -> Result<Option<Vec<u8>>, LineError> {
        let heard = match said {
            Said::Answer { .. } => {
                self.faults.note(Fault::Unasked);
                return Ok(None);
            }
            Said::Request { id, method, .. } if method == "ping" => return Ok(Some(pong(&id))),
            Said::Request { id, .. } if self.is_shared() => {
                return Ok(Some(frame::answer(&id, Err(REFUSED))));
            }
            Said::Request { id, method, params } => {
                Heard::Request { id, method, params: self.origin.params(params) }
            }
            Said::Notification { method, params } => {
                let params = self.origin.params(params);
                if self.is_taken_back(&method, params.as_ref(), number, route) {
                    return Err(LineError::Lost);
                }
                let of = params.as_ref().and_then(meta::token);
                if self.is_shared() && method == PROGRESS && of != Some(number) {
                    self.faults.note(Fault::Dropped);
                    return Ok(None);
                }
                let params = params.map(|params| as_known(&method, params, route));
                Heard::Notification { method, params }
            }
        };
        let Some(sender) = &route.heard else { return Ok(self.unheard(&heard, REFUSED)) };
        let heard = match route.room.wait(heard).await {
            Ok(heard) => heard,
            Err(heard) => {
                self.faults.note(Fault::Dropped);
                // Whoever listens believes to hear everything.
                if route.listens {
                    return Err(LineError::Lost);
                }
                return Ok(self.unheard(&heard, TOO_MUCH));
            }
        };
        match sender.send(heard).await {
            Ok(()) => Ok(None),
            Err(mpsc::error::SendError(heard)) => Ok(self.unheard(&heard, REFUSED)),
        }
    }

    /// An upstream asked something that is too large to be passed on. Returns what is sent in return.
    pub(super) fn too_large(&self, id: &Id<'_>) -> Vec<u8> {
        self.faults.note(Fault::TooLarge);
        frame::answer(id, Err(TOO_LARGE))
    }

    fn request(&self, id: Id<'static>, method: String, params: Option<Bytes>) -> Option<Vec<u8>> {
        if method == "ping" {
            return Some(pong(&id));
        }
        if self.is_shared() {
            return Some(frame::answer(&id, Err(REFUSED)));
        }
        let heard = Heard::Request { id, method, params };
        let (sender, room) = match self.pending.calls() {
            Calls::One(Route { heard: Some(sender), room, .. }) => (sender, room),
            Calls::One(Route { heard: None, .. }) => return self.unheard(&heard, REFUSED),
            Calls::Several if self.is_only_in_calls.load(Ordering::Relaxed) => {
                // Which of them it belongs to is not said. There will be one at a time.
                self.takes_turns.store(true, Ordering::Relaxed);
                return self.unheard(&heard, REFUSED);
            }
            Calls::None if self.is_only_in_calls.load(Ordering::Relaxed) => {
                return self.unheard(&heard, REFUSED);
            }
            Calls::Several | Calls::None => (self.spontaneous.clone(), self.room.clone()),
        };
        let heard = match room.put(heard) {
            Ok(heard) => heard,
            Err(heard) => return self.unheard(&heard, TOO_MUCH),
        };
        match sender.try_send(heard) {
            Ok(()) => None,
            Err(mpsc::error::TrySendError::Full(heard)) => self.unheard(&heard, TOO_MUCH),
            Err(mpsc::error::TrySendError::Closed(heard)) => self.unheard(&heard, REFUSED),
        }
    }

    fn notification(&self, method: String, params: Option<Bytes>) -> Option<Vec<u8>> {
        let number = params.as_ref().and_then(|params| match method.as_str() {
            PROGRESS => meta::token(params),
            CANCELLED if self.era() == Era::Modern => meta::member(params, "requestId"),
            _ => meta::subscription(params),
        });
        if method == TASK_STATUS {
            self.forget_task(params.as_ref());
        }
        let known = number.and_then(|number| Some((number, self.pending.route(number)?)));
        if known.is_none() && self.era() == Era::Modern && method == LOG_MESSAGE {
            self.log(method, params);
            return None;
        }
        let Some((number, route)) = known else {
            if self.is_shared() {
                return None;
            }
            // Of a question that is over, whoever asked knows neither the number nor wants to hear it,
            // unless it made a task.
            let params = if method == PROGRESS {
                let of_task = number.and_then(|number| self.of_task(number, params.as_ref()?));
                if of_task.is_none() {
                    self.faults.note(Fault::Dropped);
                    return None;
                }
                of_task
            } else {
                params
            };
            // It goes the way of what it takes back, and not past it.
            let (sender, room) = match self.pending.calls() {
                Calls::One(Route { heard: Some(sender), room, .. })
                    if method == CANCELLED && self.era() == Era::Legacy =>
                {
                    (sender, room)
                }
                _ => (self.spontaneous.clone(), self.room.clone()),
            };
            let heard = room.put(Heard::Notification { method, params });
            if !heard.is_ok_and(|heard| sender.try_send(heard).is_ok()) {
                self.faults.note(Fault::Dropped);
            }
            return None;
        };
        if self.is_taken_back(&method, params.as_ref(), number, &route) {
            self.pending.end(number, Err(LineError::Lost));
            return None;
        }
        let params = params.map(|params| as_known(&method, params, &route));
        let sender = route.heard.as_ref()?;
        let heard = route.room.put(Heard::Notification { method, params });
        if heard.is_ok_and(|heard| sender.try_send(heard).is_ok()) {
            return None;
        }
        self.faults.note(Fault::Dropped);
        // Whoever listens believes to hear everything.
        let is_over = route.listens && self.pending.end(number, Err(LineError::Lost));
        is_over.then(|| frame::cancelled(number))
    }

    /// Hands a log message that names no request to the one caller that asked for it.
    fn log(&self, method: String, params: Option<Bytes>) {
        let level = logs::level_of(params.as_deref());
        let route = level.and_then(|level| self.pending.logging(level));
        let Some(Route { heard: Some(sender), room, .. }) = route else {
            self.faults.note(Fault::Dropped);
            return;
        };
        let heard = room.put(Heard::Notification { method, params });
        if !heard.is_ok_and(|heard| sender.try_send(heard).is_ok()) {
            self.faults.note(Fault::Dropped);
        }
    }

    /// Whether an answer may be one that makes a task of the older era, which somebody may hear of.
    fn may_make_task(&self, answer: &Answer) -> bool {
        let is_heard = self.era() == Era::Legacy && !self.is_shared();
        is_heard
            && matches!(answer, Answer::Result(Raw::Memory(json)) if json.len() <= TASK_BYTES_MAX
                && memchr::memmem::find(json, b"taskId").is_some())
    }

    /// Remembers who hears the progress of the task that an answer makes, if it makes one.
    pub(super) fn remember_task(&self, number: u64, route: &Route, answer: &Answer) {
        #[derive(serde::Deserialize)]
        struct Created {
            task: CreatedTask,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct CreatedTask {
            task_id: String,
        }

        let (Some(token), true) = (&route.token, self.may_make_task(answer)) else { return };
        let Answer::Result(Raw::Memory(json)) = answer else { return };
        let Ok(Created { task }) = serde_json::from_slice(json) else { return };
        let mut tasks = self.tasks();
        if tasks.len() >= TASKS_MAX {
            tasks.pop_front();
        }
        tasks.push_back(Task { id: task.task_id, number, token: token.clone() });
    }

    /// The progress of a task, as whoever made it knows it.
    fn of_task(&self, number: u64, params: &Bytes) -> Option<Bytes> {
        let tasks = self.tasks();
        let task = tasks.iter().find(|task| task.number == number)?;
        meta::with_token(params, &task.token)
    }

    /// Forgets a task that has ended, if this says so.
    fn forget_task(&self, params: Option<&Bytes>) {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Told {
            task_id: String,
            status: String,
        }

        let told = params.and_then(|params| serde_json::from_slice(params).ok());
        let Some(Told { task_id, status }) = told else { return };
        if matches!(status.as_str(), "completed" | "failed" | "cancelled") {
            self.tasks().retain(|task| task.id != task_id);
        }
    }

    fn tasks(&self) -> MutexGuard<'_, VecDeque<Task>> {
        // Every change of it is whole.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a server of the newer era ends a subscription by this.
    fn is_taken_back(
        &self,
        method: &str,
        params: Option<&Bytes>,
        number: u64,
        route: &Route,
    ) -> bool {
        self.era() == Era::Modern
            && method == CANCELLED
            && route.listens
            && params.and_then(|params| meta::member(params, "requestId")) == Some(number)
    }

    /// What is sent in return for something that nobody took.
    fn unheard(&self, heard: &Heard, why: &[u8]) -> Option<Vec<u8>> {
        match heard {
            Heard::Request { id, .. } => Some(frame::answer(id, Err(why))),
            Heard::Notification { .. } => None,
        }
    }
}

/// Puts the number of a question into its parameters in the place of the progress token, and gives that.
/// Where it is not clear what the token is, the question is not asked: it has this answer.
pub(super) fn take_token(params: &mut Option<Bytes>, number: u64) -> Result<Option<Bytes>, Answer> {
    let Some(before) = params else { return Ok(None) };
    match meta::take_token(before, number) {
        Ok(None) => Ok(None),
        Ok(Some((changed, token))) => {
            *before = changed;
            Ok(Some(token))
        }
        Err(meta::Unclear) => Err(Answer::Error(Bytes::from_static(UNCLEAR))),
    }
}

/// Whether a question may be one that an upstream asks something in: lists and the like are not.
pub(super) fn is_call(method: &str) -> bool {
    let is_other = matches!(
        method,
        "initialize"
            | "ping"
            | "server/discover"
            | "subscriptions/listen"
            | "completion/complete"
            | SET_LEVEL
            | "resources/subscribe"
            | "resources/unsubscribe"
    );
    !is_other && !method.ends_with("/list") && !method.starts_with("tasks/")
}

/// Parameters with tokens and ids as the caller knows them.
fn as_known(method: &str, params: Bytes, route: &Route) -> Bytes {
    let changed = match (&route.token, &route.subscription) {
        (Some(token), _) if method == PROGRESS => meta::with_token(&params, token),
        (_, Some(known_by)) => meta::with_subscription(&params, known_by),
        _ => None,
    };
    changed.unwrap_or(params)
}

fn pong(id: &Id<'_>) -> Vec<u8> {
    frame::answer(id, Ok(b"{}"))
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::upstream::DEAF_AFTER;
    use crate::upstream::logs::Wanted;

    #[test]
    fn wound_b4_log_messages_without_a_request_are_for_one_caller_alone() {
        let (spontaneous, _heard) = mpsc::channel(1);
        let ears = Ears::new("peer", Era::Modern, spontaneous);
        let ask = |owner: &str, number, level: usize| {
            let (sender, heard) = mpsc::channel(4);
            let logs = Some(Wanted { owner: Some(owner.into()), level });
            let route = Route { heard: Some(sender), logs, ..Route::default() };
            let answer = ears.pending.wait(number, route).unwrap();
            (heard, answer)
        };
        let log = |level: &str| {
            let params = format!(r#"{{"level":"{level}","data":1}}"#);
            let method = LOG_MESSAGE.to_owned();
            ears.hear(Said::Notification { method, params: Some(params.into()) });
        };
        let (mut first, _waiting) = ask("alice", 1, 0);
        let (mut second, _too) = ask("alice", 2, 4);
        log("error");
        assert!(second.try_recv().is_ok() && first.try_recv().is_err(), "the latest one");
        log("info");
        assert!(
            first.try_recv().is_ok() && second.try_recv().is_err(),
            "the one that asked for it"
        );
        let (mut third, _other) = ask("bob", 3, 0);
        ears.pending.forget(1);
        ears.pending.forget(2);
        // It may come of a call that Alice gave up.
        log("error");
        assert!(third.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_takes_does_not_keep_what_is_behind_it() {
        let (spontaneous, _) = mpsc::channel(1);
        let ears = Ears::new("peer", Era::Legacy, spontaneous);
        let (sender, heard) = mpsc::channel(4);
        let mut route = Route { heard: Some(sender), ..Route::default() };
        // It takes all the room that there is.
        let large = Bytes::from(vec![b'x'; 16 << 20]);
        let notification =
            || Said::Notification { method: "m".to_owned(), params: Some(large.clone()) };
        assert_eq!(ears.hear_beside(1, &route, notification()).await, Ok(None));
        let began = Instant::now();
        for _ in 0..3 {
            assert_eq!(ears.hear_beside(1, &route, notification()).await, Ok(None));
        }
        let (id, params) = (Id::number(7), Some(Bytes::from_static(b"{}")));
        let refused = frame::answer(&id, Err(TOO_MUCH));
        let request = Said::Request { id, method: "roots/list".to_owned(), params };
        assert_eq!(ears.hear_beside(1, &route, request).await, Ok(Some(refused)));
        assert_eq!(began.elapsed().as_secs(), DEAF_AFTER.as_secs(), "all of them together");
        assert_eq!(heard.len(), 1);
        // Who listens is not kept waiting for what it will not hear.
        route.listens = true;
        let listened = ears.hear_beside(1, &route, notification()).await;
        assert_eq!(listened, Err(LineError::Lost));
    }
}
