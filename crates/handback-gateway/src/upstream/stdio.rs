//! A line to a program, over its standard input and output.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use handback_mcp::Era;
use handback_tool::Charge;
use handback_wire::scan::Kind;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::ears::{Ears, is_call, take_token};
use super::faults::Fault;
use super::legible;
use super::logs::Wanted;
use super::pending::Route;
use super::room::Room;
use super::said::{Said, To, Unsaid, has_version, is_of_clients};
use super::sanitize::Origin;
use super::spool::{Gather, Limits, Whole};
use super::stderr::{self, Tail};
use super::{
    Answer, Ask, Ending, LineError, Place, Raw, Spec, Spontaneous, child, frame, meta, own_params,
};

/// Messages that wait to be written at most. A program that takes so few is stuck.
const QUEUED_MAX: usize = 1024;

/// Of these, how many are kept free for what is not a question: cancelling, answering.
const QUEUED_RESERVE: usize = 256;

/// Bytes that wait to be written at most, once there is more than one message.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// Bytes that are read at once, and the least room that there is for it.
const READ_BYTES: usize = 64 << 10;
const READ_BYTES_MIN: usize = 8 << 10;

/// How many times as long as an answer may be a line is read on, so that what is behind it can be heard.
const PATIENCE: u64 = 2;

/// How long the output of a program is read that has ended: another one may hold it open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Time for the status and the last lines of a program that closed its standard output: requests wait for
/// the cause of its end.
const CAUSE_TIME: Duration = Duration::from_millis(500);

/// How long a program may take to answer the simplest question there is, when nothing was heard from it
/// while another one took too long. Then it hangs.
const PROBE_TIME: Duration = Duration::from_secs(10);

/// How long a program may take nothing of what is written to it. Then it hangs.
const WRITE_TIME: Duration = Duration::from_secs(60);

/// How many messages are written at once.
const WRITTEN_AT_ONCE: usize = 64;

/// A line to a program.
#[derive(Debug)]
pub(super) struct Stdio {
    ears: Arc<Ears>,
    queue: Queue,
    draining: Draining,
    closing: CancellationToken,
    closed: CancellationToken,
    heard: Arc<AtomicU64>,
    /// Whether it is found out whether the program hears anything: one of this process does.
    probes: bool,
    is_probing: Arc<AtomicBool>,
    /// The last lines on standard error, of a program.
    tail: Option<Arc<Tail>>,
}

/// Whether an answer is read to its end that is too large: the line may be given up before that, and who
/// asked meanwhile would never know what came of it.
type Draining = Arc<watch::Sender<bool>>;

impl Stdio {
    /// Starts the program.
    pub(super) fn start(
        spec: &Spec,
        era: Era,
        spontaneous: mpsc::Sender<Spontaneous>,
        (ending, charge): (&Ending, Option<Arc<Charge>>),
    ) -> Result<Self, LineError> {
        let Place::Command { program, args, env } = &spec.place else {
            return Err(LineError::Unreachable("it is no program".to_owned()));
        };
        let started = child::start((program, args, env), &spec.withheld)?;
        let ears = Ears::new(&spec.name, era, spontaneous);
        let ears = Arc::new(ears.shared(spec.is_shared).from(spec.origin()));
        let (sender, receiver) = mpsc::channel(QUEUED_MAX);
        let queue = Queue { sender, bytes: Arc::default() };
        let (closing, closed) = (ending.of_line(), CancellationToken::new());
        let tail = Tail::new(env);
        let (reads, of_reader) = (spec.name.clone(), Arc::clone(&tail));
        tokio::spawn(stderr::read(reads, started.stderr, spec.stderr, of_reader));
        let queued = (receiver, Arc::clone(&queue.bytes));
        let name = spec.name.clone();
        let (stdin, closing_too) = (started.stdin, closing.clone());
        tokio::spawn(async move {
            let written = write(stdin, queued, closing_too.clone(), WRITE_TIME).await;
            if written == Err(Unwritten::Stuck) {
                tracing::warn!(upstream = %name, "it takes nothing of what is said to it");
                closing_too.cancel();
            }
        });
        let (draining, heard) = (Draining::default(), Arc::default());
        let reader = Reader {
            ears: Arc::clone(&ears),
            replies: queue.downgrade(),
            limits: Limits::of(spec, ending.aside()),
            draining: Arc::clone(&draining),
            heard: Arc::clone(&heard),
            tail: Some(Arc::clone(&tail)),
        };
        let group = child::group(&started.child);
        let (name, child, hurry) = (spec.name.clone(), started.child, ending.hurry());
        let watched = child::watch(name, child, closing.clone(), hurry);
        let (closing_too, closed_too) = (closing.clone(), closed.clone());
        let (lasting, of_end) = (ending.lasting(), Arc::clone(&tail));
        tokio::spawn(async move {
            reader.run(started.stdout, watched, closing_too).await;
            child::end_rest(group).await;
            closed_too.cancel();
            // What it wrote last is passed on before this process ends.
            of_end.finished(LAST_WORDS).await;
            drop((lasting, charge));
        });
        let is_probing = Arc::default();
        let (probes, tail) = (true, Some(tail));
        Ok(Self { ears, queue, draining, closing, closed, heard, probes, is_probing, tail })
    }

