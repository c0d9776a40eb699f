//! One connection, from hello to its end.

use std::collections::VecDeque;
use std::time::Duration;

use handback_stream::duplex::{
    CREDIT_BYTES, CREDIT_EVENTS, ClientFrame, Code, Event as EventFrame, EventBody, Hello, KeyText,
    Mode, ServerFrame, Welcome,
};
use tokio::time::{Instant, sleep_until, timeout};

use super::core::Mark;
use super::driver::Driver;
use super::proving::Proving;
use super::socket::{Socket, Trouble, of_code};
use super::status::{Finished, Phase};
use super::{DuplexError, Event};
use crate::state::Closing;

/// Until the server says welcome: it waits 10 seconds for a hello itself.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(15);

/// How often a sign of life is asked for.
const PING_EVERY: Duration = Duration::from_secs(20);

/// A server that says nothing for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// When to look again whether a store takes writes, if the server does not say.
const READ_ONLY_RETRY: Duration = Duration::from_secs(5);

/// What is known of one connection.
struct Session<'a> {
    driver: &'a mut Driver,
    socket: Socket,
    proving: Option<Proving>,
    /// What was handed out on an earlier connection and not acknowledged: it comes again.
    repeated: VecDeque<Mark>,
    /// The first chunk that was not sent on this connection.
    next_seqno: u32,
    /// The event that the server was last told of.
    told: Option<String>,
    is_closing_sent: bool,
    /// When a store that took no writes is asked again.
    retry_at: Option<Instant>,
}

impl Driver {
    /// Connects, and stays until the duplex is over or the connection is.
    pub(super) async fn connection(&mut self) -> Result<Finished, Trouble> {
        let target = format!("/v1/duplex?handler={}", self.options.handler);
        let url = self.http.base.websocket(&target);
        let tls = std::sync::Arc::clone(&self.tls);
        let mut socket =
            Socket::connect(&url, self.options.format, tls, self.options.bearer.as_ref()).await?;
        let (kept, repeated) = {
            let queue = self.core.queue();
            (queue.kept.clone(), queue.marks.clone())
        };
        let told = kept.as_ref().map(|mark| mark.event_id.clone());
        let token = self.core.token().await?;
        socket.send(&ClientFrame::Hello(self.hello(told.clone(), token)))?;
        let welcomed = timeout(WELCOME_TIMEOUT, self.welcome(&mut socket)).await;
        let welcome = welcomed.map_err(|_| Trouble::again("there was no welcome in time"))??;
        self.is_welcomed = true;
        self.last_welcome = Instant::now();
        self.core.tell(|status| {
            status.phase = Phase::Open;
            status.mode = Some(welcome.mode);
            status.reason.clone_from(&welcome.reason);
            status.generation = welcome.generation;
            status.retry_in = None;
        });
        let proving = self.proving(&welcome, kept.as_ref()).await?;
        let mut session = Session {
            driver: self,
            socket,
            proving,
            repeated,
            next_seqno: 0,
            told,
            is_closing_sent: false,
            retry_at: None,
        };
        let ended = match session.welcomed(&welcome).await {
            Ok(()) => session.run().await,
            Err(trouble) => Err(trouble),
        };
        session.socket.finish().await;
        ended
    }

    /// The first frame: a welcome, or why not.
    async fn welcome(&self, socket: &mut Socket) -> Result<Box<Welcome>, Trouble> {
        loop {
            match socket.next().await? {
                Some(ServerFrame::Welcome(welcome)) => return Ok(welcome),
                Some(ServerFrame::Error { code, message, retry_after_ms }) => {
                    return Err(self.refused(code, message, retry_after_ms));
                }
                Some(_) => {
                    return Err(DuplexError::Misbehaved("the first frame is no welcome").into());
                }
                None => {}
            }
        }
    }

    fn refused(&self, code: Code, message: String, retry_after_ms: Option<u64>) -> Trouble {
        if code == Code::ReadOnly {
            self.core.tell(|status| {
                status.mode = Some(Mode::ReadOnly);
                status.reason = Some(message.clone());
            });
        }
        of_code(code, message, retry_after_ms.map(Duration::from_millis))
    }

    fn hello(&self, event_id: Option<String>, resume_token: Option<String>) -> Hello {
        let key = self.options.stream_key.as_ref();
        Hello {
            idempotency_key: self.options.idempotency_key.clone().unwrap_or_default(),
            event_id,
            resume_token,
            encryption_key: key.map(|key| KeyText(key.dangerous_to_text().as_str().to_owned())),
            proofs: self.options.verify.is_some(),
        }
    }

