//! Producers whose epochs the server gives: `hb:…`.
//!
//! A `POST` with `Producer-Id: hb:…` and `Producer-Acquire: true`, and without a body, ends the
//! earlier epochs of the producer and begins another. The answer has its number, the next sequence
//! (which goes on where the epoch before ended), and a ticket, which every append has to bring. An
//! answer to an append brings a fresh ticket when the old one has lived a third of its life.
//!
//! ```text
//! ticket = resume token; operation duplex, name the path, client the producer's id
//! payload = stream id (24) || epoch u64be
//! ```

use std::sync::Arc;

use handback_identity::VerifiedPrincipal;
use handback_stream::{
    Acquire, Command, MINTED_PREFIX, ProducerTag, Refusal, Reply, STREAM_ID_BYTES, StreamId, View,
};
use handback_token::{
    Bound, Context, Opened, Operation, Outside, Purpose as _, Resume, Sealer, UnixTime,
};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::answer;
use super::params::{self, Bad, PRODUCER_EPOCH, PRODUCER_EXPECTED};
use super::routes::{Answered, StreamRoutes};
use crate::body::ReplyBody;

pub(super) const PRODUCER_ACQUIRE: HeaderName = HeaderName::from_static("producer-acquire");
const PRODUCER_TICKET: HeaderName = HeaderName::from_static("producer-ticket");

/// A ticket that was opened. Only that makes one.
pub(super) struct Ticket {
    opened: Opened<Resume>,
}

/// What makes tickets.
#[derive(Clone)]
pub(super) struct Tickets {
    sealer: Arc<Sealer>,
}

impl Tickets {
    pub(super) const fn new(sealer: Arc<Sealer>) -> Self {
        Self { sealer }
    }

    fn bound(
        &self,
        principal: &VerifiedPrincipal,
        view: &View,
        producer: &str,
    ) -> Result<Bound<'_, Resume>, Box<Response<ReplyBody>>> {
        let context = Context::new(principal.caller(), Operation::Duplex)
            .name(view.meta.path())
            .client(producer);
        self.sealer.bind(&context).map_err(|_| Bad("the path is too long").into())
    }
}

impl std::fmt::Debug for Tickets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tickets(..)")
    }
}

impl StreamRoutes {
    /// Begins another epoch of a producer, if that is asked for.
    pub(super) async fn acquire(
        &self,
        principal: &VerifiedPrincipal,
        view: &View,
        headers: &HeaderMap,
    ) -> Answered {
        let tickets = self.tickets()?;
        let id = params::minted_producer(headers)?;
        let acquire = Acquire {
            stream: view.meta.id().name(),
            expected: Some(view.meta.id()),
            producer: id.to_owned(),
            heard_of: None,
        };
        let reply = self.command(principal, Command::Acquire(acquire), 0).await?;
        let Reply::Acquired { epoch, next_seq, .. } = reply else {
            return Err(Box::new(answer::refused(&Refusal::NotFound)));
        };
        let bound = tickets.bound(principal, view, id)?;
        let payload = encode(view.meta.id(), epoch);
        let ticket = bound.seal(&mut rand::rng(), self.seconds(), &payload);
        let ticket = ticket.map_err(|_| unsealed())?;
        let mut response = answer::status(StatusCode::OK);
        let answered = response.headers_mut();
        answered.insert(PRODUCER_EPOCH, epoch.into());
        answered.insert(PRODUCER_EXPECTED, next_seq.into());
        insert(answered, ticket.as_str());
        Ok(response)
    }

    /// The ticket of an append, which one of ours has to bring.
    pub(super) fn ticket(
        &self,
        principal: &VerifiedPrincipal,
        view: &View,
        producer: Option<&ProducerTag>,
        headers: &HeaderMap,
    ) -> Result<Option<Ticket>, Box<Response<ReplyBody>>> {
        let Some(tag) = producer.filter(|tag| tag.id.starts_with(MINTED_PREFIX)) else {
            return Ok(None);
        };
        let Some(text) = params::text(headers, &PRODUCER_TICKET)? else {
            return Err(Box::new(answer::refused(&Refusal::NotAcquired)));
        };
        let bound = self.tickets()?.bound(principal, view, &tag.id)?;
        let opened = bound.open(text, self.seconds()).map_err(|refused| {
            tracing::info!(reason = refused.reason().as_str(), "a ticket was refused");
            refused_ticket(refused.outside())
        })?;
        match decode(opened.payload()) {
            Some((stream, epoch)) if stream == view.meta.id() && epoch == tag.epoch => {
                Ok(Some(Ticket { opened }))
            }
            _ => Err(refused_ticket(Outside::Invalid)),
        }
    }

    /// Adds a fresh ticket to an answer, if it is time.
    pub(super) fn renew(
        &self,
        principal: &VerifiedPrincipal,
        view: &View,
        tag: &ProducerTag,
        Ticket { opened }: &Ticket,
        response: &mut Response<ReplyBody>,
    ) {
        let now = self.seconds();
        let left = opened.expires_at().as_secs().saturating_sub(now.as_secs());
        if left > u64::from(Resume::DEFAULT_TTL_S) * 2 / 3 {
            return;
        }
        let payload = encode(view.meta.id(), tag.epoch);
        let renewed = self.tickets().and_then(|tickets| {
            let bound = tickets.bound(principal, view, &tag.id)?;
            bound.seal_after(opened, &mut rand::rng(), now, &payload).map_err(|_| unsealed())
        });
        // Who gets none acquires again in time.
        if let Ok(ticket) = renewed {
            insert(response.headers_mut(), ticket.as_str());
        }
    }

    fn tickets(&self) -> Result<&Tickets, Box<Response<ReplyBody>>> {
        let none = || Box::new(answer::refused(&Refusal::NotAcquired));
        self.tickets.as_ref().ok_or_else(none)
    }

    fn seconds(&self) -> UnixTime {
        UnixTime::from_secs(self.streams.now() / 1000)
    }
}

fn insert(headers: &mut HeaderMap, ticket: &str) {
    if let Ok(ticket) = HeaderValue::from_str(ticket) {
        headers.insert(PRODUCER_TICKET, ticket);
    }
}

fn refused_ticket(outside: Outside) -> Box<Response<ReplyBody>> {
    let (status, code, text) = match outside {
        Outside::Expired => (StatusCode::GONE, "EXPIRED", "expired ticket"),
        _ => (StatusCode::BAD_REQUEST, "INVALID", "invalid ticket"),
    };
    Box::new(answer::error(status, code, text))
}

fn unsealed() -> Box<Response<ReplyBody>> {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    Box::new(answer::error(status, "INTERNAL", "a ticket cannot be made"))
}

fn encode(stream: StreamId, epoch: u64) -> Vec<u8> {
    let mut out = stream.as_bytes().to_vec();
    out.extend(epoch.to_be_bytes());
    out
}

fn decode(payload: &[u8]) -> Option<(StreamId, u64)> {
    let (stream, rest) = payload.split_first_chunk::<STREAM_ID_BYTES>()?;
    let epoch = rest.try_into().ok()?;
    Some((StreamId::from_bytes(*stream), u64::from_be_bytes(epoch)))
}