    /// A line over pipes of this process.
    pub(super) fn over(
        name: &str,
        (input, output): (
            impl AsyncRead + Send + Unpin + 'static,
            impl AsyncWrite + Send + Unpin + 'static,
        ),
        era: Era,
        spontaneous: mpsc::Sender<Spontaneous>,
    ) -> Self {
        let ears = Arc::new(Ears::new(name, era, spontaneous).from(Origin::Handback));
        let (sender, receiver) = mpsc::channel(QUEUED_MAX);
        let queue = Queue { sender, bytes: Arc::default() };
        let (closing, closed) = (CancellationToken::new(), CancellationToken::new());
        let queued = (receiver, Arc::clone(&queue.bytes));
        // What is in this process takes what it is told, some time.
        let writing = write(output, queued, closing.clone(), Duration::MAX);
        let (draining, heard) = (Draining::default(), Arc::default());
        let reader = Reader {
            ears: Arc::clone(&ears),
            replies: queue.downgrade(),
            limits: Limits::in_process(),
            draining: Arc::clone(&draining),
            heard: Arc::clone(&heard),
            tail: None,
        };
        let (closing_too, closed_too) = (closing.clone(), closed.clone());
        tokio::spawn(async move {
            let writing = async {
                let _ = writing.await;
                std::future::pending().await
            };
            // There is no program that could be watched: it is gone when nobody wants it.
            let closed = closing_too.clone().cancelled_owned();
            let watched = async move {
                closed.await;
                "it was left".to_owned()
            };
            tokio::select! {
                () = reader.run(input, watched, closing_too) => {}
                () = writing => {}
            }
            closed_too.cancel();
        });
        let (probes, is_probing, tail) = (false, Arc::default(), None);
        Self { ears, queue, draining, closing, closed, heard, probes, is_probing, tail }
    }

    /// The handshake of the older era. Returns what the upstream says of itself.
    pub(super) async fn begin(
        &self,
        initialize: Bytes,
        limit: Duration,
    ) -> Result<Bytes, LineError> {
        let ask = Ask {
            method: "initialize".to_owned(),
            params: Some(initialize),
            headers: Vec::new(),
            heard: None,
            subscription: None,
            time_limit: None,
            owner: None,
        };
        let answer = self.ask(ask, limit).await.map_err(|why| match why {
            // Nothing has been asked that does anything.
            LineError::Lost => LineError::Unreachable("it ended before it said hello".to_owned()),
            LineError::Ended(cause) => LineError::Unreachable(cause),
            other => other,
        })?;
        let hello = match answer {
            Answer::Result(Raw::Memory(hello)) if has_version(&hello) => hello,
            Answer::Result(Raw::Memory(_)) => {
                return Err(LineError::Protocol("its answer to `initialize` has no version"));
            }
            Answer::Result(Raw::File { .. }) => return Err(LineError::TooLarge),
            Answer::Error(error) => return Err(LineError::not_begun(&error)),
        };
        self.say(frame::notification("notifications/initialized", None))?;
        Ok(hello)
    }

