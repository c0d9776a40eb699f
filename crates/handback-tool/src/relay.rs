//! Calls of what is not ours.
//!
//! A relayed call goes the way of every call. What is the pipeline's business happens here: who may
//! call, how much, what came back, what is recorded, the audit. What is sent to the upstream and what
//! is made of its answer is the gateway's:
//!
//! ```text
//! enter (authorise, limits) → open → [arguments] → make (reserve, [ask the upstream], commit)
//! → [bound the result] → seal → end
//! ```
//!
//! The types lead through it: there is no way to make a call that was not let in, and the line of the
//! audit is written however it ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use handback_identity::{Caller, VerifiedPrincipal};
use handback_store::Millis;
use handback_store::journal::{CallRequest, JournalScope, Redemption, Status, ToolClass};
use handback_store::revocations::Revocations;
use handback_token::{ArgsFingerprint, Opened, Operation, State, TokenFingerprint};
use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::audit::Entry;
use crate::continuation::{Binding, RoundId};
use crate::limits::Place;
use crate::metrics::{OTHER, REASONS};
use crate::outcome::raw;
use crate::pipeline::{
    CallHeld, CallJournal, Permit, Pipeline, PipelineParts, Ran, Shared, TIME_LIMIT_GRACE, Task,
    Turn, Waits, is_key,
};
use crate::record::Recorded;
use crate::request::{Arguments, Continuation, Refusal, Request, Surface};

/// A call of something that is not ours, as a surface read it.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal: nothing may be forgotten")]
pub struct Relay {
    /// Who calls.
    pub caller: Caller,
    /// Where it came in.
    pub surface: Surface,
    /// What is asked for.
    pub operation: Operation,
    /// The name that it goes by here.
    pub name: String,
    /// The name that the upstream has for it: what is recorded goes by it.
    pub own_name: String,
    /// The upstream that has it.
    pub upstream: String,
    /// The idempotency key, if there is one.
    pub key: Option<String>,
    /// The sealed state that came back, if some did: for the audit.
    pub state: Option<String>,
    /// What cancels it, besides dropping its future.
    pub cancel: CancellationToken,
}

/// What an upstream gave, as it is recorded: with its own state and names in it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Relayed {
    /// The JSON of the result, or of the error.
    #[serde(with = "raw")]
    pub json: Bytes,
    /// Whether it is an error of the protocol.
    pub is_error: bool,
    /// The id of the round that it asks for, if it asks: a replay asks for the same one.
    pub round: Option<[u8; 16]>,
    /// Why the gateway says this in the place of the upstream, if it does: a word for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// It is the caller's own: only its size is shown.
impl fmt::Debug for Relayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { json, is_error, .. } = self;
        write!(f, "Relayed({} bytes, is_error: {is_error})", json.len())
    }
}

/// Why an upstream gave nothing.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "each is treated in its own way")]
pub enum Failure {
    /// It was not asked, or says so: this is what the caller is told, and the key is free again.
    NothingHappened(Relayed),
    /// Whether it did anything is not known.
    Lost,
    /// It took too long; whether it did anything is not known.
    TimedOut,
    /// It did it, and what it gave is larger than it may be.
    TooLarge,
}

/// What a call is recorded by.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Claim {
    /// The fingerprint of arguments and answers.
    pub given: ArgsFingerprint,
    /// The round that came back.
    pub round: Option<[u8; 16]>,
    /// Whether that round is good for one use only.
    pub is_single_use: bool,
    /// What the tool promises of being called twice.
    pub class: ToolClass,
    /// Where it is recorded, if not in the journal of the pipeline.
    pub journal: Option<Arc<CallJournal>>,
}

/// A first round with a key of its client, and where that may have been made before.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Candidates {
    /// Who calls.
    pub principal: VerifiedPrincipal,
    /// What is asked for.
    pub operation: Operation,
    /// The idempotency key.
    pub key: String,
    /// The fingerprint of arguments and answers.
    pub given: ArgsFingerprint,
    /// Upstreams, and the names that they have for it.
    pub places: Vec<(String, String)>,
}

/// A call that was let in.
pub struct Entered {
    shared: Arc<Shared>,
    request: Request,
    own_name: String,
    entry: Option<Entry>,
    place: Option<Place>,
    revocations: Revocations,
    now_ms: Millis,
    record: Option<OwnRecord>,
    passing: Vec<Passing>,
    is_replay: bool,
}

