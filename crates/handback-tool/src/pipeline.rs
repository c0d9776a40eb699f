//! The one way in which every call is made.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt as _;
use handback_identity::{Caller, VerifiedPrincipal};
use handback_store::held::{HeldError, HeldStore};
use handback_store::journal::{
    self, CallRequest, Journal, JournalError, JournalScope, Redemption, Reservation, Reserved,
    Status,
};
use handback_store::revocations::Revocations;
use handback_store::{Kv, Millis};
use handback_token::{
    Cursor, Operation, Reason, Resume, Sealer, State, UnixTime, args_fingerprint,
};
use rand::RngExt as _;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::audit::{AuditSink, Entry};
use crate::clock::Clock;
use crate::context::{CallContext, Round};
use crate::continuation::{Binding, Brought, Memory, RoundId, page_fingerprint};
use crate::duplex::DuplexEnds;
use crate::flight::{Flight, Flights};
use crate::input::{Answers, Inputs};
use crate::limits::{LISTENERS_MAX, Place, Places, QUESTIONS_MAX, Rate, Rates};
use crate::metrics::{Counted, Elsewhere, Metrics};
use crate::outcome::{Outcome, Position, ToolError};
use crate::record::Recorded;
use crate::recorded::RecordedBytes;
use crate::registry::{Registered, Registry};
use crate::request::{Answer, Arguments, Continuation, MAX_KEY_CHARS, Refusal, Reply, Request};
use crate::revoked::RevocationWatch;
use crate::tool::Ready;

/// The journal of a server.
pub type CallJournal = Journal<Arc<dyn Kv>>;

/// What a server holds.
pub type CallHeld = HeldStore<Arc<dyn Kv>>;

/// Bytes of a result at most: what is larger is not handed out.
pub const MAX_RESULT_BYTES: usize = 256 << 20;

/// Bytes of a record at most, of each byte of a result: the result, and what JSON makes of it.
const RECORD_BYTES_PER_BYTE: usize = 2;

/// Rows that are looked at to count what is held: some tenths of a second, each time somebody reads.
const HELD_ROWS_MAX: usize = 100_000;

/// How long a call that somebody else is at is waited for, before it is looked at again.
const JOIN_PAUSE: Duration = Duration::from_millis(25);

/// How much longer than its limit a call is waited for: a tool that does not let its timer fire is
/// left to itself.
pub(crate) const TIME_LIMIT_GRACE: Duration = Duration::from_secs(1);

/// What a pipeline is made of.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal: nothing may be left out")]
pub struct PipelineParts {
    /// What can be called, and by whom.
    pub registry: Registry,
    /// Seals and opens what travels.
    pub sealer: Arc<Sealer>,
    /// The record of calls.
    pub journal: Arc<CallJournal>,
    /// Where what does not fit a token is kept.
    pub held: CallHeld,
    /// What is not good any more.
    pub revocations: RevocationWatch,
    /// Where the audit goes.
    pub audit: Arc<dyn AuditSink>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Calls of one caller under way at a time.
    pub in_flight_max: usize,
    /// Bytes of a result at most.
    pub result_bytes_max: usize,
    /// True if recorded outcomes of any size count in what their callers hold. A caller that has all of a
    /// server is not limited in the number of its calls.
    pub counts_recorded: bool,
}

/// Makes calls. All surfaces share one.
pub struct Pipeline {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) parts: PipelineParts,
    places: Places,
    /// For what is no call.
    pub(crate) questions: Places,
    pub(crate) listeners: Places,
    pub(crate) rates: Rates,
    flights: Flights,
    recorded: Arc<RecordedBytes>,
    pub(crate) metrics: Arc<Metrics>,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("parts", &self.shared.parts).finish_non_exhaustive()
    }
}

impl Pipeline {
    /// A pipeline of these parts.
    #[must_use]
    pub fn new(parts: PipelineParts) -> Self {
        Self::with_rate(parts, Rate::default())
    }