    pub(super) async fn ask(&self, ask: Ask, limit: Duration) -> Result<Answer, LineError> {
        if *self.draining.borrow() {
            // The rest is to make it.
            self.drained(limit / 8).await?;
        }
        let is_call = is_call(&ask.method);
        let _turn = self.ears.turn(is_call, limit).await?;
        let pending = &self.ears.pending;
        let number = pending.number();
        let mut params = ask.params;
        let token = match take_token(&mut params, number) {
            Ok(token) => token,
            Err(refusal) => return Ok(refusal),
        };
        let listens = ask.subscription.is_some() || ask.method == "subscriptions/listen";
        let Ask { heard, subscription, owner, .. } = ask;
        let room = Room::default();
        let logs = match self.ears.era() {
            Era::Modern => Wanted::of(params.as_deref(), owner),
            _ => None,
        };
        let route = Route { heard, room, token, subscription, listens, logs, is_call };
        let line = frame::line(frame::request(number, &ask.method, params.as_deref()));
        let answer = pending.wait(number, route)?;
        let heard = self.heard.load(Ordering::Relaxed);
        if let Err(why) = self.queue.put(line, QUEUED_RESERVE) {
            pending.forget(number);
            return Err(why);
        }
        let _under_way = UnderWay { line: self, number };
        match timeout(limit, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(LineError::Lost),
            Err(_) => {
                self.probe(number, heard);
                Err(LineError::TimedOut)
            }
        }
    }

    /// A question took too long: finds out in the background whether the program hears anything, if
    /// nothing was heard from it since, and ends the line if not.
    fn probe(&self, number: u64, heard: u64) {
        let is_silent = self.probes && self.heard.load(Ordering::Relaxed) == heard;
        if !is_silent || self.is_probing.swap(true, Ordering::Relaxed) {
            return;
        }
        let probe = Probe {
            ears: Arc::clone(&self.ears),
            replies: self.queue.downgrade(),
            closing: self.closing.clone(),
            heard: Arc::clone(&self.heard),
        };
        let is_probing = Arc::clone(&self.is_probing);
        tokio::spawn(async move {
            if probe.is_stuck(number, heard).await {
                tracing::warn!(upstream = %probe.ears.name(), "it does not hear anything");
                probe.closing.cancel();
            }
            is_probing.store(false, Ordering::Relaxed);
        });
    }

    /// Waits until an answer that is too large has ended, or the line.
    async fn drained(&self, limit: Duration) -> Result<(), LineError> {
        let mut draining = self.draining.subscribe();
        let over = async {
            tokio::select! {
                _ = draining.wait_for(|is_draining| !is_draining) => {}
                () = self.closing.cancelled() => {}
            }
        };
        timeout(limit, over).await.map_err(|_| LineError::Busy)
    }

    pub(super) fn say(&self, message: Vec<u8>) -> Result<(), LineError> {
        self.queue.put(frame::line(message), 0)
    }

    /// A cause with the last lines on standard error so far.
    pub(super) async fn with_tail(&self, cause: String) -> LineError {
        let tail = match &self.tail {
            Some(tail) => tail.text(Duration::ZERO).await,
            None => None,
        };
        LineError::Unreachable(with_tail(cause, tail))
    }

