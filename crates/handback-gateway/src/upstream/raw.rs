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
            Self::File { file, range } => Self::File {
                file: Arc::clone(file),
                range: range.start + part.start..range.start + part.end,
            },
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
            Self::File { range, .. } => range.end.saturating_sub(range.start),
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
            Self::File { file, range } => {
                let mut buffer = vec![0; length];
                file.read_exact_at(&mut buffer, range.start + wanted.start).map_err(|_| gone())?;
                Ok(Cow::Owned(buffer))
            }
        }
    }
}
