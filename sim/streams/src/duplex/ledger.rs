//! What was told of a duplex, kept outside of the system, and what its streams must say.

use handback_stream::duplex::{CLIENT, HANDLER, Mark};
use handback_stream::{Record, Stored};

use super::client::{User, chunk_text};
use super::runner::made;
use super::{Lines, Names};
use crate::fate::Fate;
use crate::server::Server;

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The last generation that anybody was told of.
    generation: u64,
    /// Tokens of earlier generations are over.
    floor: u64,
    /// Chunks below were acknowledged.
    acked_below: u64,
}

/// An event as it is stored.
struct Stated {
    number: u64,
    text: String,
    mark: Option<Mark>,
    commit: u64,
}

impl Ledger {
    /// A connection has taken over.
    pub(super) fn acquired(&mut self, fate: &mut Fate, presented: u64, generation: u64) {
        if presented < self.floor {
            let floor = self.floor;
            fate.fault(format!("zombie: token {presented} took over, and {floor} was presented"));
        }
        if generation <= self.generation {
            fate.fault(format!("zombie: generation {generation} was given again"));
        }
        self.floor = self.floor.max(presented);
        self.generation = self.generation.max(generation);
        fate.report.takeovers += u64::from(generation > 1);
    }

    /// The client has said that it has the token of a generation.
    pub(super) fn seen(&mut self, generation: u64) {
        self.floor = self.floor.max(generation);
    }

    /// A chunk was acknowledged to a connection.
    pub(super) fn chunk(&mut self, fate: &mut Fate, generation: u64, seqno: u64, is_again: bool) {
        if generation < self.generation {
            fate.fault(format!("zombie: generation {generation} wrote chunk {seqno}"));
        }
        if seqno < self.acked_below && !is_again {
            fate.fault(format!("duplicate: chunk {seqno} was taken again"));
        }
        self.acked_below = self.acked_below.max(seqno + 1);
    }

    pub(super) const fn acked(&self) -> u64 {
        self.acked_below
    }

    /// Checks both streams; `is_done` if all chunks must have been consumed.
    pub(super) fn check(
        &self,
        server: &Server,
        names: &Names,
        user: &User,
        is_done: bool,
    ) -> Vec<String> {
        let Some(lines) = names.lines(server) else {
            let is_lost = self.acked_below > 0 || !user.events.is_empty();
            return if is_lost {
                vec!["lost: the streams are gone".to_owned()]
            } else {
                Vec::new()
            };
        };
        let mut faults = Vec::new();
        let (Some(input), Some(output)) =
            (server.read(lines.input, 0, u64::MAX), server.read(lines.output, 0, u64::MAX))
        else {
            return faults;
        };
        let chunks = self.chunks(names, lines, &input, &mut faults);
        if (chunks.len() as u64) < self.acked_below.max(user.acked_below) {
            faults.push(format!("lost: chunk {} was acknowledged", chunks.len()));
        }
        let events = events(names, lines, &output, &mut faults);
        check_events(names, &chunks, &events, is_done, &mut faults);
        let kept = user.events.last().map_or(0, |(number, _)| *number);
        let known = events.iter().filter(|event| event.number <= kept && !event.text.is_empty());
        if !known
            .map(|event| (event.number, &event.text))
            .eq(user.events.iter().map(|(n, t)| (*n, t)))
        {
            faults.push("order: the client has other events".to_owned());
        }
        faults
    }

    /// The chunks that are there, with the numbers of their records.
    fn chunks(
        &self,
        names: &Names,
        lines: Lines,
        input: &[(u64, Stored)],
        faults: &mut Vec<String>,
    ) -> Vec<(u64, String)> {
        let key = names.key.as_ref().map(|key| key.records(lines.input));
        let (mut fence, mut chunks) = (0, Vec::new());
        for (number, stored) in input {
            let Some(record) = Record::decode(&stored.record) else { continue };
            if !is_fenced_by(&record, CLIENT, &mut fence) {
                faults.push(format!("zombie: record {number} is not of generation {fence}"));
            }
            let Some(tag) = record.producer().filter(|_| record.payload().is_some()) else {
                continue;
            };
            let next = chunks.len() as u64;
            if tag.seq != next {
                let kind = if tag.seq < next { "duplicate" } else { "order" };
                faults.push(format!("{kind}: chunk {} came where {next} should", tag.seq));
            }
            let data = record.data(key.as_ref(), *number).unwrap_or_default();
            let text = String::from_utf8_lossy(&data).into_owned();
            if text != chunk_text(names.duplex, tag.seq) {
                faults.push(format!("order: chunk {} is {text}", tag.seq));
            }
            chunks.push((*number, text));
        }
        chunks
    }
}

