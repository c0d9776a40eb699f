//! Cursors of ATD (`atd-runtime` 1.2), byte for byte.
//!
//! ```text
//! base64url( CBOR(payload) || HMAC-SHA256(key, CBOR(payload)) )
//! payload = { tool_id, caller_id?, args_fingerprint, page_index, issued_at_unix, server_session,
//!             opaque_state }
//! ```
//!
//! The bytes are ATD's, the checks are not. ATD decodes a body before it is verified to choose its
//! error, leaves the comparison of caller and arguments to a dispatcher that does not make it, accepts
//! issue times in the future, and refuses cursors of another instance with the same key. Here, nothing
//! is decoded before the tag verifies, tool, caller and arguments are compared, the future is refused,
//! and cursors of every session are taken unless one is demanded.

use minicbor::data::Type;
use minicbor::{Decoder, Encoder};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Acceptance;
use crate::context::{Context, Operation};
use crate::cursor::{MAX_CURSOR_BYTES, MAX_OPAQUE_STATE_BYTES};
use crate::encoding;
use crate::fingerprint::ArgsFingerprint;
use crate::hash::MacKey;
use crate::key::MasterKey;
use crate::purpose::{Cursor, Purpose as _};
use crate::refusal::{Reason, Refused};
use crate::ring::source::AtdSigningKey;
use crate::sealer::SealError;
use crate::time::{CLOCK_SKEW_S, UnixTime};

const TAG_BYTES: usize = 32;

/// ATD's own TTL.
pub const DEFAULT_TTL_S: u32 = 300;

/// Issues and opens ATD cursors.
#[derive(Debug)]
pub struct AtdCursors {
    key: MasterKey,
    session: [u8; 8],
    demand_session: bool,
    ttl_s: u32,
    acceptance: Acceptance,
}

/// What an ATD cursor tells the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AtdPayload {
    /// 1 for the first cursor of a walk.
    pub page_index: u32,
    /// When it was issued.
    pub issued_at: UnixTime,
    /// Where the tool goes on.
    pub opaque_state: Vec<u8>,
}

impl AtdCursors {
    /// Takes the key over: it feeds no ring any more. `session` is what issued cursors carry; real
    /// ATD servers refuse any other than their own.
    #[must_use]
    pub fn new(key: AtdSigningKey, session: [u8; 8], acceptance: Acceptance) -> Self {
        Self {
            key: key.into_master(),
            session,
            demand_session: false,
            ttl_s: DEFAULT_TTL_S,
            acceptance,
        }
    }

    /// How long cursors live, in seconds: 1 to 86,400.
    ///
    /// # Errors
    ///
    /// Gives the number back if it is not in that range.
    pub fn ttl_s(mut self, seconds: u32) -> Result<Self, u32> {
        if !(1..=Cursor::MAX_LIFE_S).contains(&seconds) {
            return Err(seconds);
        }
        self.ttl_s = seconds;
        Ok(self)
    }

    /// Answers `expired` to cursors of any other session, as ATD does after a restart.
    #[must_use]
    pub const fn demand_session(mut self) -> Self {
        self.demand_session = true;
        self
    }

