//! Matching in slices: one slice at a time for all owners, on a thread that may block.
//!
//! A slice has a bound in steps, and whoever has more to do takes another turn at the end of the queue.
//! So an owner with many patterns delays its own subscriptions; others wait for single slices.
//!
//! No slice reads or writes the store. A slow disk delays the owner whose subscriptions are stored,
//! under that owner's lock, while the turn goes on to others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use handback_stream::PathPattern;
use tokio::sync::Semaphore;

/// Steps of one slice: about a millisecond.
const SLICE_STEPS: u64 = 200_000;

/// The turns of all owners.
#[derive(Debug)]
pub(super) struct Slices {
    turn: Arc<Semaphore>,
    pub(super) counts: Arc<Counts>,
}

/// Comparisons of a path with a pattern since the start, and their steps.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) matches: AtomicU64,
    pub(super) steps: AtomicU64,
}

/// Steps that a slice has left.
#[derive(Debug)]
pub(super) struct Budget {
    spent: u64,
    counts: Arc<Counts>,
}

impl Default for Slices {
    fn default() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), counts: Arc::default() }
    }
}

impl Slices {
    /// Does a slice of work after those that came before. If the work panics, so does this; nothing
    /// is returned if the runtime ends.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Budget) -> T + Send + 'static,
    ) -> Option<T> {
        self.run_then(work, |done| done).await
    }

    /// The same, with work that follows on the same thread when the turn is over: work that may take
    /// long, such as a write to the store.
    pub(super) async fn run_then<T, U: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Budget) -> T + Send + 'static,
        then: impl FnOnce(T) -> U + Send + 'static,
    ) -> Option<U> {
        let turn = Arc::clone(&self.turn).acquire_owned().await.ok()?;
        let counts = Arc::clone(&self.counts);
        blocking(move || {
            // The turn ends with the work, also if nobody waits for that any more.
            let done = {
                let _turn = turn;
                work(&mut Budget { spent: 0, counts })
            };
            then(done)
        })
        .await
    }
}

impl Budget {
    pub(super) const fn spend(&mut self, steps: u64) {
        self.spent = self.spent.saturating_add(steps);
    }

    /// Whether a path matches, at the price of the comparison.
    pub(super) fn matches(&mut self, pattern: &PathPattern, path: &str) -> bool {
        let mut steps = 0;
        let covers = pattern.matches_counted(path, &mut steps);
        self.counts.matches.fetch_add(1, Ordering::SeqCst);
        self.counts.steps.fetch_add(steps, Ordering::SeqCst);
        self.spend(steps);
        covers
    }

    pub(super) const fn is_spent(&self) -> bool {
        self.spent >= SLICE_STEPS
    }
}

/// Does work on a thread that may block. If the work panics, so does this; nothing is returned if the
/// runtime ends.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}