/// Whether who wrote a record was not fenced off before.
fn is_fenced_by(record: &Record, producer: &str, fence: &mut u64) -> bool {
    let Some(tag) = record.producer().filter(|tag| tag.id == producer) else { return true };
    if record.kind_name() == "fence" {
        let is_later = tag.epoch >= *fence;
        *fence = tag.epoch;
        return is_later;
    }
    tag.epoch == *fence
}

fn events(
    names: &Names,
    lines: Lines,
    output: &[(u64, Stored)],
    faults: &mut Vec<String>,
) -> Vec<Stated> {
    let key = names.key.as_ref().map(|key| key.records(lines.output));
    let (mut fence, mut events) = (0, Vec::new());
    for (number, stored) in output {
        let Some(record) = Record::decode(&stored.record) else { continue };
        if !is_fenced_by(&record, HANDLER, &mut fence) {
            faults.push(format!("zombie: event {number} is not of epoch {fence}"));
        }
        if record.payload().is_none() {
            continue;
        }
        let Some(data) = record.data(key.as_ref(), *number) else {
            faults.push(format!("key: event {number} cannot be read"));
            continue;
        };
        events.push(Stated {
            number: *number,
            text: String::from_utf8_lossy(&data).into_owned(),
            mark: record.writer_seq().and_then(Mark::parse),
            commit: stored.commit,
        });
    }
    events
}

/// Each chunk was consumed once, in order, and made all of its events or none.
fn check_events(
    names: &Names,
    chunks: &[(u64, String)],
    events: &[Stated],
    is_done: bool,
    faults: &mut Vec<String>,
) {
    let mut texts: Vec<_> = events.iter().map(|e| &e.text).filter(|t| !t.is_empty()).collect();
    texts.sort_unstable();
    for pair in texts.windows(2).filter(|pair| pair[0] == pair[1]) {
        faults.push(format!("duplicate: event {} is there twice", pair[0]));
    }
    let expected = chunks.iter().flat_map(|(_, text)| made(text, names.is_maker));
    let texts = events.iter().map(|event| &event.text).filter(|text| !text.is_empty());
    if texts.zip(expected).any(|(text, expected)| *text != expected) {
        faults.push("order: the events are not those of the chunks".to_owned());
    }
    // Without any marks, what they are for is looked at first: that nothing is consumed twice.
    if !faults.is_empty() || (!is_done && events.iter().all(|event| event.mark.is_none())) {
        return;
    }
    let groups = events.chunk_by(|one, other| {
        one.mark.map(|mark| mark.chunk) == other.mark.map(|mark| mark.chunk)
    });
    let mut consumed = 0;
    for group in groups {
        let Some((number, text)) = chunks.get(consumed) else {
            faults.push("duplicate: there are events of no chunk".to_owned());
            return;
        };
        consumed += 1;
        let marks = Mark::of(*number).take(group.len()).map(Some);
        if !group.iter().map(|event| event.mark).eq(marks) {
            faults.push(format!("order: the events after chunk {consumed} are not of {text}"));
            return;
        }
        let mut expected = made(text, names.is_maker);
        if expected.is_empty() {
            expected.push(String::new());
        }
        if !group.iter().map(|event| &event.text).eq(&expected) {
            faults.push(format!("lost: {text} has not made all of its events"));
        }
        if group.iter().any(|event| event.commit != group[0].commit) {
            faults.push(format!("order: the events of {text} are not of one commit"));
        }
    }
    if is_done && consumed < chunks.len() {
        faults.push(format!("lost: {} chunks are not consumed", chunks.len() - consumed));
    }
}
