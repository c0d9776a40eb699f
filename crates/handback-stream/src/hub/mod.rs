//! All streams of a server: commands in, one batch of records per commit out, replies once it is
//! durable.
//!
//! The hub has no threads, no clock and no disk. Whoever drives it does, in a loop:
//!
//! 1. [`Hub::submit`] every command that waits;
//! 2. [`Hub::take_write`], and commit that, atomically and synced;
//! 3. [`Hub::committed`]: the replies, and what readers may see from now on;
//! 4. [`Hub::sign`], off the way of the replies.
//!
//! Nothing is told or shown before it is durable: also a refusal waits for the commit, because it
//! may follow from an append of the same round. If the commit fails, the hub is of no use any more:
//! another one is made by [`Hub::recover`] from what is stored.

mod command;
mod recover;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

pub use self::command::{
    Acquire, Append, Appended, Command, Create, Fork, Found, Refusal, Reply, Ticket, Uncounted,
};
pub use self::recover::{RecoverError, Recovery};
use crate::chain::{Entry, NO_HEAD};
use crate::key::StreamKey;
use crate::ledger::{Ledger, RECORD_BYTES, StreamQuotas};
use crate::name::{NameId, StreamId};
use crate::record::{Genesis, Kind, Life, Parent, ProducerTag, Record};
use crate::sign::SigningKey;
use crate::state::{Stream, Verdict};
use crate::stored::{Commit, Signature, Stored};
use crate::view::{Meta, Segment, View};

/// A note is written at least every so many records: what a restart reads of a stream.
const RECORDS_PER_NOTE: u64 = 256;

/// A stream's last use is noted when it has moved by this part of its life.
const TOUCH_PARTS: u64 = 8;

/// What is to be written, all of it or nothing.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Write {
    /// Records, by log and number.
    pub records: Vec<(StreamId, u64, Bytes)>,
    /// Notes.
    pub notes: Vec<(StreamId, Bytes)>,
    /// Logs that end.
    pub removed: Vec<StreamId>,
}

/// Streams as readers see them; nothing where a stream is gone.
pub type Views = Vec<(NameId, Option<View>)>;

/// What became of a commit.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Done {
    /// Who is to be answered what.
    pub replies: Vec<(Ticket, Reply)>,
    /// What readers see from now on.
    pub published: Views,
}

/// All streams of a server.
#[derive(Debug)]
pub struct Hub {
    /// The limits of what is created and appended from now on.
    pub quotas: StreamQuotas,
    streams: HashMap<NameId, Stream>,
    ledger: Ledger,
    /// The last commit.
    commit: u64,
    round: Round,
    key: Option<Arc<SigningKey>>,
    unsigned: Option<Commit>,
    signature: Option<Signature>,
}

/// What the next commit has.
#[derive(Debug, Default)]
struct Round {
    replies: Vec<(Ticket, Reply)>,
    records: Vec<(StreamId, u64, Bytes)>,
    /// Streams about which readers are told.
    touched: BTreeMap<NameId, Touch>,
    removed: Vec<StreamId>,
    commit: Option<Commit>,
}

/// What happened to a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Touch {
    /// Records were written.
    wrote: bool,
    /// A note is due.
    wants_note: bool,
}

impl Hub {
    /// Takes a command. Its reply comes with the next commit.
    pub fn submit(&mut self, ticket: Ticket, command: Command, now: u64) {
        let reply = match command {
            Command::Create(create) => self.create(*create, now),
            Command::Append(append) => self.append(append, now).map(Reply::Appended),
            Command::Delete(name) => self.delete(name, now),
            Command::AppendAll(appends) => Ok(self.append_all(appends, now)),
            Command::Acquire(acquire) => self.acquire(acquire, now),
            Command::Seen { stream, producer, epoch } => self.seen(stream, producer, epoch, now),
            Command::Expire(name) => {
                self.expire(name, now);
                Ok(Reply::Nothing)
            }
            Command::Count(counted) => Ok(counted.add_to(self)),
        };
        self.round.replies.push((ticket, reply.unwrap_or_else(Reply::Refused)));
    }

