//! Who wants to hear of changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::service::SubscriptionSink;

/// Tells those who listen, over all connections. Clones tell the same ones.
#[derive(Clone, Default)]
pub struct Changes(Arc<Mutex<Listeners>>);

#[derive(Default)]
struct Listeners {
    next: u64,
    sinks: BTreeMap<u64, SubscriptionSink>,
}

impl Changes {
    /// The list of tools has changed.
    pub async fn tools(&self) {
        for sink in self.all() {
            // One that did not ask for this, or is gone, is told nothing.
            let _ = sink.notify_tool_list_changed().await;
        }
    }

    /// The list of prompts has changed.
    pub async fn prompts(&self) {
        for sink in self.all() {
            let _ = sink.notify_prompt_list_changed().await;
        }
    }

    /// The list of resources has changed.
    pub async fn resources(&self) {
        for sink in self.all() {
            let _ = sink.notify_resource_list_changed().await;
        }
    }

    /// A resource has changed.
    pub async fn resource(&self, uri: &str) {
        for sink in self.all() {
            let _ = sink.notify_resource_updated(uri).await;
        }
    }

    pub(super) fn enter(&self, sink: SubscriptionSink) -> Listening {
        let mut listeners = self.lock();
        let key = listeners.next;
        listeners.next += 1;
        listeners.sinks.insert(key, sink);
        Listening { changes: self.clone(), key }
    }

    fn all(&self) -> Vec<SubscriptionSink> {
        self.lock().sinks.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Listeners> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Changes({} listeners)", self.lock().sinks.len())
    }
}

/// One who listens until this is dropped.
pub(super) struct Listening {
    changes: Changes,
    key: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.changes.lock().sinks.remove(&self.key);
    }
}
