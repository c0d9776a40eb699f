//! Names whose streams come and go: created, forked, closed, deleted, created again, and outlived.

mod ledger;
mod writer;

use std::collections::HashSet;

use bytes::Bytes;
use handback_stream::{
    Append, Command, Create, Fork, Found, Life, NameId, Payload, ProducerTag, Record, Refusal,
    Reply, StreamId, StreamName, View,
};
use rand::RngExt as _;

use self::ledger::{Forked, Ledger, Tried};
use self::writer::{Op, WRITER, Writer};
use crate::fate::{Fate, right_key};
use crate::network::Network;
use crate::producers;
use crate::report::Broken;
use crate::server::Server;

const PLACES: usize = 5;

/// What is on its way to the server.
#[derive(Clone, Debug)]
enum Ask {
    Create { place: usize, life: Life, is_encrypted: bool, has_payload: bool, fork: Option<ForkAt> },
    Delete { place: usize },
    Close { place: usize, id: StreamId },
    Write { place: usize, id: StreamId, op: Op },
    Expire { place: usize },
}

/// Where to fork: how far into the source, in thousandths, or at its end.
#[derive(Clone, Debug)]
struct ForkAt {
    source: StreamName,
    inside: Option<u64>,
    part: u64,
}

#[derive(Clone, Debug)]
struct Told {
    id: StreamId,
    seq: u64,
    reply: Reply,
}

pub(crate) struct Places {
    requests: Network<Ask>,
    replies: Network<Told>,
    writers: Vec<Writer>,
    /// Streams that had a writer.
    known: HashSet<StreamId>,
    ledger: Ledger,
    asked: Vec<(Ask, Option<StreamId>)>,
}

impl Places {
    pub(crate) fn new() -> Self {
        Self {
            requests: Network::new(),
            replies: Network::new(),
            writers: Vec::new(),
            known: HashSet::new(),
            ledger: Ledger::new(PLACES),
            asked: Vec::new(),
        }
    }

    pub(crate) fn cut(&mut self) {
        self.requests.cut();
        self.replies.cut();
    }

    pub(crate) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Somebody creates, forks, closes and deletes; writers write.
    pub(crate) fn act(&mut self, fate: &mut Fate, server: Option<&Server>) {
        for place in 0..PLACES {
            let view = server.and_then(|server| server.view(&name(place)));
            let ask = match view {
                None if fate.busy_one_in(14) => Some(any_create(fate, place)),
                None => None,
                Some(view) => {
                    let id = view.meta.id();
                    if fate.one_in(3) && self.known.insert(id) {
                        self.writers.push(Writer::new(place, id));
                    }
                    if fate.busy_one_in(90) {
                        Some(Ask::Delete { place })
                    } else if fate.busy_one_in(150) {
                        Some(Ask::Close { place, id })
                    } else {
                        None
                    }
                }
            };
            if let Some(ask) = ask {
                self.requests.send(fate.tick, ask, &mut fate.rng);
            }
        }
        self.writers.retain(|writer| !writer.is_done(fate.tick));
        for writer in &mut self.writers {
            for op in writer.act(fate) {
                let ask = Ask::Write { place: writer.place, id: writer.id, op };
                self.requests.send(fate.tick, ask, &mut fate.rng);
            }
        }
    }

    pub(crate) fn commands(&mut self, fate: &mut Fate, server: &Server, out: &mut Vec<Command>) {
        self.asked.clear();
        self.ledger.pass_time(fate.now);
        let mut arrived = self.requests.arrived(fate.tick);
        for place in 0..PLACES {
            let view = server.view(&name(place));
            if view.is_some_and(|view| view.meta.is_over(fate.now)) && fate.one_in(3) {
                arrived.push(Ask::Expire { place });
            }
        }
        for ask in arrived {
            let mut created = None;
            let command = match &ask {
                Ask::Create { .. } => {
                    let Some((create, id)) = self.create(&ask, fate, server) else { continue };
                    created = Some(id);
                    Command::Create(Box::new(create))
                }
                Ask::Delete { place } => Command::Delete(name(*place).id()),
                Ask::Expire { place } => Command::Expire(name(*place).id()),
                Ask::Close { place, id } => {
                    let Some(append) = close(*place, *id, fate, server) else { continue };
                    self.ledger.tries_to_close(*id);
                    Command::Append(append)
                }
                Ask::Write { place, id, op } => {
                    let append =
                        write(name(*place).id(), *id, op, fate, self.ledger.is_encrypted(*id));
                    if op.closes {
                        self.ledger.tries_to_close(*id);
                    }
                    Command::Append(append)
                }
            };
            out.push(command);
            self.asked.push((ask, created));
        }
    }

