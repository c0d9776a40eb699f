//! The server's end of a connection: as `duplex/open.rs` and `duplex/connection.rs` of the surface.

use bytes::Bytes;
use handback_stream::duplex::{ABORT, CLIENT};
use handback_stream::{
    Acquire, Append, Appended, Command, Create, Life, Payload, ProducerTag, Record, Refusal, Reply,
    StreamId, StreamName,
};
use rand::RngExt as _;

use super::ledger::Ledger;
use super::link::{Link, ToClient, ToServer};
use super::{Lines, Names};
use crate::fate::Fate;
use crate::report::Broken;
use crate::server::Server;

const LIFE_S: u64 = 24 * 3600;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) link: u64,
    presented: u64,
    stage: Stage,
    generation: u64,
    next_seqno: u64,
    is_closed: bool,
    waiting: Vec<Job>,
    under_way: Vec<Job>,
    wants_seen: bool,
    is_seen: bool,
    /// The last event that was sent.
    sent: u64,
    pub(super) is_over: bool,
    /// How long it does not notice that the client is gone.
    notices_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Silent,
    Opening,
    Open,
}

/// What an append is for.
#[derive(Clone, Debug)]
enum Job {
    Chunk {
        seqno: u64,
        text: String,
    },
    Close,
    Abort,
    /// The same for the stream of events.
    AbortOutput,
}

/// What is asked for in a round.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    Create,
    Acquire,
    Appends,
    Seen,
}

impl Session {
    pub(super) const fn new(link: u64) -> Self {
        Self {
            link,
            presented: 0,
            stage: Stage::Silent,
            generation: 0,
            next_seqno: 0,
            is_closed: false,
            waiting: Vec::new(),
            under_way: Vec::new(),
            wants_seen: false,
            is_seen: false,
            sent: 0,
            is_over: false,
            notices_at: None,
        }
    }

    /// Hears what has arrived.
    pub(super) fn hear(&mut self, fate: &mut Fate, link: &mut Link) {
        if link.client_is_gone && self.notices_at.is_none() {
            self.notices_at = Some(fate.tick + fate.below(30) as u64);
        }
        while !self.is_over
            && let Some(frame) = link.up.next(fate.tick)
        {
            match frame {
                ToServer::Hello { token, event } => {
                    (self.presented, self.sent) = (token, event);
                    self.stage = Stage::Opening;
                }
                ToServer::Chunk { seqno, text } => {
                    if seqno > self.next_seqno || (seqno == self.next_seqno && self.is_closed) {
                        return self.refuse(fate, link);
                    }
                    self.next_seqno = self.next_seqno.max(seqno + 1);
                    self.waiting.push(Job::Chunk { seqno, text });
                }
                ToServer::Ack => {
                    self.wants_seen |= !self.is_seen;
                    self.is_seen = true;
                }
                ToServer::Close if !self.is_closed => {
                    self.is_closed = true;
                    self.waiting.push(Job::Close);
                }
                ToServer::Close => {}
                ToServer::Abort => {
                    if !self.is_closed {
                        self.is_closed = true;
                        self.waiting.push(Job::Abort);
                    }
                    self.waiting.push(Job::AbortOutput);
                }
            }
        }
        self.is_over |= self.notices_at.is_some_and(|at| fate.tick >= at);
    }

    fn refuse(&mut self, fate: &mut Fate, link: &mut Link) {
        self.is_over = true;
        link.down.send(fate, ToClient::Refused);
    }

    /// What it wants of the hub now.
    pub(super) fn commands(
        &mut self,
        fate: &mut Fate,
        server: &Server,
        names: &Names,
        out: &mut Vec<Command>,
    ) -> Vec<Asked> {
        let lines = names.lines(server);
        match (self.stage, lines) {
            (Stage::Silent, _) => Vec::new(),
            (Stage::Opening, None) => {
                let missing = [&names.input, &names.output];
                let missing = missing.into_iter().find(|name| server.view(name).is_none());
                let Some(missing) = missing else { return Vec::new() };
                out.push(create(missing, names, fate));
                vec![Asked::Create]
            }
            (Stage::Opening, Some(lines)) => {
                out.push(Command::Acquire(Acquire {
                    stream: lines.input.name(),
                    expected: Some(lines.input),
                    producer: CLIENT.to_owned(),
                    heard_of: (fate.broken != Broken::Tokens).then_some(self.presented),
                }));
                vec![Asked::Acquire]
            }
            (Stage::Open, None) => {
                fate.fault("lost: the streams of a duplex are gone");
                Vec::new()
            }
            (Stage::Open, Some(lines)) => {
                let mut asked = Vec::new();
                if !self.waiting.is_empty() {
                    self.under_way = std::mem::take(&mut self.waiting);
                    let append = |job: &Job| self.append(job, names, lines, fate.now);
                    out.push(Command::AppendAll(self.under_way.iter().map(append).collect()));
                    asked.push(Asked::Appends);
                }
                if std::mem::take(&mut self.wants_seen) {
                    out.push(Command::Seen {
                        stream: lines.input,
                        producer: CLIENT.to_owned(),
                        epoch: self.generation,
                    });
                    asked.push(Asked::Seen);
                }
                asked
            }
        }
    }

