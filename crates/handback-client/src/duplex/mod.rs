//! Two streams under one idempotency key: chunks go in, events come out, over as many connections as
//! it takes.
//!
//! ```no_run
//! # async fn run() -> Result<(), handback_client::duplex::DuplexError> {
//! use handback_client::duplex::{Duplex, DuplexOptions, Settings};
//!
//! let options = DuplexOptions::new("http://127.0.0.1:8420")
//!     .handler("echo")
//!     .state("/var/lib/app/streams", Settings::persistent());
//! let duplex = Duplex::open(options).await?;
//! duplex.send("hello").await?;
//! duplex.close().await?;
//! while let Some(event) = duplex.next_event().await? {
//!     // Keep it, then say so: it does not come again.
//!     duplex.ack(&event).await?;
//! }
//! # Ok(()) }
//! ```
//!
//! A chunk is in the outbox when [`send`](Duplex::send) returns: on the disk, if the state is kept. It
//! stays there until the server has it. An event is handed out once, and after a restart again if it
//! was not acknowledged. Nothing is dropped because a server is degraded: [`Status`] says so, and the
//! server is asked again.

mod core;
mod driver;
mod error;
mod options;
mod proving;
mod resume;
mod session;
mod socket;
mod status;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use handback_stream::duplex::{CHUNK_BYTES_MAX, CREDIT_EVENTS};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::core::{Core, Mark};
use self::driver::Driver;
pub use self::error::{Blame, DuplexError};
pub use self::options::{
    DEFAULT_LOOKBACK_MS, DEFAULT_OUTBOX_BYTES, DEFAULT_OUTBOX_CHUNKS, DuplexOptions,
    MAX_LOOKBACK_MS, MAX_OUTBOX_BYTES, Settings,
};
pub use self::resume::{Cleared, Duplexes, Left, Resumed, Why};
pub use self::status::{Finished, Phase, Status};
use crate::http::{Base, Http};
use crate::state::{Chunk, Closing, Ended, Folder, Saved, StateDir, StateError};
use crate::tls;

/// Events that are acknowledged together when nobody does it.
const AUTO_ACK_EVENTS: usize = 16;

/// Chunks that are kept with one sync, and bytes of them: what a full outbox makes room for soon.
const BATCH_CHUNKS: usize = 64;
const BATCH_BYTES: usize = CHUNK_BYTES_MAX;

/// One event.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    id: String,
    data: Bytes,
    number: Option<u64>,
}

impl Event {
    fn new(mark: &Mark, data: Bytes) -> Self {
        let number = mark.place.map(|place| place.number);
        Self { id: mark.event_id.clone(), data, number }
    }

    /// What it is known by.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it says.
    #[must_use]
    pub const fn data(&self) -> &Bytes {
        &self.data
    }

    /// The number of its record, if that was proved.
    #[must_use]
    pub const fn proved_number(&self) -> Option<u64> {
        self.number
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("id", &self.id)
            .field("bytes", &self.data.len())
            .field("number", &self.number)
            .finish()
    }
}

/// One duplex, and the task that drives it.
///
/// Dropping it stops the task and keeps the state: it can be opened again, or resumed.
pub struct Duplex {
    core: Arc<Core>,
    key: String,
    auto_ack: bool,
    events: Mutex<Incoming>,
    sending: Mutex<()>,
    task: JoinHandle<()>,
}

struct Incoming {
    events: mpsc::Receiver<Event>,
    /// The last event that was given to the application, and how many are not acknowledged.
    last: Option<String>,
    unacknowledged: usize,
}

