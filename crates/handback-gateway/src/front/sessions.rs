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
use handback_tool::gate::{Back, Gate, OUTLIVED};
use handback_tool::{Again, Charge, Credential, Exhausted, Quota, Surface};
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::StatusCode;
use hyper::body::Frame;
use rand::RngExt as _;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::http::{COMMENT, event};
use super::share::{Given, Share};
use super::stdio::told_line;
use super::watch::{LOOK_PERIOD, Watch};
use crate::retry::Delivery;
use crate::session::Session;
use crate::talk::ToClient;

/// The resource that is counted, as errors and the audit name it.
pub(super) const RESOURCE: &str = "sessions";

/// How long a session lives that nobody uses.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// How often it is looked for sessions that nobody uses, or that were revoked.
const SWEEP_PERIOD: Duration = Duration::from_secs(60);

/// Bytes of one stream that a client can come back to.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Bytes of one stream that nobody was sent, at most: what is older goes, but never an answer. All streams
/// of one caller have a bound together, under which answers go as well.
const UNSENT_BYTES_MAX: usize = 8 << 20;

/// Those who read one stream at a time: one gets what comes, and the others wait for it to leave.
const READERS_MAX: usize = 16;

/// Streams of one session that a client can come back to.
const KEPT_STREAMS_MAX: usize = 64;

/// The sessions of a front.
pub(crate) struct Sessions {
    ids: EventIds,
    gate: Gate,
    known: Mutex<HashMap<String, Arc<Known>>>,
    /// Sessions that there are or that are begun, of all callers and of each.
    quota: Quota,
    /// The same by the binding of their caller, with what their streams hold.
    places: Arc<Places>,
    /// When it was looked for those that are over last: every session looks for all of them.
    swept: Mutex<Instant>,
}

type Places = Mutex<HashMap<String, OfCaller>>;

/// What one caller has.
#[derive(Default)]
struct OfCaller {
    sessions: usize,
    share: Arc<Share>,
}

/// The place of a session.
pub(crate) struct Room {
    places: Arc<Places>,
    owner: String,
    share: Arc<Share>,
    _charge: Charge,
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut places = lock(&self.places);
        if let Some(of_caller) = places.get_mut(&self.owner) {
            of_caller.sessions -= 1;
            if of_caller.sessions == 0 {
                places.remove(&self.owner);
            }
        }
    }
}

/// A session.
pub(crate) struct Known {
    owner: Caller,
    room: Room,
    born_ms: u64,
    pub(crate) session: Arc<Session>,
    used: Mutex<Instant>,
    /// What belongs to no question.
    standalone: Arc<Stream>,
    streams: Mutex<VecDeque<Arc<Stream>>>,
    next: AtomicU64,
}

impl Sessions {
    pub(crate) fn new(ids: EventIds, gate: Gate, quota: Quota) -> Arc<Self> {
        let (known, places) = (Mutex::default(), Arc::default());
        Arc::new(Self { ids, gate, known, quota, places, swept: Mutex::new(Instant::now()) })
    }

    pub(crate) const fn ids(&self) -> &EventIds {
        &self.ids
    }

    /// Counts one more session of a caller, from before it is begun until it has ended.
    ///
    /// # Errors
    ///
    /// The part of the quota that is used up, which is written down.
    pub(crate) fn room(&self, caller: &Caller) -> Result<Room, Exhausted> {
        self.end_all(|_, known| known.is_left());
        let principal = caller.principal();
        let charge = self.quota.charge(principal, 1).inspect_err(|part| {
            self.gate.refused_by_quota(Surface::Mcp, RESOURCE, principal, *part);
        })?;
        let owner = principal.binding();
        let mut places = lock(&self.places);
        let of_caller = places.entry(owner.clone()).or_default();
        of_caller.sessions += 1;
        let share = Arc::clone(&of_caller.share);
        Ok(Room { places: Arc::clone(&self.places), owner, share, _charge: charge })
    }

    /// Ends what nobody uses, and what was revoked: nobody can come back to it, and its lines are open.
    async fn sweep(&self) {
        {
            let mut swept = lock(&self.swept);
            if swept.elapsed() < SWEEP_PERIOD / 2 {
                return;
            }
            *swept = Instant::now();
        }
        let revocations = self.gate.revocations().current(self.gate.now_ms()).await;
        self.end_all(|id, known| known.is_left() || revocations.is_revoked(&known.subject(id)));
    }

