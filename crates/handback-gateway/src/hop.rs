//! Cursors and task ids of upstreams, on their way to a client and back.
//!
//! A cursor is a cursor token; its operation is list, its name "gateway/" and the list. The id of a task
//! names a spilled value, which is
//! `{"upstream", "task", "tool", "own_name"}`. Their bytes are in [`handback_wire::hop`], and all of it in
//! `docs/spec/hops.md`.
//!
//! What is spilled belongs to its caller, as every held value does: to anybody else there is none.

use bytes::Bytes;
use handback_identity::Caller;
use handback_store::Millis;
use handback_store::held::{HeldError, LookUp, NewValue, SpillId};
use handback_store::revocations::Subject;
use handback_token::{Context, Cursor, Operation, Reason};
use handback_tool::gate::Back;
use handback_tool::{CallHeld, Pipeline, Refusal, Surface};
use handback_wire::hop::{At, Payload, read_task_id, task_id};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::options::ToolNames;

/// How long a cursor that was spilled is kept, and a task id: longer than either is good for.
const LIFE_MS: u64 = 24 * 60 * 60 * 1000;

/// Bytes of a cursor or a task id of an upstream at most.
const TEXT_BYTES_MAX: usize = 64 << 10;

const CURSOR_KIND: &str = "gateway-cursor";
const TASK_KIND: &str = "gateway-task";

/// A place in a list over several upstreams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListPlace {
    /// The name of the upstream: another one may have its number by the time the place is come back to.
    pub(crate) upstream: String,
    /// Its own cursor; none at the start of its list.
    pub(crate) cursor: Option<String>,
}

/// A task of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HopTask {
    pub(crate) upstream: String,
    pub(crate) task: String,
    /// The tool that was called, as it is shown.
    #[serde(default)]
    pub(crate) tool: String,
    /// Its name there; that under which it is shown, if nothing is said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) own_name: String,
}

impl HopTask {
    /// All names of the tool that was called.
    pub(crate) fn names(&self) -> ToolNames<'_> {
        let own = if self.own_name.is_empty() { &self.tool } else { &self.own_name };
        ToolNames { shown: &self.tool, own, upstream: &self.upstream }
    }
}

/// Wraps and unwraps for one caller.
pub(crate) struct Hop<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) held: &'a CallHeld,
    pub(crate) caller: &'a Caller,
}