    pub(super) fn ears(&self) -> &Ears {
        &self.ears
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

/// The program is ended once its line is gone.
impl Drop for Stdio {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// A question that was asked. Whoever drops it before the answer is there does not want it.
struct UnderWay<'a> {
    line: &'a Stdio,
    number: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if self.line.ears.pending.forget(self.number) {
            // If even this does not fit, the program is stuck.
            let _ = self.line.say(frame::cancelled(self.number));
        }
    }
}

/// Finds out whether a program hears anything.
struct Probe {
    ears: Arc<Ears>,
    replies: Replies,
    closing: CancellationToken,
    heard: Arc<AtomicU64>,
}

impl Probe {
    /// Whether the program says nothing to what every program answers at once, and has nothing else
    /// to do: one that does one thing at a time may be at a question that was asked before the one
    /// of this number. That one says so itself when it takes too long.
    async fn is_stuck(&self, number: u64, heard: u64) -> bool {
        let pending = &self.ears.pending;
        let probe = pending.number();
        let Ok(answer) = pending.wait(probe, Route::default()) else { return false };
        let question = match self.ears.era() {
            Era::Legacy => frame::request(probe, "ping", None),
            _ => {
                let params = own_params(Era::Modern, None);
                frame::request(probe, "server/discover", Some(&params))
            }
        };
        // If it does not even fit, the program is all the more stuck.
        self.replies.put(question);
        let is_answered = tokio::select! {
            answered = timeout(PROBE_TIME, answer) => answered.is_ok(),
            () = self.closing.cancelled() => true,
        };
        pending.forget(probe);
        let is_silent = !is_answered && self.heard.load(Ordering::Relaxed) == heard;
        is_silent && !pending.has_before(number)
    }
}

/// What waits to be written.
#[derive(Debug)]
struct Queue {
    sender: mpsc::Sender<Bytes>,
    bytes: Arc<AtomicUsize>,
}

impl Queue {
    /// Puts a message behind the others, and leaves so many places free.
    fn put(&self, message: Bytes, reserve: usize) -> Result<(), LineError> {
        let length = message.len();
        if self.sender.is_closed() {
            return Err(LineError::closed());
        }
        let queued = self.bytes.fetch_add(length, Ordering::Relaxed);
        let is_full = self.sender.capacity() <= reserve
            || (queued > 0 && queued.saturating_add(length) > QUEUED_BYTES_MAX);
        let why = match is_full {
            true => LineError::Busy,
            false => match self.sender.try_send(message) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Full(_)) => LineError::Busy,
                Err(mpsc::error::TrySendError::Closed(_)) => LineError::closed(),
            },
        };
        self.bytes.fetch_sub(length, Ordering::Relaxed);
        Err(why)
    }

    fn downgrade(&self) -> Replies {
        Replies { sender: self.sender.downgrade(), bytes: Arc::clone(&self.bytes) }
    }
}

/// A way to the queue that does not keep it open.
#[derive(Debug)]
struct Replies {
    sender: mpsc::WeakSender<Bytes>,
    bytes: Arc<AtomicUsize>,
}

impl Replies {
    fn put(&self, message: Vec<u8>) {
        let Some(sender) = self.sender.upgrade() else { return };
        let queue = Queue { sender, bytes: Arc::clone(&self.bytes) };
        // If it does not fit, the program asks more than it reads.
        let _ = queue.put(frame::line(message), 0);
    }
}

/// Why nothing more is written.
#[derive(Debug, PartialEq, Eq)]
enum Unwritten {
    /// The pipe is broken.
    Broken,
    /// The other end takes nothing.
    Stuck,
}

/// Writes what waits, until nothing does and nobody can say anything any more; then the input ends.
async fn write(
    mut stdin: impl AsyncWrite + Unpin,
    (mut queue, bytes): (mpsc::Receiver<Bytes>, Arc<AtomicUsize>),
    closing: CancellationToken,
    patience: Duration,
) -> Result<(), Unwritten> {
    let mut batch = Vec::new();
    // Small messages, which are written together.
    let mut together = Vec::with_capacity(READ_BYTES);
    loop {
        let taken = tokio::select! {
            biased;
            taken = queue.recv_many(&mut batch, WRITTEN_AT_ONCE) => taken,
            () = closing.cancelled() => 0,
        };
        if taken == 0 {
            break;
        }
        for message in batch.drain(..) {
            if together.len() + message.len() > READ_BYTES {
                write_whole(&mut stdin, &together, patience).await?;
                together.clear();
            }
            if message.len() > READ_BYTES {
                write_whole(&mut stdin, &message, patience).await?;
            } else {
                together.extend_from_slice(&message);
            }
            bytes.fetch_sub(message.len(), Ordering::Relaxed);
        }
        write_whole(&mut stdin, &together, patience).await?;
        together.clear();
    }
    // A pipe within this process does not end by being dropped.
    let _ = stdin.shutdown().await;
    Ok(())
}

/// Writes bytes, as slowly as they are taken.
async fn write_whole(
    stdin: &mut (impl AsyncWrite + Unpin),
    mut rest: &[u8],
    patience: Duration,
) -> Result<(), Unwritten> {
    while !rest.is_empty() {
        match timeout(patience, stdin.write(rest)).await {
            Ok(Ok(written @ 1..)) => rest = rest.get(written..).unwrap_or_default(),
            Ok(_) => return Err(Unwritten::Broken),
            Err(_) => return Err(Unwritten::Stuck),
        }
    }
    match timeout(patience, stdin.flush()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Unwritten::Broken),
        Err(_) => Err(Unwritten::Stuck),
    }
}

