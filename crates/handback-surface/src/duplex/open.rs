//! From what a client says of itself to a duplex that it may drive.

use std::sync::Arc;

use handback_identity::{Caller, VerifiedPrincipal};
use handback_stream::duplex::{self, CLIENT, Code, DuplexName, Hello, ServerFrame};
use handback_stream::{
    Acquire, Command, Create, Life, NameId, Offset, RecordKeys, Refusal, Reply, StreamId,
    StreamKey, StreamName, StreamQuota, View,
};
use handback_token::{Operation, Reason};
use handback_tool::gate::{Back, Gate, OUTLIVED};
use handback_tool::{Again, Credential, Exhausted, Surface};

use super::resume::{EXPIRED_TOKEN, Place, Tokens};
use super::routes::Shared;
use crate::streams::answer::{part_of, resource_of};
use crate::streams::{Mode, NotTaken};

/// How long the streams of a duplex outlive their last use: so long is a key that was used not run
/// again.
const LIFE_S: u64 = 24 * 3600;

/// How old a duplex may be to be gone on with.
const RESUME_LIFE_MS: u64 = 2 * 3600 * 1000;

/// When to try again what the store did not take.
pub(super) const RETRY_MS: u64 = 1000;

/// What a client says of itself.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) caller: Caller,
    pub(super) again: Option<Again>,
    pub(super) handler: String,
    pub(super) hello: Option<Hello>,
    /// Whether it acknowledges events.
    pub(super) is_flow_controlled: bool,
}

/// Why a connection ends.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) code: Code,
    pub(super) message: String,
    pub(super) retry_after_ms: Option<u64>,
    /// Why exactly, for the audit.
    pub(super) reason: Option<&'static str>,
    /// The quota that is used up, and which part of it.
    pub(super) over: Option<(&'static str, Exhausted)>,
}

impl Refused {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after_ms: None, reason: None, over: None }
    }

    /// Something is not right. What it is, is told to operators only.
    pub(super) fn invalid(why: &str) -> Self {
        tracing::info!(why, "a duplex connection was refused");
        Self::new(Code::Invalid, "key, token, event id or stream key are not right")
    }

    /// The streams of the caller, or of all, are as many or as large as they may be.
    pub(super) fn over_quota(quota: StreamQuota) -> Self {
        let part = part_of(quota);
        let over = Some((resource_of(quota), part));
        Self { over, ..Self::new(Code::Busy, quota.to_string()).because(part.reason()) }
    }

    /// A quota of connections is used up.
    pub(super) fn busy(resource: &'static str, part: Exhausted) -> Self {
        let refused = Self::new(Code::Busy, part.sentence(resource)).because(part.reason());
        Self { over: Some((resource, part)), ..refused.retry(RETRY_MS) }
    }

    /// Writes down that a quota is used up, if that is why.
    pub(super) fn note_quota(&self, gate: Option<&Gate>, principal: &VerifiedPrincipal) {
        if let (Some((resource, part)), Some(gate)) = (self.over, gate) {
            gate.refused_by_quota(Surface::Duplex, resource, principal, part);
        }
    }

    pub(super) const fn because(mut self, reason: &'static str) -> Self {
        self.reason = Some(reason);
        self
    }

    pub(super) const fn retry(mut self, after_ms: u64) -> Self {
        self.retry_after_ms = Some(after_ms);
        self
    }

    pub(super) fn frame(&self) -> ServerFrame {
        ServerFrame::Error {
            code: self.code,
            message: self.message.clone(),
            retry_after_ms: self.retry_after_ms,
        }
    }
}

impl From<NotTaken> for Refused {
    fn from(why: NotTaken) -> Self {
        match why {
            NotTaken::Busy => Self::new(Code::Busy, "too much is waiting").retry(RETRY_MS),
            NotTaken::ReadOnly(_) => {
                let message = "writes are not taken at the moment";
                Self::new(Code::ReadOnly, message).retry(RETRY_MS)
            }
            NotTaken::Stopping => Self::new(Code::Stopping, "the server is stopping").retry(100),
        }
    }
}

/// A duplex that a connection drives.
pub(super) struct Opened {
    pub(super) name: DuplexName,
    pub(super) caller: Caller,
    pub(super) owner: String,
    pub(super) credential: Credential,
    pub(super) tokens: Tokens,
    pub(super) input: View,
    pub(super) output: View,
    pub(super) stream_key: Option<StreamKey>,
    pub(super) output_keys: Arc<RecordKeys>,
    pub(super) generation: u64,
    pub(super) next_seqno: u32,
    /// Whether there will be no more chunks.
    pub(super) is_closed: bool,
    /// The last event that the client has.
    pub(super) after: u64,
    /// Whether events are sent from the very first record on.
    pub(super) from_start: bool,
    pub(super) is_flow_controlled: bool,
    pub(super) proofs: bool,
    /// Why nothing is written.
    pub(super) read_only: Option<String>,
}