    /// One whose callers may call as fast as this.
    #[must_use]
    pub fn with_rate(mut parts: PipelineParts, rate: Rate) -> Self {
        let (places, rates) = (Places::new(parts.in_flight_max), Rates::new(rate));
        let metrics = Arc::new(Metrics::default());
        parts.audit = Arc::new(Counted { sink: parts.audit, metrics: Arc::clone(&metrics) });
        let flights = Flights::default();
        let (questions, listeners) = (Places::new(QUESTIONS_MAX), Places::new(LISTENERS_MAX));
        let recorded = Arc::default();
        let shared =
            Shared { parts, places, questions, listeners, rates, flights, recorded, metrics };
        Self { shared: Arc::new(shared) }
    }

    /// Waits until no call is under way that is recorded: who asked for it may have left.
    pub async fn settled(&self) {
        self.shared.flights.settled().await;
    }

    /// Counts recorded outcomes in what their callers hold, if that was not done for some minutes. Blocks.
    /// It is to be called every few seconds.
    pub fn count_recorded(&self) {
        let PipelineParts { held, clock, .. } = &self.shared.parts;
        self.shared.recorded.write_due(held, clock.now_ms());
    }

    /// The same, at the end: nothing is forgotten. Blocks.
    pub fn count_all_recorded(&self) {
        let PipelineParts { held, clock, .. } = &self.shared.parts;
        self.shared.recorded.write_all(held, clock.now_ms());
    }

    /// Writes what waits in the audit. It is to be called every few seconds.
    pub fn flush_audit(&self) {
        let parts = &self.shared.parts;
        parts.audit.flush(parts.clock.now_ms());
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.metrics
    }

    /// Everything that is counted, as Prometheus reads it. Blocks: what is held is counted now.
    ///
    /// # Errors
    ///
    /// [`HeldError`] if the store does not answer.
    pub fn metrics_text(&self) -> Result<String, HeldError> {
        let PipelineParts { sealer, held, clock, .. } = &self.shared.parts;
        let tokens =
            [sealer.tallied::<Cursor>(), sealer.tallied::<State>(), sealer.tallied::<Resume>()];
        let held = held.tally(HELD_ROWS_MAX, clock.now_ms())?;
        Ok(self.shared.metrics.text(&Elsewhere { tokens, held }))
    }

    /// What can be called.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.shared.parts.registry
    }

    pub(crate) fn parts(&self) -> &PipelineParts {
        &self.shared.parts
    }

    /// What seals and opens, for surfaces that page their own lists.
    #[must_use]
    pub fn sealer(&self) -> &Sealer {
        &self.shared.parts.sealer
    }

    /// Where values are held, for surfaces that keep what they hand out.
    #[must_use]
    pub fn held(&self) -> &CallHeld {
        &self.shared.parts.held
    }

    /// What may be written for an argument of something that this caller may call.
    #[must_use]
    pub fn complete(
        &self,
        caller: &Caller,
        operation: Operation,
        name: &str,
        argument: &str,
        prefix: &str,
    ) -> Option<Vec<String>> {
        let registry = &self.shared.parts.registry;
        let tool = registry.named(caller, operation, name)?;
        Some(tool.tool.complete(argument, prefix))
    }

    /// The time that calls are made at.
    #[must_use]
    pub fn now(&self) -> UnixTime {
        self.shared.parts.clock.now()
    }

    /// What tells that time, for what goes on after a call was let in.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.parts.clock
    }

    /// Makes a call. Dropping the future cancels it, unless the call has started and has a key,
    /// cannot be cancelled, or [runs on](Request::runs_on).
    ///
    /// # Errors
    ///
    /// [`Refusal`]. A tool that says that it failed is no error here, but an answer.
    pub async fn call(&self, request: Request) -> Result<Answer, Refusal> {
        let parts = &self.shared.parts;
        let entry = Entry::start(&parts.audit, &parts.clock, rand::rng().random(), &request);
        let ended = self.shared.run(request, &entry).await;
        entry.end(&ended);
        ended
    }

    /// Whether this caller may make this call at all, for surfaces that must know before the call is
    /// complete. A refusal is audited here; what is admitted is, when it is called.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`].
    pub fn admit(&self, request: &Request) -> Result<(), Refusal> {
        let admitted = self.shared.find(request).map(drop);
        if admitted.is_err() {
            let parts = &self.shared.parts;
            let entry = Entry::start(&parts.audit, &parts.clock, rand::rng().random(), request);
            entry.end_checked(&admitted);
        }
        admitted
    }

    /// Checks a call that is not to be made: whether it would be refused before its tool is called.
    /// Nothing is reserved, and nothing that came back is used up.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub async fn check(&self, request: Request) -> Result<(), Refusal> {
        let parts = &self.shared.parts;
        let entry = Entry::start(&parts.audit, &parts.clock, rand::rng().random(), &request);
        let ended = self.shared.try_out(request).await.map(drop);
        entry.end_checked(&ended);
        ended
    }
}

