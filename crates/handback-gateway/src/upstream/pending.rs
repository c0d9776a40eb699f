//! Questions that wait for their answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::logs::{LogsFor, Wanted};
use super::room::Room;
use super::{Answer, Heard, LineError, Raw, meta};

/// Questions under way on one line at most. Callers have far narrower limits of their own; this is
/// for a line that many share.
const ASKED_MAX: usize = 4096;

/// The answer to a question, or why there is none.
pub(super) type Outcome = Result<Answer, LineError>;

/// Where what belongs to a question goes, and what of it is told differently.
#[derive(Clone, Debug, Default)]
pub(super) struct Route {
    /// Who hears it.
    pub(super) heard: Option<mpsc::Sender<Heard>>,
    /// Room for what they have not taken yet.
    pub(super) room: Room,
    /// The JSON of the progress token that the caller chose.
    pub(super) token: Option<Bytes>,
    /// The JSON that the caller knows its subscription by.
    pub(super) subscription: Option<Bytes>,
    /// Whether it asks for a subscription, which may stay open for long.
    pub(super) listens: bool,
    /// The log messages that it asks for.
    pub(super) logs: Option<Wanted>,
    /// Whether it is a call, which an upstream may ask something in.
    pub(super) is_call: bool,
}

impl Route {
    /// The answer as the caller expects it: one to a subscription names that, as the caller knows it.
    pub(super) fn put_back(&self, answer: Answer) -> Answer {
        let Some(known_by) = &self.subscription else { return answer };
        match answer {
            Answer::Result(Raw::Memory(result)) => {
                let changed = meta::with_subscription(&result, known_by);
                Answer::Result(Raw::Memory(changed.unwrap_or(result)))
            }
            other => other,
        }
    }
}

/// How many calls are under way on a line.
pub(super) enum Calls {
    None,
    One(Route),
    Several,
}

/// A question that waits.
#[derive(Debug)]
struct Waiting {
    /// Without it, the answer comes another way.
    answer: Option<oneshot::Sender<Outcome>>,
    route: Route,
}

/// The questions of one line, by the numbers that the line gave them.
#[derive(Debug, Default)]
pub(super) struct Pending {
    last: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    is_closed: bool,
    logs_for: LogsFor,
    waiting: HashMap<u64, Waiting>,
}

impl Pending {
    /// A number that no other question of the line has.
    pub(super) fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The number that was given last.
    pub(super) fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Files a question whose answer comes through the receiver.
    pub(super) fn wait(
        &self,
        number: u64,
        route: Route,
    ) -> Result<oneshot::Receiver<Outcome>, LineError> {
        let (sender, receiver) = oneshot::channel();
        self.file(number, Waiting { answer: Some(sender), route })?;
        Ok(receiver)
    }

    /// Files a question whose answer comes another way.
    pub(super) fn follow(&self, number: u64, route: Route) -> Result<(), LineError> {
        self.file(number, Waiting { answer: None, route })
    }

    fn file(&self, number: u64, waiting: Waiting) -> Result<(), LineError> {
        let mut table = self.table();
        if table.is_closed {
            return Err(LineError::closed());
        }
        if table.waiting.len() >= ASKED_MAX {
            return Err(LineError::Busy);
        }
        if let Some(Wanted { owner, .. }) = &waiting.route.logs {
            table.logs_for.add(owner.clone());
        }
        table.waiting.insert(number, waiting);
        Ok(())
    }

    /// Takes a question away. Says whether it was still there.
    pub(super) fn forget(&self, number: u64) -> bool {
        self.table().waiting.remove(&number).is_some()
    }

    /// Whether somebody waits for this answer.
    pub(super) fn is_waiting(&self, number: u64) -> bool {
        self.table().waiting.get(&number).is_some_and(|waiting| waiting.answer.is_some())
    }

    /// Whether a question is under way that was asked before the one of this number, subscriptions
    /// aside.
    pub(super) fn has_before(&self, number: u64) -> bool {
        let table = self.table();
        table.waiting.iter().any(|(known, waiting)| *known < number && !waiting.route.listens)
    }

    /// Ends a question. Says whether somebody waited for it.
    pub(super) fn end(&self, number: u64, outcome: Outcome) -> bool {
        let mut table = self.table();
        if table.waiting.get(&number).is_none_or(|waiting| waiting.answer.is_none()) {
            return false;
        }
        let waiting = table.waiting.remove(&number);
        drop(table);
        let Some(Waiting { answer: Some(answer), route }) = waiting else { return false };
        answer.send(outcome.map(|answer| route.put_back(answer))).is_ok()
    }

    /// Where what belongs to a question goes.
    pub(super) fn route(&self, number: u64) -> Option<Route> {
        self.table().waiting.get(&number).map(|waiting| waiting.route.clone())
    }

    /// The one question that is under way, subscriptions aside; none if there are others.
    pub(super) fn only(&self) -> Option<(u64, Route)> {
        let table = self.table();
        let mut asked = table.waiting.iter().filter(|(_, waiting)| !waiting.route.listens);
        let (number, waiting) = asked.next()?;
        asked.next().is_none().then(|| (*number, waiting.route.clone()))
    }

    /// The request that a log message of this level is for: the latest one of those that ask for it.
    /// None, once requests of several callers have asked for messages on this line.
    pub(super) fn logging(&self, level: usize) -> Option<Route> {
        let table = self.table();
        if table.logs_for == LogsFor::Several {
            return None;
        }
        let waiting = table.waiting.iter().map(|(number, Waiting { route, .. })| (number, route));
        let asks = |route: &Route| route.logs.as_ref().is_some_and(|wanted| wanted.level <= level);
        let latest = waiting.filter(|(_, route)| asks(route)).max_by_key(|(number, _)| **number);
        latest.map(|(_, route)| route.clone())
    }

    /// The calls that are under way.
    pub(super) fn calls(&self) -> Calls {
        let table = self.table();
        let mut calls = table.waiting.values().filter(|waiting| waiting.route.is_call);
        match (calls.next(), calls.next()) {
            (None, _) => Calls::None,
            (Some(call), None) => Calls::One(call.route.clone()),
            (Some(_), Some(_)) => Calls::Several,
        }
    }

    /// No more questions. Those that wait go on to wait.
    pub(super) fn refuse(&self) {
        self.table().is_closed = true;
    }

    /// No more questions, and no answers to those that wait, for this reason.
    pub(super) fn close(&self, why: &LineError) {
        let waiting = {
            let mut table = self.table();
            table.is_closed = true;
            std::mem::take(&mut table.waiting)
        };
        for answer in waiting.into_values().filter_map(|waiting| waiting.answer) {
            // Whoever asked may have gone.
            let _ = answer.send(Err(why.clone()));
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change of the table is whole.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
