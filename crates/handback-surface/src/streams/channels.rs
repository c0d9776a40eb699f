//! What the writer shows to readers.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use handback_store::ReadLimit;
use handback_stream::{Meta, NameId, Signature, StreamId, View};
use tokio::sync::watch;

use super::directory::{Directory, Namespace};
use super::driver::{Mode, lock};

/// Records kept in memory per stream, for readers at its end.
const TAIL_RECORDS: usize = 64;

/// Bytes of them.
const TAIL_BYTES: usize = 256 << 10;

/// Bytes of an event that is kept for other readers.
const EVENT_BYTES: usize = 16 << 10;

/// All that readers see.
pub(super) struct Shown {
    channels: RwLock<HashMap<NameId, Arc<Channel>>>,
    pub(super) mode: watch::Sender<Mode>,
    /// Readers that wait are to end.
    pub(super) closing: watch::Sender<bool>,
    /// The last one, which is stored with the next commit only.
    pub(super) signature: Mutex<Option<Signature>>,
    /// The paths of all streams that can be read.
    pub(super) directory: Directory,
}

/// What readers of one stream wait on.
pub(super) struct Channel {
    /// The namespace of the stream's owner.
    namespace: Arc<Namespace>,
    pub(super) view: watch::Sender<Option<View>>,
    pub(super) tail: Mutex<Tail>,
    /// The last event that was made for those who read along: all of them get the same.
    event: Mutex<Option<Event>>,
}

/// Records as an event has them.
struct Event {
    id: StreamId,
    after: u64,
    upto: u64,
    text: Bytes,
}

/// The last records of a stream.
#[derive(Default)]
pub(super) struct Tail {
    /// Of which stream: a name may get another one.
    id: Option<StreamId>,
    records: VecDeque<(u64, Bytes)>,
    bytes: usize,
}

impl Shown {
    pub(super) fn new(mode: Mode, signature: Option<Signature>) -> Self {
        Self {
            channels: RwLock::default(),
            mode: watch::Sender::new(mode),
            closing: watch::Sender::new(false),
            signature: Mutex::new(signature),
            directory: Directory::default(),
        }
    }

    pub(super) fn channel(&self, name: NameId) -> Option<Arc<Channel>> {
        let channels = self.channels.read().unwrap_or_else(PoisonError::into_inner);
        channels.get(&name).map(Arc::clone)
    }

    /// All streams as they are now.
    pub(super) fn views(&self) -> Vec<View> {
        let channels = self.channels.read().unwrap_or_else(PoisonError::into_inner);
        channels.values().filter_map(|channel| channel.view.borrow().clone()).collect()
    }

    /// Shows streams as they are from now on.
    pub(super) fn publish(&self, views: Vec<(NameId, Option<View>)>) {
        for (name, view) in views {
            match (self.channel(name), view) {
                (Some(channel), Some(view)) => {
                    let (meta, deleted) = (Arc::clone(&view.meta), view.deleted);
                    let before = channel.view.send_replace(Some(view));
                    let is_same =
                        before.is_some_and(|old| !old.deleted && old.meta.id() == meta.id());
                    channel.note(&meta, deleted, is_same);
                }
                (Some(channel), None) => {
                    let before = channel.view.send_replace(None);
                    if let Some(before) = before {
                        channel.namespace.remove(before.meta.path());
                    }
                    let mut channels =
                        self.channels.write().unwrap_or_else(PoisonError::into_inner);
                    channels.remove(&name);
                    drop(channels);
                    self.directory.forget_unused(&channel.namespace);
                }
                (None, Some(view)) => {
                    let (meta, deleted) = (Arc::clone(&view.meta), view.deleted);
                    let channel = Arc::new(Channel {
                        namespace: self.directory.namespace(meta.owner()),
                        view: watch::Sender::new(Some(view)),
                        tail: Mutex::default(),
                        event: Mutex::default(),
                    });
                    let mut channels =
                        self.channels.write().unwrap_or_else(PoisonError::into_inner);
                    channels.insert(name, Arc::clone(&channel));
                    drop(channels);
                    channel.note(&meta, deleted, false);
                }
                (None, None) => {}
            }
        }
    }

    /// Shows these streams and no others: what is there after the store was reopened. That may be
    /// more than was shown, never less.
    pub(super) fn replace(&self, views: Vec<(NameId, Option<View>)>) {
        let known: Vec<_> = {
            let channels = self.channels.read().unwrap_or_else(PoisonError::into_inner);
            channels.iter().map(|(name, channel)| (*name, Arc::clone(channel))).collect()
        };
        let there: HashSet<NameId> = views.iter().map(|(name, _)| *name).collect();
        let mut gone = Vec::new();
        for (name, channel) in known {
            *lock(&channel.tail) = Tail::default();
            if !there.contains(&name) {
                gone.push((name, None));
            }
        }
        self.publish(gone);
        self.publish(views);
    }
}

impl Channel {
    /// Notes in the directory that the stream changed. `is_same` if the directory has it.
    fn note(&self, meta: &Meta, deleted: bool, is_same: bool) {
        match (deleted, is_same) {
            (true, _) => self.namespace.remove(meta.path()),
            (false, true) => self.namespace.grow(meta.path()),
            (false, false) => self.namespace.add(meta.path(), meta.created()),
        }
    }

    /// The event of all records of a view after a number, if it was made already.
    pub(super) fn event(&self, view: &View, after: u64) -> Option<Bytes> {
        let event = lock(&self.event);
        let event = event.as_ref()?;
        let is_same =
            event.id == view.meta.id() && event.after == after && event.upto == view.number;
        is_same.then(|| event.text.clone())
    }

    /// Keeps an event for others. Not one that only those may see who have a key.
    pub(super) fn keep_event(&self, view: &View, after: u64, text: &Bytes) {
        if text.len() <= EVENT_BYTES && view.meta.key_commitment().is_none() {
            let (id, upto, text) = (view.meta.id(), view.number, text.clone());
            *lock(&self.event) = Some(Event { id, after, upto, text });
        }
    }
}

impl Tail {
    pub(super) fn push(&mut self, id: StreamId, number: u64, bytes: Bytes) {
        let follows = self.records.back().is_none_or(|(last, _)| last + 1 == number);
        if self.id != Some(id) || !follows {
            *self = Self { id: Some(id), ..Self::default() };
        }
        self.bytes += bytes.len();
        self.records.push_back((number, bytes));
        while self.records.len() > TAIL_RECORDS || self.bytes > TAIL_BYTES {
            let Some((_, bytes)) = self.records.pop_front() else { break };
            self.bytes -= bytes.len();
        }
    }

    /// What is wanted, if all of it is here.
    pub(super) fn after(
        &self,
        view: &View,
        after: u64,
        limit: ReadLimit,
    ) -> Option<Vec<(u64, Bytes)>> {
        if self.id != Some(view.meta.id()) {
            return None;
        }
        let (first, _) = self.records.front()?;
        let skipped = usize::try_from((after + 1).checked_sub(*first)?).ok()?;
        let mut bytes = 0;
        let wanted = self.records.iter().skip(skipped).take(limit.records).take_while(|(n, b)| {
            let fits = *n <= view.number && bytes <= limit.bytes;
            bytes += b.len();
            fits
        });
        let wanted: Vec<_> = wanted.cloned().collect();
        (!wanted.is_empty()).then_some(wanted)
    }
}
