//! Tasks: of upstreams, under ids of this gateway, and of the gateway itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handback_mcp::Era;
use handback_mcp::wire::Object;
use handback_page::json::ByteSource as _;
use handback_token::Handle;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::catalog::member;
use crate::gateway::{Gateway, text_of};
use crate::hold::{Holding, NotHeld, PASSED_BYTES_MAX};
use crate::hop::{HopTask, with_text};
use crate::options::ToolNames;
use crate::slow::knows_tasks;
use crate::talk::{Question, Talk};
use crate::upstream::{Answer, LineError, Raw};
use crate::words::{self, INVALID_PARAMS};

/// Questions about one task.
pub(crate) const TASK_METHODS: [&str; 4] =
    ["tasks/get", "tasks/update", "tasks/cancel", "tasks/result"];

impl Gateway {
    /// A question about a task.
    pub(crate) async fn task(&self, talk: &Talk, question: Question<'_>) -> Answer {
        let unknown = || {
            let data = json!({"reason": "invalid"});
            words::refused(INVALID_PARAMS, "there is no such task", Some(data))
        };
        let is_alone = self.own() == 1;
        let has_own_process = self.has_own_process(talk).await;
        // The newer era has no `tasks/result`.
        let is_known = TASK_METHODS.contains(&question.method)
            && (talk.session.is_some() || question.method != "tasks/result");
        if !is_known {
            // Other methods name no task: where a process is this client's alone, it may answer.
            let which = if has_own_process { 0 } else { self.own() };
            return self.pass(talk, which, &question, question.params_bytes()).await;
        }
        let Some(params) = question.params else { return unknown() };
        if talk.session.is_none() && !knows_tasks(params) {
            // Our own server has the words for who did not say so.
            return self.pass(talk, self.own(), &question, question.params_bytes()).await;
        }
        let shown = text_of(params, "taskId").unwrap_or_default();
        if talk.session.is_none() && Handle::parse(&shown).is_ok() {
            return self.own_task(talk, &question, &shown).await;
        }
        if let Some(session) = talk.session.as_ref().filter(|_| is_alone) {
            // Of the one server behind, whose tasks have their own names there. Where its process is
            // this client's alone, so are all of its tasks.
            return match has_own_process || session.was_given_task(&shown) {
                true => self.of_older_task(talk, &question).await,
                false => unknown(),
            };
        }
        let Some((which, task)) = self.task_of(talk, &shown).await else { return unknown() };
        let params = with_text(params.get().as_bytes(), "taskId", &task.task);
        match self.pass(talk, which, &question, params).await {
            Answer::Result(raw) => self.of_task(talk, &question, which, (&task, &shown), raw).await,
            Answer::Error(json) => {
                let params = question.params.and_then(|params| Object::read(params).ok());
                let holding = self.holding(talk, params.as_ref(), task.names());
                Answer::Error(holding.error(json))
            }
        }
    }

    /// The task of an upstream that the client knows by this id, and the upstream.
    pub(crate) async fn task_of(&self, talk: &Talk, shown: &str) -> Option<(usize, HopTask)> {
        let task = self.hop(&talk.caller).open_task(shown).await?;
        let which = self.number_of(&task.upstream)?;
        Some((which, task))
    }

    /// Whether the one upstream is a program, and its process this client's alone: of the newer era all
    /// callers have one, and where it is shared.
    async fn has_own_process(&self, talk: &Talk) -> bool {
        if talk.session.is_none() || self.own() != 1 || !self.is_program(0) {
            return false;
        }
        let line = self.line(talk, 0).await;
        line.is_ok_and(|line| line.era() == Era::Legacy && !line.is_shared())
    }

    /// What the one upstream of an older client says of a task; a result fits the client's budget.
    async fn of_older_task(&self, talk: &Talk, question: &Question<'_>) -> Answer {
        // Of which tool it is, is not said.
        let names = ToolNames { shown: "", own: "", upstream: self.name_of(0) };
        let holding = self.holding(talk, None, names);
        let raw = match self.pass(talk, 0, question, question.params_bytes()).await {
            Answer::Result(raw) if question.method == "tasks/result" => raw,
            Answer::Error(json) => return Answer::Error(holding.error(json)),
            other => return other,
        };
        if !holding.is_over(&raw) {
            return Answer::Result(raw);
        }
        let task = question.params.and_then(|params| text_of(params, "taskId")).unwrap_or_default();
        match self.held_once(talk, &holding, &task, raw).await {
            Ok(result) => Answer::Result(Raw::Memory(result)),
            Err(NotHeld::Failed(_)) => {
                words::unanswered(self.name_of(0), &LineError::Protocol("no result"))
            }
            Err(NotHeld::Refused(why)) => words::tool_error(talk.era, &why, "not_held"),
        }
    }

