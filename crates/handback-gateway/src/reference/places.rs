//! How many calls at a time have held values put into their arguments.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use crate::kept::Kept;

/// Calls at a time into whose arguments held values are put: each may take some ten times the bytes that
/// references may have, while what they make is checked.
const RESOLVING_MAX: usize = 4;

/// Those of one caller among them.
const RESOLVING_OF_CALLER_MAX: usize = 2;

/// Callers whose places are remembered.
const CALLERS_MAX: usize = 256;

/// Those places. One caller waits for its own before it waits for others.
pub(crate) struct Places {
    all: Arc<Semaphore>,
    of_caller: usize,
    of_callers: Mutex<Kept<String, Arc<Semaphore>>>,
}

impl Default for Places {
    fn default() -> Self {
        Self::new(RESOLVING_MAX, RESOLVING_OF_CALLER_MAX)
    }
}

impl Places {
    /// So many for all, and for one among them.
    pub(crate) fn new(all: usize, of_caller: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            of_caller,
            of_callers: Mutex::new(Kept::new(CALLERS_MAX)),
        }
    }

    /// A place for the caller of this binding, until it is dropped.
    pub(crate) async fn take(&self, binding: String) -> impl Send + use<> {
        let of_caller = {
            let mut callers = self.of_callers.lock().unwrap_or_else(PoisonError::into_inner);
            callers.get(&binding).unwrap_or_else(|| {
                let places = Arc::new(Semaphore::new(self.of_caller));
                callers.put(binding, Arc::clone(&places));
                places
            })
        };
        // They are never closed.
        let own = of_caller.acquire_owned().await;
        (own, Arc::clone(&self.all).acquire_owned().await)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn one_caller_leaves_room_for_another() {
        let places = Places::default();
        let take = |name: &str| places.take(name.to_owned());
        let (first, _second) = (take("a").await, take("a").await);
        assert!(take("a").now_or_never().is_none());
        let _others = (take("b").await, take("b").await);
        // All are taken.
        assert!(take("c").now_or_never().is_none());
        drop(first);
        assert!(take("c").now_or_never().is_some());
        assert!(take("a").now_or_never().is_some());
    }
}
