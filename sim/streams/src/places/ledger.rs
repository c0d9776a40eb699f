//! What was asked for and told of streams that come and go, kept outside of the system.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use handback_stream::{Life, Refusal, Reply, StreamId, View};

use super::name;
use super::writer::{WRITER, text_of};
use crate::fate::{Fate, right_key};
use crate::oracle::{self, Reader, Text};
use crate::report::Broken;
use crate::server::Server;

/// What is added to a life by each restart, besides an eighth of it: see `docs/spec/streams.md`.
const SLACK_MS: u64 = 1000;

/// A stream that is to be created.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    place: usize,
    pub(crate) life: Life,
    pub(crate) is_encrypted: bool,
    at: u64,
    /// What it starts with.
    pub(crate) untagged: Vec<String>,
    pub(crate) forked: Option<Forked>,
}

/// What a fork shares.
#[derive(Clone, Debug)]
pub(crate) struct Forked {
    pub(crate) number: u64,
    pub(crate) shared: Vec<(u64, Bytes)>,
}

impl Tried {
    pub(crate) const fn new(place: usize, life: Life, is_encrypted: bool, at: u64) -> Self {
        Self { place, life, is_encrypted, at, untagged: Vec::new(), forked: None }
    }
}

/// One stream, from its creation on.
#[derive(Debug)]
struct Incarnation {
    tried: Tried,
    /// Whether it is there, as far as anybody was told.
    is_alive: bool,
    /// The last use that counts for its life.
    used: u64,
    /// A use that counts when it was noted.
    unnoted: Option<u64>,
    /// The last use that may have counted.
    maybe_used: u64,
    restarts: u64,
    /// Whether its life was over at some time since.
    may_end: bool,
    close_tried: bool,
    is_closed: bool,
    /// The sequences that are there, as writers were told.
    told: BTreeSet<u64>,
    reader: Reader,
}

impl Incarnation {
    const fn new(tried: Tried) -> Self {
        Self {
            is_alive: true,
            used: tried.at,
            unnoted: None,
            maybe_used: tried.at,
            restarts: 0,
            may_end: false,
            close_tried: false,
            is_closed: false,
            told: BTreeSet::new(),
            reader: Reader { records: Vec::new(), last: 0 },
            tried,
        }
    }

    const fn end_of(&self, used: u64) -> Option<u64> {
        match self.tried.life {
            Life::Unlimited => None,
            Life::Sliding { ttl_s } => Some(used + ttl_s * 1000),
            Life::Until(until) => Some(until),
        }
    }

    fn is_over(&self, now: u64) -> bool {
        self.end_of(self.used).is_some_and(|end| now >= end)
    }

    /// When it must have ended.
    fn latest_end(&self, broken: Broken) -> Option<u64> {
        let restarts = match broken {
            Broken::SlackOnce => self.restarts.min(1),
            _ => self.restarts,
        };
        let slack = match self.tried.life {
            Life::Sliding { ttl_s } => (ttl_s * 1000 / 8 + SLACK_MS) * restarts,
            _ => 0,
        };
        self.end_of(self.maybe_used.max(self.used)).map(|end| end + slack)
    }

    fn use_at(&mut self, now: u64) {
        self.used = self.used.max(now);
        self.may_end = self.is_over(now);
    }
}

pub(crate) struct Ledger {
    all: BTreeMap<StreamId, Incarnation>,
    /// Those of which nobody was told, but which may be there.
    tried: BTreeMap<StreamId, Tried>,
    /// The stream of each place.
    current: Vec<Option<StreamId>>,
    maybe_deleted: Vec<bool>,
}

impl Ledger {
    pub(crate) fn new(places: usize) -> Self {
        Self {
            all: BTreeMap::new(),
            tried: BTreeMap::new(),
            current: vec![None; places],
            maybe_deleted: vec![false; places],
        }
    }

    /// How many appends were acknowledged.
    pub(crate) fn acked(&self) -> u64 {
        self.all.values().map(|one| one.told.len() as u64).sum()
    }

    pub(crate) fn is_encrypted(&self, id: StreamId) -> bool {
        self.all.get(&id).is_some_and(|one| one.tried.is_encrypted)
    }

    pub(crate) fn tries_to_create(&mut self, id: StreamId, tried: Tried) {
        self.tried.insert(id, tried);
    }

    pub(crate) fn tries_to_close(&mut self, id: StreamId) {
        if let Some(one) = self.all.get_mut(&id) {
            one.close_tried = true;
        }
    }

    pub(crate) fn maybe_deleted(&mut self, place: usize) {
        self.maybe_deleted[place] = true;
    }

    pub(crate) fn maybe_used(&mut self, id: StreamId, now: u64) {
        if let Some(one) = self.all.get_mut(&id) {
            one.maybe_used = one.maybe_used.max(now);
        }
    }

    pub(crate) fn maybe_used_at(&mut self, place: usize, now: u64) {
        if let Some(id) = self.current[place] {
            self.maybe_used(id, now);
        }
    }

