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

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::chain::{Entry, Head, NO_HEAD};
use crate::key::{RecordKey, StreamKey};
use crate::name::{NameId, StreamId, StreamName};
use crate::record::{Genesis, Kind, Life, Parent, Payload, ProducerTag, Record};
use crate::sign::SigningKey;
use crate::state::{Stream, Verdict};
use crate::stored::{Commit, Signature, Stored};
use crate::view::{Meta, Segment, View};

/// A note is written at least every so many records: what a restart reads of a stream.
const RECORDS_PER_NOTE: u64 = 256;

/// A stream's last use is noted when it has moved by this part of its life.
const TOUCH_PARTS: u64 = 8;

/// The longest time between two sweeps.
const SWEEP_SLACK_MS: u64 = 1000;

/// What a caller gets its reply by.
pub type Ticket = u64;

/// What is asked for.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "surfaces make them")]
pub enum Command {
    /// To create a stream.
    Create(Box<Create>),
    /// To append, to close, or both.
    Append(Append),
    /// To delete a stream.
    Delete(NameId),
    /// To append several records in one commit, one after the other. What comes after one that is
    /// refused is not looked at.
    AppendAll(Vec<Append>),
    /// To end the earlier epochs of a producer, and begin another.
    Acquire(Acquire),
    /// To note that whoever acquires a producer has heard of this epoch: what was handed out with
    /// earlier ones is over.
    Seen {
        /// Which stream.
        stream: StreamId,
        /// Which producer.
        producer: String,
        /// Which epoch.
        epoch: u64,
    },
    /// To look whether a stream's life is over.
    Expire(NameId),
}

/// A producer that is to have another epoch.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "surfaces make it")]
pub struct Acquire {
    /// Which stream.
    pub stream: NameId,
    /// The stream that was looked at before, if it matters which one it is.
    pub expected: Option<StreamId>,
    /// Which producer.
    pub producer: String,
    /// The epoch that the caller has proved to have heard of; nothing if there is nothing to prove.
    pub heard_of: Option<u64>,
}

/// A stream that is to be created.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "surfaces make it")]
pub struct Create {
    /// Its name.
    pub name: StreamName,
    /// Its content type, if one was given.
    pub content_type: Option<String>,
    /// How long it lives.
    pub life: Life,
    /// Whether it is closed from the start.
    pub closed: bool,
    /// What it starts with.
    pub payload: Option<Payload>,
    /// What it is forked from.
    pub fork: Option<Fork>,
    /// Its own key, if it is to be encrypted.
    pub key: Option<StreamKey>,
    /// A random number, which tells it from others of the same name.
    pub incarnation: u64,
}

/// What a stream is to be forked from.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "surfaces make it")]
pub struct Fork {
    /// Which stream.
    pub source: NameId,
    /// Where; if not given, at its end.
    pub number: Option<u64>,
    /// How many messages or bytes of the next record to copy.
    pub part: u64,
    /// What was found there, or why nothing was.
    pub found: Result<Found, Refusal>,
}

/// A place that a stream can be forked at.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "surfaces make it")]
pub struct Found {
    /// The stream that was looked at.
    pub id: StreamId,
    /// The last record that is shared.
    pub number: u64,
    /// The head after it.
    pub head: Head,
    /// The part of the next record.
    pub part: Option<Payload>,
}

/// An append.
#[derive(Debug)]
#[non_exhaustive]
pub struct Append {
    stream: NameId,
    /// The stream that was looked at before, if it matters which one it is.
    expected: Option<StreamId>,
    content_type: Option<String>,
    record: Record,
    encoded: Vec<u8>,
    key: Option<RecordKey>,
}

impl Append {
    /// An append of a payload, or without one: the end of the stream.
    #[must_use]
    pub fn new(stream: NameId, payload: Option<Payload>, closes: bool, now: u64) -> Self {
        let kind = payload.map_or(Kind::End, Kind::Data);
        let record = Record { kind, time: now, closes, producer: None, writer_seq: None };
        Self { stream, expected: None, content_type: None, record, encoded: Vec::new(), key: None }
    }

    /// Encrypted under the stream's own key. The key says which stream it is for.
    #[must_use]
    pub fn key(mut self, key: Option<RecordKey>) -> Self {
        if let Some(key) = &key {
            self.expected = Some(key.stream());
        }
        self.key = key;
        self
    }

    /// To this stream only, and not to another one that has got its name meanwhile.
    #[must_use]
    pub const fn to(mut self, stream: StreamId) -> Self {
        self.expected = Some(stream);
        self
    }

    /// With the content type that was given.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// By a producer.
    #[must_use]
    pub fn producer(mut self, producer: Option<ProducerTag>) -> Self {
        self.record.producer = producer;
        self
    }

    /// With a writer sequence.
    #[must_use]
    pub fn writer_seq(mut self, seq: Option<String>) -> Self {
        self.record.writer_seq = seq;
        self
    }

