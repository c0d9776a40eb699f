//! One writer for many callers: what they want to write at the same time is written together.
//!
//! A sync costs the same for one record as for a thousand. So a single thread takes everything that
//! is queued, makes one batch of it, commits that, and then tells every caller, in the order of the
//! queue. While it commits, the next ones queue up: the busier, the larger the batches. It waits
//! for nothing but work; a linger was tried, and only made everyone wait.
//!
//! ```
//! use std::sync::{Arc, mpsc};
//!
//! use handback_store::{Batch, GroupWriter, LogId, MemoryStore, Pending, Record, WriterOptions};
//!
//! let writer = GroupWriter::start(Arc::new(MemoryStore::new()), (), WriterOptions::new())?;
//! let (sender, receiver) = mpsc::channel();
//! let record = Record { log: LogId::from_bytes([1; 24]), number: 0, bytes: "first".into() };
//! let pending = Pending {
//!     batch: Batch { records: vec![record], ..Batch::default() },
//!     done: Box::new(move |result| sender.send(result).unwrap()),
//! };
//! writer.submit(pending).unwrap();
//! assert!(receiver.recv().unwrap().is_ok());
//! writer.stop();
//! # Ok::<(), std::io::Error>(())
//! ```

mod queue;
mod thread;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::{Batch, Log, StoreError};
use queue::Queue;

/// Records, notes and removals of one commit at most, unless a single item has more. A thousand
/// share the price of a sync so well that more would only make the first one wait.
pub const MAX_COMMIT_ITEMS: usize = 1_024;

/// Bytes of one commit at most, unless a single item is longer: about what a disk takes in the time of
/// a sync.
pub const MAX_COMMIT_BYTES: usize = 1 << 20;

/// Bytes that may be queued. Sixteen bodies of the greatest length, or a second of a slow disk.
pub const MAX_QUEUED_BYTES: usize = 64 << 20;

/// Something to write, and what to do then.
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal")]
pub struct Pending {
    /// What to write.
    pub batch: Batch,
    /// Called once, on the writer's thread, when that was written or was not: it must not block.
    pub done: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("batch", &self.batch).finish_non_exhaustive()
    }
}

/// Who looks over the writer's shoulder, on its thread.
pub trait CommitHook: Send {
    /// Before a commit: may add to what is written.
    fn before(&mut self, batch: &mut Batch);

    /// After the commit, before anyone else is told.
    fn after(&mut self, result: &Result<(), StoreError>);
}

/// Adds nothing.
impl CommitHook for () {
    fn before(&mut self, _: &mut Batch) {}

    fn after(&mut self, _: &Result<(), StoreError>) {}
}

/// Bounds of a [`GroupWriter`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct WriterOptions {
    commit_items: usize,
    commit_bytes: usize,
    queued_bytes: usize,
}

impl WriterOptions {
    /// The defaults: [`MAX_COMMIT_ITEMS`], [`MAX_COMMIT_BYTES`] and [`MAX_QUEUED_BYTES`].
    pub const fn new() -> Self {
        Self {
            commit_items: MAX_COMMIT_ITEMS,
            commit_bytes: MAX_COMMIT_BYTES,
            queued_bytes: MAX_QUEUED_BYTES,
        }
    }

    /// Records, notes and removals of one commit.
    pub const fn commit_items(mut self, items: usize) -> Self {
        self.commit_items = items;
        self
    }

    /// Bytes of one commit.
    pub const fn commit_bytes(mut self, bytes: usize) -> Self {
        self.commit_bytes = bytes;
        self
    }

    /// Bytes that may be queued.
    pub const fn queued_bytes(mut self, bytes: usize) -> Self {
        self.queued_bytes = bytes;
        self
    }
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Why something was not queued. It is given back: its `done` is not called.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// Too much is queued already.
    #[error("too many writes are waiting")]
    Busy(Pending),
    /// The writer has stopped, or has failed.
    #[error("the writer has stopped")]
    Stopped(Pending),
}

/// The writer. It stops when it is dropped, after everything that is queued.
///
/// When the log or the hook panics, whatever waits is failed, and the writer takes no more: nobody
/// knows what the hook has still in mind.
#[derive(Debug)]
pub struct GroupWriter {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl GroupWriter {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system has no thread to give.
    pub fn start<L, H>(log: Arc<L>, hook: H, options: WriterOptions) -> io::Result<Self>
    where
        L: Log + ?Sized + 'static,
        H: CommitHook + 'static,
    {
        let queue = Arc::new(Queue::new(options));
        let worker = thread::Worker::new(Arc::clone(&queue), log, hook);
        let thread = std::thread::Builder::new()
            .name("handback-writer".to_owned())
            .spawn(move || worker.run())?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)) })
    }

    /// Queues something to be written. Never blocks on a write.
    ///
    /// # Errors
    ///
    /// [`SubmitError`], with what was to be written.
    pub fn submit(&self, pending: Pending) -> Result<(), SubmitError> {
        self.queue.push(pending)
    }

    /// Takes no more, writes what is queued, and waits for that.
    pub fn stop(&self) {
        self.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The last owner may be something that `done` held, on the writer's own thread.
        if let Some(thread) = thread.filter(|it| it.thread().id() != std::thread::current().id()) {
            // It catches what panics, so there is nothing to learn from it.
            let _ = thread.join();
        }
    }
}

impl Drop for GroupWriter {
    fn drop(&mut self) {
        self.stop();
    }
}