    /// For whom the result of a task is held, and from which size on.
    fn holding(&self, talk: &Talk, params: Option<&Object<'_>>, names: ToolNames<'_>) -> Holding {
        let of_session = talk.session.as_ref().and_then(|session| session.client());
        let client = match (of_session, params) {
            (Some(client), _) => Some(client.to_owned()),
            (None, Some(params)) => self.client_name(talk, params),
            (None, None) => None,
        };
        Holding {
            budget: self.options().budget(client.as_deref(), names),
            held: self.pipeline().held().clone(),
            owner: talk.caller.principal().clone(),
            clock: Arc::clone(self.pipeline().clock()),
            upstream: names.upstream.to_owned(),
            tool: names.shown.to_owned(),
            retried_for: Duration::ZERO,
        }
    }

    /// What an upstream says of a task, under the id that the client knows, and with a result that fits
    /// the client's budget.
    async fn of_task(
        &self,
        talk: &Talk,
        question: &Question<'_>,
        which: usize,
        (task, shown): (&HopTask, &str),
        raw: Raw,
    ) -> Answer {
        let lost = |why| words::unanswered(self.name_of(which), &why);
        if raw.size_bytes() > PASSED_BYTES_MAX {
            return lost(LineError::TooLarge);
        }
        let read = tokio::task::spawn_blocking(move || raw.whole()).await;
        let Some(json) = read.ok().flatten() else { return lost(LineError::Lost) };
        let Some(params) = question.params else { return Answer::Result(Raw::Memory(json)) };
        let told = self.task_told(talk, params, (task, shown), json).await;
        told.map_or_else(lost, |json| Answer::Result(Raw::Memory(json)))
    }

    /// The same of what an upstream told, asked or not; `params` are those of the client's question.
    pub(crate) async fn task_told(
        &self,
        talk: &Talk,
        params: &RawValue,
        (task, shown): (&HopTask, &str),
        json: Bytes,
    ) -> Result<Bytes, LineError> {
        let Ok(raw) = serde_json::from_slice::<&RawValue>(&json) else { return Ok(json.clone()) };
        let Ok(mut told) = Object::read(raw) else { return Ok(json.clone()) };
        let has_id = told.text("taskId").is_some_and(|id| id == task.task);
        if has_id {
            told.set("taskId", Value::from(shown).to_string());
        }
        let holding = self.holding(talk, Object::read(params).ok().as_ref(), task.names());
        let result = told.get("result").map(|result| Bytes::copy_from_slice(result.as_bytes()));
        let over = result.map(Raw::Memory).filter(|result| holding.is_over(result));
        let error = told.get("error").map(|error| Bytes::copy_from_slice(error.as_bytes()));
        let error = error.filter(|error| !holding.budget.allows(error.len() as u64));
        let is_changed = has_id || over.is_some() || error.is_some();
        if let Some(error) = error {
            told.set("error", String::from_utf8_lossy(&holding.error(error)).into_owned());
        }
        if let Some(result) = over {
            match self.held_once(talk, &holding, shown, result).await {
                Ok(result) => told.set("result", String::from_utf8_lossy(&result).into_owned()),
                Err(NotHeld::Failed(_)) => return Err(LineError::Protocol("no result")),
                Err(NotHeld::Refused(why)) => {
                    let Answer::Result(error) = words::tool_error(talk.era, &why, "not_held")
                    else {
                        return Err(LineError::Lost);
                    };
                    let error = error.whole().unwrap_or_default();
                    told.set("result", String::from_utf8_lossy(&error).into_owned());
                }
            }
        }
        match is_changed {
            true => Ok(told.to_json().into()),
            false => Ok(json.clone()),
        }
    }

    /// A task of this gateway. Its result is as the upstream gave it, and rmcp has no part in it.
    async fn own_task(&self, talk: &Talk, question: &Question<'_>, id: &str) -> Answer {
        if question.method != "tasks/get" {
            return self.pass(talk, self.own(), question, question.params_bytes()).await;
        }
        match self.own_tasks().get_json(self.pipeline(), &talk.caller, id).await {
            Ok(json) => {
                let status = member(json.as_bytes(), "status");
                if matches!(status.as_deref(), Some("completed" | "failed" | "cancelled"))
                    && let Some(delivery) = self.deliveries().get(&id.to_owned())
                {
                    delivery.done();
                }
                Answer::Result(Raw::Memory(json.into()))
            }
            Err(error) => Answer::Error(error.into()),
        }
    }
}