    /// Encodes it now, which the hub would else have to do.
    #[must_use]
    pub fn encoded(mut self) -> Self {
        if self.key.is_none() {
            self.encoded = self.record.encode();
        }
        self
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// The stream was created, or was there as asked for.
    Created {
        /// Whether it is new.
        is_new: bool,
        /// The last record.
        number: u64,
        /// Whether it is closed.
        closed: bool,
        /// Its content type.
        content_type: String,
    },
    /// The append is there.
    Appended(Appended),
    /// What became of several appends, up to the first one that was refused.
    All(Vec<Result<Appended, Refusal>>),
    /// The stream is gone.
    Deleted,
    /// The producer has this epoch from now on.
    Acquired {
        /// The epoch.
        epoch: u64,
        /// The next sequence: it goes on where the epoch before ended.
        next_seq: u64,
        /// The record that says so.
        number: u64,
        /// The last writer sequence of the stream.
        writer_seq: Option<String>,
    },
    /// Nothing was to be done.
    Nothing,
    /// It was not done.
    Refused(Refusal),
}

/// An append that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The last record of the stream.
    pub number: u64,
    /// Whether the stream is closed.
    pub closed: bool,
    /// The producer's epoch, and its last sequence.
    pub producer: Option<(u64, u64)>,
    /// Whether it was there before.
    pub is_duplicate: bool,
    /// Whether it was there before, with other bytes.
    pub differs: bool,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such stream.
    #[error("there is no such stream")]
    NotFound,
    /// The stream was deleted, and is kept for its forks.
    #[error("the stream was deleted")]
    Gone,
    /// The name is in use by a stream that is kept for its forks.
    #[error("a deleted stream of this name still has forks")]
    NameInUse,
    /// The stream is there, and is another one than asked for.
    #[error("there is another stream of this name")]
    Exists,
    /// The stream is closed.
    #[error("the stream is closed")]
    Closed {
        /// Its last record.
        number: u64,
    },
    /// The stream has another content type.
    #[error("the stream has another content type")]
    ContentType,
    /// The producer has a later epoch.
    #[error("the producer has a later epoch")]
    StaleEpoch {
        /// It.
        current: u64,
    },
    /// A new epoch starts with sequence 0.
    #[error("a new epoch starts with sequence 0")]
    EpochStart,
    /// Appends are missing before this one.
    #[error("appends are missing before this one")]
    Gap {
        /// The next sequence.
        expected: u64,
        /// What came.
        received: u64,
    },
    /// The producer's epochs are given by the server, and this one was not.
    #[error("the producer was not acquired")]
    NotAcquired,
    /// What was presented is over: something later was presented since.
    #[error("something later was presented since")]
    Superseded,
    /// The stream has another key, or has none, or needs one.
    #[error("not the key of this stream")]
    Key,
    /// The writer sequence is not greater than the last one.
    #[error("the writer sequence is not greater than the last one")]
    WriterSeq,
    /// The stream remembers as many producers as it can.
    #[error("the stream has too many producers")]
    TooManyProducers,
    /// There is nothing to fork from.
    #[error("there is no stream to fork from")]
    NoSource,
    /// What is to be forked from was deleted.
    #[error("the stream to fork from was deleted")]
    SourceGone,
    /// The place is behind the end of what is to be forked from.
    #[error("the place to fork at is behind the end")]
    ForkBeyond,
    /// The next record has fewer messages or bytes.
    #[error("the next record is shorter")]
    PartBeyond,
}

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
    streams: HashMap<NameId, Stream>,
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
        let last = stored.last(StreamId::COMMITS)?;
        let commit = match last {
            None => None,
            Some((number, bytes)) => {
                let damaged = RecoverError::Damaged(StreamId::COMMITS, "commit");
                Some(Commit::decode(number, &bytes).ok_or(damaged)?)
            }
        };
        let mut hub = Self {
            streams,
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
            let fork = create.fork.as_ref().map(|fork| (fork.source, fork.number, fork.part));
            let asked = create.content_type.as_deref();
            let asked = asked.or_else(|| create.fork.is_none().then_some(DEFAULT_CONTENT_TYPE));
            if !stream.is_as_asked(asked, create.life, create.closed, fork) {
                return Err(Refusal::Exists);
            }
            if !is_key_of(stream.id, stream.genesis.key_commitment.as_ref(), create.key.as_ref()) {
                return Err(Refusal::Key);
            }
            stream.meta.touch(now);
            return Ok(stream.created(false));
        }
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
                let segments = shared_segments(&source.meta, found.number);
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
            self.round.write(stream, number, &record, &encoded, commit);
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
        self.round.write(stream, number, &record, &record.encode(), commit);
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

/// The content type of streams that were created without one.
pub const DEFAULT_CONTENT_TYPE: &str = "application/octet-stream";

impl Round {
    fn touch(&mut self, name: NameId) -> &mut Touch {
        self.touched.entry(name).or_default()
    }

    fn write(
        &mut self,
        stream: &mut Stream,
        number: u64,
        record: &Record,
        encoded: &[u8],
        commit: u64,
    ) {
        let before = if number == stream.start { NO_HEAD } else { stream.head };
        let head = before.after(stream.id, number, encoded);
        self.records.push((stream.id, number, Stored::encode(commit, head, encoded)));
        stream.apply(number, record, head);
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

/// Whether a key is that of a stream, or neither has one.
fn is_key_of(stream: StreamId, commitment: Option<&[u8; 32]>, key: Option<&StreamKey>) -> bool {
    match (commitment, key) {
        (None, None) => true,
        (Some(commitment), Some(key)) => key.is_committed(stream, commitment),
        _ => false,
    }
}

/// What a fork at a number shares with its source.
fn shared_segments(source: &Meta, number: u64) -> Vec<Segment> {
    source
        .segments()
        .iter()
        .filter(|segment| segment.after < number)
        .map(|segment| Segment {
            upto: Some(segment.upto.map_or(number, |upto| upto.min(number))),
            ..*segment
        })
        .collect()
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
                .map(|source| shared_segments(&source.meta, parent.number))
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