/// One call on its way.
struct Call {
    tool: Arc<Registered>,
    request: Request,
    now_ms: Millis,
    revocations: Revocations,
    brought: Brought,
    arguments: Value,
}

/// What was checked: a call that can be made.
struct Checked {
    ready: Box<dyn Ready>,
    answers: Answers,
    /// Questions that are not answered yet.
    missing: Inputs,
    /// Drops the call, recorded or not.
    stop: CancellationToken,
}

/// Who waits for the journal, and for how long.
pub(crate) struct Waits<'a> {
    pub(crate) principal: &'a VerifiedPrincipal,
    pub(crate) cancel: &'a CancellationToken,
    pub(crate) time_limit: Duration,
    /// Whether it has a key. What is recorded without one redeems a round: an exchange that is in its
    /// middle is not refused for what is kept by then.
    pub(crate) has_key: bool,
}

/// What the journal says.
pub(crate) enum Turn {
    /// Make the call.
    Make(Permit),
    /// It was made, and this came of it.
    Made(Recorded),
}

/// What the journal says, on its way from the disk to who asked. Who is gone by then has not started
/// the call: it is free again.
struct Delivered {
    journal: Arc<CallJournal>,
    reserved: Reserved,
    now_ms: Millis,
}

impl Delivered {
    fn take(mut self) -> Reserved {
        // Of what stays, nothing has to be freed.
        std::mem::replace(&mut self.reserved, Reserved::Mismatch)
    }
}

impl Drop for Delivered {
    fn drop(&mut self) {
        let reserved = std::mem::replace(&mut self.reserved, Reserved::Mismatch);
        let Reserved::New(mut reservation) = reserved else { return };
        let (journal, now_ms) = (Arc::clone(&self.journal), self.now_ms);
        // Without a runtime the process is ending, and the next one sees what is left.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(move || {
                if let Err(error) = journal.release(&mut reservation, now_ms) {
                    tracing::error!(%error, "a call that nobody waited for was not freed");
                }
            });
        }
    }
}

/// The right to make a call, and the duty to record what came of it, if it is to be.
#[derive(Default)]
pub(crate) struct Permit {
    pub(crate) record: Option<OpenRecord>,
    flight: Option<Flight>,
}

/// A call that is recorded, and where.
pub(crate) struct OpenRecord {
    reservation: Reservation,
    journal: Arc<CallJournal>,
}

/// How a call ended that was made.
pub(crate) enum Ran {
    /// In this way, which is recorded.
    Ended(Recorded),
    /// In this way, and without an effect: it may be made again.
    NoEffect(Recorded),
    /// Nobody knows how.
    Not(Refusal),
}

impl Shared {
    /// A call from its checks to its answer. Nothing before `reserve` leaves a trace but the audit,
    /// and nothing after it is refused for a reason that was knowable before.
    async fn run(self: &Arc<Self>, request: Request, entry: &Entry) -> Result<Answer, Refusal> {
        let (call, checked, place) = self.try_out(request).await?;
        let wanted = call.to_be_recorded(&checked)?;
        let journal = &self.parts.journal;
        let (recorded, is_replay) = match self.reserve(&call.waits(), wanted, journal).await? {
            Turn::Made(recorded) => (recorded, true),
            Turn::Make(permit) => {
                entry.begun();
                (self.perform(&call, checked, permit, place).await?, false)
            }
        };
        let reply = self.seal(&call, recorded)?;
        Ok(Answer { reply, is_replay })
    }

