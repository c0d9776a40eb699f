//! The three ways in which questions reach a client.

use handback_interop::fixture::{Call, Failure, Host, Reply, call_tool};
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorCode, InputRequest, InputRequests, InputRequiredResult,
    RequestStateCodec, ServerRequest,
};
use rmcp::service::Peer;
use rmcp::task_manager::{TaskContext, TaskExit};
use rmcp::{ErrorData, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use crate::host::OfTask;

/// Inside of a result, with the state sealed.
pub(crate) fn in_result(
    codec: &RequestStateCodec,
    questions: Map<String, Value>,
    state: Option<&Value>,
) -> Result<InputRequiredResult, ErrorData> {
    let state = state.map(|state| codec.seal_json(state)).transpose();
    let state = state.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(InputRequiredResult::new(Some(requests(questions)?), state))
}

/// As requests of the server's own, until the call is done. What a client refuses to answer ends the
/// call with an error.
pub(crate) async fn by_requests(
    peer: &Peer<RoleServer>,
    name: &str,
    mut call: Call,
    host: &impl Host,
) -> Result<CallToolResult, ErrorData> {
    loop {
        let (questions, state) = match call_tool(name, &call, host).await.map_err(error)? {
            Reply::Done(result) => return complete(result),
            Reply::Ask { questions, state } => (questions, state),
        };
        call.answers.clear();
        call.state = state;
        for (key, question) in requests(questions)? {
            let request = match question {
                InputRequest::CreateMessage(request) => {
                    ServerRequest::CreateMessageRequest(request)
                }
                InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
                InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
                _ => return Err(ErrorData::internal_error("this can not be asked", None)),
            };
            match peer.send_request(request).await {
                Ok(answer) => call.answers.insert(key, plain(answer)?),
                Err(error) => {
                    let text = ContentBlock::text(format!("the client did not answer: {error}"));
                    return Ok(CallToolResult::error(vec![text]));
                }
            };
        }
    }
}

/// In the state of a task, all at once.
pub(crate) async fn in_task(
    name: &str,
    mut call: Call,
    task: &TaskContext,
) -> Result<CallToolResult, TaskExit> {
    loop {
        let reply = tokio::select! {
            reply = call_tool(name, &call, &OfTask) => reply.map_err(error)?,
            () = task.cancelled() => return Err(TaskExit::Cancelled),
        };
        let (questions, state) = match reply {
            Reply::Done(result) => return Ok(complete(result)?),
            Reply::Ask { questions, state } => (questions, state),
        };
        call.answers.clear();
        call.state = state;
        let mut waiting = JoinSet::new();
        for (key, question) in requests(questions)? {
            let task = task.clone();
            waiting.spawn(async move { (key.clone(), task.request_input(key, question).await) });
        }
        while let Some(answer) = waiting.join_next().await {
            let broken = |error: tokio::task::JoinError| {
                TaskExit::Error(ErrorData::internal_error(error.to_string(), None))
            };
            let (key, answer) = answer.map_err(broken)?;
            call.answers.insert(key, answer?);
        }
    }
}

/// An error in rmcp's form.
pub(crate) fn error(failure: Failure) -> ErrorData {
    let Failure { code, message, data } = failure;
    ErrorData::new(ErrorCode(code), message, data)
}

/// From the fixture's JSON to a type of rmcp.
pub(crate) fn typed<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// The same for a whole result. Read from JSON, one that does not name its kind has none; rmcp takes
/// the kind away where the client is too old for it, but never adds it.
pub(crate) fn complete<T: DeserializeOwned>(mut result: Value) -> Result<T, ErrorData> {
    if let Some(members) = result.as_object_mut() {
        members.insert("resultType".to_owned(), "complete".into());
    }
    typed(result)
}

/// And back.
pub(crate) fn plain(value: impl serde::Serialize) -> Result<Value, ErrorData> {
    serde_json::to_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn requests(questions: Map<String, Value>) -> Result<InputRequests, ErrorData> {
    questions.into_iter().map(|(key, question)| Ok((key, typed(question)?))).collect()
}
