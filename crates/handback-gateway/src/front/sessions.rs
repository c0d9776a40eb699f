//! Sessions of older clients over HTTP, and what they can come back to.
//!
//! A session lives in this process: its upstreams have connections here. What was told in it stays for
//! a while, so that a client whose connection broke can ask for what came after the last event that
//! it has. Ids of events are sealed for the owner of the session.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use handback_identity::{Caller, VerifiedPrincipal};
use handback_mcp::seal::EventIds;
use handback_store::revocations::Subject;
use handback_token::{Operation, Outside};
use handback_tool::Surface;
use handback_tool::gate::{Back, Gate, OUTLIVED};
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::StatusCode;
use hyper::body::Frame;
use rand::RngExt as _;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::http::{COMMENT, event};
use super::stdio::told_line;
use crate::session::Session;
use crate::talk::ToClient;

/// Sessions of all callers at most.
const SESSIONS_MAX: usize = 10_000;

/// Sessions of one caller at most: each may have a program of its own behind it.
const OF_CALLER_MAX: usize = 100;

/// How long a session lives that nobody uses.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// Bytes of one stream that a client can come back to.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Streams of one session that a client can come back to.
const KEPT_STREAMS_MAX: usize = 64;

/// The sessions of a front.
pub(crate) struct Sessions {
    ids: EventIds,
    gate: Gate,
    known: Mutex<HashMap<String, Arc<Known>>>,
}

/// A session.
pub(crate) struct Known {
    owner: Caller,
    born_ms: u64,
    pub(crate) session: Arc<Session>,
    used: Mutex<Instant>,
    /// What belongs to no question.
    standalone: Arc<Stream>,
    streams: Mutex<VecDeque<Arc<Stream>>>,
    next: AtomicU64,
}

impl Sessions {
    pub(crate) fn new(ids: EventIds, gate: Gate) -> Self {
        Self { ids, gate, known: Mutex::default() }
    }

    pub(crate) const fn ids(&self) -> &EventIds {
        &self.ids
    }

    /// Whether this caller may begin one more.
    pub(crate) fn has_room(&self, caller: &Caller) -> bool {
        let mut known = lock(&self.known);
        known.retain(|_, known| lock(&known.used).elapsed() < IDLE);
        let of_caller =
            known.values().filter(|known| known.owner.principal() == caller.principal()).count();
        known.len() < SESSIONS_MAX && of_caller < OF_CALLER_MAX
    }

    /// Adds a session; gives its id.
    pub(crate) fn add(
        &self,
        caller: &Caller,
        session: Arc<Session>,
        mut told: mpsc::Receiver<ToClient>,
    ) -> String {
        let id = format!("{:032x}", rand::rng().random::<u128>());
        let standalone = Arc::new(Stream::new(0));
        let known = Arc::new(Known {
            owner: caller.clone(),
            born_ms: self.gate.now_ms(),
            session,
            used: Mutex::new(Instant::now()),
            standalone: Arc::clone(&standalone),
            streams: Mutex::default(),
            next: AtomicU64::new(1),
        });
        lock(&self.known).insert(id.clone(), known);
        tokio::spawn(async move {
            while let Some(told) = told.recv().await {
                standalone.push(told_line(&told));
            }
        });
        id
    }

    /// The session of this id, if it is the caller's. Another's is, to the caller, nobody's.
    pub(crate) async fn find(&self, id: &str, caller: &Caller) -> Option<Arc<Known>> {
        let found = lock(&self.known).get(id).cloned();
        let back = back_of(caller.principal(), "session", id);
        let Some(known) = found else {
            self.gate.refused(&back, "unknown");
            return None;
        };
        if known.owner.principal() != caller.principal() {
            self.gate.refused(&back, "foreign");
            return None;
        }
        // What it may use was decided when the session began.
        if known.owner.scopes() != caller.scopes() {
            self.gate.refused(&back, "other_scopes");
            return None;
        }
        let subject = Subject::of(caller.principal()).session(id).born(known.born_ms);
        self.gate.check(&back, &subject).await.ok()?;
        *lock(&known.used) = Instant::now();
        Some(known)
    }

    /// Ends a session.
    pub(crate) fn end(&self, id: &str) {
        lock(&self.known).remove(id);
    }

    /// The stream that an event belongs to, and the number of the one after it.
    pub(crate) async fn open_event(
        &self,
        known: &Known,
        session: &str,
        caller: &Caller,
        event: &str,
    ) -> Result<(Arc<Stream>, usize), StatusCode> {
        let back = back_of(caller.principal(), "event", event);
        let opened = self.ids.open(caller.principal(), session, event).map_err(|refused| {
            self.gate.refused(&back, refused.reason().as_str());
            match refused.outside() {
                Outside::Expired => StatusCode::GONE,
                _ => StatusCode::BAD_REQUEST,
            }
        })?;
        let checked = self.gate.check_cursor(&back, self.ids.sealer(), &opened, Some(session));
        checked.await.map_err(|_| StatusCode::BAD_REQUEST)?;
        let place = std::str::from_utf8(opened.payload()).ok().and_then(|text| {
            let (stream, seen) = text.split_once('.')?;
            Some((stream.parse::<u64>().ok()?, seen.parse::<usize>().ok()?))
        });
        let found = place.and_then(|(number, seen)| {
            let stream = known.stream(number)?;
            stream.has(seen).then_some((stream, seen))
        });
        found.ok_or_else(|| {
            self.gate.refused(&back, OUTLIVED);
            StatusCode::GONE
        })
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({})", lock(&self.known).len())
    }
}

