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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use handback_identity::UnixPeers;

    use super::*;

    fn caller(uid: u32) -> VerifiedPrincipal {
        UnixPeers::new("test").unwrap().caller(uid).principal().clone()
    }

    #[tokio::test]
    async fn one_caller_does_not_take_all_places() {
        let room = Arc::new(SharedRoom::new(3, 2));
        let (begun, beginning) = mpsc::channel();
        let held: Vec<_> = (0..3)
            .map(|_| {
                let (end, ended) = mpsc::channel::<()>();
                let (room, begun) = (Arc::clone(&room), begun.clone());
                let work = move || {
                    begun.send(()).unwrap();
                    let _ = ended.recv();
                };
                let run = tokio::spawn(async move { room.run(&caller(1), work).await.unwrap() });
                (end, run)
            })
            .collect();
        let beginning = tokio::task::spawn_blocking(move || {
            beginning.recv().unwrap();
            beginning.recv().unwrap();
            beginning
        });
        let beginning = beginning.await.unwrap();
        // There is a third place, which is for others.
        assert_eq!(room.run(&caller(2), || 7).await.unwrap(), 7);
        assert!(beginning.try_recv().is_err(), "the third one of the first caller waits");
        for (end, run) in held {
            drop(end);
            run.await.unwrap();
        }
        beginning.try_recv().unwrap();
        room.run(&caller(2), || ()).await.unwrap();
        assert_eq!(room.callers.lock().unwrap().len(), 1, "who has left is forgotten");
    }
}
