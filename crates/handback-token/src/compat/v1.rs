//! `v1.` and `v1e.` request state of the D SDK.
//!
//! ```text
//! payload   = {"s": state, "exp": unix seconds, "b": bind tag in hexadecimal}
//! signed    = "v1."  b64(payload) "." b64(HMAC-SHA256(mac key, payload))
//! encrypted = "v1e." b64(nonce[12] || AES-256-GCM(aes key, nonce, aad = bind tag, payload))
//! bind tag  = hex(HMAC-SHA256(bind key, "" | subject | subject 00 target))
//! ```
//!
//! The format has three [key schedules](KeySchedule). In the first two, the bind tag and the payload's
//! MAC have the same key and no label, and the tag is shown in signed tokens: whoever may choose a
//! subject that reads like a payload gets it signed. Such subjects are refused, in every schedule,
//! because the third shares its bind key with the second.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use hkdf::Hkdf;
use rand_core::CryptoRng;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::{Acceptance, ForeignKey};
use crate::context::{Context, Operation};
use crate::encoding::{self, Object};
use crate::hash::MacKey;
use crate::purpose::{Purpose as _, State};
use crate::refusal::{Reason, Refused};
use crate::sealer::SealError;
use crate::time::{CLOCK_SKEW_S, UnixTime};

const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const MAC_BYTES: usize = 32;

/// How the keys of the format are made from the shared secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "the format has had these three, and no other")]
pub enum KeySchedule {
    /// The secret itself, for everything: the oldest revisions. One key for two uses is a known
    /// oracle; only for tokens that are already out.
    DangerousRaw,
    /// One derived key for AES, one for both MACs: revisions since June 2026.
    TwoKeys,
    /// One derived key for each use.
    #[default]
    ThreeKeys,
}

/// Signed or encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the format has these two")]
pub enum V1Mode {
    /// `v1.`: everybody can read the state.
    Signed,
    /// `v1e.`: nobody else can.
    Encrypted,
}

/// What the bind tag covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "the format has these three")]
pub enum V1Binding {
    /// Nothing.
    None,
    /// The caller's subject.
    AuthSubject,
    /// The subject, and the tool, prompt or resource.
    #[default]
    AuthSubjectAndTool,
}

/// Makes and opens `v1.` or `v1e.` request state: one mode, one schedule, one binding.
pub struct V1State {
    mac: MacKey,
    bind: MacKey,
    aes: LessSafeKey,
    schedule: KeySchedule,
    mode: V1Mode,
    binding: V1Binding,
    acceptance: Acceptance,
}

#[derive(Serialize, Deserialize)]
struct Payload {
    s: String,
    exp: u64,
    b: String,
}

impl V1State {
    /// The codec of one endpoint, with the three-key schedule.
    #[must_use]
    pub fn new(key: &ForeignKey, mode: V1Mode, binding: V1Binding, acceptance: Acceptance) -> Self {
        Self::with_schedule(key, KeySchedule::default(), mode, binding, acceptance)
    }

    /// The codec of an endpoint whose tokens are of an older schedule.
    #[must_use]
    pub fn with_schedule(
        key: &ForeignKey,
        schedule: KeySchedule,
        mode: V1Mode,
        binding: V1Binding,
        acceptance: Acceptance,
    ) -> Self {
        let derive = |info: &str| {
            let mut derived = Zeroizing::new([0u8; 32]);
            Hkdf::<Sha256>::new(None, key.as_bytes())
                .expand(info.as_bytes(), derived.as_mut_slice())
                .expect("HKDF-SHA256 gives up to 8160 bytes");
            derived
        };
        let aes_key = |key: &[u8]| {
            LessSafeKey::new(
                UnboundKey::new(&AES_256_GCM, key).expect("AES-256 takes a key of 32 bytes"),
            )
        };
        let (aes, bind, mac) = match schedule {
            KeySchedule::DangerousRaw => {
                let (aes, _rest) =
                    key.as_bytes().split_at_checked(32).expect("a foreign key has 32 bytes");
                (aes_key(aes), MacKey::new(key.as_bytes()), MacKey::new(key.as_bytes()))
            }
            KeySchedule::TwoKeys | KeySchedule::ThreeKeys => {
                let bind_key = derive("mcp.requestState bind-hmac key");
                let bind = MacKey::new(bind_key.as_slice());
                let mac = if schedule == KeySchedule::TwoKeys {
                    bind.clone()
                } else {
                    MacKey::new(derive("mcp.requestState payload-hmac key").as_slice())
                };
                let aes = aes_key(derive("mcp.requestState aes-256-gcm key").as_slice());
                (aes, bind, mac)
            }
        };
        Self { mac, bind, aes, schedule, mode, binding, acceptance }
    }

