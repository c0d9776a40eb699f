//! A line to a program, over its standard input and output.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use handback_mcp::Era;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufWriter};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::ears::{Ears, is_call, take_token};
use super::faults::Fault;
use super::pending::Route;
use super::said::{Said, To, Unsaid};
use super::spool::{Gather, Limits, Whole};
use super::{Answer, Ask, Ending, LineError, Raw, Spec, Spontaneous, child, frame, meta};

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
}

/// Whether an answer is read to its end that is too large: the line may be given up before that, and who
/// asked meanwhile would never know what came of it.
type Draining = Arc<watch::Sender<bool>>;

impl Stdio {
    /// Starts the program.
    pub(super) fn start(
        spec: &Spec,
        command: (&str, &[String], &[(String, String)]),
        era: Era,
        spontaneous: mpsc::Sender<Spontaneous>,
        ending: &Ending,
    ) -> Result<Self, LineError> {
        let started = child::start(command, &spec.withheld)?;
        let ears = Arc::new(Ears::new(&spec.name, era, spontaneous).shared(spec.is_shared));
        let (sender, receiver) = mpsc::channel(QUEUED_MAX);
        let queue = Queue { sender, bytes: Arc::default() };
        let (closing, closed) = (ending.of_line(), CancellationToken::new());
        tokio::spawn(child::mutter(spec.name.clone(), started.stderr));
        let queued = (receiver, Arc::clone(&queue.bytes));
        tokio::spawn(write(started.stdin, queued, closing.clone()));
        let draining = Draining::default();
        let reader = Reader {
            ears: Arc::clone(&ears),
            replies: queue.downgrade(),
            limits: Limits::of(spec),
            draining: Arc::clone(&draining),
        };
        let group = child::group(&started.child);
        let (name, child, hurry) = (spec.name.clone(), started.child, ending.hurry());
        let watched = child::watch(name, child, closing.clone(), hurry);
        let (closing_too, closed_too) = (closing.clone(), closed.clone());
        let lasting = ending.lasting();
        tokio::spawn(async move {
            reader.run(started.stdout, watched, closing_too).await;
            child::end_rest(group).await;
            closed_too.cancel();
            drop(lasting);
        });
        Ok(Self { ears, queue, draining, closing, closed })
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
        let ears = Arc::new(Ears::new(name, era, spontaneous));
        let (sender, receiver) = mpsc::channel(QUEUED_MAX);
        let queue = Queue { sender, bytes: Arc::default() };
        let (closing, closed) = (CancellationToken::new(), CancellationToken::new());
        let queued = (receiver, Arc::clone(&queue.bytes));
        let writing = write(output, queued, closing.clone());
        let (ears_too, replies) = (Arc::clone(&ears), queue.downgrade());
        let draining = Draining::default();
        let (limits, draining_too) = (Limits::in_process(), Arc::clone(&draining));
        let reader = Reader { ears: ears_too, replies, limits, draining: draining_too };
        let (closing_too, closed_too) = (closing.clone(), closed.clone());
        tokio::spawn(async move {
            let writing = async {
                writing.await;
                std::future::pending().await
            };
            // There is no program that could be watched: it is gone when nobody wants it.
            let watched = closing_too.clone().cancelled_owned();
            tokio::select! {
                () = reader.run(input, watched, closing_too) => {}
                () = writing => {}
            }
            closed_too.cancel();
        });
        Self { ears, queue, draining, closing, closed }
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
        };
        let answer = self.ask(ask, limit).await.map_err(|why| match why {
            // Nothing has been asked that does anything.
            LineError::Lost => LineError::Unreachable("it ended before it said hello".to_owned()),
            other => other,
        })?;
        let hello = match answer {
            Answer::Result(Raw::Memory(hello)) => hello,
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
        let Ask { heard, subscription, .. } = ask;
        let route = Route { heard, token, subscription, listens, is_call };
        let line = frame::line(frame::request(number, &ask.method, params.as_deref()));
        let answer = pending.wait(number, route)?;
        if let Err(why) = self.queue.put(line, QUEUED_RESERVE) {
            pending.forget(number);
            return Err(why);
        }
        let _under_way = UnderWay { line: self, number };
        match timeout(limit, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(LineError::Lost),
            Err(_) => Err(LineError::TimedOut),
        }
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

/// Writes what waits, until nothing does and nobody can say anything any more; then the input ends.
async fn write(
    stdin: impl AsyncWrite + Unpin,
    (mut queue, bytes): (mpsc::Receiver<Bytes>, Arc<AtomicUsize>),
    closing: CancellationToken,
) {
    let mut stdin = BufWriter::with_capacity(READ_BYTES, stdin);
    let mut batch = Vec::new();
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
            let written = stdin.write_all(&message).await;
            bytes.fetch_sub(message.len(), Ordering::Relaxed);
            if written.is_err() {
                return;
            }
        }
        if stdin.flush().await.is_err() {
            return;
        }
    }
    // A pipe within this process does not end by being dropped.
    let _ = stdin.shutdown().await;
}

