//! Subscriptions in the store.

use std::sync::Arc;

use bytes::Bytes;
use handback_store::{Change, Kv, KvBatch, KvError, Millis, StoreError};
use sha2::{Digest as _, Sha256};

use super::state::Subscription;

/// Prefix of the keys of subscriptions.
const KEY_PREFIX: &[u8] = b"sub/";

/// Subscriptions that are read at a time.
const PER_READ: usize = 16;

/// Stored subscriptions beyond the bounds that have a line each in the log.
const MAX_WARNINGS: usize = 10;

/// The rows of all subscriptions.
pub(super) struct Rows(pub(super) Arc<dyn Kv>);

impl Rows {
    /// Hands every stored subscription to `add`. One that breaks the bounds of today was stored by an
    /// older version: the row stays until its owner removes or replaces it, and is not used.
    pub(super) fn load(
        &self,
        now: Millis,
        mut add: impl FnMut(Subscription),
    ) -> Result<(), StoreError> {
        let mut after: Option<Bytes> = None;
        let mut refused = 0;
        loop {
            let some = self.0.scan(KEY_PREFIX, after.as_deref(), PER_READ, now)?;
            let Some((last, _)) = some.last() else { break };
            after = Some(last.clone());
            for (_, value) in &some {
                let stored: Subscription = serde_json::from_slice(value)
                    .map_err(|_| StoreError::Damaged("a subscription".to_owned()))?;
                let id = stored.id.clone();
                match stored.checked() {
                    Ok(subscription) => add(subscription),
                    Err(why) => {
                        refused += 1;
                        if refused <= MAX_WARNINGS {
                            tracing::warn!(id, why, "a stored subscription is not used");
                        }
                    }
                }
            }
        }
        if refused > MAX_WARNINGS {
            tracing::warn!(refused, "stored subscriptions are not used");
        }
        Ok(())
    }

    pub(super) fn store(&self, subscription: &Subscription, now: Millis) -> Result<(), StoreError> {
        let value = serde_json::to_vec(subscription)
            .map_err(|_| StoreError::Damaged("a subscription".to_owned()))?;
        let change = Change::Put { value: value.into(), until: None };
        self.change(key(&subscription.owner, &subscription.id), change, now)
    }

    /// Removes a stored subscription, also one that is not used.
    pub(super) fn remove(&self, owner: &str, id: &str, now: Millis) -> Result<(), StoreError> {
        let key = key(owner, id);
        match self.0.get(&key, now)? {
            Some(_) => self.change(key, Change::Remove, now),
            None => Ok(()),
        }
    }

    fn change(&self, key: Bytes, change: Change, now: Millis) -> Result<(), StoreError> {
        let batch = KvBatch { conditions: Vec::new(), changes: vec![(key, change)] };
        self.0.write(&batch, now).map_err(|error| match error {
            KvError::Store(error) => error,
            _ => StoreError::Unavailable("a condition".to_owned()),
        })
    }
}

/// The key of a subscription: a digest, whatever characters the owner and the id have.
fn key(owner: &str, id: &str) -> Bytes {
    let mut digest = Sha256::new();
    for part in [owner, id] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let name: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Bytes::from([KEY_PREFIX, name.as_bytes()].concat())
}
