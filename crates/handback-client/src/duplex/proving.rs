//! Events that are handed out only when a commit proved them.

use bytes::Bytes;
use handback_stream::duplex::Proof;
use handback_stream::{Payload, PublicKey, RecordKey, StreamId, StreamKey, Verifier, VerifyError};

use super::DuplexError;
use super::core::Mark;
use crate::http::Http;
use crate::keys::Keys;
use crate::state::Place;

/// Records that wait for the commit that proves them, at most.
const UNPROVED_MAX: usize = 100_000;

/// Bytes of them: a commit is sent whole, and has a few appends of 4 MiB at most.
const UNPROVED_BYTES_MAX: usize = 256 << 20;

/// The check of one connection's events.
pub(super) struct Proving {
    trust: Keys,
    keys: Vec<PublicKey>,
    verifier: Verifier,
    stream: StreamId,
    /// What the stream must say that it is.
    path: String,
    records: Option<RecordKey>,
    /// What an earlier connection proved: it must come again.
    earlier: Option<Place>,
    pending: Vec<(Mark, Option<Bytes>)>,
    pending_bytes: usize,
    is_refreshed: bool,
}

impl Proving {
    /// From the place on that was kept, or from the first record of the stream.
    pub(super) async fn start(
        trust: Keys,
        http: &Http,
        (stream, path): (StreamId, String),
        kept: Option<&Mark>,
        earlier: Option<Place>,
        stream_key: Option<&StreamKey>,
    ) -> Result<Self, DuplexError> {
        let keys = trust.load(http).await?;
        let verifier = match kept.map(|mark| mark.place) {
            None => Verifier::from_start(stream, 0, keys.clone()),
            Some(Some(place)) => {
                check_stream(stream, Some(place))?;
                Verifier::after(stream, place.number, place.head, keys.clone())
            }
            Some(None) => {
                return Err(DuplexError::Options("it was started without verifying"));
            }
        };
        check_stream(stream, earlier)?;
        Ok(Self {
            trust,
            keys,
            verifier,
            stream,
            path,
            records: stream_key.map(|key| key.records(stream)),
            earlier,
            pending: Vec::new(),
            pending_bytes: 0,
            is_refreshed: false,
        })
    }

    /// Takes the next record.
    pub(super) fn record(
        &mut self,
        event_id: String,
        number: u64,
        bytes: &Bytes,
    ) -> Result<(), DuplexError> {
        let record = self.verifier.record(number, bytes, None)?;
        // Another stream of the same server is signed as well.
        if record.path().is_some_and(|path| path != self.path) {
            return Err(DuplexError::Misbehaved("the events are of another stream"));
        }
        let (stream, number, head) = self.verifier.last();
        let place = Place { stream, number, head };
        if self.earlier.is_some_and(|earlier| earlier.number == number && earlier != place) {
            return Err(DuplexError::RolledBack { number });
        }
        let data = match record.payload() {
            Some(payload) => Some(self.open(number, &record, payload)?),
            None => None,
        };
        let event = data.filter(|data| !data.is_empty());
        // No offset counts an end without data: it cannot be acknowledged, and comes again.
        if self.verifier.is_closed() && event.is_none() {
            return Ok(());
        }
        self.pending_bytes += bytes.len();
        let mark = Mark { event_id, place: Some(place), is_event: event.is_some() };
        self.pending.push((mark, event));
        if self.pending.len() > UNPROVED_MAX || self.pending_bytes > UNPROVED_BYTES_MAX {
            return Err(DuplexError::Misbehaved("events without proofs"));
        }
        Ok(())
    }

    fn open(
        &self,
        number: u64,
        record: &handback_stream::Record,
        payload: &Payload,
    ) -> Result<Bytes, DuplexError> {
        match (&self.records, payload.encrypted) {
            (Some(key), true) => key
                .open(number, record.producer(), &payload.bytes)
                .ok_or(DuplexError::NotOpened { number }),
            (None, false) => Ok(payload.bytes.clone()),
            // A record without bytes says that a chunk made no event.
            (Some(_), false) if payload.bytes.is_empty() => Ok(Bytes::new()),
            _ => Err(DuplexError::NotOpened { number }),
        }
    }

    /// Takes a commit: what it proves, in order, and the place that is proved now.
    pub(super) async fn commit(
        &mut self,
        proof: &Proof,
        http: &Http,
    ) -> Result<(Vec<(Mark, Option<Bytes>)>, Place), DuplexError> {
        self.know(proof, http).await?;
        self.verifier.commit(&proof.commit)?;
        let (stream, number, head) = self.verifier.last();
        self.pending_bytes = 0;
        Ok((std::mem::take(&mut self.pending), Place { stream, number, head }))
    }

    /// Reads the keys again, once, if a new one signs.
    async fn know(&mut self, proof: &Proof, http: &Http) -> Result<(), DuplexError> {
        let is_known = |keys: &[PublicKey]| keys.iter().any(|key| key.id() == proof.key);
        if is_known(&self.keys) {
            return Ok(());
        }
        if !self.is_refreshed {
            self.is_refreshed = true;
            self.keys = self.trust.load(http).await?;
            let (_, number, head) = self.verifier.last();
            if is_known(&self.keys) && !self.verifier.is_closed() {
                self.verifier = Verifier::after(self.stream, number, head, self.keys.clone());
                return Ok(());
            }
        }
        Err(DuplexError::UnknownKey(proof.key.to_string()))
    }

    /// Whether the server may say that it is over: the end is a record, and proved like all others.
    pub(super) fn check_end(&self) -> Result<(), DuplexError> {
        let (_, number, _) = self.verifier.last();
        let is_proved = self.verifier.proved().is_some_and(|(proved, _)| proved == number);
        if !is_proved || !self.verifier.is_closed() {
            return Err(VerifyError::Missing { expected: number + 1 }.into());
        }
        match self.earlier {
            Some(earlier) if earlier.number > number => {
                Err(DuplexError::RolledBack { number: earlier.number })
            }
            _ => Ok(()),
        }
    }
}

/// A name has another stream now: the one that was proved is gone.
fn check_stream(stream: StreamId, earlier: Option<Place>) -> Result<(), DuplexError> {
    match earlier {
        Some(earlier) if earlier.stream != stream => {
            Err(DuplexError::RolledBack { number: earlier.number })
        }
        _ => Ok(()),
    }
}
