//! The owners of subscriptions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use super::book::Book;
use crate::streams::directory::Namespace;
use crate::streams::driver::Streams;

/// Webhooks of one owner in flight, so that its slow targets leave deliveries to others.
const MAX_DELIVERIES_OF_OWNER: usize = 16;

/// All owners with subscriptions. The lock is held to look an owner up, and never while anything is
/// matched, read or written.
pub(super) struct Owners {
    streams: Arc<Streams>,
    all: Mutex<HashMap<Arc<str>, Arc<Owner>>>,
}

/// An owner with subscriptions.
pub(super) struct Owner {
    pub(super) namespace: Arc<Namespace>,
    pub(super) book: Arc<tokio::sync::Mutex<Book>>,
    /// Held while a subscription is made or removed.
    pub(super) making: tokio::sync::Mutex<()>,
    /// Held while a webhook is delivered.
    pub(super) deliveries: Semaphore,
}

impl Owners {
    pub(super) fn new(streams: Arc<Streams>) -> Self {
        Self { streams, all: Mutex::default() }
    }

    pub(super) fn names(&self) -> Vec<Arc<str>> {
        self.lock().keys().cloned().collect()
    }

    /// An owner, if there are subscriptions.
    pub(super) fn get(&self, binding: &str) -> Option<Arc<Owner>> {
        self.lock().get(binding).cloned()
    }

    pub(super) fn get_or_new(&self, binding: &str) -> Arc<Owner> {
        let mut all = self.lock();
        if let Some(known) = all.get(binding) {
            return Arc::clone(known);
        }
        let namespace = self.streams.directory().follow(binding);
        let name = Arc::clone(namespace.owner());
        let owner = Arc::new(Owner {
            namespace,
            book: Arc::default(),
            making: tokio::sync::Mutex::new(()),
            deliveries: Semaphore::new(MAX_DELIVERIES_OF_OWNER),
        });
        all.insert(name, Arc::clone(&owner));
        owner
    }

    /// Forgets an owner without subscriptions, unless somebody uses it at this moment.
    pub(super) fn retire(&self, owner: Arc<Owner>) {
        let namespace = Arc::clone(&owner.namespace);
        drop(owner);
        let mut all = self.lock();
        let is_unused = all.get(namespace.owner()).is_some_and(|owner| {
            Arc::strong_count(owner) == 1
                && Arc::strong_count(&owner.book) == 1
                && owner.book.try_lock().is_ok_and(|book| book.is_empty())
        });
        if is_unused {
            all.remove(namespace.owner());
            self.streams.directory().unfollow(&namespace);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Owner>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
