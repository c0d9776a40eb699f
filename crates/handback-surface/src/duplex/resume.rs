//! Resume tokens: which duplex, as whom, from which event.
//!
//! ```text
//! payload = id of the stream of chunks (24) || generation u64be || last kept event u64be
//! ```

use handback_identity::VerifiedPrincipal;
use handback_store::revocations::Subject;
use handback_stream::duplex::{Code, DuplexName};
use handback_stream::{STREAM_ID_BYTES, StreamId};
use handback_token::{
    Bound, Context, Opened, Operation, Outside, Reason, Resume, Sealer, UnixTime,
};
use handback_tool::Gate;

use super::open::Refused;

/// What a token says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The stream of chunks.
    pub(super) input: StreamId,
    pub(super) generation: u64,
    /// The last event that the client has kept.
    pub(super) kept: u64,
}

/// A place that came in a token, and what goes into the next one.
pub(super) struct Presented {
    pub(super) place: Place,
    opened: Opened<Resume>,
}

/// What is said of a token that is late.
pub(super) const EXPIRED_TOKEN: &str = "expired resume token";

impl Presented {
    /// Refuses what was revoked.
    pub(super) async fn check(
        &self,
        gate: &Gate,
        principal: &VerifiedPrincipal,
    ) -> Result<(), Refused> {
        let born = self.opened.head().born_at().as_secs().saturating_mul(1000);
        let subject = Subject::of(principal).slot(self.opened.slot()).born(born);
        match gate.is_revoked(&subject).await {
            true => Err(Refused::invalid("the resume token").because(Reason::Revoked.as_str())),
            false => Ok(()),
        }
    }
}

/// Makes and opens the tokens of one duplex and one caller.
pub(super) struct Tokens {
    name: String,
    principal: VerifiedPrincipal,
    /// What the next token follows.
    before: Option<Opened<Resume>>,
}

impl Tokens {
    pub(super) fn new(name: &DuplexName, principal: VerifiedPrincipal) -> Self {
        Self { name: name.bound(), principal, before: None }
    }

    /// Opens what was presented.
    pub(super) fn open(
        &mut self,
        sealer: &Sealer,
        text: &str,
        now: u64,
    ) -> Result<Presented, Refused> {
        let invalid = || Refused::invalid("the resume token");
        let opened = self.bound(sealer)?.open(text, seconds(now)).map_err(|refused| {
            let reason = refused.reason().as_str();
            tracing::info!(reason, "a resume token was refused");
            match refused.outside() {
                Outside::Expired => Refused::new(Code::Expired, EXPIRED_TOKEN).because(reason),
                Outside::Invalid => invalid().because(reason),
            }
        })?;
        let malformed = || invalid().because(Reason::Malformed.as_str());
        let place = Place::decode(opened.payload()).ok_or_else(malformed)?;
        Ok(Presented { place, opened })
    }

    /// From here on tokens follow this one: they are as old as it is.
    pub(super) fn follow(&mut self, presented: Presented) {
        self.before = Some(presented.opened);
    }

    pub(super) fn seal(&self, sealer: &Sealer, place: Place, now: u64) -> Result<String, Refused> {
        let bound = self.bound(sealer)?;
        let (mut rng, now, payload) = (rand::rng(), seconds(now), place.encode());
        let sealed = match &self.before {
            None => bound.seal(&mut rng, now, &payload),
            Some(before) => bound.seal_after(before, &mut rng, now, &payload),
        };
        let expired = |_| Refused::new(Code::Expired, "the duplex is too old");
        sealed.map(|token| token.into_string()).map_err(expired)
    }

    fn bound<'s>(&self, sealer: &'s Sealer) -> Result<Bound<'s, Resume>, Refused> {
        let context = Context::new(self.principal.caller(), Operation::Duplex).name(&self.name);
        sealer.bind(&context).map_err(|_| Refused::invalid("the name is too long"))
    }
}

fn seconds(millis: u64) -> UnixTime {
    UnixTime::from_secs(millis / 1000)
}

impl Place {
    fn encode(self) -> Vec<u8> {
        let mut out = self.input.as_bytes().to_vec();
        out.extend(self.generation.to_be_bytes());
        out.extend(self.kept.to_be_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (input, rest) = bytes.split_first_chunk::<STREAM_ID_BYTES>()?;
        let (generation, rest) = rest.split_first_chunk()?;
        let (kept, rest) = rest.split_first_chunk()?;
        rest.is_empty().then_some(Self {
            input: StreamId::from_bytes(*input),
            generation: u64::from_be_bytes(*generation),
            kept: u64::from_be_bytes(*kept),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back_and_nothing_else_is_one() {
        let input = StreamId::from_bytes([7; STREAM_ID_BYTES]);
        let place = Place { input, generation: 3, kept: u64::MAX };
        let bytes = place.encode();
        assert_eq!(Place::decode(&bytes), Some(place));
        for length in 0..bytes.len() {
            assert_eq!(Place::decode(&bytes[..length]), None);
        }
        assert_eq!(Place::decode(&[bytes, vec![0]].concat()), None);
    }
}