    /// The server's clock shows this: what is over now may end.
    pub(crate) fn pass_time(&mut self, now: u64) {
        for one in self.all.values_mut().filter(|one| one.is_alive) {
            one.may_end |= one.is_over(now);
        }
    }

    fn adopt(&mut self, fate: &mut Fate, id: StreamId, tried: Tried, restarts: u64) {
        fate.report.created += 1;
        fate.report.forked += u64::from(tried.forked.is_some());
        self.current[tried.place] = Some(id);
        let mut one = Incarnation::new(tried);
        // Some are created when their time is over.
        one.may_end = one.is_over(fate.now);
        one.restarts = restarts;
        self.all.insert(id, one);
    }

    /// The stream of a place is not there any more.
    fn ended(&mut self, fate: &mut Fate, place: usize) {
        let Some(id) = self.current[place].take() else { return };
        let Some(one) = self.all.get_mut(&id) else { return };
        one.is_alive = false;
        match (one.may_end, self.maybe_deleted[place]) {
            (true, _) => fate.report.expired += 1,
            (false, true) => fate.report.deleted += 1,
            (false, false) => fate.fault(format!("lost: {id:?} ended too early")),
        }
    }

    pub(crate) fn created(&mut self, fate: &mut Fate, id: StreamId, reply: &Reply) {
        let tried = self.tried.remove(&id);
        match reply {
            Reply::Created { is_new: true, .. } => {
                let Some(tried) = tried else { return };
                // What was there has outlived its time.
                self.ended(fate, tried.place);
                self.adopt(fate, id, tried, 0);
            }
            Reply::Created { is_new: false, .. } => {
                let known = tried.and_then(|tried| self.current[tried.place]);
                match known.and_then(|id| self.all.get_mut(&id)) {
                    None => fate.fault("undone: a stream was there that is not"),
                    Some(one) => one.use_at(fate.now),
                }
            }
            _ => {}
        }
    }

    pub(crate) fn deleted(&mut self, fate: &mut Fate, place: usize, reply: &Reply) {
        match (reply, self.current[place]) {
            (Reply::Deleted, Some(id)) => {
                self.current[place] = None;
                fate.report.deleted += 1;
                if let Some(one) = self.all.get_mut(&id) {
                    one.is_alive = false;
                }
            }
            (Reply::Deleted, None) => fate.fault("undone: what was gone was deleted"),
            (Reply::Refused(Refusal::NotFound | Refusal::Gone), Some(id)) => {
                let is_early = self.all.get(&id).is_some_and(|one| !one.may_end);
                if is_early && !self.maybe_deleted[place] {
                    fate.fault(format!("lost: {id:?} was not found"));
                }
            }
            _ => {}
        }
    }

    /// What a writer was told, or somebody who closed.
    pub(crate) fn written(
        &mut self,
        fate: &mut Fate,
        id: StreamId,
        seq: Option<u64>,
        reply: &Reply,
    ) {
        let Some(one) = self.all.get_mut(&id) else { return };
        let maybe_deleted = self.maybe_deleted[one.tried.place];
        match reply {
            Reply::Appended(appended) => {
                if !one.is_alive {
                    fate.fault(format!("undone: {id:?} is gone, and was written to"));
                }
                if appended.differs {
                    fate.fault(format!("differs: {seq:?} of {id:?} came again as it was"));
                }
                if one.is_closed && !appended.is_duplicate {
                    fate.fault(format!("order: {id:?} was closed, and was written to"));
                }
                if one.is_closed && !appended.closed {
                    fate.fault(format!("undone: {id:?} was closed, and is not"));
                }
                fate.report.closed += u64::from(appended.closed && !one.is_closed);
                one.is_closed |= appended.closed;
                one.told.extend(seq);
                one.use_at(fate.now);
            }
            Reply::Refused(Refusal::NotFound | Refusal::Gone)
                if one.is_alive && !one.may_end && !maybe_deleted =>
            {
                fate.fault(format!("lost: {id:?} was not found"));
            }
            Reply::Refused(Refusal::Closed { .. }) if !one.close_tried => {
                fate.fault(format!("order: nobody closed {id:?}"));
            }
            Reply::Refused(Refusal::Gap { expected, .. })
                if one.told.last().is_some_and(|last| last >= expected) =>
            {
                fate.fault(format!("lost: {expected} of {id:?} was acknowledged"));
            }
            Reply::Refused(Refusal::Key) => fate.fault(format!("key: not the key of {id:?}")),
            _ => {}
        }
    }

    /// Uses that were not noted are forgotten by a restart.
    pub(crate) fn restarted(&mut self) {
        for one in self.all.values_mut() {
            one.unnoted = None;
            one.restarts += 1;
        }
    }