    fn append(&self, job: &Job, names: &Names, lines: Lines, now: u64) -> Append {
        let key = |id: StreamId| names.key.as_ref().map(|key| key.records(id));
        let input = |text: Option<&str>, seq: u64| {
            let bytes = text.map(|text| Bytes::copy_from_slice(text.as_bytes()));
            let payload = bytes.and_then(|bytes| Payload::parse(bytes, false).ok());
            let tag = ProducerTag { id: CLIENT.to_owned(), epoch: self.generation, seq };
            Append::new(lines.input.name(), payload, text.is_none(), now)
                .to(lines.input)
                .key(key(lines.input))
                .producer(Some(tag))
        };
        match job {
            Job::Chunk { seqno, text } => input(Some(text), *seqno),
            Job::Close => input(None, self.next_seqno),
            Job::Abort => input(None, self.next_seqno).writer_seq(Some(ABORT.to_owned())),
            Job::AbortOutput => Append::new(lines.output.name(), None, true, now)
                .to(lines.output)
                .key(key(lines.output))
                .writer_seq(Some(ABORT.to_owned())),
        }
    }

    /// What it asked for is done.
    pub(super) fn told(
        &mut self,
        fate: &mut Fate,
        server: &Server,
        names: &Names,
        (link, ledger): (&mut Link, &mut Ledger),
        (asked, reply): (Asked, Reply),
    ) {
        match (asked, reply) {
            (Asked::Acquire, Reply::Acquired { epoch, next_seq, .. }) => {
                ledger.acquired(fate, self.presented, epoch);
                self.open(fate, link, epoch, next_seq);
            }
            (Asked::Acquire, Reply::Refused(Refusal::Closed { .. })) => {
                // There is nothing more to write: nobody is fenced off.
                let view = server.view(&names.input);
                let client = view.and_then(|view| view.client);
                let (epoch, seen) = client.map_or((0, 0), |client| (client.epoch, client.seen));
                if self.presented < seen || self.presented > epoch {
                    fate.report.superseded += 1;
                    return self.refuse(fate, link);
                }
                self.is_closed = true;
                self.open(fate, link, epoch, client.map_or(0, |client| client.next_seq));
            }
            (Asked::Acquire, Reply::Refused(refusal)) => {
                fate.report.superseded += u64::from(refusal == Refusal::Superseded);
                self.refuse(fate, link);
            }
            (Asked::Appends, Reply::All(replies)) => {
                let jobs = std::mem::take(&mut self.under_way);
                let mut left = jobs.into_iter();
                for (reply, job) in replies.into_iter().zip(&mut left) {
                    self.judge(fate, link, ledger, (job, reply));
                }
                // What came after one that was refused.
                let left = left.filter(|job| matches!(job, Job::AbortOutput));
                self.waiting.splice(..0, left);
            }
            (Asked::Seen, _) if server.view(&names.input).is_some_and(|view| !view.closed) => {
                ledger.seen(self.generation);
            }
            _ => {}
        }
    }

    fn open(&mut self, fate: &mut Fate, link: &mut Link, generation: u64, next_seqno: u64) {
        (self.stage, self.generation, self.next_seqno) = (Stage::Open, generation, next_seqno);
        link.down.send(fate, ToClient::Welcome { generation, next_seqno });
    }

    fn judge(
        &mut self,
        fate: &mut Fate,
        link: &mut Link,
        ledger: &mut Ledger,
        (job, reply): (Job, Result<Appended, Refusal>),
    ) {
        match (job, reply) {
            (Job::Chunk { seqno, .. }, Ok(appended)) => {
                if appended.differs {
                    fate.fault(format!("differs: chunk {seqno} came again as it was"));
                }
                ledger.chunk(fate, self.generation, seqno, appended.is_duplicate);
                link.down.send(fate, ToClient::Ack { seqno });
            }
            (_, Ok(_))
            | (Job::Close | Job::Abort | Job::AbortOutput, Err(Refusal::Closed { .. })) => {}
            (_, Err(refusal)) => {
                let is_fenced = matches!(refusal, Refusal::StaleEpoch { .. });
                fate.report.fenced += u64::from(is_fenced);
                self.refuse(fate, link);
            }
        }
    }

    /// Sends events that are there, and the end.
    pub(super) fn send(
        &mut self,
        fate: &mut Fate,
        server: &Server,
        names: &Names,
        link: &mut Link,
    ) {
        if self.stage != Stage::Open || self.is_over {
            return;
        }
        let Some(view) = server.view(&names.output) else { return };
        if self.sent > view.last {
            return fate.fault(format!("lost: event {} was received", self.sent));
        }
        let upto = view.number.min(self.sent + 1 + fate.below(8) as u64);
        let Some(records) = server.read(view.meta.id(), self.sent, upto) else { return };
        let key = names.key.as_ref().map(|key| key.records(view.meta.id()));
        for (number, stored) in records {
            let data = Record::decode(&stored.record).and_then(|r| r.data(key.as_ref(), number));
            if let Some(data) = data.filter(|data| !data.is_empty()) {
                let text = String::from_utf8_lossy(&data).into_owned();
                link.down.send(fate, ToClient::Event { number, text });
            }
            self.sent = number;
        }
        if view.closed && self.sent >= view.number && self.waiting.is_empty() {
            link.down.send(fate, ToClient::End);
            self.is_over = true;
        }
    }
}

fn create(name: &StreamName, names: &Names, fate: &mut Fate) -> Command {
    Command::Create(Box::new(Create {
        name: name.clone(),
        content_type: None,
        life: Life::Sliding { ttl_s: LIFE_S },
        closed: false,
        payload: None,
        fork: None,
        key: names.key.clone(),
        incarnation: fate.rng.random(),
    }))
}
