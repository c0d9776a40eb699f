//! JSON that arrived, in memory or in a file.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use handback_page::CollectionError;
use handback_page::json::ByteSource;

use super::Spooled;

/// The text of one JSON value, as it arrived. It was read once, so it is JSON.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "there is no third place")]
pub enum Raw {
    /// In memory.
    Memory(Bytes),
    /// In a file without a name, which is gone when nobody has it open.
    File {
        /// The file.
        file: Arc<Spooled>,
        /// Where in it the value is.
        range: Range<u64>,
        /// The end of the value, if that is not in the file: what was added to it.
        more: Bytes,
    },
}

impl Raw {
    /// Its bytes, if they are in memory.
    #[must_use]
    pub const fn in_memory(&self) -> Option<&Bytes> {
        match self {
            Self::Memory(bytes) => Some(bytes),
            Self::File { .. } => None,
        }
    }

    /// A part of it, where it is; nothing, if it has no such part.
    #[must_use]
    pub fn part(&self, part: &Range<u64>) -> Option<Self> {
        if part.start > part.end || part.end > self.size_bytes() {
            return None;
        }
        Some(match self {
            Self::Memory(bytes) => {
                let place = |at: u64| usize::try_from(at).ok();
                Self::Memory(bytes.slice(place(part.start)?..place(part.end)?))
            }
            Self::File { file, range, more } => {
                let in_file = range.end.saturating_sub(range.start);
                let place = |at: u64| range.start + at.min(in_file);
                let behind = |at: u64| usize::try_from(at.saturating_sub(in_file)).ok();
                Self::File {
                    file: Arc::clone(file),
                    range: place(part.start)..place(part.end),
                    more: more.slice(behind(part.start)?..behind(part.end)?),
                }
            }
        })
    }

    /// Its bytes, wherever they are; nothing, if they cannot be read any more.
    #[must_use]
    pub fn whole(&self) -> Option<Bytes> {
        match self {
            Self::Memory(bytes) => Some(bytes.clone()),
            Self::File { .. } => {
                let read = self.read(0..self.size_bytes());
                read.ok().map(|bytes| Bytes::from(bytes.into_owned()))
            }
        }
    }
}

impl ByteSource for Raw {
    fn size_bytes(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File { range, more, .. } => {
                range.end.saturating_sub(range.start).saturating_add(more.len() as u64)
            }
        }
    }

    fn edition(&self) -> u64 {
        0
    }

    fn read(&self, wanted: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError> {
        let gone = || CollectionError::Damaged("a result that was set aside".to_owned());
        let size = self.size_bytes();
        if wanted.start > wanted.end || wanted.end > size {
            return Err(gone());
        }
        let length = usize::try_from(wanted.end - wanted.start).map_err(|_| gone())?;
        match self {
            Self::Memory(bytes) => {
                let start = usize::try_from(wanted.start).map_err(|_| gone())?;
                bytes.get(start..start + length).map(Cow::Borrowed).ok_or_else(gone)
            }
            Self::File { file, range, more } => {
                let in_file = range.end.saturating_sub(range.start);
                let of_file = in_file.saturating_sub(wanted.start).min(length as u64);
                let mut buffer = vec![0; usize::try_from(of_file).map_err(|_| gone())?];
                file.read_exact_at(&mut buffer, range.start + wanted.start).map_err(|_| gone())?;
                let behind = |at: u64| usize::try_from(at.saturating_sub(in_file));
                let start = behind(wanted.start).map_err(|_| gone())?;
                let end = behind(wanted.end).map_err(|_| gone())?;
                buffer.extend_from_slice(more.get(start..end).ok_or_else(gone)?);
                Ok(Cow::Owned(buffer))
            }
        }
    }
}