    /// What is to be committed now, if anything is.
    pub fn take_write(&mut self, now: u64) -> Option<Write> {
        let mut write = Write {
            records: std::mem::take(&mut self.round.records),
            removed: std::mem::take(&mut self.round.removed),
            notes: Vec::new(),
        };
        let mut entries = Vec::new();
        for (name, touch) in &self.round.touched {
            let Some(stream) = self.streams.get_mut(name) else { continue };
            if touch.wrote {
                entries.push(Entry { stream: stream.id, number: stream.number, head: stream.head });
            }
            let step = RECORDS_PER_NOTE.max(stream.producer_count() as u64);
            if touch.wants_note || stream.number - stream.noted >= step {
                stream.noted = stream.number;
                stream.noted_touch = stream.meta.touched();
                write.notes.push((stream.id, stream.note().into()));
            }
        }
        if write.records.is_empty() && write.notes.is_empty() && write.removed.is_empty() {
            return None;
        }
        if self.key.is_some() && !entries.is_empty() {
            entries.sort_unstable_by_key(|entry| entry.stream);
            let commit = Commit { number: self.commit + 1, time: now, entries };
            write.records.push((StreamId::COMMITS, commit.number, commit.encode()));
            if let Some(signature) = self.signature.take() {
                let record = (StreamId::SIGNATURES, signature.commit, signature.encode());
                write.records.push(record);
            }
            self.round.commit = Some(commit);
        }
        Some(write)
    }

    /// What was taken is durable, or there was nothing to write.
    pub fn committed(&mut self) -> Done {
        let round = std::mem::take(&mut self.round);
        if let Some(commit) = round.commit {
            self.commit = commit.number;
            self.unsigned = Some(commit);
        }
        let view = |name: &NameId| (*name, self.streams.get(name).map(Stream::view));
        Done { replies: round.replies, published: round.touched.keys().map(view).collect() }
    }

    /// Signs the last commit, if that is not done yet. The signature is stored with the next one.
    pub fn sign(&mut self) -> Option<Signature> {
        let (commit, key) = (self.unsigned.take()?, self.key.as_ref()?);
        self.signature = Some(commit.sign(key));
        self.signature
    }

    /// The signature of the last commit, if it is not stored yet.
    #[must_use]
    pub const fn last_signature(&self) -> Option<Signature> {
        self.signature
    }

    /// Ends what has outlived its time, and notes when streams were last used. To be called from
    /// time to time, before [`Hub::take_write`].
    pub fn sweep(&mut self, now: u64) {
        let over: Vec<_> = self
            .streams
            .iter()
            .filter(|(_, stream)| !stream.deleted && stream.meta.is_over(now))
            .map(|(name, _)| *name)
            .collect();
        for name in over {
            self.expire(name, now);
        }
        for (name, stream) in &self.streams {
            if let Life::Sliding { ttl_s } = stream.genesis.life
                && stream.meta.touched() - stream.noted_touch.min(stream.meta.touched())
                    > ttl_s.saturating_mul(1000) / TOUCH_PARTS
            {
                self.round.touch(*name).wants_note = true;
            }
        }
    }

