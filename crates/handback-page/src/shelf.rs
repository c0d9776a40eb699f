//! Where a server keeps what does not travel: snapshots, and places that are too long for a
//! cursor.
//!
//! An id on the shelf travels sealed in a cursor, which opens for one caller and one query only:
//! knowing a file name or guessing an id is no way in.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handback_token::UnixTime;

use crate::collection::CollectionError;
use crate::json::{ByteSource, InMemory};

/// Bytes of a [`ShelfId`].
pub const SHELF_ID_BYTES: usize = 16;

/// The name of something on the shelf: random, or a digest of what it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShelfId([u8; SHELF_ID_BYTES]);

impl ShelfId {
    /// An id of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; SHELF_ID_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; SHELF_ID_BYTES] {
        &self.0
    }
}

impl fmt::Display for ShelfId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ShelfId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShelfId(…)")
    }
}

/// Keeps bytes for a while.
///
/// A shelf is one caller's ([`Own::shelf`](crate::aql::Own::shelf)), or that of all callers of an
/// engine. It need not check who asks: an id comes out of a cursor that opened for its caller.
///
/// A shelf that forgets early makes cursors answer `expired`; one that gives back other bytes than
/// were put on it makes wrong pages.
pub trait Shelf: fmt::Debug + Send + Sync {
    /// Starts to put something on the shelf, to be kept until `until`. An id stands for the same bytes
    /// whenever it is used: what is there under it may stay, or make room.
    ///
    /// # Errors
    ///
    /// [`CollectionError::Unavailable`] if there is no place.
    fn put(
        &self,
        id: ShelfId,
        now: UnixTime,
        until: UnixTime,
    ) -> Result<Box<dyn ShelfWriter + '_>, CollectionError>;

    /// What is kept under an id, if it still is.
    ///
    /// # Errors
    ///
    /// [`CollectionError::Unavailable`] if the shelf cannot be read.
    fn open(
        &self,
        id: ShelfId,
        now: UnixTime,
    ) -> Result<Option<Arc<dyn ByteSource>>, CollectionError>;
}

/// Something that is being put on the shelf. Dropped before [`finish`](Self::finish), it leaves
/// nothing.
pub trait ShelfWriter {
    /// Adds bytes.
    ///
    /// # Errors
    ///
    /// [`CollectionError::Unavailable`] if it cannot be written, [`CollectionError::TooLarge`] if
    /// it is more than the shelf takes.
    fn write(&mut self, bytes: &[u8]) -> Result<(), CollectionError>;

    /// Makes it readable, all at once.
    ///
    /// # Errors
    ///
    /// [`CollectionError::Unavailable`] if it cannot be written.
    fn finish(self: Box<Self>) -> Result<(), CollectionError>;
}

/// A shelf for who has none: nothing fits on it.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to it")]
pub struct NoShelf;

impl Shelf for NoShelf {
    fn put(
        &self,
        _id: ShelfId,
        _now: UnixTime,
        _until: UnixTime,
    ) -> Result<Box<dyn ShelfWriter + '_>, CollectionError> {
        Err(CollectionError::Unavailable("there is no shelf".to_owned()))
    }

    fn open(
        &self,
        _id: ShelfId,
        _now: UnixTime,
    ) -> Result<Option<Arc<dyn ByteSource>>, CollectionError> {
        Ok(None)
    }
}

/// A shelf in memory, for one process.
#[derive(Debug)]
pub struct MemoryShelf {
    max_bytes: usize,
    kept: Mutex<HashMap<ShelfId, Kept>>,
}

#[derive(Debug)]
struct Kept {
    until: UnixTime,
    bytes: Arc<InMemory<Vec<u8>>>,
}

impl MemoryShelf {
    /// A shelf for so many bytes in all. What has expired makes room.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<ShelfId, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf for MemoryShelf {
    fn put(
        &self,
        id: ShelfId,
        now: UnixTime,
        until: UnixTime,
    ) -> Result<Box<dyn ShelfWriter + '_>, CollectionError> {
        self.kept().retain(|_, kept| kept.until > now);
        Ok(Box::new(MemoryWriter { shelf: self, id, until, bytes: Vec::new() }))
    }

    fn open(
        &self,
        id: ShelfId,
        now: UnixTime,
    ) -> Result<Option<Arc<dyn ByteSource>>, CollectionError> {
        let kept = self.kept();
        let kept = kept.get(&id).filter(|kept| kept.until > now);
        Ok(kept.map(|kept| Arc::clone(&kept.bytes) as Arc<dyn ByteSource>))
    }
}

struct MemoryWriter<'a> {
    shelf: &'a MemoryShelf,
    id: ShelfId,
    until: UnixTime,
    bytes: Vec<u8>,
}

impl ShelfWriter for MemoryWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), CollectionError> {
        if self.bytes.len() + bytes.len() > self.shelf.max_bytes {
            return Err(CollectionError::TooLarge {
                what: "snapshot",
                unit: "bytes",
                limit: self.shelf.max_bytes as u64,
            });
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), CollectionError> {
        let mut kept = self.shelf.kept();
        let others = kept.iter().filter(|(id, _)| **id != self.id);
        let used: u64 = others.map(|(_, kept)| kept.bytes.size_bytes()).sum();
        if used + self.bytes.len() as u64 > self.shelf.max_bytes as u64 {
            return Err(CollectionError::Unavailable("the shelf is full".to_owned()));
        }
        let bytes = Arc::new(InMemory::new(self.bytes, 0));
        kept.insert(self.id, Kept { until: self.until, bytes });
        Ok(())
    }
}
