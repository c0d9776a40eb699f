//! Tasks: calls that go on without a connection.
//!
//! A call becomes a task at once if its tool says so, else when it has not ended after a moment. Its
//! record is durable before its id goes out. The id is a handle: it is of use to the caller that made
//! the call, and to nobody else. Questions of the call wait in the record for their answers.
//!
//! A record outlives the process. Work does not: what was cut off has failed, and whether it had its
//! effect is not known. A call with an idempotency key can be made again with the key, which then
//! tells.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use handback_identity::{Caller, VerifiedPrincipal, binding};
use handback_store::held::{HeldError, LookUp, NewValue, SpillId};
use handback_store::journal::InstanceId;
use handback_store::revocations::Subject;
use handback_store::{Change, Condition, Kv, KvBatch, Millis};
use handback_token::{Handle, HandleError, Operation, Reason};
use handback_tool::gate::Back;
use handback_tool::{Answer, CallHeld, Continuation, Pipeline, Refusal, Registry, Reply, Surface};
use jiff::Timestamp;
use rand::RngExt as _;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, CreateTaskResult, DetailedTask, GetTaskResult, Task, TaskPayload, TaskStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::McpServer;
use super::answers::{protocol_error, questions, tool_refusal, tool_result, typed};
use super::calls::{Incoming, UnderWay};
use crate::Clock;

/// When a call that has not ended becomes a task.
pub const SLOW_AFTER: Duration = Duration::from_secs(2);

/// Life of a record after its last change, unless held values live shorter than that.
pub const TASK_LIFE_MS: Millis = 60 * 60 * 1_000;

/// How often a client should ask.
const POLL_INTERVAL_MS: u64 = 500;

/// Bytes of questions that are kept in a record. Records do not count for the quota of their caller, who
/// has few of them that ask at a time.
const QUESTIONS_BYTES_MAX: usize = 256 << 10;

/// Bytes of a result that is read back at most.
const RESULT_BYTES_MAX: usize = 512 << 20;

/// Tasks of one caller that are under way at a time.
const TASKS_PER_CALLER_MAX: usize = 64;

/// Answers that wait for a task.
const UPDATES_WAITING_MAX: usize = 8;

/// The tasks of a server. Clones are the same tasks.
#[derive(Clone)]
pub struct Tasks(Arc<Shared>);

struct Shared {
    kv: Arc<dyn Kv>,
    held: CallHeld,
    clock: Clock,
    instance: [u8; 16],
    /// This start of the process.
    start: u64,
    live: Mutex<HashMap<Handle, Live>>,
}

/// A task that this process is at.
struct Live {
    owner: String,
    cancel: CancellationToken,
    answers: mpsc::Sender<Update>,
}

/// Answers to the questions of one round. Those that come late are not taken for answers to the
/// questions after them, which may have the same names.
struct Update {
    round: u64,
    answers: Map<String, Value>,
}

/// A record, as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    owner: String,
    instance: [u8; 16],
    start: u64,
    created_ms: Millis,
    updated_ms: Millis,
    /// How long one round of it may take, or the answers to what it asks.
    longest_ms: Millis,
    /// How often it has asked.
    round: u64,
    state: State,
    /// The time at which the record ends; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until_ms: Option<Millis>,
    /// The tool that was called; nothing, of a record that was written before it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<TaskTool>,
}

/// The tool that a task is a call of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct TaskTool {
    /// The name that was called.
    pub name: String,
    /// The name that the upstream has for it.
    pub own_name: String,
    /// The upstream; nothing, if the tool is ours.
    pub upstream: Option<String>,
}

impl TaskTool {
    /// Whether this caller may use it.
    fn is_for(&self, caller: &Caller, registry: &Registry) -> bool {
        match &self.upstream {
            Some(upstream) => registry.allows_relayed(caller, &self.name, &self.own_name, upstream),
            None => registry.named(caller, Operation::Call, &self.own_name).is_some(),
        }
    }
}

/// What became of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Working,
    /// The questions, as the protocol has them.
    InputRequired(Value),
    /// The result, as it was given: of records that were written before results counted for a quota.
    Completed(Box<RawValue>),
    /// The result is held under this id.
    CompletedLong([u8; 16]),
    Failed(Value),
    Cancelled,
    /// The error is held under this id.
    FailedLong([u8; 16]),
}

/// Makes the state of an end that is held under an id.
type StateOf = fn([u8; 16]) -> State;