/// Whether the credential of a duplex is good now; if not, why, which is written down.
pub(super) async fn check_credential(
    credential: &Credential,
    shared: &Shared,
    handler: &str,
) -> Result<(), Refused> {
    let gate = shared.settings.gate.as_ref();
    let ended = match credential.ended(gate, shared.streams.now()).await {
        None => credential.gone().await,
        ended => ended,
    };
    let Some(reason) = ended else { return Ok(()) };
    if let Some(gate) = gate {
        gate.ended(&back(credential.principal(), handler, ""), reason);
    }
    let message = "the credential has ended: come again with another one";
    Err(Refused::new(Code::Unauthorized, message).because(reason))
}

/// A resume token that came back.
const fn back<'a>(principal: &'a VerifiedPrincipal, name: &'a str, text: &'a str) -> Back<'a> {
    let (surface, operation) = (Surface::Duplex, Operation::Duplex);
    Back { surface, operation, name, continuation: "resume", principal, text }
}

/// Finds or creates the duplex, and takes it over. Why a resume token was refused is written down.
pub(super) async fn open(shared: &Shared, asked: Asked) -> Result<Opened, Refused> {
    let Some(gate) = &shared.settings.gate else { return opened(shared, asked).await };
    let (principal, handler) = (asked.caller.principal().clone(), asked.handler.clone());
    let token = asked.hello.as_ref().and_then(|hello| hello.resume_token.clone());
    let ended = opened(shared, asked).await;
    if let Err(refused) = &ended {
        refused.note_quota(Some(gate), &principal);
    }
    if let (Err(refused), Some(token)) = (&ended, &token)
        && let Some(reason) = refused.reason.filter(|_| refused.over.is_none())
    {
        gate.refused(&back(&principal, &handler, token), reason);
    }
    ended
}

async fn opened(shared: &Shared, asked: Asked) -> Result<Opened, Refused> {
    let Asked { caller, again, handler, hello, is_flow_controlled } = asked;
    let hello = hello.ok_or_else(|| Refused::new(Code::Malformed, "hello is missing"))?;
    let name = DuplexName::new(&handler, &hello.idempotency_key);
    let name = name.ok_or_else(|| Refused::invalid("not an idempotency key"))?;
    let key = hello.encryption_key.as_ref().map(|key| StreamKey::parse(&key.0)).transpose();
    let stream_key = key.map_err(|_| Refused::invalid("not a stream key"))?;
    let event = match hello.event_id.as_deref().map(str::parse::<Offset>).transpose() {
        Ok(event) => event.map(Offset::number),
        Err(_) => return Err(Refused::invalid("not an event id")),
    };
    let principal = caller.principal().clone();
    let owner = principal.binding();
    let (Some(input_name), Some(output_name)) = (name.input(&owner), name.output(&owner)) else {
        return Err(Refused::invalid("not an idempotency key"));
    };
    let now = shared.streams.now();
    let credential = Credential::new(&caller, now, again);
    let mut tokens = Tokens::new(&name, principal);
    let presented = match &hello.resume_token {
        Some(token) => {
            let presented = tokens.open(&shared.sealer, token, now)?;
            if let Some(gate) = &shared.settings.gate {
                presented.check(gate, credential.principal()).await?;
            }
            Some(presented)
        }
        None => None,
    };
    let known = view(shared, input_name.id());
    if known.is_none() && presented.is_some() {
        return Err(Refused::new(Code::Expired, EXPIRED_TOKEN).because(OUTLIVED));
    }
    let is_known = known.is_some();
    if !is_known && event.is_some_and(|event| event > 0) {
        return Err(Refused::invalid("not an event of this duplex"));
    }
    let input = created(shared, input_name, stream_key.as_ref()).await?;
    let not_the_key = |_| Refused::invalid("not the key of this duplex");
    // Before the other one is created: it gets the same key, or nobody could use it.
    input.meta.unlock(stream_key.as_ref()).map_err(not_the_key)?;
    let output = created(shared, output_name, stream_key.as_ref()).await?;
    let output_keys = Arc::new(output.meta.unlock(stream_key.as_ref()).map_err(not_the_key)?);
    let place = presented.as_ref().map(|presented| presented.place);
    if place.is_some_and(|place| place.input != input.meta.id()) {
        return Err(Refused::invalid("the token of an earlier duplex").because(OUTLIVED));
    }
    if is_known {
        check_age(shared, &input, &output, place.is_none(), now)?;
    }
    let kept = place.map_or(0, |place| place.kept);
    let after = event.unwrap_or(kept);
    if after < kept || after > output.last {
        return Err(Refused::invalid("not an event of this duplex"));
    }
    let generation = place.map_or(0, |place| place.generation);
    let taken = take_over(shared, input.meta.id(), generation).await?;
    if let Some(presented) = presented {
        tokens.follow(presented);
    }
    for view in [&input, &output] {
        view.meta.touch(now);
    }
    Ok(Opened {
        name,
        caller,
        owner,
        credential,
        tokens,
        input,
        output,
        stream_key,
        output_keys,
        generation: taken.generation,
        next_seqno: u32::try_from(taken.next_seq).unwrap_or(u32::MAX),
        is_closed: taken.is_closed,
        after,
        from_start: event.is_none() && kept == 0,
        is_flow_controlled,
        proofs: hello.proofs,
        read_only: taken.read_only,
    })
}

