//! What the application's side and the connection's side of a duplex share.
//!
//! There are two locks. `keep` is what is on the disk: it is held while a write is synced, and
//! therefore taken on threads that may block only. `queue` is what is in memory, and held for
//! moments. Whoever needs both takes `keep` first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use handback_stream::duplex::Token;
use tokio::sync::{Notify, watch};

use super::status::{Finished, Phase, Status};
use super::{DuplexError, DuplexOptions};
use crate::clock::Clock;
use crate::state::{Chunk, Closing, Ended, Folder, Place, Saved, StateError};

/// Records without an event that are acknowledged together.
const SILENT_MAX: usize = 16;

/// Bytes that the server has, before the file is looked at.
const TRIM_BYTES: usize = 1 << 20;

pub(super) struct Core {
    clock: Arc<dyn Clock>,
    chunks_max: usize,
    bytes_max: usize,
    is_kept: bool,
    keep: Mutex<Keep>,
    queue: Mutex<Queue>,
    /// There is something to send.
    pub(super) changed: Notify,
    /// There is room in the outbox.
    pub(super) room: Notify,
    pub(super) status: watch::Sender<Status>,
}

/// What is on the disk, if anything is.
struct Keep {
    saved: Saved,
    folder: Option<Folder>,
    next_seqno: u32,
}

/// What is in memory.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Chunks that the server may not have.
    pub(super) chunks: VecDeque<Chunk>,
    pub(super) bytes: usize,
    pub(super) closing: Option<Closing>,
    /// The last event that is kept, and where that is.
    pub(super) kept: Option<Mark>,
    /// What was handed out after it, in order.
    pub(super) marks: VecDeque<Mark>,
    /// The last place that was proved.
    pub(super) proved: Option<Place>,
    /// Bytes of chunks that the server has, and that may still be in the file.
    trimmed: usize,
    /// How the server ended it, if it said that there is no more.
    over: Option<Ended>,
}

/// A place in the stream of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) event_id: String,
    pub(super) place: Option<Place>,
    /// Whether there is an event for the application.
    pub(super) is_event: bool,
}

impl Core {
    pub(super) fn new(
        options: &DuplexOptions,
        saved: Saved,
        chunks: Vec<Chunk>,
        folder: Option<Folder>,
    ) -> Self {
        let next_seqno = saved.next_seqno;
        let kept = saved.event_id.clone().map(|event_id| Mark {
            event_id,
            place: saved.place,
            is_event: true,
        });
        let queue = Queue {
            bytes: chunks.iter().map(|chunk| chunk.data.len()).sum(),
            chunks: chunks.into(),
            closing: saved.closing,
            kept,
            proved: saved.proved,
            ..Queue::default()
        };
        Self {
            clock: Arc::clone(&options.clock),
            chunks_max: options.outbox_chunks,
            bytes_max: options.outbox_bytes,
            is_kept: folder.is_some(),
            keep: Mutex::new(Keep { saved, folder, next_seqno }),
            queue: Mutex::new(queue),
            changed: Notify::new(),
            room: Notify::new(),
            status: watch::Sender::new(Status::default()),
        }
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on what is on the disk, where blocking is allowed. It is finished once it was begun,
    /// also if nobody waits for it any more.
    async fn keep<T, F>(self: &Arc<Self>, work: F) -> Result<T, DuplexError>
    where
        T: Send + 'static,
        F: FnOnce(&Self, &mut Keep) -> Result<T, DuplexError> + Send + 'static,
    {
        let locked = move |core: &Self| {
            work(core, &mut core.keep.lock().unwrap_or_else(PoisonError::into_inner))
        };
        if !self.is_kept {
            return locked(self);
        }
        let core = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || locked(&core)).await;
        done.map_err(|_| DuplexError::Stopped)?
    }

    /// The error or end that it came to, if it did.
    pub(super) fn outcome(&self) -> Option<Result<Finished, DuplexError>> {
        self.status.borrow().outcome.clone()
    }

