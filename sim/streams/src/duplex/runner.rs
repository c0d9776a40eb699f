//! Has chunks consumed: as `duplex/runner.rs` of the surface.

use bytes::Bytes;
use handback_stream::duplex::{ABORT, Chunk, DuplexHandler, Echo, HANDLER, Mark};
use handback_stream::{
    Acquire, Append, Appended, Command, Payload, ProducerTag, Record, Refusal, Reply,
};

use super::{Lines, Names};
use crate::fate::Fate;
use crate::report::Broken;
use crate::server::Server;

/// Makes none to three events of a chunk.
#[derive(Debug)]
pub(super) struct Maker;

impl DuplexHandler for Maker {
    fn chunk(&mut self, chunk: Chunk) -> Vec<Bytes> {
        let text = String::from_utf8_lossy(&chunk.data).into_owned();
        made(&text, true).into_iter().map(Bytes::from).collect()
    }
}

/// What a chunk makes: none to three events, or itself.
pub(super) fn made(chunk: &str, is_maker: bool) -> Vec<String> {
    let count = chunk.bytes().map(usize::from).sum::<usize>() % 4;
    match is_maker {
        true => (0..count).map(|place| format!("{chunk}e{place}")).collect(),
        false => vec![chunk.to_owned()],
    }
}

/// What is written for an event, or for the end.
#[derive(Debug)]
struct Event {
    data: Option<Bytes>,
    mark: Option<String>,
}

#[derive(Debug)]
pub(super) struct Runner {
    handler: Box<dyn DuplexHandler>,
    /// Its epoch, when it has one.
    epoch: Option<u64>,
    next_seq: u64,
    /// The last record of the input that was consumed.
    consumed: u64,
    /// What is to be written, and what is consumed with it.
    pending: Vec<Event>,
    upto: u64,
    pub(super) is_over: bool,
}

impl Runner {
    pub(super) fn new(is_maker: bool) -> Self {
        let handler: Box<dyn DuplexHandler> =
            if is_maker { Box::new(Maker) } else { Box::new(Echo::default()) };
        Self {
            handler,
            epoch: None,
            next_seq: 0,
            consumed: 0,
            pending: Vec::new(),
            upto: 0,
            is_over: false,
        }
    }

    /// Whether everything up to a record is consumed, and what it made is durable.
    pub(super) fn has_consumed(&self, upto: u64) -> bool {
        self.epoch.is_some() && self.pending.is_empty() && self.consumed >= upto
    }

    /// What it wants of the hub now, if anything.
    pub(super) fn command(
        &mut self,
        fate: &mut Fate,
        server: &Server,
        names: &Names,
    ) -> Option<Command> {
        let lines = names.lines(server)?;
        let Some(epoch) = self.epoch else {
            return Some(Command::Acquire(Acquire {
                stream: lines.output.name(),
                expected: Some(lines.output),
                producer: HANDLER.to_owned(),
                heard_of: None,
            }));
        };
        if self.pending.is_empty() {
            self.consume(fate, server, names, lines);
        }
        let count = if fate.broken == Broken::Piecemeal { 1 } else { usize::MAX };
        let events = self.pending.iter().take(count).zip(self.next_seq..);
        let appends: Vec<_> = events
            .map(|(event, seq)| {
                let tag = ProducerTag { id: HANDLER.to_owned(), epoch, seq };
                let data = event.data.clone();
                let payload = data.map(|data| Payload::parse(data, false).unwrap_or_default());
                let closes = payload.is_none();
                Append::new(lines.output.name(), payload, closes, fate.now)
                    .to(lines.output)
                    .key(names.key.as_ref().map(|key| key.records(lines.output)))
                    .producer(Some(tag))
                    .writer_seq(event.mark.clone())
            })
            .collect();
        (!appends.is_empty()).then_some(Command::AppendAll(appends))
    }

    /// Consumes some records.
    fn consume(&mut self, fate: &mut Fate, server: &Server, names: &Names, lines: Lines) {
        let Some(view) = server.view(&names.input) else { return };
        let upto = view.last.min(self.consumed + 1 + fate.below(4) as u64);
        let Some(records) = server.read(lines.input, self.consumed, upto) else { return };
        let key = names.key.as_ref().map(|key| key.records(lines.input));
        for (number, stored) in records {
            self.upto = number;
            let Some(record) = Record::decode(&stored.record) else { continue };
            if record.closes() || record.is_end() {
                let is_abort = record.writer_seq() == Some(ABORT);
                let left = if is_abort { Vec::new() } else { self.handler.close() };
                self.push(fate, number, left);
                self.pending.push(Event { data: None, mark: is_abort.then(|| ABORT.to_owned()) });
            } else if record.payload().is_some() {
                let Some(data) = record.data(key.as_ref(), number) else {
                    return fate.fault(format!("key: chunk {number} cannot be read"));
                };
                let mut made = self.handler.chunk(Chunk { number, data });
                if made.is_empty() {
                    // That it was consumed is written down all the same.
                    made.push(Bytes::new());
                }
                self.push(fate, number, made);
            }
        }
        if self.pending.is_empty() {
            self.consumed = self.upto.max(self.consumed);
        }
    }

    fn push(&mut self, fate: &Fate, chunk: u64, made: Vec<Bytes>) {
        for (data, mark) in made.into_iter().zip(Mark::of(chunk)) {
            let mark = (fate.broken != Broken::Position).then(|| mark.to_string());
            self.pending.push(Event { data: Some(data), mark });
        }
    }

    /// What it asked for is done.
    pub(super) fn told(&mut self, fate: &mut Fate, reply: Reply) {
        match reply {
            Reply::Acquired { epoch, next_seq, writer_seq, .. } => {
                (self.epoch, self.next_seq) = (Some(epoch), next_seq);
                let mark = writer_seq.as_deref().and_then(Mark::parse);
                self.consumed = self.consumed.max(mark.map_or(0, |mark| mark.chunk));
                fate.report.takeovers += u64::from(epoch > 1);
            }
            Reply::All(replies) => match replies.iter().find_map(|reply| reply.as_ref().err()) {
                None => self.written(fate, &replies),
                Some(refusal) => {
                    let is_fenced = matches!(refusal, Refusal::StaleEpoch { .. });
                    fate.report.fenced += u64::from(is_fenced);
                    self.is_over = true;
                }
            },
            _ => self.is_over = true,
        }
    }

    fn written(&mut self, fate: &mut Fate, replies: &[Result<Appended, Refusal>]) {
        if replies.iter().flatten().any(|appended| appended.differs) {
            fate.fault("differs: an event came again as it was");
        }
        self.next_seq += replies.len() as u64;
        self.pending.drain(..replies.len().min(self.pending.len()));
        if self.pending.is_empty() {
            self.consumed = self.upto;
        }
    }
}
