//! The UNIX socket: `docs/spec/atd-socket.md`. One connection for each request.

use std::path::PathBuf;

use handback_stream::atd::{ClientMessage, Frames, frame};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::answer::{Answer, Failed, Given, ToolInfo};
use super::call::{Call, Continuation};
use super::client::MAX_LISTED;
use super::error::{Refused, ToolsError};

#[derive(Clone, Debug)]
pub(super) struct SocketTools {
    pub(super) path: PathBuf,
}

/// `run_tool`, with the arguments as they were written.
#[derive(Serialize)]
struct RunTool<'a> {
    r#type: &'static str,
    tool_id: &'a str,
    args: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
}

/// What the server says; the members of all kinds of messages.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Heard {
    r#type: String,
    tools: Vec<Box<RawValue>>,
    schema: Option<Box<RawValue>>,
    result: Option<Box<RawValue>>,
    success: bool,
    next_cursor: Option<String>,
    replayed: bool,
    message: String,
    code: Option<u16>,
    retryable: bool,
}

impl SocketTools {
    pub(super) async fn call(&self, call: &Call) -> Result<Answer, ToolsError> {
        let key = call.key.as_deref();
        let heard = match &call.continuation {
            None => {
                let (tool_id, args) = (call.tool.as_str(), call.arguments.raw());
                self.ask(&RunTool { r#type: "run_tool", tool_id, args, idempotency_key: key }).await
            }
            Some(Continuation::Cursor(cursor)) => {
                let (tool_id, cursor) = (call.tool.clone(), cursor.clone());
                let idempotency_key = key.map(str::to_owned);
                self.ask(&ClientMessage::RunToolContinue { tool_id, cursor, idempotency_key }).await
            }
            Some(Continuation::State { .. }) => return Err(no_questions().into()),
        }?;
        let result = heard.result.filter(|_| heard.r#type == "tool_result");
        let result = result.ok_or(ToolsError::Misbehaved("this is no result of a tool"))?;
        let is_replay = heard.replayed;
        match heard.success {
            true => {
                let next_cursor = heard.next_cursor;
                Ok(Answer::Given(Given { result, next_cursor, is_replay }))
            }
            false => failed(&result, is_replay),
        }
    }

    pub(super) async fn list(&self) -> Result<Vec<ToolInfo>, ToolsError> {
        let heard = self.ask(&ClientMessage::ToolList).await?;
        if heard.tools.len() > MAX_LISTED {
            return Err(ToolsError::Misbehaved("there are too many tools"));
        }
        heard.tools.into_iter().map(info).collect()
    }

    pub(super) async fn describe(&self, tool: &str) -> Result<ToolInfo, ToolsError> {
        let heard = self.ask(&ClientMessage::ToolSchema { tool_id: tool.to_owned() }).await?;
        info(heard.schema.ok_or(ToolsError::Misbehaved("this is no tool"))?)
    }

    /// The answer to a message.
    async fn ask(&self, message: &impl Serialize) -> Result<Heard, ToolsError> {
        let unsent = |_| ToolsError::Unreached("it is longer than a frame may be".to_owned());
        let bytes = frame(message).map_err(unsent)?;
        let stream = UnixStream::connect(&self.path).await;
        let mut stream = stream
            .map_err(|why| ToolsError::Unreached(format!("{}: {why}", self.path.display())))?;
        let lost = |why: std::io::Error| ToolsError::Lost(why.to_string());
        stream.write_all(&bytes).await.map_err(lost)?;
        let mut frames = Frames::default();
        loop {
            let message = frames.next_message();
            let message =
                message.map_err(|_| ToolsError::Misbehaved("a frame that is too long"))?;
            if let Some(message) = message {
                return understood(&message);
            }
            if stream.read_buf(frames.buffer_mut()).await.map_err(lost)? == 0 {
                return Err(ToolsError::Lost("the connection was closed".to_owned()));
            }
        }
    }
}

fn understood(message: &[u8]) -> Result<Heard, ToolsError> {
    let heard: Heard = serde_json::from_slice(message)
        .map_err(|_| ToolsError::Misbehaved("a frame that is no message"))?;
    match heard.r#type.as_str() {
        "error" => Err(refused(&heard).into()),
        _ => Ok(heard),
    }
}

/// The protocol has numbers; what they mean has a name elsewhere.
fn refused(heard: &Heard) -> Refused {
    let code = match heard.code {
        Some(1002) => "busy".to_owned(),
        Some(1020) => "expired".to_owned(),
        Some(1021) => "invalid".to_owned(),
        Some(code) => code.to_string(),
        None => "bad_request".to_owned(),
    };
    Refused { is_retryable: heard.retryable, ..Refused::new(code, heard.message.clone()) }
}

fn no_questions() -> Refused {
    Refused::new("bad_request", "the UNIX socket has no questions and answers: use another surface")
}

#[derive(Deserialize)]
struct WireFailure {
    #[serde(default)]
    code: String,
    message: String,
    data: Option<Box<RawValue>>,
}

fn failed(result: &RawValue, is_replay: bool) -> Result<Answer, ToolsError> {
    let WireFailure { code, message, data } = serde_json::from_str(result.get())
        .map_err(|_| ToolsError::Misbehaved("this is no failure of a tool"))?;
    match code.as_str() {
        "INPUT_REQUIRED" => Err(no_questions().into()),
        _ => Ok(Answer::Failed(Failed { message, data, is_replay })),
    }
}

#[derive(Deserialize)]
struct WireInfo {
    id: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    input_schema: Value,
}

fn info(text: Box<RawValue>) -> Result<ToolInfo, ToolsError> {
    let WireInfo { id, description, input_schema } =
        serde_json::from_str(text.get()).map_err(|_| ToolsError::Misbehaved("this is no tool"))?;
    Ok(ToolInfo { name: id, description, input_schema, text })
}