    /// Whether so many bytes more fit into the outbox. Something fits into an empty one always.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let queue = self.queue();
        queue.chunks.is_empty()
            || (queue.chunks.len() < self.chunks_max && queue.bytes + bytes <= self.bytes_max)
    }

    /// Keeps chunks, and tells the connection of them. Gives the number of the last one.
    pub(super) async fn push(self: &Arc<Self>, data: Vec<Bytes>) -> Result<u32, DuplexError> {
        self.keep(move |core, keep| {
            if core.queue().closing.is_some() {
                return Err(DuplexError::AlreadyClosed);
            }
            let mut next = keep.next_seqno;
            let mut chunks = Vec::with_capacity(data.len());
            for data in data {
                chunks.push(Chunk { seqno: next, data });
                next = next.checked_add(1).ok_or(DuplexError::TooManyChunks)?;
            }
            if let Some(folder) = &mut keep.folder {
                folder.append(&chunks)?;
            }
            keep.next_seqno = next;
            let mut queue = core.queue();
            queue.bytes += chunks.iter().map(|chunk| chunk.data.len()).sum::<usize>();
            queue.chunks.extend(chunks);
            drop(queue);
            core.changed.notify_one();
            Ok(next.saturating_sub(1))
        })
        .await
    }

    /// The number of the next chunk.
    pub(super) async fn next_seqno(self: &Arc<Self>) -> Result<u32, DuplexError> {
        self.keep(|_, keep| Ok(keep.next_seqno)).await
    }

    pub(super) async fn close(self: &Arc<Self>, closing: Closing) -> Result<(), DuplexError> {
        self.keep(move |core, keep| {
            // An abort after a close still aborts.
            if keep.saved.closing != Some(Closing::Abort) {
                keep.saved.closing = Some(closing);
            }
            keep.save(core)?;
            core.queue().closing = keep.saved.closing;
            core.changed.notify_one();
            Ok(())
        })
        .await
    }

    /// Keeps that the application has an event and all before it; only then the server is told.
    pub(super) async fn acknowledge(self: &Arc<Self>, id: String) -> Result<(), DuplexError> {
        self.keep(move |core, keep| {
            let (mark, count) = {
                let queue = core.queue();
                let Some(place) = queue.marks.iter().position(|mark| mark.event_id == id) else {
                    return Ok(());
                };
                // What follows and is no event is kept with it.
                let after = queue.marks.iter().skip(place + 1);
                let count = place + 1 + after.take_while(|mark| !mark.is_event).count();
                (queue.marks.get(count - 1).cloned(), count)
            };
            core.keep_mark(keep, mark, count)
        })
        .await
    }

    /// Acknowledges records that are no events, if nothing else waits and they are many.
    pub(super) async fn acknowledge_silent(self: &Arc<Self>) -> Result<(), DuplexError> {
        let is_worth_it = {
            let queue = self.queue();
            queue.marks.len() >= SILENT_MAX && queue.marks.iter().all(|mark| !mark.is_event)
        };
        if !is_worth_it {
            return Ok(());
        }
        self.keep(move |core, keep| {
            let (mark, count) = {
                let queue = core.queue();
                let count = queue.marks.iter().take_while(|mark| !mark.is_event).count();
                (count.checked_sub(1).and_then(|last| queue.marks.get(last).cloned()), count)
            };
            core.keep_mark(keep, mark, count)
        })
        .await
    }

    fn keep_mark(
        &self,
        keep: &mut Keep,
        mark: Option<Mark>,
        count: usize,
    ) -> Result<(), DuplexError> {
        let Some(mark) = mark else { return Ok(()) };
        keep.saved.event_id = Some(mark.event_id.clone());
        keep.saved.place = mark.place;
        keep.save(self)?;
        let mut queue = self.queue();
        let count = count.min(queue.marks.len());
        queue.marks.drain(..count);
        queue.kept = Some(mark);
        drop(queue);
        self.changed.notify_one();
        self.clear_if_done(keep)
    }

    /// Remembers the last place that was proved. A connection that starts earlier proves again what
    /// was proved before.
    pub(super) fn proved(&self, place: Place) {
        let mut queue = self.queue();
        if queue.proved.is_none_or(|earlier| earlier.number < place.number) {
            queue.proved = Some(place);
        }
    }

    /// Keeps a token: before the server is told that it came.
    pub(super) async fn keep_token(self: &Arc<Self>, token: Token) -> Result<(), DuplexError> {
        if token.resume_token.is_empty() {
            return Ok(());
        }
        self.keep(move |core, keep| {
            keep.saved.resume_token = Some(token.resume_token);
            keep.save(core)
        })
        .await
    }

    pub(super) async fn token(self: &Arc<Self>) -> Result<Option<String>, DuplexError> {
        self.keep(|_, keep| Ok(keep.saved.resume_token.clone())).await
    }

    /// Drops the chunks before a number: the server has them.
    pub(super) async fn trim(self: &Arc<Self>, next_seqno: u32) -> Result<(), DuplexError> {
        {
            let mut queue = self.queue();
            while queue.chunks.front().is_some_and(|chunk| chunk.seqno < next_seqno) {
                let dropped = queue.chunks.pop_front().map_or(0, |chunk| chunk.data.len());
                queue.bytes = queue.bytes.saturating_sub(dropped);
                queue.trimmed += dropped;
            }
        }
        self.room.notify_one();
        if !self.is_kept || self.queue().trimmed < TRIM_BYTES {
            return Ok(());
        }
        self.keep(|core, keep| {
            let mut queue = core.queue();
            queue.trimmed = 0;
            let chunks: Vec<_> = queue.chunks.iter().cloned().collect();
            drop(queue);
            match &mut keep.folder {
                Some(folder) => Ok(folder.trim(&chunks)?),
                None => Ok(()),
            }
        })
        .await
    }

    /// The server has no more events.
    pub(super) async fn over(self: &Arc<Self>, finished: &Finished) -> Result<(), DuplexError> {
        let ended = if finished.aborted { Ended::Aborted } else { Ended::Finished };
        self.keep(move |core, keep| {
            core.queue().over = Some(ended);
            core.clear_if_done(keep)
        })
        .await
    }

    /// Notes why there is nothing to resume.
    pub(super) async fn ended(self: &Arc<Self>, ended: Ended) -> Result<(), DuplexError> {
        self.keep(move |core, keep| {
            keep.saved.ended = Some(ended);
            keep.save(core)
        })
        .await
    }

    fn clear_if_done(&self, keep: &mut Keep) -> Result<(), DuplexError> {
        let queue = self.queue();
        let is_done = queue.over.is_some() && queue.marks.iter().all(|mark| !mark.is_event);
        let over = queue.over;
        drop(queue);
        if !is_done {
            return Ok(());
        }
        keep.saved.ended = over;
        keep.saved.resume_token = None;
        keep.bring_up_to_date(self);
        match keep.folder.take() {
            Some(folder) => Ok(folder.finish(&keep.saved)?),
            None => Ok(()),
        }
    }

    /// Tells who watches.
    pub(super) fn tell(&self, change: impl FnOnce(&mut Status)) {
        self.status.send_modify(change);
    }

    /// Tells everybody what it came to.
    pub(super) fn finish(&self, outcome: Result<Finished, DuplexError>) {
        self.tell(|status| {
            status.phase = if outcome.is_ok() { Phase::Ended } else { Phase::Failed };
            status.outcome = Some(outcome);
        });
        self.room.notify_one();
    }
}

impl Keep {
    fn bring_up_to_date(&mut self, core: &Core) {
        self.saved.updated_ms = core.clock.now_ms();
        self.saved.next_seqno = self.next_seqno;
        self.saved.proved = core.queue().proved;
    }

    fn save(&mut self, core: &Core) -> Result<(), DuplexError> {
        self.bring_up_to_date(core);
        match &self.folder {
            Some(folder) => folder.save(&self.saved).map_err(StateError::into),
            None => Ok(()),
        }
    }
}