    /// What a stream is to be created as, and what it will be filed under.
    fn create(
        &mut self,
        ask: &Ask,
        fate: &mut Fate,
        server: &Server,
    ) -> Option<(Create, StreamId)> {
        let Ask::Create { place, life, is_encrypted, has_payload, fork } = ask else { return None };
        let (incarnation, name) = (fate.rng.random(), name(*place));
        let id = StreamId::new(name.id(), incarnation);
        let mut tried = Tried::new(*place, *life, *is_encrypted, fate.now);
        let mut asked = None;
        if let Some(at) = fork {
            let source = server.view(&at.source);
            tried.is_encrypted = source.is_some_and(|s| s.meta.key_commitment().is_some());
            if let (Some(source), Life::Unlimited) = (source, life) {
                tried.life = source.meta.life();
            }
            let number =
                source.zip(at.inside).map(|(source, inside)| source.number * inside / 1000);
            let found = found(fate, server, source, number, at.part, &mut tried);
            asked = Some(Fork { source: at.source.id(), number, part: at.part, found });
        }
        tried.is_encrypted &= fate.broken != Broken::Clear || fork.is_some();
        let key = tried.is_encrypted.then(right_key);
        // What should be encrypted is expected to be, whatever is broken.
        tried.is_encrypted |= *is_encrypted && fork.is_none();
        let payload = has_payload.then(|| format!("first of {place}"));
        tried.untagged.extend(payload.clone());
        self.ledger.tries_to_create(id, tried);
        let create = Create {
            name,
            content_type: fork.is_none().then(|| "text/plain".to_owned()),
            life: *life,
            closed: false,
            payload: payload.and_then(|text| Payload::parse(text.into(), false).ok()),
            fork: asked,
            key,
            incarnation,
        };
        Some((create, id))
    }

    /// What was asked for is done.
    pub(crate) fn told(&mut self, fate: &mut Fate, replies: &mut impl Iterator<Item = Reply>) {
        for (ask, created) in std::mem::take(&mut self.asked) {
            let Some(reply) = replies.next() else { return };
            fate.trace(format!("{reply:?}"));
            match (ask, created) {
                (Ask::Create { .. }, Some(id)) => self.ledger.created(fate, id, &reply),
                (Ask::Delete { place }, _) => self.ledger.deleted(fate, place, &reply),
                (Ask::Close { id, .. }, _) => self.ledger.written(fate, id, None, &reply),
                (Ask::Write { id, op, .. }, _) => {
                    self.ledger.written(fate, id, Some(op.seq), &reply);
                    self.replies.send(fate.tick, Told { id, seq: op.seq, reply }, &mut fate.rng);
                }
                _ => {}
            }
        }
    }

    /// Nobody knows what became of what was asked for.
    pub(crate) fn untold(&mut self, fate: &Fate) {
        for (ask, _) in std::mem::take(&mut self.asked) {
            match ask {
                Ask::Delete { place } => self.ledger.maybe_deleted(place),
                Ask::Close { id, .. } | Ask::Write { id, .. } => {
                    self.ledger.maybe_used(id, fate.now);
                }
                // Who creates what is there uses it.
                Ask::Create { place, .. } => self.ledger.maybe_used_at(place, fate.now),
                Ask::Expire { .. } => {}
            }
        }
    }

    pub(crate) fn hear(&mut self, fate: &Fate) {
        for told in self.replies.arrived(fate.tick) {
            if let Some(writer) = self.writers.iter_mut().find(|writer| writer.id == told.id) {
                writer.hear(told.seq, &told.reply, fate.tick);
            }
        }
    }

    /// After a round that was told of.
    pub(crate) fn after_round(&mut self, fate: &mut Fate, server: &Server) {
        self.ledger.observe(fate, server, true);
        for place in 0..PLACES {
            if fate.one_in(6) {
                self.ledger.read(fate, server, place);
            }
            if fate.one_in(150) {
                self.ledger.check(fate, server, place);
            }
        }
    }

