//! The server: a hub over a disk that fails.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use handback_store::{Log, LogId, ReadLimit};
use handback_stream::{
    Command, Hub, NameId, RecoverError, Reply, Signature, SigningKey, Stored, StreamId, StreamName,
    View, Views,
};
use handback_surface::streams::log::{Source, batch};

use crate::disk::Disk;
use crate::report::Broken;

/// How much earlier streams end if they end too early.
const EARLY_MS: u64 = 700;

/// A process, which may die.
pub(crate) struct Server {
    hub: Option<Hub>,
    store: Box<dyn Log>,
    key: Arc<SigningKey>,
    broken: Broken,
    pub(crate) views: HashMap<NameId, View>,
}

/// What came of a round of commands.
pub(crate) enum Round {
    Replies(Vec<Reply>),
    /// Nobody was told anything.
    Nothing,
}

impl Server {
    /// Starts on what is on the disk.
    pub(crate) fn start(
        disk: &Disk,
        key: &Arc<SigningKey>,
        broken: Broken,
    ) -> Result<Self, String> {
        let (store, key) = (disk.open()?, Arc::clone(key));
        let mut server = Self { hub: None, store, key, broken, views: HashMap::new() };
        server.recover()?;
        Ok(server)
    }

    fn recover(&mut self) -> Result<(), String> {
        let mut source = Source(self.store.as_ref());
        let key = Some(Arc::clone(&self.key));
        let recovered = match self.broken {
            Broken::ProducersOutside => Hub::dangerous_recover_without_producers(&mut source, key),
            _ => Hub::recover(&mut source, key),
        };
        match recovered {
            Ok((hub, views)) => {
                self.hub = Some(hub);
                self.views.clear();
                self.publish(views);
                Ok(())
            }
            Err(RecoverError::Read(_)) => {
                self.hub = None;
                Ok(())
            }
            Err(error) => Err(format!("damaged: what is stored is not accepted: {error}")),
        }
    }

    fn publish(&mut self, views: Views) {
        for (name, view) in views {
            match view {
                Some(view) => self.views.insert(name, view),
                None => self.views.remove(&name),
            };
        }
    }

    /// Tries to come back after a disk fault. Says whether it did.
    pub(crate) fn heal(&mut self) -> Result<bool, String> {
        if self.hub.is_some() || self.store.recover().is_err() {
            return Ok(false);
        }
        self.recover()?;
        Ok(self.hub.is_some())
    }

    /// Does commands in one commit. `dies` before it writes, or before it tells.
    pub(crate) fn round(&mut self, commands: Vec<Command>, now: u64, dies: Option<Dies>) -> Round {
        let Some(hub) = &mut self.hub else { return Round::Nothing };
        for (ticket, command) in commands.into_iter().enumerate() {
            hub.submit(ticket as u64, command, now);
        }
        hub.sweep(if self.broken == Broken::Early { now + EARLY_MS } else { now });
        let write = hub.take_write(now);
        if dies == Some(Dies::BeforeWriting) {
            return Round::Nothing;
        }
        if let Some(write) = write {
            let mut batch = batch(write);
            if self.broken == Broken::Removals {
                batch.removed.clear();
            }
            if self.store.commit(&batch).is_err() {
                self.hub = None;
                return Round::Nothing;
            }
        }
        if dies == Some(Dies::BeforeTelling) {
            return Round::Nothing;
        }
        let done = hub.committed();
        hub.sign();
        let replies = done.replies.into_iter().map(|(_, reply)| reply).collect();
        self.publish(done.published);
        Round::Replies(replies)
    }

    /// Whether it takes commands.
    pub(crate) const fn is_up(&self) -> bool {
        self.hub.is_some()
    }

    /// A stream that can be used.
    pub(crate) fn view(&self, name: &StreamName) -> Option<&View> {
        self.views.get(&name.id()).filter(|view| !view.deleted)
    }

    /// Records of a log after a number, up to another, as a reader gets them; nothing if the store
    /// does not let read.
    pub(crate) fn read(&self, id: StreamId, after: u64, upto: u64) -> Option<Vec<(u64, Stored)>> {
        let limit = ReadLimit { records: usize::MAX, bytes: usize::MAX };
        let records = self.store.read(LogId::from_bytes(*id.as_bytes()), after + 1, limit).ok()?;
        let records = records.into_iter().filter(|record| record.number <= upto);
        records.map(|r| Some((r.number, Stored::decode(&r.bytes)?))).collect()
    }

    /// Records that a stream shows, with those that it shares.
    pub(crate) fn shown(&self, view: &View, after: u64, upto: u64) -> Option<Vec<(u64, Stored)>> {
        let (mut found, mut after) = (Vec::new(), after);
        while after < upto {
            let segment = view.meta.segment_after(after);
            let end = segment.upto.unwrap_or(upto).min(upto);
            let records = self.read(segment.id, segment.after, end)?;
            let Some((last, _)) = records.last() else { break };
            after = *last;
            found.extend(records);
        }
        Some(found)
    }

    /// The record of a number that a stream shows, also a first one.
    pub(crate) fn record(&self, view: &View, number: u64) -> Option<Stored> {
        let segment = view.meta.segments().iter().find(|segment| {
            number >= segment.after && segment.upto.is_none_or(|upto| number <= upto)
        })?;
        self.one(segment.id, number).and_then(|bytes| Stored::decode(&bytes))
    }

    /// One record of any log.
    pub(crate) fn one(&self, id: StreamId, number: u64) -> Option<Bytes> {
        let limit = ReadLimit { records: 1, bytes: 1 };
        let found = self.store.read(LogId::from_bytes(*id.as_bytes()), number, limit).ok()?;
        found.into_iter().find(|record| record.number == number).map(|record| record.bytes)
    }

    /// The signature of a commit: the last one is not stored yet.
    pub(crate) fn signature(&self, commit: u64) -> Option<Signature> {
        let last = self.hub.as_ref().and_then(Hub::last_signature);
        last.filter(|last| last.commit == commit)
            .or_else(|| Signature::decode(commit, &self.one(StreamId::SIGNATURES, commit)?))
    }
}

/// When a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dies {
    BeforeWriting,
    BeforeTelling,
}
