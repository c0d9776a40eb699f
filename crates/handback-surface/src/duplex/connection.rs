//! One connection, from its first frame to its last.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::SplitStream;
use futures_util::{FutureExt as _, StreamExt as _};
use handback_store::ReadLimit;
use handback_stream::duplex::{
    ABORT, CHUNK_BYTES_MAX, CLIENT, CREDIT_BYTES, CREDIT_EVENTS, ClientFrame, Code, Format,
    FrameError, Hello, ServerFrame, Token, Welcome,
};
use handback_stream::{
    Append, Appended, Command, Offset, Payload, ProducerTag, Record, Refusal, Reply, View,
};
use handback_tool::{InputRefusal, PROGRESS_TIME};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::counted::SocketInput;
use super::ends::Watch;
use super::events::{self, Events};
use super::open::{self, Asked, Opened, RETRY_MS, Refused};
use super::routes::{Shared, Written};
use super::runner::Attached;
use super::writer::{Socket, Writer, message};
use crate::streams::NotTaken;

/// How long the first frame may take.
const HELLO_TIME: Duration = Duration::from_secs(10);

/// How long the client may take to answer the close.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// How often a connection is asked whether it is still there.
const PING_PARTS: u32 = 3;

/// A token is renewed this many times in its life.
const TOKEN_PARTS: u32 = 3;

/// How often it is asked whether the credential of a connection is still good.
const CREDENTIAL_TIME: Duration = Duration::from_secs(1);

/// Records that are read at a time where a chunk is looked for.
const LOOK_UP: ReadLimit = ReadLimit { records: 8, bytes: CHUNK_BYTES_MAX };

/// Time after which a client may come back whose input was refused: what does not go on was dropped then.
const UNFINISHED_RETRY_MS: u64 = 1000 * PROGRESS_TIME.as_secs();

const AFTER_END: &str = "a chunk after the end";

type Pending = Pin<Box<dyn Future<Output = Result<Reply, NotTaken>> + Send>>;

/// A connection that is served.
pub(super) struct Connection {
    shared: Arc<Shared>,
    opened: Opened,
    format: Format,
    frames: SplitStream<Socket>,
    /// Counts what has arrived of the next frame.
    unfinished: SocketInput,
    writer: Writer,
    input: Watch,
    output: Watch,
    /// The stream of events as it was last seen.
    view: View,
    events: Events,
    /// Events that were sent and not acknowledged, with their bytes.
    outstanding: VecDeque<(u64, usize)>,
    outstanding_bytes: usize,
    /// Whether the last event that was sent is proved only together with the next.
    is_inside_commit: bool,
    /// The last event that the client has kept, as far as it said.
    kept: u64,
    /// The last event that was sent.
    sent: u64,
    /// Up to here events were there when the connection was opened.
    replay_upto: u64,
    /// Appends that wait for those that are under way.
    waiting: Vec<(Job, Append)>,
    under_way: VecDeque<Job>,
    pending: Option<Pending>,
    /// Bytes of both.
    chunk_bytes: usize,
    acks: VecDeque<u32>,
    next_seqno: u32,
    is_closed: bool,
    is_acknowledged: bool,
    heard: Instant,
    // Last: what it lets go on is over when the connection is.
    _attached: Option<Attached>,
}

/// What an append is for.
#[derive(Debug)]
enum Job {
    Chunk {
        seqno: u32,
        bytes: usize,
        /// What came, if the chunk is there, or is on its way before this one.
        again: Option<Bytes>,
    },
    Close,
    Abort,
}

/// How a connection goes on.
enum Next {
    /// There are no more events, or the client has closed.
    Ended,
    /// The other side is gone.
    Gone,
}

