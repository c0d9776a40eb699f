//! The paths of all streams, by owner and in order, and which of them changed.
//!
//! A pattern over the paths of one owner reads a range of that owner's paths, a page at a time. No lock
//! is held between two pages, and none that the streams of other owners need. Changes are noted only
//! for owners that somebody follows: an append to any other stream costs one load.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::sync::Notify;

/// Ended streams of one owner that are noted. Past that, only the fact is noted that there are more.
const MAX_ENDED: usize = 4096;

/// The namespaces of all owners.
#[derive(Debug, Default)]
pub(super) struct Directory {
    owners: RwLock<HashMap<Arc<str>, Arc<Namespace>>>,
    changes: Arc<Changes>,
}

/// Namespaces with changes that nobody took yet.
#[derive(Debug, Default)]
struct Changes {
    namespaces: Mutex<VecDeque<Arc<Namespace>>>,
    added: Arc<Notify>,
}

/// The streams of one owner.
#[derive(Debug)]
pub(super) struct Namespace {
    owner: Arc<str>,
    is_followed: AtomicBool,
    streams: Mutex<Paths>,
    changes: Arc<Changes>,
}

#[derive(Debug, Default)]
struct Paths {
    /// Every path, with the time at which its stream was created.
    created: BTreeMap<Arc<str>, u64>,
    changed: BTreeMap<Arc<str>, Change>,
    ended: BTreeSet<Arc<str>>,
    /// Whether more streams ended than are noted.
    has_lost_ends: bool,
    is_queued: bool,
}

/// A change of a stream since the last time that changes were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The stream was created, maybe in the place of another one.
    Created,
    /// The stream has more records.
    Grown,
    /// The stream ended, and there is no other one at its path.
    Ended,
}

impl Directory {
    /// The namespace of an owner.
    pub(super) fn namespace(&self, owner: &str) -> Arc<Namespace> {
        let known = self.owners.read().unwrap_or_else(PoisonError::into_inner).get(owner).cloned();
        known.unwrap_or_else(|| {
            let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
            self.entry(&mut owners, owner)
        })
    }

    /// The same, with changes noted from now on.
    pub(super) fn follow(&self, owner: &str) -> Arc<Namespace> {
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        let namespace = self.entry(&mut owners, owner);
        namespace.is_followed.store(true, Ordering::SeqCst);
        namespace
    }

    /// Notes no more changes of a namespace.
    pub(super) fn unfollow(&self, namespace: &Arc<Namespace>) {
        namespace.is_followed.store(false, Ordering::SeqCst);
        let mut streams = lock(&namespace.streams);
        streams.changed.clear();
        streams.ended.clear();
        streams.has_lost_ends = false;
        drop(streams);
        self.forget_unused(namespace);
    }

    /// Removes a namespace without streams that nobody follows. Only the caller may have it beside the
    /// directory: a stream that is about to be added would be in no namespace of the directory.
    pub(super) fn forget_unused(&self, namespace: &Arc<Namespace>) {
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        let is_used = namespace.is_followed.load(Ordering::SeqCst)
            || Arc::strong_count(namespace) > 2
            || !lock(&namespace.streams).created.is_empty();
        if !is_used
            && owners.get(&namespace.owner).is_some_and(|known| Arc::ptr_eq(known, namespace))
        {
            owners.remove(&namespace.owner);
        }
    }

    /// A namespace with changes, if there is one.
    pub(super) fn next_changed(&self) -> Option<Arc<Namespace>> {
        lock(&self.changes.namespaces).pop_front()
    }

    /// Notified when a namespace has changes.
    pub(super) fn notify(&self) -> Arc<Notify> {
        Arc::clone(&self.changes.added)
    }

    fn entry(&self, owners: &mut HashMap<Arc<str>, Arc<Namespace>>, owner: &str) -> Arc<Namespace> {
        if let Some(known) = owners.get(owner) {
            return Arc::clone(known);
        }
        let owner: Arc<str> = owner.into();
        let namespace = Arc::new(Namespace {
            owner: Arc::clone(&owner),
            is_followed: AtomicBool::new(false),
            streams: Mutex::default(),
            changes: Arc::clone(&self.changes),
        });
        owners.insert(owner, Arc::clone(&namespace));
        namespace
    }
}

impl Namespace {
    pub(super) fn owner(&self) -> &Arc<str> {
        &self.owner
    }

    /// Adds a stream that was created, also in the place of another one of its path.
    pub(super) fn add(self: &Arc<Self>, path: &str, created: u64) {
        let path: Arc<str> = path.into();
        let mut streams = lock(&self.streams);
        streams.created.insert(Arc::clone(&path), created);
        streams.ended.remove(&path);
        if self.is_followed.load(Ordering::SeqCst) {
            streams.changed.insert(path, Change::Created);
            self.queue(&mut streams);
        }
    }

    /// Notes that a stream has more records.
    pub(super) fn grow(self: &Arc<Self>, path: &str) {
        if !self.is_followed.load(Ordering::SeqCst) {
            return;
        }
        let mut streams = lock(&self.streams);
        let Some((path, _)) = streams.created.get_key_value(path) else { return };
        let path = Arc::clone(path);
        streams.changed.entry(path).or_insert(Change::Grown);
        self.queue(&mut streams);
    }

    /// Removes a stream that ended.
    pub(super) fn remove(self: &Arc<Self>, path: &str) {
        let mut streams = lock(&self.streams);
        let Some((path, _)) = streams.created.remove_entry(path) else { return };
        streams.changed.remove(&path);
        if self.is_followed.load(Ordering::SeqCst) {
            if streams.ended.len() < MAX_ENDED {
                streams.ended.insert(path);
            } else {
                streams.has_lost_ends = true;
            }
            self.queue(&mut streams);
        }
    }

