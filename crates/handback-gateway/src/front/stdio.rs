//! A client at the other end of two pipes: one JSON text on each line.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handback_identity::Caller;
use handback_mcp::Era;
use handback_mcp::era::Envelope;
use handback_mcp::wire::{Id, Message};
use handback_token::is_unambiguous;
use handback_wire::scan::Envelope as Scanned;
use hyper::HeaderMap;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use super::lines::{Input, Sent};
use crate::cancellation::Cancellation;
use crate::gateway::Gateway;
use crate::retry::{Delivery, Leaving};
use crate::session::{CANCELLED, Session, request_id};
use crate::talk::{Question, Talk, ToClient, WAITING_MAX};
use crate::upstream::{Answer, Raw};
use crate::words::{self, INVALID_REQUEST};

/// Questions of the client that are under way at a time; it is not read any further meanwhile.
const UNDER_WAY_MAX: usize = 256;

/// Bytes of lines that wait to be written at most, unless one alone has more: as many as one answer may
/// have. There are places for far more lines.
const LINES_BYTES_MAX: u32 = 64 << 20;

/// Lines that are read while one before them is being taken, at most. All of them have as many bytes as one
/// may have, but for the last.
const AHEAD_MAX: usize = 64;

/// How long a line may take to be taken, once the client has closed its end: a server that was greeted may
/// still be starting.
const TAKING_TIME: Duration = Duration::from_secs(5);

/// How long what is under way may take to be answered, once the client has closed its end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long calls that are recorded may take to come to their record, once the client has closed its
/// end: it may ask for them again.
const RECORDED_TIME: Duration = Duration::from_secs(30);

/// The code of JSON-RPC of what is no JSON.
pub(crate) const PARSE_ERROR: i32 = -32700;

/// Why a client is not served any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StdioError {
    /// A pipe broke.
    #[error("the client cannot be reached: {0}")]
    Pipe(#[from] std::io::Error),
}

/// One client.
struct Client {
    gateway: Gateway,
    caller: Caller,
    /// Lines for the client.
    lines: Lines,
    session: watch::Sender<Option<Arc<Session>>>,
    /// What the client says that is not answered, for its session.
    told: mpsc::Sender<(String, Option<Bytes>)>,
    places: Arc<Semaphore>,
    /// What is under way of the newer era, by the JSON of its id.
    under_way: Arc<std::sync::Mutex<std::collections::HashMap<String, Cancellation>>>,
    /// Bytes of a message of the client at most.
    bytes_max: usize,
}

/// A line for the client, and who hears that it was taken.
struct Outgoing {
    line: Bytes,
    delivery: Option<Delivery>,
}

impl From<Bytes> for Outgoing {
    fn from(line: Bytes) -> Self {
        Self { line, delivery: None }
    }
}

/// Serves the client at the other end until it closes its end, or until `stop` says so. With its only
/// client, the gateway is closed. A message of more than `bytes_max` bytes is refused, and passed over.
///
/// # Errors
///
/// [`StdioError`] if it cannot be served any more.
pub async fn serve(
    gateway: Gateway,
    caller: Caller,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    bytes_max: usize,
    stop: watch::Receiver<bool>,
) -> Result<(), StdioError> {
    let (lines, waiting) = Lines::new();
    let writer = tokio::spawn(write(output, waiting));
    let (told, mut telling) = mpsc::channel::<(String, Option<Bytes>)>(WAITING_MAX);
    let session = watch::Sender::new(None);
    let begun = session.subscribe();
    tokio::spawn(async move {
        while let Some((method, params)) = telling.recv().await {
            let session: Option<Arc<Session>> = begun.borrow().clone();
            if let Some(session) = session {
                session.tell(&method, params).await;
            }
        }
    });
    let client = Client {
        gateway,
        caller,
        lines,
        session,
        told,
        places: Arc::new(Semaphore::new(UNDER_WAY_MAX)),
        under_way: Arc::default(),
        bytes_max,
    };
    let mut input = Input::new(input, bytes_max);
    let ended = tokio::select! {
        ended = take_all(&client, &mut input) => ended,
        () = stopped(stop.clone()) => Ok(()),
    };
    let gateway = client.gateway.clone();
    let under_way = Arc::clone(&client.under_way);
    let session = client.session.borrow().as_ref().map(Arc::downgrade);
    drop(client);
    let mut writer = writer;
    // What is answered soon is still written.
    let is_over = tokio::time::timeout(LAST_WORDS, &mut writer).await.is_ok();
    // Nobody waits for the rest: it is cancelled, and what is recorded comes to its record.
    lock(&under_way).values().for_each(Cancellation::end);
    if let Some(session) = session.and_then(|session| session.upgrade()) {
        session.cancel_all();
    }
    if tokio::time::timeout(RECORDED_TIME, gateway.settled()).await.is_err() {
        tracing::warn!("calls were cut that did not end in time");
    }
    if !is_over && tokio::time::timeout(LAST_WORDS, &mut writer).await.is_err() {
        writer.abort();
    }
    gateway.close(stopped(stop)).await;
    ended
}