impl Connection {
    /// Serves a connection until it ends.
    pub(super) async fn run(
        shared: Arc<Shared>,
        (socket, unfinished): (Socket, SocketInput),
        written: Written,
        mut asked: Asked,
    ) {
        let format = written.format;
        let (sink, mut frames) = socket.split();
        let writer = Writer::start(sink);
        if asked.hello.is_none() {
            let mut closing = shared.streams.closing();
            let first = tokio::select! {
                first = first_frame(&mut frames, &unfinished, format) => first,
                refusal = unfinished.refused(true) => Err(unfinished_input(refusal)),
                // What it borrows may not live on.
                _ = closing.wait_for(|closing| *closing).map(|closing| closing.is_ok()) => {
                    Err(NotTaken::Stopping.into())
                }
            };
            match first {
                Ok(Some(hello)) => {
                    asked.hello = Some(hello);
                    asked.is_flow_controlled = true;
                }
                Ok(None) => return writer.cut(),
                Err(refused) => return refuse((frames, writer), format, &refused).await,
            }
        }
        let opened = match open::open(&shared, asked).await {
            Ok(opened) => opened,
            Err(refused) => return refuse((frames, writer), format, &refused).await,
        };
        let watch = |view: &View| shared.streams.watch(view.meta.id().name());
        let (Some(mut input), Some(mut output)) = (watch(&opened.input), watch(&opened.output))
        else {
            return refuse((frames, writer), format, &gone()).await;
        };
        // They may have changed since they were looked at, and may not change again.
        input.mark_changed();
        output.mark_changed();
        let connection =
            Self::new(shared, opened, format, (frames, unfinished, writer), (input, output));
        connection.serve().await;
    }

    fn new(
        shared: Arc<Shared>,
        opened: Opened,
        format: Format,
        (frames, unfinished, writer): (SplitStream<Socket>, SocketInput, Writer),
        (input, output): (Watch, Watch),
    ) -> Self {
        let view = opened.output.clone();
        let attached = shared.runners.attach(&shared, &opened);
        Self {
            events: Events::new(
                Arc::clone(&shared.streams),
                Arc::clone(&opened.output_keys),
                opened.proofs,
                opened.after,
                opened.from_start,
            ),
            outstanding: VecDeque::new(),
            outstanding_bytes: 0,
            is_inside_commit: false,
            kept: opened.after,
            sent: opened.after,
            replay_upto: if opened.generation > 1 { view.last } else { 0 },
            waiting: Vec::new(),
            under_way: VecDeque::new(),
            pending: None,
            chunk_bytes: 0,
            acks: VecDeque::new(),
            next_seqno: opened.next_seqno,
            is_closed: opened.is_closed,
            is_acknowledged: false,
            heard: Instant::now(),
            _attached: attached,
            shared,
            opened,
            format,
            frames,
            unfinished,
            writer,
            input,
            output,
            view,
        }
    }

    async fn serve(mut self) {
        let ended = self.exchange().await;
        // What was taken is finished before the handler may stop.
        if let Some(pending) = self.pending.take() {
            let _ = pending.await;
        }
        match ended {
            Ok(Next::Gone) => self.writer.cut(),
            Ok(Next::Ended) => {
                let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
                finish((self.frames, self.writer), None, close).await;
            }
            Err(refused) => {
                let principal = self.opened.caller.principal();
                refused.note_quota(self.shared.settings.gate.as_ref(), principal);
                refuse((self.frames, self.writer), self.format, &refused).await;
            }
        }
    }