/// Reads what the program says.
struct Reader {
    ears: Arc<Ears>,
    replies: Replies,
    limits: Arc<Limits>,
    draining: Draining,
    /// How often something was heard, whatever it was.
    heard: Arc<AtomicU64>,
    tail: Option<Arc<Tail>>,
}

/// The program says nothing sensible any more, for this reason.
struct Broken(&'static str);

const NO_PROTOCOL: &str = "it does not speak the protocol";

/// The reason where a program sends a request back that only clients send.
pub(super) const ECHO: &str = "it sends back what it is sent, as `cat` and terminals do: it is no MCP server, or is \
    started with a terminal";

/// A cause with the last lines on standard error.
fn with_tail(cause: String, tail: Option<String>) -> String {
    match tail {
        Some(tail) => format!("{cause}; the last lines on its standard error: {tail}"),
        None => cause,
    }
}

impl Reader {
    /// Reads until the program has ended, or says nothing sensible and was ended.
    async fn run(
        &self,
        mut stdout: impl AsyncRead + Unpin,
        watched: impl Future<Output = String>,
        closing: CancellationToken,
    ) {
        let (gone, is_gone) = watch::channel(None::<String>);
        let (status, is_ending) = (is_gone.clone(), AtomicBool::new(false));
        let reading = async {
            tokio::select! {
                () = closing.cancelled() => self.close(&LineError::Lost, &closing),
                read = self.read(&mut stdout) => {
                    self.ears.pending.refuse();
                    is_ending.store(true, Ordering::Relaxed);
                    closing.cancel();
                    let why = match read {
                        Err(Broken(why)) => {
                            tracing::warn!(upstream = %self.ears.name(), %why, "ended a program");
                            LineError::Ended(why.to_owned())
                        }
                        Ok(()) => self.cause(status).await,
                    };
                    self.close(&why, &closing);
                }
            }
            // A program that cannot write does not come to its end.
            let mut rest = vec![0; READ_BYTES_MIN];
            while let Ok(1..) = stdout.read(&mut rest).await {}
        };
        let mut is_gone = is_gone;
        let until_gone = async {
            let _ = is_gone.wait_for(Option::is_some).await;
            // Where it ended by itself, the cause is looked for.
            if !closing.is_cancelled() || is_ending.load(Ordering::Relaxed) {
                sleep(LAST_WORDS).await;
            }
        };
        tokio::join!(
            async {
                tokio::select! {
                    () = reading => {}
                    () = until_gone => self.close(&LineError::Lost, &closing),
                }
            },
            async {
                gone.send_replace(Some(watched.await));
            }
        );
    }

    /// Nothing more is asked and answered.
    fn close(&self, why: &LineError, closing: &CancellationToken) {
        self.ears.pending.close(why);
        closing.cancel();
    }

    /// The cause of the end of the output: the status of the program, and the last lines on its standard
    /// error.
    async fn cause(&self, mut status: watch::Receiver<Option<String>>) -> LineError {
        let Some(tail) = &self.tail else { return LineError::Lost };
        let ended = async { status.wait_for(Option::is_some).await.ok().and_then(|it| it.clone()) };
        let ended = timeout(CAUSE_TIME, ended).await.ok().flatten();
        let ended = ended.unwrap_or_else(|| "it closed its standard output".to_owned());
        let cause = with_tail(ended, tail.text(CAUSE_TIME).await);
        tracing::warn!(upstream = %self.ears.name(), %cause, "a program ended");
        LineError::Ended(cause)
    }

    async fn read(&self, stdout: &mut (impl AsyncRead + Unpin)) -> Result<(), Broken> {
        let mut buffer = BytesMut::with_capacity(READ_BYTES);
        let mut large = LargeLine::new(&self.limits);
        // How much of the buffer has no end of a line in it.
        let mut looked_at = 0;
        loop {
            if buffer.capacity() - buffer.len() < READ_BYTES_MIN {
                buffer.reserve(READ_BYTES);
            }
            if !matches!(stdout.read_buf(&mut buffer).await, Ok(1..)) {
                return Ok(());
            }
            self.heard.fetch_add(1, Ordering::Relaxed);
            while let Some(at) = memchr::memchr(b'\n', buffer.get(looked_at..).unwrap_or_default())
            {
                let line = buffer.split_to(looked_at + at + 1).freeze();
                looked_at = 0;
                if large.gather.length() == 0 && line.len() <= self.limits.memory_bytes_max {
                    self.line(&line)?;
                } else {
                    self.part(&mut large, line).await?;
                    self.end(&mut large).await?;
                }
            }
            looked_at = buffer.len();
            if buffer.len() > self.limits.memory_bytes_max || large.gather.length() > 0 {
                looked_at = 0;
                self.part(&mut large, buffer.split().freeze()).await?;
            }
        }
    }

    /// Takes a line that is in memory.
    fn line(&self, line: &Bytes) -> Result<(), Broken> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        match Said::read(line) {
            Err(Unsaid::Malformed) => self.no_message(line),
            said => self.said(said),
        }
    }

    /// Takes a line that is no message. Whoever waits for what it was meant to be waits no longer.
    #[cold]
    fn no_message(&self, line: &[u8]) -> Result<(), Broken> {
        if !legible::looks_like_json(line) {
            let is_too_much = self.ears.faults.chatter();
            return if is_too_much { Err(Broken(NO_PROTOCOL)) } else { Ok(()) };
        }
        let pending = &self.ears.pending;
        for number in legible::answered(line, |number| pending.is_waiting(number)) {
            pending.end(number, Err(NO_MESSAGE));
        }
        self.said(Err(Unsaid::Malformed))
    }

    fn said(&self, said: Result<Said, Unsaid>) -> Result<(), Broken> {
        match said {
            Ok(Said::Request { method, .. }) if is_of_clients(&method) => {
                return Err(Broken(ECHO));
            }
            Ok(said) => {
                self.ears.faults.good();
                if let Some(reply) = self.ears.hear(said) {
                    self.replies.put(reply);
                }
            }
            Err(Unsaid::TooLarge(to)) => {
                self.ears.faults.note(Fault::TooLarge);
                if let To::Number(number) = to {
                    self.ears.pending.end(number, Err(LineError::TooLarge));
                }
            }
            Err(Unsaid::TooLargeRequest(id)) => self.replies.put(self.ears.too_large(&id)),
            Err(Unsaid::Malformed) if self.ears.faults.malformed() => {
                return Err(Broken(NO_PROTOCOL));
            }
            Err(Unsaid::Malformed) => {}
        }
        Ok(())
    }

    /// Takes a part of a line that does not fit into memory.
    async fn part(&self, large: &mut LargeLine, part: Bytes) -> Result<(), Broken> {
        if large.gather.length() == 0 {
            large.last = self.ears.pending.last();
        }
        if let Err(why) = large.gather.push(part).await {
            // Others wait for what is behind this line: it is read to its end, and not kept.
            large.gather.discard();
            self.draining.send_replace(true);
            large.why = Some(why);
        }
        let number = number(&large.gather);
        let kind = large.gather.kind();
        if let Some(number) = answers(&large.gather) {
            match &large.why {
                Some(why) if self.ears.pending.end(number, Err(why.clone())) => {
                    self.replies.put(frame::cancelled(number));
                }
                None if !self.ears.pending.is_waiting(number) => large.gather.discard(),
                _ => {}
            }
        }
        if large.gather.length() <= self.limits.answer_bytes_max.saturating_mul(PATIENCE) {
            return Ok(());
        }
        // Whose answer it is may stand at its end. If it is known, nothing is known of the others.
        if let (None, Some((only, _))) = (number, self.ears.pending.only())
            && only <= large.last
            && kind != Some(Kind::Asks)
        {
            self.ears.pending.end(only, Err(LineError::TooLarge));
        }
        Err(Broken("its answer is larger than it may be"))
    }

    /// A line that does not fit into memory has ended.
    async fn end(&self, large: &mut LargeLine) -> Result<(), Broken> {
        let why = large.why.take();
        self.draining.send_replace(false);
        large.gather.look().await;
        let number = answers(&large.gather);
        let (envelope, why) = match large.gather.finish().await {
            Ok(Whole::Discarded(envelope)) => (envelope, why),
            Ok(Whole::Unwritten(envelope)) => (envelope, Some(LineError::Disk)),
            Ok(whole) => {
                let said = Said::of(whole);
                if let (Err(Unsaid::Malformed), Some(number)) = (&said, number) {
                    self.ears.pending.end(number, Err(NO_MESSAGE));
                }
                return self.said(said);
            }
            Err(_) => return Ok(()),
        };
        match (Unsaid::too_large(&envelope), why) {
            (Unsaid::TooLargeRequest(id), _) => self.replies.put(self.ears.too_large(&id)),
            (Unsaid::TooLarge(to), Some(why)) => {
                self.ears.faults.note(Fault::TooLarge);
                if let To::Number(number) = to {
                    self.ears.pending.end(number, Err(why));
                }
            }
            _ => self.ears.faults.note(Fault::Unasked),
        }
        Ok(())
    }
}

