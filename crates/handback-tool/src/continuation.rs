//! What goes out sealed and comes back: places in walks and the state of exchanges.
//!
//! ```text
//! cursor = flags || page (LEB128) || rest          flags: 1 spilled, 2 carries the arguments
//! rest   = position | u32be(len) || arguments || position
//! state  = flags || round (16 bytes) || rest       flags: 1 spilled
//! rest   = JSON {"q": questions, "a": answers so far, "s": the tool's state}
//! ```
//!
//! A rest that does not fit is kept at the server, under an id, and the token carries the
//! id. Where it is kept no longer, the token has expired.

use handback_identity::VerifiedPrincipal;
use handback_store::Millis;
use handback_store::held::{HeldError, LookUp, NewValue, SpillId};
use handback_store::revocations::{Revocations, Subject};
use handback_token::{
    ArgsFingerprint, Bound, Context, Cursor, KeyedPurpose, Opened, Reason, SealError, Sealer,
    SlotNumber, State, UnixTime, args_fingerprint_without,
};
use rand::CryptoRng;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::input::Inputs;
use crate::outcome::Position;
use crate::pipeline::CallHeld;
use crate::registry::Registered;
use crate::request::{Arguments, Refusal, Request};

const SPILLED: u8 = 1;
const CARRIES_ARGUMENTS: u8 = 2;

/// Bytes of the id of a round.
const ROUND_BYTES: usize = 16;

/// The id of one round of an exchange. What is redeemed once goes by it: it is recorded with the
/// outcome that asked, so that asking again, in a replay, does not make a second round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RoundId(pub(crate) [u8; ROUND_BYTES]);

impl RoundId {
    pub(crate) fn generate(rng: &mut dyn CryptoRng) -> Self {
        let mut id = [0; ROUND_BYTES];
        rng.fill_bytes(&mut id);
        Self(id)
    }
}

/// What a caller brought back, opened.
pub(crate) enum Brought {
    Nothing,
    Page {
        position: Position,
        page: u32,
        opened: Opened<Cursor>,
    },
    Round {
        id: RoundId,
        memory: Memory,
        opened: Opened<State>,
    },
    /// State that opened and is too old, for a tool that wants to know.
    TooLate,
}

/// What an exchange remembers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    #[serde(rename = "q")]
    pub(crate) inputs: Inputs,
    #[serde(rename = "a")]
    pub(crate) answers: Map<String, Value>,
    #[serde(rename = "s")]
    pub(crate) state: Value,
}

/// What the tokens of a call are bound to.
pub(crate) struct Binding<'a> {
    sealer: &'a Sealer,
    held: &'a CallHeld,
    revocations: &'a Revocations,
    principal: &'a VerifiedPrincipal,
    request: &'a Request,
    now: UnixTime,
    now_ms: Millis,
}

impl<'a> Binding<'a> {
    pub(crate) fn new(
        sealer: &'a Sealer,
        held: &'a CallHeld,
        revocations: &'a Revocations,
        request: &'a Request,
        now_ms: Millis,
    ) -> Self {
        let now = UnixTime::from_secs(now_ms / 1000);
        let principal = request.caller.principal();
        Self { sealer, held, revocations, principal, request, now, now_ms }
    }

    /// Opens a cursor. Gives the arguments too, if they travel in it.
    pub(crate) fn open_cursor(
        &self,
        entry: &Registered,
        text: &str,
    ) -> Result<(Brought, Option<Value>), Refusal> {
        if !entry.definition().is_paginated {
            return Err(Reason::NotOpened.into());
        }
        let arguments = match &self.request.arguments {
            Arguments::Given(value) | Arguments::Carried(value) => {
                Some(page_fingerprint(entry, value))
            }
            Arguments::InCursor => None,
        };
        let bound = self.bound::<Cursor>(arguments.as_ref())?;
        let opened = bound.open(text, self.now).map_err(|refused| refused.reason())?;
        let born = self.sealer.cursor_born_after(opened.expires_at());
        self.check_revocations(opened.slot(), born)?;
        let (flags, body) = opened.payload().split_first().ok_or(Reason::Malformed)?;
        let (page, rest) = read_leb(body).ok_or(Reason::Malformed)?;
        let rest = self.unspilled(*flags, rest)?;
        let carries = flags & CARRIES_ARGUMENTS != 0;
        if carries != (self.request.arguments == Arguments::InCursor) {
            return Err(Reason::Malformed.into());
        }
        let (carried, position) = if carries {
            let (arguments, position) = read_lp(&rest).ok_or(Reason::Malformed)?;
            let value = serde_json::from_slice(arguments).map_err(|_| Reason::Malformed)?;
            (Some(value), position.to_vec())
        } else {
            (None, rest)
        };
        let position = Position::from_bytes(position);
        Ok((Brought::Page { position, page, opened }, carried))
    }