    /// Makes a token that is good for `ttl_s` seconds.
    ///
    /// # Errors
    ///
    /// [`V1EncodeError`] if the context cannot be bound, the TTL is not between 1 s and 1 h, or the
    /// token would be longer than 16 KiB.
    pub fn encode<R: CryptoRng + ?Sized>(
        &self,
        rng: &mut R,
        now: UnixTime,
        context: &Context<'_>,
        ttl_s: u32,
        state: &str,
    ) -> Result<String, V1EncodeError> {
        if !(1..=State::MAX_LIFE_S).contains(&ttl_s) {
            return Err(V1EncodeError::Ttl);
        }
        self.acceptance.check_date(now).map_err(|_| V1EncodeError::Over)?;
        let tag = self.bind_tag(context).map_err(|_| V1EncodeError::Context)?;
        let exp = now.plus(u64::from(ttl_s)).as_secs();
        let payload = Payload { s: state.to_owned(), exp, b: tag.clone() };
        let payload = serde_json::to_vec(&payload).expect("plain members always serialise");
        let text = match self.mode {
            V1Mode::Signed => {
                let mac = super::mac(&self.mac, &[&payload]);
                format!("v1.{}.{}", encoding::encode(&payload), encoding::encode(&mac))
            }
            V1Mode::Encrypted => {
                let mut nonce = [0; NONCE_BYTES];
                rng.fill_bytes(&mut nonce);
                let mut sealed = payload;
                self.aes
                    .seal_in_place_append_tag(
                        Nonce::assume_unique_for_key(nonce),
                        Aad::from(tag.as_bytes()),
                        &mut sealed,
                    )
                    .expect("16 KiB can be sealed");
                format!("v1e.{}", encoding::encode(&[&nonce[..], &sealed].concat()))
            }
        };
        if text.len() > State::MAX_CHARS {
            let over = (text.len() - State::MAX_CHARS).div_ceil(4) * 3;
            let capacity = state.len().saturating_sub(over);
            return Err(SealError::TooLarge { bytes: state.len(), capacity }.into());
        }
        Ok(text)
    }

    /// Opens a token for the caller and tool of `context`.
    ///
    /// # Errors
    ///
    /// [`Refused`], as for native request state.
    pub fn open(
        &self,
        text: &str,
        context: &Context<'_>,
        now: UnixTime,
    ) -> Result<String, Refused> {
        if text.len() > State::MAX_CHARS {
            return Err(Reason::TooLong.into());
        }
        let tag = self.bind_tag(context);
        let payload = match self.mode {
            V1Mode::Signed => self.verify(text)?,
            V1Mode::Encrypted => self.decrypt(text, tag.as_deref().unwrap_or_default())?,
        };
        let Object(payload): Object<Payload> =
            serde_json::from_slice(&payload).map_err(|_| Reason::Malformed)?;
        if !bool::from(payload.b.as_bytes().ct_eq(tag?.as_bytes())) {
            return Err(Reason::NotOpened.into());
        }
        self.acceptance.check_date(now)?;
        if payload.exp < now.as_secs() {
            return Err(Reason::Expired.into());
        }
        if payload.exp > now.plus(u64::from(State::MAX_LIFE_S) + CLOCK_SKEW_S).as_secs() {
            return Err(Reason::TooFar.into());
        }
        Ok(payload.s)
    }

