//! Which era an upstream speaks.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use handback_mcp::Era;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

/// What is known of an upstream before it is asked anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speaks {
    /// The newer era, if it speaks both.
    pub(crate) era: Era,
    /// Whether it makes tasks itself.
    pub(crate) has_tasks: bool,
}

impl Speaks {
    /// The older era, which has no tasks that concern anybody here.
    pub(crate) const OLDER: Self = Self { era: Era::Legacy, has_tasks: false };
}

/// What was found out about an upstream, until it turns out to be otherwise.
#[derive(Debug, Default)]
pub(crate) struct Found {
    known: RwLock<Option<Speaks>>,
    asking: Mutex<()>,
    /// When it was asked last and said nothing.
    unclear: RwLock<Option<Instant>>,
}

/// How long after that it is not asked again.
const UNCLEAR_PAUSE: Duration = Duration::from_secs(30);

impl Found {
    pub(crate) fn known(&self) -> Option<Speaks> {
        *self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// It was asked, and said nothing for as long as it may take.
    pub(crate) fn is_unclear(&self) {
        *self.unclear.write().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether it was asked lately, and said nothing.
    pub(crate) fn was_unclear(&self) -> bool {
        let unclear = *self.unclear.read().unwrap_or_else(PoisonError::into_inner);
        unclear.is_some_and(|when| when.elapsed() < UNCLEAR_PAUSE)
    }

    /// One asks; the others wait for what it finds.
    pub(crate) async fn asking(&self) -> MutexGuard<'_, ()> {
        self.asking.lock().await
    }

    pub(crate) fn learn(&self, speaks: Speaks) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(speaks);
    }

    pub(crate) fn forget(&self) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).take();
        self.unclear.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}
