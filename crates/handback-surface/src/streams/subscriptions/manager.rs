//! All subscriptions: stored, and woken when streams grow.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use handback_store::{Kv, StoreError};
use handback_stream::{Append, Command, Offset, Payload, Reply, SigningKey, StreamName};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::agenda::Agenda;
use super::book::{Book, Entry, Scan, SubscriptionQuotas, Todo};
use super::deliver;
use super::owners::{Owner, Owners};
use super::rows::Rows;
use super::signer::Signer;
use super::slices::{Slices, blocking};
use super::state::{Kind, Subscription};
use super::tails::tails;
use super::target::WebhookTargets;
use crate::streams::driver::Streams;

/// Milliseconds until a wake is tried again that was not stored.
const RETRY_MS: u64 = 250;

/// Webhooks of all owners in flight: half of the files that connections leave to the store and to
/// requests of the server.
const MAX_DELIVERIES: usize = 128;

/// All subscriptions of a server.
pub(crate) struct Subscriptions {
    pub(super) streams: Arc<Streams>,
    pub(super) rows: Rows,
    pub(super) signer: Signer,
    pub(super) targets: WebhookTargets,
    pub(super) quotas: SubscriptionQuotas,
    pub(super) owners: Owners,
    pub(super) agenda: Agenda,
    pub(super) slices: Slices,
    deliveries: Semaphore,
    /// The time at which the subscriptions were loaded.
    pub(super) opened_ms: u64,
}

/// The parts that [`Subscriptions::open`] needs.
pub(crate) struct Parts {
    pub(crate) kv: Arc<dyn Kv>,
    pub(crate) key: SigningKey,
    pub(crate) targets: WebhookTargets,
    pub(crate) base: String,
    pub(crate) quotas: SubscriptionQuotas,
}

impl Subscriptions {
    /// Loads the stored subscriptions. Matching is left to [`Subscriptions::run`].
    pub(crate) fn open(streams: Arc<Streams>, parts: Parts) -> Result<Arc<Self>, StoreError> {
        let Parts { kv, key, targets, base, quotas } = parts;
        let this = Arc::new(Self {
            rows: Rows(kv),
            signer: Signer::new(key, base),
            targets,
            quotas,
            owners: Owners::new(Arc::clone(&streams)),
            agenda: Agenda::new(streams.directory().notify()),
            slices: Slices::default(),
            deliveries: Semaphore::new(MAX_DELIVERIES),
            opened_ms: streams.now(),
            streams,
        });
        this.rows.load(this.opened_ms, |subscription| this.add_stored(subscription))?;
        tokio::spawn(Self::run(Arc::downgrade(&this)));
        Ok(this)
    }

    fn add_stored(&self, subscription: Subscription) {
        let owner = self.owners.get_or_new(&subscription.owner);
        // Nobody else has it yet.
        let Ok(mut book) = owner.book.try_lock() else { return };
        let id = subscription.id.clone();
        book.todo.push_back(Todo::Renew { id: id.clone(), after: None });
        let since = match subscription.is_incomplete {
            true => subscription.created_ms,
            false => subscription.matched_ms,
        };
        let todo = match &subscription.config.pattern {
            Some(_) => Todo::Scan(Scan::new(id, since)),
            None => Todo::Look { id, path: None },
        };
        book.todo.push_back(todo);
        book.insert(Entry::stored(subscription, &self.quotas));
    }