    /// The checks, in their order: a call that can be made, and its place among those of its caller.
    async fn try_out(&self, mut request: Request) -> Result<(Call, Checked, Place), Refusal> {
        let ends = request.ends.take();
        let (tool, words) = self.find(&request)?;
        let place = self.admit(request.caller.principal())?;
        let revocations = self.parts.revocations.current(self.parts.clock.now_ms()).await;
        let (call, given) = self.open(tool, request, words, revocations)?;
        let checked = check(&call, given, ends)?;
        Ok((call, checked, place))
    }

    fn find(&self, request: &Request) -> Result<(Arc<Registered>, Map<String, Value>), Refusal> {
        let Request { caller, operation, name, .. } = request;
        self.parts.registry.find(caller, *operation, name).ok_or(Refusal::NotFound)
    }

    /// Counts a call of this caller.
    pub(crate) fn admit(&self, principal: &VerifiedPrincipal) -> Result<Place, Refusal> {
        let place = self.places.take(principal)?;
        self.rates.take(principal, Instant::now())?;
        Ok(place)
    }

    /// Opens what the caller brought back; gives the answers that came with it.
    fn open(
        &self,
        tool: Arc<Registered>,
        mut request: Request,
        words: Map<String, Value>,
        revocations: Revocations,
    ) -> Result<(Call, Map<String, Value>), Refusal> {
        let now_ms = self.parts.clock.now_ms();
        let mut arguments = match &request.arguments {
            Arguments::Given(value) | Arguments::Carried(value) => value.clone(),
            Arguments::InCursor => Value::Null,
        };
        if arguments.is_null() {
            arguments = Value::Object(Map::new());
        }
        if let Value::Object(arguments) = &mut arguments {
            arguments.extend(words);
        }
        let continuation = request.continuation.take();
        let PipelineParts { sealer, held, .. } = &self.parts;
        let binding = Binding::new(sealer, held, &revocations, &request, now_ms);
        let (brought, given) = match continuation {
            None if request.arguments == Arguments::InCursor => {
                return Err(Reason::Malformed.into());
            }
            None => (Brought::Nothing, Map::new()),
            Some(Continuation::State { state: None, answers }) => (Brought::Nothing, answers),
            Some(Continuation::Cursor(text)) => {
                let (brought, carried) = binding.open_cursor(&tool, &text)?;
                arguments = carried.unwrap_or(arguments);
                (brought, Map::new())
            }
            Some(Continuation::State { state: Some(text), answers }) => {
                match binding.open_state(&arguments, &text) {
                    Ok((id, memory, opened)) => (Brought::Round { id, memory, opened }, answers),
                    Err(Refusal::Continuation { reason: Reason::Expired, .. })
                        if tool.definition().takes_expired_state =>
                    {
                        (Brought::TooLate, Map::new())
                    }
                    Err(refusal) => return Err(refusal),
                }
            }
        };
        Ok((Call { tool, request, now_ms, revocations, brought, arguments }, given))
    }

