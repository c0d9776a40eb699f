//! One run.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use bytes::Bytes;
use handback_store::faulty::{FaultPlan, FaultyDisk};
use handback_stream::{
    Acquire, Append, Command, Create, Life, Payload, ProducerTag, Reply, SigningKey, StreamName,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::client::Client;
use crate::network::Network;
use crate::oracle::{self, Reader};
use crate::server::{Dies, Round, Server};

/// What is broken on purpose, to see that the oracle notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// Nothing.
    No,
    /// Producer state is not derived from the records, but written down now and then.
    ProducersOutside,
    /// The disk forgets what it said was synced.
    Syncs,
}

/// What happened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// How often the server died.
    pub crashes: u64,
    /// How often the network was cut.
    pub cuts: u64,
    /// How many producers were taken over.
    pub takeovers: u64,
    /// Appends that were acknowledged.
    pub acked: u64,
    /// What should not have happened.
    pub faults: Vec<String>,
    /// A digest of everything that happened: the same for the same seed.
    pub trace: u64,
}

const STREAMS: usize = 3;
const CLIENTS: usize = 5;
const TICKS: u64 = 600;
/// Ticks in which everything that is left has to be delivered.
const TICKS_AFTER: u64 = 3000;
/// Of a thousand writes, so many meet a fault of the disk.
const FAULTS_PER_MILLE: u32 = 15;
/// Writes that a disk which forgets does forget.
const FORGOTTEN: usize = 3;

#[derive(Clone, Debug)]
enum Request {
    Append { client: usize, instance: u32, epoch: u64, seq: u64, text: String },
}

#[derive(Clone, Debug)]
struct Told {
    client: usize,
    instance: u32,
    epoch: u64,
    seq: u64,
    reply: Reply,
}

/// Runs a seed.
#[must_use]
pub fn run(seed: u64, broken: Broken) -> Report {
    World::new(seed, broken).run()
}

struct World {
    rng: StdRng,
    broken: Broken,
    disk: FaultyDisk,
    key: Arc<SigningKey>,
    server: Option<Server>,
    /// When a dead server starts again.
    starts_at: u64,
    requests: Network<Request>,
    replies: Network<Told>,
    clients: Vec<Client>,
    /// Those that were taken over and go on for a while.
    zombies: Vec<Client>,
    readers: Vec<Reader>,
    tick: u64,
    now: u64,
    trace: DefaultHasher,
    report: Report,
}

impl World {
    fn new(seed: u64, broken: Broken) -> Self {
        let mut plan = FaultPlan::new(seed).random(FAULTS_PER_MILLE);
        if broken == Broken::Syncs {
            plan = plan.forgetful(FORGOTTEN);
        }
        let key = SigningKey::from_seed(&[5; 32]).expect("any seed is one");
        Self {
            rng: StdRng::seed_from_u64(seed),
            broken,
            disk: FaultyDisk::new(plan),
            key: Arc::new(key),
            server: None,
            starts_at: 0,
            requests: Network::new(),
            replies: Network::new(),
            clients: (0..CLIENTS).map(|id| Client::new(id, id % STREAMS)).collect(),
            zombies: Vec::new(),
            readers: vec![Reader::default(); STREAMS],
            tick: 0,
            now: 1_000_000,
            trace: DefaultHasher::new(),
            report: Report { seed, ..Report::default() },
        }
    }

    fn run(mut self) -> Report {
        for _ in 0..TICKS {
            self.step(true);
            if !self.report.faults.is_empty() {
                break;
            }
        }
        for _ in 0..TICKS_AFTER {
            if !self.report.faults.is_empty() || self.is_settled() {
                break;
            }
            self.step(false);
        }
        if self.report.faults.is_empty() {
            self.judge();
        }
        self.report.crashes = self.disk.crashes();
        self.report.acked = self.clients.iter().map(|client| client.acked_below).sum();
        self.report.trace = self.trace.finish();
        self.report
    }

    fn is_settled(&self) -> bool {
        self.server.as_ref().is_some_and(Server::is_up)
            && self.clients.iter().all(|client| client.outbox.is_empty())
    }

    fn fault(&mut self, fault: String) {
        self.report.faults.push(format!("tick {}: {fault}", self.tick));
    }