    /// Does something with the subscriptions of an owner, on a thread that may block. Returns nothing
    /// if there are none.
    pub(super) async fn with_book<T: Send + 'static>(
        self: &Arc<Self>,
        owner: &str,
        work: impl FnOnce(&Arc<Self>, &mut Book) -> T + Send + 'static,
    ) -> Option<T> {
        let owner = self.owners.get(owner)?;
        let mut book = Arc::clone(&owner.book).lock_owned().await;
        let this = Arc::clone(self);
        blocking(move || work(&this, &mut book)).await
    }

    /// Looks whether a subscription has something to do, because of one of its streams or of any.
    pub(super) fn look(self: &Arc<Self>, book: &mut Book, id: &str, path: Option<&str>) {
        let now = self.streams.now();
        let Some(subscription) = book.get_mut(id) else { return };
        let has_expired = subscription.expire(now);
        if has_expired && subscription.config.kind == Kind::Webhook {
            subscription.failed(now, jitter());
        }
        // The end of a lease concerns all streams, also those that did not grow.
        let path = path.filter(|_| !has_expired);
        if subscription.is_unannounced() {
            self.announce(subscription);
        }
        let mut retry = None;
        if !subscription.is_busy() && subscription.next_attempt_ms <= now {
            let tails = tails(&self.streams, &subscription.owner);
            let has_pending = match path {
                Some(path) => subscription.has_pending_in(path, &*tails),
                None => subscription.has_pending(&*tails),
            };
            if has_pending {
                let mut next = subscription.clone();
                match self.wake(&mut next) {
                    Ok(()) => *subscription = next,
                    Err(error) => {
                        tracing::warn!(%error, id, "a subscription was not woken");
                        retry = Some(now + RETRY_MS);
                    }
                }
            } else if path.is_some() {
                // A look at all streams may be on the agenda: this one does not replace it.
                return;
            }
        }
        self.agenda.plan(subscription, now, retry);
    }

    /// Starts a wake and announces it.
    fn wake(self: &Arc<Self>, subscription: &mut Subscription) -> Result<(), StoreError> {
        let now = self.streams.now();
        let (wake_id, token) = (format!("w_{}", random()), random());
        {
            let tails = tails(&self.streams, &subscription.owner);
            subscription.start(wake_id, &token, now, &*tails);
        }
        self.rows.store(subscription, self.streams.now())?;
        match subscription.config.kind {
            Kind::Webhook => self.deliver(subscription, token),
            Kind::PullWake => self.announce(subscription),
        }
        Ok(())
    }

    /// Writes the wake to its stream, and notes that. A wake that was written and not noted is written
    /// again: workers race for it anyway.
    fn announce(&self, subscription: &mut Subscription) {
        if !self.write_wake(subscription) {
            return;
        }
        if let Some(wake) = &mut subscription.wake {
            wake.announced = true;
        }
        if let Err(error) = self.rows.store(subscription, self.streams.now()) {
            tracing::warn!(%error, "a subscription was not stored");
        }
    }

    fn write_wake(&self, subscription: &Subscription) -> bool {
        let Some(path) = &subscription.config.wake_stream else { return false };
        let Ok(name) = StreamName::new(subscription.owner.as_str(), path) else { return false };
        let Some(view) = self.streams.view(name.id()).filter(|view| !view.deleted) else {
            return false;
        };
        let tails = tails(&self.streams, &subscription.owner);
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
        let Ok(payload) = Payload::parse(Bytes::from(event.to_string()), view.meta.is_json())
        else {
            return false;
        };
        let size = payload.bytes.len();
        let append = Append::new(name.id(), Some(payload), false, now);
        // This thread may block.
        match Handle::current().block_on(self.streams.command(Command::Append(append), size)) {
            Ok(Reply::Appended(_)) => true,
            other => {
                tracing::debug!(?other, path, "a wake was not written to its stream");
                false
            }
        }
    }

    /// Sends the webhook of a wake in its turn, and takes the response.
    fn deliver(self: &Arc<Self>, subscription: &Subscription, token: String) {
        let Some(wake) = &subscription.wake else { return };
        let Some(owner) = self.owners.get(&subscription.owner) else { return };
        let (id, wake_id) = (subscription.id.clone(), wake.id.clone());
        let this = Arc::clone(self);
        tokio::spawn(async move {
            this.deliver_in_turn(&owner, id, wake_id, token).await;
            this.owners.retire(owner);
        });
    }

    async fn deliver_in_turn(
        self: &Arc<Self>,
        owner: &Owner,
        id: String,
        wake_id: String,
        token: String,
    ) {
        let Ok(_of_owner) = owner.deliveries.acquire().await else { return };
        let Ok(_of_all) = self.deliveries.acquire().await else { return };
        let binding = Arc::clone(owner.namespace.owner());
        let (of_id, of_wake) = (id.clone(), wake_id.clone());
        let request = move |this: &Arc<Self>, book: &mut Book| {
            this.webhook_request(book.get(&of_id)?, &of_wake, &token)
        };
        // The wake may have ended before its turn.
        let Some(Some((url, body))) = self.with_book(&binding, request).await else { return };
        let signature = self.signer.header(&body, self.streams.now());
        let answer = deliver::post(&self.targets, &url, body, &signature).await;
        let done = move |this: &Arc<Self>, book: &mut Book| {
            this.delivered(book, &id, &wake_id, answer.as_deref());
        };
        self.with_book(&binding, done).await;
    }

    /// The URL and the body of the webhook of a wake, unless the wake has ended.
    fn webhook_request(
        &self,
        subscription: &Subscription,
        wake_id: &str,
        token: &str,
    ) -> Option<(String, Bytes)> {
        let wake = subscription.wake.as_ref().filter(|wake| wake.id == wake_id)?;
        let url = subscription.config.webhook.as_ref()?.url.clone();
        let body = json!({
            "subscription_id": subscription.id,
            "wake_id": wake.id,
            "generation": wake.generation,
            "streams": subscription.progress(&|path: &str| wake.snapshot.get(path).copied()),
            "callback_url": self.signer.callback_url(&subscription.id),
            "callback_token": token,
        });
        Some((url, Bytes::from(body.to_string())))
    }

    fn delivered(
        self: &Arc<Self>,
        book: &mut Book,
        id: &str,
        wake_id: &str,
        answer: Option<&[u8]>,
    ) {
        let Some(subscription) = book.get_mut(id) else { return };
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
        if let Err(error) = self.rows.store(subscription, self.streams.now()) {
            tracing::warn!(%error, "a subscription was not stored");
        }
        self.agenda.plan_after(subscription, self.streams.now());
    }
}

impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriptions").field("targets", &self.targets).finish_non_exhaustive()
    }
}

/// 128 random bits as text.
pub(super) fn random() -> String {
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
