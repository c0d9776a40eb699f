//! A source that is read from its start to its end, in bounded memory.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

use super::scan::{Fault, Scan, Stop, bad};
use super::skim::Skim;
use super::source::ByteSource;
use crate::collection::CollectionError;

/// The longest item that is looked at: it is in memory at once. A longer one is counted, and what is in it
/// can be found by its pointer.
pub const MAX_VALUE_BYTES: usize = 256 << 20;

/// The longest name of a member that is looked at on the way of a pointer, and the longest number: longer
/// names are passed over, and a document with a longer number is refused. Nothing that anybody asks for
/// is called so, and no number says so much.
pub const MAX_NAME_BYTES: usize = 64 << 10;

/// How much is read at a time: enough that a read costs little beside what is done with the bytes,
/// and so little that they are still in the cache when they are looked at a second time.
pub(crate) const READ_BYTES: usize = 256 << 10;

/// How much is read first where it is likely to be enough: of most items several.
pub(crate) const FIRST_READ_BYTES: usize = 4 << 10;

/// The bytes from where a reader is, as far as they were read.
pub(crate) struct Window<'a> {
    source: &'a dyn ByteSource,
    /// Where to stop.
    end: u64,
    /// What is read at a time, and what that grows to.
    chunk: usize,
    chunk_max: usize,
    /// The offset of the first one of `bytes` in the source.
    base: u64,
    bytes: Cow<'a, [u8]>,
    /// Of `bytes`, those that were dealt with.
    done: usize,
}

impl<'a> Window<'a> {
    pub(crate) fn new(source: &'a dyn ByteSource, chunk: usize) -> Result<Self, CollectionError> {
        Self::over(source, 0..source.size_bytes(), chunk..=chunk)
    }

    /// Over a part of a source, in reads that start small and grow: it may take few of them.
    pub(crate) fn over(
        source: &'a dyn ByteSource,
        range: Range<u64>,
        chunks: RangeInclusive<usize>,
    ) -> Result<Self, CollectionError> {
        let bytes = Cow::Borrowed([].as_slice());
        let (chunk, chunk_max) = chunks.into_inner();
        let Range { start: base, end } = range;
        let mut window = Self { source, end, chunk, chunk_max, base, bytes, done: 0 };
        window.read(chunk)?;
        Ok(window)
    }