    async fn exchange(&mut self) -> Result<Next, Refused> {
        let welcome = self.welcome()?;
        self.send(&welcome).await?;
        let silence = self.shared.settings.silence;
        let mut pings = tokio::time::interval(silence / PING_PARTS);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let renewal = self.shared.settings.resume_ttl / TOKEN_PARTS;
        let mut renewals = tokio::time::interval_at(Instant::now() + renewal, renewal);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut credential = tokio::time::interval(CREDENTIAL_TIME);
        credential.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut closing = self.shared.streams.closing();
        self.heard = Instant::now();
        loop {
            self.start_appends()?;
            self.fill().await?;
            if self.is_over() {
                return self.end().await;
            }
            let messages = self.writer.messages.clone();
            let is_reading = self.is_reading();
            let has_something = !self.acks.is_empty() || self.next_event_fits();
            tokio::select! {
                frame = self.frames.next(), if is_reading => {
                    let Some(Ok(message)) = frame else { return Ok(Next::Gone) };
                    self.unfinished.complete(&message);
                    self.heard = Instant::now();
                    match decoded(self.format, message)? {
                        Heard::Frame(frame) => self.hear(frame)?,
                        Heard::Nothing => {}
                        Heard::Close => return Ok(Next::Ended),
                    }
                }
                refusal = self.unfinished.refused(is_reading) => return Err(unfinished_input(refusal)),
                reply = reply_to(&mut self.pending) => {
                    self.pending = None;
                    self.appended(reply).await?;
                }
                permit = messages.reserve_many(2), if has_something => {
                    let Ok(permits) = permit else { return Ok(Next::Gone) };
                    self.send_next(permits)?;
                }
                // It has failed, which nobody else tells.
                () = messages.closed() => return Ok(Next::Gone),
                changed = self.output.changed() => {
                    let view = self.output.borrow_and_update().clone();
                    let view = view.filter(|view| view.meta.id() == self.view.meta.id());
                    match (changed, view) {
                        (Ok(()), Some(view)) => self.view = view,
                        _ => return Err(gone()),
                    }
                }
                changed = self.input.changed() => {
                    changed.map_err(|_| gone())?;
                    self.check_owner()?;
                }
                _ = renewals.tick() => {
                    // A duplex that is too old to be gone on with ends when it ends.
                    if let Ok(token) = self.token()
                        && token.resume_expires_in_ms > 0
                    {
                        self.send(&ServerFrame::Token(token)).await?;
                    }
                }
                _ = credential.tick() => {
                    let handler = self.opened.name.handler();
                    open::check_credential(&self.opened.credential, &self.shared, handler).await?;
                }
                _ = pings.tick() => {
                    if is_reading && self.heard.elapsed() > silence {
                        return Ok(Next::Gone);
                    }
                    let now = self.shared.streams.now();
                    self.view.meta.touch(now);
                    if let Some(input) = &*self.input.borrow() {
                        input.meta.touch(now);
                    }
                    let _ = messages.try_send(Message::Ping(Bytes::new()));
                }
                // What it borrows may not live on.
                _ = closing.wait_for(|closing| *closing).map(|closing| closing.is_ok()) => {
                    return Err(NotTaken::Stopping.into());
                }
            }
        }
    }

    fn welcome(&self) -> Result<ServerFrame, Refused> {
        let (mode, reason) = self.opened.mode(&self.shared);
        let message = match &reason {
            None => format!("generation {}", self.opened.generation),
            Some(reason) => reason.clone(),
        };
        Ok(ServerFrame::Welcome(Box::new(Welcome {
            mode,
            message,
            next_seqno: self.opened.next_seqno,
            event_id: (self.opened.after > 0).then(|| Offset::after(self.opened.after).to_string()),
            token: self.token()?,
            generation: self.opened.generation,
            credit_events: CREDIT_EVENTS,
            credit_bytes: CREDIT_BYTES,
            retry_after_ms: (mode == handback_stream::duplex::Mode::ReadOnly).then_some(RETRY_MS),
            reason,
            in_stream: Some(self.opened.input.meta.id()),
            out_stream: Some(self.opened.output.meta.id()),
        })))
    }

    fn token(&self) -> Result<Token, Refused> {
        let (now, place) = (self.shared.streams.now(), self.opened.place(self.kept));
        let resume_token = self.opened.tokens.seal(&self.shared.sealer, place, now)?;
        let life = self.shared.settings.resume_ttl.as_millis();
        let left = self.opened.resume_life_left(now);
        let resume_expires_in_ms = u64::try_from(life).map_or(left, |life| life.min(left));
        Ok(Token { resume_token, resume_expires_in_ms })
    }

    async fn send(&mut self, frame: &ServerFrame) -> Result<(), Refused> {
        let sent = self.writer.messages.send(message(self.format, frame)).await;
        // Nobody reads this any more.
        sent.map_err(|_| Refused::new(Code::Stopping, "the connection is gone"))
    }

    /// Whether another frame may come: not more than flow control lets through.
    fn is_reading(&self) -> bool {
        let chunks = self.waiting.len() + self.under_way.len() + self.acks.len();
        chunks < CREDIT_EVENTS as usize && self.chunk_bytes < CREDIT_BYTES as usize
    }