/// Writes lines until there are no more. An answer is delivered once the pipe has taken it: a client that
/// is gone has closed its end, and takes nothing.
async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut waiting: mpsc::Receiver<Line>,
) -> std::io::Result<()> {
    let mut written = Vec::new();
    while let Some((Outgoing { line, delivery }, _place)) = waiting.recv().await {
        // Who reads it may call again before the end of the write is known here.
        written.extend(delivery.and_then(|delivery| delivery.leaves()));
        output.write_all(&line).await?;
        output.write_all(b"\n").await?;
        if waiting.is_empty() || written.len() >= WAITING_MAX {
            output.flush().await?;
            written.drain(..).for_each(Leaving::arrived);
        }
    }
    Ok(())
}

/// Resolves when somebody says so.
async fn stopped(mut stop: watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // Nobody will.
        std::future::pending().await
    }
}

/// Takes lines until there are no more. Where taking one takes its time, as greeting a server does that
/// does not answer, those behind it are read on, so that the end of the input is known.
async fn take_all(
    client: &Client,
    input: &mut Input<impl AsyncRead + Unpin>,
) -> Result<(), StdioError> {
    let mut ahead = VecDeque::new();
    loop {
        let sent = match ahead.pop_front() {
            Some(sent) => sent,
            None => match input.next().await? {
                Some(sent) => sent,
                None => return Ok(()),
            },
        };
        let mut taken = std::pin::pin!(client.take(sent));
        loop {
            let bytes: usize = ahead.iter().map(Sent::bytes).sum();
            let has_room = ahead.len() < AHEAD_MAX && bytes < input.bytes_max();
            tokio::select! {
                biased;
                () = &mut taken => break,
                sent = input.next(), if has_room => match sent? {
                    Some(sent) => ahead.push_back(sent),
                    None => match tokio::time::timeout(TAKING_TIME, &mut taken).await {
                        Ok(()) => break,
                        Err(_) => return Ok(()),
                    },
                },
            }
        }
    }
}

impl Client {
    async fn take(&self, sent: Sent) {
        match sent {
            Sent::Whole(line) => self.take_line(line).await,
            Sent::TooLong(scanned) => self.refuse(scanned.as_ref()).await,
        }
    }

    /// Refuses a message that is too long, of which this is known.
    async fn refuse(&self, scanned: Option<&Scanned>) {
        let most = self.bytes_max;
        tracing::warn!(most, "the client sent a message that is too long");
        let message = format!("the message has more than {most} bytes");
        let error = words::error(INVALID_REQUEST, &message, None);
        let id = match scanned.and_then(|scanned| scanned.message().ok()) {
            Some(Message::Request { id, .. }) => Some(id),
            // What is no request is not answered.
            Some(Message::Notification { .. }) => return,
            // Whoever asked waits for it.
            Some(Message::Result { id, .. } | Message::Error { id: Some(id), .. }) => {
                return self.answered(&id, Err(error));
            }
            _ => None,
        };
        self.say(answer_line(id, &Answer::Error(error))).await;
    }

    async fn take_line(&self, line: Bytes) {
        let message = match Message::read(&line) {
            Ok(message) => message,
            Err(error) => {
                let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_ok();
                let code = if is_json { INVALID_REQUEST } else { PARSE_ERROR };
                let error = words::error(code, &error.to_string(), None);
                return self.say(answer_line(None, &Answer::Error(error))).await;
            }
        };
        if !is_unambiguous(&line) {
            let error = words::error(INVALID_REQUEST, words::ambiguous(&line), None);
            // What is no request is not answered.
            if let Message::Request { id, .. } = message {
                self.say(answer_line(Some(id), &Answer::Error(error))).await;
            }
            return;
        }
        match message {
            Message::Request { id, method, params } => {
                let era = Envelope::read(&line).era(&HeaderMap::new());
                if method == "initialize" {
                    return self.begin(id, params).await;
                }
                let (id, method) = (id.into_owned(), method.into_owned());
                self.start(id, method, line.clone(), era).await;
            }
            Message::Notification { method, params } => {
                let params = params.map(|params| line.slice_ref(params.get().as_bytes()));
                self.hear(&method, params);
            }
            Message::Result { id, result } => {
                let result = line.slice_ref(result.get().as_bytes());
                self.answered(&id, Ok(result));
            }
            Message::Error { id, error } => {
                let error = line.slice_ref(error.get().as_bytes());
                if let Some(id) = id {
                    self.answered(&id, Err(error));
                }
            }
            _ => {}
        }
    }