    /// Opens the state of an exchange.
    pub(crate) fn open_state(
        &self,
        arguments: &Value,
        text: &str,
    ) -> Result<(RoundId, Memory, Opened<State>), Refusal> {
        let arguments = args_fingerprint_without(arguments, &[]);
        let (round, rest, opened) = self.open_round(Some(&arguments), text)?;
        let memory = serde_json::from_slice(&rest).map_err(|_| Reason::Malformed)?;
        Ok((round, memory, opened))
    }

    /// Opens a round of an exchange: its id, and what is remembered, as bytes.
    pub(crate) fn open_round(
        &self,
        arguments: Option<&ArgsFingerprint>,
        text: &str,
    ) -> Result<(RoundId, Vec<u8>, Opened<State>), Refusal> {
        let bound = self.bound::<State>(arguments)?;
        let opened = bound.open(text, self.now).map_err(|refused| refused.reason())?;
        if self.revocations.is_stale(self.now_ms) {
            return Err(Refusal::Unavailable);
        }
        self.check_revocations(opened.slot(), opened.head().born_at())?;
        let (flags, body) = opened.payload().split_first().ok_or(Reason::Malformed)?;
        let (round, rest) = body.split_first_chunk().ok_or(Reason::Malformed)?;
        let rest = self.unspilled(*flags, rest)?;
        Ok((RoundId(*round), rest, opened))
    }

    /// Seals the place of the next page.
    pub(crate) fn seal_cursor(
        &self,
        rng: &mut dyn CryptoRng,
        entry: &Registered,
        arguments: &Value,
        brought: &Brought,
        next: &Position,
    ) -> Result<String, Refusal> {
        let carries = !matches!(self.request.arguments, Arguments::Given(_));
        let fingerprint = page_fingerprint(entry, arguments);
        let bound = self.bound::<Cursor>((!carries).then_some(&fingerprint))?;
        let mut rest = Vec::new();
        if carries {
            let text = serde_json::to_vec(arguments).map_err(|_| Refusal::Broken)?;
            let len = u32::try_from(text.len()).map_err(|_| Refusal::TooLarge)?;
            rest.extend_from_slice(&len.to_be_bytes());
            rest.extend_from_slice(&text);
        }
        rest.extend_from_slice(next.as_bytes());
        let page = match brought {
            Brought::Page { page, .. } => page.saturating_add(1),
            _ => 1,
        };
        let mut head = vec![if carries { CARRIES_ARGUMENTS } else { 0 }];
        write_leb(&mut head, page);
        let payload = self.spilled(head, &rest, bound.payload_capacity(), CURSOR_SPILL_S)?;
        let token = match brought {
            Brought::Page { opened, .. } => bound.seal_after(opened, rng, self.now, &payload),
            _ => bound.seal(rng, self.now, &payload),
        };
        Ok(token.map_err(|error| unsealed(&error))?.into_string())
    }

    /// Seals what an exchange must remember.
    pub(crate) fn seal_state(
        &self,
        rng: &mut dyn CryptoRng,
        arguments: &Value,
        brought: &Brought,
        round: RoundId,
        memory: &Memory,
    ) -> Result<String, Refusal> {
        let arguments = args_fingerprint_without(arguments, &[]);
        let rest = serde_json::to_vec(memory).map_err(|_| Refusal::Broken)?;
        let before = match brought {
            Brought::Round { opened, .. } => Some(opened),
            _ => None,
        };
        self.seal_round(rng, Some(&arguments), before, round, &rest)
    }

    /// Seals a round of an exchange, which may follow another one.
    pub(crate) fn seal_round(
        &self,
        rng: &mut dyn CryptoRng,
        arguments: Option<&ArgsFingerprint>,
        before: Option<&Opened<State>>,
        round: RoundId,
        rest: &[u8],
    ) -> Result<String, Refusal> {
        let bound = self.bound::<State>(arguments)?;
        let mut head = vec![0];
        head.extend_from_slice(&round.0);
        let payload = self.spilled(head, rest, bound.payload_capacity(), STATE_SPILL_S)?;
        let token = match before {
            Some(opened) => bound.seal_after(opened, rng, self.now, &payload),
            None => bound.seal(rng, self.now, &payload),
        };
        Ok(token.map_err(|error| unsealed(&error))?.into_string())
    }

    fn check_revocations(&self, slot: SlotNumber, born: UnixTime) -> Result<(), Refusal> {
        let born_ms = born.as_secs().saturating_mul(1000);
        let subject = Subject::of(self.principal).slot(slot).born(born_ms);
        if self.revocations.is_revoked(&subject) {
            return Err(Reason::Revoked.into());
        }
        Ok(())
    }

