//! Work that blocks, off the threads that serve.

use std::sync::Arc;

use handback_tool::ToolError;
use tokio::sync::Semaphore;

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
        let stopping = || ToolError::new("the server stops").nothing_happened();
        let place = Arc::clone(&self.0).acquire_owned().await.map_err(|_| stopping())?;
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
