//! What a newer client wants to hear of, at each of the servers.
//!
//! A server is asked for what is its own to tell and the client's to hear: for the resources that it has,
//! as `resources/read` finds them, and for tasks by the ids that it has for them. What it says of them comes
//! to the client under the ids that the client knows, and of what it was not asked for nothing does: a
//! resource may be another server's, and ids of tasks are the same for all who share a line.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use handback_mcp::wire::Object;
use handback_token::Handle;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Duration, Instant, timeout_at};

use crate::catalog::{Catalog, member};
use crate::gateway::Gateway;
use crate::hop::HopTask;
use crate::listening::{ACKNOWLEDGED, LISTS, RESOURCES, UPDATED};
use crate::slow::knows_tasks;
use crate::talk::{Question, Talk, ToClient};
use crate::upstream::Raw;

/// Resources that one subscription is about at most, at each server.
const RESOURCES_MAX: usize = 64;

/// Resources that one client may name, of those after it nobody is asked: each of them is looked up.
const NAMED_MAX: usize = 256;

/// How long it is looked for who has them, once a server is there. One that is slow to tell keeps nobody
/// from what another one has.
const LOOKING_TIME: Duration = Duration::from_millis(1_500);

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

/// Whether a server that was asked for these resources may tell of one: it may be a part of one of them.
/// What only begins like one, as `x:both` begins like `x:b`, is another one.
pub(crate) fn is_asked_for(uris: &[String], uri: &str) -> bool {
    let is_part_of = |known: &String| {
        uri.strip_prefix(known.as_str()).is_some_and(|rest| {
            rest.is_empty() || known.ends_with('/') || rest.starts_with(['/', '?', '#'])
        })
    };
    uris.iter().any(is_part_of)
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

    /// The parameters for one server, which has these of the resources.
    pub(crate) fn params(&self, which: usize, uris: &[String]) -> Bytes {
        if self.resources.is_none() && self.tasks.is_none() {
            return self.whole.clone();
        }
        let mut wanted = self.wanted.clone();
        if self.has_resources() {
            wanted.set(RESOURCES, Value::from(uris.to_vec()).to_string());
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

    /// Whether resources are named.
    pub(crate) const fn has_resources(&self) -> bool {
        self.resources.is_some()
    }

    /// Whether there is nothing that one server, which has these of the resources, could tell of.
    pub(crate) fn is_nothing(&self, which: usize, uris: &[String]) -> bool {
        let is_named = |name: &str| name == RESOURCES || name == TASKS;
        uris.is_empty()
            && self.tasks_of(which).next().is_none()
            && self.wanted.names().all(is_named)
    }

    /// How the client is told of changes of the lists that it wants to hear of.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &'static str> {
        let is_wanted = |wish: &str| self.wanted.get(wish) == Some("true");
        LISTS.into_iter().filter(move |(wish, ..)| is_wanted(wish)).map(|(.., told)| told)
    }

    fn tasks_of(&self, which: usize) -> impl Iterator<Item = &Followed> {
        self.tasks.iter().flatten().filter(move |one| one.which == which)
    }

    /// What a server acknowledges of what it was asked for, with the ids of tasks that the client knows.
    fn acknowledged(
        &self,
        (which, uris): (usize, &[String]),
        params: Option<Bytes>,
    ) -> Option<Bytes> {
        let params = params?;
        let changed = || {
            let raw: &RawValue = serde_json::from_slice(&params).ok()?;
            let mut told = Object::read(raw).ok()?;
            let accepted: &RawValue = serde_json::from_str(told.get(NOTIFICATIONS)?).ok()?;
            let mut accepted = Object::read(accepted).ok()?;
            let named = |member: &str| {
                let named = accepted.get(member).map(serde_json::from_str::<Vec<String>>);
                named.map(Result::unwrap_or_default)
            };
            let (resources, ids) = (named(RESOURCES), named(TASKS));
            if resources.is_none() && ids.is_none() {
                return None;
            }
            if let Some(mut resources) = resources {
                resources.retain(|uri| uris.contains(uri));
                accepted.set(RESOURCES, Value::from(resources).to_string());
            }
            let ids = ids.unwrap_or_default();
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

    /// The resources that one server is asked for: those that `resources/read` would ask it for.
    pub(crate) async fn resources_of(
        &self,
        talk: &Talk,
        wishes: &Wishes<'_>,
        which: usize,
    ) -> Vec<String> {
        let uris: Vec<_> = wishes.resources.iter().flatten().take(NAMED_MAX).collect();
        if uris.is_empty() {
            return Vec::new();
        }
        let until = Instant::now() + LOOKING_TIME;
        // As long as not everything is known, what there is so far is enough.
        let owners = Mutex::new(vec![None; uris.len()]);
        let look = |catalog: &Catalog| {
            let found: Vec<_> = uris.iter().map(|uri| catalog.resource(uri)).collect();
            let is_all = found.iter().all(Option::is_some);
            *owners.lock().unwrap_or_else(PoisonError::into_inner) = found;
            is_all.then_some(())
        };
        let _ = timeout_at(until, self.found(talk, look)).await;
        let owners = owners.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (mut its, mut unknown) = (Vec::new(), Vec::new());
        for (uri, owner) in uris.into_iter().zip(owners) {
            match owner {
                Some(owner) if owner == which => its.push(uri.clone()),
                Some(_) => {}
                None => unknown.push(uri.clone()),
            }
        }
        its.retain(|uri| self.may_use_uri(talk, which, uri));
        if self.has_unlisted() {
            its.extend(unknown.into_iter().filter(|_| which == 0));
        } else if !unknown.is_empty() {
            let (gateway, talk) = (self.clone(), talk.without_client());
            // They may be new. The look goes on if it is not waited for: what it finds is for all.
            let looked = tokio::spawn(async move {
                let mut its = Vec::new();
                for uri in unknown {
                    let owner = gateway.has_resource(&talk, &uri).await;
                    its.extend((owner == Some(which)).then_some(uri));
                }
                its
            });
            let looked = timeout_at(until, looked).await;
            its.extend(looked.ok().and_then(Result::ok).unwrap_or_default());
        }
        its.truncate(RESOURCES_MAX);
        its
    }

    /// What a server says to who listens, as the client may hear it. It was asked for these resources.
    pub(crate) async fn as_wished(
        &self,
        talk: &Talk,
        wishes: &Wishes<'_>,
        (which, uris): (usize, &[String]),
        told: ToClient,
    ) -> Vec<ToClient> {
        let ToClient::Notification { method, params } = told else { return Vec::new() };
        let heard = |method, params| ToClient::Notification { method, params };
        if method == ACKNOWLEDGED {
            let params = wishes.acknowledged((which, uris), params);
            return vec![heard(method, params)];
        }
        if method == UPDATED {
            let uri = params.as_ref().and_then(|params| member(params, "uri"));
            let is_allowed = uri
                .is_some_and(|uri| is_asked_for(uris, &uri) && self.may_use_uri(talk, which, &uri));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is wanted, with nothing of tasks.
    fn check(wanted: &Value, with: impl FnOnce(&Wishes<'_>)) {
        let message = Bytes::from(json!({"notifications": wanted}).to_string());
        let params: &RawValue = serde_json::from_slice(&message).unwrap();
        let question = Question {
            id: "1",
            method: "subscriptions/listen",
            params: Some(params),
            message: &message,
            headers: Vec::new(),
            key: None,
        };
        let (wishes, _) = Wishes::read(&question).unwrap();
        with(&wishes);
    }

    fn owned(uris: &[&str]) -> Vec<String> {
        uris.iter().map(|uri| (*uri).to_owned()).collect()
    }

    #[test]
    fn a_server_is_asked_for_what_it_has() {
        let wanted = json!({
            "toolsListChanged": true, "resourceSubscriptions": ["db://a", "db://b", "db://c", "x:"],
        });
        check(&wanted, |wishes| {
            for (which, uris) in [(0, &["db://a"][..]), (1, &["db://b", "db://c"]), (2, &[])] {
                let params = wishes.params(which, &owned(uris));
                let params: Value = serde_json::from_slice(&params).unwrap();
                let asked = json!({"toolsListChanged": true, "resourceSubscriptions": uris});
                assert_eq!(params["notifications"], asked);
            }
            assert!(!wishes.is_nothing(2, &[]), "there are lists");
        });
        check(&json!({"resourceSubscriptions": ["db://a"]}), |wishes| {
            assert!(wishes.is_nothing(2, &[]) && !wishes.is_nothing(0, &owned(&["db://a"])));
        });
    }

    #[test]
    fn a_server_tells_of_what_it_was_asked_for_and_of_parts_of_it() {
        let uris = owned(&["db://a", "db://b/"]);
        for uri in ["db://a", "db://a/1", "db://b/2"] {
            assert!(is_asked_for(&uris, uri), "{uri}");
        }
        for uri in ["db://", "db://b", "db://c", "db://ab", "x:db://a", ""] {
            assert!(!is_asked_for(&uris, uri), "{uri}");
        }
        assert!(!is_asked_for(&[], "db://a"));
    }

    #[test]
    fn what_was_not_asked_for_is_not_acknowledged() {
        let wanted = json!({"resourceSubscriptions": ["db://a", "db://b"]});
        check(&wanted, |wishes| {
            let acknowledged = |told: &Value| -> Value {
                let params = Bytes::from(json!({"notifications": told}).to_string());
                let its = owned(&["db://a"]);
                let params = wishes.acknowledged((0, &its), Some(params)).unwrap();
                serde_json::from_slice::<Value>(&params).unwrap()["notifications"].take()
            };
            let told = json!({"x": 1, "resourceSubscriptions": ["db://a", "db://b"]});
            let expected = json!({"x": 1, "resourceSubscriptions": ["db://a"]});
            assert_eq!(acknowledged(&told), expected);
            assert_eq!(acknowledged(&json!({"x": 1})), json!({"x": 1}));
            let odd = json!({"resourceSubscriptions": true, "taskIds": ["t"]});
            assert_eq!(acknowledged(&odd), json!({"resourceSubscriptions": []}));
        });
    }

    #[test]
    fn lists_are_told_of_as_they_are_wanted() {
        let wanted = json!({"toolsListChanged": true, "promptsListChanged": false, "other": true});
        check(&wanted, |wishes| {
            let lists: Vec<_> = wishes.lists().collect();
            assert_eq!(lists, ["notifications/tools/list_changed"]);
        });
    }
}