    fn create(&mut self, create: Create, now: u64) -> Result<Reply, Refusal> {
        let name = create.name.id();
        self.expire(name, now);
        if let Some(stream) = self.streams.get(&name) {
            if stream.deleted {
                return Err(Refusal::NameInUse);
            }
            check_same(stream, &create)?;
            stream.meta.touch(now);
            return Ok(stream.created(false));
        }
        check_quotas(&self.ledger, &self.quotas, &create)?;
        let Create { content_type, life, closed, payload, fork, key, .. } = create;
        let (start, parent, part, segments, content_type, life) = match fork {
            None => {
                let content_type = content_type.unwrap_or_else(|| DEFAULT_CONTENT_TYPE.to_owned());
                (0, None, None, Vec::new(), content_type, life)
            }
            Some(fork) => {
                let found = fork.found?;
                let source = self.source(fork.source, &found, now)?;
                if let Some(asked) = &content_type
                    && !crate::state::same_type(asked, &source.genesis.content_type)
                {
                    return Err(Refusal::ContentType);
                }
                if !is_key_of(source.id, source.genesis.key_commitment.as_ref(), key.as_ref()) {
                    return Err(Refusal::Key);
                }
                let life = match life {
                    Life::Unlimited => source.genesis.life,
                    life => life,
                };
                let parent = Parent {
                    id: found.id,
                    number: found.number,
                    head: *found.head.as_bytes(),
                    part: fork.part,
                };
                let content_type =
                    content_type.unwrap_or_else(|| source.genesis.content_type.clone());
                let segments = source.meta.shared_upto(found.number);
                source.forks += 1;
                (found.number, Some(parent), found.part, segments, content_type, life)
            }
        };
        let id = StreamId::new(name, create.incarnation);
        let genesis = Genesis {
            owner: create.name.owner().to_owned(),
            path: create.name.path().to_owned(),
            content_type,
            life,
            parent,
            key_commitment: key.as_ref().map(|key| key.commitment(id)),
        };
        let key = key.map(|key| key.records(id));
        let mut segments = segments;
        segments.push(Segment::own(id, start));
        let meta = Meta::new(id, &genesis, now, now, segments);
        let payloads: Vec<_> = part.into_iter().chain(payload).collect();
        let kind = Kind::Genesis(Box::new(genesis.clone()));
        let closes = closed && payloads.is_empty();
        let first = Record { kind, time: now, closes, producer: None, writer_seq: None };
        let mut stream = Stream::new(id, start, genesis, now, Arc::new(meta));
        self.round.write(&mut stream, start, &first, &first.encode(), self.commit + 1);
        let count = payloads.len();
        for (place, payload) in payloads.into_iter().enumerate() {
            let closes = closed && place + 1 == count;
            let kind = Kind::Data(payload);
            let record = Record { kind, time: now, closes, producer: None, writer_seq: None };
            let number = stream.number + 1;
            let record = record.encrypted(key.as_ref(), number);
            self.round.write(&mut stream, number, &record, &record.encode(), self.commit + 1);
        }
        *self.round.touch(name) = Touch { wrote: true, wants_note: true };
        let reply = stream.created(true);
        self.ledger.add_stream(&stream.genesis.owner, stream.bytes);
        self.streams.insert(name, stream);
        Ok(reply)
    }

    fn source(&mut self, name: NameId, found: &Found, now: u64) -> Result<&mut Stream, Refusal> {
        self.expire(name, now);
        match self.streams.get_mut(&name) {
            Some(stream) if stream.id == found.id => match stream.deleted {
                true => Err(Refusal::SourceGone),
                false if found.number > stream.tail => Err(Refusal::ForkBeyond),
                false => Ok(stream),
            },
            _ => Err(Refusal::NoSource),
        }
    }

    fn append(&mut self, append: Append, now: u64) -> Result<Appended, Refusal> {
        let Append { stream: name, expected, content_type, mut record, mut encoded, key } = append;
        let commit = self.commit + 1;
        if self.streams.get(&name).is_some_and(|stream| stream.meta.is_over(now)) {
            self.expire(name, now);
        }
        let stream = match self.streams.get_mut(&name) {
            None => return Err(Refusal::NotFound),
            Some(stream) if stream.deleted => return Err(Refusal::Gone),
            Some(stream) => stream,
        };
        if expected.is_some_and(|expected| expected != stream.id) {
            return Err(Refusal::NotFound);
        }
        let verdict = stream.check(&record, content_type.as_deref(), key.as_ref())?;
        stream.meta.touch(now);
        let (is_duplicate, differs) = match verdict {
            Verdict::Accept => (false, false),
            Verdict::Duplicate { differs } => (true, differs),
        };
        if !is_duplicate {
            let number = stream.number + 1;
            record = record.encrypted(key.as_ref(), number);
            if encoded.is_empty() {
                encoded = record.encode();
            }
            if record.payload().is_some() {
                // An end without data is always taken: it lets a stream be given up.
                let bytes = encoded.len() as u64 + RECORD_BYTES;
                self.ledger.check_bytes(&self.quotas, stream.meta.owner(), bytes)?;
            }
            let stored = self.round.write(stream, number, &record, &encoded, commit);
            self.ledger.add_bytes(stream.meta.owner(), stored);
            self.round.touch(name).wrote = true;
        }
        let producer = match &record.producer {
            // What was accepted is its last one.
            Some(tag) if !is_duplicate => Some((tag.epoch, tag.seq)),
            Some(tag) => {
                stream.producer(&tag.id).map(|(epoch, seq)| (epoch, seq.unwrap_or_default()))
            }
            None => None,
        };
        Ok(Appended {
            number: stream.tail,
            closed: stream.closed.is_some(),
            producer,
            is_duplicate,
            differs,
        })
    }

    fn append_all(&mut self, appends: Vec<Append>, now: u64) -> Reply {
        let mut all = Vec::with_capacity(appends.len());
        for append in appends {
            let appended = self.append(append, now);
            let is_refused = appended.is_err();
            all.push(appended);
            if is_refused {
                break;
            }
        }
        Reply::All(all)
    }

