//! Held values as bytes and as collections.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handback_page::json::{ByteSource, JsonCollection, JsonOptions};
use handback_page::text::TextCollection;
use handback_page::{Collection, CollectionError};
use handback_store::Kv;
use handback_store::held::{Held, HeldError, HeldReader};
use handback_token::Handle;
use handback_tool::CallHeld;

/// Indexes of held values that are kept in memory: as many as of snapshots.
const OPENED_MAX: usize = 16;

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
pub(super) struct Opened(Mutex<VecDeque<(Handle, Arc<dyn Collection>)>>);

impl Opened {
    /// The collection that a held value is.
    pub(super) fn collection(
        &self,
        handle: Handle,
        held: &CallHeld,
        value: &Held,
        now_ms: u64,
    ) -> Result<Arc<dyn Collection>, CollectionError> {
        if let Some(known) = self.known(handle) {
            return Ok(known);
        }
        // Not under the lock: a large value takes seconds, and two that index it do no harm.
        let bytes = HeldBytes::open(held, value, now_ms).map_err(failure)?;
        let collection: Arc<dyn Collection> = if value.kind().starts_with("text/") {
            Arc::new(TextCollection::open(bytes)?)
        } else {
            Arc::new(JsonCollection::open(bytes, JsonOptions::new())?)
        };
        let mut opened = self.lock();
        if opened.len() >= OPENED_MAX {
            opened.pop_front();
        }
        opened.push_back((handle, Arc::clone(&collection)));
        Ok(collection)
    }

    fn known(&self, handle: Handle) -> Option<Arc<dyn Collection>> {
        let mut opened = self.lock();
        let place = opened.iter().position(|(known, _)| *known == handle)?;
        let entry = opened.remove(place)?;
        let collection = Arc::clone(&entry.1);
        opened.push_back(entry);
        Some(collection)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Handle, Arc<dyn Collection>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
