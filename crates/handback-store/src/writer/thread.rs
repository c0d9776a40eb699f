//! The writer's thread.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use super::CommitHook;
use super::queue::{Done, Group, Queue};
use crate::{Batch, Log, StoreError};

pub(super) struct Worker<L: ?Sized, H> {
    queue: Arc<Queue>,
    log: Arc<L>,
    hook: H,
}

impl<L: Log + ?Sized, H: CommitHook> Worker<L, H> {
    pub(super) const fn new(queue: Arc<Queue>, log: Arc<L>, hook: H) -> Self {
        Self { queue, log, hook }
    }

    pub(super) fn run(mut self) {
        while let Some(Group { batch, done }) = self.queue.take() {
            // After a panic neither hook nor log is used again, so that it does not matter in which
            // state they were left.
            let commit = AssertUnwindSafe(|| self.commit(batch));
            if let Ok(result) = panic::catch_unwind(commit) {
                tell(done, &result);
                continue;
            }
            tracing::error!("the writer failed and takes no more");
            self.queue.close();
            tell(done, &Err(StoreError::Broken("the writer failed".to_owned())));
            let refused = Err(StoreError::Unavailable("the writer failed before".to_owned()));
            while let Some(Group { done, .. }) = self.queue.take() {
                tell(done, &refused);
            }
            return;
        }
    }

    fn commit(&mut self, mut batch: Batch) -> Result<(), StoreError> {
        self.hook.before(&mut batch);
        let result = self.log.commit(&batch);
        self.hook.after(&result);
        result
    }
}

/// Tells everyone, in order. One who panics is no reason to leave the others waiting.
fn tell(done: Vec<Done>, result: &Result<(), StoreError>) {
    for done in done {
        let result = result.clone();
        if panic::catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
            tracing::error!("a caller failed when it was told of its write");
        }
    }
}
