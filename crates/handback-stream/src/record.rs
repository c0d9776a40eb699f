//! What a record says, and how it is stored.
//!
//! ```text
//! record  = 01 kind flags time fields payload
//! kind    : 00 genesis, 01 data, 02 end, 03 fence
//! flags   : 01 the stream is closed by it, 02 producer, 04 writer sequence, 08 encrypted
//! time    = u64be, milliseconds since 1970
//! producer = text(id) epoch u64be sequence u64be
//! writer sequence = text
//! text(x) = u32be(length) x
//! payload : data: messages u32be, then the bytes, to the end
//!           genesis: see `Genesis`
//! ```
//!
//! Leftover bytes, unknown kinds and unknown flags are errors.

use bytes::Bytes;

use crate::key::RecordKey;
use crate::name::{STREAM_ID_BYTES, StreamId};
use crate::wire::{Reader, Writer};

/// Bytes that one append may have.
pub const MAX_PAYLOAD_BYTES: usize = 4 << 20;

/// Bytes of a producer's id.
pub const MAX_PRODUCER_ID_BYTES: usize = 256;

/// Bytes of a writer sequence.
pub const MAX_WRITER_SEQ_BYTES: usize = 256;

/// Bytes of a content type.
pub const MAX_CONTENT_TYPE_BYTES: usize = 256;

/// The largest epoch and sequence of a producer: what JavaScript counts exactly.
pub const MAX_COUNT: u64 = (1 << 53) - 1;

const VERSION: u8 = 1;

const CLOSES: u8 = 1;
const PRODUCER: u8 = 2;
const WRITER_SEQ: u8 = 4;
const ENCRYPTED: u8 = 8;

/// One record of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub(crate) kind: Kind,
    /// In milliseconds since 1970.
    pub(crate) time: u64,
    /// Whether the stream ends with it.
    pub(crate) closes: bool,
    pub(crate) producer: Option<ProducerTag>,
    pub(crate) writer_seq: Option<String>,
}

/// What a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first one.
    Genesis(Box<Genesis>),
    /// An append.
    Data(Payload),
    /// The end, without data.
    End,
    /// A producer has a new epoch from here on; earlier ones are over.
    Fence,
}

/// What was appended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Payload {
    /// How many JSON messages it is, joined by commas; none for other streams.
    pub messages: u32,
    /// Whether the bytes are encrypted under the stream's own key.
    pub encrypted: bool,
    /// The bytes.
    pub bytes: Bytes,
}

impl Payload {
    /// The same with these bytes, which are not encrypted.
    #[must_use]
    pub const fn of(&self, bytes: Bytes) -> Self {
        Self { messages: self.messages, encrypted: false, bytes }
    }
}

/// Which producer appended, and as what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the protocol has these three")]
pub struct ProducerTag {
    /// The producer's id.
    pub id: String,
    /// Its epoch.
    pub epoch: u64,
    /// The number of the append in the epoch.
    pub seq: u64,
}

/// How a stream starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Genesis {
    pub(crate) owner: String,
    pub(crate) path: String,
    pub(crate) content_type: String,
    pub(crate) life: Life,
    pub(crate) parent: Option<Parent>,
    /// What the stream's own key is known by.
    pub(crate) key_commitment: Option<[u8; 32]>,
}

/// How long a stream lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these three")]
pub enum Life {
    /// Until it is deleted.
    Unlimited,
    /// So many seconds after it was last read or written.
    Sliding {
        /// Seconds.
        ttl_s: u64,
    },
    /// Until a moment, in milliseconds since 1970.
    Until(u64),
}

/// What a stream was forked from, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    pub(crate) id: StreamId,
    /// The last record that is shared.
    pub(crate) number: u64,
    /// The parent's head there.
    pub(crate) head: [u8; 32],
    /// How many messages or bytes of the next one were copied.
    pub(crate) part: u64,
}

impl Record {
    /// What it says of the stream's data.
    #[must_use]
    pub const fn payload(&self) -> Option<&Payload> {
        match &self.kind {
            Kind::Data(payload) => Some(payload),
            _ => None,
        }
    }

