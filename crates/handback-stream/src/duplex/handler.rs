//! What consumes chunks and makes events.

use std::fmt;

use bytes::Bytes;

/// A piece of what the client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the protocol has these two")]
pub struct Chunk {
    /// The number of its record.
    pub number: u64,
    /// The bytes.
    pub data: Bytes,
}

/// What consumes the chunks of one duplex and makes its events.
///
/// Each chunk is consumed once: the events that it makes are durable in the same commit as the note
/// that it was consumed. A crash before that gives the chunk again, to a new handler, which has
/// heard of the chunks before by [`DuplexHandler::recall`]. So what a handler does besides making
/// events may happen twice; what it makes does not.
///
/// A handler that panics, or makes more of a chunk than it may ([`EVENTS_PER_CHUNK_MAX`],
/// [`EVENT_BYTES_PER_CHUNK_MAX`]), ends its duplex: the client is told that it was aborted. Handlers
/// are called on the threads that serve everybody, and must not block.
pub trait DuplexHandler: fmt::Debug + Send {
    /// Consumes the next chunk. Each item is one event, of at most
    /// [`CHUNK_BYTES_MAX`](super::CHUNK_BYTES_MAX) bytes.
    fn chunk(&mut self, chunk: Chunk) -> Vec<Bytes>;

    /// The client sends no more. The duplex ends after these events.
    fn close(&mut self) -> Vec<Bytes> {
        Vec::new()
    }

    /// Whether it wants to hear of the chunks that another one has consumed before it.
    fn wants_history(&self) -> bool {
        false
    }

    /// A chunk that was consumed before, and whose events are there.
    fn recall(&mut self, _chunk: Chunk) {}
}

/// Every chunk is an event.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Echo;

impl DuplexHandler for Echo {
    fn chunk(&mut self, chunk: Chunk) -> Vec<Bytes> {
        vec![chunk.data]
    }
}

/// Which chunk made an event, and the how-manieth of it that is: the writer sequence of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "the format has these two")]
pub struct Mark {
    /// The record of the chunk.
    pub chunk: u64,
    /// The place of the event in what it made.
    pub place: u16,
}

/// Events that one chunk makes at most: what a [`Mark`] can count.
pub const EVENTS_PER_CHUNK_MAX: usize = 10_000;

/// Bytes of them at most: they are written in one commit.
pub const EVENT_BYTES_PER_CHUNK_MAX: usize = 16 << 20;

impl Mark {
    /// The marks of what a chunk makes, in order.
    pub fn of(chunk: u64) -> impl Iterator<Item = Self> {
        (0..).take(EVENTS_PER_CHUNK_MAX).map(move |place| Self { chunk, place })
    }

    /// The mark that a writer sequence is.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (chunk, place) = text.split_once('.')?;
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let fits = chunk.len() == 16 && place.len() == 4 && is_plain(chunk) && is_plain(place);
        fits.then_some(Self { chunk: chunk.parse().ok()?, place: place.parse().ok()? })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016}.{:04}", self.chunk, self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_and_sort_as_text() {
        let marks = [(0, 0), (0, 1), (1, 0), (9, 9999), (10, 0), (9_999_999_999_999_999, 3)]
            .map(|(chunk, place)| Mark { chunk, place });
        assert!(marks.is_sorted());
        assert!(marks.map(|mark| mark.to_string()).is_sorted());
        for mark in marks {
            assert_eq!(Mark::parse(&mark.to_string()), Some(mark));
        }
        for bad in ["", "abort", "1.1", "0000000000000001.00001", "000000000000000a.0001"] {
            assert_eq!(Mark::parse(bad), None, "{bad}");
        }
        assert!(*"abort" > *marks[5].to_string(), "an abort comes last");
    }
}