    /// Whether there are changes to take.
    pub(super) fn has_changes(&self) -> bool {
        let streams = lock(&self.streams);
        !streams.changed.is_empty() || !streams.ended.is_empty() || streams.has_lost_ends
    }

    /// Returns whether streams ended of which [`Namespace::take_changes`] says nothing.
    pub(super) fn take_lost_ends(&self) -> bool {
        std::mem::take(&mut lock(&self.streams).has_lost_ends)
    }

    /// Takes some changes, ends first.
    pub(super) fn take_changes(&self, limit: usize) -> Vec<(Arc<str>, Change)> {
        let mut streams = lock(&self.streams);
        streams.is_queued = false;
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some(path) = streams.ended.pop_first()
        {
            taken.push((path, Change::Ended));
        }
        while taken.len() < limit
            && let Some(change) = streams.changed.pop_first()
        {
            taken.push(change);
        }
        taken
    }

    /// Paths that begin with a prefix, in order, after one of them or from the first on, each with the
    /// time at which its stream was created.
    pub(super) fn page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<(Arc<str>, u64)> {
        let streams = lock(&self.streams);
        let from = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let range = streams.created.range::<str, _>((from, Bound::Unbounded));
        let range = range.take_while(|(path, _)| path.starts_with(prefix)).take(limit);
        range.map(|(path, created)| (Arc::clone(path), *created)).collect()
    }

    fn queue(self: &Arc<Self>, streams: &mut Paths) {
        if !std::mem::replace(&mut streams.is_queued, true) {
            lock(&self.changes.namespaces).push_back(Arc::clone(self));
            self.changes.added.notify_one();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(
        namespace: &Namespace,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<String> {
        let page = namespace.page(prefix, after, limit);
        page.into_iter().map(|(path, _)| path.to_string()).collect()
    }

    #[test]
    fn a_prefix_is_a_range_of_one_owner() {
        let directory = Directory::default();
        let (ada, bob) = (directory.namespace("ada"), directory.namespace("bob"));
        for path in ["a", "a/1", "a/2", "ab", "b"] {
            ada.add(path, 1);
        }
        bob.add("a/3", 1);
        assert_eq!(paths(&ada, "a/", None, 9), ["a/1", "a/2"]);
        assert_eq!(paths(&ada, "a", Some("a/1"), 9), ["a/2", "ab"]);
        assert_eq!(paths(&ada, "", None, 2), ["a", "a/1"]);
        assert_eq!(paths(&bob, "a/", None, 9), ["a/3"]);
        ada.remove("a/1");
        assert_eq!(paths(&ada, "a/", None, 9), ["a/2"]);
    }

    #[test]
    fn changes_are_noted_once_and_only_where_somebody_follows() {
        let directory = Directory::default();
        let ada = directory.namespace("ada");
        ada.add("a", 1);
        ada.grow("a");
        assert!(directory.next_changed().is_none());
        let ada = directory.follow("ada");
        ada.grow("a");
        ada.add("b", 2);
        ada.grow("b");
        ada.grow("no stream");
        ada.add("c", 2);
        ada.remove("c");
        let changed = directory.next_changed().unwrap();
        assert!(directory.next_changed().is_none());
        let ended_first = [("c".into(), Change::Ended), ("a".into(), Change::Grown)];
        assert_eq!(changed.take_changes(2), ended_first);
        assert!(changed.has_changes());
        assert_eq!(changed.take_changes(9), [("b".into(), Change::Created)]);
        assert!(!changed.has_changes());
        ada.grow("b");
        assert!(directory.next_changed().is_some());
    }

    #[test]
    fn ends_are_noted_up_to_a_bound_and_a_new_stream_takes_their_place() {
        let directory = Directory::default();
        let ada = directory.follow("ada");
        ada.add("a", 1);
        ada.take_changes(9);
        ada.remove("a");
        ada.remove("no stream");
        ada.add("a", 2);
        assert_eq!(ada.take_changes(9), [("a".into(), Change::Created)]);
        let end = |count: usize| {
            for n in 0..count {
                ada.add(&n.to_string(), 1);
                ada.remove(&n.to_string());
            }
        };
        end(MAX_ENDED);
        assert!(!ada.take_lost_ends());
        end(MAX_ENDED + 1);
        assert_eq!(ada.take_changes(usize::MAX).len(), MAX_ENDED);
        assert!(ada.has_changes());
        assert!(ada.take_lost_ends());
        assert!(!ada.take_lost_ends() && !ada.has_changes());
    }

    #[test]
    fn namespaces_that_nobody_needs_are_removed() {
        let directory = Directory::default();
        let count = || directory.owners.read().unwrap().len();
        let ada = directory.namespace("ada");
        ada.add("a", 1);
        directory.forget_unused(&ada);
        assert_eq!(count(), 1);
        ada.remove("a");
        drop(directory.follow("ada"));
        directory.forget_unused(&ada);
        assert_eq!(count(), 1);
        directory.unfollow(&ada);
        assert_eq!(count(), 0);
    }

    #[test]
    fn a_namespace_that_a_stream_is_about_to_use_stays() {
        let directory = Directory::default();
        let followed = directory.follow("ada");
        // As the writer has it before it adds the first stream.
        let used = directory.namespace("ada");
        directory.unfollow(&followed);
        used.add("a", 1);
        assert!(Arc::ptr_eq(&directory.namespace("ada"), &used));
    }
}
