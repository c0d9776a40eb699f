//! Which streams a pattern covers: matched once for a new stream, and once for a new subscription.
//!
//! A new stream is matched with the patterns of its owner, a new subscription with the streams of its
//! owner below the literal prefix of the pattern. Both are done in slices (`slices`), between which the
//! lock of the owner is free. After a restart, only streams are matched that were created since the
//! last time that all streams were.
//!
//! A panic ends the work that caused it. The rest of that owner's work comes in the next slice.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use handback_store::owner_tag_of;
use tokio::sync::OwnedMutexGuard;

use super::book::{After, Book, Todo};
use super::manager::Subscriptions;
use super::owners::Owner;
use super::slices::Budget;
use super::worker::Worker;

/// Time between two looks at the agenda when nothing happens.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Pause after all work is done, so that a busy server looks once for many appends.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// Slices that a claim waits for, so that it sees streams that were created before it.
const CATCH_UP_SLICES: usize = 64;

/// Owners with work, each once.
#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<Arc<str>>,
    due: HashMap<Arc<str>, Vec<String>>,
    /// Owners in a row whose lock was taken.
    misses: usize,
}

impl Queue {
    fn push(&mut self, owner: Arc<str>, id: Option<String>) {
        let due = self.due.entry(Arc::clone(&owner)).or_insert_with(|| {
            self.order.push_back(owner);
            Vec::new()
        });
        due.extend(id);
    }

    fn pop(&mut self) -> Option<(Arc<str>, Vec<String>)> {
        let owner = self.order.pop_front()?;
        let due = self.due.remove(&owner).unwrap_or_default();
        Some((owner, due))
    }

    fn put_back(&mut self, owner: Arc<str>, due: Vec<String>) {
        self.push(Arc::clone(&owner), None);
        if let Some(known) = self.due.get_mut(&owner) {
            known.extend(due);
        }
    }

    /// Counts an owner whose lock was taken. Returns whether that is so for every owner.
    fn has_missed_all(&mut self) -> bool {
        self.misses += 1;
        let has_missed_all = self.misses >= self.order.len();
        if has_missed_all {
            self.misses = 0;
        }
        has_missed_all
    }
}

impl Subscriptions {
    /// Does what changed streams and the agenda ask for, as long as the subscriptions are used.
    pub(super) async fn run(this: Weak<Self>) {
        let mut queue = Queue::default();
        if let Some(this) = this.upgrade() {
            this.owners.names().into_iter().for_each(|owner| queue.push(owner, None));
        }
        loop {
            let Some(used) = this.upgrade() else { return };
            used.collect(&mut queue);
            if let Some((owner, due)) = queue.pop() {
                used.turn(&mut queue, owner, due).await;
                continue;
            }
            // Nothing of the subscriptions is held while there is nothing to do.
            let changed = used.streams.directory().notify();
            drop(used);
            let _ = tokio::time::timeout(LOOK_EVERY, changed.notified()).await;
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    fn collect(&self, queue: &mut Queue) {
        while let Some(namespace) = self.streams.directory().next_changed() {
            queue.push(Arc::clone(namespace.owner()), None);
        }
        let now = self.streams.now();
        while let Some((owner, id)) = self.agenda.take_due(now) {
            queue.push(owner, Some(id));
        }
    }

    /// One slice for one owner. An owner whose lock is taken comes later.
    async fn turn(self: &Arc<Self>, queue: &mut Queue, owner: Arc<str>, due: Vec<String>) {
        let Some(found) = self.owners.get(&owner) else { return };
        let Ok(mut book) = Arc::clone(&found.book).try_lock_owned() else {
            queue.put_back(owner, due);
            // Whoever has the locks may need this thread to give them back.
            if queue.has_missed_all() {
                tokio::time::sleep(LOOK_PAUSE).await;
            }
            return;
        };
        queue.misses = 0;
        book.todo.extend(due.into_iter().map(|id| Todo::Look { id, path: None }));
        if slice(self, found, book).await == Some(true) {
            queue.push(owner, None);
        }
    }

    /// Has the streams that were created before this moment matched, within a bound.
    pub(super) async fn catch_up(self: &Arc<Self>, owner: &str) {
        for _ in 0..CATCH_UP_SLICES {
            let Some(owner) = self.owners.get(owner) else { return };
            let book = Arc::clone(&owner.book).lock_owned().await;
            if book.todo.is_empty() && !owner.namespace.has_changes() {
                return;
            }
            if slice(self, owner, book).await != Some(true) {
                return;
            }
        }
    }
}

/// Works for an owner in one slice. Returns whether there is more to do, and nothing if the runtime
/// ends.
async fn slice(
    all: &Arc<Subscriptions>,
    owner: Arc<Owner>,
    mut book: OwnedMutexGuard<Book>,
) -> Option<bool> {
    let (this, of) = (Arc::clone(all), Arc::clone(&owner));
    let slice = move |budget: &mut Budget| {
        let mut after = Vec::new();
        let has_more = caught(&of, || {
            let (all, owner, book) = (&this, &*of, &mut *book);
            Worker { all, owner, book, budget, after: &mut after }.run()
        });
        // The work that panicked was taken from the list.
        let has_more =
            has_more.unwrap_or_else(|| !book.todo.is_empty() || of.namespace.has_changes());
        (book, after, has_more)
    };
    let this = Arc::clone(all);
    let store = move |(mut book, after, has_more): (OwnedMutexGuard<Book>, Vec<After>, bool)| {
        for work in after {
            caught(&owner, || finish(&this, &mut book, work));
        }
        has_more
    };
    all.slices.run_then(slice, store).await
}

/// Does work that was left for the time after a slice.
fn finish(all: &Arc<Subscriptions>, book: &mut Book, work: After) {
    match work {
        After::Look { id, path } => all.look(book, &id, path.as_deref()),
        After::Store { id } => {
            let Some(subscription) = book.get(&id) else { return };
            if let Err(error) = all.rows.store(subscription, all.streams.now()) {
                tracing::warn!(%error, id, "a subscription was not stored");
            }
        }
    }
}

/// Does work for an owner. Nothing is returned if the work panics.
fn caught<T>(owner: &Owner, work: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work)).ok();
    if done.is_none() {
        let tag = owner_tag_of(owner.namespace.owner());
        tracing::error!(owner = tag, "work for the subscriptions of an owner panicked");
    }
    done
}