    fn hear(&mut self, frame: ClientFrame) -> Result<(), Refused> {
        let writes =
            matches!(frame, ClientFrame::Chunk { .. } | ClientFrame::Close | ClientFrame::Abort);
        if writes && self.opened.read_only.is_some() {
            // It did not become the next generation, and would write as one before.
            return Err(NotTaken::ReadOnly(String::new()).into());
        }
        match frame {
            ClientFrame::Hello(_) => Err(Refused::new(Code::Malformed, "hello is the first frame")),
            ClientFrame::Chunk { seqno, data } => self.chunk(seqno, data),
            ClientFrame::Ack { event_id } => self.acknowledged(event_id.as_deref()),
            ClientFrame::Close => {
                if !self.is_closed {
                    self.is_closed = true;
                    let append = self.input_append(None, self.next_seqno, true);
                    self.waiting.push((Job::Close, append));
                }
                Ok(())
            }
            ClientFrame::Abort => {
                self.abort();
                Ok(())
            }
            _ => Err(Refused::new(Code::Malformed, "not a frame of this version")),
        }
    }

    fn chunk(&mut self, seqno: u32, data: Bytes) -> Result<(), Refused> {
        if data.len() > CHUNK_BYTES_MAX {
            let message = format!("a chunk has at most {CHUNK_BYTES_MAX} bytes");
            return Err(Refused::new(Code::TooLarge, message));
        }
        if data.is_empty() {
            return Err(Refused::new(Code::Malformed, "a chunk without bytes"));
        }
        if seqno > self.next_seqno || seqno == u32::MAX {
            let message = format!("chunk {} is to come next", self.next_seqno);
            return Err(Refused::new(Code::Gap, message));
        }
        let is_again = seqno < self.next_seqno;
        if !is_again {
            if self.is_closed {
                return Err(Refused::new(Code::Closed, AFTER_END));
            }
            self.next_seqno += 1;
        }
        let (bytes, again) = (data.len(), is_again.then(|| data.clone()));
        let append = self.input_append(Some(data), seqno, false);
        self.chunk_bytes += bytes;
        self.waiting.push((Job::Chunk { seqno, bytes, again }, append));
        Ok(())
    }

    fn input_append(&self, data: Option<Bytes>, seqno: u32, closes: bool) -> Append {
        let id = self.opened.input.meta.id();
        let tag =
            ProducerTag { id: CLIENT.to_owned(), epoch: self.opened.generation, seq: seqno.into() };
        let payload = data.and_then(|data| Payload::parse(data, false).ok());
        let key = self.opened.stream_key.as_ref().map(|key| key.records(id));
        Append::new(id.name(), payload, closes, self.shared.streams.now())
            .to(id)
            .key(key)
            .producer(Some(tag))
    }

    /// Ends both streams, which tells everyone.
    fn abort(&mut self) {
        if !self.is_closed {
            self.is_closed = true;
            let append = self.input_append(None, self.next_seqno, true);
            self.waiting.push((Job::Abort, append.writer_seq(Some(ABORT.to_owned()))));
        }
        let id = self.view.meta.id();
        let key = self.opened.stream_key.as_ref().map(|key| key.records(id));
        let append = Append::new(id.name(), None, true, self.shared.streams.now())
            .to(id)
            .key(key)
            .writer_seq(Some(ABORT.to_owned()));
        self.waiting.push((Job::Abort, append));
    }

    /// Events up to this one are kept. The first of these says that the welcome was received.
    fn acknowledged(&mut self, event_id: Option<&str>) -> Result<(), Refused> {
        if let Some(event_id) = event_id {
            let number = event_id.parse::<Offset>().map(Offset::number);
            let number = number.ok().filter(|number| *number <= self.sent);
            let Some(number) = number else {
                return Err(Refused::invalid("an event that was not sent"));
            };
            while let Some((first, bytes)) = self.outstanding.front().copied()
                && first <= number
            {
                self.outstanding.pop_front();
                self.outstanding_bytes -= bytes;
            }
            self.kept = self.kept.max(number);
        }
        if !self.is_acknowledged && self.opened.read_only.is_none() {
            self.is_acknowledged = true;
            let seen = Command::Seen {
                stream: self.opened.input.meta.id(),
                producer: CLIENT.to_owned(),
                epoch: self.opened.generation,
            };
            // If it fails, a token that could be over is good a little longer.
            let streams = Arc::clone(&self.shared.streams);
            tokio::spawn(async move { streams.command(seen, 0).await });
        }
        Ok(())
    }

