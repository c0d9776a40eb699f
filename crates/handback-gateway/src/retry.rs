//! Identical calls that are taken for another try.
//!
//! Where configuration says so, a call without a key gets one of its own: a new one, unless the same
//! caller made the same call within a minute and did not get the answer. Then it is the same call,
//! and the journal does the rest. Who got the answer and calls again wants another one.
//!
//! What was tried is remembered in this process only: after a restart, an identical call is a new one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handback_token::ArgsFingerprint;
use rand::RngExt as _;
use tokio::time::Instant;

/// For how long an identical call is another try.
pub const WINDOW: Duration = Duration::from_secs(60);

/// Calls that are remembered at most. Beyond them, a call is a new one.
const REMEMBERED_MAX: usize = 10_000;

/// What a call is told by: who, at which upstream, what, with which arguments.
type What = (String, String, String, [u8; 32]);

/// Calls whose answers may not have arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retries(Arc<Mutex<HashMap<What, Tried>>>);

#[derive(Clone, Debug)]
struct Tried {
    key: String,
    at: Instant,
    /// How many wait for its answer.
    waiting: usize,
}

/// Somebody who waits for the answer of a call.
#[derive(Debug)]
pub(crate) struct Waiting {
    retries: Retries,
    what: What,
    key: String,
    is_delivered: bool,
}

impl Retries {
    /// The key of a call without one.
    pub(crate) fn key(
        &self,
        caller: String,
        upstream: &str,
        name: &str,
        given: &ArgsFingerprint,
    ) -> Waiting {
        let what = (caller, upstream.to_owned(), name.to_owned(), *given.as_bytes());
        let mut all = self.lock();
        all.retain(|_, tried| tried.waiting > 0 || tried.at.elapsed() < WINDOW);
        let key = match all.get_mut(&what) {
            Some(tried) => {
                tried.waiting += 1;
                tried.key.clone()
            }
            None => {
                let key = format!("identical:{:032x}", rand::rng().random::<u128>());
                if all.len() < REMEMBERED_MAX {
                    let tried = Tried { key: key.clone(), at: Instant::now(), waiting: 1 };
                    all.insert(what.clone(), tried);
                }
                key
            }
        };
        drop(all);
        Waiting { retries: self.clone(), what, key, is_delivered: false }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<What, Tried>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// The key.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The answer was handed over: the next identical call is a new one.
    pub(crate) fn delivered(mut self) {
        self.is_delivered = true;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut all = self.retries.lock();
        let Some(tried) = all.get_mut(&self.what).filter(|tried| tried.key == self.key) else {
            return;
        };
        tried.waiting = tried.waiting.saturating_sub(1);
        tried.at = Instant::now();
        if self.is_delivered {
            all.remove(&self.what);
        }
    }
}

#[cfg(test)]
mod tests {
    use handback_token::args_fingerprint;
    use serde_json::json;

    use super::*;

    fn key(retries: &Retries, caller: &str, arguments: &str) -> Waiting {
        retries.key(caller.to_owned(), "up", "tool", &args_fingerprint(&json!({"a": arguments})))
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_was_not_delivered_is_tried_again() {
        let retries = Retries::default();
        let first = key(&retries, "a", "x");
        let name = first.key().to_owned();
        // The client left.
        drop(first);
        let again = key(&retries, "a", "x");
        assert_eq!(again.key(), name);
        assert_ne!(key(&retries, "b", "x").key(), name);
        assert_ne!(key(&retries, "a", "y").key(), name);
        again.delivered();
        assert_ne!(key(&retries, "a", "x").key(), name);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_minute_it_is_another_call() {
        let retries = Retries::default();
        let first = key(&retries, "a", "x");
        let name = first.key().to_owned();
        drop(first);
        tokio::time::advance(WINDOW - Duration::from_secs(1)).await;
        let again = key(&retries, "a", "x");
        assert_eq!(again.key(), name);
        // For as long as somebody waits, it is under way.
        tokio::time::advance(10 * WINDOW).await;
        assert_eq!(key(&retries, "a", "x").key(), name);
        drop(again);
        tokio::time::advance(WINDOW + Duration::from_secs(1)).await;
        assert_ne!(key(&retries, "a", "x").key(), name);
    }
}