    fn end_all(&self, is_over: impl Fn(&str, &Known) -> bool) {
        let mut gone = Vec::new();
        lock(&self.known).retain(|id, known| {
            let is_over = is_over(id, known);
            if is_over {
                gone.push(Arc::clone(known));
            }
            !is_over
        });
        // Their lines end here, and not under the lock.
        gone.iter().for_each(|known| known.leave());
    }

    /// Adds a session; gives its id.
    pub(crate) fn add(
        self: &Arc<Self>,
        caller: &Caller,
        room: Room,
        session: Arc<Session>,
        mut told: mpsc::Receiver<ToClient>,
    ) -> String {
        let id = format!("{:032x}", rand::rng().random::<u128>());
        let standalone = Stream::begin(0, &room.share);
        let known = Arc::new(Known {
            owner: caller.clone(),
            room,
            born_ms: self.gate.now_ms(),
            session,
            used: Mutex::new(Instant::now()),
            standalone: Arc::clone(&standalone),
            streams: Mutex::default(),
            next: AtomicU64::new(1),
        });
        lock(&self.known).insert(id.clone(), known);
        let sessions = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut sweep = tokio::time::interval(SWEEP_PERIOD);
            loop {
                tokio::select! {
                    told = told.recv() => match told {
                        Some(told) => standalone.push(told_line(&told)),
                        None => return,
                    },
                    // For as long as there are sessions, those that are over are ended.
                    _ = sweep.tick() => match sessions.upgrade() {
                        Some(sessions) => sessions.sweep().await,
                        None => return,
                    },
                }
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
        self.gate.check(&back, &known.subject(id)).await.ok()?;
        *lock(&known.used) = Instant::now();
        Some(known)
    }

    /// Watches over a stream of a session, for who showed its credential just now.
    pub(super) fn watch(
        &self,
        known: &Known,
        id: &str,
        caller: &Caller,
        again: Option<Again>,
    ) -> Watch {
        let credential =
            Credential::new(caller, known.born_ms, again).of_session(id, known.born_ms);
        Watch::new(self.gate.clone(), credential, "session")
    }

    /// Watches over what is open in no session.
    pub(super) fn watch_alone(&self, caller: &Caller, again: Option<Again>) -> Watch {
        let credential = Credential::new(caller, self.gate.now_ms(), again);
        Watch::new(self.gate.clone(), credential, "subscription")
    }

    /// Ends a session.
    pub(crate) fn end(&self, id: &str) {
        // Its lines end here, and not under the lock.
        let gone = lock(&self.known).remove(id);
        if let Some(gone) = gone {
            gone.leave();
        }
    }

    /// The stream that an event belongs to, and the number of the one after it.
    pub(crate) async fn open_event(
        &self,
        known: &Known,
        session: &str,
        caller: &Caller,
        event: &str,
    ) -> Result<(Reader, usize), StatusCode> {
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
            stream.has(seen).then(|| (Reader::of(&stream), seen))
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
    /// What is asked about, where it is asked whether the session of this id was revoked.
    const fn subject<'a>(&'a self, id: &'a str) -> Subject<'a> {
        Subject::of(self.owner.principal()).session(id).born(self.born_ms)
    }

    /// Whether nobody has used it for long.
    fn is_left(&self) -> bool {
        let is_read = lock(&self.standalone.read).elapsed() < IDLE;
        !is_read && !self.session.is_busy() && lock(&self.used).elapsed() >= IDLE
    }

    /// The client has left: nobody waits for what is under way, and nobody is told anything.
    fn leave(&self) {
        self.session.cancel_all();
        self.standalone.close();
    }

    /// What belongs to no question, from what nobody has got yet.
    pub(crate) fn standalone(&self) -> (Reader, usize) {
        let from = lock(&self.standalone.state).taken;
        (Reader::of(&self.standalone), from)
    }

    /// A stream for one more question, and who reads it.
    pub(crate) fn begin_stream(&self) -> Reader {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let stream = Stream::begin(number, &self.room.share);
        let reader = Reader::of(&stream);
        let mut streams = lock(&self.streams);
        streams.push_back(stream);
        let gone = (streams.len() > KEPT_STREAMS_MAX).then(|| streams.pop_front());
        // It takes itself off other lists, and not under this lock.
        drop(streams);
        drop(gone);
        reader
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
    /// What it is a part of, and under which number there.
    share: Arc<Share>,
    number_in_share: u64,
    state: Mutex<State>,
    changed: Notify,
    /// When somebody read it last.
    read: Mutex<Instant>,
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
    /// Who hears that the last one was taken.
    delivery: Delivery,
    /// Those who read it now. What comes is for the last of them.
    readers: Vec<u64>,
    /// The number of the next one.
    next_reader: u64,
    /// When something was added last, among all that was added to streams of the caller.
    added: u64,
}

impl State {
    /// Those before this number were sent to somebody.
    fn take(&mut self, number: usize) {
        self.taken = self.taken.max(number);
        if self.is_over && self.taken >= self.dropped + self.events.len() {
            self.delivery.done();
        }
        self.trim();
    }

    /// What is sent goes first, and of what is not, the oldest. The last one stays until it is sent.
    fn trim(&mut self) {
        let is_too_much = |state: &Self| match state.dropped < state.taken {
            true => state.bytes > KEPT_BYTES_MAX,
            false => state.bytes > UNSENT_BYTES_MAX && state.events.len() > 1,
        };
        while is_too_much(self) && self.drop_first() {}
    }

    /// The first event from this number on that is still there, and its number; whether there will be
    /// none.
    fn get(&mut self, number: usize) -> (Option<(usize, Bytes)>, bool) {
        let number = number.max(self.dropped);
        let found = self.events.get(number - self.dropped).cloned();
        if found.is_some() {
            self.take(number + 1);
        }
        let is_over = found.is_none() && self.is_over;
        (found.map(|event| (number, event)), is_over)
    }

    /// Makes room for other streams.
    fn give(&mut self, given: Given) {
        let goes = |state: &Self| match given {
            Given::Sent => state.dropped < state.taken,
            Given::Unread => state.readers.is_empty(),
            Given::Earlier => state.events.len() > 1,
        };
        while goes(self) && self.drop_first() {}
    }

    /// Drops the oldest; says whether there was one. Who comes back to it is told that it is gone.
    fn drop_first(&mut self) -> bool {
        let Some(dropped) = self.events.pop_front() else { return false };
        self.bytes -= dropped.len();
        self.dropped += 1;
        self.taken = self.taken.max(self.dropped);
        true
    }
}

impl Stream {
    fn begin(number: u64, share: &Arc<Share>) -> Arc<Self> {
        let number_in_share = share.number();
        let stream = Arc::new(Self {
            number,
            share: Arc::clone(share),
            number_in_share,
            state: Mutex::default(),
            changed: Notify::new(),
            read: Mutex::new(Instant::now()),
        });
        share.list(number_in_share, &stream);
        stream
    }

    pub(crate) fn push(&self, message: Bytes) {
        self.add(message, None);
    }

    /// The last message; `delivery` hears when it was sent.
    pub(crate) fn end(&self, answer: Bytes, delivery: Delivery) {
        self.add(answer, Some(delivery));
    }

    /// There will be nothing more.
    pub(crate) fn close(&self) {
        lock(&self.state).is_over = true;
        self.changed.notify_waiters();
    }

    fn add(&self, message: Bytes, last: Option<Delivery>) {
        self.change(|state| {
            state.bytes += message.len();
            state.events.push_back(message);
            state.added = self.share.next_addition();
            if let Some(delivery) = last {
                (state.is_over, state.delivery) = (true, delivery);
            }
            state.trim();
        });
        self.changed.notify_waiters();
        self.share.make_room();
    }

    /// Changes what is kept, of which the share of the caller is told.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.state);
        let before = state.bytes;
        let done = change(&mut state);
        self.share.changed(before, state.bytes);
        done
    }

    /// Makes room for other streams.
    pub(super) fn give(&self, given: Given) {
        self.change(|state| state.give(given));
    }

    /// When something was added last.
    pub(super) fn last_addition(&self) -> u64 {
        lock(&self.state).added
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
        self.change(|state| {
            let is_only = state.is_over && state.events.len() == 1 && state.dropped == 0;
            let answer = is_only.then(|| state.events.front().cloned()).flatten()?;
            state.take(1);
            Some(answer)
        })
    }

    /// Whether an event is there, or will be.
    fn has(&self, number: usize) -> bool {
        let state = lock(&self.state);
        number >= state.dropped && number <= state.dropped + state.events.len()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.share.unlist(self.number_in_share, lock(&self.state).bytes);
    }
}

/// Somebody who reads a stream, or will in a moment.
///
/// > The server MUST send each of its JSON-RPC messages on only one of the connected streams; that is, it
/// > MUST NOT broadcast the same message across multiple streams. (2025-11-25, Multiple Connections)
///
/// A client may be connected several times. The connection that came last gets what comes: those before may
/// be dead, and nobody knows. They stay open, because a client that finds one ended comes back and would
/// end the other; with the last one gone, the one before it goes on with what nobody was sent.
#[derive(Debug)]
pub(crate) struct Reader {
    stream: Arc<Stream>,
    number: u64,
    /// Another one gets what comes, or got it since this one was asked.
    is_aside: bool,
    /// What another one was sent meanwhile is before this number.
    from: usize,
}

impl Reader {
    fn of(stream: &Arc<Stream>) -> Self {
        let mut state = lock(&stream.state);
        let number = state.next_reader;
        state.next_reader += 1;
        state.readers.push(number);
        if state.readers.len() > READERS_MAX {
            state.readers.remove(0);
        }
        drop(state);
        // Those who are not the last any more look at it.
        stream.changed.notify_waiters();
        Self { stream: Arc::clone(stream), number, is_aside: false, from: 0 }
    }

    /// What is read.
    pub(crate) const fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// The first event from this number on that is there for this reader, and its number; whether there
    /// will be none.
    fn get(&mut self, number: usize) -> (Option<(usize, Bytes)>, bool) {
        let Self { stream, number: own, is_aside, from } = self;
        stream.change(|state| {
            if state.readers.last() == Some(own) {
                if std::mem::take(is_aside) {
                    *from = state.taken;
                }
                return state.get(number.max(*from));
            }
            *is_aside = true;
            let is_all_taken = state.taken >= state.dropped + state.events.len();
            let is_left = !state.readers.contains(own);
            (None, is_left || (state.is_over && is_all_taken))
        })
    }

    /// Waits for the next event, or for the end of this silence; nothing, if there will be none.
    async fn next(&mut self, number: usize, silence: Duration) -> Option<Option<(usize, Bytes)>> {
        let stream = Arc::clone(&self.stream);
        *lock(&stream.read) = Instant::now();
        let until = Instant::now() + silence;
        let mut changed = std::pin::pin!(stream.changed.notified());
        loop {
            changed.as_mut().enable();
            match self.get(number) {
                (Some(event), _) => return Some(Some(event)),
                (None, true) => return None,
                (None, false) => {}
            }
            tokio::select! {
                () = changed.as_mut() => changed.set(stream.changed.notified()),
                () = tokio::time::sleep_until(until) => return Some(None),
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        lock(&self.stream.state).readers.retain(|number| *number != self.number);
        // The one before goes on.
        self.stream.changed.notify_waiters();
    }
}

/// How long a client waits before it comes back.
const RETRY_MS: u32 = 3_000;

/// The events of a stream as a body, from one on, with comments where nothing happens. The first one
/// says where the client is, so that it can come back from the start. `seal` makes the id of how many
/// events of a stream were seen. It ends when `watch` finds that it may not go on.
pub(crate) fn reading(
    reader: Reader,
    seen: usize,
    silence: Duration,
    watch: Watch,
    seal: impl Fn(u64, usize) -> Option<String> + Send + 'static,
) -> UnsyncBoxBody<Bytes, Infallible> {
    let start = Reading { reader, seen, watch, seal, has_begun: false };
    let frames = stream::unfold(start, move |mut reading| async move {
        let bytes = reading.next(silence).await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), reading))
    });
    UnsyncBoxBody::new(StreamBody::new(frames))
}

/// A client that reads a stream.
struct Reading<F> {
    reader: Reader,
    seen: usize,
    watch: Watch,
    seal: F,
    has_begun: bool,
}

impl<F: Fn(u64, usize) -> Option<String>> Reading<F> {
    async fn next(&mut self, silence: Duration) -> Option<Bytes> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let id = (self.seal)(self.reader.stream.number, self.seen);
            let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
            return Some(format!("{id}retry: {RETRY_MS}\ndata:\n\n").into());
        }
        let until = Instant::now() + silence;
        while self.watch.holds().await {
            let left = until.saturating_duration_since(Instant::now());
            match self.reader.next(self.seen, left.min(LOOK_PERIOD)).await? {
                Some((number, message)) => {
                    self.seen = number + 1;
                    let id = (self.seal)(self.reader.stream.number, self.seen);
                    return Some(event(id.as_deref(), &message));
                }
                None if Instant::now() >= until => return Some(COMMENT),
                None => {}
            }
        }
        None
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
