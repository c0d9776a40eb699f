//! Duplexes: clients with an outbox, two windows that race, handlers that consume chunks once.

mod client;
mod ledger;
mod link;
mod runner;
mod session;

use handback_stream::duplex::DuplexName;
use handback_stream::{Command, Reply, StreamId, StreamKey, StreamName, View};

use self::client::{Ending, User, Window};
use self::ledger::Ledger;
use self::link::Link;
use self::runner::Runner;
use self::session::{Asked, Session};
use crate::fate::{Fate, right_key};
use crate::server::Server;

const DUPLEXES: usize = 2;

/// When clients end their duplexes, if they do.
const ENDS_AFTER: u64 = 350;

/// Which duplex it is.
#[derive(Debug)]
struct Names {
    duplex: usize,
    input: StreamName,
    output: StreamName,
    key: Option<StreamKey>,
    is_maker: bool,
}

/// Its two streams.
#[derive(Clone, Copy, Debug)]
struct Lines {
    input: StreamId,
    output: StreamId,
}

impl Names {
    fn new(duplex: usize, is_encrypted: bool) -> Self {
        let handler = if duplex == 0 { "echo" } else { "maker" };
        let name = DuplexName::new(handler, "key");
        let both = name.and_then(|name| Some((name.input("owner")?, name.output("owner")?)));
        let (input, output) = both.expect("these are names");
        let key = is_encrypted.then(right_key);
        Self { duplex, input, output, key, is_maker: duplex > 0 }
    }

    fn lines(&self, server: &Server) -> Option<Lines> {
        let id = |name| server.view(name).map(|view| view.meta.id());
        Some(Lines { input: id(&self.input)?, output: id(&self.output)? })
    }
}

/// Who asked for what in a round.
enum Asker {
    Session(u64, Asked),
    Runner(usize),
}

struct Duplex {
    names: Names,
    user: User,
    windows: [Window; 2],
    links: Vec<Link>,
    sessions: Vec<Session>,
    /// One, and now and then another one that takes over.
    runners: Vec<Runner>,
    asked: Vec<Asker>,
    ledger: Ledger,
}

pub(crate) struct Duplexes(Vec<Duplex>);

impl Duplexes {
    pub(crate) fn new(seed: u64) -> Self {
        let duplex = |number: usize| {
            // Different for each seed, and for the two of them.
            let draw = seed / 2 + 3 * number as u64;
            let ending = match draw % 4 {
                0 => Ending::Never,
                1 | 2 => Ending::Close,
                _ => Ending::Abort,
            };
            Duplex {
                names: Names::new(number, (seed + number as u64).is_multiple_of(3)),
                user: User::new(number, ending, ENDS_AFTER + draw * 37 % 200),
                windows: [Window::default(), Window::default()],
                links: Vec::new(),
                sessions: Vec::new(),
                runners: Vec::new(),
                asked: Vec::new(),
                ledger: Ledger::default(),
            }
        };
        Self((0..DUPLEXES).map(duplex).collect())
    }

    pub(crate) fn acked(&self) -> u64 {
        self.0.iter().map(|duplex| duplex.ledger.acked()).sum()
    }

    pub(crate) fn is_settled(&self, server: &Server) -> bool {
        self.0.iter().all(|duplex| duplex.is_settled(server))
    }

    /// Windows connect, send and hear.
    pub(crate) fn act(&mut self, fate: &mut Fate) {
        for duplex in &mut self.0 {
            duplex.act(fate);
        }
    }

    /// Connections and handlers are gone with the server.
    pub(crate) fn server_died(&mut self) {
        for duplex in &mut self.0 {
            duplex.sessions.clear();
            duplex.runners.clear();
            duplex.links.iter_mut().for_each(|link| link.server_is_gone = true);
        }
    }

    pub(crate) fn commands(&mut self, fate: &mut Fate, server: &Server, out: &mut Vec<Command>) {
        for duplex in &mut self.0 {
            duplex.commands(fate, server, out);
        }
    }

    pub(crate) fn told(
        &mut self,
        fate: &mut Fate,
        server: &Server,
        replies: &mut impl Iterator<Item = Reply>,
    ) {
        for duplex in &mut self.0 {
            duplex.told(fate, server, replies);
        }
    }

    /// Nobody knows what became of what was asked for: connections that asked end, handlers ask
    /// again.
    pub(crate) fn untold(&mut self) {
        for duplex in &mut self.0 {
            for asker in std::mem::take(&mut duplex.asked) {
                if let Asker::Session(link, _) = asker {
                    let session = duplex.sessions.iter_mut().find(|one| one.link == link);
                    session.into_iter().for_each(|session| session.is_over = true);
                }
            }
            duplex.drop_what_is_over();
        }
    }

    pub(crate) fn recheck(&self, fate: &mut Fate, server: &Server) {
        self.check(fate, server, false);
    }

