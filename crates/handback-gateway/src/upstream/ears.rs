//! Who hears what an upstream says.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use handback_mcp::Era;
use handback_mcp::wire::Id;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio::time::timeout;

use super::faults::{Fault, Faults};
use super::pending::{Calls, Pending, Route};
use super::said::{Said, To};
use super::{Heard, LineError, Spontaneous, frame, meta};

/// What a request of an upstream gets that nobody takes.
const REFUSED: &[u8] = br#"{"code":-32601,"message":"nobody here answers this"}"#;

/// What a request of an upstream gets when whoever should answer has too much to do.
const TOO_MUCH: &[u8] = br#"{"code":-32603,"message":"too many requests wait to be answered"}"#;

/// How an upstream says how far it is.
const PROGRESS: &str = "notifications/progress";

/// How a peer takes a request back.
const CANCELLED: &str = "notifications/cancelled";

/// Who hears what comes over one line.
#[derive(Debug)]
pub(super) struct Ears {
    pub(super) pending: Pending,
    pub(super) faults: Faults,
    spontaneous: mpsc::Sender<Spontaneous>,
    era: Era,
    /// Several callers are on the line: a request of the upstream could be for any of them.
    is_shared: bool,
    /// Whether calls wait for each other: the upstream asks in calls, and does not say in which.
    takes_turns: AtomicBool,
    turn: Semaphore,
    /// Whether nobody can be asked but in a call.
    is_only_in_calls: AtomicBool,
}

impl Ears {
    pub(super) fn new(name: &str, era: Era, spontaneous: mpsc::Sender<Spontaneous>) -> Self {
        let (pending, faults) = (Pending::default(), Faults::new(name));
        let (takes_turns, turn) = (AtomicBool::new(false), Semaphore::new(1));
        let is_only_in_calls = AtomicBool::new(false);
        let is_shared = false;
        Self { pending, faults, spontaneous, era, is_shared, takes_turns, turn, is_only_in_calls }
    }

    /// Ears of a line that several callers share, if they do. In the newer era nothing is different:
    /// there are no requests, and everything has the id of its question.
    pub(super) fn shared(self, is_shared: bool) -> Self {
        Self { is_shared: is_shared && self.era == Era::Legacy, ..self }
    }

    /// Nobody can be asked but in a call.
    pub(super) fn only_in_calls(&self) {
        self.is_only_in_calls.store(true, Ordering::Relaxed);
    }

    /// The name of the upstream.
    pub(super) fn name(&self) -> &str {
        self.faults.upstream()
    }

    pub(super) const fn era(&self) -> Era {
        self.era
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
                    To::Number(number) => self.pending.end(number, Ok(answer)),
                    To::Unknown | To::Nobody => false,
                };
                if !is_wanted {
                    self.faults.note(Fault::Unasked);
                }
                None
            }
            Said::Request { id, method, params } => self.request(id, method, params),
            Said::Notification { method, params } => self.notification(method, params),
        }
    }

    /// Hands over what came on the stream of one question, but for its answer. Waits until whoever
    /// asked takes it: nobody else is on that stream. Returns what is to be sent in return.
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
            Said::Request { id, .. } if self.is_shared => {
                return Ok(Some(frame::answer(&id, Err(REFUSED))));
            }
            Said::Request { id, method, params } => Heard::Request { id, method, params },
            Said::Notification { method, params } => {
                if self.is_taken_back(&method, params.as_ref(), number, route) {
                    return Err(LineError::Lost);
                }
                let of = params.as_ref().and_then(meta::token);
                if self.is_shared && method == PROGRESS && of != Some(number) {
                    self.faults.note(Fault::Dropped);
                    return Ok(None);
                }
                let params = params.map(|params| as_known(&method, params, route));
                Heard::Notification { method, params }
            }
        };
        let Some(sender) = &route.heard else { return Ok(self.unheard(&heard, REFUSED)) };
        match sender.send(heard).await {
            Ok(()) => Ok(None),
            Err(mpsc::error::SendError(heard)) => Ok(self.unheard(&heard, REFUSED)),
        }
    }

    fn request(&self, id: Id<'static>, method: String, params: Option<Bytes>) -> Option<Vec<u8>> {
        if method == "ping" {
            return Some(pong(&id));
        }
        if self.is_shared {
            return Some(frame::answer(&id, Err(REFUSED)));
        }
        let heard = Heard::Request { id, method, params };
        let sent = match self.pending.calls() {
            Calls::One(Route { heard: Some(sender), .. }) => sender.try_send(heard),
            Calls::One(Route { heard: None, .. }) => return self.unheard(&heard, REFUSED),
            Calls::Several if self.is_only_in_calls.load(Ordering::Relaxed) => {
                // Which of them it belongs to is not said. There will be one at a time.
                self.takes_turns.store(true, Ordering::Relaxed);
                return self.unheard(&heard, REFUSED);
            }
            Calls::None if self.is_only_in_calls.load(Ordering::Relaxed) => {
                return self.unheard(&heard, REFUSED);
            }
            Calls::Several | Calls::None => self.spontaneous.try_send(heard),
        };
        match sent {
            Ok(()) => None,
            Err(mpsc::error::TrySendError::Full(heard)) => self.unheard(&heard, TOO_MUCH),
            Err(mpsc::error::TrySendError::Closed(heard)) => self.unheard(&heard, REFUSED),
        }
    }

    fn notification(&self, method: String, params: Option<Bytes>) -> Option<Vec<u8>> {
        let number = params.as_ref().and_then(|params| match method.as_str() {
            PROGRESS => meta::token(params),
            CANCELLED if self.era == Era::Modern => meta::member(params, "requestId"),
            _ => meta::subscription(params),
        });
        let known = number.and_then(|number| Some((number, self.pending.route(number)?)));
        let Some((number, route)) = known else {
            if self.is_shared {
                return None;
            }
            // It goes the way of what it takes back, and not past it.
            let of_call = match self.pending.calls() {
                Calls::One(Route { heard, .. })
                    if method == CANCELLED && self.era == Era::Legacy =>
                {
                    heard
                }
                _ => None,
            };
            let sender = of_call.as_ref().unwrap_or(&self.spontaneous);
            let sent = sender.try_send(Heard::Notification { method, params });
            if sent.is_err() {
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
        if sender.try_send(Heard::Notification { method, params }).is_ok() {
            return None;
        }
        self.faults.note(Fault::Dropped);
        // Whoever listens believes to hear everything.
        let is_over = route.listens && self.pending.end(number, Err(LineError::Lost));
        is_over.then(|| frame::cancelled(number))
    }

    /// Whether a server of the newer era ends a subscription by this.
    fn is_taken_back(
        &self,
        method: &str,
        params: Option<&Bytes>,
        number: u64,
        route: &Route,
    ) -> bool {
        self.era == Era::Modern
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

/// Whether a question may be one that an upstream asks something in: lists and the like are not.
pub(super) fn is_call(method: &str) -> bool {
    let is_other = matches!(
        method,
        "initialize"
            | "ping"
            | "server/discover"
            | "subscriptions/listen"
            | "completion/complete"
            | "logging/setLevel"
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
