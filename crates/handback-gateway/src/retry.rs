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

/// Calls of one caller that are remembered at most. Beyond them, a call is a new one. It is far more
/// than a caller has under way, and nobody takes the room of another.
const OF_CALLER_MAX: usize = 1_000;

/// What a call of a caller is told by: at which upstream, what, with which arguments.
type What = (String, String, [u8; 32]);

type All = HashMap<String, HashMap<What, Tried>>;

/// Calls whose answers may not have arrived, by caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retries(Arc<Mutex<All>>);

#[derive(Clone, Debug)]
struct Tried {
    key: String,
    at: Instant,
    /// How many wait for its answer.
    waiting: usize,
}

impl Tried {
    fn is_recent(&self) -> bool {
        self.waiting > 0 || self.at.elapsed() < WINDOW
    }
}

/// From so many callers on, those who tried nothing lately are forgotten when a new one comes.
const CALLERS_LOOKED_AT: usize = 1_000;

/// Somebody who waits for the answer of a call.
#[derive(Debug)]
pub(crate) struct Waiting {
    retries: Retries,
    caller: String,
    what: What,
    key: String,
}

/// An answer that is there, and that nobody may have got yet.
#[derive(Debug)]
pub(crate) struct Undelivered {
    retries: Retries,
    caller: String,
    what: What,
    key: String,
}

/// Hears that the answer to a question was handed over. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Delivery(Arc<Mutex<Option<Undelivered>>>);

impl Delivery {
    /// This answer is on its way.
    pub(crate) fn expect(&self, answer: Undelivered) {
        *self.lock() = Some(answer);
    }

    /// The answer was handed over.
    pub fn done(&self) {
        let answer = self.lock().take();
        if let Some(answer) = answer {
            answer.delivered();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Undelivered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        let what = (upstream.to_owned(), name.to_owned(), *given.as_bytes());
        let mut all = self.lock();
        if all.len() >= CALLERS_LOOKED_AT && !all.contains_key(&caller) {
            all.retain(|_, of_caller| of_caller.values().any(Tried::is_recent));
        }
        let of_caller = all.entry(caller.clone()).or_default();
        of_caller.retain(|_, tried| tried.is_recent());
        let key = match of_caller.get_mut(&what) {
            Some(tried) => {
                tried.waiting += 1;
                tried.key.clone()
            }
            None => {
                let key = format!("identical:{:032x}", rand::rng().random::<u128>());
                if of_caller.len() < OF_CALLER_MAX {
                    let tried = Tried { key: key.clone(), at: Instant::now(), waiting: 1 };
                    of_caller.insert(what.clone(), tried);
                }
                key
            }
        };
        drop(all);
        Waiting { retries: self.clone(), caller, what, key }
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// The key.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The answer is there, and this one waits no more.
    pub(crate) fn answered(self) -> Undelivered {
        Undelivered {
            retries: self.retries.clone(),
            caller: self.caller.clone(),
            what: self.what.clone(),
            key: self.key.clone(),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut all = self.retries.lock();
        let tried = all.get_mut(&self.caller).and_then(|of_caller| of_caller.get_mut(&self.what));
        if let Some(tried) = tried.filter(|tried| tried.key == self.key) {
            tried.waiting = tried.waiting.saturating_sub(1);
            tried.at = Instant::now();
        }
    }
}

impl Undelivered {
    /// The answer was handed over: the next identical call is a new one.
    pub(crate) fn delivered(self) {
        let mut all = self.retries.lock();
        let Some(of_caller) = all.get_mut(&self.caller) else { return };
        if of_caller.get(&self.what).is_some_and(|tried| tried.key == self.key) {
            of_caller.remove(&self.what);
        }
        if of_caller.is_empty() {
            all.remove(&self.caller);
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
        let answer = again.answered();
        assert_eq!(key(&retries, "a", "x").key(), name, "it is there, and nobody has it");
        answer.delivered();
        assert_ne!(key(&retries, "a", "x").key(), name);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_takes_the_room_of_another() {
        let retries = Retries::default();
        for number in 0..2 * OF_CALLER_MAX {
            drop(key(&retries, "greedy", &number.to_string()));
        }
        let name = key(&retries, "a", "x").key().to_owned();
        assert_eq!(key(&retries, "a", "x").key(), name);
        let beyond = || key(&retries, "greedy", "beyond").key().to_owned();
        assert_ne!(beyond(), beyond());
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
        let answer = again.answered();
        tokio::time::advance(WINDOW + Duration::from_secs(1)).await;
        let another = key(&retries, "a", "x");
        assert_ne!(another.key(), name);
        // What is handed over late says nothing of the other one.
        answer.delivered();
        assert_eq!(key(&retries, "a", "x").key(), another.key());
    }
}