/// What whoever asked is told of an answer that is none.
const NO_MESSAGE: LineError = LineError::Protocol("its answer is no message");

/// The number that a large message has for its id, once that is known.
fn number(gather: &Gather) -> Option<u64> {
    gather.id().and_then(|id| meta::number(str::from_utf8(id).ok()?))
}

/// The question that a large message answers, once that is known. The id of something that the program asks
/// is none of ours, whatever it looks like.
fn answers(gather: &Gather) -> Option<u64> {
    number(gather).filter(|_| gather.kind() == Some(Kind::Answers))
}

/// A line that does not fit into memory.
struct LargeLine {
    gather: Gather,
    /// Why it is not kept.
    why: Option<LineError>,
    /// The question that was asked last when it began: it answers none after that.
    last: u64,
}

impl LargeLine {
    fn new(limits: &Arc<Limits>) -> Self {
        Self { gather: Gather::new(Arc::clone(limits)), why: None, last: 0 }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream};
    use tokio::time::Instant;

    use super::*;
    use crate::upstream::aside::Aside;

    /// Bytes that fit between the two.
    const BETWEEN: usize = 1 << 10;

    /// Longer than anything here takes, by a clock that does not wait.
    const LONG: Duration = Duration::from_secs(600);

    /// A line that is looked after as one to a program is, and the program.
    fn line(era: Era) -> (Arc<Stdio>, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(BETWEEN);
        let (spontaneous, _) = mpsc::channel(1);
        let mut stdio = Stdio::over("peer", tokio::io::split(ours), era, spontaneous);
        stdio.probes = true;
        (Arc::new(stdio), theirs)
    }

