//! Calls that are under way: who wants the same one waits for it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
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
    over: watch::Sender<()>,
}

impl Flights {
    /// One more is under way.
    pub(crate) fn start(&self, call: CallId) -> Flight {
        let (sender, receiver) = watch::channel(());
        self.lock().insert(call, receiver);
        Flight { flights: self.clone(), call, over: sender }
    }

    /// Waits for the end of a call; at once, if this process is not at it.
    pub(crate) async fn end_of(&self, call: CallId) {
        let flight = self.lock().get(&call).cloned();
        if let Some(mut flight) = flight {
            // It ends when its sender is dropped.
            while flight.changed().await.is_ok() {}
        }
    }

    /// Waits until no call is under way.
    pub(crate) async fn settled(&self) {
        loop {
            let Some(call) = self.lock().keys().next().copied() else { return };
            self.end_of(call).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallId, watch::Receiver<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut flights = self.flights.lock();
        // The call may be under way once more: it was recorded as cut off before this is dropped.
        if let Entry::Occupied(found) = flights.entry(self.call)
            && found.get().same_channel(&self.over.subscribe())
        {
            found.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use handback_identity::VerifiedPrincipal;
    use handback_store::MemoryStore;
    use handback_store::journal::{
        CallRequest, InstanceId, Journal, Redemption, Reserved, ToolClass,
    };
    use handback_token::Operation;

    use super::*;

    fn call() -> CallId {
        let mut rng = rand::rng();
        let instance = InstanceId::generate(&mut rng);
        let journal = Journal::open(MemoryStore::new(), instance, 0).unwrap();
        let nobody = VerifiedPrincipal::unauthenticated();
        let redemption = Redemption::new([1; 16], &nobody, Operation::Call, None, "t", &[0; 32]);
        let request = CallRequest::single_use(redemption, ToolClass::TakesKey);
        match journal.reserve(&request, &mut rng, 0).unwrap() {
            Reserved::New(reservation) => reservation.call_id(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_end_of_one_try_is_not_that_of_the_next() {
        let (flights, call) = (Flights::default(), call());
        let first = flights.start(call);
        let second = flights.start(call);
        drop(first);
        assert!(flights.end_of(call).now_or_never().is_none(), "the second try is under way");
        drop(second);
        assert!(flights.end_of(call).now_or_never().is_some());
        assert!(flights.lock().is_empty());
    }
}
