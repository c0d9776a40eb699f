//! Who wants to hear of changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, SubscriptionSink};

use super::session::Session;

/// Tells those who listen, over all connections: newer clients by the streams that they opened for
/// it, older ones by their sessions. Clones tell the same ones.
#[derive(Clone, Default)]
pub struct Changes(Arc<Mutex<Listeners>>);

#[derive(Default)]
struct Listeners {
    next: u64,
    sinks: BTreeMap<u64, SubscriptionSink>,
    sessions: Vec<(Peer<RoleServer>, Arc<Session>)>,
}

impl Changes {
    /// The list of tools has changed.
    pub async fn tools(&self) {
        for sink in self.all() {
            // One that did not ask for this, or is gone, is told nothing.
            let _ = sink.notify_tool_list_changed().await;
        }
        for (peer, _) in self.sessions() {
            let _ = peer.notify_tool_list_changed().await;
        }
    }

    /// The list of prompts has changed.
    pub async fn prompts(&self) {
        for sink in self.all() {
            let _ = sink.notify_prompt_list_changed().await;
        }
        for (peer, _) in self.sessions() {
            let _ = peer.notify_prompt_list_changed().await;
        }
    }

    /// The list of resources has changed.
    pub async fn resources(&self) {
        for sink in self.all() {
            let _ = sink.notify_resource_list_changed().await;
        }
        for (peer, _) in self.sessions() {
            let _ = peer.notify_resource_list_changed().await;
        }
    }

    /// A resource has changed.
    pub async fn resource(&self, uri: &str) {
        for sink in self.all() {
            let _ = sink.notify_resource_updated(uri).await;
        }
        for (peer, _) in self.sessions().into_iter().filter(|(_, session)| session.follows(uri)) {
            let updated = ResourceUpdatedNotificationParam::new(uri);
            let _ = peer.notify_resource_updated(updated).await;
        }
    }

    pub(super) fn enter(&self, sink: SubscriptionSink) -> Listening {
        let mut listeners = self.lock();
        let key = listeners.next;
        listeners.next += 1;
        listeners.sinks.insert(key, sink);
        Listening { changes: self.clone(), key }
    }

    /// Tells an older client from now on, as long as its session is there.
    pub(super) fn tell(&self, peer: Peer<RoleServer>, session: &Arc<Session>) {
        if session.begins() {
            let sessions = &mut self.lock().sessions;
            sessions.retain(|(peer, _)| !peer.is_transport_closed());
            sessions.push((peer, Arc::clone(session)));
        }
    }

    fn sessions(&self) -> Vec<(Peer<RoleServer>, Arc<Session>)> {
        let sessions = &mut self.lock().sessions;
        sessions.retain(|(peer, _)| !peer.is_transport_closed());
        sessions.clone()
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
        let listeners = self.lock();
        write!(f, "Changes({} listeners)", listeners.sinks.len() + listeners.sessions.len())
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