    async fn proving(
        &self,
        welcome: &Welcome,
        kept: Option<&Mark>,
    ) -> Result<Option<Proving>, Trouble> {
        let Some(trust) = &self.options.verify else { return Ok(None) };
        let stream = match (welcome.out_stream, welcome.mode) {
            (Some(stream), _) => stream,
            // A store that takes no writes has no stream for a duplex that is new.
            (None, Mode::ReadOnly) => {
                let after = Some(read_only_retry(welcome));
                return Err(Trouble::Again { after, why: "it is read-only".to_owned() });
            }
            (None, _) => return Err(DuplexError::Misbehaved("no stream is named").into()),
        };
        let earlier = self.core.queue().proved;
        let key = self.options.stream_key.as_ref();
        let duplex = self.options.idempotency_key.as_deref().unwrap_or_default();
        let path = format!("__duplex/{}/{duplex}/out", self.options.handler);
        let trust = trust.clone();
        let proving = Proving::start(trust, &self.http, (stream, path), kept, earlier, key).await?;
        Ok(Some(proving))
    }
}

fn read_only_retry(welcome: &Welcome) -> Duration {
    welcome.retry_after_ms.map_or(READ_ONLY_RETRY, Duration::from_millis)
}

impl Session<'_> {
    /// Takes the welcome: drops what the server has, and confirms the token once it is kept.
    async fn welcomed(&mut self, welcome: &Welcome) -> Result<(), Trouble> {
        let core = &self.driver.core;
        if welcome.event_id.is_some() && self.told.is_some() && welcome.event_id != self.told {
            return Err(DuplexError::Misbehaved("events do not go on where they were kept").into());
        }
        // In this order: a chunk that comes in between is the first then.
        let next = core.next_seqno().await?;
        let first = core.queue().chunks.front().map(|chunk| chunk.seqno);
        if welcome.next_seqno > next {
            return Err(DuplexError::Misbehaved("it has chunks that were not sent").into());
        }
        if welcome.next_seqno < first.unwrap_or(next) {
            return Err(DuplexError::Misbehaved("it lost chunks that it acknowledged").into());
        }
        core.keep_token(welcome.token.clone()).await?;
        core.trim(welcome.next_seqno).await?;
        self.next_seqno = welcome.next_seqno;
        if welcome.mode == Mode::ReadOnly {
            let after = self.driver.wait(0, Some(read_only_retry(welcome)));
            self.retry_at = Some(Instant::now() + after);
            return Ok(());
        }
        self.socket.send(&ClientFrame::Ack { event_id: None })
    }

    async fn run(&mut self) -> Result<Finished, Trouble> {
        let (mut heard, mut ping_at) = (Instant::now(), Instant::now() + PING_EVERY);
        loop {
            self.pump()?;
            let core = std::sync::Arc::clone(&self.driver.core);
            let events = self.driver.events.clone();
            let retry_at = self.retry_at;
            tokio::select! {
                frame = self.socket.next() => {
                    heard = Instant::now();
                    if let Some(frame) = frame?
                        && let Some(finished) = self.frame(frame).await?
                    {
                        return Ok(finished);
                    }
                }
                () = core.changed.notified() => {}
                permit = events.reserve(), if !self.driver.ready.is_empty() => {
                    // Nobody receives any more: the application let it go.
                    let Ok(permit) = permit else { return Err(DuplexError::Stopped.into()) };
                    if let Some(event) = self.driver.ready.pop_front() {
                        permit.send(event);
                    }
                }
                () = sleep_until(ping_at) => {
                    if heard.elapsed() > SILENCE_MAX {
                        return Err(Trouble::again("the server is silent"));
                    }
                    self.socket.ping()?;
                    ping_at = Instant::now() + PING_EVERY;
                }
                () = sleep_until(retry_at.unwrap_or(ping_at)), if retry_at.is_some() => {
                    if self.has_something_to_send() {
                        let after = Some(Duration::ZERO);
                        return Err(Trouble::Again { after, why: "it was read-only".to_owned() });
                    }
                    self.retry_at = Some(Instant::now() + READ_ONLY_RETRY);
                }
            }
        }
    }

    fn has_something_to_send(&self) -> bool {
        let queue = self.driver.core.queue();
        !queue.chunks.is_empty() || queue.closing.is_some()
    }

    /// Sends what may be sent: acknowledgements, chunks within the credit, and the end.
    fn pump(&mut self) -> Result<(), Trouble> {
        let queue = self.driver.core.queue();
        let kept = queue.kept.as_ref().map(|mark| mark.event_id.clone());
        if kept.is_some() && kept != self.told {
            self.socket.send(&ClientFrame::Ack { event_id: kept.clone() })?;
            self.told = kept;
        }
        if self.retry_at.is_some() || self.is_closing_sent {
            return Ok(());
        }
        if queue.closing == Some(Closing::Abort) {
            self.is_closing_sent = true;
            return self.socket.send(&ClientFrame::Abort);
        }
        let (mut count, mut bytes) = (0, 0);
        for chunk in &queue.chunks {
            count += 1;
            bytes += chunk.data.len();
            // One alone may be as large as the credit is.
            let is_over = count > CREDIT_EVENTS as usize || bytes > CREDIT_BYTES as usize;
            if is_over && count > 1 {
                return Ok(());
            }
            if chunk.seqno < self.next_seqno {
                continue;
            }
            self.socket
                .send(&ClientFrame::Chunk { seqno: chunk.seqno, data: chunk.data.clone() })?;
            self.next_seqno = chunk.seqno.saturating_add(1);
        }
        if queue.closing == Some(Closing::Close) {
            self.is_closing_sent = true;
            self.socket.send(&ClientFrame::Close)?;
        }
        Ok(())
    }

    /// Takes a frame; says how it ended, if it did.
    async fn frame(&mut self, frame: ServerFrame) -> Result<Option<Finished>, Trouble> {
        match frame {
            ServerFrame::Ack { seqno } if seqno < self.next_seqno => {
                self.driver.core.trim(seqno.saturating_add(1)).await?;
                self.driver.is_moving = true;
            }
            ServerFrame::Ack { .. } => {
                return Err(DuplexError::Misbehaved("an ack of a chunk that was not sent").into());
            }
            ServerFrame::Event(event) => self.event(event)?,
            ServerFrame::Proof(proof) => {
                let proving = self.proving.as_mut();
                let proving = proving.ok_or(DuplexError::Misbehaved("a proof unasked for"))?;
                let (proved, place) = proving.commit(&proof, &self.driver.http).await?;
                for (mark, data) in proved {
                    let event = data.map(|data| Event::new(&mark, data));
                    self.hand_out(mark, event)?;
                }
                self.driver.core.proved(place);
                self.driver.core.acknowledge_silent().await?;
            }
            ServerFrame::Token(token) => self.driver.core.keep_token(token).await?,
            ServerFrame::End { event_id, aborted } => {
                if let Some(proving) = &self.proving {
                    proving.check_end()?;
                }
                return Ok(Some(Finished { event_id, aborted }));
            }
            ServerFrame::Error { code, message, retry_after_ms } => {
                return Err(self.driver.refused(code, message, retry_after_ms));
            }
            _ => return Err(DuplexError::Misbehaved("a frame that is not expected").into()),
        }
        Ok(None)
    }

    fn event(&mut self, frame: EventFrame) -> Result<(), Trouble> {
        match (frame.body, &mut self.proving) {
            (EventBody::Data(data), None) => {
                let mark = Mark { event_id: frame.event_id, place: None, is_event: true };
                let event = Event::new(&mark, data);
                self.hand_out(mark, Some(event))
            }
            (EventBody::Record { number, record }, Some(proving)) => {
                Ok(proving.record(frame.event_id, number, &record)?)
            }
            _ => Err(DuplexError::Misbehaved("an event of the other kind").into()),
        }
    }

    /// Hands out an event, unless an earlier connection did.
    fn hand_out(&mut self, mark: Mark, event: Option<Event>) -> Result<(), Trouble> {
        if let Some(before) = self.repeated.pop_front() {
            if before != mark {
                let why = match mark.place {
                    Some(place) => DuplexError::RolledBack { number: place.number },
                    None => DuplexError::Misbehaved("other events came again"),
                };
                return Err(why.into());
            }
            return Ok(());
        }
        self.driver.core.queue().marks.push_back(mark);
        self.driver.ready.extend(event);
        self.driver.is_moving = true;
        if self.driver.ready.len() > super::driver::READY_MAX {
            return Err(DuplexError::Misbehaved("more events than there is credit for").into());
        }
        Ok(())
    }
}
