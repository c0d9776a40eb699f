//! Items in the bytes of a source.

use std::borrow::Cow;
use std::ops::Range;

use super::source::ByteSource;
use super::starts::Starts;
use super::window;
use crate::collection::CollectionError;

/// A source, and where its items start.
#[derive(Debug)]
pub(crate) struct Stored {
    source: Box<dyn ByteSource>,
    starts: Starts,
}

/// Some items that follow each other.
pub(crate) struct Block<'a> {
    /// Which.
    pub(crate) numbers: Range<u32>,
    /// From the start of the first one to the start of what follows the last one.
    pub(crate) text: &'a str,
}

impl Stored {
    pub(crate) fn new(source: Box<dyn ByteSource>, starts: Starts) -> Self {
        Self { source, starts }
    }

    /// How many items there are.
    pub(crate) fn count(&self) -> u32 {
        self.starts.count()
    }

    pub(crate) fn source(&self) -> &dyn ByteSource {
        &*self.source
    }

    /// The part of the block of an item that `find` chooses.
    pub(crate) fn text(
        &self,
        number: u32,
        find: impl FnOnce(Block<'_>) -> Result<Range<usize>, CollectionError>,
    ) -> Result<Cow<'_, str>, CollectionError> {
        let block = self.starts.block_of(number);
        let text = self.read(self.starts.bytes(block))?;
        let range = find(Block { numbers: self.starts.numbers(block), text: &text })?;
        let part = match text {
            Cow::Borrowed(text) => text.get(range).map(Cow::Borrowed),
            Cow::Owned(text) if range == (0..text.len()) => Some(Cow::Owned(text)),
            Cow::Owned(text) => text.get(range).map(|part| Cow::Owned(part.to_owned())),
        };
        part.ok_or(CollectionError::Changed)
    }

    /// Gives every block to `visit`, in order.
    pub(crate) fn each(
        &self,
        visit: &mut dyn FnMut(Block<'_>) -> Result<(), CollectionError>,
    ) -> Result<(), CollectionError> {
        for run in self.starts.runs() {
            let start = self.starts.bytes(run.start).start;
            let end = self.starts.bytes(run.end.saturating_sub(1)).end;
            let text = self.read(start..end)?;
            for block in run {
                let bytes = self.starts.bytes(block);
                let local = |offset: u64| usize::try_from(offset - start).unwrap_or(usize::MAX);
                let text = text.get(local(bytes.start)..local(bytes.end));
                let text = text.ok_or(CollectionError::Changed)?;
                visit(Block { numbers: self.starts.numbers(block), text })?;
            }
        }
        Ok(())
    }

    /// It was UTF-8 when the starts were found.
    fn read(&self, range: Range<u64>) -> Result<Cow<'_, str>, CollectionError> {
        let text = match window::read(&*self.source, range)? {
            Cow::Borrowed(bytes) => str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
        };
        text.ok_or(CollectionError::Changed)
    }
}