    fn step(&mut self, is_busy: bool) {
        self.tick += 1;
        // Clocks go at their own pace, and jump.
        self.now = match self.rng.random_range(0..200) {
            0 => self.now.saturating_sub(3 * 3_600_000),
            1 => self.now + 3 * 3_600_000,
            _ => self.now + self.rng.random_range(0..5),
        };
        self.keep_server_running(is_busy);
        if is_busy && self.rng.random_range(0..60) == 0 {
            self.requests.cut();
            self.replies.cut();
            self.report.cuts += 1;
        }
        self.clients_act(is_busy);
        self.server_acts(is_busy);
        for told in self.replies.arrived(self.tick) {
            (self.tick, told.client, told.seq, format!("{:?}", told.reply)).hash(&mut self.trace);
            let client = &mut self.clients[told.client];
            if client.instance == told.instance {
                client.hear(told.epoch, told.seq, &told.reply);
            } else if let Some(zombie) =
                self.zombies.iter_mut().find(|z| z.id == told.client && z.instance == told.instance)
            {
                zombie.hear(told.epoch, told.seq, &told.reply);
            }
        }
        self.readers_read();
        if is_busy && self.rng.random_range(0..90) == 0 {
            let id = self.rng.random_range(0..self.clients.len());
            self.take_over(id);
        }
        // Whoever finds itself fenced off by someone who died before it knew takes over again.
        if let Some(fenced) = self.clients.iter().position(|client| client.fenced)
            && self.rng.random_range(0..5) == 0
        {
            self.take_over(fenced);
        }
    }

    fn keep_server_running(&mut self, is_busy: bool) {
        if self.disk.is_crashed() || (is_busy && self.rng.random_range(0..110) == 0) {
            self.die();
        }
        if self.server.is_none() && self.tick >= self.starts_at {
            match Server::start(&self.disk, &self.key, self.broken) {
                Ok(server) => self.server = Some(server),
                Err(fault) => self.fault(fault),
            }
            self.recheck();
        }
        let heal = self.server.as_mut().map(|server| server.heal(&self.key, self.broken));
        if let Some(Err(fault)) = heal {
            self.fault(fault);
        }
    }

    fn die(&mut self) {
        if self.server.take().is_some() {
            self.disk.crash();
            self.starts_at = self.tick + self.rng.random_range(1..10);
        }
    }

    fn clients_act(&mut self, is_busy: bool) {
        let mut sent = Vec::new();
        for client in self.clients.iter_mut().chain(&mut self.zombies) {
            if is_busy && self.rng.random_range(0..4) == 0 {
                client.produce();
            }
            if client.fenced || self.rng.random_range(0..3) > 0 {
                continue;
            }
            // From some place of the outbox on: what is before may be under way.
            let from = self.rng.random_range(0..=client.outbox.len());
            let from = if self.rng.random_range(0..2) == 0 { 0 } else { from };
            for (seq, op) in client.outbox.iter().skip(from) {
                sent.push(Request::Append {
                    client: client.id,
                    instance: client.instance,
                    epoch: client.epoch,
                    seq: *seq,
                    text: client.text(*op),
                });
            }
        }
        for request in sent {
            self.requests.send(self.tick, request, &mut self.rng);
        }
    }

    fn server_acts(&mut self, is_busy: bool) {
        let arrived = self.requests.arrived(self.tick);
        let Some(server) = self.server.as_mut().filter(|server| server.is_up()) else { return };
        let missing: Vec<_> =
            (0..STREAMS).filter(|stream| !server.views.contains_key(&name(*stream).id())).collect();
        let mut commands: Vec<_> = missing.iter().map(|stream| create(*stream)).collect();
        let created = commands.len();
        for Request::Append { client, epoch, seq, text, .. } in &arrived {
            let payload = Payload::parse(Bytes::copy_from_slice(text.as_bytes()), false);
            let tag = ProducerTag { id: format!("p{client}"), epoch: *epoch, seq: *seq };
            let stream = name(client % STREAMS).id();
            let append = Append::new(stream, payload.ok(), false, self.now).producer(Some(tag));
            commands.push(Command::Append(append));
        }
        let dies = match self.rng.random_range(0..160) {
            0 if is_busy => Some(Dies::BeforeWriting),
            1 if is_busy => Some(Dies::BeforeTelling),
            _ => None,
        };
        let round = server.round(commands, self.now, dies);
        if dies.is_some() {
            self.die();
            return;
        }
        let Round::Replies(replies) = round else { return };
        for (request, reply) in arrived.into_iter().zip(replies.into_iter().skip(created)) {
            let Request::Append { client, instance, epoch, seq, .. } = request;
            let told = Told { client, instance, epoch, seq, reply };
            self.replies.send(self.tick, told, &mut self.rng);
        }
    }