impl Hop<'_> {
    /// The cursor as the client gets it.
    pub(crate) async fn seal_cursor(
        &self,
        list: &str,
        place: &ListPlace,
    ) -> Result<String, Refusal> {
        let name = format!("gateway/{list}");
        let payload_of = |at| {
            let payload = Payload { upstream: place.upstream.clone(), at };
            payload.to_bytes().ok_or(Refusal::Broken)
        };
        let mut payload = payload_of(place.cursor.clone().map_or(At::Start, At::Cursor))?;
        let capacity = self.bound(&name, |bound| bound.payload_capacity())?;
        if payload.len() > capacity {
            let cursor = place.cursor.clone().unwrap_or_default();
            let new = NewValue::new(CURSOR_KIND);
            let at = At::Spilled(self.spill(new, cursor.into_bytes()).await?);
            payload = payload_of(at)?;
        }
        let sealed =
            self.bound(&name, |bound| bound.seal(&mut rand::rng(), self.pipeline.now(), &payload))?;
        Ok(sealed.map_err(|_| Refusal::Broken)?.into_string())
    }

    /// The place that a cursor of the client is.
    pub(crate) async fn open_cursor(&self, list: &str, text: &str) -> Result<ListPlace, Reason> {
        let name = format!("gateway/{list}");
        let opened = self.pipeline.open_list(Surface::Mcp, self.caller, &name, text).await?;
        let payload = Payload::read(opened.payload()).ok_or(Reason::Malformed)?;
        let cursor = match payload.at {
            At::Start => None,
            At::Cursor(cursor) => Some(cursor),
            At::Spilled(id) => {
                let (spilled, _) = self.spilled(CURSOR_KIND, id).await.ok_or(Reason::Expired)?;
                Some(String::from_utf8(spilled).map_err(|_| Reason::Malformed)?)
            }
        };
        Ok(ListPlace { upstream: payload.upstream, cursor })
    }

    /// Whether the name of one more task may be kept: asked before there is a task.
    pub(crate) async fn may_owe(&self) -> Result<(), Refusal> {
        let (held, owner) = (self.held.clone(), self.caller.principal().clone());
        let now_ms = self.pipeline.now().as_secs().saturating_mul(1000);
        match tokio::task::spawn_blocking(move || held.may_owe(&owner, now_ms)).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(Refusal::Quota),
            _ => Err(Refusal::Unavailable),
        }
    }

    /// The id of a task as the client gets it: the same one, however often the client is told of it.
    pub(crate) async fn seal_task(&self, task: &HopTask) -> Result<String, Refusal> {
        let bytes = serde_json::to_vec(task).map_err(|_| Refusal::Broken)?;
        let id = id_of_task(&self.caller.principal().binding(), &bytes);
        // The task is there: that its caller holds much already must not lose its name.
        let new = || NewValue::new(TASK_KIND).owed();
        if self.spill_under(id, new(), bytes.clone()).await? {
            return Ok(task_id(id));
        }
        self.spill(new(), bytes).await.map(task_id)
    }

    /// The task that an id of the client names. Others' tasks, unknown ones and those of tools that the
    /// caller may not use any more answer alike; the audit has the refusal.
    pub(crate) async fn open_task(&self, text: &str) -> Option<HopTask> {
        let found = match read_task_id(text) {
            Some(id) => self.spilled(TASK_KIND, id).await,
            None => None,
        };
        let task = found.and_then(|(bytes, born)| {
            Some((serde_json::from_slice::<HopTask>(&bytes).ok()?, born))
        });
        let (surface, operation) = (Surface::Mcp, Operation::Call);
        let principal = self.caller.principal();
        let back =
            Back { surface, operation, name: "tasks", continuation: "task", principal, text };
        let gate = self.pipeline.gate();
        let Some((task, born)) = task else {
            gate.refused(&back, "unknown");
            return None;
        };
        let ToolNames { shown, own, upstream } = task.names();
        if !self.pipeline.registry().allows_relayed(self.caller, shown, own, upstream) {
            gate.refused(&back, Refusal::NotFound.reason());
            return None;
        }
        gate.check(&back, &Subject::of(principal).born(born)).await.ok()?;
        Some(task)
    }

    fn bound<T>(
        &self,
        name: &str,
        then: impl FnOnce(&handback_token::Bound<'_, Cursor>) -> T,
    ) -> Result<T, Refusal> {
        let context = Context::new(self.caller.principal().caller(), Operation::List).name(name);
        let bound = self.pipeline.sealer().bind::<Cursor>(&context);
        bound.map(|bound| then(&bound)).map_err(|_| Refusal::Broken)
    }

    async fn spill(&self, new: NewValue, bytes: Vec<u8>) -> Result<[u8; 16], Refusal> {
        if bytes.len() > TEXT_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        let (held, owner) = (self.held.clone(), self.caller.principal().clone());
        let now_ms = self.pipeline.now().as_secs().saturating_mul(1000);
        let spill = move || {
            let new = new.fixed_life(LIFE_MS);
            held.spill(&owner, new, &bytes, &mut rand::rng(), now_ms)
        };
        match tokio::task::spawn_blocking(spill).await {
            Ok(Ok(id)) => Ok(id.to_bytes()),
            _ => Err(Refusal::Unavailable),
        }
    }

    /// Keeps bytes under the id that stands for them, unless they are there. Not, if they were there for
    /// long, or have ended.
    async fn spill_under(
        &self,
        id: [u8; 16],
        new: NewValue,
        bytes: Vec<u8>,
    ) -> Result<bool, Refusal> {
        if bytes.len() > TEXT_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        let (held, owner) = (self.held.clone(), self.caller.principal().clone());
        let now_ms = self.pipeline.now().as_secs().saturating_mul(1000);
        let spill = move || {
            let id = SpillId::from_bytes(id);
            if let LookUp::Found(found) = held.look_up_spill(id, &owner, now_ms)? {
                // A server may have begun its numbers anew: what is old is another task's, whose
                // time this one would not have.
                return Ok(now_ms.saturating_sub(found.created()) < LIFE_MS / 2);
            }
            let new = new.fixed_life(LIFE_MS);
            let mut writer = held.spill_writer_under(&owner, id, new, now_ms)?;
            writer.write(&bytes, now_ms)?;
            match writer.finish(now_ms) {
                Ok(_) => Ok(true),
                // It has ended, or somebody was faster.
                Err(HeldError::Gone) => {
                    let found = held.look_up_spill(id, &owner, now_ms)?;
                    Ok(matches!(found, LookUp::Found(_)))
                }
                Err(error) => Err(error),
            }
        };
        match tokio::task::spawn_blocking(spill).await {
            Ok(Ok(is_there)) => Ok(is_there),
            _ => Err(Refusal::Unavailable),
        }
    }

    /// What was spilled, and when.
    async fn spilled(&self, kind: &'static str, id: [u8; 16]) -> Option<(Vec<u8>, Millis)> {
        let (held, owner) = (self.held.clone(), self.caller.principal().clone());
        let now_ms = self.pipeline.now().as_secs().saturating_mul(1000);
        let read = move || {
            let id = SpillId::from_bytes(id);
            let LookUp::Found(found) = held.look_up_spill(id, &owner, now_ms).ok()? else {
                return None;
            };
            let found = Some(found).filter(|found| found.kind() == kind)?;
            let born = found.created();
            let bytes = held.read(&found, now_ms).ok()?.read_whole(TEXT_BYTES_MAX).ok()??;
            Some((bytes, born))
        };
        tokio::task::spawn_blocking(read).await.ok()?
    }
}

/// What the name of a task of this owner is spilled under. See `docs/spec/hops.md`.
fn id_of_task(owner: &str, value: &[u8]) -> [u8; 16] {
    let mut hash = Sha256::new();
    for field in [b"handback/v1/gateway/task", owner.as_bytes(), value] {
        hash.update((field.len() as u64).to_be_bytes());
        hash.update(field);
    }
    let hash: [u8; 32] = hash.finalize().into();
    *hash.first_chunk().expect("a hash is longer")
}

/// The same text with one member that is a text replaced.
pub(crate) fn with_text(object: &[u8], member: &str, text: &str) -> Option<Bytes> {
    let raw: &serde_json::value::RawValue = serde_json::from_slice(object).ok()?;
    let mut object = handback_mcp::wire::Object::read(raw).ok()?;
    object.set(member, serde_json::Value::from(text).to_string());
    Some(object.to_json().into())
}