const fn back_of<'a>(
    principal: &'a VerifiedPrincipal,
    continuation: &'static str,
    text: &'a str,
) -> Back<'a> {
    let (surface, operation) = (Surface::Mcp, Operation::Duplex);
    Back { surface, operation, name: "mcp", continuation, principal, text }
}

impl Known {
    /// What belongs to no question, from what nobody has got yet.
    pub(crate) fn standalone(&self) -> (Arc<Stream>, usize) {
        let from = lock(&self.standalone.state).taken;
        (Arc::clone(&self.standalone), from)
    }

    /// A stream for one more question.
    pub(crate) fn begin_stream(&self) -> Arc<Stream> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let stream = Arc::new(Stream::new(number));
        let mut streams = lock(&self.streams);
        if streams.len() >= KEPT_STREAMS_MAX {
            streams.pop_front();
        }
        streams.push_back(Arc::clone(&stream));
        stream
    }

    fn stream(&self, number: u64) -> Option<Arc<Stream>> {
        if number == 0 {
            return Some(Arc::clone(&self.standalone));
        }
        lock(&self.streams).iter().find(|stream| stream.number == number).cloned()
    }
}

/// What a client is told in answer to one question, or to none.
#[derive(Debug)]
pub(crate) struct Stream {
    number: u64,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Messages, the first of which has the number `dropped`.
    events: VecDeque<Bytes>,
    dropped: usize,
    bytes: usize,
    /// The number of the first that nobody was sent.
    taken: usize,
    is_over: bool,
}

impl Stream {
    fn new(number: u64) -> Self {
        Self { number, state: Mutex::default(), changed: Notify::new() }
    }

    pub(crate) fn push(&self, message: Bytes) {
        self.add(message, false);
    }

    pub(crate) fn end(&self, answer: Bytes) {
        self.add(answer, true);
    }

    fn add(&self, message: Bytes, is_last: bool) {
        let mut state = lock(&self.state);
        state.bytes += message.len();
        state.events.push_back(message);
        state.is_over |= is_last;
        // What is sent goes first; what is not is kept whatever its size.
        while state.bytes > KEPT_BYTES_MAX && state.dropped < state.taken {
            if let Some(dropped) = state.events.pop_front() {
                state.bytes -= dropped.len();
                state.dropped += 1;
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Resolves when there is something.
    pub(crate) async fn has_begun(&self) {
        let mut changed = std::pin::pin!(self.changed.notified());
        loop {
            changed.as_mut().enable();
            if !lock(&self.state).events.is_empty() {
                return;
            }
            changed.as_mut().await;
            changed.set(self.changed.notified());
        }
    }

    /// The answer, if there is nothing else.
    pub(crate) fn only_answer(&self) -> Option<Bytes> {
        let mut state = lock(&self.state);
        let is_only = state.is_over && state.events.len() == 1 && state.dropped == 0;
        let answer = is_only.then(|| state.events.front().cloned()).flatten()?;
        state.taken = 1;
        Some(answer)
    }

    /// Whether an event is there, or will be.
    fn has(&self, number: usize) -> bool {
        let state = lock(&self.state);
        number >= state.dropped && number <= state.dropped + state.events.len()
    }

    /// The event of this number; whether there will be none.
    fn get(&self, number: usize) -> (Option<Bytes>, bool) {
        let mut state = lock(&self.state);
        let at = number.checked_sub(state.dropped);
        let found = at.and_then(|at| state.events.get(at).cloned());
        if found.is_some() {
            state.taken = state.taken.max(number + 1);
        }
        let is_over = found.is_none() && (state.is_over || at.is_none());
        (found, is_over)
    }

    async fn next(&self, number: usize, silence: Duration) -> Option<Option<Bytes>> {
        let until = Instant::now() + silence;
        let mut changed = std::pin::pin!(self.changed.notified());
        loop {
            changed.as_mut().enable();
            match self.get(number) {
                (Some(event), _) => return Some(Some(event)),
                (None, true) => return None,
                (None, false) => {}
            }
            tokio::select! {
                () = changed.as_mut() => changed.set(self.changed.notified()),
                () = tokio::time::sleep_until(until) => return Some(None),
            }
        }
    }
}

/// How long a client waits before it comes back.
const RETRY_MS: u32 = 3_000;

/// The events of a stream as a body, from one on, with comments where nothing happens. The first one
/// says where the client is, so that it can come back from the start. `seal` makes the id of how many
/// events of a stream were seen.
pub(crate) fn reading(
    from: Arc<Stream>,
    seen: usize,
    silence: Duration,
    seal: impl Fn(u64, usize) -> Option<String> + Send + 'static,
) -> UnsyncBoxBody<Bytes, Infallible> {
    let start = Reading { stream: from, seen, seal, has_begun: false };
    let frames = stream::unfold(start, move |mut reading| async move {
        let bytes = reading.next(silence).await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), reading))
    });
    UnsyncBoxBody::new(StreamBody::new(frames))
}

/// A client that reads a stream.
struct Reading<F> {
    stream: Arc<Stream>,
    seen: usize,
    seal: F,
    has_begun: bool,
}

impl<F: Fn(u64, usize) -> Option<String>> Reading<F> {
    async fn next(&mut self, silence: Duration) -> Option<Bytes> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let id = (self.seal)(self.stream.number, self.seen);
            let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
            return Some(format!("{id}retry: {RETRY_MS}\ndata:\n\n").into());
        }
        match self.stream.next(self.seen, silence).await? {
            None => Some(COMMENT),
            Some(message) => {
                self.seen += 1;
                Some(event((self.seal)(self.stream.number, self.seen).as_deref(), &message))
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