    /// One atomic step for the idempotency key, for what is redeemed once, or for both. Who wants
    /// what somebody is at waits for it.
    pub(crate) async fn reserve(
        &self,
        waits: &Waits<'_>,
        wanted: Option<CallRequest>,
        journal: &Arc<CallJournal>,
    ) -> Result<Turn, Refusal> {
        if waits.cancel.is_cancelled() {
            return Err(Refusal::Cancelled);
        }
        let Some(wanted) = wanted else {
            return Ok(Turn::Make(Permit::default()));
        };
        let until = tokio::time::Instant::now() + waits.time_limit;
        let mut has_joined = false;
        loop {
            let own = Arc::clone(journal);
            let (held, principal) = (self.parts.held.clone(), waits.principal.clone());
            let has_key = waits.has_key;
            let reserve = move |_: &CallJournal, now_ms| {
                // What comes of it will be kept, however much is kept for its caller by then.
                if has_key
                    && !held.may_owe(&principal, now_ms)?
                    && own.status(&wanted, now_ms)? == Status::Absent
                {
                    return Ok(None);
                }
                let reserved = own.reserve(&wanted, &mut rand::rng(), now_ms)?;
                Ok(Some(Delivered { journal: own, reserved, now_ms }))
            };
            let Some(delivered) = self.step(journal, reserve).await? else {
                return Err(Refusal::Quota);
            };
            let (call_id, is_here) = match delivered.take() {
                Reserved::New(reservation) => {
                    let flight = Some(self.flights.start(reservation.call_id()));
                    let record = OpenRecord { reservation, journal: Arc::clone(journal) };
                    return Ok(Turn::Make(Permit { record: Some(record), flight }));
                }
                Reserved::Committed { outcome, .. } => {
                    return self.read(waits.principal, outcome, journal).await.map(Turn::Made);
                }
                Reserved::Mismatch => return Err(Refusal::Mismatch),
                Reserved::Replayed => return Err(Reason::Replayed.into()),
                Reserved::Ambiguous { .. } => return Err(Refusal::Ambiguous),
                Reserved::InFlight { call_id, is_here } => (call_id, is_here),
            };
            if !std::mem::replace(&mut has_joined, true) {
                self.metrics.joins.increment();
            }
            let over = async {
                if is_here {
                    self.flights.end_of(call_id).await;
                }
                // Another process may be at it, or this one is about to say so.
                tokio::time::sleep(JOIN_PAUSE).await;
            };
            tokio::select! {
                () = over => {}
                () = waits.cancel.cancelled() => return Err(Refusal::Cancelled),
                () = tokio::time::sleep_until(until) => return Err(Refusal::InFlight),
            }
        }
    }

    /// Calls the tool and records what came of it, in a task of its own: whatever becomes of the
    /// caller, a call that is recorded runs to its record.
    async fn perform(
        self: &Arc<Self>,
        call: &Call,
        checked: Checked,
        permit: Permit,
        place: Place,
    ) -> Result<Recorded, Refusal> {
        let definition = call.tool.definition();
        let runs_on = permit.record.is_some() || call.request.runs_on || !definition.is_cancellable;
        let cancel = CancellationToken::new();
        let unit = Unit {
            name: definition.name.clone(),
            time_limit: definition.time_limit,
            context: Arc::new(self.context(call, &checked, &permit, cancel.clone())),
            position: call.position(),
            asks_again: call.asks_again(&checked),
            ready: checked.ready,
            stop: checked.stop,
            principal: call.request.caller.principal().clone(),
        };
        let work = Arc::clone(self).work(unit, permit, place);
        let mut task = Task { handle: tokio::spawn(work), cancel, runs_on };
        tokio::select! {
            ended = tokio::time::timeout(definition.time_limit + TIME_LIMIT_GRACE, &mut task.handle) =>
                match ended {
                    Ok(Ok(ended)) => ended,
                    Ok(Err(_)) => Err(Refusal::Broken),
                    Err(_) => Err(Refusal::TimedOut),
                },
            () = call.request.cancel.cancelled() => Err(Refusal::Cancelled),
        }
    }

    async fn work(
        self: Arc<Self>,
        unit: Unit,
        permit: Permit,
        place: Place,
    ) -> Result<Recorded, Refusal> {
        let Unit { name, time_limit, context, position, asks_again, ready, stop, principal } = unit;
        let ran = match asks_again {
            Some(asked) => Ran::Ended(asked),
            None => {
                let called = AssertUnwindSafe(ready.call(context, position)).catch_unwind();
                let called = tokio::select! {
                    // First: a tool that is stopped must not seem to have ended.
                    biased;
                    () = stop.cancelled() => None,
                    called = tokio::time::timeout(time_limit, called) => Some(called),
                };
                match called {
                    None => Ran::Not(Refusal::Cancelled),
                    Some(Err(_)) => Ran::Not(Refusal::TimedOut),
                    Some(Ok(Err(panic))) => {
                        tracing::error!(tool = name, panic = panic_text(&*panic), "a tool broke");
                        Ran::Not(Refusal::Broken)
                    }
                    Some(Ok(Ok(Ok(outcome)))) => Ran::Ended(recorded(outcome)),
                    Some(Ok(Ok(Err(error)))) => {
                        let ToolError { message, data, code, has_no_effect } = error;
                        let failed = Recorded::Failed { message, data, code };
                        if has_no_effect { Ran::NoEffect(failed) } else { Ran::Ended(failed) }
                    }
                }
            }
        };
        self.conclude(&name, &principal, ran, permit, place).await
    }

