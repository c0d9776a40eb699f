//! Calls that are under way: who wants the same one waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handback_store::journal::CallId;
use tokio::sync::watch;

/// The calls with a key, or with something that is redeemed once, that this process is at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flights(Arc<Mutex<HashMap<CallId, watch::Receiver<()>>>>);

/// A call that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct Flight {
    flights: Flights,
    call: CallId,
    _over: watch::Sender<()>,
}

impl Flights {
    /// One more is under way.
    pub(crate) fn start(&self, call: CallId) -> Flight {
        let (sender, receiver) = watch::channel(());
        self.lock().insert(call, receiver);
        Flight { flights: self.clone(), call, _over: sender }
    }

    /// Waits for the end of a call; at once, if this process is not at it.
    pub(crate) async fn end_of(&self, call: CallId) {
        let flight = self.lock().get(&call).cloned();
        if let Some(mut flight) = flight {
            // It ends when its sender is dropped.
            while flight.changed().await.is_ok() {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallId, watch::Receiver<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flights.lock().remove(&self.call);
    }
}
