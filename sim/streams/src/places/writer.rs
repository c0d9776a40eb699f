//! Who writes to one stream of a place, and goes on trying when it is gone.

use std::collections::VecDeque;

use handback_stream::{Refusal, Reply, StreamId};

use crate::fate::Fate;

/// The producer id of all writers.
pub(crate) const WRITER: &str = "w";

const OUTBOX_MAX: usize = 5;

/// How long it tries after it was told that the stream is gone.
const LATE_TICKS: u64 = 150;

/// An append: data, the end, or both.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) seq: u64,
    pub(crate) text: Option<String>,
    pub(crate) closes: bool,
}

#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) place: usize,
    pub(crate) id: StreamId,
    outbox: VecDeque<Op>,
    next_seq: u64,
    has_closed: bool,
    /// When it was told that no more can be written.
    stopped: Option<u64>,
}

impl Writer {
    pub(crate) const fn new(place: usize, id: StreamId) -> Self {
        let outbox = VecDeque::new();
        Self { place, id, outbox, next_seq: 0, has_closed: false, stopped: None }
    }

    pub(crate) fn is_done(&self, tick: u64) -> bool {
        let is_over = self.outbox.is_empty() && self.has_closed;
        self.stopped.is_some_and(|stopped| is_over || tick > stopped + LATE_TICKS)
    }

    /// Thinks of something to write, and sends what it has.
    pub(crate) fn act(&mut self, fate: &mut Fate) -> Vec<Op> {
        let wants_more = fate.busy_one_in(4) && self.stopped.is_none() && !self.has_closed;
        if wants_more && self.outbox.len() < OUTBOX_MAX {
            let closes = fate.one_in(25);
            let has_text = !closes || fate.one_in(2);
            let text = has_text.then(|| text_of(self.id, self.next_seq));
            self.outbox.push_back(Op { seq: self.next_seq, text, closes });
            self.next_seq += 1;
            self.has_closed = closes;
        }
        let seldom = if self.stopped.is_some() { 12 } else { 3 };
        if !fate.one_in(seldom) {
            return Vec::new();
        }
        let from = fate.below(self.outbox.len() + 1);
        let from = if fate.one_in(2) { 0 } else { from };
        self.outbox.iter().skip(from).cloned().collect()
    }

    pub(crate) fn hear(&mut self, seq: u64, reply: &Reply, tick: u64) {
        match reply {
            Reply::Appended(_) => {
                while self.outbox.front().is_some_and(|op| op.seq <= seq) {
                    self.outbox.pop_front();
                }
            }
            Reply::Refused(Refusal::Closed { .. } | Refusal::NotFound | Refusal::Gone) => {
                self.stopped.get_or_insert(tick);
            }
            _ => {}
        }
    }
}

/// What the append with a sequence says: where it belongs.
pub(crate) fn text_of(id: StreamId, seq: u64) -> String {
    // Some are longer than a sector.
    let padding = if seq % 7 == 3 { 700 } else { usize::try_from(seq % 5).unwrap_or_default() };
    format!("{id:?}-{seq}-{}", ".".repeat(padding))
}