/// A held value that is put into the arguments of a call.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Passing {
    /// Its bytes there.
    pub bytes: u64,
    /// From where, to where, how much of it: for the audit.
    pub what: Value,
}

/// Where a call is recorded under a key that its gateway chose.
pub struct OwnRecord {
    shared: Arc<Shared>,
    journal: Arc<CallJournal>,
    wanted: CallRequest,
    principal: VerifiedPrincipal,
}

impl OwnRecord {
    /// Takes the record away, with what is kept beside it: nobody uses the key again. Nobody waits for
    /// that, and what cannot be taken away ends with its time.
    pub fn forget(self) {
        // Without a runtime the process is ending.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn_blocking(move || {
            let Self { shared, journal, wanted, principal } = self;
            let PipelineParts { held, clock, .. } = &shared.parts;
            if let Err(error) = journal.forget(&wanted, &principal, held, clock.now_ms()) {
                tracing::warn!(%error, "the record of a call that was delivered stays");
            }
        });
    }
}

impl fmt::Debug for OwnRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnRecord").finish_non_exhaustive()
    }
}

/// A round of an exchange that came back, opened.
#[derive(Debug)]
pub struct RoundOpened {
    id: RoundId,
    memory: Vec<u8>,
    opened: Opened<State>,
}

impl RoundOpened {
    /// Its id: what is redeemed once goes by it.
    #[must_use]
    pub const fn id(&self) -> [u8; 16] {
        self.id.0
    }

    /// What was to be remembered.
    #[must_use]
    pub fn memory(&self) -> &[u8] {
        &self.memory
    }
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Made {
    /// What the upstream gave.
    pub relayed: Relayed,
    /// Whether that was to an earlier try.
    pub is_replay: bool,
}

impl Pipeline {
    /// Lets a relayed call in: finds out whether its caller may make it, and whether it has room for
    /// one more.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub async fn enter(&self, relay: Relay) -> Result<Entered, Refusal> {
        let Relay { caller, surface, operation, name, own_name, upstream, key, state, cancel } =
            relay;
        let arguments = Arguments::Given(Value::Null);
        let mut request = Request::new(caller, surface, operation, name, arguments).cancel(cancel);
        request.upstream = Some(upstream);
        request.key = key;
        let answers = serde_json::Map::new();
        request.continuation =
            state.map(|state| Continuation::State { state: Some(state), answers });
        let parts = &self.shared.parts;
        let entry = Entry::start(&parts.audit, &parts.clock, rand::rng().random(), &request);
        match self.let_in(&request, &own_name) {
            Ok(place) => {
                let now_ms = parts.clock.now_ms();
                let revocations = parts.revocations.current(now_ms).await;
                let shared = Arc::clone(&self.shared);
                let (entry, place) = (Some(entry), Some(place));
                Ok(Entered {
                    shared,
                    request,
                    own_name,
                    entry,
                    place,
                    revocations,
                    now_ms,
                    record: None,
                    passing: Vec::new(),
                    is_replay: false,
                })
            }
            Err(refusal) => {
                entry.end_relayed(&Err(&refusal));
                Err(refusal)
            }
        }
    }

    /// The number of the first place where a call is recorded, whatever came of it; nothing, if it is
    /// at none.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unavailable`], if the journal cannot be read.
    pub async fn first_recorded(&self, candidates: &Candidates) -> Result<Option<usize>, Refusal> {
        let Candidates { principal, operation, key, given, places } = candidates;
        let wanted = |(upstream, name): &(String, String)| {
            let (upstream, key) = (Some(upstream.as_str()), Some(key.as_str()));
            let scope = JournalScope::new(principal, *operation, upstream, name, key, &[]);
            CallRequest::keyed(scope, given, ToolClass::Unknown)
        };
        let wanted: Vec<_> = places.iter().map(wanted).collect();
        let look = move |journal: &CallJournal, now_ms| {
            for (number, wanted) in wanted.iter().enumerate() {
                // With other arguments it is another call.
                if !matches!(journal.status(wanted, now_ms)?, Status::Absent | Status::Mismatch) {
                    return Ok(Some(number));
                }
            }
            Ok(None)
        };
        self.shared.step(&self.shared.parts.journal, look).await
    }

    fn let_in(&self, request: &Request, own_name: &str) -> Result<Place, Refusal> {
        let upstream = request.upstream.as_deref().unwrap_or_default();
        let Request { caller, name, .. } = request;
        if !self.registry().allows_relayed(caller, name, own_name, upstream) {
            return Err(Refusal::NotFound);
        }
        if !request.key.as_deref().is_none_or(is_key) {
            return Err(Refusal::BadKey);
        }
        self.shared.admit(request.caller.principal())
    }
}