    fn acquire(&mut self, acquire: Acquire, now: u64) -> Result<Reply, Refusal> {
        let Acquire { stream: name, expected, producer: id, heard_of } = acquire;
        let stream = self.open(name, now)?;
        if expected.is_some_and(|expected| expected != stream.id) {
            return Err(Refusal::NotFound);
        }
        let known = stream.standing(&id);
        // Whoever starts without having acquired anything has 0, and is fenced off as well.
        let (epoch, next_seq, seen) =
            known.map_or((1, 0, 0), |known| (known.epoch + 1, known.next_seq, known.seen));
        if heard_of.is_some_and(|heard_of| heard_of < seen || heard_of >= epoch) {
            return Err(Refusal::Superseded);
        }
        if stream.closed.is_some() {
            return Err(Refusal::Closed { number: stream.tail });
        }
        if known.is_none() && stream.producer_count() >= crate::state::MAX_PRODUCERS {
            return Err(Refusal::TooManyProducers);
        }
        let writer_seq = stream.writer_seq().map(str::to_owned);
        let number = self.fence(name, id, epoch, heard_of.unwrap_or(seen), now)?;
        Ok(Reply::Acquired { epoch, next_seq, number, writer_seq })
    }

    fn seen(
        &mut self,
        id: StreamId,
        producer: String,
        epoch: u64,
        now: u64,
    ) -> Result<Reply, Refusal> {
        let stream = self.open(id.name(), now)?;
        let known = stream.standing(&producer).filter(|_| stream.id == id);
        let known = known.ok_or(Refusal::NotFound)?;
        if epoch <= known.seen || epoch > known.epoch || stream.closed.is_some() {
            return Ok(Reply::Nothing);
        }
        self.fence(id.name(), producer, known.epoch, epoch, now)?;
        Ok(Reply::Nothing)
    }

    /// Writes down the epoch of a producer, and the last one that its owner has heard of.
    fn fence(
        &mut self,
        name: NameId,
        id: String,
        epoch: u64,
        seen: u64,
        now: u64,
    ) -> Result<u64, Refusal> {
        let commit = self.commit + 1;
        let tag = ProducerTag { id, epoch, seq: seen };
        let record = Record {
            kind: Kind::Fence,
            time: now,
            closes: false,
            producer: Some(tag),
            writer_seq: None,
        };
        let Some(stream) = self.streams.get_mut(&name) else { return Err(Refusal::NotFound) };
        let number = stream.number + 1;
        let encoded = record.encode();
        let bytes = encoded.len() as u64 + RECORD_BYTES;
        self.ledger.check_bytes(&self.quotas, stream.meta.owner(), bytes)?;
        let stored = self.round.write(stream, number, &record, &encoded, commit);
        self.ledger.add_bytes(stream.meta.owner(), stored);
        self.round.touch(name).wrote = true;
        Ok(number)
    }

    fn delete(&mut self, name: NameId, now: u64) -> Result<Reply, Refusal> {
        self.open(name, now)?;
        self.end(name);
        Ok(Reply::Deleted)
    }

    /// The stream of a name, if it can be used.
    fn open(&mut self, name: NameId, now: u64) -> Result<&mut Stream, Refusal> {
        self.expire(name, now);
        match self.streams.get_mut(&name) {
            None => Err(Refusal::NotFound),
            Some(stream) if stream.deleted => Err(Refusal::Gone),
            Some(stream) => Ok(stream),
        }
    }

    fn expire(&mut self, name: NameId, now: u64) {
        let over = self.streams.get(&name).is_some_and(|s| !s.deleted && s.meta.is_over(now));
        if over {
            self.end(name);
        }
    }

    /// Ends a stream, and those that were only kept for it.
    fn end(&mut self, name: NameId) {
        let mut next = Some(name);
        while let Some(name) = next.take() {
            let Some(stream) = self.streams.get_mut(&name) else { return };
            if stream.forks > 0 {
                stream.deleted = true;
                self.round.touch(name).wants_note = true;
                return;
            }
            let Some(stream) = self.streams.remove(&name) else { return };
            // What was not committed yet never will be.
            self.round.records.retain(|(id, _, _)| *id != stream.id);
            self.ledger.remove_stream(stream.meta.owner(), stream.bytes);
            self.round.removed.push(stream.id);
            *self.round.touch(name) = Touch::default();
            if let Some(parent) = stream.genesis.parent
                && let Some(source) = self.streams.get_mut(&parent.id.name())
                && source.id == parent.id
            {
                source.forks = source.forks.saturating_sub(1);
                next = (source.deleted && source.forks == 0).then_some(parent.id.name());
            }
        }
    }
}

