//! Durable streams as state machines: no sockets, no clock, no threads.
//!
//! A stream is an append-only log of records under a name, with fenced producers and readers that
//! resume anywhere. All that decides about an append (who produced what, who was fenced off, whether
//! the stream is closed) follows from the records alone, so that it is durable with the data, in the
//! same atomic write. Records are chained, and each commit is signed.

pub mod atd;
mod chain;
mod content;
pub mod duplex;
mod hex;
mod hub;
mod key;
mod ledger;
mod name;
mod offset;
mod pattern;
mod record;
mod sign;
mod state;
mod stored;
mod verify;
mod view;
mod wire;

pub use chain::{Entry, Head, Path};
pub use content::{ContentError, MAX_JSON_DEPTH};
pub use hex::BadHex;
pub use hub::{
    Acquire, Append, Appended, Command, Create, DEFAULT_CONTENT_TYPE, Done, Fork, Found, Hub,
    RecoverError, Recovery, Refusal, Reply, Ticket, Uncounted, Views, Write,
};
pub use key::{BadKey, ENCRYPTION_BYTES, RecordKey, StreamKey};
pub use ledger::{StreamQuota, StreamQuotas};
pub use name::{MAX_PATH_BYTES, NameError, NameId, STREAM_ID_BYTES, StreamId, StreamName};
pub use offset::{Offset, OffsetError};
pub use pattern::PathPattern;
pub use record::{
    Life, MAX_CONTENT_TYPE_BYTES, MAX_COUNT, MAX_PAYLOAD_BYTES, MAX_PRODUCER_ID_BYTES,
    MAX_WRITER_SEQ_BYTES, Payload, ProducerTag, Record,
};
pub use sign::{BadSeed, KeyId, PublicKey, SIGNATURE_BYTES, SigningKey};
pub use state::{MAX_PRODUCERS, MINTED_PREFIX, Standing};
pub use stored::{Commit, Signature, Stored};
pub use verify::{CommitProof, Verifier, VerifyError};
pub use view::{Meta, RecordKeys, Segment, View};