    /// Has what waits appended, if nothing is under way.
    fn start_appends(&mut self) -> Result<(), Refused> {
        if self.pending.is_some() || self.waiting.is_empty() {
            return Ok(());
        }
        let principal = self.opened.caller.principal();
        let charge = self.shared.settings.charge_waiting(principal, self.chunk_bytes)?;
        let (jobs, appends): (Vec<_>, Vec<_>) = self.waiting.drain(..).unzip();
        self.under_way = jobs.into();
        let (streams, bytes) = (Arc::clone(&self.shared.streams), self.chunk_bytes);
        let command = async move {
            let done = streams.command(Command::AppendAll(appends), bytes).await;
            drop(charge);
            done
        };
        self.pending = Some(command.boxed());
        Ok(())
    }

    /// What was under way is done.
    async fn appended(&mut self, reply: Result<Reply, NotTaken>) -> Result<(), Refused> {
        let Reply::All(replies) = reply? else { return Err(gone()) };
        for reply in replies {
            let Some(job) = self.under_way.pop_front() else { break };
            if reply.is_err() {
                // What is closed says so first, also to whom it is none of their business.
                self.check_owner()?;
            }
            if matches!(reply, Ok(_) | Err(Refusal::Closed { .. })) {
                self.compare(&job).await?;
            }
            self.judge(job, reply)?;
        }
        // What came after one that was refused, and was not looked at.
        let left: Vec<_> = self.under_way.drain(..).collect();
        for job in left {
            self.compare(&job).await?;
            match job {
                Job::Chunk { seqno, bytes, again: Some(_) } => self.acknowledge(seqno, bytes),
                Job::Chunk { .. } => return Err(Refused::new(Code::Closed, AFTER_END)),
                Job::Abort => self.abort(),
                Job::Close => {}
            }
        }
        Ok(())
    }

    /// Whether a chunk that came again is the one that is there. Of the last one the stream itself
    /// knows; any other is looked up.
    async fn compare(&mut self, job: &Job) -> Result<(), Refused> {
        let Job::Chunk { seqno, again: Some(data), .. } = job else { return Ok(()) };
        let id = self.opened.input.meta.id();
        let key = self.opened.stream_key.as_ref().map(|key| key.records(id));
        // Before it are the first record, a record for each chunk, and some that are no chunks.
        let mut from = u64::from(*seqno) + 1;
        loop {
            let streams = Arc::clone(&self.shared.streams);
            let read =
                tokio::task::spawn_blocking(move || streams.stored(id, from, u64::MAX, LOOK_UP));
            let records = read.await.map_err(|_| gone())?.map_err(|why| {
                tracing::error!(%why, "a duplex cannot be read");
                Refused::new(Code::ReadOnly, "chunks cannot be read at the moment").retry(RETRY_MS)
            })?;
            for (number, stored) in records {
                from = number + 1;
                let record = Record::decode(&stored.record).ok_or_else(gone)?;
                let seq = record.producer().map(|tag| tag.seq);
                if record.payload().is_none() || seq != Some(u64::from(*seqno)) {
                    continue;
                }
                return match record.data(key.as_ref(), number).as_ref() == Some(data) {
                    true => Ok(()),
                    false => Err(self.conflict()),
                };
            }
        }
    }

    fn conflict(&self) -> Refused {
        tracing::warn!(duplex = self.opened.name.bound(), "a chunk came with other bytes");
        Refused::new(Code::Conflict, "another chunk of this number is there")
    }

    fn acknowledge(&mut self, seqno: u32, bytes: usize) {
        self.chunk_bytes -= bytes;
        self.acks.push_back(seqno);
    }

