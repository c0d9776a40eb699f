//! One stream: what its records add up to, and what may be appended next.

use std::collections::HashMap;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::chain::{Head, NO_HEAD};
use crate::duplex::{self, CLIENT, HANDLER, Mark};
use crate::hub::Refusal;
use crate::key::RecordKey;
use crate::name::{NameId, StreamId};
use crate::record::{Genesis, Kind, Life, Payload, ProducerTag, Record};
use crate::view::{Meta, Segment};
use crate::wire::{Reader, Writer};

/// Producers that one stream remembers. All of them are remembered as long as the stream is there.
pub const MAX_PRODUCERS: usize = 4096;

/// The state of a stream. Everything here but `forks`, `touched` and `deleted` follows from the
/// records.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) genesis: Genesis,
    /// What readers see of it that does not change.
    pub(crate) meta: Arc<Meta>,
    /// The number of the first record.
    pub(crate) start: u64,
    /// The number of the last record.
    pub(crate) number: u64,
    /// The number up to which readers read: an end without data is not one of their offsets.
    pub(crate) tail: u64,
    pub(crate) head: Head,
    pub(crate) closed: Option<Closed>,
    producers: HashMap<String, Producer>,
    /// How [`CLIENT`](crate::duplex::CLIENT) stands, which readers see.
    pub(crate) client: Option<Standing>,
    /// Which chunk [`HANDLER`](crate::duplex::HANDLER) has consumed last.
    pub(crate) consumed: Option<Mark>,
    writer_seq: Option<String>,
    /// Bytes that the log stores of its own records; of those after `uncounted`, if that is set.
    pub(crate) bytes: u64,
    /// The last record of a note of version 2, until the bytes up to there are counted.
    pub(crate) uncounted: Option<u64>,
    /// Streams that were forked from it.
    pub(crate) forks: usize,
    /// Whether it is kept for its forks only.
    pub(crate) deleted: bool,
    /// The last record that the note covers.
    pub(crate) noted: u64,
    /// The last access that a note tells of.
    pub(crate) noted_touch: u64,
}

/// That a stream ended, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) by: Option<ProducerTag>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Producer {
    epoch: u64,
    /// The last sequence; none if the epoch was only announced.
    seq: Option<u64>,
    /// What the last append had, to tell a retry from another append under the same number.
    digest: u64,
    /// The record of the last append.
    number: u64,
    /// The epoch that it was made in.
    appended_in: u64,
    /// The last epoch that whoever acquires them is known to have heard of.
    seen: u64,
}

/// Producers whose ids start so have their epochs from [`Command::Acquire`](crate::Command) only.
pub const MINTED_PREFIX: &str = "hb:";

/// A producer as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing {
    /// Its epoch.
    pub epoch: u64,
    /// The next sequence.
    pub next_seq: u64,
    /// The last epoch that whoever acquires them is known to have heard of.
    pub seen: u64,
}

/// What comes of an append.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accept,
    /// It is there already.
    Duplicate {
        /// Whether the bytes are others than those that are there.
        differs: bool,
    },
}

impl Stream {
    /// The stream of a first record.
    pub(crate) fn new(
        id: StreamId,
        start: u64,
        genesis: Genesis,
        time: u64,
        meta: Arc<Meta>,
    ) -> Self {
        Self {
            id,
            genesis,
            meta,
            start,
            number: start,
            tail: start,
            head: NO_HEAD,
            closed: None,
            producers: HashMap::new(),
            client: None,
            consumed: None,
            writer_seq: None,
            bytes: 0,
            uncounted: None,
            forks: 0,
            deleted: false,
            noted: start,
            noted_touch: time,
        }
    }

    /// Adds the record that comes next.
    pub(crate) fn apply(&mut self, number: u64, record: &Record, head: Head) {
        self.number = number;
        if record.kind != Kind::End {
            self.tail = number;
        }
        self.head = head;
        if let Some(tag) = &record.producer {
            let digest = record.payload().map_or(0, |payload| xxh3_64(&payload.bytes));
            let known = self.producers.get_mut(&tag.id);
            let seen = known.as_ref().map_or(0, |known| known.seen);
            let producer = match (record.kind == Kind::Fence, &known) {
                // Who takes over goes on where the one before was.
                (true, Some(known)) => {
                    Producer { epoch: tag.epoch, seen: seen.max(tag.seq), ..**known }
                }
                (true, None) => Producer {
                    epoch: tag.epoch,
                    seq: None,
                    digest: 0,
                    number: 0,
                    appended_in: 0,
                    seen: tag.seq,
                },
                (false, _) => Producer {
                    epoch: tag.epoch,
                    seq: Some(tag.seq),
                    digest,
                    number,
                    appended_in: tag.epoch,
                    seen,
                },
            };
            match known {
                Some(known) => *known = producer,
                None => {
                    self.producers.insert(tag.id.clone(), producer);
                }
            }
        }
        if let Some(seq) = &record.writer_seq {
            self.writer_seq = Some(seq.clone());
        }
        if record.closes || record.kind == Kind::End {
            self.closed = Some(Closed { by: record.producer.clone() });
        }
        match record.producer.as_ref().map(|tag| tag.id.as_str()) {
            Some(CLIENT) => self.client = self.client_standing(),
            Some(HANDLER) => {
                let mark = record.writer_seq.as_deref().and_then(Mark::parse);
                self.consumed = mark.or(self.consumed);
            }
            _ => {}
        }
    }