    /// After a restart, or when the store has come back.
    pub(crate) fn recheck(&mut self, fate: &mut Fate, server: &Server) {
        self.ledger.restarted();
        self.ledger.observe(fate, server, false);
        for place in 0..PLACES {
            self.ledger.check(fate, server, place);
        }
    }

    pub(crate) fn judge(&mut self, fate: &mut Fate, server: &Server) {
        for place in 0..PLACES {
            self.ledger.check(fate, server, place);
        }
    }

    /// All that can be proved.
    pub(crate) fn views<'a>(&self, server: &'a Server) -> Vec<&'a View> {
        (0..PLACES).filter_map(|place| server.view(&name(place))).collect()
    }
}

/// The name of a place.
fn name(place: usize) -> StreamName {
    StreamName::new("owner", &format!("v{place}")).expect("a path")
}

fn any_create(fate: &mut Fate, place: usize) -> Ask {
    let life = match fate.below(5) {
        0 | 1 => Life::Unlimited,
        2 | 3 => Life::Sliding { ttl_s: fate.rng.random_range(1..4) },
        _ => Life::Until(fate.now + fate.rng.random_range(300..6_000)),
    };
    let fork = fate.one_in(2).then(|| {
        let source = fate.below(PLACES + producers::STREAMS);
        let source = match source.checked_sub(PLACES) {
            None => name(source),
            Some(stream) => producers::name(stream),
        };
        let inside = (!fate.one_in(3)).then(|| fate.rng.random_range(0..=1000));
        let part = if fate.one_in(3) { fate.rng.random_range(1..4) } else { 0 };
        ForkAt { source, inside, part }
    });
    let (is_encrypted, has_payload) = (fate.one_in(3), fate.one_in(3));
    Ask::Create { place, life, is_encrypted, has_payload, fork }
}

/// Looks up what is to be forked, as the surface does.
fn found(
    fate: &Fate,
    server: &Server,
    source: Option<&View>,
    number: Option<u64>,
    part: u64,
    tried: &mut Tried,
) -> Result<Found, Refusal> {
    let view = source.ok_or(Refusal::NoSource)?;
    let key = view.meta.key_commitment().map(|_| right_key());
    let keys = view.meta.unlock(key.as_ref())?;
    let number = number.unwrap_or(view.number);
    let wrong = u64::from(fate.broken == Broken::ForkHeads);
    let head = server.record(view, number.saturating_sub(wrong)).ok_or(Refusal::ForkBeyond)?.head;
    let part = match part {
        0 => None,
        count => {
            let next = server.record(view, number + 1).ok_or(Refusal::PartBeyond)?;
            let next = Record::decode(&next.record).ok_or(Refusal::NoSource)?;
            let key = keys.of(view.meta.segment_after(number).id);
            let whole = next.payload().zip(next.data(key, number + 1));
            let part = whole.and_then(|(payload, data)| payload.of(data).part(count));
            Some(part.ok_or(Refusal::PartBeyond)?)
        }
    };
    let text = part.as_ref().map(|part| String::from_utf8_lossy(&part.bytes).into_owned());
    tried.untagged.extend(text);
    let shared = server.shown(view, 0, number).ok_or(Refusal::NoSource)?;
    let shared = shared.into_iter().map(|(number, stored)| (number, stored.record)).collect();
    tried.forked = Some(Forked { number, shared });
    Ok(Found { id: view.meta.id(), number, head, part })
}

/// An end without a producer, which may be repeated.
fn close(place: usize, id: StreamId, fate: &Fate, server: &Server) -> Option<Append> {
    let view = server.view(&name(place)).filter(|view| view.meta.id() == id)?;
    let key = view.meta.key_commitment().map(|_| right_key().records(id));
    Some(Append::new(id.name(), None, true, fate.now).to(id).key(key))
}

fn write(name: NameId, id: StreamId, op: &Op, fate: &Fate, is_encrypted: bool) -> Append {
    let payload = op
        .text
        .as_ref()
        .and_then(|text| Payload::parse(Bytes::copy_from_slice(text.as_bytes()), false).ok());
    let tag = ProducerTag { id: WRITER.to_owned(), epoch: 0, seq: op.seq };
    let append = Append::new(name, payload, op.closes, fate.now).producer(Some(tag));
    let is_encrypted = is_encrypted && fate.broken != Broken::Clear;
    match (fate.broken, is_encrypted) {
        (Broken::ByName, false) => append,
        _ => append.to(id).key(is_encrypted.then(|| right_key().records(id))),
    }
}