    /// Records how a call ended, if it is to be.
    pub(crate) async fn conclude(
        &self,
        name: &str,
        principal: &VerifiedPrincipal,
        ran: Ran,
        permit: Permit,
        place: Place,
    ) -> Result<Recorded, Refusal> {
        let Permit { mut record, flight } = permit;
        let ended = match ran {
            Ran::Ended(recorded) => Ok(recorded),
            Ran::NoEffect(recorded) => {
                if let Some(OpenRecord { mut reservation, journal }) = record.take() {
                    let release =
                        move |journal: &CallJournal, now| journal.release(&mut reservation, now);
                    self.step(&journal, release).await?;
                }
                Ok(recorded)
            }
            Ran::Not(refusal) => Err(refusal),
        };
        let ended = ended.map(|recorded| recorded.or_fault(self.parts.result_bytes_max));
        if let Ok(Recorded::NotJson) = &ended {
            tracing::error!(tool = name, "a tool gave a JSON text that is none");
        }
        if let Some(OpenRecord { mut reservation, journal }) = record {
            match &ended {
                Ok(recorded) => {
                    let outcome = recorded.to_bytes().ok_or(Refusal::Broken)?;
                    let record = OpenRecord { reservation, journal };
                    // It was made, and who waits for it gets what came of it. That it is not
                    // recorded is logged, and whoever asks later is told that nobody knows.
                    let _ = self.commit(principal, record, outcome.into()).await;
                }
                Err(_) => {
                    let interrupt =
                        move |journal: &CallJournal, now| journal.interrupt(&mut reservation, now);
                    // As above: the refusal says more than that the store failed.
                    let _ = self.step(&journal, interrupt).await;
                }
            }
        }
        drop((flight, place));
        ended
    }

    /// Records an outcome, and counts it for its caller.
    async fn commit(
        &self,
        principal: &VerifiedPrincipal,
        record: OpenRecord,
        outcome: Bytes,
    ) -> Result<(), Refusal> {
        let OpenRecord { mut reservation, journal } = record;
        let (held, principal) = (self.parts.held.clone(), principal.clone());
        let is_counted = self.parts.counts_recorded && Arc::ptr_eq(&journal, &self.parts.journal);
        let counts = is_counted.then(|| Arc::clone(&self.recorded));
        let commit = move |journal: &CallJournal, now| {
            let (bytes, mut rng) = (outcome.len(), rand::rng());
            journal.commit_any(&mut reservation, &principal, outcome, &held, &mut rng, now)?;
            if let Some(recorded) = counts {
                recorded.add(&held, &principal, bytes, now);
            }
            Ok::<_, JournalError>(())
        };
        self.step(&journal, commit).await
    }

    /// What a tool knows of its call.
    fn context(
        &self,
        call: &Call,
        checked: &Checked,
        permit: &Permit,
        cancel: CancellationToken,
    ) -> CallContext {
        let Request {
            caller,
            operation,
            name,
            events,
            abilities,
            log_level,
            budget_bytes,
            noted,
            ..
        } = &call.request;
        let reservation = permit.record.as_ref().map(|record| &record.reservation);
        CallContext {
            principal: caller.principal().clone(),
            operation: *operation,
            name: name.clone(),
            fingerprint: page_fingerprint(&call.tool, &call.arguments),
            now: UnixTime::from_secs(call.now_ms / 1000),
            held: self.parts.held.clone(),
            now_ms: call.now_ms,
            sealer: Arc::clone(&self.parts.sealer),
            round: match &call.brought {
                Brought::Nothing | Brought::Page { .. } => Round::First,
                Brought::TooLate => Round::Expired,
                Brought::Round { memory, .. } => Round::Opened(memory.state.clone()),
            },
            answers: checked.answers.clone(),
            effect_key: reservation.map(|reservation| reservation.call_id().to_string()),
            is_again: reservation.is_some_and(Reservation::is_again),
            cancel,
            events: events.clone(),
            abilities: *abilities,
            log_level: log_level.clone(),
            budget_bytes: *budget_bytes,
            noted: Arc::clone(noted),
            emitted: AtomicU64::new(0),
        }
    }