    async fn begin(&self, id: Id<'_>, params: Option<&RawValue>) {
        if self.session.borrow().is_some() {
            return self.say(answer_line(Some(id), &words::begun_before())).await;
        }
        let nothing = RawValue::from_string("{}".to_owned()).ok();
        let Some(params) = params.or(nothing.as_deref()) else { return };
        let (out, mut told) = mpsc::channel(WAITING_MAX);
        let begun = Session::begin(&self.gateway, self.caller.clone(), params, out).await;
        let answer = match begun {
            Ok((session, answer)) => {
                self.session.send_replace(Some(session));
                answer
            }
            Err(answer) => answer,
        };
        self.say(answer_line(Some(id), &answer)).await;
        let lines = self.lines.clone();
        tokio::spawn(async move {
            while let Some(told) = told.recv().await {
                if !lines.say(told_line(&told)).await {
                    return;
                }
            }
        });
    }

    async fn start(&self, id: Id<'static>, method: String, message: Bytes, era: Era) {
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else { return };
        let (gateway, lines) = (self.gateway.clone(), self.lines.clone());
        let session = self.session.borrow().clone().filter(|_| era == Era::Legacy);
        let (caller, under_way) = (self.caller.clone(), Arc::clone(&self.under_way));
        let delivery = Delivery::default();
        let (delivered, cancellation) = (delivery.clone(), Cancellation::default());
        let (asked_in, is_wanted) = (session.clone(), cancellation.clone());
        // The next message may cancel it.
        match (&session, era) {
            (Some(session), _) => session.register(id.as_json(), cancellation.clone()),
            (None, Era::Legacy) => {}
            (None, _) => {
                lock(&under_way).insert(id.as_json().to_owned(), cancellation.clone());
            }
        }
        tokio::spawn(async move {
            let _place = place;
            let (out, mut told) = mpsc::channel(WAITING_MAX);
            let answered = async {
                let Ok(Message::Request { params, .. }) = Message::read(&message) else {
                    return None;
                };
                let question = Question {
                    id: id.as_json(),
                    method: &method,
                    params,
                    message: &message,
                    headers: Vec::new(),
                    key: None,
                };
                Some(match session {
                    Some(session) => session.ask(question, out, delivery, cancellation).await,
                    None if era == Era::Legacy => {
                        let message = "there was no `initialize`";
                        words::refused(INVALID_REQUEST, message, None)
                    }
                    None => {
                        let (key, cancel) = (id.as_json(), cancellation.cancel.clone());
                        let has_headers = false;
                        let talk = Talk { caller, era, out, session: None, delivery, has_headers };
                        let answer = gateway.ask(&talk, question, cancel).await;
                        lock(&under_way).remove(key);
                        answer
                    }
                })
            };
            let request = Outbound { lines, session: asked_in, cancellation: is_wanted };
            if let Some(answer) = request.answered(Box::pin(answered), &mut told).await {
                let line = answer_line(Some(id.clone()), &answer);
                request.lines.say(Outgoing { line, delivery: Some(delivered) }).await;
            }
        });
    }

    fn hear(&self, method: &str, params: Option<Bytes>) {
        if method == CANCELLED {
            let id = request_id(params.as_deref());
            let cancel = id.and_then(|id| lock(&self.under_way).get(&id).cloned());
            match (cancel, &*self.session.borrow()) {
                (Some(cancellation), _) => cancellation.cancelled(),
                (None, Some(session)) => session.cancel(params.as_deref()),
                (None, None) => {}
            }
            return;
        }
        // A server that is slow to hear it keeps nobody waiting.
        if self.told.try_send((method.to_owned(), params)).is_err() {
            tracing::warn!("a notification of the client was dropped: too many wait");
        }
    }

    fn answered(&self, id: &Id<'_>, with: Result<Bytes, Bytes>) {
        let session = self.session.borrow().clone();
        if let (Some(session), Some(id)) = (session, id.as_number()) {
            tokio::spawn(async move { session.answer(id, with).await });
        }
    }

    async fn say(&self, line: Bytes) {
        self.lines.say(line).await;
    }
}

/// The way from a request back to its client.
struct Outbound {
    lines: Lines,
    session: Option<Arc<Session>>,
    cancellation: Cancellation,
}

