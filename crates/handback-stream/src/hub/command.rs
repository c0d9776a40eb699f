//! What is asked of a hub, and what it answers.

use crate::chain::Head;
use crate::key::{RecordKey, StreamKey};
use crate::ledger::StreamQuota;
use crate::name::{NameId, StreamId, StreamName};
use crate::record::{Kind, Life, Payload, ProducerTag, Record};

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
    /// To count the stored bytes of records that a note of an earlier version does not count.
    Count(Uncounted),
}

/// Records of a stream whose stored bytes a note of an earlier version does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "surfaces read the records and sum up their bytes")]
pub struct Uncounted {
    /// Which stream.
    pub stream: StreamId,
    /// The next record to count.
    pub next: u64,
    /// The last record to count.
    pub upto: u64,
    /// Stored bytes of the records before `next`.
    pub bytes: u64,
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
    pub(super) stream: NameId,
    /// The stream that was looked at before, if it matters which one it is.
    pub(super) expected: Option<StreamId>,
    pub(super) content_type: Option<String>,
    pub(super) record: Record,
    pub(super) encoded: Vec<u8>,
    pub(super) key: Option<RecordKey>,
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
    /// Records up to this one are to be counted as well.
    Uncounted(u64),
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
    /// A limit on streams or stored bytes is used up.
    #[error(transparent)]
    Quota(#[from] StreamQuota),
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