    /// Whether it is an end without data.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        matches!(self.kind, Kind::End)
    }

    /// Whether the stream ends with it.
    #[must_use]
    pub const fn closes(&self) -> bool {
        self.closes
    }

    /// The writer sequence that it was appended with.
    #[must_use]
    pub fn writer_seq(&self) -> Option<&str> {
        self.writer_seq.as_deref()
    }

    /// What the key of its stream is known by: of the first record of a stream that has one.
    #[must_use]
    pub fn key_commitment(&self) -> Option<&[u8; 32]> {
        match &self.kind {
            Kind::Genesis(genesis) => genesis.key_commitment.as_ref(),
            _ => None,
        }
    }

    /// The path of its stream: of a first record.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match &self.kind {
            Kind::Genesis(genesis) => Some(&genesis.path),
            _ => None,
        }
    }

    /// The number up to which its stream shares the records of another one: of the first record of
    /// a fork.
    #[must_use]
    pub fn forked_at(&self) -> Option<u64> {
        match &self.kind {
            Kind::Genesis(genesis) => genesis.parent.map(|parent| parent.number),
            _ => None,
        }
    }

    /// Who appended it.
    #[must_use]
    pub const fn producer(&self) -> Option<&ProducerTag> {
        self.producer.as_ref()
    }

    /// When it was appended, in milliseconds since 1970.
    #[must_use]
    pub const fn time(&self) -> u64 {
        self.time
    }

    /// What a record of this kind is called.
    #[must_use]
    pub const fn kind_name(&self) -> &'static str {
        match self.kind {
            Kind::Genesis(_) => "genesis",
            Kind::Data(_) => "data",
            Kind::End => "end",
            Kind::Fence => "fence",
        }
    }

    /// With its payload encrypted, as the record of this number, if there is a key.
    pub(crate) fn encrypted(mut self, key: Option<&RecordKey>, number: u64) -> Self {
        if let (Some(key), Kind::Data(payload)) = (key, &mut self.kind) {
            payload.bytes = key.seal(number, self.producer.as_ref(), &payload.bytes);
            payload.encrypted = true;
        }
        self
    }

    /// The bytes that were appended as the record of this number; nothing if it has none, or if
    /// they are encrypted and this is not the key, or there is none.
    #[must_use]
    pub fn data(&self, key: Option<&RecordKey>, number: u64) -> Option<Bytes> {
        let payload = self.payload()?;
        match (payload.encrypted, key) {
            (false, _) => Some(payload.bytes.clone()),
            (true, Some(key)) => key.open(number, self.producer.as_ref(), &payload.bytes),
            (true, None) => None,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let payload_len = self.payload().map_or(256, |payload| payload.bytes.len());
        let mut out = Writer::with_capacity(payload_len + 128);
        let (kind, encrypted) = match &self.kind {
            Kind::Genesis(_) => (0, false),
            Kind::Data(payload) => (1, payload.encrypted),
            Kind::End => (2, false),
            Kind::Fence => (3, false),
        };
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        out.u8(VERSION);
        out.u8(kind);
        out.u8(flag(self.closes, CLOSES)
            | flag(self.producer.is_some(), PRODUCER)
            | flag(self.writer_seq.is_some(), WRITER_SEQ)
            | flag(encrypted, ENCRYPTED));
        out.u64(self.time);
        if let Some(producer) = &self.producer {
            out.text(producer.id.as_bytes());
            out.u64(producer.epoch);
            out.u64(producer.seq);
        }
        if let Some(seq) = &self.writer_seq {
            out.text(seq.as_bytes());
        }
        match &self.kind {
            Kind::Genesis(genesis) => genesis.write(&mut out),
            Kind::Data(payload) => {
                out.u32(payload.messages);
                out.raw(&payload.bytes);
            }
            Kind::End | Kind::Fence => {}
        }
        out.finish()
    }

    /// Decodes a record. The payload shares the bytes.
    #[must_use]
    pub fn decode(bytes: &Bytes) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let kind = reader.u8()?;
        let flags = reader.u8()?;
        if flags & !(CLOSES | PRODUCER | WRITER_SEQ | ENCRYPTED) != 0 {
            return None;
        }
        let time = reader.u64()?;
        let producer = match flags & PRODUCER {
            0 => None,
            _ => {
                Some(ProducerTag { id: reader.string()?, epoch: reader.u64()?, seq: reader.u64()? })
            }
        };
        let writer_seq = match flags & WRITER_SEQ {
            0 => None,
            _ => Some(reader.string()?),
        };
        let encrypted = flags & ENCRYPTED != 0;
        let kind = match kind {
            0 => Kind::Genesis(Box::new(Genesis::read(&mut reader)?)),
            1 => {
                let messages = reader.u32()?;
                let payload = bytes.slice_ref(reader.rest());
                return Some(Self {
                    kind: Kind::Data(Payload { messages, encrypted, bytes: payload }),
                    time,
                    closes: flags & CLOSES != 0,
                    producer,
                    writer_seq,
                });
            }
            2 => Kind::End,
            3 => Kind::Fence,
            _ => return None,
        };
        let closes = flags & CLOSES != 0;
        (reader.is_done() && !encrypted).then_some(Self {
            kind,
            time,
            closes,
            producer,
            writer_seq,
        })
    }
}

