//! The times at which subscriptions are looked at again: ends of leases and retries.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::state::Subscription;

/// Milliseconds until a wake stream is tried again. A change of that stream has it tried at once.
const ANNOUNCE_MS: u64 = 10_000;

/// The owner and the id of a subscription.
pub(super) type Key = (Arc<str>, String);

/// One time for each subscription at most, so that a worker which extends its lease again and again
/// leaves nothing behind.
#[derive(Debug)]
pub(super) struct Agenda {
    times: Mutex<Times>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Times {
    in_order: BTreeSet<(u64, Key)>,
    of: HashMap<Key, u64>,
}

impl Agenda {
    /// An empty agenda. `changed` is notified of every time that is set.
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self { times: Mutex::default(), changed }
    }

    /// Sets the time of a subscription, or removes it.
    pub(super) fn set(&self, key: Key, time: Option<u64>) {
        let mut times = self.lock();
        if let Some(before) = times.of.remove(&key) {
            times.in_order.remove(&(before, key.clone()));
        }
        if let Some(time) = time {
            times.of.insert(key.clone(), time);
            times.in_order.insert((time, key));
            self.changed.notify_one();
        }
    }

    /// Sets the time of the next look at a subscription: the end of a lease or of a pause, or `retry`.
    pub(super) fn plan(&self, subscription: &Subscription, now: u64, retry: Option<u64>) {
        let lease = subscription.wake.as_ref().and_then(|wake| wake.lease_until_ms);
        let announce = subscription.is_unannounced().then_some(now + ANNOUNCE_MS);
        let is_paused = !subscription.is_busy() && subscription.next_attempt_ms > now;
        let attempt = is_paused.then_some(subscription.next_attempt_ms);
        let time = [lease, announce, attempt, retry].into_iter().flatten().min();
        self.set(key(subscription), time);
    }

    /// The same after a change: a subscription that nobody works on may have something to do now.
    pub(super) fn plan_after(&self, subscription: &Subscription, now: u64) {
        self.plan(subscription, now, (!subscription.is_busy()).then_some(now));
    }

    /// Takes a subscription whose time has come.
    pub(super) fn take_due(&self, now: u64) -> Option<Key> {
        let mut times = self.lock();
        if times.in_order.first()?.0 > now {
            return None;
        }
        let (_, key) = times.in_order.pop_first()?;
        times.of.remove(&key);
        Some(key)
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(subscription: &Subscription) -> Key {
    (subscription.owner.as_str().into(), subscription.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_has_one_time_at_most() {
        let agenda = Agenda::new(Arc::default());
        let key = |id: &str| ("ada".into(), id.to_owned());
        agenda.set(key("a"), Some(10));
        agenda.set(key("a"), Some(30));
        agenda.set(key("b"), Some(20));
        agenda.set(key("c"), Some(5));
        agenda.set(key("c"), None);
        assert_eq!(agenda.take_due(19), None);
        assert_eq!(agenda.take_due(30), Some(key("b")));
        assert_eq!(agenda.take_due(30), Some(key("a")));
        assert_eq!(agenda.take_due(u64::MAX), None);
        assert!(agenda.lock().of.is_empty());
    }
}
