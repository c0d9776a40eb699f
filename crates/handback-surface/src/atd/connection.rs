//! One connection: requests in, answers out, one at a time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handback_identity::Caller;
use handback_token::{MAX_CONTEXT_FIELD_BYTES, Operation, is_unambiguous};
use handback_tool::{
    Arguments, Continuation, InputBudget, InputRefusal, Pipeline, Refusal, Request, Surface,
    UnfinishedInput,
};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::answer::{self, AUDIENCE_MISMATCH, TIERS, UCAN_INVALID};
use super::wire::{ClientMessage, Frames, MAX_FRAME_BYTES, ServerMessage, TooLong, frame};
use crate::calls::{self, Shown};

/// Bytes of a refused frame that are read and dropped at a time.
const DRAIN_READ_BYTES: usize = 4 << 10;

/// Time for the rest of a refused frame.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// What operators choose about the socket.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// How long the first message may take, from the start of the connection.
    pub handshake: Duration,
    /// How long a client may say nothing between two requests: models think for minutes.
    pub idle: Duration,
    /// How long one frame may take, from its first byte to its last, in either direction.
    pub active: Duration,
    /// Connections at a time.
    pub connections: usize,
    /// What the server calls itself.
    pub server_version: String,
    /// Counts the bytes of frames that have not arrived whole.
    pub input: InputBudget,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            idle: Duration::from_secs(600),
            active: Duration::from_secs(30),
            connections: 1024,
            server_version: concat!("handback ", env!("CARGO_PKG_VERSION")).to_owned(),
            input: InputBudget::default(),
        }
    }
}

impl Settings {
    /// With other deadlines.
    #[must_use]
    pub const fn deadlines(
        mut self,
        handshake: Duration,
        idle: Duration,
        active: Duration,
    ) -> Self {
        self.handshake = handshake;
        self.idle = idle;
        self.active = active;
        self
    }

    /// With another number of connections at a time.
    #[must_use]
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// With a budget for frames that have not arrived whole.
    #[must_use]
    pub fn input(mut self, input: InputBudget) -> Self {
        self.input = input;
        self
    }
}

/// Serves a connection until the client leaves, is silent for too long, or the server stops: then
/// after the request that is under way.
///
/// # Errors
///
/// [`io::Error`] if reading or writing fails, or a client does not read its answer in time.
pub async fn serve_connection<S>(
    stream: S,
    caller: Caller,
    pipeline: Arc<Pipeline>,
    settings: &Settings,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let input = settings.input.input(caller.principal());
    let mut wire = Wire { stream, frames: Frames::default(), active: settings.active, input };
    let mut session = Session { caller, pipeline, settings, client: None };
    let (greeted_by, mut is_greeted) = (Instant::now() + settings.handshake, false);
    loop {
        let next = async {
            if is_greeted {
                wire.message(settings.idle).await
            } else {
                let first = timeout_at(greeted_by, wire.message(settings.handshake)).await;
                first.unwrap_or(Ok(Incoming::Nothing))
            }
        };
        let incoming = tokio::select! {
            incoming = next => incoming?,
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
        };
        let message = match incoming {
            Incoming::Message(message) => message,
            Incoming::Nothing => return Ok(()),
            Incoming::TooLong => {
                let reply = answer::plain("the frame is longer than it may be");
                return wire.send(&reply).await;
            }
            Incoming::Refused(refusal) => {
                tracing::debug!(reason = refusal.as_str(), "a frame was refused while it arrived");
                return wire.refuse(refusal).await;
            }
        };
        let reply = match ClientMessage::decode(&message) {
            _ if calls::is_too_deep(&message) => answer::plain("not a message: it is too deep"),
            _ if !is_unambiguous(&message) => {
                answer::plain("not a message: a member is there twice")
            }
            Ok(message) => {
                is_greeted = true;
                session.answer(message).await
            }
            Err(bad) => answer::plain(format!("not a message: {}", bad.reason())),
        };
        drop(message);
        wire.send(&reply).await?;
    }
}

/// The stream, as messages.
struct Wire<S> {
    stream: S,
    frames: Frames,
    active: Duration,
    /// Counts the bytes of `frames`.
    input: UnfinishedInput,
}

/// What came.
enum Incoming {
    Message(Bytes),
    /// The client left, or took too long.
    Nothing,
    TooLong,
    /// It needs bytes that there are not, or is too slow.
    Refused(InputRefusal),
}

/// Why nothing more is read.
enum ReadError {
    Io(io::Error),
    Refused(InputRefusal),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// The next message, whose first byte comes within `idle`.
    async fn message(&mut self, idle: Duration) -> io::Result<Incoming> {
        if self.frames.is_empty() {
            match timeout(idle, self.read()).await {
                Ok(Ok(true)) => {}
                Ok(Err(ReadError::Io(error))) => return Err(error),
                Ok(Err(ReadError::Refused(refusal))) => return Ok(Incoming::Refused(refusal)),
                Ok(Ok(false)) | Err(_) => return Ok(Incoming::Nothing),
            }
        }
        let active = self.active;
        let whole = async {
            loop {
                match self.frames.next_message() {
                    Ok(Some(message)) => {
                        // If the next one is refused, so is its next byte.
                        let _ = self.input.complete(self.frames.len());
                        return Ok(Incoming::Message(message));
                    }
                    Err(TooLong) => return Ok(Incoming::TooLong),
                    Ok(None) => {}
                }
                match self.read().await {
                    Ok(true) => {}
                    Ok(false) => return Ok(Incoming::Nothing),
                    Err(ReadError::Io(error)) => return Err(error),
                    Err(ReadError::Refused(refusal)) => return Ok(Incoming::Refused(refusal)),
                }
            }
        };
        timeout(active, whole).await.unwrap_or(Ok(Incoming::Nothing))
    }

