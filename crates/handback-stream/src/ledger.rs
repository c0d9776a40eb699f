//! The streams and stored bytes of each owner, counted against limits.
//!
//! The counts follow from the streams themselves: a hub that is recovered counts them again.

use std::collections::HashMap;

/// Bytes that an append adds beside its payload: its envelope in the log, about.
pub(crate) const RECORD_BYTES: u64 = 64;

/// The most streams, and the most stored bytes, of all owners and of one.
///
/// The default has no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "servers write it as a literal")]
pub struct StreamQuotas {
    /// Streams of all owners. Each has some kilobytes of memory.
    pub streams: u64,
    /// Streams of one owner.
    pub streams_per_owner: u64,
    /// Stored bytes of the records of all owners.
    pub bytes: u64,
    /// Stored bytes of the records of one owner.
    pub bytes_per_owner: u64,
}

impl Default for StreamQuotas {
    fn default() -> Self {
        let none = u64::MAX;
        Self { streams: none, streams_per_owner: none, bytes: none, bytes_per_owner: none }
    }
}

/// The limit that a creation or an append would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "two things are counted, for one owner and for all")]
pub enum StreamQuota {
    /// The streams of the owner.
    #[error("the caller's share of streams is used up: delete a stream")]
    OwnerStreams,
    /// The stored bytes of the owner.
    #[error("the caller's share of stored bytes is used up: delete a stream")]
    OwnerBytes,
    /// The streams of all owners.
    #[error("the server has as many streams as it may have")]
    TotalStreams,
    /// The stored bytes of all owners.
    #[error("the server stores as many bytes of streams as it may")]
    TotalBytes,
}

impl StreamQuota {
    /// Whether the limit is that of the owner alone.
    #[must_use]
    pub const fn is_of_owner(self) -> bool {
        matches!(self, Self::OwnerStreams | Self::OwnerBytes)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    streams: u64,
    bytes: u64,
}

/// Counts streams and stored bytes.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    sum: Usage,
    owners: HashMap<String, Usage>,
}

impl Ledger {
    /// Checks whether an owner may have one more stream.
    pub(crate) fn check_stream(
        &self,
        quotas: &StreamQuotas,
        owner: &str,
    ) -> Result<(), StreamQuota> {
        let own = self.usage(owner).streams;
        if own >= quotas.streams_per_owner {
            return Err(StreamQuota::OwnerStreams);
        }
        if self.sum.streams >= quotas.streams {
            return Err(StreamQuota::TotalStreams);
        }
        Ok(())
    }

    /// Checks whether an owner may store so many more bytes.
    pub(crate) fn check_bytes(
        &self,
        quotas: &StreamQuotas,
        owner: &str,
        more: u64,
    ) -> Result<(), StreamQuota> {
        let fits = |bytes: u64, most| bytes.checked_add(more).is_some_and(|bytes| bytes <= most);
        if !fits(self.usage(owner).bytes, quotas.bytes_per_owner) {
            return Err(StreamQuota::OwnerBytes);
        }
        if !fits(self.sum.bytes, quotas.bytes) {
            return Err(StreamQuota::TotalBytes);
        }
        Ok(())
    }

    /// Counts a stream that is there, with the bytes of its records.
    pub(crate) fn add_stream(&mut self, owner: &str, bytes: u64) {
        self.sum.streams += 1;
        match self.owners.get_mut(owner) {
            Some(own) => own.streams += 1,
            None => {
                self.owners.insert(owner.to_owned(), Usage { streams: 1, bytes: 0 });
            }
        }
        self.add_bytes(owner, bytes);
    }

    /// Counts bytes of a stream that is counted.
    pub(crate) fn add_bytes(&mut self, owner: &str, bytes: u64) {
        self.sum.bytes = self.sum.bytes.saturating_add(bytes);
        if let Some(own) = self.owners.get_mut(owner) {
            own.bytes = own.bytes.saturating_add(bytes);
        }
    }

    /// Counts a stream no longer, nor the bytes of its records.
    pub(crate) fn remove_stream(&mut self, owner: &str, bytes: u64) {
        self.sum.streams = self.sum.streams.saturating_sub(1);
        self.sum.bytes = self.sum.bytes.saturating_sub(bytes);
        let Some(own) = self.owners.get_mut(owner) else { return };
        own.streams = own.streams.saturating_sub(1);
        own.bytes = own.bytes.saturating_sub(bytes);
        if own.streams == 0 {
            self.owners.remove(owner);
        }
    }

    fn usage(&self, owner: &str) -> Usage {
        self.owners.get(owner).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Ledger, StreamQuota, StreamQuotas};

    #[test]
    fn counts_end_with_their_streams() {
        let quotas =
            StreamQuotas { streams: 3, streams_per_owner: 2, bytes: 150, bytes_per_owner: 100 };
        let mut ledger = Ledger::default();
        ledger.add_stream("ada", 60);
        ledger.add_stream("ada", 0);
        let stream = |ledger: &Ledger, owner| ledger.check_stream(&quotas, owner);
        let bytes = |ledger: &Ledger, owner, more| ledger.check_bytes(&quotas, owner, more);
        assert_eq!(stream(&ledger, "ada"), Err(StreamQuota::OwnerStreams));
        assert_eq!(bytes(&ledger, "ada", 40), Ok(()));
        assert_eq!(bytes(&ledger, "ada", 41), Err(StreamQuota::OwnerBytes));
        ledger.add_stream("bob", 60);
        assert_eq!(stream(&ledger, "bob"), Err(StreamQuota::TotalStreams));
        assert_eq!(bytes(&ledger, "bob", 31), Err(StreamQuota::TotalBytes));
        ledger.remove_stream("ada", 60);
        ledger.remove_stream("ada", 0);
        assert_eq!((stream(&ledger, "ada"), bytes(&ledger, "ada", 90)), (Ok(()), Ok(())));
        assert_eq!(ledger.owners.len(), 1, "an owner without streams is forgotten");
    }
}