impl Entered {
    /// Where values are held for the caller.
    #[must_use]
    pub fn held(&self) -> &CallHeld {
        &self.shared.parts.held
    }

    /// Gives a call that has no key one that the gateway chose.
    pub fn keyed(&mut self, key: String) {
        self.request.key.get_or_insert(key);
    }

    /// The time of the call.
    #[must_use]
    pub const fn now_ms(&self) -> Millis {
        self.now_ms
    }

    /// What is revoked.
    pub const fn revocations(&self) -> &Revocations {
        &self.revocations
    }

    /// What goes to the upstream by reference, if the call is made: that is written down before it is
    /// sent, and not at all of a replay, or of a call that is refused.
    pub fn passes(&mut self, passing: Vec<Passing>) {
        self.passing = passing;
    }

    /// Writes, before the upstream is called, what of the call is not written yet.
    fn write_start(&mut self) {
        if let Some(entry) = &self.entry {
            entry.begun();
        }
        for Passing { bytes, what } in std::mem::take(&mut self.passing) {
            self.shared.metrics.referenced_bytes.add(bytes);
            if let Some(entry) = &self.entry {
                entry.passed(what);
            }
        }
    }

    /// Whether what it is refused with is what came of an earlier try.
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        self.is_replay
    }

    /// Writes down why the gateway refuses it, with its last line.
    pub fn note_reason(&self, reason: &'static str) {
        // The first reason counts.
        let _ = self.request.noted.reason.set(reason);
    }

    fn binding_at(&self, now_ms: Millis) -> Binding<'_> {
        let parts = &self.shared.parts;
        Binding::new(&parts.sealer, &parts.held, &self.revocations, &self.request, now_ms)
    }

    /// Opens the state that came back.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub fn open(
        &self,
        arguments: Option<&ArgsFingerprint>,
        state: &str,
    ) -> Result<RoundOpened, Refusal> {
        let (id, memory, opened) = self.binding_at(self.now_ms).open_round(arguments, state)?;
        Ok(RoundOpened { id, memory, opened })
    }

    /// Seals what the upstream wants to know again.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub fn seal(
        &self,
        arguments: Option<&ArgsFingerprint>,
        before: Option<&RoundOpened>,
        round: [u8; 16],
        memory: &[u8],
    ) -> Result<String, Refusal> {
        let before = before.map(|before| &before.opened);
        let rng = &mut rand::rng();
        // The call may have taken longer than what it seals is good for.
        let binding = self.binding_at(self.shared.parts.clock.now_ms());
        binding.seal_round(rng, arguments, before, RoundId(round), memory)
    }

    /// Makes the call, once: `work` asks the upstream. With a key, or if a round is redeemed, it is
    /// recorded before that, and runs to its record whatever becomes of the caller; else dropping
    /// this cancels it.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub async fn make(
        &mut self,
        claim: Option<Claim>,
        time_limit: Duration,
        work: BoxFuture<'static, Result<Relayed, Failure>>,
    ) -> Result<Made, Refusal> {
        let place = self.place.take().ok_or(Refusal::Broken)?;
        let wanted = claim.as_ref().and_then(|claim| self.wanted(claim));
        let journal = claim.and_then(|claim| claim.journal);
        self.record = wanted.zip(journal.clone()).map(|(wanted, journal)| OwnRecord {
            shared: Arc::clone(&self.shared),
            journal,
            wanted,
            principal: self.request.caller.principal().clone(),
        });
        let journal = journal.unwrap_or_else(|| Arc::clone(&self.shared.parts.journal));
        let principal = self.request.caller.principal();
        let has_key = self.request.key.is_some();
        let waits = Waits { principal, cancel: &self.request.cancel, time_limit, has_key };
        let (recorded, is_replay) = match self.shared.reserve(&waits, wanted, &journal).await? {
            Turn::Made(recorded) => (recorded, true),
            Turn::Make(permit) => {
                self.write_start();
                (self.perform(permit, place, time_limit, work).await?, false)
            }
        };
        match recorded {
            Recorded::Relayed(relayed) => Ok(Made { relayed, is_replay }),
            Recorded::TooLarge => {
                self.is_replay = is_replay;
                Err(Refusal::TooLarge)
            }
            _ => Err(Refusal::Broken),
        }
    }

    /// Where it is recorded, if it was made and that is not the journal of the pipeline.
    pub const fn take_record(&mut self) -> Option<OwnRecord> {
        self.record.take()
    }

    /// What the journal is to know of it.
    fn wanted(&self, claim: &Claim) -> Option<CallRequest> {
        let Request { caller, operation, upstream, key, .. } = &self.request;
        let name = &self.own_name;
        let (principal, upstream) = (caller.principal(), upstream.as_deref());
        let wanted = match (claim.round, key) {
            (Some(id), _) if claim.is_single_use => {
                let given = claim.given.as_bytes();
                let redemption = Redemption::new(id, principal, *operation, upstream, name, given);
                CallRequest::single_use(redemption, claim.class)
            }
            (round, Some(key)) => {
                let step = round.as_ref().map_or(&[][..], |round| round);
                let scope =
                    JournalScope::new(principal, *operation, upstream, name, Some(key), step);
                CallRequest::keyed(scope, &claim.given, claim.class)
            }
            (_, None) => return None,
        };
        Some(wanted.starting_at_once())
    }

    async fn perform(
        &self,
        permit: Permit,
        place: Place,
        time_limit: Duration,
        work: BoxFuture<'static, Result<Relayed, Failure>>,
    ) -> Result<Recorded, Refusal> {
        let (shared, name) = (Arc::clone(&self.shared), self.request.name.clone());
        let principal = self.request.caller.principal().clone();
        let runs_on = permit.record.is_some();
        let work = async move {
            let ran = ran(tokio::time::timeout(time_limit, work).await);
            shared.conclude(&name, &principal, ran, permit, place).await
        };
        let cancel = &self.request.cancel;
        if !runs_on {
            // Nothing outlives its caller, so there is nothing to be set apart.
            return tokio::select! {
                ended = work => ended,
                () = cancel.cancelled() => Err(Refusal::Cancelled),
            };
        }
        let (handle, own) = (tokio::spawn(work), CancellationToken::new());
        let mut task = Task { handle, cancel: own, runs_on };
        tokio::select! {
            ended = tokio::time::timeout(time_limit + TIME_LIMIT_GRACE, &mut task.handle) =>
                match ended {
                    Ok(Ok(ended)) => ended,
                    Ok(Err(_)) => Err(Refusal::Broken),
                    Err(_) => Err(Refusal::TimedOut),
                },
            () = cancel.cancelled() => Err(Refusal::Cancelled),
        }
    }

    /// Writes down how it ended; `minted` is the state that was handed out.
    pub fn end(mut self, ended: Result<(&Made, Option<&str>), &Refusal>) {
        if let Some(entry) = self.entry.take() {
            match ended {
                Err(_) if self.is_replay => {
                    entry.end_with(|line| line.decision = Some("replayed"));
                }
                ended => entry.end_relayed(&ended),
            }
        }
    }
}

