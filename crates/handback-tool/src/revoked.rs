//! What is not good any more, as of a moment ago.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handback_store::revocations::{Revocation, RevocationError, RevocationStore, Revocations};
use handback_store::{Kv, Millis, StoreError};
use tokio::time::Instant;

/// How old what is known may get before it is looked at again.
const FRESH_MS: Millis = 1_000;

/// Knows what was revoked, and looks again when that is a second old, or the clock went back.
#[derive(Clone)]
pub struct RevocationWatch {
    store: Arc<RevocationStore<Arc<dyn Kv>>>,
    known: Arc<Mutex<Known>>,
}

/// What was read last.
#[derive(Clone)]
struct Known {
    revocations: Revocations,
    /// When it was asked for. This clock does not go back.
    asked_at: Instant,
    /// How many were taken over before it.
    number: u64,
}

impl Known {
    /// How old it is by both clocks; `None` if the one of the server went back.
    fn age_ms(&self, now: Millis) -> Option<Millis> {
        let age = now.checked_sub(self.revocations.loaded_at())?;
        Some(age.max(self.elapsed_ms()))
    }

    fn elapsed_ms(&self) -> Millis {
        Millis::try_from(self.asked_at.elapsed().as_millis()).unwrap_or(Millis::MAX)
    }

    /// What is known, as old as it is, whatever became of the clock of the server since.
    fn aged(self, now: Millis) -> Revocations {
        let age = self.age_ms(now).unwrap_or_else(|| self.elapsed_ms());
        self.revocations.with_loaded_at(now.saturating_sub(age))
    }
}

impl RevocationWatch {
    /// Reads what is in the store.
    ///
    /// # Errors
    ///
    /// [`RevocationError`] if it cannot be read.
    pub fn new(kv: Arc<dyn Kv>, now: Millis) -> Result<Self, RevocationError> {
        let (store, asked_at) = (Arc::new(RevocationStore::new(kv)), Instant::now());
        let known = Known { revocations: store.load(now)?, asked_at, number: 0 };
        Ok(Self { store, known: Arc::new(Mutex::new(known)) })
    }

    /// The store, to revoke something.
    #[must_use]
    pub fn store(&self) -> &RevocationStore<Arc<dyn Kv>> {
        &self.store
    }

    /// Revokes something, here at once and in other processes within a second. Gives the number by
    /// which it can be lifted.
    ///
    /// # Errors
    ///
    /// [`RevocationError`].
    pub async fn revoke(
        &self,
        revocation: Revocation,
        now: Millis,
    ) -> Result<u64, RevocationError> {
        self.change(now, move |store| store.revoke(revocation, now)).await
    }

    /// Takes a revocation back; whether there was one with this number.
    ///
    /// # Errors
    ///
    /// [`RevocationError`].
    pub async fn lift(&self, number: u64, now: Millis) -> Result<bool, RevocationError> {
        self.change(now, move |store| store.lift(number, now)).await
    }

    async fn change<T: Send + 'static>(
        &self,
        now: Millis,
        change: impl FnOnce(&RevocationStore<Arc<dyn Kv>>) -> Result<T, RevocationError>
        + Send
        + 'static,
    ) -> Result<T, RevocationError> {
        let (store, known) = (Arc::clone(&self.store), self.lock().clone());
        let (old, number, asked_at) = (known.revocations, known.number, Instant::now());
        let work = move || Ok((change(&store)?, store.refresh(&old, now)?));
        let broken = || StoreError::Unavailable("the store broke down".to_owned());
        let done: Result<(T, Revocations), RevocationError> =
            tokio::task::spawn_blocking(work).await.map_err(|_| broken())?;
        let (changed, revocations) = done?;
        let _ = self.learn(Known { revocations, asked_at, number });
        Ok(changed)
    }

    /// What is known. If the store does not answer, that is what was known before: it says itself
    /// when it is too old.
    pub async fn current(&self, now: Millis) -> Revocations {
        let known = self.lock().clone();
        if known.age_ms(now).is_some_and(|age| age < FRESH_MS) {
            return known.revocations;
        }
        let (number, asked_at) = (known.number, Instant::now());
        let (store, old) = (Arc::clone(&self.store), known.revocations.clone());
        let refresh = move || store.refresh(&old, now);
        match tokio::task::spawn_blocking(refresh).await {
            Ok(Ok(revocations)) => self.learn(Known { revocations, asked_at, number }).aged(now),
            Ok(Err(error)) => {
                tracing::warn!(%error, "revocations cannot be read");
                known.aged(now)
            }
            Err(_) => known.aged(now),
        }
    }

    /// Takes over what was read, unless something newer is known. What shows less was read before,
    /// unless nothing was learned since it was asked for: then the store itself has gone back.
    fn learn(&self, fresh: Known) -> Known {
        let mut known = self.lock();
        if !fresh.revocations.is_behind(&known.revocations) || fresh.number == known.number {
            *known = Known { number: known.number.wrapping_add(1), ..fresh };
        }
        known.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RevocationWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RevocationWatch")
    }
}