impl Genesis {
    pub(crate) fn write(&self, out: &mut Writer) {
        out.text(self.owner.as_bytes());
        out.text(self.path.as_bytes());
        out.text(self.content_type.as_bytes());
        let (ttl_s, until) = match self.life {
            Life::Unlimited => (None, None),
            Life::Sliding { ttl_s } => (Some(ttl_s), None),
            Life::Until(until) => (None, Some(until)),
        };
        out.optional_u64(ttl_s);
        out.optional_u64(until);
        out.u8(self.parent.is_some().into());
        if let Some(parent) = &self.parent {
            out.raw(parent.id.as_bytes());
            out.u64(parent.number);
            out.raw(&parent.head);
            out.u64(parent.part);
        }
        out.u8(self.key_commitment.is_some().into());
        if let Some(commitment) = &self.key_commitment {
            out.raw(commitment);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let (owner, path) = (reader.string()?, reader.string()?);
        let content_type = reader.string()?;
        let life = match (reader.optional_u64()?, reader.optional_u64()?) {
            (None, None) => Life::Unlimited,
            (Some(ttl_s), None) => Life::Sliding { ttl_s },
            (None, Some(until)) => Life::Until(until),
            (Some(_), Some(_)) => return None,
        };
        let parent = match reader.truth()? {
            false => None,
            true => Some(Parent {
                id: StreamId::from_bytes(reader.array::<STREAM_ID_BYTES>()?),
                number: reader.u64()?,
                head: reader.array()?,
                part: reader.u64()?,
            }),
        };
        let key_commitment = match reader.truth()? {
            false => None,
            true => Some(reader.array()?),
        };
        Some(Self { owner, path, content_type, life, parent, key_commitment })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn payloads() -> impl Strategy<Value = Payload> {
        (any::<u32>(), any::<bool>(), proptest::collection::vec(any::<u8>(), 0..40)).prop_map(
            |(messages, encrypted, bytes)| Payload { messages, encrypted, bytes: bytes.into() },
        )
    }

    fn lives() -> impl Strategy<Value = Life> {
        prop_oneof![
            Just(Life::Unlimited),
            any::<u64>().prop_map(|ttl_s| Life::Sliding { ttl_s }),
            any::<u64>().prop_map(Life::Until),
        ]
    }

    fn geneses() -> impl Strategy<Value = Genesis> {
        let parent = (any::<[u8; 24]>(), any::<u64>(), any::<[u8; 32]>(), any::<u64>());
        (
            ("\\PC{0,9}", "\\PC{1,9}", "\\PC{0,9}"),
            lives(),
            proptest::option::of(parent),
            proptest::option::of(any::<[u8; 32]>()),
        )
            .prop_map(|((owner, path, content_type), life, parent, key_commitment)| {
                Genesis {
                    owner,
                    path,
                    content_type,
                    life,
                    parent: parent.map(|(id, number, head, part)| Parent {
                        id: StreamId::from_bytes(id),
                        number,
                        head,
                        part,
                    }),
                    key_commitment,
                }
            })
    }

    pub(crate) fn records() -> impl Strategy<Value = Record> {
        let kind = prop_oneof![
            geneses().prop_map(|genesis| Kind::Genesis(Box::new(genesis))),
            payloads().prop_map(Kind::Data),
            Just(Kind::End),
            Just(Kind::Fence),
        ];
        let producer = ("\\PC{1,9}", any::<u64>(), any::<u64>())
            .prop_map(|(id, epoch, seq)| ProducerTag { id, epoch, seq });
        (
            kind,
            any::<u64>(),
            any::<bool>(),
            proptest::option::of(producer),
            proptest::option::of("\\PC{0,9}"),
        )
            .prop_map(|(kind, time, closes, producer, writer_seq)| Record {
                kind,
                time,
                closes,
                producer,
                writer_seq,
            })
    }

    proptest! {
        #[test]
        fn records_come_back(record in records()) {
            let bytes = Bytes::from(record.encode());
            prop_assert_eq!(Record::decode(&bytes), Some(record));
        }

        #[test]
        fn other_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes = Bytes::from(bytes);
            if let Some(record) = Record::decode(&bytes) {
                prop_assert_eq!(Bytes::from(record.encode()), bytes);
            }
        }

        #[test]
        fn cut_and_longer_records_are_refused(record in records()) {
            let bytes = record.encode();
            let is_data = record.payload().is_some();
            for length in 0..bytes.len() {
                let cut = Record::decode(&Bytes::copy_from_slice(&bytes[..length]));
                prop_assert!(cut.is_none_or(|cut| is_data && cut != record));
            }
            let longer = Bytes::from([&bytes[..], b"x"].concat());
            prop_assert!(Record::decode(&longer).is_none_or(|longer| is_data && longer != record));
        }
    }
}