    pub(crate) fn judge(&self, fate: &mut Fate, server: &Server) {
        for duplex in self.0.iter().filter(|duplex| !duplex.is_settled(server)) {
            let (number, ending) = (duplex.names.duplex, duplex.user.ending);
            fate.fault(format!("stuck: duplex {number}, which ends by {ending:?}, did not settle"));
        }
        fate.report.events = self.0.iter().map(|duplex| duplex.user.events.len() as u64).sum();
        self.check(fate, server, true);
    }

    fn check(&self, fate: &mut Fate, server: &Server, is_done: bool) {
        for duplex in &self.0 {
            let is_done = is_done && duplex.user.ending != Ending::Abort;
            let faults = duplex.ledger.check(server, &duplex.names, &duplex.user, is_done);
            let number = duplex.names.duplex;
            fate.faults(faults.into_iter().map(|fault| format!("{fault}, in duplex {number}")));
        }
    }

    /// All that can be proved.
    pub(crate) fn views<'a>(&self, server: &'a Server) -> Vec<&'a View> {
        let names = self.0.iter().flat_map(|duplex| [&duplex.names.input, &duplex.names.output]);
        names.filter_map(|name| server.view(name)).collect()
    }
}

impl Duplex {
    fn is_settled(&self, server: &Server) -> bool {
        let is_maker = self.names.is_maker;
        let made = |seqno| runner::made(&client::chunk_text(self.names.duplex, seqno), is_maker);
        match self.user.ending {
            Ending::Never => {
                let expected = (0..self.user.acked_below).map(|seqno| made(seqno).len());
                // A chunk that makes no event is consumed as well, and no client hears of it.
                let last = server.view(&self.names.input).map_or(0, |view| view.last);
                self.user.is_acked()
                    && self.user.events.len() == expected.sum::<usize>()
                    && self.runners.iter().any(|runner| runner.has_consumed(last))
            }
            Ending::Close | Ending::Abort => self.user.has_ended,
        }
    }

    fn act(&mut self, fate: &mut Fate) {
        for (place, window) in self.windows.iter_mut().enumerate() {
            window.hear(fate, &mut self.user, &mut self.links);
            window.act(fate, &mut self.user, &mut self.links, place == 0);
        }
        self.links.retain(|link| !(link.client_is_gone && link.server_is_gone));
    }

    fn commands(&mut self, fate: &mut Fate, server: &Server, out: &mut Vec<Command>) {
        self.asked.clear();
        for link in self.links.iter().filter(|link| !link.server_is_gone) {
            if !self.sessions.iter().any(|session| session.link == link.id) {
                self.sessions.push(Session::new(link.id));
            }
        }
        for session in &mut self.sessions {
            let link = self.links.iter_mut().find(|link| link.id == session.link);
            let Some(link) = link else { continue };
            session.hear(fate, link);
            if session.is_over {
                continue;
            }
            let asked = session.commands(fate, server, &self.names, out);
            self.asked.extend(asked.into_iter().map(|asked| Asker::Session(session.link, asked)));
        }
        self.drop_what_is_over();
        let takes_over = fate.busy_one_in(150) && self.runners.len() < 3;
        if (self.runners.is_empty() && fate.one_in(2)) || takes_over {
            self.runners.push(Runner::new(self.names.is_maker));
        }
        if fate.busy_one_in(200) {
            self.runners.pop();
        }
        for (place, runner) in self.runners.iter_mut().enumerate() {
            // They do not wait for each other.
            if fate.one_in(2)
                && let Some(command) = runner.command(fate, server, &self.names)
            {
                out.push(command);
                self.asked.push(Asker::Runner(place));
            }
        }
    }

    fn told(
        &mut self,
        fate: &mut Fate,
        server: &Server,
        replies: &mut impl Iterator<Item = Reply>,
    ) {
        for asker in std::mem::take(&mut self.asked) {
            let Some(reply) = replies.next() else { return };
            match asker {
                Asker::Runner(place) => self.runners[place].told(fate, reply),
                Asker::Session(id, asked) => {
                    let session = self.sessions.iter_mut().find(|session| session.link == id);
                    let link = self.links.iter_mut().find(|link| link.id == id);
                    if let (Some(session), Some(link)) = (session, link) {
                        let ends = (link, &mut self.ledger);
                        session.told(fate, server, &self.names, ends, (asked, reply));
                    }
                }
            }
        }
        for session in &mut self.sessions {
            if let Some(link) = self.links.iter_mut().find(|link| link.id == session.link) {
                session.send(fate, server, &self.names, link);
            }
        }
        self.drop_what_is_over();
        self.runners.retain(|runner| !runner.is_over);
    }

    fn drop_what_is_over(&mut self) {
        for link in &mut self.links {
            let is_over = |session: &Session| session.link == link.id && session.is_over;
            link.server_is_gone |= self.sessions.iter().any(is_over);
        }
        self.sessions.retain(|session| !session.is_over);
    }
}
