//! One run.

use std::sync::Arc;

use handback_stream::SigningKey;

use crate::disk::Disk;
use crate::duplex::Duplexes;
use crate::fate::Fate;
use crate::oracle::Evidence;
use crate::places::Places;
use crate::producers::{self, Producers};
use crate::report::{Broken, Engine, Report};
use crate::server::{Dies, Round, Server};

const TICKS: u64 = 600;

/// Ticks in which everything that is left has to be delivered.
const TICKS_AFTER: u64 = 3000;

/// Runs a seed.
#[must_use]
pub fn run(seed: u64, engine: Engine, broken: Broken) -> Report {
    match World::new(seed, engine, broken) {
        Ok(world) => world.run(),
        Err(fault) => {
            let faults = vec![format!("tick 0: stuck: {fault}")];
            Report { seed, faults, ..Report::default() }
        }
    }
}

struct World {
    fate: Fate,
    disk: Disk,
    key: Arc<SigningKey>,
    /// A key that nobody should believe.
    foreign: SigningKey,
    server: Option<Server>,
    /// When a dead server starts again.
    starts_at: u64,
    producers: Producers,
    places: Places,
    duplexes: Duplexes,
}

impl World {
    fn new(seed: u64, engine: Engine, broken: Broken) -> Result<Self, String> {
        let key = |byte| SigningKey::from_seed(&[byte; 32]).map_err(|error| error.to_string());
        Ok(Self {
            fate: Fate::new(seed, broken),
            disk: Disk::new(seed, engine, broken)?,
            key: Arc::new(key(5)?),
            foreign: key(6)?,
            server: None,
            starts_at: 0,
            producers: Producers::new(),
            places: Places::new(),
            duplexes: Duplexes::new(seed),
        })
    }

    fn run(mut self) -> Report {
        for _ in 0..TICKS {
            if !self.fate.report.faults.is_empty() {
                break;
            }
            self.step(true);
        }
        for _ in 0..TICKS_AFTER {
            if !self.fate.report.faults.is_empty() || self.is_settled() {
                break;
            }
            self.step(false);
        }
        if self.fate.report.faults.is_empty() {
            self.judge();
        }
        let mut report = self.fate.report.clone();
        (report.crashes, report.torn) = self.disk.counts();
        report.acked =
            self.producers.acked() + self.places.ledger().acked() + self.duplexes.acked();
        report.trace = self.fate.digest();
        report
    }

    fn is_settled(&self) -> bool {
        let server = self.server.as_ref().filter(|server| server.is_up());
        self.producers.is_settled() && server.is_some_and(|server| self.duplexes.is_settled(server))
    }

    fn step(&mut self, is_busy: bool) {
        self.fate.pass_time(is_busy);
        self.keep_server_running();
        if self.fate.busy_one_in(60) {
            self.producers.cut();
            self.places.cut();
            self.fate.report.cuts += 1;
        }
        let fate = &mut self.fate;
        self.producers.act(fate);
        self.places.act(fate, self.server.as_ref());
        self.duplexes.act(fate);
        self.round();
        let fate = &mut self.fate;
        self.producers.hear(fate);
        self.places.hear(fate);
        if let Some(server) = &self.server {
            self.producers.read(fate, server);
        }
    }

    fn keep_server_running(&mut self) {
        if self.disk.is_crashed() || self.fate.busy_one_in(110) {
            self.die();
        }
        let mut is_back = false;
        if self.server.is_none() && self.fate.tick >= self.starts_at {
            match Server::start(&self.disk, &self.key, self.fate.broken) {
                Ok(server) => self.server = Some(server),
                Err(fault) => self.fate.fault(fault),
            }
            is_back = self.server.as_ref().is_some_and(Server::is_up);
        }
        match self.server.as_mut().map(Server::heal) {
            Some(Err(fault)) => self.fate.fault(fault),
            Some(Ok(is_healed)) => is_back |= is_healed,
            None => {}
        }
        if is_back && let Some(server) = &self.server {
            self.producers.recheck(&mut self.fate, server);
            self.places.recheck(&mut self.fate, server);
            self.duplexes.recheck(&mut self.fate, server);
        }
    }

