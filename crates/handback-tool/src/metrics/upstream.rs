//! What is counted of each server behind a gateway.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use super::instruments::{Counter, Histogram};

/// What came of asking an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpstreamOutcome {
    /// A result.
    Answered,
    /// An error of the protocol.
    Error,
    /// It was not asked: it could not be reached, was busy or refused.
    NotAsked,
    /// It went away, or did not speak the protocol: whether it did anything is not known.
    Lost,
    /// It took longer than it may.
    TimedOut,
    /// What it gave is larger than it may be.
    TooLarge,
    /// Nobody wanted the answer any more.
    Cancelled,
}

/// All of them, with their names.
pub(crate) const UPSTREAM_OUTCOMES: [&str; 7] =
    ["answered", "error", "not_asked", "lost", "timed_out", "too_large", "cancelled"];

/// Whether it answered when it was asked last.
const NOT_ASKED_YET: u8 = 0;
const DOWN: u8 = 1;
const UP: u8 = 2;

/// What is counted of one upstream.
#[derive(Debug)]
pub struct UpstreamMetrics {
    name: String,
    calls: [Counter; UPSTREAM_OUTCOMES.len()],
    seconds: Histogram,
    state: AtomicU8,
    /// Connections that came about.
    pub connections: Counter,
    /// Of these, those in the place of one that was gone.
    pub reconnections: Counter,
    /// Connections that did not come about.
    pub failed_connections: Counter,
}

impl UpstreamMetrics {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            calls: Default::default(),
            seconds: Histogram::default(),
            state: AtomicU8::new(NOT_ASKED_YET),
            connections: Counter::default(),
            reconnections: Counter::default(),
            failed_connections: Counter::default(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A call ended so, after this time at the upstream.
    pub fn called(&self, outcome: UpstreamOutcome, time: Duration) {
        if let Some(counter) = self.calls.get(outcome as usize) {
            counter.increment();
        }
        if matches!(outcome, UpstreamOutcome::Answered | UpstreamOutcome::Error) {
            self.seconds.observe(time);
        }
    }

    /// It answered, or did not.
    pub fn is_up(&self, is_up: bool) {
        let state = if is_up { UP } else { DOWN };
        // Most of the time nothing changes, and a line of the cache that is not written is shared.
        if self.state.load(Ordering::Relaxed) != state {
            self.state.store(state, Ordering::Relaxed);
        }
    }

    /// Whether it answered when it was asked last; nothing, if it was not asked yet.
    #[must_use]
    pub fn answers(&self) -> Option<bool> {
        match self.state.load(Ordering::Relaxed) {
            UP => Some(true),
            DOWN => Some(false),
            _ => None,
        }
    }

    pub(crate) fn calls(&self) -> impl Iterator<Item = (&'static str, u64)> {
        UPSTREAM_OUTCOMES.into_iter().zip(self.calls.iter().map(Counter::get))
    }

    pub(crate) const fn seconds(&self) -> &Histogram {
        &self.seconds
    }
}
