//! Tasks: of upstreams, under ids of this gateway, and of the gateway itself.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handback_mcp::Era;
use handback_mcp::wire::Object;
use handback_page::json::{ByteSource as _, Pointer, locate};
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
        let task = question.params.and_then(|params| text_of(params, "taskId")).unwrap_or_default();
        // Of which tool a task is that this session was not given, nobody says.
        let tool = talk.session.as_ref().and_then(|session| session.tool_of_task(&task));
        let tool = tool.as_deref().unwrap_or("");
        let names = ToolNames { shown: tool, own: tool, upstream: self.name_of(0) };
        let holding = self.holding(talk, None, names);
        let raw = match self.pass(talk, 0, question, question.params_bytes()).await {
            Answer::Result(raw) if question.method == "tasks/result" => raw,
            Answer::Error(json) => return Answer::Error(holding.error(json)),
            other => return other,
        };
        if !holding.is_over(&raw) || self.common_catalogs().handbacks.exempt(0, raw.size_bytes()) {
            return Answer::Result(raw);
        }
        match self.held_once(talk, &holding, &task, raw).await {
            Ok(result) => Answer::Result(Raw::Memory(result)),
            Err(NotHeld::Failed(_) | NotHeld::Asks) => {
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
            media: self.options().media_budget(client.as_deref(), names),
            knows_links: talk.knows_links(),
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
        let Some(params) = question.params else { return lost(LineError::Protocol("no question")) };
        let told = self.task_told(talk, params, (task, shown), raw).await;
        told.map_or_else(lost, |json| Answer::Result(Raw::Memory(json)))
    }

    /// The same of what an upstream told, asked or not; `params` are those of the client's question.
    pub(crate) async fn task_told(
        &self,
        talk: &Talk,
        params: &RawValue,
        (task, shown): (&HopTask, &str),
        raw: Raw,
    ) -> Result<Bytes, LineError> {
        let holding = self.holding(talk, Object::read(params).ok().as_ref(), task.names());
        let (keeps, gateway) = (holding.clone(), self.clone());
        let which = self.number_of(&task.upstream).unwrap_or(usize::MAX);
        let is_over = move |raw: &Raw| {
            let handbacks = &gateway.common_catalogs().handbacks;
            keeps.is_over(raw) && !handbacks.exempt(which, raw.size_bytes())
        };
        let apart = tokio::task::spawn_blocking(move || Apart::of(&raw, is_over));
        let Apart { json, over } = apart.await.map_err(|_| LineError::Lost)??;
        let read = serde_json::from_slice::<&RawValue>(&json).ok();
        let Some(mut told) = read.and_then(|raw| Object::read(raw).ok()) else {
            return match over {
                None => Ok(json.clone()),
                // Readers differ about what its result is.
                Some(_) => Err(LineError::Protocol("no result")),
            };
        };
        let has_id = told.text("taskId").is_some_and(|id| id == task.task);
        if has_id {
            told.set("taskId", Value::from(shown).to_string());
        }
        let error = told.get("error").map(|error| Bytes::copy_from_slice(error.as_bytes()));
        let error = error.filter(|error| !holding.budget.allows(error.len() as u64));
        let is_changed = has_id || over.is_some() || error.is_some();
        if let Some(error) = error {
            told.set("error", String::from_utf8_lossy(&holding.error(error)).into_owned());
        }
        if let Some(result) = over {
            match self.held_once(talk, &holding, shown, result).await {
                Ok(result) => told.set("result", String::from_utf8_lossy(&result).into_owned()),
                Err(NotHeld::Failed(_) | NotHeld::Asks) => {
                    return Err(LineError::Protocol("no result"));
                }
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

/// What an upstream says of a task, and the result in it that is over a budget, if it has one.
struct Apart {
    /// All of it; or all but that result, in whose place is `null`.
    json: Bytes,
    over: Option<Raw>,
}

impl Apart {
    /// Takes a result out of what was said, where it lies. Blocks.
    fn of(raw: &Raw, is_over: impl Fn(&Raw) -> bool) -> Result<Self, LineError> {
        if is_over(raw) {
            let result = Pointer::from_tokens(["result".to_owned()]);
            let found = locate(raw, &result).map_err(|_| LineError::Protocol("no result"))?;
            let found = found.and_then(|range| Some((raw.part(&range)?, range)));
            if let Some((over, range)) = found.filter(|(result, _)| is_over(result)) {
                return Ok(Self { json: rest(raw, &range)?, over: Some(over) });
            }
        }
        if raw.size_bytes() > PASSED_BYTES_MAX {
            return Err(LineError::TooLarge);
        }
        Ok(Self { json: raw.whole().ok_or(LineError::Lost)?, over: None })
    }
}

/// All but a part, in whose place is `null`.
fn rest(raw: &Raw, part: &Range<u64>) -> Result<Bytes, LineError> {
    let size = raw.size_bytes();
    if part.start.saturating_add(size.saturating_sub(part.end)) > PASSED_BYTES_MAX {
        return Err(LineError::TooLarge);
    }
    let read = |range| raw.read(range).map_err(|_| LineError::Lost);
    let (before, behind) = (read(0..part.start)?, read(part.end..size)?);
    Ok([before.as_ref(), b"null", behind.as_ref()].concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of a text, and the result that was taken out of it if it is longer than ten bytes.
    fn apart(text: &'static str) -> (String, Option<String>) {
        let raw = Raw::Memory(Bytes::from_static(text.as_bytes()));
        let apart = Apart::of(&raw, |raw| raw.size_bytes() > 10).unwrap();
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        (text(apart.json), apart.over.map(|over| text(over.whole().unwrap())))
    }

    #[test]
    fn a_result_is_taken_out_where_it_lies() {
        let text = r#"{ "a":{"result":[1,2,3,4,5,6]}, "result" : "12345678 \n" ,"b":1.50}"#;
        let left = r#"{ "a":{"result":[1,2,3,4,5,6]}, "result" : null ,"b":1.50}"#;
        assert_eq!(apart(text), (left.to_owned(), Some(r#""12345678 \n""#.to_owned())));
        for whole in [r#"{"result":"1"}"#, r#"{"result":"1","much":"1234567890"}"#, r#"["result"]"#]
        {
            assert_eq!(apart(whole), (whole.to_owned(), None));
        }
    }
}
