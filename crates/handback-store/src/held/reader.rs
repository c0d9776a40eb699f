//! Reading a value by position.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::CHUNK_BYTES;
use super::error::HeldError;
use super::file::FileReader;
use super::row::{Name, Place};
use super::store::{Held, Shared};
use crate::{Kv, Millis};

/// A value that can be read anywhere. It has one chunk in memory.
pub struct HeldReader<S> {
    shared: Arc<Shared<S>>,
    name: Name,
    size: u64,
    file: Option<FileReader>,
    /// Chunks are read as of then: a value that ends while it is read can be read to its end, until
    /// it is swept.
    opened_at: Millis,
    last: Mutex<Option<(u64, Bytes)>>,
}

impl<S: Kv> HeldReader<S> {
    pub(super) fn open(
        shared: Arc<Shared<S>>,
        held: &Held,
        now: Millis,
    ) -> Result<Self, HeldError> {
        let file = match held.row.place {
            Place::Store => None,
            place => {
                let folder = shared.folder().ok_or(HeldError::Gone)?;
                let opened = FileReader::open(folder, &held.name, place);
                Some(opened.map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => HeldError::Gone,
                    _ => error.into(),
                })?)
            }
        };
        let (name, size) = (held.name.clone(), held.row.size);
        Ok(Self { shared, name, size, file, opened_at: now, last: Mutex::new(None) })
    }

    /// How many bytes the value has.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.size
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Reads from a position on. Gives how many bytes there were: fewer than there is room for only at
    /// the end of the value.
    ///
    /// # Errors
    ///
    /// [`HeldError`].
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, HeldError> {
        let mut filled = 0;
        let mut at = offset;
        while filled < buffer.len() && at < self.size {
            let chunk = self.chunk(at / CHUNK_BYTES as u64)?;
            let start = usize::try_from(at % CHUNK_BYTES as u64).unwrap_or(usize::MAX);
            let found = chunk.get(start..).filter(|found| !found.is_empty());
            let found = found.ok_or(HeldError::Damaged)?;
            let place = buffer.get_mut(filled..).unwrap_or_default();
            let count = found.len().min(place.len());
            place.split_at_mut(count).0.copy_from_slice(found.split_at(count).0);
            filled += count;
            at += count as u64;
        }
        Ok(filled)
    }

    /// All of it, if it has at most so many bytes.
    ///
    /// # Errors
    ///
    /// [`HeldError`].
    pub fn read_whole(&self, max_bytes: usize) -> Result<Option<Vec<u8>>, HeldError> {
        let Some(size) = usize::try_from(self.size).ok().filter(|size| *size <= max_bytes) else {
            return Ok(None);
        };
        let mut whole = vec![0; size];
        let read = self.read_at(0, &mut whole)?;
        if read == size { Ok(Some(whole)) } else { Err(HeldError::Damaged) }
    }

    fn chunk(&self, number: u64) -> Result<Bytes, HeldError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, chunk)) = &*last
            && *known == number
        {
            return Ok(chunk.clone());
        }
        let chunk = match &self.file {
            Some(file) => file.chunk(self.shared.keys(), number, self.size)?,
            None => {
                let chunk = self.shared.kv.get(&self.name.chunk(number), self.opened_at)?;
                chunk.ok_or(HeldError::Gone)?
            }
        };
        *last = Some((number, chunk.clone()));
        Ok(chunk)
    }
}

impl<S> fmt::Debug for HeldReader<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldReader").field("len", &self.size).finish_non_exhaustive()
    }
}
