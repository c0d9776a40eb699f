//! What a newer client wants to hear of, at each of the servers.
//!
//! A server is asked for what is its own to tell and the client's to hear: for resources by the rules
//! about that server, for tasks by the ids that it has for them. What it says of them comes to the client
//! under the ids that the client knows, and of a task that was not asked for nothing does: ids of tasks
//! are the same for all who share a line.

use bytes::Bytes;
use handback_mcp::wire::Object;
use handback_token::Handle;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::catalog::member;
use crate::gateway::Gateway;
use crate::hop::HopTask;
use crate::listening::{ACKNOWLEDGED, RESOURCES, UPDATED};
use crate::slow::knows_tasks;
use crate::talk::{Question, Talk, ToClient};
use crate::upstream::Raw;

/// Resources that one subscription is about at most, at each server.
const RESOURCES_MAX: usize = 64;

/// Tasks that one subscription is about at most: each of them is looked up.
const TASKS_MAX: usize = 64;

const NOTIFICATIONS: &str = "notifications";
const TASKS: &str = "taskIds";

/// How a server says what became of a task.
const TASK_TOLD: &str = "notifications/tasks";

/// Whether a notification says what became of a task.
pub(crate) fn is_of_task(method: &str) -> bool {
    let rest = method.strip_prefix(TASK_TOLD);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What one client wants to hear of.
pub(crate) struct Wishes<'a> {
    /// The parameters, as they came.
    raw: &'a RawValue,
    whole: Bytes,
    params: Object<'a>,
    /// What is wanted.
    wanted: Object<'a>,
    /// The resources among it, if any are named.
    resources: Option<Vec<String>>,
    /// The tasks among it that are the caller's, if any are named.
    tasks: Option<Vec<Followed>>,
}

/// A task of an upstream that its caller wants to hear of.
struct Followed {
    which: usize,
    task: HopTask,
    /// The id that the client knows.
    shown: String,
}

impl<'a> Wishes<'a> {
    /// Reads what a client wants to hear of, without its tasks; nothing, if that cannot be read. A server
    /// behind might read it in another way.
    fn read(question: &Question<'a>) -> Option<(Self, Vec<String>)> {
        #[derive(serde::Deserialize)]
        struct Params<'a> {
            #[serde(borrow, default)]
            notifications: Option<&'a RawValue>,
        }

        let raw = question.params?;
        let params = Object::read(raw).ok()?;
        let wanted = match params.get(NOTIFICATIONS) {
            None => Object::default(),
            Some(_) => {
                let Params { notifications } = serde_json::from_str(raw.get()).ok()?;
                Object::read(notifications?).ok()?
            }
        };
        let named = |member: &str| wanted.get(member).map(serde_json::from_str::<Vec<String>>);
        let resources = named(RESOURCES).transpose().ok()?;
        let tasks = named(TASKS).transpose().ok()?;
        let of_tasks = tasks.is_some().then(Vec::new);
        let whole = question.params_bytes()?;
        let wishes = Self { raw, whole, params, wanted, resources, tasks: of_tasks };
        Some((wishes, tasks.unwrap_or_default()))
    }

    /// The parameters for one server.
    pub(crate) fn params(&self, gateway: &Gateway, talk: &Talk, which: usize) -> Bytes {
        if self.resources.is_none() && self.tasks.is_none() {
            return self.whole.clone();
        }
        let mut wanted = self.wanted.clone();
        if let Some(resources) = &self.resources {
            let allowed = resources.iter().filter(|uri| gateway.may_use_uri(talk, which, uri));
            let allowed: Vec<&str> = allowed.take(RESOURCES_MAX).map(String::as_str).collect();
            wanted.set(RESOURCES, Value::from(allowed).to_string());
        }
        let mut tasks: Vec<&str> = self.tasks_of(which).map(|one| one.task.task.as_str()).collect();
        tasks.dedup();
        match tasks.is_empty() {
            true => drop(wanted.remove(TASKS)),
            false => wanted.set(TASKS, Value::from(tasks).to_string()),
        }
        let mut params = self.params.clone();
        params.set(NOTIFICATIONS, wanted.to_json());
        params.to_json().into()
    }

    fn tasks_of(&self, which: usize) -> impl Iterator<Item = &Followed> {
        self.tasks.iter().flatten().filter(move |one| one.which == which)
    }

    /// What a server acknowledges, with the ids of tasks that the client knows.
    fn acknowledged(&self, which: usize, params: Option<Bytes>) -> Option<Bytes> {
        let params = params?;
        let changed = || {
            let raw: &RawValue = serde_json::from_slice(&params).ok()?;
            let mut told = Object::read(raw).ok()?;
            let accepted: &RawValue = serde_json::from_str(told.get(NOTIFICATIONS)?).ok()?;
            let mut accepted = Object::read(accepted).ok()?;
            let ids: Vec<String> = serde_json::from_str(accepted.get(TASKS)?).unwrap_or_default();
            let known = self.tasks_of(which).filter(|one| ids.contains(&one.task.task));
            let known: Vec<&str> = known.map(|one| one.shown.as_str()).collect();
            match known.is_empty() {
                true => drop(accepted.remove(TASKS)),
                false => accepted.set(TASKS, Value::from(known).to_string()),
            }
            let accepted = accepted.to_json();
            told.set(NOTIFICATIONS, accepted);
            Some(Bytes::from(told.to_json()))
        };
        Some(changed().unwrap_or(params))
    }
}