impl Opened {
    /// What the next token says.
    pub(super) fn place(&self, kept: u64) -> Place {
        Place { input: self.input.meta.id(), generation: self.generation, kept }
    }

    /// How long tokens are good at most: the duplex must not be too old.
    pub(super) fn resume_life_left(&self, now: u64) -> u64 {
        (self.input.meta.created() + RESUME_LIFE_MS).saturating_sub(now)
    }

    /// What is told of the mode.
    pub(super) fn mode(&self, shared: &Shared) -> (duplex::Mode, Option<String>) {
        match (&*shared.streams.mode().borrow(), &self.read_only) {
            (_, Some(_)) | (Mode::ReadOnly(_), _) => {
                // Which disk, and what is wrong with it, is for operators.
                let reason = "the store takes no writes at the moment".to_owned();
                (duplex::Mode::ReadOnly, Some(reason))
            }
            (Mode::Memory, _) => {
                let reason = "the server keeps streams in memory only".to_owned();
                (duplex::Mode::Memory, Some(reason))
            }
            (Mode::Durable, _) => (duplex::Mode::Durable, None),
        }
    }
}

fn view(shared: &Shared, name: NameId) -> Option<View> {
    shared
        .streams
        .view(name)
        .filter(|view| !view.deleted && !view.meta.is_over(shared.streams.now()))
}

/// A stream of the duplex, which is created if it is not there.
async fn created(
    shared: &Shared,
    name: StreamName,
    key: Option<&StreamKey>,
) -> Result<View, Refused> {
    let id = name.id();
    if let Some(view) = view(shared, id) {
        return Ok(view);
    }
    let create = Create {
        name,
        content_type: None,
        life: Life::Sliding { ttl_s: LIFE_S },
        closed: false,
        payload: None,
        fork: None,
        key: key.cloned(),
        incarnation: rand::random(),
    };
    match shared.streams.command(Command::Create(Box::new(create)), 0).await? {
        Reply::Created { .. } => {}
        Reply::Refused(Refusal::Key) => return Err(Refused::invalid("not the key of this duplex")),
        Reply::Refused(Refusal::Quota(quota)) => return Err(Refused::over_quota(quota)),
        // It has ended meanwhile.
        _ => return Err(Refused::invalid("there was another duplex")),
    }
    view(shared, id).ok_or_else(|| Refused::invalid("there was another duplex"))
}

/// Whether it is not too late to go on.
fn check_age(
    shared: &Shared,
    input: &View,
    output: &View,
    is_without_token: bool,
    now: u64,
) -> Result<(), Refused> {
    let touched = input.meta.touched().max(output.meta.touched());
    let idle = now.saturating_sub(touched);
    let window = u64::try_from(shared.settings.resume_ttl.as_millis()).unwrap_or(u64::MAX);
    let too_old = now.saturating_sub(input.meta.created()) > RESUME_LIFE_MS;
    // A token says itself how long it is good.
    match too_old || (is_without_token && idle > window) {
        true => Err(Refused::new(Code::Expired, "the duplex is too old").because(OUTLIVED)),
        false => Ok(()),
    }
}

struct Taken {
    generation: u64,
    next_seq: u64,
    is_closed: bool,
    read_only: Option<String>,
}

/// Becomes the next generation, unless there is nothing more to write, or nothing can be.
async fn take_over(shared: &Shared, id: StreamId, presented: u64) -> Result<Taken, Refused> {
    let acquire = Acquire {
        stream: id.name(),
        expected: Some(id),
        producer: CLIENT.to_owned(),
        heard_of: Some(presented),
    };
    let read_only = match shared.streams.command(Command::Acquire(acquire), 0).await {
        Ok(Reply::Acquired { epoch, next_seq, .. }) => {
            return Ok(Taken { generation: epoch, next_seq, is_closed: false, read_only: None });
        }
        Ok(Reply::Refused(Refusal::Superseded)) => {
            let reason = Reason::Replayed.as_str();
            return Err(Refused::invalid("the token was used before").because(reason));
        }
        Ok(Reply::Refused(Refusal::Quota(quota))) => return Err(Refused::over_quota(quota)),
        Ok(Reply::Refused(Refusal::Closed { .. })) => None,
        Ok(_) => return Err(Refused::invalid("the duplex has ended")),
        Err(NotTaken::ReadOnly(reason)) => Some(reason),
        Err(why) => return Err(why.into()),
    };
    // It may have been closed since it was looked at, after more chunks.
    let input = view(shared, id.name());
    let input = input
        .filter(|now| now.meta.id() == id)
        .ok_or_else(|| Refused::new(Code::Expired, "the duplex is gone"))?;
    let client = input.client;
    let (epoch, seen) = client.map_or((0, 0), |client| (client.epoch, client.seen));
    if presented < seen || presented > epoch {
        return Err(Refused::invalid("invalid resume token"));
    }
    let next_seq = client.map_or(0, |client| client.next_seq);
    // Nobody else can become a later generation than the last one now.
    let generation = if read_only.is_some() { presented } else { epoch };
    Ok(Taken { generation, next_seq, is_closed: input.closed, read_only })
}