    fn judge(&mut self, job: Job, reply: Result<Appended, Refusal>) -> Result<(), Refused> {
        match (job, reply) {
            (Job::Chunk { .. }, Ok(appended)) if appended.differs => Err(self.conflict()),
            // What is there is there, also after the end.
            (Job::Chunk { seqno, bytes, .. }, Ok(_))
            | (Job::Chunk { seqno, bytes, again: Some(_) }, Err(Refusal::Closed { .. })) => {
                self.acknowledge(seqno, bytes);
                Ok(())
            }
            (_, Ok(_)) => Ok(()),
            (_, Err(Refusal::StaleEpoch { .. })) => Err(superseded()),
            (Job::Close | Job::Abort, Err(Refusal::Closed { .. })) => Ok(()),
            (_, Err(Refusal::Closed { .. })) => Err(Refused::new(Code::Closed, AFTER_END)),
            (_, Err(Refusal::Gap { expected, .. })) => {
                Err(Refused::new(Code::Gap, format!("chunk {expected} is to come next")))
            }
            (_, Err(Refusal::Quota(quota))) => Err(Refused::over_quota(quota)),
            (_, Err(_)) => Err(gone()),
        }
    }

    /// Whether a later connection has taken over.
    fn check_owner(&self) -> Result<(), Refused> {
        let view = self.input.borrow();
        let client = view.as_ref().and_then(|view| view.client);
        match client.is_some_and(|client| client.epoch > self.opened.generation) {
            true if self.opened.read_only.is_none() => Err(superseded()),
            _ => Ok(()),
        }
    }

    async fn fill(&mut self) -> Result<(), Refused> {
        let unread = |why| {
            tracing::error!(%why, "a duplex cannot be read");
            Refused::new(Code::ReadOnly, "events cannot be read at the moment").retry(RETRY_MS)
        };
        self.events.fill(&self.view).await.map_err(unread)
    }

    fn next_event_fits(&self) -> bool {
        let Some(next) = self.events.front() else { return false };
        let is_free = self.outstanding.is_empty()
            || (self.outstanding.len() < CREDIT_EVENTS as usize
                && self.outstanding_bytes + next.bytes <= CREDIT_BYTES as usize);
        // What was begun is sent whole: a client cannot keep what is not proved.
        !self.opened.is_flow_controlled || is_free || self.is_inside_commit
    }

    /// Sends an ack, or the next event with its proof.
    fn send_next(&mut self, permits: mpsc::PermitIterator<'_, Message>) -> Result<(), Refused> {
        let mut permits = permits;
        let mut send = |frame: &ServerFrame| {
            if let Some(permit) = permits.next() {
                permit.send(message(self.format, frame));
            }
        };
        if let Some(seqno) = self.acks.pop_front() {
            send(&ServerFrame::Ack { seqno });
            return Ok(());
        }
        let Some(next) = self.events.take() else { return Ok(()) };
        if next.number <= self.replay_upto {
            let (bytes, now) = (next.bytes as u64, self.shared.streams.now());
            if let Err(wait) = self.shared.replays.take(&self.opened.owner, bytes, now) {
                let message = "too much was sent again";
                return Err(Refused::new(Code::Busy, message).retry(wait));
            }
        }
        next.frames.iter().for_each(&mut send);
        self.sent = next.number;
        self.is_inside_commit = next.is_inside;
        if self.opened.is_flow_controlled {
            self.outstanding.push_back((next.number, next.bytes));
            self.outstanding_bytes += next.bytes;
        }
        Ok(())
    }

    /// Whether all was said.
    fn is_over(&self) -> bool {
        let is_idle = self.pending.is_none() && self.waiting.is_empty() && self.acks.is_empty();
        is_idle && self.view.closed && self.events.is_done(&self.view)
    }