/// Reads what the program says.
struct Reader {
    ears: Arc<Ears>,
    replies: Replies,
    limits: Arc<Limits>,
    draining: Draining,
}

/// The program says nothing sensible any more.
struct Broken;

impl Reader {
    /// Reads until the program has ended, or says nothing sensible and was ended.
    async fn run(
        &self,
        mut stdout: impl AsyncRead + Unpin,
        watched: impl Future<Output = ()>,
        closing: CancellationToken,
    ) {
        let gone = CancellationToken::new();
        let reading = async {
            tokio::select! {
                () = closing.cancelled() => {}
                read = self.read(&mut stdout) => if let Err(Broken) = read {
                    tracing::warn!(upstream = %self.ears.name(), "it does not speak the protocol");
                }
            }
            self.close(&closing);
            // A program that cannot write does not come to its end.
            let mut rest = vec![0; READ_BYTES_MIN];
            while let Ok(1..) = stdout.read(&mut rest).await {}
        };
        let until_gone = async {
            gone.cancelled().await;
            if !closing.is_cancelled() {
                sleep(LAST_WORDS).await;
            }
        };
        tokio::join!(
            async {
                tokio::select! {
                    () = reading => {}
                    () = until_gone => self.close(&closing),
                }
            },
            async {
                watched.await;
                gone.cancel();
            }
        );
    }

    /// Nothing more is asked and answered.
    fn close(&self, closing: &CancellationToken) {
        self.ears.pending.close();
        closing.cancel();
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
            while let Some(at) = memchr::memchr(b'\n', buffer.get(looked_at..).unwrap_or_default())
            {
                let line = buffer.split_to(looked_at + at + 1).freeze();
                looked_at = 0;
                if large.gather.length() == 0 {
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
        self.said(Said::read(line))
    }

    fn said(&self, said: Result<Said, Unsaid>) -> Result<(), Broken> {
        match said {
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
            Err(Unsaid::Malformed) if self.ears.faults.malformed() => return Err(Broken),
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
        let number = large.gather.id().and_then(|id| meta::number(str::from_utf8(id).ok()?));
        if let Some(number) = number {
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
        {
            self.ears.pending.end(only, Err(LineError::TooLarge));
        }
        Err(Broken)
    }

    /// A line that does not fit into memory has ended.
    async fn end(&self, large: &mut LargeLine) -> Result<(), Broken> {
        let why = large.why.take();
        self.draining.send_replace(false);
        match (large.gather.finish().await, why) {
            (Ok(Whole::Discarded(envelope)), why) => {
                self.ears.faults.note(if why.is_some() { Fault::TooLarge } else { Fault::Unasked });
                if let (To::Number(number), Some(why)) = (To::of(&envelope), why) {
                    self.ears.pending.end(number, Err(why));
                }
                Ok(())
            }
            (Ok(whole), _) => self.said(Said::of(whole)),
            (Err(_), _) => Ok(()),
        }
    }
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