impl Duplex {
    /// Opens a duplex: a new one, or the one of this key where it was.
    ///
    /// It is there before the server is: what is sent waits in the outbox. One that came to its end
    /// within the last day is over at once, and [`finished`](Self::finished) says how it ended: a key
    /// is not run twice.
    ///
    /// # Errors
    ///
    /// [`DuplexError::Owned`] if another process has it, [`DuplexError::State`] if what was kept is
    /// damaged, and what is wrong with the options.
    pub async fn open(options: DuplexOptions) -> Result<Self, DuplexError> {
        options.check()?;
        let Some(directory) = options.kept_in().cloned() else {
            let saved = options.fresh();
            return Self::start(options, saved, Vec::new(), None);
        };
        let opened = tokio::task::spawn_blocking(move || {
            let fresh = options.fresh();
            let state = StateDir::open(&directory)?;
            let id = StateDir::id(&fresh.url, &fresh.handler, &fresh.idempotency_key);
            let mut folder = state.take(&id)?;
            if let Some(finished) = folder.finished()? {
                folder.clear()?;
                return Ok((options, finished, Vec::new(), None));
            }
            let (saved, chunks) = match folder.load()? {
                Some(kept) => kept,
                None => {
                    state.clear_finished(fresh.created_ms)?;
                    folder.start(&fresh, options.stream_key.as_ref())?;
                    (fresh, Vec::new())
                }
            };
            Ok::<_, StateError>((options, saved, chunks, Some(folder)))
        });
        let (mut options, saved, chunks, folder) =
            opened.await.map_err(|_| DuplexError::Stopped)??;
        let Some(folder) = folder else { return Ok(Self::over(&options, saved)) };
        if saved.has_stream_key && options.stream_key.is_none() {
            options.stream_key = folder.stream_key()?;
        }
        let is_same = saved.has_stream_key == options.stream_key.is_some()
            && saved.verify.is_some() == options.verify.is_some();
        if !is_same {
            let why = "it was started with other options, or its stream key is gone";
            return Err(DuplexError::Options(why));
        }
        Self::start(options, saved, chunks, Some(folder))
    }

    /// One that came to its end before.
    fn over(options: &DuplexOptions, saved: Saved) -> Self {
        let (key, event_id) = (saved.idempotency_key.clone(), saved.event_id.clone());
        let aborted = saved.ended == Some(Ended::Aborted);
        let core = Arc::new(Core::new(options, saved, Vec::new(), None));
        core.finish(Ok(Finished { event_id, aborted }));
        let (_, events) = mpsc::channel(1);
        let task = tokio::spawn(std::future::ready(()));
        Self::assemble(core, key, options.auto_ack, events, task)
    }

    fn assemble(
        core: Arc<Core>,
        key: String,
        auto_ack: bool,
        events: mpsc::Receiver<Event>,
        task: JoinHandle<()>,
    ) -> Self {
        let events = Mutex::new(Incoming { events, last: None, unacknowledged: 0 });
        Self { core, key, auto_ack, events, sending: Mutex::new(()), task }
    }

    fn start(
        mut options: DuplexOptions,
        saved: Saved,
        chunks: Vec<Chunk>,
        folder: Option<Folder>,
    ) -> Result<Self, DuplexError> {
        let base = Base::parse(&options.url)?;
        let tls = tls::config(base.is_tls).map_err(|why| crate::HttpError::Tls(Arc::new(why)))?;
        let mut http = Http::new(base)?;
        http.set_bearer(options.bearer.as_ref());
        let key = saved.idempotency_key.clone();
        options.idempotency_key = Some(key.clone());
        let auto_ack = options.auto_ack;
        let core = Arc::new(Core::new(&options, saved, chunks, folder));
        let (sender, events) = mpsc::channel(CREDIT_EVENTS as usize);
        let driver = Driver {
            core: Arc::clone(&core),
            options,
            http,
            tls,
            events: sender,
            ready: VecDeque::new(),
            is_welcomed: false,
            last_welcome: Instant::now(),
            is_moving: false,
        };
        let task = tokio::spawn(driver.run());
        Ok(Self::assemble(core, key, auto_ack, events, task))
    }

