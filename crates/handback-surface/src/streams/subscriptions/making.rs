//! Making a subscription: checked, counted, linked with the streams that are there, and stored.

use std::sync::Arc;

use handback_store::StoreError;
use handback_tool::Exhausted;

use super::book::{Entry, Full, Scan};
use super::manager::Subscriptions;
use super::owners::Owner;
use super::slices::{Budget, blocking};
use super::state::{Config, Subscription, TOO_MANY_LINKS};
use super::worker::Worker;

/// Why a subscription was not made.
#[derive(Debug)]
pub(super) enum NotMade {
    Exists,
    Exhausted(Exhausted),
    Links(&'static str),
    Store(StoreError),
    Stopping,
}

/// Whether a subscription is new or was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    New,
    Known,
}

impl Subscriptions {
    /// Makes a subscription, or finds it as it was made before.
    pub(super) async fn make(
        self: &Arc<Self>,
        owner: String,
        id: String,
        config: Config,
    ) -> Result<Made, NotMade> {
        // A caller that leaves does not leave half of it.
        let this = Arc::clone(self);
        let made = tokio::spawn(async move {
            let found = this.owners.get_or_new(&owner);
            let made = {
                let _making = found.making.lock().await;
                let made = this.make_of(&found, &owner, &id, config).await;
                if made.is_err() {
                    found.book.lock().await.abandon(&id);
                }
                made
            };
            this.owners.retire(found);
            made
        });
        match made.await {
            Ok(made) => made,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(NotMade::Stopping),
            },
        }
    }

    async fn make_of(
        self: &Arc<Self>,
        found: &Arc<Owner>,
        owner: &str,
        id: &str,
        config: Config,
    ) -> Result<Made, NotMade> {
        {
            let mut book = found.book.lock().await;
            if let Some(known) = book.get(id) {
                return if known.config == config { Ok(Made::Known) } else { Err(NotMade::Exists) };
            }
            // Stored by an older version, there may be more of them than are counted.
            if book.len() as u64 >= self.quotas.count.limit_of_stored(owner) {
                return Err(NotMade::Exhausted(Exhausted::Caller));
            }
            let subscription = Subscription::new(owner, id, config, self.streams.now());
            book.insert(Entry::new(subscription, &self.quotas)?);
        }
        // From now on, new streams are matched with it. Those that are there follow.
        let mut scan = Some((Scan::new(id.to_owned(), 0), true));
        while let Some((mut next, is_first)) = scan.take() {
            let mut book = Arc::clone(&found.book).lock_owned().await;
            let (this, found) = (Arc::clone(self), Arc::clone(found));
            let slice = move |budget: &mut Budget| {
                let (all, owner, book) = (&this, &*found, &mut *book);
                let mut worker = Worker { all, owner, book, budget, after: &mut Vec::new() };
                if is_first {
                    worker.link_named(&next.id)?;
                }
                let is_done = worker.link_existing(&mut next)?;
                Ok::<_, Full>((!is_done).then_some((next, false)))
            };
            scan = self.slices.run(slice).await.ok_or(NotMade::Stopping)??;
        }
        let (this, owner, id) = (Arc::clone(self), owner.to_owned(), id.to_owned());
        let mut book = Arc::clone(&found.book).lock_owned().await;
        let stored = blocking(move || {
            let Some(entry) = book.entry(&id) else { return Err(NotMade::Stopping) };
            if entry.subscription.is_incomplete {
                return Err(NotMade::Links(TOO_MANY_LINKS));
            }
            let now = this.streams.now();
            this.rows.store(&entry.subscription, now).map_err(NotMade::Store)?;
            book.made(&id);
            this.agenda.set((owner.as_str().into(), id), Some(now));
            Ok(Made::New)
        });
        stored.await.unwrap_or(Err(NotMade::Stopping))
    }
}

impl From<Exhausted> for NotMade {
    fn from(part: Exhausted) -> Self {
        Self::Exhausted(part)
    }
}

impl From<Full> for NotMade {
    fn from(full: Full) -> Self {
        match full {
            Full::Links => Self::Links(TOO_MANY_LINKS),
            Full::Quota(part) => Self::Exhausted(part),
        }
    }
}