/// The end of a task, as it is given.
enum End {
    Completed(Box<RawValue>),
    Failed(Value),
    Cancelled,
}

impl Tasks {
    /// Tasks in a store.
    #[must_use]
    pub fn new(kv: Arc<dyn Kv>, held: CallHeld, clock: Clock, instance: InstanceId) -> Self {
        Self(Arc::new(Shared {
            kv,
            held,
            clock,
            instance: *instance.as_bytes(),
            start: rand::rng().random(),
            live: Mutex::default(),
        }))
    }

    /// A call that is under way becomes a task, which is recorded when this returns. One that cannot
    /// become a task comes back, with the reason: it may have been at work.
    ///
    /// # Errors
    ///
    /// The call, and why it is no task: its caller has too many, or too much is kept for it, or the store
    /// is gone.
    pub async fn adopt<C: Rounds>(
        &self,
        new: NewTask,
        call: C,
    ) -> Result<CreateTaskResult, (C, ErrorData)> {
        let NewTask { owner, tool, longest, patience, cancel } = new;
        // What comes of it will be kept, however much is kept for its caller by then.
        if let Err(refusal) = self.0.may_owe(&owner).await {
            return Err((call, protocol_error(&refusal)));
        }
        let id = Handle::generate(&mut rand::rng());
        let binding = owner.binding();
        let (answers, updates) = mpsc::channel(UPDATES_WAITING_MAX);
        {
            let mut live = self.0.lock();
            if live.values().filter(|task| task.owner == binding).count() >= TASKS_PER_CALLER_MAX {
                return Err((call, protocol_error(&Refusal::Busy)));
            }
            live.insert(id, Live { owner: binding.clone(), cancel: cancel.clone(), answers });
        }
        let listed = Listed { tasks: self.clone(), id };
        let now = (self.0.clock)();
        let record = Record {
            owner: binding,
            instance: self.0.instance,
            start: self.0.start,
            created_ms: now,
            updated_ms: now,
            longest_ms: Millis::try_from(longest.max(patience).as_millis()).unwrap_or(Millis::MAX),
            round: 0,
            state: State::Working,
            until_ms: None,
            tool: Some(tool),
        };
        let record = self.0.dated(record);
        if let Err(error) = self.0.write(id, &record, Condition::Absent).await {
            return Err((call, error));
        }
        let task = record.task(id);
        let driver = Driver { call, owner, patience, listed, record, cancel, updates };
        tokio::spawn(driver.drive());
        Ok(CreateTaskResult::new(task))
    }

