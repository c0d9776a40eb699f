//! `rs1` and `rs2` request state of rmcp 3: opened, never made.
//!
//! ```text
//! body = expiry in ms (i64, big-endian; 0 is none) || payload
//! rs1  = "rs1." b64(body) "." b64(tag)
//!        tag = HMAC-SHA256(key, "rmcp/mrtr/request-state/v1" || u64be(len ad) || ad || body)
//! rs2  = "rs2." b64(kid) "." b64(body) "." b64(tag)
//!        tag = HMAC-SHA256(key, "rmcp/mrtr/request-state/v2" || u64be(len kid) || kid
//!                               || u64be(len ad) || ad || body)
//! ```
//!
//! rmcp binds a token only to the associated data that a server builds itself. Here, the server says
//! how it built them, and a call that has a caller, a name or arguments is refused without any.

use std::collections::BTreeMap;

use super::{Acceptance, ForeignKey};
use crate::context::Context;
use crate::encoding;
use crate::hash::MacKey;
use crate::purpose::{Purpose as _, State};
use crate::refusal::{Reason, Refused};
use crate::time::{CLOCK_SKEW_S, UnixTime};

const MAX_KEY_ID_BYTES: usize = 255;
const EXPIRY_BYTES: usize = 8;
const TAG_BYTES: usize = 32;

/// Opens rmcp request state.
#[derive(Debug)]
pub struct RmcpState {
    keys: BTreeMap<String, ForeignKey>,
    rs1: Option<ForeignKey>,
    allow_unexpiring: bool,
    acceptance: Acceptance,
}

impl RmcpState {
    /// Opens nothing until it is given keys.
    #[must_use]
    pub const fn new(acceptance: Acceptance) -> Self {
        Self { keys: BTreeMap::new(), rs1: None, allow_unexpiring: false, acceptance }
    }

    /// The key of `rs1` tokens. There is one: keys are never tried in turn.
    #[must_use]
    pub fn rs1_key(mut self, key: ForeignKey) -> Self {
        self.rs1 = Some(key);
        self
    }

    /// A key of `rs2` tokens, by its id.
    #[must_use]
    pub fn rs2_key(mut self, key_id: impl Into<String>, key: ForeignKey) -> Self {
        self.keys.insert(key_id.into(), key);
        self
    }

    /// Takes tokens without an expiry, which is what rmcp makes unless told otherwise. They are good
    /// until [`Acceptance::accept_until`].
    #[must_use]
    pub const fn dangerous_allow_unexpiring(mut self) -> Self {
        self.allow_unexpiring = true;
        self
    }

    /// Opens a token. `associated_data` is what the server bound it to when it was made.
    ///
    /// # Errors
    ///
    /// [`Refused`], as for native request state; also where the call has a caller, a name or
    /// arguments, and there are no associated data that could have bound them.
    pub fn open(
        &self,
        text: &str,
        associated_data: &[u8],
        context: &Context<'_>,
        now: UnixTime,
    ) -> Result<Vec<u8>, Refused> {
        if text.len() > State::MAX_CHARS {
            return Err(Reason::TooLong.into());
        }
        let parts: Vec<&str> = text.splitn(5, '.').collect();
        let (label, key_id, body, tag) = match parts.as_slice() {
            ["rs1", body, tag] => ("rmcp/mrtr/request-state/v1", None, *body, *tag),
            ["rs2", key_id, body, tag] => {
                ("rmcp/mrtr/request-state/v2", Some(*key_id), *body, *tag)
            }
            _ => return Err(Reason::Malformed.into()),
        };
        let key_id = key_id.map(decode_key_id).transpose()?;
        let body = encoding::decode(body).ok_or(Reason::Malformed)?;
        let tag: [u8; TAG_BYTES] = encoding::decode_array(tag).ok_or(Reason::Malformed)?;
        let (expiry, payload) =
            body.split_first_chunk::<EXPIRY_BYTES>().ok_or(Reason::Malformed)?;
        let key = match &key_id {
            None => self.rs1.as_ref(),
            Some(key_id) => self.keys.get(key_id),
        };
        let key = MacKey::new(key.ok_or(Reason::UnknownSlot)?.as_bytes());
        let length = |value: &[u8]| (value.len() as u64).to_be_bytes();
        let data_length = length(associated_data);
        let data = [&data_length[..], associated_data, &body];
        match &key_id {
            None => super::verify(&key, &[&[label.as_bytes()], &data[..]].concat(), &tag)?,
            Some(key_id) => {
                let id = [label.as_bytes(), &length(key_id.as_bytes()), key_id.as_bytes()];
                super::verify(&key, &[&id[..], &data[..]].concat(), &tag)?;
            }
        }
        let subject = self.acceptance.subject(context)?;
        let is_bound = subject.is_some()
            || context.name_field().is_some()
            || context.arguments_field().is_some();
        if is_bound && associated_data.is_empty() {
            return Err(Reason::NotOpened.into());
        }
        self.acceptance.check_date(now)?;
        self.check_expiry(i64::from_be_bytes(*expiry), now)?;
        Ok(payload.to_vec())
    }

    fn check_expiry(&self, expiry_ms: i64, now: UnixTime) -> Result<(), Reason> {
        if expiry_ms == 0 {
            return if self.allow_unexpiring { Ok(()) } else { Err(Reason::TooFar) };
        }
        let expiry_ms = u64::try_from(expiry_ms).map_err(|_| Reason::Expired)?;
        let now_ms = now.as_secs().saturating_mul(1000);
        let latest_ms = now.plus(u64::from(State::MAX_LIFE_S) + CLOCK_SKEW_S).as_secs();
        if now_ms > expiry_ms {
            return Err(Reason::Expired);
        }
        if expiry_ms > latest_ms.saturating_mul(1000) {
            return Err(Reason::TooFar);
        }
        Ok(())
    }
}

fn decode_key_id(text: &str) -> Result<String, Reason> {
    if text.len() > encoding::encoded_len(MAX_KEY_ID_BYTES) {
        return Err(Reason::Malformed);
    }
    let bytes = encoding::decode(text).ok_or(Reason::Malformed)?;
    String::from_utf8(bytes)
        .ok()
        .filter(|key_id| !key_id.is_empty() && key_id.len() <= MAX_KEY_ID_BYTES)
        .ok_or(Reason::Malformed)
}