    async fn end(&mut self) -> Result<Next, Refused> {
        let aborted = events::is_aborted(&self.shared.streams, &self.view).await;
        let aborted = aborted.map_err(|why| {
            tracing::error!(%why, "a duplex cannot be read");
            Refused::new(Code::ReadOnly, "events cannot be read at the moment").retry(RETRY_MS)
        })?;
        if !self.is_closed && self.opened.read_only.is_none() {
            // Nothing consumes chunks any more.
            let id = self.opened.input.meta.id();
            let key = self.opened.stream_key.as_ref().map(|key| key.records(id));
            let now = self.shared.streams.now();
            let append = Append::new(id.name(), None, true, now).to(id).key(key);
            let _ = self.shared.streams.command(Command::Append(append), 0).await;
        }
        let event_id = (self.sent > 0).then(|| Offset::after(self.sent).to_string());
        self.send(&ServerFrame::End { event_id, aborted }).await?;
        Ok(Next::Ended)
    }
}

/// The reply to the appends that are under way, if there are any.
async fn reply_to(pending: &mut Option<Pending>) -> Result<Reply, NotTaken> {
    match pending {
        Some(pending) => pending.await,
        None => std::future::pending().await,
    }
}

fn gone() -> Refused {
    Refused::new(Code::Expired, "the duplex is gone")
}

/// The end of a connection whose input is too much or too slow.
fn unfinished_input(refusal: InputRefusal) -> Refused {
    tracing::debug!(reason = refusal.as_str(), "a frame was refused while it arrived");
    Refused::new(Code::Busy, refusal.to_string()).retry(UNFINISHED_RETRY_MS)
}

fn superseded() -> Refused {
    Refused::new(Code::Superseded, "a later connection has taken over")
}

/// Says why, and closes.
async fn refuse(halves: (SplitStream<Socket>, Writer), format: Format, refused: &Refused) {
    let close = CloseFrame { code: refused.code.close_code().into(), reason: "".into() };
    finish(halves, Some(message(format, &refused.frame())), close).await;
}

/// Says a last word, and closes. What the client still sends is read meanwhile, and for a while
/// after: a socket that is closed with something unread takes back what was said last.
async fn finish(
    (mut frames, writer): (SplitStream<Socket>, Writer),
    last: Option<Message>,
    close: CloseFrame,
) {
    let mut unread = std::pin::pin!(async { while let Some(Ok(_)) = frames.next().await {} });
    let mut said = std::pin::pin!(writer.finish(last, close));
    tokio::select! {
        () = said.as_mut() => {
            let _ = tokio::time::timeout(CLOSE_TIME, unread).await;
        }
        () = unread.as_mut() => said.await,
    }
}

/// What a message was.
enum Heard {
    Frame(ClientFrame),
    Nothing,
    Close,
}

fn decoded(format: Format, message: Message) -> Result<Heard, Refused> {
    let bytes = match (message, format) {
        (Message::Text(text), Format::Json) => Bytes::from(text),
        (Message::Binary(bytes), Format::Protobuf) => bytes,
        (Message::Ping(_) | Message::Pong(_), _) => return Ok(Heard::Nothing),
        (Message::Close(_), _) => return Ok(Heard::Close),
        _ => return Err(Refused::new(Code::Malformed, "not a message of this subprotocol")),
    };
    match ClientFrame::decode(format, &bytes) {
        Ok(frame) => Ok(Heard::Frame(frame)),
        Err(FrameError::TooLarge) => Err(Refused::new(Code::TooLarge, "the frame is too large")),
        Err(error) => Err(Refused::new(Code::Malformed, error.to_string())),
    }
}

/// The hello that must come; nothing if the connection ended.
async fn first_frame(
    frames: &mut SplitStream<Socket>,
    unfinished: &SocketInput,
    format: Format,
) -> Result<Option<Hello>, Refused> {
    let missing = || Refused::new(Code::Malformed, "hello is missing");
    // For all that comes before it: pings do not make it longer.
    let deadline = Instant::now() + HELLO_TIME;
    loop {
        let next = tokio::time::timeout_at(deadline, frames.next()).await;
        let Some(Ok(message)) = next.map_err(|_| missing())? else { return Ok(None) };
        unfinished.complete(&message);
        match decoded(format, message)? {
            Heard::Frame(ClientFrame::Hello(hello)) => return Ok(Some(hello)),
            Heard::Frame(_) => return Err(missing()),
            Heard::Nothing => {}
            Heard::Close => return Ok(None),
        }
    }
}