    fn bound<P: KeyedPurpose>(
        &self,
        arguments: Option<&ArgsFingerprint>,
    ) -> Result<Bound<'a, P>, Refusal> {
        let mut context =
            Context::new(self.principal.caller(), self.request.operation).name(&self.request.name);
        if let Some(arguments) = arguments {
            context = context.arguments(arguments);
        }
        if let Some(upstream) = &self.request.upstream {
            context = context.upstream(upstream);
        }
        if let Some(client) = &self.request.client {
            context = context.client(client);
        }
        // Nothing that is too long to be bound was ever bound.
        self.sealer.bind(&context).map_err(|_| Reason::NotOpened.into())
    }

    /// A payload that fits: what does not is kept, and its id stands in its place.
    fn spilled(
        &self,
        mut head: Vec<u8>,
        rest: &[u8],
        capacity: usize,
        life_s: u64,
    ) -> Result<Vec<u8>, Refusal> {
        if rest.len() > SPILLED_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        if head.len() + rest.len() <= capacity {
            head.extend_from_slice(rest);
            return Ok(head);
        }
        let new = NewValue::new(SPILL_KIND).fixed_life(life_s * 1000);
        let id = self.held.spill(self.principal, new, rest, &mut rand::rng(), self.now_ms);
        let id = id.map_err(|error| match error {
            HeldError::Quota { .. } => Refusal::TooLarge,
            _ => Refusal::Unavailable,
        })?;
        if let Some(flags) = head.first_mut() {
            *flags |= SPILLED;
        }
        head.extend_from_slice(&id.to_bytes());
        Ok(head)
    }

    fn unspilled(&self, flags: u8, rest: &[u8]) -> Result<Vec<u8>, Refusal> {
        if flags & !(SPILLED | CARRIES_ARGUMENTS) != 0 {
            return Err(Reason::Malformed.into());
        }
        if flags & SPILLED == 0 {
            return Ok(rest.to_vec());
        }
        let id = SpillId::from_bytes(rest.try_into().map_err(|_| Reason::Malformed)?);
        let found = self.held.look_up_spill(id, self.principal, self.now_ms);
        let LookUp::Found(found) = found.map_err(|_| Refusal::Unavailable)? else {
            // The token opened, so it was there once.
            return Err(Reason::Expired.into());
        };
        let read = self.held.read(&found, self.now_ms);
        let whole = read.and_then(|read| read.read_whole(SPILLED_BYTES_MAX));
        whole.map_err(|_| Refusal::Unavailable)?.ok_or_else(|| Reason::Malformed.into())
    }
}

/// Bytes of what is kept for a token at most.
const SPILLED_BYTES_MAX: usize = 16 << 20;

/// What such bytes are called in the store.
const SPILL_KIND: &str = "continuation";

/// How long what a cursor refers to is kept: as long as any cursor can live.
const CURSOR_SPILL_S: u64 = <Cursor as handback_token::Purpose>::MAX_LIFE_S as u64;

/// The same for state.
const STATE_SPILL_S: u64 = <State as handback_token::Purpose>::MAX_LIFE_S as u64;

/// The fingerprint of the arguments of a walk: without those that may differ between its pages.
pub(crate) fn page_fingerprint(entry: &Registered, arguments: &Value) -> ArgsFingerprint {
    let free: Vec<_> = entry.definition().page_arguments.iter().map(String::as_str).collect();
    args_fingerprint_without(arguments, &free)
}

fn unsealed(error: &SealError) -> Refusal {
    match error {
        // An exchange that is as old as it may get.
        SealError::LifeOver => Reason::Expired.into(),
        _ => Refusal::Broken,
    }
}

fn write_leb(out: &mut Vec<u8>, mut value: u32) {
    loop {
        let [.., low] = value.to_be_bytes();
        value >>= 7;
        if value == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

fn read_leb(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value: u64 = 0;
    for (place, &byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((u32::try_from(value).ok()?, bytes.get(place + 1..)?));
        }
    }
    None
}

fn read_lp(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes(*len) as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn page_numbers_come_back(page: u32, rest: Vec<u8>) {
            let mut bytes = Vec::new();
            write_leb(&mut bytes, page);
            bytes.extend_from_slice(&rest);
            prop_assert_eq!(read_leb(&bytes), Some((page, rest.as_slice())));
        }

        #[test]
        fn no_bytes_break_a_reader(bytes: Vec<u8>) {
            let _ = (read_leb(&bytes), read_lp(&bytes));
        }
    }
}