    fn verify(&self, text: &str) -> Result<Vec<u8>, Reason> {
        let parts: Vec<&str> = text.splitn(4, '.').collect();
        let ["v1", payload, mac] = parts.as_slice() else {
            return Err(Reason::Malformed);
        };
        let payload = encoding::decode(payload).ok_or(Reason::Malformed)?;
        let mac: [u8; MAC_BYTES] = encoding::decode_array(mac).ok_or(Reason::Malformed)?;
        super::verify(&self.mac, &[&payload], &mac)?;
        Ok(payload)
    }

    fn decrypt(&self, text: &str, bind_tag: &str) -> Result<Vec<u8>, Reason> {
        let sealed = text.strip_prefix("v1e.").ok_or(Reason::Malformed)?;
        let mut token = encoding::decode(sealed).ok_or(Reason::Malformed)?;
        let (nonce, sealed) =
            token.split_first_chunk_mut::<NONCE_BYTES>().ok_or(Reason::Malformed)?;
        if sealed.len() < TAG_BYTES {
            return Err(Reason::Malformed);
        }
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let payload = self
            .aes
            .open_in_place(nonce, Aad::from(bind_tag.as_bytes()), sealed)
            .map_err(|_| Reason::NotOpened)?;
        Ok(payload.to_vec())
    }

    /// The bind tag of a context, or why it has none.
    fn bind_tag(&self, context: &Context<'_>) -> Result<String, Reason> {
        let subject = self.acceptance.subject(context)?;
        if context.arguments_field().is_some() {
            // The format has no place for them.
            return Err(Reason::NotOpened);
        }
        if self.binding == V1Binding::None {
            return Ok(encoding::hex(&super::mac(&self.bind, &[])));
        }
        // An unauthenticated caller has no subject to bind: a silent no-op in the original.
        let subject = subject.ok_or(Reason::NotOpened)?;
        if reads_like_a_payload(subject) || subject.contains('\0') {
            return Err(Reason::NotOpened);
        }
        if self.binding == V1Binding::AuthSubject {
            return Ok(encoding::hex(&super::mac(&self.bind, &[subject.as_bytes()])));
        }
        let name = context.name_field().filter(|name| !name.contains('\0'));
        let name = name.ok_or(Reason::NotOpened)?;
        let method = method(context).ok_or(Reason::NotOpened)?;
        let tag = match self.schedule {
            KeySchedule::ThreeKeys => {
                let parts = [subject, "\0", method, "\0", name];
                super::mac(&self.bind, &parts.map(str::as_bytes))
            }
            // These carry no method: only tools may use them.
            _ if context.operation_field() != Some(Operation::Call) => {
                return Err(Reason::NotOpened);
            }
            KeySchedule::DangerousRaw | KeySchedule::TwoKeys => {
                super::mac(&self.bind, &[subject, "\0", name].map(str::as_bytes))
            }
        };
        Ok(encoding::hex(&tag))
    }
}

/// Whether the bind tag of such a subject could serve as the MAC of a payload. Refused in every
/// schedule: the bind key of the three-key schedule is the MAC key of the two-key one.
fn reads_like_a_payload(subject: &str) -> bool {
    subject.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{')
}

/// The MCP method of an operation that can carry request state.
fn method(context: &Context<'_>) -> Option<&'static str> {
    match context.operation_field()? {
        Operation::Call => Some("tools/call"),
        Operation::Prompt => Some("prompts/get"),
        Operation::Read => Some("resources/read"),
        Operation::List | Operation::Query | Operation::Duplex => None,
    }
}

impl fmt::Debug for V1State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("V1State")
            .field("schedule", &self.schedule)
            .field("mode", &self.mode)
            .field("binding", &self.binding)
            .finish_non_exhaustive()
    }
}

/// A token that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum V1EncodeError {
    /// The TTL is zero or above an hour.
    #[error("request state lives 1 to 3600 seconds")]
    Ttl,
    /// The binding demands what the context does not have, or the format cannot carry it.
    #[error("`v1.` request state cannot be bound to this context")]
    Context,
    /// The format is not accepted any more.
    #[error("the date until which the format is accepted is over")]
    Over,
    /// It does not fit.
    #[error(transparent)]
    Seal(#[from] SealError),
}