impl Uncounted {
    /// Records that notes of earlier versions do not count, of all streams.
    #[must_use]
    pub fn of(hub: &Hub) -> Vec<Self> {
        let of = |stream: &Stream| {
            let upto = stream.uncounted?;
            Some(Self { stream: stream.id, next: stream.start, upto, bytes: 0 })
        };
        hub.streams.values().filter_map(of).collect()
    }

    /// Adds bytes that a note does not count, and has a note written that does.
    fn add_to(self, hub: &mut Hub) -> Reply {
        let name = self.stream.name();
        let stream = hub.streams.get_mut(&name).filter(|stream| stream.id == self.stream);
        let Some(stream) = stream else { return Reply::Nothing };
        match stream.uncounted {
            None => return Reply::Nothing,
            // The store was recovered meanwhile, from a note that was written later.
            Some(upto) if upto != self.upto => return Reply::Uncounted(upto),
            Some(_) => {}
        }
        stream.uncounted = None;
        stream.bytes = stream.bytes.saturating_add(self.bytes);
        hub.ledger.add_bytes(stream.meta.owner(), self.bytes);
        hub.round.touch(name).wants_note = true;
        Reply::Nothing
    }
}

/// The content type of streams that were created without one.
pub const DEFAULT_CONTENT_TYPE: &str = "application/octet-stream";

impl Round {
    fn touch(&mut self, name: NameId) -> &mut Touch {
        self.touched.entry(name).or_default()
    }

    /// Adds a record to the commit. Returns the bytes that the log stores of it.
    fn write(
        &mut self,
        stream: &mut Stream,
        number: u64,
        record: &Record,
        encoded: &[u8],
        commit: u64,
    ) -> u64 {
        let before = if number == stream.start { NO_HEAD } else { stream.head };
        let head = before.after(stream.id, number, encoded);
        let stored = Stored::encode(commit, head, encoded);
        let bytes = stored.len() as u64;
        self.records.push((stream.id, number, stored));
        stream.apply(number, record, head);
        stream.bytes += bytes;
        bytes
    }
}

impl Stream {
    pub(crate) fn view(&self) -> View {
        View {
            meta: Arc::clone(&self.meta),
            number: self.tail,
            last: self.number,
            head: self.head,
            closed: self.closed.is_some(),
            deleted: self.deleted,
            client: self.client,
            consumed: self.consumed,
        }
    }

    fn created(&self, is_new: bool) -> Reply {
        Reply::Created {
            is_new,
            number: self.tail,
            closed: self.closed.is_some(),
            content_type: self.genesis.content_type.clone(),
        }
    }
}

/// Checks that a creation asks for the stream that is there.
fn check_same(stream: &Stream, create: &Create) -> Result<(), Refusal> {
    let fork = create.fork.as_ref().map(|fork| (fork.source, fork.number, fork.part));
    let asked = create.content_type.as_deref();
    let asked = asked.or_else(|| create.fork.is_none().then_some(DEFAULT_CONTENT_TYPE));
    if !stream.is_as_asked(asked, create.life, create.closed, fork) {
        return Err(Refusal::Exists);
    }
    if !is_key_of(stream.id, stream.genesis.key_commitment.as_ref(), create.key.as_ref()) {
        return Err(Refusal::Key);
    }
    Ok(())
}

/// Checks that the quotas of an owner have room for a new stream and its content.
fn check_quotas(ledger: &Ledger, quotas: &StreamQuotas, create: &Create) -> Result<(), Refusal> {
    let owner = create.name.owner();
    let size = create.payload.as_ref().map_or(0, |payload| payload.bytes.len() as u64);
    ledger.check_stream(quotas, owner)?;
    Ok(ledger.check_bytes(quotas, owner, size + 2 * RECORD_BYTES)?)
}

/// Whether a key is that of a stream, or neither has one.
fn is_key_of(stream: StreamId, commitment: Option<&[u8; 32]>, key: Option<&StreamKey>) -> bool {
    match (commitment, key) {
        (None, None) => true,
        (Some(commitment), Some(key)) => key.is_committed(stream, commitment),
        _ => false,
    }
}