    /// Compares with what readers see: after a round, or after a restart.
    pub(crate) fn observe(&mut self, fate: &mut Fate, server: &Server, is_round: bool) {
        for place in 0..self.current.len() {
            let view = server.views.get(&name(place).id());
            let seen = view.map(|view| view.meta.id());
            if let Some(id) = seen.filter(|id| !self.all.contains_key(id)) {
                match self.tried.remove(&id) {
                    None => fate.fault(format!("undone: nobody created {id:?}")),
                    Some(tried) => {
                        self.ended(fate, place);
                        self.adopt(fate, id, tried, u64::from(!is_round));
                    }
                }
            }
            let usable = view.filter(|view| !view.deleted);
            if let Some(id) = usable.map(|view| view.meta.id())
                && self.all.get(&id).is_some_and(|one| !one.is_alive)
            {
                fate.fault(format!("undone: {id:?} was gone, and is there"));
            }
            if self.current[place].is_some() && usable.map(|v| v.meta.id()) != self.current[place] {
                self.ended(fate, place);
            }
            self.maybe_deleted[place] = false;
            let Some(one) = self.current[place].and_then(|id| self.all.get_mut(&id)) else {
                continue;
            };
            if !is_round {
                continue;
            }
            if let Some(used) = one.unnoted.take() {
                one.used = one.used.max(used);
            }
            one.may_end = one.is_over(fate.now);
            if one.latest_end(fate.broken).is_some_and(|end| fate.now >= end) {
                let (life, used, restarts) = (one.tried.life, one.used, one.restarts);
                let really = usable.map(|view| view.meta.touched());
                let (id, now) = (self.current[place], fate.now);
                fate.fault(format!(
                    "late: {id:?} of {life:?} was used at {used}, is there at {now}, after \
                     {restarts} restarts, and thinks that it was used at {really:?}"
                ));
            }
        }
    }

    /// Somebody reads, which is a use.
    pub(crate) fn read(&mut self, fate: &mut Fate, server: &Server, place: usize) {
        let Some(view) = server.view(&name(place)) else { return };
        let Some(one) = self.all.get_mut(&view.meta.id()) else { return };
        if view.meta.is_over(fate.now) {
            return;
        }
        view.meta.touch(fate.now);
        // It counts when the next round has noted it: a crash before that forgets it.
        one.unnoted = one.unnoted.max(Some(fate.now));
        one.maybe_used = one.maybe_used.max(fate.now);
        if let Some(fault) = one.reader.read(server, view) {
            fate.fault(format!("{fault}, says a reader of {:?}", view.meta.id()));
        }
    }

    /// Checks what the stream of a place has.
    pub(crate) fn check(&self, fate: &mut Fate, server: &Server, place: usize) {
        let Some(view) = server.view(&name(place)) else { return };
        let Some(one) = self.all.get(&view.meta.id()) else { return };
        let faults = one.check(server, view);
        fate.faults(faults.into_iter().map(|fault| format!("{fault}, in {:?}", view.meta.id())));
    }
}

impl Incarnation {
    fn check(&self, server: &Server, view: &View) -> Vec<String> {
        let Some(records) = server.shown(view, 0, view.last) else { return Vec::new() };
        let mut faults: Vec<_> = self.reader.recheck(server, view).into_iter().collect();
        if self.is_closed && !view.closed {
            faults.push("undone: it was closed, and is not".to_owned());
        }
        let forked_at = self.tried.forked.as_ref().map_or(0, |forked| {
            let shared = records.iter().take_while(|(number, _)| *number <= forked.number);
            let shared = shared.map(|(number, stored)| (*number, stored.record.clone()));
            if !shared.eq(forked.shared.iter().cloned()) {
                faults.push("lost: what was forked is not there".to_owned());
            }
            forked.number
        });
        let key = self.tried.is_encrypted.then(right_key);
        match oracle::texts(view, &records, key.as_ref()) {
            Ok(texts) => {
                let own = texts.iter().skip_while(|text| text.number <= forked_at);
                faults.extend(self.check_own(view.meta.id(), own));
            }
            Err(fault) => faults.push(fault),
        }
        faults
    }

    fn check_own<'a>(&self, id: StreamId, own: impl Iterator<Item = &'a Text>) -> Vec<String> {
        let mut faults = Vec::new();
        let (mut untagged, mut next, mut is_closed) = (Vec::new(), 0, false);
        for Text { number, record, data } in own {
            if is_closed {
                faults.push(format!("order: record {number} is behind the end"));
            }
            is_closed |= record.closes() || record.is_end();
            match record.producer() {
                None => untagged.extend(data.clone()),
                Some(tag) if tag.id == WRITER => {
                    if tag.seq < next {
                        faults.push(format!("duplicate: {} is there again", tag.seq));
                    } else if tag.seq > next {
                        faults.push(format!("order: {} comes after {next}", tag.seq));
                    }
                    next = tag.seq + 1;
                    if data.as_ref().is_some_and(|data| *data != text_of(id, tag.seq)) {
                        faults.push(format!("undone: record {number} was not meant for it"));
                    }
                }
                Some(tag) => faults.push(format!("zombie: {} wrote to it", tag.id)),
            }
        }
        if untagged != self.tried.untagged {
            faults.push(format!("lost: it starts with {untagged:?}"));
        }
        if self.told.last().is_some_and(|last| *last >= next) {
            faults.push(format!("lost: {next} was acknowledged"));
        }
        if self.is_closed && !is_closed {
            faults.push("undone: it was closed, and has no end".to_owned());
        }
        faults
    }
}