impl Gateway {
    /// What a client wants to hear of; nothing, if that cannot be read.
    pub(crate) async fn wishes<'a>(
        &self,
        talk: &Talk,
        question: &Question<'a>,
    ) -> Option<Wishes<'a>> {
        let (mut wishes, ids) = Wishes::read(question)?;
        // What was not said to be known is not wanted.
        let ids = if knows_tasks(wishes.raw) { ids } else { Vec::new() };
        let Some(tasks) = &mut wishes.tasks else { return Some(wishes) };
        for shown in ids.into_iter().take(TASKS_MAX) {
            let is_new = tasks.iter().all(|known| known.shown != shown);
            // Our own server tells of none of its tasks: they are asked for.
            if is_new
                && Handle::parse(&shown).is_err()
                && let Some((which, task)) = self.task_of(talk, &shown).await
            {
                tasks.push(Followed { which, task, shown });
            }
        }
        // Two ids of one task are one at its server.
        tasks.sort_by(|one, other| one.task.task.cmp(&other.task.task));
        Some(wishes)
    }

    /// What a server says to who listens, as the client may hear it.
    pub(crate) async fn as_wished(
        &self,
        talk: &Talk,
        wishes: &Wishes<'_>,
        which: usize,
        told: ToClient,
    ) -> Vec<ToClient> {
        let ToClient::Notification { method, params } = told else { return Vec::new() };
        let heard = |method, params| ToClient::Notification { method, params };
        if method == ACKNOWLEDGED {
            let params = wishes.acknowledged(which, params);
            return vec![heard(method, params)];
        }
        if method == UPDATED {
            // It may be a part of what was asked for.
            let uri = params.as_ref().and_then(|params| member(params, "uri"));
            let is_allowed = uri.is_some_and(|uri| self.may_use_uri(talk, which, &uri));
            return is_allowed.then(|| heard(method, params)).into_iter().collect();
        }
        if !is_of_task(&method) {
            return vec![heard(method, params)];
        }
        let Some(params) = params else { return Vec::new() };
        let Some(id) = member(&params, "taskId") else { return Vec::new() };
        let mut all = Vec::new();
        for Followed { task, shown, .. } in wishes.tasks_of(which).filter(|one| one.task.task == id)
        {
            let raw = Raw::Memory(params.clone());
            let told = self.task_told(talk, wishes.raw, (task, shown), raw).await;
            match told {
                Ok(params) => all.push(heard(method.clone(), Some(params))),
                // It is there for who asks for the task.
                Err(error) => tracing::warn!(
                    upstream = self.name_of(which),
                    error = &error as &dyn std::error::Error,
                    "what became of a task is not told"
                ),
            }
        }
        all
    }

    /// Whether a caller may use a resource of this name, if an upstream has it.
    pub(crate) fn may_use_uri(&self, talk: &Talk, which: usize, uri: &str) -> bool {
        let registry = self.pipeline().registry();
        match which == self.own() {
            // What is ours has its own checks besides.
            true => registry.allows_name(&talk.caller, uri),
            false => registry.allows_relayed(&talk.caller, uri, uri, self.name_of(which)),
        }
    }
}