    /// Issues a cursor for the tool, caller and arguments of `context`.
    ///
    /// # Errors
    ///
    /// [`AtdIssueError`] if the context cannot be carried, or the cursor would not fit 512
    /// characters: ATD's frame leaves room for about 130 bytes of state.
    pub fn issue(
        &self,
        context: &Context<'_>,
        page_index: u32,
        opaque_state: &[u8],
        now: UnixTime,
    ) -> Result<String, AtdIssueError> {
        if opaque_state.len() > MAX_OPAQUE_STATE_BYTES {
            return Err(SealError::TooLarge {
                bytes: opaque_state.len(),
                capacity: MAX_OPAQUE_STATE_BYTES,
            }
            .into());
        }
        self.acceptance.check_date(now).map_err(|_| AtdIssueError::Over)?;
        let scope = Scope::of(context, &self.acceptance).map_err(|_| AtdIssueError::Context)?;
        let body = Body {
            tool_id: scope.tool_id,
            caller_id: scope.caller_id,
            args_fingerprint: *scope.args_fingerprint,
            page_index,
            issued_at_unix: now.as_secs(),
            server_session: self.session,
            opaque_state,
        };
        let mut bytes = body.encode();
        let tag = super::mac(&self.mac_key(), &[&bytes]);
        bytes.extend_from_slice(&tag);
        if encoding::encoded_len(bytes.len()) > MAX_CURSOR_BYTES {
            let over = bytes.len() - MAX_CURSOR_BYTES * 3 / 4;
            let capacity = opaque_state.len().saturating_sub(over);
            return Err(SealError::TooLarge { bytes: opaque_state.len(), capacity }.into());
        }
        Ok(encoding::encode(&bytes))
    }

    /// Opens a cursor for the tool, caller and arguments of `context`.
    ///
    /// # Errors
    ///
    /// [`Refused`], as for a native cursor.
    pub fn open(
        &self,
        cursor: &str,
        context: &Context<'_>,
        now: UnixTime,
    ) -> Result<AtdPayload, Refused> {
        if cursor.len() > MAX_CURSOR_BYTES {
            return Err(Reason::TooLong.into());
        }
        let bytes = encoding::decode(cursor).ok_or(Reason::Malformed)?;
        let (body, tag) = bytes.split_last_chunk::<TAG_BYTES>().ok_or(Reason::Malformed)?;
        super::verify(&self.mac_key(), &[body], tag)?;
        let body = Body::decode(body).ok_or(Reason::Malformed)?;
        let scope = Scope::of(context, &self.acceptance)?;
        if body.tool_id != scope.tool_id
            || body.caller_id != scope.caller_id
            || body.args_fingerprint != *scope.args_fingerprint
        {
            return Err(Reason::NotOpened.into());
        }
        self.acceptance.check_date(now)?;
        if self.demand_session && body.server_session != self.session {
            return Err(Reason::RetiredKey.into());
        }
        let issued_at = UnixTime::from_secs(body.issued_at_unix);
        if now > issued_at.plus(u64::from(self.ttl_s)) {
            return Err(Reason::Expired.into());
        }
        if issued_at > now.plus(CLOCK_SKEW_S) {
            return Err(Reason::TooFar.into());
        }
        Ok(AtdPayload {
            page_index: body.page_index,
            issued_at,
            opaque_state: body.opaque_state.to_vec(),
        })
    }

    fn mac_key(&self) -> MacKey {
        MacKey::new(self.key.compat_bytes())
    }
}

/// ATD's fingerprint of arguments: SHA-256 over what `serde_json` writes. It is not canonical: `1` and
/// `1.0` differ.
#[must_use]
pub fn args_fingerprint(arguments: &Value) -> ArgsFingerprint {
    ArgsFingerprint::from_bytes(Sha256::digest(arguments.to_string()).into())
}

/// What of a context an ATD cursor carries.
struct Scope<'a> {
    tool_id: &'a str,
    caller_id: Option<&'a str>,
    args_fingerprint: &'a [u8; 32],
}

impl<'a> Scope<'a> {
    /// ATD has cursors for tool calls only, and says so nowhere in them.
    fn of(context: &Context<'a>, acceptance: &Acceptance) -> Result<Self, Reason> {
        if context.operation_field() != Some(Operation::Call) {
            return Err(Reason::NotOpened);
        }
        Ok(Self {
            caller_id: acceptance.subject(context)?,
            tool_id: context.name_field().ok_or(Reason::NotOpened)?,
            args_fingerprint: context.arguments_field().ok_or(Reason::NotOpened)?.as_bytes(),
        })
    }
}

