//! Held values as bytes and as collections.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handback_gateway::bound::Masked;
use handback_gateway::note::HeldNote;
use handback_page::json::{ByteSource, JsonCollection, JsonOptions, Pointer};
use handback_page::text::TextCollection;
use handback_page::{Collection, CollectionError};
use handback_store::Kv;
use handback_store::held::{Held, HeldError, HeldReader};
use handback_token::Handle;
use handback_tool::CallHeld;

/// Indexes of held values that are kept in memory: as many as of snapshots.
const OPENED_MAX: usize = 16;

/// Bytes that they take together, with the orders that were found: two of the largest.
const OPENED_BYTES: u64 = 32 << 20;

/// Bytes of an item that is looked at as a whole: more than fit into an answer, and few enough that
/// several of them fit into memory.
const LONGEST_ITEM_BYTES: usize = 16 << 20;

/// A held value, read by position.
#[derive(Debug)]
pub(super) struct HeldBytes(HeldReader<Arc<dyn Kv>>);

impl HeldBytes {
    pub(super) fn open(held: &CallHeld, value: &Held, now_ms: u64) -> Result<Self, HeldError> {
        held.read(value, now_ms).map(Self)
    }
}

impl ByteSource for HeldBytes {
    fn size_bytes(&self) -> u64 {
        self.0.len()
    }

    fn edition(&self) -> u64 {
        // A name never stands for other bytes, and cursors are bound to the name.
        0
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError> {
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= self.0.len());
        let len = len.and_then(|len| usize::try_from(len).ok()).ok_or(CollectionError::Changed)?;
        let mut bytes = vec![0; len];
        let read = self.0.read_at(range.start, &mut bytes).map_err(failure)?;
        if read == len { Ok(Cow::Owned(bytes)) } else { Err(failure(HeldError::Damaged)) }
    }
}

/// Held values that were read lately, with their index. Whose they are was asked before.
#[derive(Debug, Default)]
pub(super) struct Opened(Mutex<VecDeque<Entry>>);

#[derive(Debug)]
struct Entry {
    name: Name,
    /// When the value ends, as far as was known.
    until_ms: u64,
    slot: Arc<Slot>,
}

/// A value, and where in it the items are, if somebody asked for others than its own.
type Name = (Handle, Option<Pointer>);

/// Its lock is held while the value is indexed: who wants the same one waits, others do not.
type Slot = Mutex<Option<Indexed>>;

/// A value that can be read.
#[derive(Clone, Debug)]
enum Indexed {
    Json(Arc<JsonCollection>),
    Text(Arc<TextCollection>),
}

impl Indexed {
    fn open(
        bytes: HeldBytes,
        value: &Held,
        part: Option<&Pointer>,
    ) -> Result<Self, CollectionError> {
        if value.kind().starts_with("text/") {
            if let Some(part) = part.filter(|part| !part.tokens().is_empty()) {
                return Err(CollectionError::NothingAt(part.clone()));
            }
            let text = TextCollection::open_bounded(bytes, LONGEST_ITEM_BYTES)?;
            return Ok(Self::Text(Arc::new(text)));
        }
        let options =
            JsonOptions::new().with_whole_document().with_longest_item(LONGEST_ITEM_BYTES);
        let note = HeldNote::read(value.note());
        // Pages and searches have no base64 in them.
        let bytes: Arc<dyn ByteSource> = match &note.media {
            Some(media) => {
                let blocks = media.blocks(&bytes)?;
                Arc::new(Masked::new(bytes, &blocks))
            }
            None => Arc::new(bytes),
        };
        let open = |pointer: Pointer| {
            JsonCollection::open(Arc::clone(&bytes), options.clone().with_pointer(pointer))
        };
        let noted = note.items.parse().unwrap_or_default();
        let opened = match (part, open(part.cloned().unwrap_or(noted))) {
            // What is noted was so for an earlier value.
            (None, Err(CollectionError::NothingAt(_))) => open(Pointer::whole())?,
            (_, opened) => opened?,
        };
        Ok(Self::Json(Arc::new(opened)))
    }

    fn collection(self) -> Arc<dyn Collection> {
        match self {
            Self::Json(json) => json,
            Self::Text(text) => text,
        }
    }

    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Json(json) => json.memory_bytes(),
            Self::Text(text) => text.memory_bytes(),
        }
    }
}

impl Opened {
    /// The collection that a held value is, or a part of it.
    pub(super) fn collection(
        &self,
        handle: Handle,
        part: Option<&Pointer>,
        held: &CallHeld,
        value: &Held,
        now_ms: u64,
    ) -> Result<Arc<dyn Collection>, CollectionError> {
        let slot = self.slot((handle, part.cloned()), value.until(), now_ms);
        let mut content = lock(&slot);
        if let Some(known) = content.clone() {
            drop(content);
            // It may have grown since: orders were found.
            self.make_room(&slot);
            return Ok(known.collection());
        }
        let bytes = HeldBytes::open(held, value, now_ms).map_err(failure);
        match bytes.and_then(|bytes| Indexed::open(bytes, value, part)) {
            Ok(indexed) => {
                *content = Some(indexed.clone());
                drop(content);
                self.make_room(&slot);
                Ok(indexed.collection())
            }
            Err(error) => {
                lock(&self.0).retain(|entry| !Arc::ptr_eq(&entry.slot, &slot));
                Err(error)
            }
        }
    }

    /// Lets go of a value that has ended.
    pub(super) fn forget(&self, handle: Handle) {
        lock(&self.0).retain(|entry| entry.name.0 != handle);
    }

    /// The slot of a value, as the one that was used last. Those of values that have ended are dropped:
    /// their files stay on the disk for as long as they are open.
    fn slot(&self, name: Name, until_ms: u64, now_ms: u64) -> Arc<Slot> {
        let mut opened = lock(&self.0);
        opened.retain(|entry| now_ms < entry.until_ms || entry.name == name);
        let known = opened.iter().position(|entry| entry.name == name);
        let known = known.and_then(|place| opened.remove(place));
        let slot = known.map_or_else(Arc::default, |entry| entry.slot);
        opened.push_back(Entry { name, until_ms, slot: Arc::clone(&slot) });
        slot
    }

    /// Drops indexes until the others are few and small enough: the one that is needed now is kept in
    /// any case.
    fn make_room(&self, slot: &Arc<Slot>) {
        let mut opened = lock(&self.0);
        // One that is being made says so itself once it is there.
        let bytes = |entry: &Entry| {
            let content = entry.slot.try_lock().ok();
            content.and_then(|content| content.as_ref().map(Indexed::memory_bytes)).unwrap_or(0)
        };
        let mut sizes: VecDeque<u64> = opened.iter().map(bytes).collect();
        while opened.len() > OPENED_MAX || sizes.iter().sum::<u64>() > OPENED_BYTES {
            let others = opened.iter().position(|entry| !Arc::ptr_eq(&entry.slot, slot));
            let Some(place) = others else { break };
            opened.remove(place);
            sizes.remove(place);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a caller may know of it.
pub(super) fn failure(error: HeldError) -> CollectionError {
    match error {
        HeldError::Quota { limit } => {
            CollectionError::TooLarge { what: "snapshot", unit: "bytes held for one caller", limit }
        }
        HeldError::Gone => CollectionError::Gone("it is not held any more".to_owned()),
        HeldError::Damaged => CollectionError::Damaged("a held value".to_owned()),
        error => {
            tracing::error!(%error, "a held value cannot be reached");
            CollectionError::Unavailable("the store of held values".to_owned())
        }
    }
}
