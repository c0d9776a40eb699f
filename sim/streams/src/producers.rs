//! Streams that stay, with producers that send again, are taken over, and go on as zombies.

use bytes::Bytes;
use handback_stream::{
    Acquire, Append, Command, Create, Life, Payload, ProducerTag, Refusal, Reply, StreamName,
};

use crate::client::Client;
use crate::fate::{Fate, right_key};
use crate::network::Network;
use crate::oracle::{self, Reader};
use crate::report::Broken;
use crate::server::Server;

pub(crate) const STREAMS: usize = 3;
const CLIENTS: usize = 5;

/// The stream that has its own key.
const ENCRYPTED: usize = 2;

#[derive(Clone, Debug)]
struct Request {
    client: usize,
    instance: u32,
    epoch: u64,
    seq: u64,
    text: String,
}

#[derive(Clone, Debug)]
struct Told {
    request: Request,
    reply: Reply,
}

/// What is asked for in a round.
enum Asked {
    Create,
    Append(Request),
    TakeOver(usize),
}

pub(crate) struct Producers {
    requests: Network<Request>,
    replies: Network<Told>,
    clients: Vec<Client>,
    /// Those that were taken over and go on for a while.
    zombies: Vec<Client>,
    readers: Vec<Reader>,
    asked: Vec<Asked>,
}

impl Producers {
    pub(crate) fn new() -> Self {
        Self {
            requests: Network::new(),
            replies: Network::new(),
            clients: (0..CLIENTS).map(|id| Client::new(id, id % STREAMS)).collect(),
            zombies: Vec::new(),
            readers: vec![Reader::default(); STREAMS],
            asked: Vec::new(),
        }
    }

    pub(crate) fn cut(&mut self) {
        self.requests.cut();
        self.replies.cut();
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.clients.iter().all(|client| client.outbox.is_empty())
    }

    pub(crate) fn acked(&self) -> u64 {
        self.clients.iter().map(|client| client.acked_below).sum()
    }

    /// Clients send what they have.
    pub(crate) fn act(&mut self, fate: &mut Fate) {
        for client in self.clients.iter_mut().chain(&mut self.zombies) {
            if fate.busy_one_in(4) {
                client.produce();
            }
            if client.fenced || !fate.one_in(3) {
                continue;
            }
            // From some place of the outbox on: what is before may be under way.
            let from = fate.below(client.outbox.len() + 1);
            let from = if fate.one_in(2) { 0 } else { from };
            for (seq, op) in client.outbox.iter().skip(from) {
                let request = Request {
                    client: client.id,
                    instance: client.instance,
                    epoch: client.epoch,
                    seq: *seq,
                    text: client.text(*op),
                };
                self.requests.send(fate.tick, request, &mut fate.rng);
            }
        }
    }

    pub(crate) fn commands(&mut self, fate: &mut Fate, server: &Server, out: &mut Vec<Command>) {
        self.asked.clear();
        for stream in (0..STREAMS).filter(|stream| server.view(&name(*stream)).is_none()) {
            out.push(create(stream, fate));
            self.asked.push(Asked::Create);
        }
        for request in self.requests.arrived(fate.tick) {
            if let Some(append) = append(&request, fate, server) {
                out.push(Command::Append(append));
                self.asked.push(Asked::Append(request));
            }
        }
        // Whoever finds itself fenced off by someone who died before it knew takes over again.
        let fenced = self.clients.iter().position(|client| client.fenced);
        let taken = match fate.busy_one_in(90) {
            true => Some(fate.below(CLIENTS)),
            false => fenced.filter(|_| fate.one_in(5)),
        };
        if let Some(id) = taken {
            out.push(Command::Acquire(Acquire {
                stream: name(self.clients[id].stream).id(),
                expected: None,
                producer: format!("p{id}"),
                heard_of: None,
            }));
            self.asked.push(Asked::TakeOver(id));
        }
    }

    /// What was asked for is done.
    pub(crate) fn told(&mut self, fate: &mut Fate, replies: &mut impl Iterator<Item = Reply>) {
        for asked in std::mem::take(&mut self.asked) {
            let Some(reply) = replies.next() else { return };
            match asked {
                Asked::Create => {}
                Asked::Append(request) => self.answer(fate, request, reply),
                Asked::TakeOver(id) => self.taken_over(fate, id, &reply),
            }
        }
    }