/// The CBOR map, as `ciborium` writes ATD's struct: text keys, byte arrays as arrays of integers.
struct Body<'a> {
    tool_id: &'a str,
    caller_id: Option<&'a str>,
    args_fingerprint: [u8; 32],
    page_index: u32,
    issued_at_unix: u64,
    server_session: [u8; 8],
    opaque_state: &'a [u8],
}

impl<'a> Body<'a> {
    fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new(Vec::new());
        self.write(&mut out).expect("writing to memory does not fail");
        out.into_writer()
    }

    fn write(
        &self,
        out: &mut Encoder<Vec<u8>>,
    ) -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
        out.map(6 + u64::from(self.caller_id.is_some()))?;
        out.str("tool_id")?.str(self.tool_id)?;
        if let Some(caller_id) = self.caller_id {
            out.str("caller_id")?.str(caller_id)?;
        }
        integers(out.str("args_fingerprint")?, &self.args_fingerprint)?;
        out.str("page_index")?.u32(self.page_index)?;
        out.str("issued_at_unix")?.u64(self.issued_at_unix)?;
        integers(out.str("server_session")?, &self.server_session)?;
        out.str("opaque_state")?.bytes(self.opaque_state)?;
        Ok(())
    }

    /// Members in any order, each once, all but the caller present, nothing after them.
    fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut cbor = Decoder::new(bytes);
        let members = cbor.map().ok()??;
        let (mut tool_id, mut caller_id, mut args_fingerprint) = (None, None, None);
        let (mut page_index, mut issued_at_unix) = (None, None);
        let (mut server_session, mut opaque_state) = (None, None);
        for _ in 0..members {
            match cbor.str().ok()? {
                "tool_id" => set(&mut tool_id, cbor.str().ok())?,
                "caller_id" if cbor.datatype().ok()? == Type::Null => {
                    cbor.null().ok()?;
                }
                "caller_id" => set(&mut caller_id, cbor.str().ok())?,
                "args_fingerprint" => set(&mut args_fingerprint, read_integers(&mut cbor))?,
                "page_index" => set(&mut page_index, cbor.u32().ok())?,
                "issued_at_unix" => set(&mut issued_at_unix, cbor.u64().ok())?,
                "server_session" => set(&mut server_session, read_integers(&mut cbor))?,
                "opaque_state" => set(&mut opaque_state, cbor.bytes().ok())?,
                _ => return None,
            }
        }
        if cbor.position() != bytes.len() {
            return None;
        }
        Some(Self {
            tool_id: tool_id?,
            caller_id,
            args_fingerprint: args_fingerprint?,
            page_index: page_index?,
            issued_at_unix: issued_at_unix?,
            server_session: server_session?,
            opaque_state: opaque_state?,
        })
    }
}

/// Stores a member; `None` if it could not be read or was there before.
fn set<T>(place: &mut Option<T>, read: Option<T>) -> Option<()> {
    if place.replace(read?).is_some() { None } else { Some(()) }
}

fn integers(
    out: &mut Encoder<Vec<u8>>,
    bytes: &[u8],
) -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
    out.array(bytes.len() as u64)?;
    bytes.iter().try_for_each(|&byte| out.u8(byte).map(|_| ()))
}

fn read_integers<const N: usize>(cbor: &mut Decoder<'_>) -> Option<[u8; N]> {
    if cbor.array().ok()?? != N as u64 {
        return None;
    }
    let mut bytes = [0; N];
    for byte in &mut bytes {
        *byte = cbor.u8().ok()?;
    }
    Some(bytes)
}

/// An ATD cursor that cannot be issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AtdIssueError {
    /// The context has no tool or arguments, another issuer, or fields that ATD cannot carry.
    #[error("an ATD cursor cannot carry this context")]
    Context,
    /// The format is not accepted any more.
    #[error("the date until which the format is accepted is over")]
    Over,
    /// It does not fit.
    #[error(transparent)]
    Seal(#[from] SealError),
}
