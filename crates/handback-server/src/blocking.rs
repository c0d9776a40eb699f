//! Work that blocks, off the threads that serve.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use handback_identity::VerifiedPrincipal;
use handback_tool::ToolError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room for so many pieces of work that block. Those that find none wait.
///
/// A caller that leaves while it waits leaves nothing. Work that has begun is done to its end, and
/// keeps its place until then: who asks and leaves, again and again, does not get more of them.
#[derive(Clone, Debug)]
pub(crate) struct Room(Arc<Semaphore>);

impl Room {
    pub(crate) fn new(places: usize) -> Self {
        Self(Arc::new(Semaphore::new(places)))
    }

    /// Does the work, when there is room. If it panics, so does this.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ToolError> {
        let place = place_in(&self.0).await?;
        let work = move || {
            let _place = place;
            work()
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => Ok(done),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(stopping()),
            },
        }
    }
}

/// Room of which one caller takes a part only: what is long is not in the way of others.
#[derive(Debug)]
pub(crate) struct SharedRoom {
    room: Room,
    places_per_caller: usize,
    callers: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl SharedRoom {
    pub(crate) fn new(places: usize, places_per_caller: usize) -> Self {
        Self { room: Room::new(places), places_per_caller, callers: Mutex::default() }
    }

    /// As [`Room::run`], once fewer pieces of work of the same caller are under way than it may have.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        caller: &VerifiedPrincipal,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ToolError> {
        let turn = place_in(&self.turns_of(caller)).await?;
        let work = move || {
            let _turn = turn;
            work()
        };
        self.room.run(work).await
    }

    /// The places of a caller. Those of callers who have nothing under way are forgotten.
    fn turns_of(&self, caller: &VerifiedPrincipal) -> Arc<Semaphore> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.retain(|_, turns| Arc::strong_count(turns) > 1);
        let turns = callers.entry(caller.binding());
        Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(self.places_per_caller))))
    }
}

async fn place_in(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ToolError> {
    Arc::clone(places).acquire_owned().await.map_err(|_| stopping())
}

fn stopping() -> ToolError {
    ToolError::new("the server stops").nothing_happened()
}