    /// Reads some bytes; true if there were any.
    async fn read(&mut self) -> Result<bool, ReadError> {
        let Self { stream, frames, input, .. } = self;
        let has_begun = !frames.is_empty();
        let read = tokio::select! {
            biased;
            read = stream.read_buf(frames.buffer_mut()) => read.map_err(ReadError::Io)?,
            refusal = input.refused(), if has_begun => return Err(ReadError::Refused(refusal)),
        };
        input.received(read).map_err(ReadError::Refused)?;
        Ok(read > 0)
    }

    /// Sends a last answer, and reads what the client still sends: a client that sends all of a frame
    /// before it reads gets the answer then.
    async fn refuse(&mut self, refusal: InputRefusal) -> io::Result<()> {
        self.frames = Frames::default();
        self.send(&answer::unfinished(refusal)).await?;
        if refusal == InputRefusal::TooSlow {
            return Ok(());
        }
        let mut rest = [0; DRAIN_READ_BYTES];
        let drained = async {
            for _ in 0..MAX_FRAME_BYTES / DRAIN_READ_BYTES {
                if !matches!(self.stream.read(&mut rest).await, Ok(1..)) {
                    break;
                }
            }
        };
        let _ = timeout(DRAIN_TIME, drained).await;
        Ok(())
    }

    async fn send(&mut self, reply: &ServerMessage<Shown>) -> io::Result<()> {
        let bytes = match frame(reply) {
            Ok(bytes) => bytes,
            Err(TooLong) => frame(&answer::too_long()).unwrap_or_default(),
        };
        let written = async {
            self.stream.write_all(&bytes).await?;
            self.stream.flush().await
        };
        timeout(self.active, written).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// What a connection is known by.
struct Session<'a> {
    caller: Caller,
    pipeline: Arc<Pipeline>,
    settings: &'a Settings,
    /// What the client calls itself.
    client: Option<String>,
}

impl Session<'_> {
    async fn answer(&mut self, message: ClientMessage) -> ServerMessage<Shown> {
        match message {
            ClientMessage::Ping => ServerMessage::Pong,
            ClientMessage::Hello { client_id, requested_capabilities, ucan_tokens } => {
                self.hello(client_id, requested_capabilities, &ucan_tokens)
            }
            ClientMessage::ToolList => {
                let tools = calls::tools(&self.pipeline, &self.caller);
                ServerMessage::ToolList { tools: tools.into_iter().map(answer::summary).collect() }
            }
            ClientMessage::ToolSchema { tool_id } => {
                let registry = self.pipeline.registry();
                match registry.named(&self.caller, Operation::Call, &tool_id) {
                    Some(tool) => {
                        ServerMessage::ToolSchema { schema: answer::definition(tool.definition()) }
                    }
                    None => answer::refused(&tool_id, &Refusal::NotFound),
                }
            }
            ClientMessage::RunTool { tool_id, args, dry_run: true, .. } => {
                self.check(tool_id, args).await
            }
            ClientMessage::RunTool { tool_id, args, idempotency_key, .. } => {
                let request = self.request(&tool_id, Arguments::Carried(args), idempotency_key);
                self.run(tool_id, request).await
            }
            ClientMessage::RunToolContinue { tool_id, cursor, idempotency_key } => {
                let request = self.request(&tool_id, Arguments::InCursor, idempotency_key);
                self.run(tool_id, request.continuation(Continuation::Cursor(cursor))).await
            }
        }
    }

    /// Takes the client's name for itself. Each `hello` is in the place of the one before.
    fn hello(
        &mut self,
        client_id: Option<String>,
        wishes: Vec<String>,
        delegations: &[String],
    ) -> ServerMessage<Shown> {
        if client_id.as_ref().is_some_and(|client| client.len() > MAX_CONTEXT_FIELD_BYTES) {
            let most = MAX_CONTEXT_FIELD_BYTES;
            return answer::plain(format!("a client id has at most {most} bytes"));
        }
        if !delegations.is_empty() {
            return match client_id.as_deref() {
                None | Some("") => {
                    let message = "UCAN tokens need a client id";
                    answer::coded(Some(AUDIENCE_MISMATCH), false, message)
                }
                Some(_) => {
                    answer::coded(Some(UCAN_INVALID), false, "UCAN tokens are not taken here")
                }
            };
        }
        self.client = client_id;
        let granted = |wish: &String| self.caller.scopes().grant(wish);
        ServerMessage::HelloAck {
            granted_capabilities: wishes.into_iter().filter(granted).collect(),
            server_version: self.settings.server_version.clone(),
            supported_tiers: TIERS.map(str::to_owned).to_vec(),
        }
    }

    /// Checks a call that is not to be made.
    async fn check(&self, tool_id: String, args: Value) -> ServerMessage<Shown> {
        let request = self.request(&tool_id, Arguments::Carried(args.clone()), None);
        match self.pipeline.check(request).await {
            Ok(()) => answer::checked(tool_id, args),
            Err(refusal) => answer::refused(&tool_id, &refusal),
        }
    }

    async fn run(&self, tool_id: String, request: Request) -> ServerMessage<Shown> {
        match calls::call(&self.pipeline, request).await {
            Ok(given) => answer::answered(tool_id, given),
            Err(refusal) => answer::refused(&tool_id, &refusal),
        }
    }

    fn request(&self, tool_id: &str, arguments: Arguments, key: Option<String>) -> Request {
        let caller = self.caller.clone();
        let mut request =
            Request::new(caller, Surface::Socket, Operation::Call, tool_id, arguments);
        if let Some(client) = &self.client {
            request = request.client(client);
        }
        if let Some(key) = key {
            request = request.key(key);
        }
        request
    }
}