    /// How the client of a duplex stands: its end is no chunk, and not counted.
    fn client_standing(&self) -> Option<Standing> {
        let by = self.closed.as_ref().and_then(|closed| closed.by.as_ref());
        let end = by.filter(|tag| tag.id == CLIENT).map(|tag| tag.seq);
        let standing = self.standing(CLIENT)?;
        Some(Standing { next_seq: end.unwrap_or(standing.next_seq), ..standing })
    }

    /// Whether a record may be appended.
    pub(crate) fn check(
        &self,
        record: &Record,
        content_type: Option<&str>,
        key: Option<&RecordKey>,
    ) -> Result<Verdict, Refusal> {
        if self.genesis.key_commitment.is_some() != key.is_some() {
            return Err(Refusal::Key);
        }
        if let Some(closed) = &self.closed {
            let same = record.producer.is_some() && closed.by == record.producer;
            let only_closes = record.kind == Kind::End && record.producer.is_none();
            if same || only_closes {
                return Ok(Verdict::Duplicate { differs: false });
            }
            return Err(Refusal::Closed { number: self.tail });
        }
        if let (Kind::Data(_), Some(content_type)) = (&record.kind, content_type)
            && !same_type(content_type, &self.genesis.content_type)
        {
            return Err(Refusal::ContentType);
        }
        if let Some(tag) = &record.producer
            && let Verdict::Duplicate { differs } =
                self.check_producer(tag, record.payload(), key)?
        {
            return Ok(Verdict::Duplicate { differs });
        }
        // An abort comes last, whatever sequences the other end of a relay has used.
        let is_abort = record.kind == Kind::End
            && record.writer_seq.as_deref() == Some(duplex::ABORT)
            && duplex::is_path(&self.genesis.path);
        if let (Some(seq), Some(last)) = (&record.writer_seq, &self.writer_seq)
            && seq <= last
            && !is_abort
        {
            return Err(Refusal::WriterSeq);
        }
        Ok(Verdict::Accept)
    }

    fn check_producer(
        &self,
        tag: &ProducerTag,
        payload: Option<&Payload>,
        key: Option<&RecordKey>,
    ) -> Result<Verdict, Refusal> {
        let is_minted = tag.id.starts_with(MINTED_PREFIX);
        let Some(known) = self.producers.get(&tag.id) else {
            if is_minted {
                return Err(Refusal::NotAcquired);
            }
            if self.producers.len() >= MAX_PRODUCERS {
                return Err(Refusal::TooManyProducers);
            }
            return match tag.seq {
                0 => Ok(Verdict::Accept),
                received => Err(Refusal::Gap { expected: 0, received }),
            };
        };
        if tag.epoch < known.epoch {
            return Err(Refusal::StaleEpoch { current: known.epoch });
        }
        if tag.epoch > known.epoch {
            return match tag.seq {
                _ if is_minted => Err(Refusal::NotAcquired),
                0 => Ok(Verdict::Accept),
                _ => Err(Refusal::EpochStart),
            };
        }
        let expected = known.seq.map_or(0, |seq| seq + 1);
        match tag.seq {
            seq if seq < expected => {
                let is_last = seq + 1 == expected;
                let digest = |payload: &Payload| match key {
                    None => xxh3_64(&payload.bytes),
                    // The same bytes in the same place are encrypted in the same way.
                    Some(key) => {
                        let first = ProducerTag { epoch: known.appended_in, ..tag.clone() };
                        xxh3_64(&key.seal(known.number, Some(&first), &payload.bytes))
                    }
                };
                let differs = is_last && payload.is_some_and(|p| digest(p) != known.digest);
                Ok(Verdict::Duplicate { differs })
            }
            seq if seq == expected => Ok(Verdict::Accept),
            received => Err(Refusal::Gap { expected, received }),
        }
    }

    /// How a producer stands.
    pub(crate) fn standing(&self, id: &str) -> Option<Standing> {
        self.producers.get(id).map(|producer| Standing {
            epoch: producer.epoch,
            next_seq: producer.seq.map_or(0, |seq| seq + 1),
            seen: producer.seen,
        })
    }

    /// The epoch and the last sequence of a producer.
    pub(crate) fn producer(&self, id: &str) -> Option<(u64, Option<u64>)> {
        self.producers.get(id).map(|producer| (producer.epoch, producer.seq))
    }

    /// The last writer sequence.
    pub(crate) fn writer_seq(&self) -> Option<&str> {
        self.writer_seq.as_deref()
    }

    /// How many producers it remembers.
    pub(crate) fn producer_count(&self) -> usize {
        self.producers.len()
    }

