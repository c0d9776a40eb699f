//! All subscriptions: kept in the store, woken when streams grow.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use handback_store::{Change, Kv, KvBatch, KvError, StoreError};
use handback_stream::{Append, Command, Offset, Payload, Reply, SigningKey, StreamName, View};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex, MutexGuard};

use super::deliver::{Target, Targets};
use super::state::{Fault, Kind, Link, MAX_LINKS, Subscription, Tails};
use crate::streams::driver::Streams;

/// Subscriptions of a server.
const MAX_SUBSCRIPTIONS: usize = 10_000;

/// What their keys start with.
const KEY_PREFIX: &[u8] = b"sub/";

/// How many are read from the store at a time.
const PER_READ: usize = 256;

/// How often subscriptions are looked at when nothing happens.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long they are left alone after that, so that a busy server looks at them once for many
/// appends.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// All subscriptions of a server.
pub(crate) struct Subscriptions {
    pub(super) streams: Arc<Streams>,
    kv: Arc<dyn Kv>,
    key: SigningKey,
    pub(super) targets: Targets,
    /// What URLs of this server start with.
    base: String,
    all: Mutex<HashMap<(String, String), Subscription>>,
}

impl Subscriptions {
    /// Those that are stored, and a task that wakes them as long as they are used.
    pub(crate) fn open(
        streams: Arc<Streams>,
        kv: Arc<dyn Kv>,
        key: SigningKey,
        targets: Targets,
        base: String,
    ) -> Result<Arc<Self>, StoreError> {
        let mut all = HashMap::new();
        let mut after: Option<Bytes> = None;
        loop {
            let some = kv.scan(KEY_PREFIX, after.as_deref(), PER_READ, streams.now())?;
            let Some((last, _)) = some.last() else { break };
            after = Some(last.clone());
            for (_, value) in &some {
                let subscription: Subscription = serde_json::from_slice(value)
                    .map_err(|_| StoreError::Damaged("a subscription".to_owned()))?;
                let key = (subscription.owner.clone(), subscription.id.clone());
                all.insert(key, subscription);
            }
        }
        let this = Arc::new(Self { streams, kv, key, targets, base, all: Mutex::new(all) });
        let weak = Arc::downgrade(&this);
        let mut changes = this.streams.changes();
        tokio::spawn(async move {
            loop {
                let _ = tokio::time::timeout(LOOK_EVERY, changes.changed()).await;
                let Some(this) = weak.upgrade() else { return };
                this.look().await;
                drop(this);
                tokio::time::sleep(LOOK_PAUSE).await;
            }
        });
        Ok(this)
    }