impl Outbound {
    /// Waits for the answer, and passes on what comes before. A request that was cancelled gets neither.
    async fn answered(
        &self,
        answered: impl Future<Output = Option<Answer>>,
        told: &mut mpsc::Receiver<ToClient>,
    ) -> Option<Answer> {
        let mut answered = std::pin::pin!(answered);
        let answer = loop {
            tokio::select! {
                biased;
                Some(told) = told.recv() => self.pass_on(told).await,
                answer = &mut answered => break answer,
            }
        };
        while let Ok(told) = told.try_recv() {
            self.pass_on(told).await;
        }
        answer.filter(|_| !self.cancellation.is_cancelled())
    }

    async fn pass_on(&self, told: ToClient) {
        match (self.cancellation.is_cancelled(), &self.session) {
            (false, _) => drop(self.lines.say(told_line(&told)).await),
            (true, Some(session)) => session.refuse(&told).await,
            (true, None) => {}
        }
    }
}

/// Lines that wait to be written. Clones are the same.
#[derive(Clone)]
struct Lines {
    sender: mpsc::Sender<Line>,
    room: Arc<Semaphore>,
}

/// A line, and its room among those that wait.
type Line = (Outgoing, OwnedSemaphorePermit);

impl Lines {
    fn new() -> (Self, mpsc::Receiver<Line>) {
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        (Self { sender, room: Arc::new(Semaphore::new(LINES_BYTES_MAX as usize)) }, waiting)
    }

    /// Has a line written after those that wait, once there is room for it. Says whether somebody writes.
    async fn say(&self, line: impl Into<Outgoing>) -> bool {
        let line = line.into();
        let bytes = u32::try_from(line.line.len()).unwrap_or(u32::MAX).min(LINES_BYTES_MAX);
        let Ok(place) = Arc::clone(&self.room).acquire_many_owned(bytes).await else {
            return false;
        };
        self.sender.send((line, place)).await.is_ok()
    }
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The line of something that is not an answer.
pub(crate) fn told_line(told: &ToClient) -> Bytes {
    let mut line = br#"{"jsonrpc":"2.0","#.to_vec();
    let (method, params) = match told {
        ToClient::Notification { method, params } => (method, params),
        ToClient::Request { id, method, params } => {
            line.extend_from_slice(format!(r#""id":{id},"#).as_bytes());
            (method, params)
        }
    };
    line.extend_from_slice(br#""method":"#);
    line.extend_from_slice(serde_json::Value::from(method.as_str()).to_string().as_bytes());
    if let Some(params) = params {
        line.extend_from_slice(br#","params":"#);
        line.extend_from_slice(params);
    }
    line.push(b'}');
    on_one_line(line)
}

/// The line of an answer.
pub(crate) fn answer_line(id: Option<Id<'_>>, answer: &Answer) -> Bytes {
    let (member, json) = match answer {
        Answer::Result(Raw::Memory(json)) => ("result", json.clone()),
        Answer::Result(raw) => match raw.whole() {
            Some(json) => ("result", json),
            None => ("error", words::error(words::INTERNAL_ERROR, "the answer is lost", None)),
        },
        Answer::Error(json) => ("error", json.clone()),
    };
    let id = id.map_or_else(|| "null".to_owned(), |id| id.as_json().to_owned());
    let mut line = Vec::with_capacity(json.len() + id.len() + 40);
    line.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    line.extend_from_slice(id.as_bytes());
    line.extend_from_slice(format!(r#","{member}":"#).as_bytes());
    line.extend_from_slice(&json);
    line.push(b'}');
    on_one_line(line)
}

/// JSON has line ends only between its parts, where they mean nothing.
fn on_one_line(mut line: Vec<u8>) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &line).is_some() {
        for byte in &mut line {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
    line.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_wait_within_so_many_bytes() {
        let (lines, mut waiting) = Lines::new();
        let line = |bytes: u32| Bytes::from(vec![b'x'; bytes as usize]);
        assert!(lines.say(line(LINES_BYTES_MAX - 10)).await);
        assert!(lines.say(line(10)).await);
        let mut third = std::pin::pin!(lines.say(line(1)));
        assert!(futures_util::poll!(third.as_mut()).is_pending());
        drop(waiting.recv().await);
        assert!(third.await);
        // One that is larger than all of it has it alone.
        let mut large = std::pin::pin!(lines.say(line(LINES_BYTES_MAX + 1)));
        assert!(futures_util::poll!(large.as_mut()).is_pending());
        drop((waiting.recv().await, waiting.recv().await));
        assert!(large.await);
        drop(waiting);
        assert!(!lines.say(line(1)).await);
    }
}