    /// The bytes that are there, those included that were dealt with.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn scan(&self) -> Scan<'_> {
        if self.is_last() { Scan::whole(&self.bytes) } else { Scan::part(&self.bytes) }
    }

    /// How many of the bytes were dealt with.
    pub(crate) const fn done(&self) -> usize {
        self.done
    }

    pub(crate) fn set_done(&mut self, done: usize) {
        self.done = done;
    }

    /// The offset in the source of a byte that is there.
    pub(crate) const fn offset(&self, at: usize) -> u64 {
        self.base + at as u64
    }

    /// Whether the source ends where the bytes end.
    pub(crate) fn is_last(&self) -> bool {
        self.offset(self.bytes.len()) >= self.end
    }

    /// Goes over a value in so many arrays and objects, however long it is.
    pub(crate) fn skim(&mut self, depth: u32) -> Result<(), CollectionError> {
        let mut skim = Skim::new(depth);
        loop {
            let mut at = self.done;
            let result = skim.run(&self.scan(), &mut at);
            self.done = at;
            match result {
                Ok(()) => return Ok(()),
                // All else is passed over as it comes.
                Err(Stop::Incomplete) if self.left() > MAX_NAME_BYTES && !self.is_last() => {
                    let (what, unit, limit) = ("a number", "bytes", MAX_NAME_BYTES as u64);
                    return Err(CollectionError::TooLarge { what, unit, limit });
                }
                Err(stop) => self.go_on(stop)?,
            }
        }
    }

    /// Goes over white space, however much there is.
    pub(crate) fn space(&mut self) -> Result<(), CollectionError> {
        loop {
            self.done = self.scan().space(self.done);
            if self.left() > 0 || self.is_last() {
                return Ok(());
            }
            self.slide()?;
        }
    }

    /// Goes over the name of a member, to behind its quotes. Says what it is, in quotes, to `look`, unless
    /// it is longer than any that is looked at.
    pub(crate) fn name<T>(
        &mut self,
        mut look: impl FnMut(&[u8]) -> T,
    ) -> Result<Option<T>, CollectionError> {
        loop {
            let (scan, start) = (self.scan(), self.done);
            match scan.quoted_name(start) {
                Ok(end) => {
                    let name = Some(scan.slice(start, end));
                    let seen = name.filter(|name| name.len() <= MAX_NAME_BYTES).map(&mut look);
                    self.done = end;
                    return Ok(seen);
                }
                Err(Stop::Incomplete) if self.left() > MAX_NAME_BYTES => {
                    self.done = start + 1;
                    self.rest_of_text()?;
                    return Ok(None);
                }
                Err(stop) => self.go_on(stop)?,
            }
        }
    }

    /// Goes from behind a name to behind its colon.
    pub(crate) fn colon(&mut self) -> Result<(), CollectionError> {
        self.space()?;
        self.step(|scan, at| match scan.byte(at)? {
            b':' => Ok(((), at + 1)),
            _ => bad(at, "':' is expected"),
        })
    }

    fn rest_of_text(&mut self) -> Result<(), CollectionError> {
        loop {
            let mut at = self.done;
            let result = self.scan().rest_of_text(&mut at);
            self.done = at;
            match result {
                Ok(()) => return Ok(()),
                Err(stop) => self.go_on(stop)?,
            }
        }
    }

    /// How many bytes are there that were not dealt with.
    fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.done)
    }

    /// Does a step, again with more bytes if there are not enough.
    pub(crate) fn step<T>(
        &mut self,
        mut step: impl FnMut(&Scan<'_>, usize) -> Result<(T, usize), Stop>,
    ) -> Result<T, CollectionError> {
        loop {
            match step(&self.scan(), self.done) {
                Ok((result, done)) => {
                    self.done = done;
                    return Ok(result);
                }
                Err(stop) => self.go_on(stop)?,
            }
        }
    }

    /// Reads more, if that is why a scan has stopped.
    pub(crate) fn go_on(&mut self, stop: Stop) -> Result<(), CollectionError> {
        match stop {
            Stop::Incomplete if !self.is_last() => self.slide(),
            Stop::Incomplete => {
                Err(damaged("the text ends too early,", self.offset(self.bytes.len())))
            }
            Stop::Bad(Fault { at, what }) => Err(damaged(what, self.offset(at))),
        }
    }

    /// Leaves behind what was dealt with, and reads more than there was.
    pub(crate) fn slide(&mut self) -> Result<(), CollectionError> {
        self.check_utf8()?;
        let left = self.bytes.len() - self.done;
        if left >= MAX_VALUE_BYTES {
            return Err(CollectionError::TooLarge {
                what: "an item",
                unit: "bytes",
                limit: MAX_VALUE_BYTES as u64,
            });
        }
        self.base = self.offset(self.done);
        self.done = 0;
        self.chunk = self.chunk.saturating_mul(2).min(self.chunk_max);
        self.read(self.chunk.max(2 * left).min(MAX_VALUE_BYTES))
    }

    /// Checks what was dealt with since the window slid.
    pub(crate) fn check_utf8(&self) -> Result<(), CollectionError> {
        let done = self.bytes.get(..self.done).unwrap_or_default();
        // Most text is ASCII, and that is seen in half the time.
        if done.is_ascii() {
            return Ok(());
        }
        match str::from_utf8(done) {
            Ok(_) => Ok(()),
            Err(error) => Err(damaged("the text is not UTF-8", self.offset(error.valid_up_to()))),
        }
    }

    fn read(&mut self, length: usize) -> Result<(), CollectionError> {
        let end = self.end.min(self.base + length as u64);
        // The old ones go first: two buffers are never there at once.
        self.bytes = Cow::Borrowed(&[]);
        self.bytes = read(self.source, self.base..end)?;
        Ok(())
    }
}

/// Exactly these bytes of a source.
pub(crate) fn read(
    source: &dyn ByteSource,
    range: Range<u64>,
) -> Result<Cow<'_, [u8]>, CollectionError> {
    let expected = range.end.saturating_sub(range.start);
    let bytes = source.read(range)?;
    if bytes.len() as u64 == expected { Ok(bytes) } else { Err(CollectionError::Changed) }
}

pub(crate) fn damaged(what: &str, offset: u64) -> CollectionError {
    CollectionError::Damaged(format!("{what} at byte {offset}"))
}
