//! Producers: what they keep over their own crashes, and what they do with what they hear.

use std::collections::VecDeque;

use handback_stream::{Refusal, Reply};

/// Appends that are not acknowledged yet, at most.
pub(crate) const OUTBOX_MAX: usize = 5;

/// One producer of a stream. All of it is on its disk before it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// Its producer id.
    pub(crate) id: usize,
    /// Its stream.
    pub(crate) stream: usize,
    /// Counts those who took over: the last one is the owner.
    pub(crate) instance: u32,
    pub(crate) epoch: u64,
    pub(crate) next_seq: u64,
    /// What was not acknowledged: sequence, and what it says.
    pub(crate) outbox: VecDeque<(u64, u64)>,
    /// The next number to append.
    pub(crate) next_op: u64,
    /// Everything below was acknowledged, or found to be there.
    pub(crate) acked_below: u64,
    /// Whether it was told that its epoch is over.
    pub(crate) fenced: bool,
}

impl Client {
    pub(crate) fn new(id: usize, stream: usize) -> Self {
        Self {
            id,
            stream,
            instance: 0,
            epoch: 0,
            next_seq: 0,
            outbox: VecDeque::new(),
            next_op: 0,
            acked_below: 0,
            fenced: false,
        }
    }

    pub(crate) fn text(&self, op: u64) -> String {
        format!("{}-{op}", self.id)
    }

    pub(crate) fn produce(&mut self) {
        if self.outbox.len() < OUTBOX_MAX && !self.fenced {
            self.outbox.push_back((self.next_seq, self.next_op));
            self.next_seq += 1;
            self.next_op += 1;
        }
    }

    /// Hears what became of the append with a sequence.
    pub(crate) fn hear(&mut self, epoch: u64, seq: u64, reply: &Reply) {
        if epoch != self.epoch {
            return;
        }
        match reply {
            // Acks are cumulative: what was sent before is there as well.
            Reply::Appended(_) => {
                while let Some((first, op)) = self.outbox.front().copied()
                    && first <= seq
                {
                    self.outbox.pop_front();
                    self.acked_below = self.acked_below.max(op + 1);
                }
            }
            Reply::Refused(Refusal::StaleEpoch { .. }) => self.fenced = true,
            // A gap: something before was lost on the way, and is sent again.
            _ => {}
        }
    }

    /// Another one takes over with what was kept: the epoch is new, and what is there already is
    /// not sent again.
    pub(crate) fn taken_over(&self, epoch: u64, next_seq: u64) -> Self {
        let mut next = self.clone();
        next.instance += 1;
        next.epoch = epoch;
        next.fenced = false;
        while let Some((seq, op)) = next.outbox.front().copied()
            && seq < next_seq
        {
            next.outbox.pop_front();
            next.acked_below = next.acked_below.max(op + 1);
        }
        next
    }
}
