//! A connection: what is sent arrives in order, until it is cut.

use std::collections::VecDeque;

use rand::RngExt as _;

use crate::fate::Fate;

const DELAY_MAX: u64 = 4;

/// What a client sends.
#[derive(Clone, Debug)]
pub(super) enum ToServer {
    /// The generation of the token that it presents, and the last event that it has kept.
    Hello {
        token: u64,
        event: u64,
    },
    Chunk {
        seqno: u64,
        text: String,
    },
    /// The welcome was received, or an event.
    Ack,
    Close,
    Abort,
}

/// What a server sends.
#[derive(Clone, Debug)]
pub(super) enum ToClient {
    Welcome { generation: u64, next_seqno: u64 },
    Ack { seqno: u64 },
    Event { number: u64, text: String },
    End,
    Refused,
}

/// One direction.
#[derive(Debug)]
pub(super) struct Pipe<T> {
    under_way: VecDeque<(u64, T)>,
    last: u64,
}

impl<T> Pipe<T> {
    const fn new() -> Self {
        Self { under_way: VecDeque::new(), last: 0 }
    }

    pub(super) fn send(&mut self, fate: &mut Fate, frame: T) {
        self.last = self.last.max(fate.tick + fate.rng.random_range(1..=DELAY_MAX));
        self.under_way.push_back((self.last, frame));
    }

    pub(super) fn next(&mut self, tick: u64) -> Option<T> {
        let has_arrived = self.under_way.front().is_some_and(|(at, _)| *at <= tick);
        if has_arrived { self.under_way.pop_front().map(|(_, frame)| frame) } else { None }
    }
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: u64,
    pub(super) up: Pipe<ToServer>,
    pub(super) down: Pipe<ToClient>,
    /// Nobody is at the client's end any more.
    pub(super) client_is_gone: bool,
    /// Nobody is at the server's end any more.
    pub(super) server_is_gone: bool,
}

impl Link {
    pub(super) const fn new(id: u64) -> Self {
        Self {
            id,
            up: Pipe::new(),
            down: Pipe::new(),
            client_is_gone: false,
            server_is_gone: false,
        }
    }

    /// The client is cut off. What it sent may still arrive.
    pub(super) fn cut(&mut self, fate: &mut Fate) {
        self.client_is_gone = true;
        if fate.one_in(2) {
            self.up.under_way.clear();
        }
    }

    pub(super) fn is_drained(&self) -> bool {
        self.server_is_gone && self.down.under_way.is_empty()
    }
}