    /// Asks something that nobody answers.
    async fn ask(stdio: &Stdio, limit: Duration) -> Result<Answer, LineError> {
        let ask = Ask {
            method: "tools/call".to_owned(),
            params: None,
            headers: Vec::new(),
            heard: None,
            subscription: None,
            time_limit: None,
            owner: None,
        };
        stdio.ask(ask, limit).await
    }

    /// A program that reads everything, and answers what it is asked by these methods. Gives those that
    /// it was asked.
    fn answering(
        program: DuplexStream,
        methods: &'static [&'static str],
    ) -> mpsc::UnboundedReceiver<String> {
        let (sender, asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let (input, mut output) = tokio::io::split(program);
            let mut lines = BufReader::new(input).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                let method = message["method"].as_str().unwrap().to_owned();
                if methods.contains(&method.as_str()) {
                    let id = &message["id"];
                    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n");
                    output.write_all(answer.as_bytes()).await.unwrap();
                }
                let _ = sender.send(method);
            }
        });
        asked
    }

    /// After how many seconds the line was closed, if it was.
    async fn closed(stdio: &Stdio) -> Option<u64> {
        let began = Instant::now();
        timeout(LONG, stdio.closing.cancelled()).await.ok().map(|()| began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_hears_nothing_is_given_up() {
        for (era, probe) in [(Era::Legacy, "ping"), (Era::Modern, "server/discover")] {
            let (stdio, program) = line(era);
            let mut asked = answering(program, &[]);
            let why = ask(&stdio, Duration::from_secs(1)).await.unwrap_err();
            assert_eq!(why, LineError::TimedOut);
            assert_eq!(closed(&stdio).await, Some(PROBE_TIME.as_secs()));
            let mut methods = Vec::new();
            while let Ok(method) = asked.try_recv() {
                methods.push(method);
            }
            assert!(methods.iter().any(|method| method == probe), "{methods:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_is_only_slow_goes_on() {
        let (stdio, program) = line(Era::Legacy);
        let _asked = answering(program, &["ping"]);
        assert_eq!(ask(&stdio, Duration::from_secs(1)).await.unwrap_err(), LineError::TimedOut);
        assert_eq!(closed(&stdio).await, None);
        // Nor is one asked that was heard meanwhile.
        let (stdio, mut program) = line(Era::Legacy);
        let said = br#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
        let saying = async {
            sleep(Duration::from_millis(500)).await;
            program.write_all(&[said.as_slice(), b"\n"].concat()).await.unwrap();
        };
        let (answered, ()) = tokio::join!(ask(&stdio, Duration::from_secs(1)), saying);
        assert_eq!(answered.unwrap_err(), LineError::TimedOut);
        assert_eq!(closed(&stdio).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_may_be_at_what_was_asked_before() {
        let (stdio, program) = line(Era::Legacy);
        let _asked = answering(program, &[]);
        let before = Arc::clone(&stdio);
        let before = tokio::spawn(async move { ask(&before, Duration::from_secs(100)).await });
        tokio::task::yield_now().await;
        assert_eq!(ask(&stdio, Duration::from_secs(1)).await.unwrap_err(), LineError::TimedOut);
        assert_eq!(before.await.unwrap().unwrap_err(), LineError::TimedOut);
        assert_eq!(
            closed(&stdio).await,
            Some(PROBE_TIME.as_secs()),
            "after the one before took too long"
        );
    }

    #[tokio::test]
    async fn an_answer_that_cannot_be_written_at_its_end_is_told_of() {
        let (spontaneous, _) = mpsc::channel(1);
        let ears = Arc::new(Ears::new("peer", Era::Legacy, spontaneous));
        let (sender, _receiver) = mpsc::channel(1);
        let (folder, aside) = (std::env::temp_dir(), Aside::full());
        let limits = Limits { memory_bytes_max: 10, answer_bytes_max: 1000, folder, aside };
        let reader = Reader {
            ears: Arc::clone(&ears),
            replies: Queue { sender, bytes: Arc::default() }.downgrade(),
            limits: Arc::new(limits),
            draining: Draining::default(),
            heard: Arc::default(),
            tail: None,
        };
        let number = ears.pending.number();
        let answer = ears.pending.wait(number, Route::default()).unwrap();
        let told = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{}}"#;
        let said = format!("{told}\n{{\"jsonrpc\":\"2.0\",\"id\":{number},\"result\":[]}}\n");
        assert!(reader.read(&mut said.as_bytes()).await.is_ok());
        assert_eq!(answer.await.unwrap().unwrap_err(), LineError::Disk);
    }

    /// Writes a large message to a program.
    async fn written(output: DuplexStream) -> Result<(), Unwritten> {
        let (sender, receiver) = mpsc::channel(4);
        for length in [1, 2 * READ_BYTES, READ_BYTES, READ_BYTES - 1] {
            sender.try_send(Bytes::from(vec![b'x'; length])).unwrap();
        }
        drop(sender);
        write(output, (receiver, Arc::default()), CancellationToken::new(), WRITE_TIME).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_takes_nothing_is_given_up() {
        let (ours, _theirs) = tokio::io::duplex(BETWEEN);
        let began = Instant::now();
        assert_eq!(written(ours).await, Err(Unwritten::Stuck));
        assert_eq!(began.elapsed().as_secs(), WRITE_TIME.as_secs());
        // One that takes little at a time has time.
        let (ours, mut theirs) = tokio::io::duplex(BETWEEN);
        let reading = tokio::spawn(async move {
            let mut taken = 0;
            while let Ok(length @ 1..) = theirs.read(&mut [0; BETWEEN]).await {
                taken += length;
                sleep(WRITE_TIME / 2).await;
            }
            taken
        });
        assert_eq!(written(ours).await, Ok(()));
        assert_eq!(reading.await.unwrap(), 4 * READ_BYTES);
    }
}
