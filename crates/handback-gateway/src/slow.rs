//! Calls that take long, for clients that know tasks: such a call goes on without its connection, and
//! the client gets a handle before the work is long.
//!
//! An upstream that has tasks of its own decides itself what becomes one: its tasks are passed on. So a
//! call becomes a task once it is known that the upstream makes none, and no sooner.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use handback_mcp::Era;
use handback_mcp::server::tasks::{NewTask, Round, Rounds, SLOW_AFTER, TaskTool};
use handback_mcp::wire::{Message, Object};
use handback_token::Operation;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::calls::says;
use crate::catalog::member;
use crate::gateway::{Gateway, text_of};
use crate::names::Target;
use crate::retry::Delivery;
use crate::talk::{Question, Talk};
use crate::upstream::{Answer, Raw};
use crate::words::{self, INTERNAL_ERROR};

/// The name of the extension.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

impl Gateway {
    /// A call of a tool. One that takes long becomes a task, if its client knows tasks.
    pub(crate) async fn call_tool(
        &self,
        talk: &Talk,
        question: Question<'_>,
        cancel: CancellationToken,
    ) -> Answer {
        let Some(name) = named_by_who_knows_tasks(talk, &question) else {
            return self.call(talk, question, Operation::Call, cancel).await;
        };
        let own = CancellationToken::new();
        // That the client has the handle of a task does not mean that it has the answer.
        let of_call = Delivery::default();
        let with_own = Talk { delivery: of_call.clone(), ..talk.clone() };
        let (since, is_in) = (Instant::now(), Arc::new(Notify::new()));
        let mut call = Relayed::begin(self, with_own, &question, own.clone(), &is_in);
        // Beside it, which goes on meanwhile: the line may have to be opened, and who is behind asked.
        let becomes_task = async {
            let Some(target) = self.may_be_task(talk, &name).await else {
                return std::future::pending().await;
            };
            // What may not be made becomes nothing.
            is_in.notified().await;
            if !self.options().is_long(target.names(self, &name)) {
                tokio::time::sleep_until(since + SLOW_AFTER).await;
            }
            target
        };
        let target = tokio::select! {
            answer = &mut call.under_way => {
                talk.delivery.take_over(&of_call);
                return answer;
            }
            () = cancel.cancelled() => {
                own.cancel();
                return call.under_way.await;
            }
            target = becomes_task => target,
        };
        let names = target.names(self, &name);
        let new = NewTask {
            owner: talk.caller.principal().clone(),
            tool: TaskTool {
                name: names.shown.to_owned(),
                own_name: names.own.to_owned(),
                upstream: Some(names.upstream.to_owned()),
            },
            longest: self.options().time_limit(names),
            patience: self.pipeline().sealer().state_life(),
            cancel: own.clone(),
        };
        match self.own_tasks().adopt(new, call).await {
            Ok(task) => {
                let task = serde_json::to_vec(&task).unwrap_or_default();
                if self.options().retries_identical(names)
                    && let Some(id) = member(&task, "taskId")
                {
                    self.deliveries().put(id, of_call);
                }
                Answer::Result(Raw::Memory(task.into()))
            }
            // It is at work: refused now, it might be made again.
            Err((mut call, _)) => tokio::select! {
                answer = &mut call.under_way => {
                    talk.delivery.take_over(&of_call);
                    answer
                }
                () = cancel.cancelled() => {
                    own.cancel();
                    call.under_way.await
                }
            },
        }
    }

    /// Where a tool is, if a call of it may become a task: nobody behind makes them.
    async fn may_be_task(&self, talk: &Talk, name: &str) -> Option<Target> {
        let target = self.target(talk, Operation::Call, name).await?;
        let is_passed_on = target.which == self.own() || self.has_tasks(target.which).await;
        (!is_passed_on).then_some(target)
    }
}

/// The name of the tool, if who calls it knows tasks.
pub(crate) fn named_by_who_knows_tasks(talk: &Talk, question: &Question<'_>) -> Option<String> {
    let params = question.params.filter(|_| talk.era == Era::Modern)?;
    if !says(params.get().as_bytes(), TASKS.as_bytes()) || !knows_tasks(params) {
        return None;
    }
    text_of(params, "name")
}

/// Whether a question says that its client knows tasks.
pub(crate) fn knows_tasks(params: &RawValue) -> bool {
    let said = || {
        let params = Object::read(params).ok()?;
        let meta: Value = serde_json::from_str(params.get("_meta")?).ok()?;
        let can = meta.get("io.modelcontextprotocol/clientCapabilities")?;
        can.get("extensions")?.get(TASKS).cloned()
    };
    said().is_some()
}