    /// What is known of a task, as JSON: its result is as it was given, to the byte.
    ///
    /// # Errors
    ///
    /// The JSON of the error object, if it is none of the caller's.
    pub async fn get_json(
        &self,
        pipeline: &Pipeline,
        caller: &Caller,
        id: &str,
    ) -> Result<String, String> {
        let known = self.known(pipeline, caller, id).await;
        let told = known.and_then(|(task, state)| {
            let task = serde_json::to_string(&task).map_err(|_| broken())?;
            let payload = match state {
                State::InputRequired(requests) => format!(r#","inputRequests":{requests}"#),
                State::Completed(result) => format!(r#","result":{}"#, result.get()),
                State::Failed(error) => format!(r#","error":{error}"#),
                _ => String::new(),
            };
            let task = task.strip_suffix('}').unwrap_or(&task);
            Ok(format!(r#"{task}{payload},"resultType":"complete"}}"#))
        });
        told.map_err(|error| serde_json::to_string(&error).unwrap_or_default())
    }

    /// A task of this caller, with its whole result.
    async fn known(
        &self,
        pipeline: &Pipeline,
        caller: &Caller,
        id: &str,
    ) -> Result<(Task, State), ErrorData> {
        let (id, record) = self.0.own(pipeline, caller, id).await?;
        let task = record.task(id);
        let owner = caller.principal();
        let state = match record.state {
            State::CompletedLong(spill) => {
                let result = serde_json::from_slice(&self.0.held_end(owner, spill).await?);
                State::Completed(result.map_err(|_| broken())?)
            }
            State::FailedLong(spill) => {
                let error = serde_json::from_slice(&self.0.held_end(owner, spill).await?);
                State::Failed(error.map_err(|_| broken())?)
            }
            state => state,
        };
        Ok((task, state))
    }

    /// What is known of a task.
    pub(super) async fn get(
        &self,
        pipeline: &Pipeline,
        caller: &Caller,
        id: &str,
    ) -> Result<GetTaskResult, ErrorData> {
        let (task, state) = self.known(pipeline, caller, id).await?;
        let payload = match state {
            State::Working => TaskPayload::Working,
            State::InputRequired(requests) => {
                TaskPayload::InputRequired { input_requests: typed(requests)? }
            }
            State::Completed(result) => {
                let result = serde_json::from_str(result.get());
                TaskPayload::Completed { result: result.map_err(|_| broken())? }
            }
            State::Failed(error) => TaskPayload::Failed { error: typed(error)? },
            State::Cancelled => TaskPayload::Cancelled,
            State::CompletedLong(_) | State::FailedLong(_) => return Err(broken()),
        };
        Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
    }

    /// Answers for a task. What was not asked for is nothing.
    pub(super) async fn update(
        &self,
        pipeline: &Pipeline,
        caller: &Caller,
        id: &str,
        answers: Map<String, Value>,
    ) -> Result<(), ErrorData> {
        let (id, record) = self.0.own(pipeline, caller, id).await?;
        let State::InputRequired(Value::Object(asked)) = record.state else { return Ok(()) };
        let answers: Map<_, _> =
            answers.into_iter().filter(|(name, _)| asked.contains_key(name)).collect();
        let sender = self.0.lock().get(&id).map(|live| live.answers.clone());
        if let Some(sender) = sender.filter(|_| !answers.is_empty()) {
            let busy = |_| protocol_error(&Refusal::Busy);
            sender.try_send(Update { round: record.round, answers }).map_err(busy)?;
        }
        Ok(())
    }

    /// The caller does not want it any more. A call that is recorded goes on to its record.
    pub(super) async fn cancel(
        &self,
        pipeline: &Pipeline,
        caller: &Caller,
        id: &str,
    ) -> Result<(), ErrorData> {
        let (id, _) = self.0.own(pipeline, caller, id).await?;
        let cancel = self.0.lock().get(&id).map(|live| live.cancel.clone());
        if let Some(cancel) = cancel {
            cancel.cancel();
        }
        Ok(())
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tasks({} under way)", self.0.lock().len())
    }
}

/// A task among those that this process is at, for as long as it is.
struct Listed {
    tasks: Tasks,
    id: Handle,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.tasks.0.lock().remove(&self.id);
    }
}

/// What a call that becomes a task is told by.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal: nothing may be forgotten")]
pub struct NewTask {
    /// Whose it is.
    pub owner: VerifiedPrincipal,
    /// What it is a call of: who may not use that any more has no such task.
    pub tool: TaskTool,
    /// How long one round may take.
    pub longest: Duration,
    /// How long answers are waited for: what was asked is not taken after that.
    pub patience: Duration,
    /// What ends it.
    pub cancel: CancellationToken,
}

/// A call with all its rounds, which goes on without a connection.
pub trait Rounds: Send + 'static {
    /// Waits for the end of the round that is under way. Who stops waiting may wait again.
    fn ended(&mut self) -> BoxFuture<'_, Round>;

    /// Begins the next round, with the answers to what the last one asked.
    fn go_on(&mut self, answers: Map<String, Value>);
}

/// How a round ended.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has no other end")]
pub enum Round {
    /// With the result of the call.
    Completed(Box<RawValue>),
    /// With questions, as the protocol has them: an object of requests.
    Asks(Value),
    /// With an error object.
    Failed(Value),
    /// Nobody wanted it any more.
    Cancelled,
}

/// Takes a call to its end.
struct Driver<C> {
    call: C,
    owner: VerifiedPrincipal,
    patience: Duration,
    listed: Listed,
    record: Record,
    cancel: CancellationToken,
    updates: mpsc::Receiver<Update>,
}

impl<C: Rounds> Driver<C> {
    async fn drive(mut self) {
        let end = loop {
            let ended = tokio::select! {
                ended = self.call.ended() => ended,
                () = self.cancel.cancelled() => break End::Cancelled,
            };
            let asked = match ended {
                Round::Asks(asked) => asked,
                Round::Completed(result) => break End::Completed(result),
                Round::Failed(error) => break End::Failed(error),
                Round::Cancelled => break End::Cancelled,
            };
            if asked.to_string().len() > QUESTIONS_BYTES_MAX {
                self.cancel.cancel();
                break End::Failed(error_value(&protocol_error(&Refusal::TooLarge)));
            }
            match self.answers(asked).await {
                None => break End::Cancelled,
                Some(Ok(answers)) => self.call.go_on(answers),
                Some(Err(error)) => break End::Failed(error_value(&error)),
            }
        };
        let (state, until_ms) = self.listed.tasks.0.hold_end(&self.owner, end).await;
        self.set_until(state, until_ms).await;
    }

    /// Asks, and waits for answers as long as they can be taken; nothing, if the task was cancelled
    /// meanwhile.
    async fn answers(&mut self, asked: Value) -> Option<Result<Map<String, Value>, ErrorData>> {
        self.record.round += 1;
        self.set(State::InputRequired(asked)).await;
        let answers = tokio::select! {
            answers = answers_of(&mut self.updates, self.record.round) => answers?,
            () = self.cancel.cancelled() => return None,
            // Nobody waits for who does not come back, and what was asked is not taken any more.
            () = tokio::time::sleep(self.patience) => {
                return Some(Err(protocol_error(&Reason::Expired.into())));
            }
        };
        self.set(State::Working).await;
        Some(Ok(answers))
    }

    async fn set(&mut self, state: State) {
        self.set_until(state, None).await;
    }

    /// Records a state, until a time that is known or for as long as any record.
    async fn set_until(&mut self, state: State, until_ms: Option<Millis>) {
        self.record.state = state;
        self.record.updated_ms = (self.listed.tasks.0.clock)();
        self.record = self.listed.tasks.0.dated(self.record.clone());
        self.record.until_ms = until_ms.or(self.record.until_ms);
        // A record whose store is gone says later that it was cut off.
        let written =
            self.listed.tasks.0.write(self.listed.id, &self.record, Condition::Present).await;
        if let Err(error) = written {
            tracing::error!(error = %error.message, "what became of a task was not recorded");
        }
    }
}

/// A call of a tool of ours, as a task.
pub(super) struct OwnRounds {
    pub(super) server: McpServer,
    pub(super) incoming: Incoming,
    pub(super) call: UnderWay,
    pub(super) cancel: CancellationToken,
    /// The state that goes with what was asked last.
    pub(super) sealed: Option<String>,
}

impl Rounds for OwnRounds {
    fn ended(&mut self) -> BoxFuture<'_, Round> {
        Box::pin(async {
            let ended = (&mut self.call).await;
            match ended {
                Ok(Answer { reply: Reply::NeedsInput { inputs, state }, .. }) => {
                    self.sealed = Some(state);
                    let asked = questions(&inputs, self.incoming.abilities)
                        .and_then(|asked| serde_json::to_value(asked).map_err(|_| broken()));
                    asked.map_or_else(|error| Round::Failed(error_value(&error)), Round::Asks)
                }
                Err(Refusal::Cancelled) => Round::Cancelled,
                Ok(answer) => told(tool_result(answer)),
                Err(refusal) => told(tool_refusal(&refusal, self.incoming.brought())),
            }
        })
    }

    fn go_on(&mut self, answers: Map<String, Value>) {
        let continuation = Continuation::State { state: self.sealed.take(), answers };
        let cancel = self.cancel.clone();
        self.call = self.server.start(&self.incoming, Some(continuation), cancel).call;
    }
}

fn told(result: Result<CallToolResult, ErrorData>) -> Round {
    let result =
        result.and_then(|result| serde_json::value::to_raw_value(&result).map_err(|_| broken()));
    result.map_or_else(|error| Round::Failed(error_value(&error)), Round::Completed)
}

/// The answers to the questions of a round.
async fn answers_of(
    updates: &mut mpsc::Receiver<Update>,
    round: u64,
) -> Option<Map<String, Value>> {
    loop {
        let update = updates.recv().await?;
        if update.round == round {
            return Some(update.answers);
        }
    }
}

impl Record {
    fn task(&self, id: Handle) -> Task {
        let status = match self.state {
            State::Working => TaskStatus::Working,
            State::InputRequired(_) => TaskStatus::InputRequired,
            State::Completed(_) | State::CompletedLong(_) => TaskStatus::Completed,
            State::Failed(_) | State::FailedLong(_) => TaskStatus::Failed,
            State::Cancelled => TaskStatus::Cancelled,
        };
        let until_ms =
            self.until_ms.unwrap_or_else(|| self.updated_ms.saturating_add(TASK_LIFE_MS));
        Task::new(id.to_string(), status, time(self.created_ms), time(self.updated_ms))
            .with_ttl_ms(until_ms.saturating_sub(self.created_ms))
            .with_poll_interval_ms(POLL_INTERVAL_MS)
    }
}

impl Shared {
    /// A task of this caller. Others' tasks, unknown ones, revoked ones, those of tools that the
    /// caller may not use and mistyped ids answer alike; the audit tells them apart.
    async fn own(
        &self,
        pipeline: &Pipeline,
        by: &Caller,
        id: &str,
    ) -> Result<(Handle, Record), ErrorData> {
        let (gate, caller) = (pipeline.gate(), by.principal());
        let back = task_of(caller, id);
        let refused = |reason| {
            gate.refused(&back, reason);
            unknown()
        };
        let id = Handle::parse(id).map_err(|error| {
            refused(match error {
                HandleError::Mistyped => "mistyped",
                _ => Reason::Malformed.as_str(),
            })
        })?;
        let mut record = self.record(id).await?.ok_or_else(|| refused("unknown"))?;
        if !binding::stored_matches(&record.owner, caller) {
            return Err(refused("foreign"));
        }
        if record.tool.as_ref().is_some_and(|tool| !tool.is_for(by, pipeline.registry())) {
            return Err(refused(Refusal::NotFound.reason()));
        }
        let subject = Subject::of(caller).born(record.created_ms);
        gate.check(&back, &subject).await.map_err(|_| unknown())?;
        let is_open = matches!(record.state, State::Working | State::InputRequired(_));
        let was_here = record.instance == self.instance;
        if is_open && was_here && !self.lock().contains_key(&id) {
            // It may have ended a moment ago: what it wrote is there by now. Else a process before
            // this one was at it, or its last words could not be written.
            if record.start == self.start {
                record = self.record(id).await?.ok_or_else(|| refused("unknown"))?;
            }
            if matches!(record.state, State::Working | State::InputRequired(_)) {
                record.state = failed(&protocol_error(&Refusal::Ambiguous));
            }
        }
        Ok((id, record))
    }

    async fn record(&self, id: Handle) -> Result<Option<Record>, ErrorData> {
        let (kv, now) = (Arc::clone(&self.kv), (self.clock)());
        let row = tokio::task::spawn_blocking(move || kv.get(&key(id), now)).await;
        let Ok(Ok(row)) = row else { return Err(protocol_error(&Refusal::Unavailable)) };
        Ok(row.and_then(|row| serde_json::from_slice::<Record>(&row).ok()))
    }

    async fn write(&self, id: Handle, record: &Record, when: Condition) -> Result<(), ErrorData> {
        let unavailable = || protocol_error(&Refusal::Unavailable);
        let value = Bytes::from(serde_json::to_vec(record).map_err(|_| unavailable())?);
        let until = record.until_ms;
        let batch = KvBatch {
            conditions: vec![(key(id), when)],
            changes: vec![(key(id), Change::Put { value, until })],
        };
        let (kv, now) = (Arc::clone(&self.kv), record.updated_ms);
        let written = tokio::task::spawn_blocking(move || kv.write(&batch, now)).await;
        written.map_err(|_| unavailable())?.map_err(|_| unavailable())
    }

    /// Whether a result of this caller can be kept; not, if the store is gone.
    async fn may_owe(&self, owner: &VerifiedPrincipal) -> Result<(), Refusal> {
        let (held, owner, now) = (self.held.clone(), owner.clone(), (self.clock)());
        let asked = tokio::task::spawn_blocking(move || held.may_owe(&owner, now)).await;
        match asked {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(Refusal::Quota),
            _ => Err(Refusal::Unavailable),
        }
    }

    /// The life of a record after its last change.
    fn life_ms(&self) -> Millis {
        TASK_LIFE_MS.min(self.held.longest_ms())
    }

    /// A record with the time at which it ends.
    fn dated(&self, record: Record) -> Record {
        let until = record.updated_ms.saturating_add(self.life_ms());
        let until = match record.state {
            // While it is at work, or waits for answers, nobody writes.
            State::Working | State::InputRequired(_) => until.saturating_add(record.longest_ms),
            _ => until,
        };
        Record { until_ms: Some(until), ..record }
    }

    /// Holds the end of a task for its owner, and gives what is recorded of it, and when both end. It
    /// counts for the owner, whatever its size: so does every task that has ended.
    async fn hold_end(&self, owner: &VerifiedPrincipal, end: End) -> (State, Option<Millis>) {
        let (bytes, state): (Vec<u8>, StateOf) = match end {
            End::Completed(result) => (result.get().as_bytes().to_vec(), State::CompletedLong),
            End::Failed(error) => (error.to_string().into_bytes(), State::FailedLong),
            End::Cancelled => (Vec::new(), |_| State::Cancelled),
        };
        let (held, owner, now) = (self.held.clone(), owner.clone(), (self.clock)());
        let life_ms = self.life_ms();
        let hold = move || {
            let new = NewValue::new("task").fixed_life(life_ms).owed_within_limit();
            let mut writer = held.spill_writer(&owner, new, &mut rand::rng(), now)?;
            writer.write(&bytes, now)?;
            writer.finish(now)
        };
        match tokio::task::spawn_blocking(hold).await {
            Ok(Ok(value)) => match value.spill_id().map(SpillId::to_bytes) {
                Some(id) => (state(id), Some(value.until())),
                None => (failed(&broken()), None),
            },
            Ok(Err(HeldError::Quota { .. })) => (failed(&protocol_error(&Refusal::Quota)), None),
            _ => (failed(&protocol_error(&Refusal::TooLarge)), None),
        }
    }

    /// The end of a task that is held. One that is gone takes its task with it.
    async fn held_end(
        &self,
        owner: &VerifiedPrincipal,
        id: [u8; 16],
    ) -> Result<Vec<u8>, ErrorData> {
        let (held, owner, now) = (self.held.clone(), owner.clone(), (self.clock)());
        let read = move || {
            let LookUp::Found(found) = held.look_up_spill(SpillId::from_bytes(id), &owner, now)?
            else {
                return Ok(None);
            };
            held.read(&found, now)?.read_whole(RESULT_BYTES_MAX)
        };
        match tokio::task::spawn_blocking(read).await {
            Ok(Ok(Some(bytes))) => Ok(bytes),
            Ok(Ok(None)) => Err(unknown()),
            _ => Err(protocol_error(&Refusal::Unavailable)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Handle, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is said of every task that is not the caller's.
fn unknown() -> ErrorData {
    ErrorData::invalid_params("there is no such task", Some(json!({"reason": "invalid"})))
}

/// A task that came back.
const fn task_of<'a>(principal: &'a VerifiedPrincipal, text: &'a str) -> Back<'a> {
    let (surface, operation) = (Surface::Mcp, Operation::Call);
    Back { surface, operation, name: "tasks", continuation: "task", principal, text }
}

/// The key of a record.
fn key(id: Handle) -> Bytes {
    Bytes::from(format!("mcp/task/{{{id}}}"))
}

fn failed(error: &ErrorData) -> State {
    State::Failed(error_value(error))
}

fn error_value(error: &ErrorData) -> Value {
    serde_json::to_value(error)
        .unwrap_or_else(|_| json!({"code": -32603, "message": "the task failed"}))
}

fn broken() -> ErrorData {
    protocol_error(&Refusal::Broken)
}

fn time(ms: Millis) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(ms).map_or_else(|_| String::new(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows() -> Vec<Vec<u8>> {
        let states = [
            State::Working,
            State::InputRequired(json!({"sure": {"method": "elicitation/create"}})),
            State::Completed(
                RawValue::from_string(r#"{"content":[{"type":"text","text":"é\n"}]}"#.to_owned())
                    .unwrap(),
            ),
            State::CompletedLong([7; 16]),
            State::FailedLong([8; 16]),
            State::Failed(json!({"code": -32603, "message": "no"})),
            State::Cancelled,
        ];
        let row = |state| Record {
            owner: "a\0b".to_owned(),
            instance: [1; 16],
            start: u64::MAX,
            created_ms: 1,
            updated_ms: 2,
            longest_ms: 3,
            round: 4,
            state,
            until_ms: Some(5),
            tool: Some(TaskTool {
                name: "up__t".to_owned(),
                own_name: "t".to_owned(),
                upstream: Some("up".to_owned()),
            }),
        };
        states.map(|state| serde_json::to_vec(&row(state)).unwrap()).to_vec()
    }

    proptest! {
        #[test]
        fn a_row_that_is_read_comes_back(
            mut row in prop::sample::select(rows()), at: prop::sample::Index, byte: u8, cut: bool,
        ) {
            let at = at.index(row.len());
            if cut {
                row.truncate(at);
                prop_assert!(serde_json::from_slice::<Record>(&row).is_err());
            } else {
                row[at] = byte;
            }
            if let Ok(read) = serde_json::from_slice::<Record>(&row) {
                let written = serde_json::to_vec(&read).unwrap();
                let again: Record = serde_json::from_slice(&written).unwrap();
                prop_assert_eq!(serde_json::to_vec(&again).unwrap(), written);
            }
        }
    }
}
