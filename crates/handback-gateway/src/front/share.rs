//! What the streams of one caller keep, all together.
//!
//! Each stream is bounded, and each may keep one answer that is larger, because a client whose connection
//! broke comes back for it. A caller has many of them, so that there is a bound for all of them as well:
//! what a client can come back to is a courtesy, and must not cost a server its memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::sessions::{Stream, lock};

/// Bytes that all streams of one caller keep at most, sent or not: as much as the largest answer has. What
/// was added last stays beside it, and of every stream that somebody reads the last message.
pub(super) const SHARE_BYTES_MAX: usize = 64 << 20;

/// How much is left once room is made, so that not every message has to make some.
const SHARE_BYTES_LEFT: usize = SHARE_BYTES_MAX / 4 * 3;

/// What the streams of one caller keep.
#[derive(Debug, Default)]
pub(super) struct Share {
    bytes: AtomicUsize,
    streams: Mutex<HashMap<u64, Weak<Stream>>>,
    /// The number of the stream that began last.
    begun: AtomicU64,
    /// How often something was added.
    added: AtomicU64,
}

/// What of a stream makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// What was sent.
    Sent,
    /// Everything, unless somebody reads it.
    Unread,
    /// All but the last message.
    Earlier,
}

impl Share {
    /// A number for one more stream.
    pub(super) fn number(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a stream among those of the caller.
    pub(super) fn list(&self, number: u64, stream: &Arc<Stream>) {
        lock(&self.streams).insert(number, Arc::downgrade(stream));
    }

    /// A stream is gone, and so is what it kept.
    pub(super) fn unlist(&self, number: u64, bytes: usize) {
        lock(&self.streams).remove(&number);
        self.changed(bytes, 0);
    }

    /// A stream that kept so much keeps so much now.
    pub(super) fn changed(&self, before: usize, after: usize) {
        match after.checked_sub(before) {
            Some(more) => self.bytes.fetch_add(more, Ordering::Relaxed),
            None => self.bytes.fetch_sub(before - after, Ordering::Relaxed),
        };
    }

    /// The place of something that is added now among all that was.
    pub(super) fn next_addition(&self) -> u64 {
        self.added.fetch_add(1, Ordering::Relaxed)
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Makes room, if there is too much: what was sent goes first, then what nobody reads, then what
    /// readers are behind with; the oldest of each first.
    pub(super) fn make_room(&self) {
        if self.bytes() <= SHARE_BYTES_MAX {
            return;
        }
        // One that ends here takes itself off the list.
        let mut streams: Vec<Arc<Stream>> =
            lock(&self.streams).values().filter_map(Weak::upgrade).collect();
        streams.sort_by_cached_key(|stream| stream.last_addition());
        // What was added last stays: it was not there to be taken before.
        streams.pop();
        for given in [Given::Sent, Given::Unread, Given::Earlier] {
            for stream in &streams {
                if self.bytes() <= SHARE_BYTES_LEFT {
                    return;
                }
                stream.give(given);
            }
        }
    }
}