impl fmt::Debug for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entered").field("name", &self.request.name).finish_non_exhaustive()
    }
}

fn ran(ended: Result<Result<Relayed, Failure>, tokio::time::error::Elapsed>) -> Ran {
    match ended {
        Ok(Ok(relayed)) => Ran::Ended(Recorded::Relayed(relayed)),
        Ok(Err(Failure::NothingHappened(relayed))) => Ran::NoEffect(Recorded::Relayed(relayed)),
        Ok(Err(Failure::TooLarge)) => Ran::Ended(Recorded::TooLarge),
        Ok(Err(Failure::Lost)) => Ran::Not(Refusal::Ambiguous),
        Ok(Err(Failure::TimedOut)) | Err(_) => Ran::Not(Refusal::TimedOut),
    }
}

impl Entry {
    /// The end of a relayed call.
    fn end_relayed(self, ended: &Result<(&Made, Option<&str>), &Refusal>) {
        self.end_with(|line| match ended {
            Ok((made, minted)) => {
                let Made { relayed: Relayed { is_error, reason, .. }, is_replay } = made;
                line.decision = Some(match (is_replay, is_error, reason) {
                    (true, ..) => "replayed",
                    (_, true, _) | (_, _, Some(_)) => "failed",
                    _ => "answered",
                });
                if let Some(reason) = reason.as_deref().filter(|_| !is_replay) {
                    let known = REASONS.into_iter().find(|known| *known == reason);
                    line.reason.get_or_insert_with(|| known.unwrap_or(OTHER));
                }
                line.minted = minted.map(|token| TokenFingerprint::of(token).to_string());
            }
            Err(refusal) => line.refuse(refusal),
        });
    }
}
