//! A disk that is a map, and a server that is a hub over it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use handback_stream::{
    Append, Command, Create, Hub, Life, NameId, Payload, ProducerTag, Record, RecoverError,
    Recovery, Reply, SigningKey, Stored, StreamId, StreamName, View, Write,
};

/// What is durable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) records: BTreeMap<(StreamId, u64), Bytes>,
    pub(crate) notes: BTreeMap<StreamId, Bytes>,
}

impl Disk {
    pub(crate) fn write(&mut self, write: Write) {
        for id in write.removed {
            self.records.retain(|(log, _), _| *log != id);
            self.notes.remove(&id);
        }
        for (id, number, bytes) in write.records {
            let before = self.records.insert((id, number), bytes);
            assert!(before.is_none(), "record {number} of {id} is written twice");
        }
        self.notes.extend(write.notes);
    }

    /// The data of a stream's own records.
    pub(crate) fn data(&self, id: StreamId) -> Vec<String> {
        let own = self.records.range((id, 0)..=(id, u64::MAX));
        own.filter_map(|(_, bytes)| {
            let record = Record::decode(&Stored::decode(bytes).unwrap().record).unwrap();
            let payload = record.payload()?.bytes.clone();
            Some(String::from_utf8(payload.to_vec()).unwrap())
        })
        .collect()
    }
}

impl Recovery for Disk {
    type Error = Infallible;

    fn notes(&mut self) -> Result<Vec<(StreamId, Bytes)>, Infallible> {
        Ok(self.notes.iter().map(|(id, note)| (*id, note.clone())).collect())
    }

    fn records(&mut self, log: StreamId, from: u64) -> Result<Vec<(u64, Bytes)>, Infallible> {
        let some = self.records.range((log, from)..=(log, u64::MAX)).take(3);
        Ok(some.map(|((_, number), bytes)| (*number, bytes.clone())).collect())
    }

    fn last(&mut self, log: StreamId) -> Result<Option<(u64, Bytes)>, Infallible> {
        let mut own = self.records.range((log, 0)..=(log, u64::MAX));
        Ok(own.next_back().map(|((_, number), bytes)| (*number, bytes.clone())))
    }
}

pub(crate) fn key() -> Arc<SigningKey> {
    Arc::new(SigningKey::from_seed(&[9; 32]).unwrap())
}

/// A hub and its disk, with a clock.
pub(crate) struct Server {
    pub(crate) hub: Hub,
    pub(crate) disk: Disk,
    pub(crate) now: u64,
    pub(crate) views: BTreeMap<NameId, View>,
    created: u64,
}

impl Server {
    pub(crate) fn new() -> Self {
        let mut disk = Disk::default();
        let (hub, _) = Hub::recover(&mut disk, Some(key())).unwrap();
        Self { hub, disk, now: 1_000_000, views: BTreeMap::new(), created: 0 }
    }

    /// As after a crash: what is on the disk, and nothing else.
    pub(crate) fn restart(&mut self) {
        self.try_restart().unwrap();
    }

    pub(crate) fn try_restart(&mut self) -> Result<(), RecoverError<Infallible>> {
        let (hub, views) = Hub::recover(&mut self.disk, Some(key()))?;
        self.hub = hub;
        self.views = views.into_iter().filter_map(|(name, view)| Some((name, view?))).collect();
        Ok(())
    }

    /// Commits what was submitted; gives the replies.
    pub(crate) fn commit(&mut self) -> Vec<Reply> {
        if let Some(write) = self.hub.take_write(self.now) {
            self.disk.write(write);
        }
        self.acknowledge()
    }

    pub(crate) fn acknowledge(&mut self) -> Vec<Reply> {
        let done = self.hub.committed();
        for (name, view) in done.published {
            match view {
                Some(view) => self.views.insert(name, view),
                None => self.views.remove(&name),
            };
        }
        self.hub.sign();
        done.replies.into_iter().map(|(_, reply)| reply).collect()
    }

    pub(crate) fn run(&mut self, command: Command) -> Reply {
        self.hub.submit(0, command, self.now);
        self.commit().pop().unwrap()
    }

    pub(crate) fn create(&mut self, path: &str) -> Reply {
        let create = self.creation(path);
        self.run(Command::Create(Box::new(create)))
    }

    pub(crate) fn creation(&mut self, path: &str) -> Create {
        self.created += 1;
        Create {
            name: name(path),
            content_type: Some("text/plain".to_owned()),
            life: Life::Unlimited,
            closed: false,
            payload: None,
            fork: None,
            key: None,
            incarnation: self.created,
        }
    }

    pub(crate) fn append(&mut self, path: &str, text: &str) -> Reply {
        self.run(Command::Append(append(path, text)))
    }

    pub(crate) fn view(&self, path: &str) -> &View {
        &self.views[&name(path).id()]
    }

    pub(crate) fn id(&self, path: &str) -> StreamId {
        self.view(path).meta.id()
    }
}

pub(crate) fn name(path: &str) -> StreamName {
    StreamName::new("owner", path).unwrap()
}

pub(crate) fn text(text: &str) -> Payload {
    Payload::parse(Bytes::copy_from_slice(text.as_bytes()), false).unwrap()
}

pub(crate) fn append(path: &str, content: &str) -> Append {
    Append::new(name(path).id(), Some(text(content)), false, 0).content_type("text/plain")
}

pub(crate) fn by(id: &str, epoch: u64, seq: u64) -> Option<ProducerTag> {
    Some(ProducerTag { id: id.to_owned(), epoch, seq })
}