    fn readers_read(&mut self) {
        let Some(server) = &self.server else { return };
        let mut faults = Vec::new();
        for (stream, reader) in self.readers.iter_mut().enumerate() {
            let Some(view) = server.views.get(&name(stream).id()) else { continue };
            if self.rng.random_range(0..4) == 0
                && let Some(fault) = reader.read(server, view.meta.id(), view.number)
            {
                faults.push(format!("reader of {stream}: {fault}"));
            }
        }
        faults.into_iter().for_each(|fault| self.fault(fault));
    }

    /// After a restart, what was seen must be there.
    fn recheck(&mut self) {
        let Some(server) = self.server.as_ref().filter(|server| server.is_up()) else { return };
        let mut faults = Vec::new();
        for (stream, reader) in self.readers.iter().enumerate().filter(|(_, r)| r.last > 0) {
            let view = server.views.get(&name(stream).id());
            let fault = match view {
                None => Some("the stream is gone".to_owned()),
                Some(view) => reader.recheck(server, view.meta.id()),
            };
            faults.extend(
                fault.map(|fault| format!("taken back from a reader of {stream}: {fault}")),
            );
        }
        faults.into_iter().for_each(|fault| self.fault(fault));
    }

    /// Another process takes a producer over: it fences the old one off, and hears what is there.
    fn take_over(&mut self, id: usize) {
        let stream = self.clients[id].stream;
        let Some(server) = self.server.as_mut().filter(|server| server.is_up()) else { return };
        if !server.views.contains_key(&name(stream).id()) {
            return;
        }
        let acquire = Command::Acquire(Acquire {
            stream: name(stream).id(),
            expected: None,
            producer: format!("p{id}"),
            heard_of: None,
        });
        let Round::Replies(replies) = server.round(vec![acquire], self.now, None) else { return };
        let Some(Reply::Acquired { epoch, next_seq, .. }) = replies.first() else { return };
        let old = self.clients[id].clone();
        let next = old.taken_over(*epoch, *next_seq);
        (self.tick, id, next.epoch).hash(&mut self.trace);
        self.clients[id] = next;
        // It does not know yet, and goes on with what it has.
        self.zombies.retain(|zombie| zombie.id != id);
        self.zombies.push(old);
        self.report.takeovers += 1;
    }

    fn judge(&mut self) {
        if !self.is_settled() {
            let left: Vec<_> = self.clients.iter().map(|c| c.outbox.len()).collect();
            self.fault(format!("not everything was delivered: {left:?}"));
            return;
        }
        let Some(server) = &self.server else { return };
        let mut faults = Vec::new();
        for stream in 0..STREAMS {
            let Some(view) = server.views.get(&name(stream).id()) else {
                faults.push(format!("stream {stream} is gone"));
                continue;
            };
            let id = view.meta.id();
            let Some(records) = server.read(id, 0, view.number) else {
                faults.push(format!("stream {stream} cannot be read"));
                continue;
            };
            let place = self.rng.random_range(0..1_000_000);
            faults.extend(oracle::check(&records, &self.clients, stream));
            faults.extend(oracle::prove(server, id, &records, *self.key.public(), place));
        }
        faults.into_iter().for_each(|fault| self.fault(fault));
    }
}

fn name(stream: usize) -> StreamName {
    StreamName::new("owner", &format!("s{stream}")).expect("a path")
}

fn create(stream: usize) -> Command {
    Command::Create(Box::new(Create {
        name: name(stream),
        content_type: Some("text/plain".to_owned()),
        life: Life::Unlimited,
        closed: false,
        payload: None,
        fork: None,
        key: None,
        incarnation: 7,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_seeds_lose_and_repeat_nothing() {
        let (mut counted, mut seed) = (0, 0);
        while counted < 50 {
            let report = run(seed, Broken::No);
            assert!(report.faults.is_empty(), "seed {seed}: {:?}", report.faults);
            counted += u64::from(report.crashes >= 3);
            seed += 1;
        }
        assert!(seed < 80, "too few crashes");
    }

    #[test]
    fn the_same_seed_is_the_same_run() {
        for seed in [1, 2, 3] {
            let (one, two) = (run(seed, Broken::No), run(seed, Broken::No));
            assert_eq!((one.trace, one.acked, one.crashes), (two.trace, two.acked, two.crashes));
        }
        assert_ne!(run(1, Broken::No).trace, run(2, Broken::No).trace);
    }

    #[test]
    fn the_oracle_bites() {
        for broken in [Broken::ProducersOutside, Broken::Syncs] {
            let failed = (0..50).find(|seed| !run(*seed, broken).faults.is_empty());
            assert!(failed.is_some(), "{broken:?} was not noticed in 50 seeds");
        }
    }
}