    /// An outcome of the journal.
    async fn read(
        &self,
        principal: &VerifiedPrincipal,
        outcome: journal::Outcome,
        journal: &Arc<CallJournal>,
    ) -> Result<Recorded, Refusal> {
        let principal = principal.clone();
        let held = self.parts.held.clone();
        // A record may be from before the limit was lowered.
        let bytes_max = self.parts.result_bytes_max.max(MAX_RESULT_BYTES);
        let bytes_max = bytes_max.saturating_mul(RECORD_BYTES_PER_BYTE);
        let read = move |journal: &CallJournal, now| {
            journal.outcome_bytes(&outcome, &principal, &held, bytes_max, now)
        };
        let bytes = self.step(journal, read).await?;
        Recorded::from_bytes(&bytes).ok_or(Refusal::Broken)
    }

    /// A step of a journal, which waits for the disk.
    pub(crate) async fn step<T: Send + 'static>(
        &self,
        journal: &Arc<CallJournal>,
        step: impl FnOnce(&CallJournal, u64) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (journal, now) = (Arc::clone(journal), self.parts.clock.now_ms());
        let done = tokio::task::spawn_blocking(move || step(&journal, now)).await;
        done.map_err(|_| Refusal::Unavailable)?.map_err(|error| {
            tracing::error!(%error, "the journal did not take a step");
            Refusal::Unavailable
        })
    }

    /// What the tool gave, for this caller.
    fn seal(&self, call: &Call, recorded: Recorded) -> Result<Reply, Refusal> {
        let Call { tool, request, revocations, brought, arguments, .. } = call;
        let PipelineParts { sealer, held, clock, .. } = &self.parts;
        // The call may have taken longer than what it seals is good for.
        let binding = Binding::new(sealer, held, revocations, request, clock.now_ms());
        let mut rng = rand::rng();
        Ok(match recorded {
            Recorded::Done(content) => Reply::Done(content),
            Recorded::Page { items, next } => {
                let seal = |next| binding.seal_cursor(&mut rng, tool, arguments, brought, next);
                Reply::Page { items, next: next.as_ref().map(seal).transpose()? }
            }
            Recorded::NeedsInput { inputs, answers, state, round } => {
                let memory = Memory { inputs: inputs.clone(), answers, state };
                let state = binding.seal_state(&mut rng, arguments, brought, round, &memory)?;
                let missing = memory.inputs.without(&memory.answers);
                Reply::NeedsInput { inputs: missing, state }
            }
            Recorded::Failed { message, data, code } => Reply::Failed { message, data, code },
            Recorded::TooLarge => return Err(Refusal::TooLarge),
            // Of a tool that is not ours: the scope of a call has its upstream in it.
            Recorded::Relayed(_) | Recorded::NotJson => return Err(Refusal::Broken),
        })
    }
}

/// What a task needs to make a call.
struct Unit {
    name: String,
    time_limit: Duration,
    context: Arc<CallContext>,
    position: Option<Position>,
    asks_again: Option<Recorded>,
    ready: Box<dyn Ready>,
    stop: CancellationToken,
    principal: VerifiedPrincipal,
}

/// A call in a task. Dropped, it ends the call, unless that runs on.
pub(crate) struct Task {
    pub(crate) handle: JoinHandle<Result<Recorded, Refusal>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) runs_on: bool,
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.runs_on {
            self.cancel.cancel();
            self.handle.abort();
        }
    }
}