    /// The note that lets a restart begin here.
    pub(crate) fn note(&self) -> Vec<u8> {
        let mut out = Writer::with_capacity(256 + 64 * self.producers.len());
        let is_counted = self.uncounted.is_none();
        out.u8(if is_counted { NOTE_VERSION } else { NOTE_VERSION_WITHOUT_BYTES });
        self.genesis.write(&mut out);
        out.u64(self.meta.created());
        out.u64(self.meta.touched());
        out.u64(self.start);
        out.u64(self.number);
        out.u64(self.tail);
        out.raw(self.head.as_bytes());
        out.u8(self.deleted.into());
        out.u8(self.closed.is_some().into());
        if let Some(closed) = &self.closed {
            out.u8(closed.by.is_some().into());
            if let Some(tag) = &closed.by {
                out.text(tag.id.as_bytes());
                out.u64(tag.epoch);
                out.u64(tag.seq);
            }
        }
        out.u8(self.writer_seq.is_some().into());
        if let Some(seq) = &self.writer_seq {
            out.text(seq.as_bytes());
        }
        out.u32(u32::try_from(self.producers.len()).unwrap_or(u32::MAX));
        for (id, producer) in &self.producers {
            out.text(id.as_bytes());
            out.u64(producer.epoch);
            out.optional_u64(producer.seq);
            out.u64(producer.digest);
            out.u64(producer.number);
            out.u64(producer.appended_in);
            out.u64(producer.seen);
        }
        if is_counted {
            out.u64(self.bytes);
        }
        out.finish()
    }

    /// The stream that a note tells of. Segments of what it was forked from are added later.
    pub(crate) fn from_note(id: StreamId, note: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(note);
        let version = reader.u8()?;
        if !matches!(version, NOTE_VERSION_WITHOUT_BYTES | NOTE_VERSION) {
            return None;
        }
        let genesis = Genesis::read(&mut reader)?;
        let (created, touched) = (reader.u64()?, reader.u64()?);
        let (start, number, tail) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let head = Head::from_bytes(reader.array()?);
        let deleted = reader.truth()?;
        let closed = match reader.truth()? {
            false => None,
            true => {
                let by = match reader.truth()? {
                    false => None,
                    true => Some(ProducerTag {
                        id: reader.string()?,
                        epoch: reader.u64()?,
                        seq: reader.u64()?,
                    }),
                };
                Some(Closed { by })
            }
        };
        let writer_seq = match reader.truth()? {
            false => None,
            true => Some(reader.string()?),
        };
        let mut producers = HashMap::new();
        for _ in 0..reader.u32()? {
            let id = reader.string()?;
            let producer = Producer {
                epoch: reader.u64()?,
                seq: reader.optional_u64()?,
                digest: reader.u64()?,
                number: reader.u64()?,
                appended_in: reader.u64()?,
                seen: reader.u64()?,
            };
            producers.insert(id, producer);
        }
        let (bytes, uncounted) =
            if version == NOTE_VERSION { (reader.u64()?, None) } else { (0, Some(number)) };
        let meta = Meta::new(id, &genesis, created, touched, vec![Segment::own(id, start)]);
        let mut stream = Self {
            id,
            genesis,
            meta: Arc::new(meta),
            start,
            number,
            tail,
            head,
            closed,
            producers,
            client: None,
            consumed: None,
            writer_seq,
            bytes,
            uncounted,
            forks: 0,
            deleted,
            noted: number,
            noted_touch: touched,
        };
        stream.client = stream.client_standing();
        if stream.producers.contains_key(HANDLER) {
            stream.consumed = stream.writer_seq().and_then(Mark::parse);
        }
        reader.is_done().then_some(stream)
    }

    /// Whether a creation asks for what is there.
    pub(crate) fn is_as_asked(
        &self,
        content_type: Option<&str>,
        life: Life,
        closed: bool,
        fork: Option<(NameId, Option<u64>, u64)>,
    ) -> bool {
        let same_fork = match (fork, &self.genesis.parent) {
            (None, None) => true,
            (Some((id, number, part)), Some(parent)) => {
                id == parent.id.name()
                    && number.is_none_or(|number| number == parent.number)
                    && part == parent.part
            }
            _ => false,
        };
        let same_life = match (life, fork) {
            // What was inherited need not be asked for.
            (Life::Unlimited, Some(_)) => true,
            (life, _) => life == self.genesis.life,
        };
        same_fork
            && same_life
            && content_type.is_none_or(|asked| same_type(asked, &self.genesis.content_type))
            && closed == self.closed.is_some()
    }
}

/// The version of notes that are written. Those of version 2 are read, and written of a stream until its
/// bytes are counted: they have no count of bytes.
const NOTE_VERSION: u8 = 3;

const NOTE_VERSION_WITHOUT_BYTES: u8 = 2;

/// Whether two content types are of the same media type, whatever their parameters.
pub(crate) fn same_type(one: &str, other: &str) -> bool {
    essence(one).eq_ignore_ascii_case(essence(other))
}

fn essence(content_type: &str) -> &str {
    content_type.split(';').next().map_or("", str::trim)
}
