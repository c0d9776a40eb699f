//! What is not good any more, as of a moment ago.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handback_store::revocations::{Revocation, RevocationError, RevocationStore, Revocations};
use handback_store::{Kv, Millis, StoreError};

/// How old what is known may get before it is looked at again.
const FRESH_MS: Millis = 1_000;

/// Knows what was revoked, and looks again when that is a second old.
#[derive(Clone)]
pub struct RevocationWatch {
    store: Arc<RevocationStore<Arc<dyn Kv>>>,
    known: Arc<Mutex<Revocations>>,
}

impl RevocationWatch {
    /// Reads what is in the store.
    ///
    /// # Errors
    ///
    /// [`RevocationError`] if it cannot be read.
    pub fn new(kv: Arc<dyn Kv>, now: Millis) -> Result<Self, RevocationError> {
        let store = Arc::new(RevocationStore::new(kv));
        let known = Arc::new(Mutex::new(store.load(now)?));
        Ok(Self { store, known })
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
        let (store, old) = (Arc::clone(&self.store), self.lock().clone());
        let work = move || Ok((change(&store)?, store.refresh(&old, now)?));
        let broken = || StoreError::Unavailable("the store broke down".to_owned());
        let done: Result<(T, Revocations), RevocationError> =
            tokio::task::spawn_blocking(work).await.map_err(|_| broken())?;
        let (changed, fresh) = done?;
        let _ = self.learn(fresh);
        Ok(changed)
    }

    /// What is known. If the store does not answer, that is what was known before: it says itself
    /// when it is too old.
    pub async fn current(&self, now: Millis) -> Revocations {
        let known = self.lock().clone();
        if now.saturating_sub(known.loaded_at()) < FRESH_MS {
            return known;
        }
        let (store, old) = (Arc::clone(&self.store), known.clone());
        let refresh = move || store.refresh(&old, now);
        match tokio::task::spawn_blocking(refresh).await {
            Ok(Ok(fresh)) => self.learn(fresh),
            Ok(Err(error)) => {
                tracing::warn!(%error, "revocations cannot be read");
                known
            }
            Err(_) => known,
        }
    }

    /// Takes over what was read, unless something newer is known.
    fn learn(&self, fresh: Revocations) -> Revocations {
        let mut known = self.lock();
        if fresh.loaded_at() >= known.loaded_at() {
            *known = fresh;
        }
        known.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Revocations> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RevocationWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RevocationWatch")
    }
}
