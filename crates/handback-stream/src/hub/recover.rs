//! A hub of what is stored.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use super::{Hub, Round, TOUCH_PARTS, Views};
use crate::ledger::{Ledger, StreamQuotas};
use crate::name::{NameId, StreamId};
use crate::record::{Life, Record};
use crate::sign::SigningKey;
use crate::state::Stream;
use crate::stored::{Commit, Stored};
use crate::view::{Meta, Segment};

/// The longest time between two sweeps.
const SWEEP_SLACK_MS: u64 = 1000;

/// Why what is stored cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError<E> {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] E),
    /// It is not what was written.
    #[error("stream {0} is damaged: {1}")]
    Damaged(StreamId, &'static str),
}

/// Where a hub finds what is stored.
pub trait Recovery {
    /// Why that fails.
    type Error;

    /// All notes.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    fn notes(&mut self) -> Result<Vec<(StreamId, Bytes)>, Self::Error>;

    /// Some records of a log from a number on; none only if there are none.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    fn records(&mut self, log: StreamId, from: u64) -> Result<Vec<(u64, Bytes)>, Self::Error>;

    /// The last record of a log.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn last(&mut self, log: StreamId) -> Result<Option<(u64, Bytes)>, Self::Error>;
}

impl Hub {
    /// The hub of what is stored, and what readers see of it. With a key, commits are signed.
    ///
    /// # Errors
    ///
    /// [`RecoverError`] if it cannot be read, or is damaged.
    pub fn recover<R: Recovery>(
        stored: &mut R,
        key: Option<Arc<SigningKey>>,
    ) -> Result<(Self, Views), RecoverError<R::Error>> {
        Self::recover_by(stored, key, Replay::Whole)
    }

    /// As if producers were not part of the records, but written down now and then: what a
    /// simulation must notice, and nothing else is for.
    ///
    /// # Errors
    ///
    /// As [`Hub::recover`].
    #[doc(hidden)]
    pub fn dangerous_recover_without_producers<R: Recovery>(
        stored: &mut R,
        key: Option<Arc<SigningKey>>,
    ) -> Result<(Self, Views), RecoverError<R::Error>> {
        Self::recover_by(stored, key, Replay::WithoutProducers)
    }

    fn recover_by<R: Recovery>(
        stored: &mut R,
        key: Option<Arc<SigningKey>>,
        how: Replay,
    ) -> Result<(Self, Views), RecoverError<R::Error>> {
        let mut streams = HashMap::new();
        for (id, note) in stored.notes()? {
            let mut stream =
                Stream::from_note(id, &note).ok_or(RecoverError::Damaged(id, "note"))?;
            replay(&mut stream, stored, how)?;
            stream.allow_for_unnoted_use();
            streams.insert(id.name(), stream);
        }
        link_forks(&mut streams)?;
        let mut ledger = Ledger::default();
        for stream in streams.values() {
            ledger.add_stream(stream.meta.owner(), stream.bytes);
        }
        let last = stored.last(StreamId::COMMITS)?;
        let commit = match last {
            None => None,
            Some((number, bytes)) => {
                let damaged = RecoverError::Damaged(StreamId::COMMITS, "commit");
                Some(Commit::decode(number, &bytes).ok_or(damaged)?)
            }
        };
        let mut hub = Self {
            quotas: StreamQuotas::default(),
            streams,
            ledger,
            commit: commit.as_ref().map_or(0, |commit| commit.number),
            round: Round::default(),
            key,
            unsigned: None,
            signature: None,
        };
        if let Some(commit) = commit {
            let signed = stored.last(StreamId::SIGNATURES)?.map_or(0, |(number, _)| number);
            if signed + 1 < commit.number && hub.key.is_some() {
                return Err(RecoverError::Damaged(StreamId::SIGNATURES, "signatures are missing"));
            }
            if signed < commit.number {
                // It was to be stored with the next one.
                hub.unsigned = Some(commit);
                hub.sign();
            }
        }
        let views = hub.streams.iter().map(|(name, stream)| (*name, Some(stream.view())));
        let views = views.collect();
        Ok((hub, views))
    }
}

impl Stream {
    /// It may have been used since that was last noted: it does not end too early, but up to this
    /// much too late.
    fn allow_for_unnoted_use(&self) {
        if let Life::Sliding { ttl_s } = self.genesis.life {
            let slack = ttl_s.saturating_mul(1000) / TOUCH_PARTS + SWEEP_SLACK_MS;
            // Not noted itself: else it would grow with every restart.
            self.meta.allow_for_use_until(self.meta.touched().saturating_add(slack));
        }
    }
}

/// What is made of the records after a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replay {
    Whole,
    WithoutProducers,
}

/// Adds the records that came after the note.
fn replay<R: Recovery>(
    stream: &mut Stream,
    stored: &mut R,
    how: Replay,
) -> Result<(), RecoverError<R::Error>> {
    loop {
        let records = stored.records(stream.id, stream.number + 1)?;
        if records.is_empty() {
            return Ok(());
        }
        for (number, bytes) in records {
            let size = bytes.len() as u64;
            let damaged = |what| RecoverError::Damaged(stream.id, what);
            if number != stream.number + 1 {
                return Err(damaged("a record is missing"));
            }
            let stored = Stored::decode(&bytes).ok_or_else(|| damaged("record"))?;
            let mut record = Record::decode(&stored.record).ok_or_else(|| damaged("record"))?;
            if how == Replay::WithoutProducers {
                record.producer = None;
            }
            if stream.head.after(stream.id, number, &stored.record) != stored.head {
                return Err(damaged("chain"));
            }
            stream.apply(number, &record, stored.head);
            stream.bytes = stream.bytes.saturating_add(size);
            stream.meta.touch(record.time);
        }
    }
}

/// Counts forks, and gives them the segments that they share.
fn link_forks<E>(streams: &mut HashMap<NameId, Stream>) -> Result<(), RecoverError<E>> {
    let parents: Vec<_> =
        streams.iter().filter_map(|(name, stream)| Some((*name, stream.genesis.parent?))).collect();
    for (_, parent) in &parents {
        let damaged = || RecoverError::Damaged(parent.id, "its fork is there, and it is not");
        let source = streams.get_mut(&parent.id.name()).ok_or_else(damaged)?;
        if source.id != parent.id {
            return Err(damaged());
        }
        source.forks += 1;
    }
    // A fork's source may be a fork: those without one first.
    let mut waiting = parents;
    while !waiting.is_empty() {
        let open: HashSet<NameId> = waiting.iter().map(|(name, _)| *name).collect();
        let (ready, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(_, parent)| !open.contains(&parent.id.name()));
        if ready.is_empty() {
            let id = rest.first().map_or(StreamId::COMMITS, |(_, parent)| parent.id);
            return Err(RecoverError::Damaged(id, "forks go in a circle"));
        }
        for (name, parent) in ready {
            let segments = streams
                .get(&parent.id.name())
                .map(|source| source.meta.shared_upto(parent.number))
                .unwrap_or_default();
            if let Some(stream) = streams.get_mut(&name) {
                let mut segments = segments;
                segments.push(Segment::own(stream.id, stream.start));
                let (created, touched) = (stream.meta.created(), stream.meta.touched());
                let unnoted = stream.meta.unnoted();
                let meta = Meta::new(stream.id, &stream.genesis, created, touched, segments);
                meta.allow_for_use_until(unnoted);
                stream.meta = Arc::new(meta);
            }
        }
        waiting = rest;
    }
    Ok(())
}
