//! Cursors and task ids of upstreams, on their way to a client and back.
//!
//! ```text
//! cursor  = cursor token; operation list, name "gateway/" and the list
//! payload = 00 || which u8 || the upstream's cursor
//!         | 01 || which u8 || id of a spilled one, 16 bytes
//! task id = "t" || hex of the id of a spilled value, which is {"upstream", "task"}
//! ```
//!
//! What is spilled belongs to its caller, as every held value does: to anybody else there is none.

use bytes::Bytes;
use handback_identity::Caller;
use handback_store::held::{LookUp, NewValue, SpillId};
use handback_token::{Context, Cursor, Operation, Reason};
use handback_tool::gate::Back;
use handback_tool::{CallHeld, Pipeline, Refusal, Surface};
use serde::{Deserialize, Serialize};

const INLINE: u8 = 0;
const SPILLED: u8 = 1;

/// How long a cursor that was spilled is kept, and a task id: longer than either is good for.
const LIFE_MS: u64 = 24 * 60 * 60 * 1000;

/// Bytes of a cursor or a task id of an upstream at most.
const TEXT_BYTES_MAX: usize = 64 << 10;

const CURSOR_KIND: &str = "gateway-cursor";
const TASK_KIND: &str = "gateway-task";

/// A place in a list over several upstreams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListPlace {
    /// The upstream.
    pub(crate) which: usize,
    /// Its own cursor; none at the start of its list.
    pub(crate) cursor: Option<String>,
}

/// A task of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HopTask {
    pub(crate) upstream: String,
    pub(crate) task: String,
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
        let which = u8::try_from(place.which).map_err(|_| Refusal::Broken)?;
        let cursor = place.cursor.clone();
        let payload = |kind: u8, rest: &[u8]| [&[kind, which], rest].concat();
        // None is a byte shorter than any.
        let inline = match &cursor {
            None => vec![INLINE, which],
            Some(cursor) => payload(INLINE, format!("\0{cursor}").as_bytes()),
        };
        let capacity = self.bound(&name, |bound| bound.payload_capacity())?;
        let payload = if inline.len() <= capacity {
            inline
        } else {
            let id = self.spill(CURSOR_KIND, cursor.unwrap_or_default().into_bytes()).await?;
            payload(SPILLED, &id)
        };
        let sealed =
            self.bound(&name, |bound| bound.seal(&mut rand::rng(), self.pipeline.now(), &payload))?;
        Ok(sealed.map_err(|_| Refusal::Broken)?.into_string())
    }

    /// The place that a cursor of the client is.
    pub(crate) async fn open_cursor(&self, list: &str, text: &str) -> Result<ListPlace, Reason> {
        let name = format!("gateway/{list}");
        let opened = self.pipeline.open_list(Surface::Mcp, self.caller, &name, text).await?;
        let [kind, which, rest @ ..] = opened.payload() else { return Err(Reason::Malformed) };
        let which = usize::from(*which);
        let cursor = match (*kind, rest) {
            (INLINE, []) => None,
            (INLINE, [0, cursor @ ..]) => Some(cursor.to_vec()),
            (SPILLED, id) => {
                let id = id.try_into().map_err(|_| Reason::Malformed)?;
                Some(self.spilled(CURSOR_KIND, id).await.ok_or(Reason::Expired)?)
            }
            _ => return Err(Reason::Malformed),
        };
        let text = |bytes| String::from_utf8(bytes).map_err(|_| Reason::Malformed);
        Ok(ListPlace { which, cursor: cursor.map(text).transpose()? })
    }

    /// The id of a task as the client gets it.
    pub(crate) async fn seal_task(&self, task: &HopTask) -> Result<String, Refusal> {
        let bytes = serde_json::to_vec(task).map_err(|_| Refusal::Broken)?;
        let id = self.spill(TASK_KIND, bytes).await?;
        Ok(format!("t{:032x}", u128::from_be_bytes(id)))
    }

    /// The task that an id of the client names. Others' tasks and unknown ones answer alike; the
    /// audit has the refusal.
    pub(crate) async fn open_task(&self, text: &str) -> Option<HopTask> {
        let id = text.strip_prefix('t').filter(|hex| hex.len() == 32);
        let id = id.and_then(|hex| u128::from_str_radix(hex, 16).ok());
        let found = match id {
            Some(id) => self.spilled(TASK_KIND, id.to_be_bytes()).await,
            None => None,
        };
        let task = found.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if task.is_none() {
            let (surface, operation) = (Surface::Mcp, Operation::Call);
            let principal = self.caller.principal();
            let back =
                Back { surface, operation, name: "tasks", continuation: "task", principal, text };
            self.pipeline.gate().refused(&back, "unknown");
        }
        task
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

    async fn spill(&self, kind: &'static str, bytes: Vec<u8>) -> Result<[u8; 16], Refusal> {
        if bytes.len() > TEXT_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        let (held, owner) = (self.held.clone(), self.caller.principal().clone());
        let now_ms = self.pipeline.now().as_secs().saturating_mul(1000);
        let spill = move || {
            let new = NewValue::new(kind).fixed_life(LIFE_MS);
            held.spill(&owner, new, &bytes, &mut rand::rng(), now_ms)
        };
        match tokio::task::spawn_blocking(spill).await {
            Ok(Ok(id)) => Ok(id.to_bytes()),
            _ => Err(Refusal::Unavailable),
        }
    }

    async fn spilled(&self, kind: &'static str, id: [u8; 16]) -> Option<Vec<u8>> {
        let (held, owner) = (self.held.clone(), self.caller.principal().clone());
        let now_ms = self.pipeline.now().as_secs().saturating_mul(1000);
        let read = move || {
            let id = SpillId::from_bytes(id);
            let LookUp::Found(found) = held.look_up_spill(id, &owner, now_ms).ok()? else {
                return None;
            };
            let found = Some(found).filter(|found| found.kind() == kind)?;
            held.read(&found, now_ms).ok()?.read_whole(TEXT_BYTES_MAX).ok()?
        };
        tokio::task::spawn_blocking(read).await.ok()?
    }
}

/// The same text with one member that is a text replaced.
pub(crate) fn with_text(object: &[u8], member: &str, text: &str) -> Option<Bytes> {
    let raw: &serde_json::value::RawValue = serde_json::from_slice(object).ok()?;
    let mut object = handback_mcp::wire::Object::read(raw).ok()?;
    object.set(member, serde_json::Value::from(text).to_string());
    Some(object.to_json().into())
}
