//! The server: a hub over a disk that fails by plan.

use std::collections::HashMap;
use std::sync::Arc;

use handback_store::faulty::{FaultyDisk, FaultyStore};
use handback_store::{Log as _, LogId, ReadLimit};
use handback_stream::{
    Command, Hub, NameId, RecoverError, Reply, SigningKey, Stored, StreamId, View, Views,
};
use handback_surface::streams::log::{Source, batch};

use crate::world::Broken;

/// A process, which may die.
pub(crate) struct Server {
    hub: Option<Hub>,
    store: FaultyStore,
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
        disk: &FaultyDisk,
        key: &Arc<SigningKey>,
        broken: Broken,
    ) -> Result<Self, String> {
        let mut server = Self { hub: None, store: disk.open(), views: HashMap::new() };
        server.recover(key, broken)?;
        Ok(server)
    }

    fn recover(&mut self, key: &Arc<SigningKey>, broken: Broken) -> Result<(), String> {
        let mut source = Source(&self.store);
        let key = Some(Arc::clone(key));
        let recovered = match broken {
            Broken::ProducersOutside => Hub::dangerous_recover_without_producers(&mut source, key),
            _ => Hub::recover(&mut source, key),
        };
        match recovered {
            Ok((hub, views)) => {
                self.hub = Some(hub);
                self.publish(views);
                Ok(())
            }
            Err(RecoverError::Read(_)) => {
                self.hub = None;
                Ok(())
            }
            Err(error) => Err(format!("what is stored is not accepted: {error}")),
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

    /// Tries to come back after a disk fault.
    pub(crate) fn heal(&mut self, key: &Arc<SigningKey>, broken: Broken) -> Result<(), String> {
        if self.hub.is_none() && self.store.recover().is_ok() {
            self.recover(key, broken)?;
        }
        Ok(())
    }

    /// Does commands in one commit. `dies` before it writes, or before it tells.
    pub(crate) fn round(&mut self, commands: Vec<Command>, now: u64, dies: Option<Dies>) -> Round {
        let Some(hub) = &mut self.hub else { return Round::Nothing };
        for (ticket, command) in commands.into_iter().enumerate() {
            hub.submit(ticket as u64, command, now);
        }
        hub.sweep(now);
        let write = hub.take_write(now);
        if dies == Some(Dies::BeforeWriting) {
            return Round::Nothing;
        }
        if let Some(write) = write
            && self.store.commit(&batch(&write)).is_err()
        {
            self.hub = None;
            return Round::Nothing;
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

    /// Records of a log after a number, up to another, as a reader gets them.
    pub(crate) fn read(&self, id: StreamId, after: u64, upto: u64) -> Option<Vec<(u64, Stored)>> {
        let limit = ReadLimit { records: usize::MAX, bytes: usize::MAX };
        let records = self.store.read(LogId::from_bytes(*id.as_bytes()), after + 1, limit).ok()?;
        let records = records.into_iter().filter(|record| record.number <= upto);
        records.map(|r| Some((r.number, Stored::decode(&r.bytes)?))).collect()
    }

    /// One record of any log.
    pub(crate) fn one(&self, id: StreamId, number: u64) -> Option<bytes::Bytes> {
        let limit = ReadLimit { records: 1, bytes: 1 };
        let found = self.store.read(LogId::from_bytes(*id.as_bytes()), number, limit).ok()?;
        found.into_iter().find(|record| record.number == number).map(|record| record.bytes)
    }
}

/// When a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dies {
    BeforeWriting,
    BeforeTelling,
}