    fn answer(&mut self, fate: &mut Fate, request: Request, reply: Reply) {
        match &reply {
            Reply::Appended(appended) if appended.differs => {
                fate.fault(format!("differs: {} came again as it was", request.text));
            }
            Reply::Refused(Refusal::StaleEpoch { .. }) => fate.report.fenced += 1,
            _ => {}
        }
        self.replies.send(fate.tick, Told { request, reply }, &mut fate.rng);
    }

    /// Another process has taken a producer over: it has fenced the old one off, and heard what is
    /// there.
    fn taken_over(&mut self, fate: &mut Fate, id: usize, reply: &Reply) {
        let Reply::Acquired { epoch, next_seq, .. } = reply else { return };
        let old = self.clients[id].clone();
        let next = old.taken_over(*epoch, *next_seq);
        fate.trace((id, next.epoch));
        self.clients[id] = next;
        // It does not know yet, and goes on with what it has.
        self.zombies.retain(|zombie| zombie.id != id);
        self.zombies.push(old);
        fate.report.takeovers += 1;
    }

    /// Clients hear what arrives.
    pub(crate) fn hear(&mut self, fate: &mut Fate) {
        for Told { request, reply } in self.replies.arrived(fate.tick) {
            fate.trace((request.client, request.seq, format!("{reply:?}")));
            let client = &mut self.clients[request.client];
            if client.instance == request.instance {
                client.hear(request.epoch, request.seq, &reply);
            } else if let Some(zombie) = self
                .zombies
                .iter_mut()
                .find(|z| z.id == request.client && z.instance == request.instance)
            {
                zombie.hear(request.epoch, request.seq, &reply);
            }
        }
    }

    pub(crate) fn read(&mut self, fate: &mut Fate, server: &Server) {
        for (stream, reader) in self.readers.iter_mut().enumerate() {
            let Some(view) = server.view(&name(stream)) else { continue };
            if fate.one_in(4)
                && let Some(fault) = reader.read(server, view)
            {
                fate.fault(format!("{fault}, says a reader of {stream}"));
            }
        }
    }

    /// After a restart, what was seen must be there.
    pub(crate) fn recheck(&self, fate: &mut Fate, server: &Server) {
        for (stream, reader) in self.readers.iter().enumerate().filter(|(_, r)| r.last > 0) {
            let fault = match server.view(&name(stream)) {
                None => Some("lost: the stream is gone".to_owned()),
                Some(view) => reader.recheck(server, view),
            };
            if let Some(fault) = fault {
                fate.fault(format!("{fault}, says a reader of {stream}"));
            }
        }
    }

    pub(crate) fn judge(&self, fate: &mut Fate, server: &Server) {
        if !self.is_settled() {
            let left: Vec<_> = self.clients.iter().map(|c| c.outbox.len()).collect();
            fate.fault(format!("stuck: not everything was delivered: {left:?}"));
        }
        for stream in 0..STREAMS {
            let Some(view) = server.view(&name(stream)) else {
                fate.fault(format!("lost: stream {stream} is gone"));
                continue;
            };
            let Some(records) = server.shown(view, 0, view.number) else { continue };
            let key = (stream == ENCRYPTED).then(right_key);
            match oracle::texts(view, &records, key.as_ref()) {
                Ok(texts) => fate.faults(oracle::check(&texts, &self.clients, stream)),
                Err(fault) => fate.fault(fault),
            }
        }
    }
}

/// The name of a stream that stays.
pub(crate) fn name(stream: usize) -> StreamName {
    StreamName::new("owner", &format!("s{stream}")).expect("a path")
}

fn create(stream: usize, fate: &mut Fate) -> Command {
    let is_encrypted = stream == ENCRYPTED && fate.broken != Broken::Clear;
    Command::Create(Box::new(Create {
        name: name(stream),
        content_type: Some("text/plain".to_owned()),
        life: Life::Unlimited,
        closed: false,
        payload: None,
        fork: None,
        key: is_encrypted.then(right_key),
        incarnation: rand::RngExt::random(&mut fate.rng),
    }))
}

fn append(request: &Request, fate: &Fate, server: &Server) -> Option<Append> {
    let name = name(request.client % STREAMS);
    let view = server.view(&name)?;
    let key = view.meta.key_commitment().map(|_| right_key());
    let key = view.meta.unlock(key.as_ref()).ok()?.into_own();
    let payload = Payload::parse(Bytes::copy_from_slice(request.text.as_bytes()), false).ok()?;
    let tag =
        ProducerTag { id: format!("p{}", request.client), epoch: request.epoch, seq: request.seq };
    Some(Append::new(name.id(), Some(payload), false, fate.now).key(key).producer(Some(tag)))
}