impl Call {
    fn waits(&self) -> Waits<'_> {
        Waits {
            principal: self.request.caller.principal(),
            cancel: &self.request.cancel,
            time_limit: self.tool.definition().time_limit,
            has_key: self.request.key.is_some(),
        }
    }

    /// What the journal is to know of this call, if anything: calls without a key that redeem
    /// nothing are not recorded.
    fn to_be_recorded(&self, checked: &Checked) -> Result<Option<CallRequest>, Refusal> {
        let Self { tool, request, brought, arguments, .. } = self;
        let definition = tool.definition();
        let key = request.key.as_deref();
        if !key.is_none_or(is_key) {
            return Err(Refusal::BadKey);
        }
        let principal = request.caller.principal();
        let given = json!({"arguments": arguments, "answers": checked.answers.to_value()});
        let given = args_fingerprint(&given);
        let wanted = match (brought, key) {
            (Brought::Round { id, .. }, _) if definition.is_single_use => {
                let redemption = Redemption::new(
                    id.0,
                    principal,
                    request.operation,
                    None,
                    &request.name,
                    given.as_bytes(),
                );
                CallRequest::single_use(redemption, definition.class)
            }
            (_, None) => return Ok(None),
            (brought, Some(key)) => {
                let step = match brought {
                    Brought::Nothing | Brought::TooLate => Vec::new(),
                    Brought::Round { id, .. } => id.0.to_vec(),
                    Brought::Page { position, .. } => Sha256::digest(position.as_bytes()).to_vec(),
                };
                let (operation, name) = (request.operation, request.name.as_str());
                let scope = JournalScope::new(principal, operation, None, name, Some(key), &step);
                CallRequest::keyed(scope, &given, definition.class)
            }
        };
        Ok(Some(wanted.starting_at_once()))
    }

    fn position(&self) -> Option<Position> {
        match &self.brought {
            Brought::Page { position, .. } => Some(position.clone()),
            _ => None,
        }
    }

    /// The same questions once more, if some are not answered.
    fn asks_again(&self, checked: &Checked) -> Option<Recorded> {
        let Brought::Round { memory, .. } = &self.brought else { return None };
        if checked.missing.is_empty() {
            return None;
        }
        Some(Recorded::NeedsInput {
            inputs: memory.inputs.clone(),
            answers: checked.answers.to_map(),
            state: memory.state.clone(),
            round: RoundId::generate(&mut rand::rng()),
        })
    }
}

/// Checks arguments and answers, so that the tool can be called.
fn check(
    call: &Call,
    given: Map<String, Value>,
    ends: Option<DuplexEnds>,
) -> Result<Checked, Refusal> {
    let Call { tool, brought, arguments, .. } = call;
    if let Some(fault) = tool.fault_of(arguments) {
        return Err(Refusal::BadArguments(fault));
    }
    let stop = ends.as_ref().map(|ends| ends.stop.clone()).unwrap_or_default();
    let ready = Arc::clone(&tool.tool).prepare(arguments.clone(), ends);
    let ready = ready.map_err(|error| Refusal::BadArguments(error.to_string()))?;
    let (answers, missing) = match brought {
        Brought::Round { memory, .. } => {
            let mut all = memory.answers.clone();
            all.extend(given);
            let matched = memory.inputs.match_answers(all);
            matched.map_err(|error| Refusal::BadAnswers(error.to_string()))?
        }
        // Nothing was asked: only what may be answered all the same is an answer.
        Brought::Nothing if !tool.definition().is_single_use => {
            let matched = tool.definition().up_front.match_answers(given);
            let (answers, _) = matched.map_err(|error| Refusal::BadAnswers(error.to_string()))?;
            (answers, Inputs::new())
        }
        _ => (Answers::default(), Inputs::new()),
    };
    Ok(Checked { ready, answers, missing, stop })
}

/// What a tool gave, as it is recorded.
fn recorded(outcome: Outcome) -> Recorded {
    match outcome {
        Outcome::Done(content) => Recorded::Done(content),
        Outcome::Page { items, next } => Recorded::Page { items, next },
        Outcome::NeedsInput { inputs, state } => match inputs.fault() {
            None => {
                let round = RoundId::generate(&mut rand::rng());
                Recorded::NeedsInput { inputs, answers: Map::new(), state, round }
            }
            Some(message) => {
                tracing::error!(message, "a tool asks what cannot be asked");
                Recorded::Failed { message, data: None, code: None }
            }
        },
    }
}

pub(crate) fn is_key(key: &str) -> bool {
    (1..=MAX_KEY_CHARS).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