/// A relayed call with all its rounds.
struct Relayed {
    gateway: Gateway,
    talk: Talk,
    cancel: CancellationToken,
    /// What was asked first: the rounds after it differ in what came back.
    asked: Asked,
    /// The state that goes with what was asked of the client last.
    state: Option<String>,
    under_way: BoxFuture<'static, Answer>,
}

/// A question that outlives its connection.
#[derive(Clone)]
struct Asked {
    message: Bytes,
    headers: Vec<(String, String)>,
    key: Option<String>,
}

impl Asked {
    fn ask(
        self,
        gateway: Gateway,
        talk: Talk,
        cancel: CancellationToken,
        is_in: Option<Arc<Notify>>,
    ) -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            let Ok(Message::Request { id, method, params }) = Message::read(&self.message) else {
                return words::refused(INTERNAL_ERROR, "the call cannot go on", None);
            };
            let question = Question {
                id: id.as_json(),
                method: &method,
                params,
                message: &self.message,
                headers: self.headers,
                key: self.key,
            };
            gateway.call_telling(&talk, question, Operation::Call, cancel, is_in.as_deref()).await
        })
    }

    /// The same question with what came back.
    fn with(&self, state: Option<String>, answers: Map<String, Value>) -> Option<Self> {
        let Ok(Message::Request { id, params: Some(params), .. }) = Message::read(&self.message)
        else {
            return None;
        };
        let mut params = Object::read(params).ok()?;
        params.set("inputResponses", Value::Object(answers).to_string());
        match state {
            Some(state) => params.set("requestState", Value::from(state).to_string()),
            None => drop(params.remove("requestState")),
        }
        let (id, params) = (id.as_json(), params.to_json());
        let message =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        Some(Self { message: message.into(), ..self.clone() })
    }
}

impl Relayed {
    fn begin(
        gateway: &Gateway,
        talk: Talk,
        question: &Question<'_>,
        cancel: CancellationToken,
        is_in: &Arc<Notify>,
    ) -> Self {
        let asked = Asked {
            message: question.message.clone(),
            headers: question.headers.clone(),
            key: question.key.clone(),
        };
        let gateway = gateway.clone();
        let is_in = Some(Arc::clone(is_in));
        let under_way = asked.clone().ask(gateway.clone(), talk.clone(), cancel.clone(), is_in);
        Self { gateway, talk, cancel, asked, state: None, under_way }
    }

    fn round(&mut self, answer: &Answer) -> Round {
        let failed =
            |message: &str| Round::Failed(json!({"code": INTERNAL_ERROR, "message": message}));
        let raw = match answer {
            Answer::Error(_) if self.cancel.is_cancelled() => return Round::Cancelled,
            Answer::Error(error) => {
                let error = serde_json::from_slice(error);
                return error.map_or_else(|_| failed("the call failed"), Round::Failed);
            }
            Answer::Result(raw) => raw,
        };
        let result =
            raw.whole().and_then(|json| serde_json::from_slice::<Box<RawValue>>(&json).ok());
        let Some(result) = result else { return failed("the result could not be read") };
        let (kind, requests, state) = {
            let Ok(members) = Object::read(&result) else { return Round::Completed(result) };
            let kind = members.text("resultType").map(std::borrow::Cow::into_owned);
            let requests =
                members.get("inputRequests").and_then(|it| serde_json::from_str(it).ok());
            (kind, requests, members.text("requestState").map(std::borrow::Cow::into_owned))
        };
        match (kind.as_deref(), requests) {
            (Some("input_required"), Some(requests)) => {
                self.state = state;
                Round::Asks(requests)
            }
            (Some("input_required"), None) => failed("the server asks nothing, and waits for it"),
            (Some("task"), _) => failed("the server made a task, and did not say that it has any"),
            _ => Round::Completed(result),
        }
    }
}

impl Rounds for Relayed {
    fn ended(&mut self) -> BoxFuture<'_, Round> {
        Box::pin(async {
            let answer = (&mut self.under_way).await;
            self.round(&answer)
        })
    }

    fn go_on(&mut self, answers: Map<String, Value>) {
        self.under_way = match self.asked.with(self.state.take(), answers) {
            Some(asked) => {
                let (gateway, talk) = (self.gateway.clone(), self.talk.clone());
                asked.ask(gateway, talk, self.cancel.clone(), None)
            }
            None => {
                let broken = words::refused(INTERNAL_ERROR, "the call cannot go on", None);
                Box::pin(std::future::ready(broken))
            }
        };
    }
}
