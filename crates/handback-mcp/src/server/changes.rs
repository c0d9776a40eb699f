//! Who wants to hear of changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{join, join_all};

use rmcp::RoleServer;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, SubscriptionSink};
use tokio::time::timeout;

use super::session::Session;

/// Tells those who listen, over all connections: newer clients by the streams that they opened for
/// it, older ones by their sessions. Clones tell the same ones.
#[derive(Clone, Default)]
pub struct Changes(Arc<Mutex<Listeners>>);

/// How long one who listens is waited for: who does not read holds nobody else up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether one who listens may read a resource.
type MayRead = Arc<dyn Fn(&str) -> bool + Send + Sync>;

#[derive(Default)]
struct Listeners {
    next: u64,
    sinks: BTreeMap<u64, (SubscriptionSink, MayRead)>,
    sessions: Vec<(Peer<RoleServer>, Arc<Session>)>,
}

impl Changes {
    /// The list of tools has changed.
    pub async fn tools(&self) {
        self.tell_all(
            async |sink| drop(sink.notify_tool_list_changed().await),
            async |peer| drop(peer.notify_tool_list_changed().await),
        )
        .await;
    }

    /// The list of prompts has changed.
    pub async fn prompts(&self) {
        self.tell_all(
            async |sink| drop(sink.notify_prompt_list_changed().await),
            async |peer| drop(peer.notify_prompt_list_changed().await),
        )
        .await;
    }

    /// The list of resources has changed.
    pub async fn resources(&self) {
        self.tell_all(
            async |sink| drop(sink.notify_resource_list_changed().await),
            async |peer| drop(peer.notify_resource_list_changed().await),
        )
        .await;
    }

    /// A resource has changed. Those hear of it who asked for it, and may read it.
    pub async fn resource(&self, uri: &str) {
        let mut sinks = self.sinks();
        sinks.retain(|(_, may_read)| may_read(uri));
        let sinks = sinks.iter().map(async |(sink, _)| {
            let told = sink.notify_resource_updated(uri);
            let _ = timeout(PATIENCE, told).await;
        });
        let mut sessions = self.sessions();
        sessions.retain(|(_, session)| session.follows(uri));
        let sessions = sessions.iter().map(async |(peer, _)| {
            let told = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri));
            let _ = timeout(PATIENCE, told).await;
        });
        join(join_all(sinks), join_all(sessions)).await;
    }

    /// Tells everybody, each on its own. One that did not ask for this, or is gone, is told nothing.
    async fn tell_all(
        &self,
        sink: impl AsyncFn(&SubscriptionSink),
        peer: impl AsyncFn(&Peer<RoleServer>),
    ) {
        let (sinks, sessions) = (self.sinks(), self.sessions());
        let sinks = sinks.iter().map(async |(one, _)| drop(timeout(PATIENCE, sink(one)).await));
        let sessions =
            sessions.iter().map(async |(one, _)| drop(timeout(PATIENCE, peer(one)).await));
        join(join_all(sinks), join_all(sessions)).await;
    }

    pub(super) fn enter(&self, sink: SubscriptionSink, may_read: MayRead) -> Listening {
        let mut listeners = self.lock();
        let key = listeners.next;
        listeners.next += 1;
        listeners.sinks.insert(key, (sink, may_read));
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

    fn sinks(&self) -> Vec<(SubscriptionSink, MayRead)> {
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
