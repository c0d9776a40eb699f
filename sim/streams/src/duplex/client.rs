//! The client of a duplex: what is on its disk, and two windows that both think it is theirs.

use std::collections::VecDeque;

use super::link::{Link, ToClient, ToServer};
use crate::fate::Fate;

const OUTBOX_MAX: usize = 8;

/// How a duplex is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Never,
    Close,
    Abort,
}

/// What outlives the windows.
#[derive(Debug)]
pub(super) struct User {
    duplex: usize,
    next_seqno: u64,
    /// Chunks that are not known to be durable.
    outbox: VecDeque<(u64, String)>,
    /// Everything below was acknowledged.
    pub(super) acked_below: u64,
    /// The generation of the last token.
    token: u64,
    /// The last event that was kept.
    kept: u64,
    pub(super) events: Vec<(u64, String)>,
    pub(super) ending: Ending,
    ends_at: u64,
    pub(super) has_ended: bool,
}

impl User {
    pub(super) const fn new(duplex: usize, ending: Ending, ends_at: u64) -> Self {
        Self {
            duplex,
            next_seqno: 0,
            outbox: VecDeque::new(),
            acked_below: 0,
            token: 0,
            kept: 0,
            events: Vec::new(),
            ending,
            ends_at,
            has_ended: false,
        }
    }

    pub(super) fn is_acked(&self) -> bool {
        self.outbox.is_empty()
    }

    fn wants_end(&self, tick: u64) -> bool {
        self.ending != Ending::Never && tick >= self.ends_at
    }

    fn produce(&mut self, tick: u64) {
        if self.outbox.len() < OUTBOX_MAX && !self.wants_end(tick) && !self.has_ended {
            self.outbox.push_back((self.next_seqno, chunk_text(self.duplex, self.next_seqno)));
            self.next_seqno += 1;
        }
    }

    /// Chunks below are durable.
    fn acked(&mut self, below: u64) {
        while self.outbox.front().is_some_and(|(seqno, _)| *seqno < below) {
            self.outbox.pop_front();
        }
        self.acked_below = self.acked_below.max(below);
    }
}

/// What a chunk says.
pub(super) fn chunk_text(duplex: usize, seqno: u64) -> String {
    format!("d{duplex}c{seqno}")
}

#[derive(Debug, Default)]
pub(super) struct Window {
    link: Option<u64>,
    /// The token that it had last: the one on the disk may be another window's.
    remembered: u64,
    is_welcome: bool,
    has_acked: bool,
    /// The next chunk to send on this connection.
    next_to_send: u64,
    has_ended: bool,
    tries_at: u64,
}

impl Window {
    fn link<'a>(&self, links: &'a mut [Link]) -> Option<&'a mut Link> {
        links.iter_mut().find(|link| Some(link.id) == self.link)
    }

    fn leave(&mut self, fate: &mut Fate, patience: usize) {
        self.link = None;
        self.tries_at = fate.tick + 1 + fate.below(patience) as u64;
    }

    /// Hears what has arrived.
    pub(super) fn hear(&mut self, fate: &mut Fate, user: &mut User, links: &mut [Link]) {
        let Some(link) = self.link(links) else { return };
        while let Some(frame) = link.down.next(fate.tick) {
            fate.trace((user.duplex, format!("{frame:?}")));
            match frame {
                ToClient::Welcome { generation, next_seqno } => {
                    // On the disk before it is acknowledged.
                    user.token = user.token.max(generation);
                    user.acked(next_seqno);
                    (self.remembered, self.is_welcome) = (generation, true);
                    self.next_to_send = next_seqno;
                }
                ToClient::Ack { seqno } => user.acked(seqno + 1),
                ToClient::Event { number, text } => {
                    if number > user.kept {
                        user.kept = number;
                        user.events.push((number, text));
                    }
                    if fate.one_in(3) {
                        link.up.send(fate, ToServer::Ack);
                    }
                }
                ToClient::End => user.has_ended = true,
                ToClient::Refused => {
                    self.remembered = user.token;
                    link.client_is_gone = true;
                    return self.leave(fate, 40);
                }
            }
        }
        if link.is_drained() {
            link.client_is_gone = true;
            self.leave(fate, 10);
        }
    }

    /// Connects, sends, and is cut off.
    pub(super) fn act(
        &mut self,
        fate: &mut Fate,
        user: &mut User,
        links: &mut Vec<Link>,
        is_first: bool,
    ) {
        if self.link.is_none() {
            // The second one comes now and then, and takes over.
            let wants = if is_first { fate.one_in(3) } else { fate.busy_one_in(50) };
            if wants && fate.tick >= self.tries_at && !user.has_ended {
                self.connect(fate, user, links);
            }
            return;
        }
        let dies = fate.busy_one_in(90) || !(is_first || fate.is_busy);
        let is_cut = fate.busy_one_in(45);
        let Some(link) = self.link(links) else { return };
        if dies || is_cut || user.has_ended {
            link.cut(fate);
            fate.report.cuts += u64::from(is_cut);
            if dies {
                // What it had in memory is gone.
                self.remembered = user.token;
            }
            return self.leave(fate, 20);
        }
        if !self.is_welcome {
            return;
        }
        if fate.busy_one_in(5) {
            user.produce(fate.tick);
        }
        if !self.has_acked && fate.one_in(4) {
            self.has_acked = true;
            link.up.send(fate, ToServer::Ack);
        }
        if fate.one_in(2) {
            let first = self.next_to_send;
            for (seqno, text) in user.outbox.iter().filter(|(seqno, _)| *seqno >= first) {
                link.up.send(fate, ToServer::Chunk { seqno: *seqno, text: text.clone() });
                self.next_to_send = seqno + 1;
            }
            if user.wants_end(fate.tick) && !self.has_ended {
                self.has_ended = true;
                let is_abort = user.ending == Ending::Abort;
                link.up.send(fate, if is_abort { ToServer::Abort } else { ToServer::Close });
            }
        }
    }

    fn connect(&mut self, fate: &mut Fate, user: &User, links: &mut Vec<Link>) {
        let mut link = Link::new(fate.tick * 1000 + links.len() as u64);
        let token = if fate.one_in(4) { self.remembered } else { user.token };
        link.up.send(fate, ToServer::Hello { token, event: user.kept });
        *self = Self { link: Some(link.id), remembered: self.remembered, ..Self::default() };
        links.push(link);
    }
}