    fn die(&mut self) {
        if self.server.is_some() {
            if !self.disk.is_crashed() {
                self.disk.crash();
            }
            self.server = None;
            self.duplexes.server_died();
            self.starts_at = self.fate.tick + 1 + self.fate.below(9) as u64;
        }
    }

    /// The server takes what has arrived, commits it, and tells.
    fn round(&mut self) {
        let fate = &mut self.fate;
        let Some(server) = self.server.as_mut().filter(|server| server.is_up()) else { return };
        let mut commands = Vec::new();
        self.producers.commands(fate, server, &mut commands);
        self.places.commands(fate, server, &mut commands);
        self.duplexes.commands(fate, server, &mut commands);
        let dies = match fate.below(160) {
            0 if fate.is_busy => Some(Dies::BeforeWriting),
            1 if fate.is_busy => Some(Dies::BeforeTelling),
            _ => None,
        };
        match server.round(commands, fate.now, dies) {
            Round::Replies(replies) => {
                let mut replies = replies.into_iter();
                self.producers.told(fate, &mut replies);
                self.places.told(fate, &mut replies);
                self.duplexes.told(fate, server, &mut replies);
                self.places.after_round(fate, server);
            }
            Round::Nothing => {
                self.places.untold(fate);
                self.duplexes.untold();
            }
        }
        if dies.is_some() {
            self.die();
        }
    }

    fn judge(&mut self) {
        let fate = &mut self.fate;
        if self.disk.is_crashed() {
            fate.fault("stuck: the server is down");
        }
        let Some(server) = &self.server else { return };
        self.producers.judge(fate, server);
        self.places.judge(fate, server);
        self.duplexes.judge(fate, server);
        let streams = (0..producers::STREAMS).filter_map(|s| server.view(&producers::name(s)));
        let mut views: Vec<_> = streams.collect();
        views.extend(self.places.views(server));
        views.extend(self.duplexes.views(server));
        let evidence: Vec<_> = views.iter().filter_map(|view| Evidence::of(server, view)).collect();
        for (place, one) in evidence.iter().enumerate() {
            let other = &evidence[(place + 1) % evidence.len()];
            one.judge(fate, *self.key.public(), &self.foreign, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_seeds_lose_and_repeat_nothing() {
        let (mut counted, mut seed) = (0, 0);
        while counted < 50 {
            let report = run(seed, Engine::Memory, Broken::No);
            assert!(report.faults.is_empty(), "seed {seed}: {:?}", report.faults);
            counted += u64::from(report.crashes >= 3);
            seed += 1;
        }
        assert!(seed < 80, "too few crashes");
    }

    #[test]
    fn the_real_engine_loses_and_repeats_nothing() {
        let mut torn = 0;
        for seed in 0..4 {
            let report = run(seed, Engine::Embedded, Broken::No);
            assert!(report.faults.is_empty(), "seed {seed}: {:?}", report.faults);
            torn += report.torn;
        }
        assert!(torn > 0, "no write was torn");
    }

    #[test]
    fn the_same_seed_is_the_same_run() {
        let counts = |r: &Report| (r.trace, r.acked, r.crashes, r.events, r.tampered, r.torn);
        for (seed, engine) in
            [(1, Engine::Memory), (2, Engine::Memory), (3, Engine::Memory), (1, Engine::Embedded)]
        {
            let (one, two) = (run(seed, engine, Broken::No), run(seed, engine, Broken::No));
            assert_eq!(counts(&one), counts(&two), "seed {seed}");
        }
        let trace = |seed| run(seed, Engine::Memory, Broken::No).trace;
        assert_ne!(trace(1), trace(2));
    }

    #[test]
    fn the_oracle_bites() {
        for broken in Broken::ALL {
            let bitten = |seed| !run(seed, Engine::Memory, broken).faults.is_empty();
            assert!((0..50).any(bitten), "{broken:?} was not noticed in 50 seeds");
        }
    }
}