    /// The idempotency key: what it can be opened again by.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.key
    }

    /// Sends a chunk. When it returns, the chunk is in the outbox, on the disk if the state is kept;
    /// it waits as long as the outbox is full. Gives the number of the chunk.
    ///
    /// # Errors
    ///
    /// [`DuplexError`] if it is too large, the duplex is closed or over, or the disk fails.
    pub async fn send(&self, data: impl Into<Bytes>) -> Result<u32, DuplexError> {
        self.send_all(vec![data.into()]).await
    }

    /// Sends chunks together, with one sync for many of them. Gives the number of the last one.
    ///
    /// If it fails, or is dropped, the first ones may be in the outbox: [`next_seqno`](Self::next_seqno)
    /// says how many.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send); and if there are none.
    pub async fn send_all(&self, chunks: Vec<Bytes>) -> Result<u32, DuplexError> {
        if chunks.iter().any(|data| data.len() > CHUNK_BYTES_MAX) {
            return Err(DuplexError::ChunkTooLarge);
        }
        let _in_order = self.sending.lock().await;
        let mut sent = Err(DuplexError::Options("there is no chunk to be sent"));
        let mut rest = chunks.into_iter().peekable();
        while rest.peek().is_some() {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            while let Some(data) = rest.next_if(|data| {
                batch.len() < BATCH_CHUNKS && (bytes == 0 || bytes + data.len() <= BATCH_BYTES)
            }) {
                bytes += data.len();
                batch.push(data);
            }
            self.wait_for_room(bytes).await?;
            sent = Ok(self.core.push(batch).await?);
        }
        sent
    }

    async fn wait_for_room(&self, bytes: usize) -> Result<(), DuplexError> {
        let mut status = self.core.status.subscribe();
        loop {
            self.check_going()?;
            if self.core.has_room(bytes) {
                return Ok(());
            }
            tokio::select! {
                () = self.core.room.notified() => {}
                changed = status.changed() => changed.map_err(|_| DuplexError::Stopped)?,
            }
        }
    }

    /// The number that the next chunk will have: after a restart, where to go on.
    ///
    /// # Errors
    ///
    /// [`DuplexError::Stopped`] if the runtime is shut down.
    pub async fn next_seqno(&self) -> Result<u32, DuplexError> {
        self.core.next_seqno().await
    }

    /// The next event. Nothing, when there are no more.
    ///
    /// # Errors
    ///
    /// [`DuplexError`] if it stopped before its end, after the events that were there.
    pub async fn next_event(&self) -> Result<Option<Event>, DuplexError> {
        let mut incoming = self.events.lock().await;
        if self.auto_ack {
            self.ack_given(&mut incoming).await?;
        }
        let Some(event) = incoming.events.recv().await else {
            return match self.core.outcome() {
                Some(Ok(_)) => Ok(None),
                Some(Err(why)) => Err(why),
                None => Err(DuplexError::Stopped),
            };
        };
        incoming.last = Some(event.id.clone());
        incoming.unacknowledged += 1;
        Ok(Some(event))
    }

    /// Acknowledges what the application had, if it is much, or nothing else is to do.
    async fn ack_given(&self, incoming: &mut Incoming) -> Result<(), DuplexError> {
        if incoming.events.is_empty() || incoming.unacknowledged >= AUTO_ACK_EVENTS {
            incoming.unacknowledged = 0;
            if let Some(id) = incoming.last.take() {
                self.core.acknowledge(id).await?;
            }
        }
        Ok(())
    }

    /// Says that an event and all before it are kept: they do not come again. That is on the disk
    /// before the server is told.
    ///
    /// # Errors
    ///
    /// [`DuplexError::State`] if the disk fails.
    pub async fn ack(&self, event: &Event) -> Result<(), DuplexError> {
        self.core.acknowledge(event.id.clone()).await
    }

    /// Says that there are no more chunks. The events go on until the server ends them.
    ///
    /// # Errors
    ///
    /// [`DuplexError::State`] if the disk fails.
    pub async fn close(&self) -> Result<(), DuplexError> {
        self.core.close(Closing::Close).await
    }

    /// Asks the server to stop. Chunks that it does not have are not sent any more.
    ///
    /// # Errors
    ///
    /// [`DuplexError::State`] if the disk fails.
    pub async fn abort(&self) -> Result<(), DuplexError> {
        self.core.close(Closing::Abort).await
    }

    /// Waits until the server says that it is over. Events may still be waiting.
    ///
    /// # Errors
    ///
    /// [`DuplexError`] if it stopped before.
    pub async fn finished(&self) -> Result<Finished, DuplexError> {
        let mut status = self.core.status.subscribe();
        let finished = status.wait_for(|status| status.outcome.is_some()).await;
        let finished = finished.map_err(|_| DuplexError::Stopped)?;
        finished.outcome.clone().unwrap_or(Err(DuplexError::Stopped))
    }

    /// How many chunks are in the outbox: the server may not have them.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.core.queue().chunks.len()
    }

    /// Whether this side was closed or aborted, also in an earlier life.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.core.queue().closing.is_some()
    }

    /// How it is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.core.status.borrow().clone()
    }

    /// How it is doing, and whenever that changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.core.status.subscribe()
    }

    /// Stops here, and keeps the state. When it returns, another process can go on.
    pub async fn leave(self) {
        self.task.abort();
        while !self.task.is_finished() || Arc::strong_count(&self.core) > 1 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    fn check_going(&self) -> Result<(), DuplexError> {
        match self.core.outcome() {
            None => Ok(()),
            Some(Ok(_)) => Err(DuplexError::AlreadyEnded),
            Some(Err(why)) => Err(why),
        }
    }
}

impl Drop for Duplex {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Duplex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Duplex").field("key", &self.key).finish_non_exhaustive()
    }
}