    pub(super) async fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), Subscription>> {
        self.all.lock().await
    }

    /// Looks whether there is something to do for anyone.
    async fn look(self: &Arc<Self>) {
        let now = self.streams.now();
        let mut all = self.all.lock().await;
        let keys: Vec<_> = all.keys().cloned().collect();
        if keys.is_empty() {
            return;
        }
        let views = self.streams.all();
        for key in keys {
            let Some(subscription) = all.get_mut(&key) else { continue };
            self.link_new(subscription, &views);
            let expired = subscription.expire(now);
            if expired && subscription.config.kind == Kind::Webhook {
                subscription.failed(now, jitter());
            }
            let is_unheard = subscription
                .wake
                .as_ref()
                .is_some_and(|wake| !wake.announced && wake.holder.is_none());
            if is_unheard {
                self.announce(subscription).await;
            }
            if subscription.is_busy() || subscription.next_attempt_ms > now {
                continue;
            }
            let tails = self.tails(&subscription.owner);
            if subscription.has_pending(&*tails) {
                let copy = subscription.clone();
                if let Err(error) = self.wake(subscription).await {
                    tracing::warn!(%error, id = copy.id, "a subscription was not woken");
                    *subscription = copy;
                }
            }
        }
    }

    /// Links streams that match and were not there before. What they have is new.
    fn link_new(&self, subscription: &mut Subscription, views: &[View]) {
        if subscription.config.pattern.is_none() {
            return;
        }
        for view in views {
            let path = view.meta.path();
            if subscription.links.len() >= MAX_LINKS
                || subscription.links.contains_key(path)
                || !self.is_of(&subscription.owner, view)
                || !subscription.covers(path)
            {
                continue;
            }
            let acked = view.meta.segments().last().map_or(0, |own| own.after);
            subscription.links.insert(path.to_owned(), Link { explicit: false, acked });
        }
    }

    fn is_of(&self, owner: &str, view: &View) -> bool {
        StreamName::new(owner, view.meta.path())
            .is_ok_and(|name| name.id() == view.meta.id().name())
    }

    /// How far the streams of an owner are.
    pub(super) fn tails(&self, owner: &str) -> Box<Tails<'_>> {
        let owner = owner.to_owned();
        Box::new(move |path| {
            let name = StreamName::new(owner.as_str(), path).ok()?;
            self.streams.view(name.id()).filter(|view| !view.deleted).map(|view| view.number)
        })
    }

    /// Links what matches now, at its end.
    pub(super) fn link_existing(&self, subscription: &mut Subscription) {
        let tails = self.tails(&subscription.owner);
        for path in subscription.config.streams.clone() {
            let acked = tails(&path).unwrap_or(0);
            subscription.links.insert(path, Link { explicit: true, acked });
        }
        for view in self.streams.all() {
            let path = view.meta.path().to_owned();
            if subscription.links.len() < MAX_LINKS
                && self.is_of(&subscription.owner, &view)
                && subscription.covers(&path)
            {
                let link = Link { explicit: false, acked: view.number };
                subscription.links.entry(path).or_insert(link);
            }
        }
    }

    /// Starts a wake, and tells of it.
    async fn wake(self: &Arc<Self>, subscription: &mut Subscription) -> Result<(), StoreError> {
        let now = self.streams.now();
        let (wake_id, token) = (format!("w_{}", random()), random());
        {
            let tails = self.tails(&subscription.owner);
            subscription.start(wake_id, &token, now, &*tails);
        }
        self.store(subscription)?;
        match subscription.config.kind {
            Kind::Webhook => self.deliver(subscription, &token),
            Kind::PullWake => self.announce(subscription).await,
        }
        Ok(())
    }

    /// Writes the wake to its stream, and notes that. One that was written and not noted is written
    /// again: workers race for it anyway.
    async fn announce(&self, subscription: &mut Subscription) {
        if !self.write_wake(subscription).await {
            return;
        }
        if let Some(wake) = &mut subscription.wake {
            wake.announced = true;
        }
        if let Err(error) = self.store(subscription) {
            tracing::warn!(%error, "a subscription was not stored");
        }
    }

    async fn write_wake(&self, subscription: &Subscription) -> bool {
        let Some(path) = &subscription.config.wake_stream else { return false };
        let Ok(name) = StreamName::new(subscription.owner.as_str(), path) else { return false };
        let tails = self.tails(&subscription.owner);
        let pending = subscription
            .links
            .iter()
            .find(|(path, link)| tails(path).is_some_and(|tail| tail > link.acked));
        let now = self.streams.now();
        let event = json!({
            "type": "wake",
            "subscription_id": subscription.id,
            "stream": pending.map(|(path, _)| path),
            "generation": subscription.generation,
            "ts": now,
        });
        drop(tails);
        let is_json = self.streams.view(name.id()).is_some_and(|view| view.meta.is_json());
        let Ok(payload) = Payload::parse(Bytes::from(event.to_string()), is_json) else {
            return false;
        };
        let size = payload.bytes.len();
        let append = Append::new(name.id(), Some(payload), false, now);
        match self.streams.command(Command::Append(append), size).await {
            Ok(Reply::Appended(_)) => true,
            other => {
                tracing::debug!(?other, path, "a wake was not written to its stream");
                false
            }
        }
    }

    /// Sends the webhook, and takes what comes back.
    fn deliver(self: &Arc<Self>, subscription: &Subscription, token: &str) {
        let Some(webhook) = &subscription.config.webhook else { return };
        let Some(wake) = subscription.wake.clone() else { return };
        let target = Target::parse(&webhook.url, self.targets);
        let body = json!({
            "subscription_id": subscription.id,
            "wake_id": wake.id,
            "generation": wake.generation,
            "streams": self.told(subscription),
            "callback_url":
                format!("{}/v1/stream/__ds/subscriptions/{}/callback", self.base, subscription.id),
            "callback_token": token,
        });
        let body = Bytes::from(body.to_string());
        let time = (self.streams.now() / 1000).to_string();
        let signed = [time.as_bytes(), b".", &body].concat();
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(&signed));
        let signature = format!("t={time},kid={},ed25519={signature}", self.key_id());
        let this = Arc::clone(self);
        let key = (subscription.owner.clone(), subscription.id.clone());
        tokio::spawn(async move {
            let answer = match target {
                Some(target) => target.post(body, &signature).await,
                None => None,
            };
            this.delivered(&key, &wake.id, answer.as_deref()).await;
        });
    }

    async fn delivered(
        self: &Arc<Self>,
        key: &(String, String),
        wake_id: &str,
        answer: Option<&[u8]>,
    ) {
        let mut all = self.all.lock().await;
        let Some(subscription) = all.get_mut(key) else { return };
        if subscription.wake.as_ref().is_none_or(|wake| wake.id != wake_id) {
            return;
        }
        match answer {
            None => subscription.failed(self.streams.now(), jitter()),
            Some(answer) => {
                subscription.succeeded();
                let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
                if answer.get("done") == Some(&Value::Bool(true)) {
                    subscription.ack_snapshot();
                }
            }
        }
        if let Err(error) = self.store(subscription) {
            tracing::warn!(%error, "a subscription was not stored");
        }
    }

    /// The streams of a subscription, as a wake tells of them.
    pub(super) fn told(&self, subscription: &Subscription) -> Vec<Value> {
        let tails = self.tails(&subscription.owner);
        let told = |(path, link): (&String, &Link)| {
            let tail = tails(path).unwrap_or(link.acked);
            json!({
                "path": path,
                "link_type": if link.explicit { "explicit" } else { "glob" },
                "acked_offset": Offset::after(link.acked).to_string(),
                "tail_offset": Offset::after(tail).to_string(),
                "has_pending": tail > link.acked,
            })
        };
        subscription.links.iter().map(told).collect()
    }

    /// Stores a subscription.
    pub(super) fn store(&self, subscription: &Subscription) -> Result<(), StoreError> {
        let value = serde_json::to_vec(subscription)
            .map_err(|_| StoreError::Damaged("a subscription".to_owned()))?;
        let change = Change::Put { value: value.into(), until: None };
        self.change(&subscription.owner, &subscription.id, change)
    }

    pub(super) fn remove(&self, owner: &str, id: &str) -> Result<(), StoreError> {
        self.change(owner, id, Change::Remove)
    }

    fn change(&self, owner: &str, id: &str, change: Change) -> Result<(), StoreError> {
        // A digest of both, whatever characters they have.
        let mut digest = Sha256::new();
        for part in [owner, id] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let name: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let key = Bytes::from([KEY_PREFIX, name.as_bytes()].concat());
        let batch = KvBatch { conditions: Vec::new(), changes: vec![(key, change)] };
        self.kv.write(&batch, self.streams.now()).map_err(|error| match error {
            KvError::Store(error) => error,
            _ => StoreError::Unavailable("a condition".to_owned()),
        })
    }

    /// Whether there is room for one more.
    pub(super) const fn has_room(count: usize) -> bool {
        count < MAX_SUBSCRIPTIONS
    }

    pub(super) fn key_id(&self) -> String {
        format!("ds_{}", self.key.public().id())
    }

    pub(super) fn public_key(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.key.public().as_bytes())
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Claims a wake for a worker: the one that waits, or a new one if there is something to do.
    pub(super) async fn claim(
        &self,
        subscription: &mut Subscription,
        worker: &str,
    ) -> Result<String, Claim> {
        let now = self.streams.now();
        subscription.expire(now);
        if let Some(holder) = subscription.wake.as_ref().and_then(|wake| wake.holder.clone()) {
            return Err(Claim::Held(holder));
        }
        let views = self.streams.all();
        self.link_new(subscription, &views);
        let token = random();
        let tails = self.tails(&subscription.owner);
        if subscription.wake.is_none() {
            if !subscription.has_pending(&*tails) {
                return Err(Claim::Nothing);
            }
            subscription.start(format!("w_{}", random()), &token, now, &*tails);
        }
        subscription.claim(worker, &token, now, &*tails);
        Ok(token)
    }

    /// Takes acks, and ends the wake or extends its lease. Whether there is more to do.
    pub(super) fn acked(
        &self,
        subscription: &mut Subscription,
        acks: &[(String, Offset)],
        done: bool,
    ) -> Result<bool, Fault> {
        let now = self.streams.now();
        let tails = self.tails(&subscription.owner);
        subscription.ack(acks, &*tails)?;
        subscription.succeeded();
        if !done {
            let lease = now + subscription.config.lease_ms();
            if let Some(wake) = &mut subscription.wake {
                wake.lease_until_ms = Some(lease);
            }
            return Ok(false);
        }
        subscription.wake = None;
        Ok(subscription.has_pending(&*tails))
    }
}

/// Why a wake was not claimed.
#[derive(Debug)]
pub(super) enum Claim {
    Held(String),
    Nothing,
}

impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriptions").field("base", &self.base).finish_non_exhaustive()
    }
}

/// 128 random bits as text.
fn random() -> String {
    let bytes: [u8; 16] = rand::random();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// -20 to 20 percent.
fn jitter() -> i64 {
    i64::from(rand::random::<u8>() % 41) - 20
}

/// Acks of a request: where streams were processed up to.
pub(super) fn acks(value: Option<&Value>) -> Option<Vec<(String, Offset)>> {
    let Some(value) = value else { return Some(Vec::new()) };
    let acks = value.as_array()?.iter().map(|ack| {
        let path = ack.get("stream").or_else(|| ack.get("path"))?.as_str()?;
        let offset = ack.get("offset")?.as_str()?.parse().ok()?;
        Some((super::state::normal_path(path), offset))
    });
    acks.collect::<Option<BTreeMap<_, _>>>().map(|acks| acks.into_iter().collect())
}
