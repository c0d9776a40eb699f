//! Formats of other systems, for people who move from them.
//!
//! Off by default (feature `compat`), chosen per endpoint, and never guessed from a token: a native
//! endpoint does not take them. Each format has its own key, which seals nothing native, and a date
//! after which it is refused. What a format carries is compared with the current context; where the
//! context demands what a format cannot carry, the token is refused. Refusals are the native ones.
//!
//! | module | format | makes | opens |
//! |---|---|---|---|
//! | [`atd`] | cursors of `atd-runtime` 1.2 | yes | yes |
//! | [`v1`] | `v1.` and `v1e.` request state of the D SDK | yes | yes |
//! | [`rmcp`] | `rs1` and `rs2` request state of rmcp 3 | no | yes |

pub mod atd;
pub mod rmcp;
pub mod v1;

use std::fmt;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::context::Context;
use crate::hash::MacKey;
use crate::key::{KEY_BYTES, KeyError};
use crate::refusal::Reason;
use crate::time::UnixTime;

/// What every foreign endpoint is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal: nothing may be left out")]
pub struct Acceptance {
    /// From this second on, every token of the format answers `expired`.
    pub accept_until: UnixTime,
    /// The one issuer whose callers may use the endpoint, because the formats carry no issuer: two
    /// issuers with the same subject would be one caller. `None`: only unauthenticated callers.
    pub issuer: Option<String>,
}

impl Acceptance {
    fn check_date(&self, now: UnixTime) -> Result<(), Reason> {
        if now < self.accept_until { Ok(()) } else { Err(Reason::Expired) }
    }

    /// The subject that a token must have been made for; `None` for an unauthenticated caller.
    fn subject<'a>(&self, context: &Context<'a>) -> Result<Option<&'a str>, Reason> {
        if context.demands_more_than_foreign_formats_carry() {
            return Err(Reason::NotOpened);
        }
        match context.caller() {
            None => Ok(None),
            Some((issuer, subject)) if self.issuer.as_deref() == Some(issuer) => Ok(Some(subject)),
            Some(_) => Err(Reason::NotOpened),
        }
    }
}

/// A shared secret of a foreign format: at least 32 bytes, not all equal. Cleared when dropped.
pub struct ForeignKey(Zeroizing<Vec<u8>>);

impl ForeignKey {
    /// Copies the secret.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if it is shorter than 32 bytes or longer than 1,024, or all bytes are equal.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        if !(KEY_BYTES..=MAX_FOREIGN_KEY_BYTES).contains(&bytes.len()) {
            return Err(KeyError::WrongLength { bytes: bytes.len() });
        }
        if bytes.windows(2).all(|pair| matches!(pair, [a, b] if a == b)) {
            return Err(KeyError::Constant);
        }
        Ok(Self(Zeroizing::new(bytes.to_vec())))
    }

    fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

const MAX_FOREIGN_KEY_BYTES: usize = 1024;

impl fmt::Debug for ForeignKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForeignKey(..)")
    }
}

/// HMAC-SHA256 over all of `parts`.
fn mac(key: &MacKey, parts: &[&[u8]]) -> [u8; 32] {
    let len = parts.iter().map(|part| part.len()).sum();
    key.mac(len, |writer| parts.iter().fold(writer, |writer, part| writer.put(part)).done())
}

/// Whether a MAC is the one of `parts`, in constant time.
fn verify(key: &MacKey, parts: &[&[u8]], presented: &[u8; 32]) -> Result<(), Reason> {
    if bool::from(mac(key, parts).ct_eq(presented)) { Ok(()) } else { Err(Reason::NotOpened) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Caller, Operation};
    use crate::encoding::counter;
    use crate::fingerprint::ArgsFingerprint;
    use crate::refusal::Refused;
    use crate::ring::source::random_signing_key;

    #[test]
    fn nothing_past_the_cap_of_a_foreign_format_is_decoded() {
        let now = UnixTime::from_secs(1_800_000_000);
        let acceptance =
            || Acceptance { accept_until: UnixTime::from_secs(u64::MAX), issuer: None };
        let key = || ForeignKey::from_bytes(b"0123456789abcdef0123456789abcdef").unwrap();
        let arguments = ArgsFingerprint::from_bytes([0; 32]);
        let context = Context::new(Caller::UNAUTHENTICATED, Operation::Call);
        let check = |cap: usize, prefix: &str, open: &dyn Fn(&str) -> Option<Refused>| {
            for len in [cap + 1, 10_000_000] {
                let text = format!("{prefix}{}", "A".repeat(len - prefix.len()));
                let decoded = counter::count(|| {
                    assert_eq!(open(&text).map(Refused::reason), Some(Reason::TooLong));
                });
                assert_eq!(decoded, 0, "{prefix} {len}");
            }
            let text = format!("{prefix}{}", "A".repeat(cap - prefix.len()));
            let decoded = counter::count(|| {
                let refused = open(&text).map(Refused::reason);
                assert!(refused.is_some() && refused != Some(Reason::TooLong), "{refused:?}");
            });
            assert!(decoded <= cap, "{prefix}: {decoded}");
        };
        let atd = atd::AtdCursors::new(random_signing_key(&mut rand::rng()), [0; 8], acceptance());
        let call = context.name("tool").arguments(&arguments);
        check(512, "", &|text| atd.open(text, &call, now).err());
        for (mode, prefix) in [(v1::V1Mode::Signed, "v1."), (v1::V1Mode::Encrypted, "v1e.")] {
            let codec = v1::V1State::new(&key(), mode, v1::V1Binding::None, acceptance());
            check(16_384, prefix, &|text| codec.open(text, &context, now).err());
        }
        let state = rmcp::RmcpState::new(acceptance()).rs1_key(key());
        check(16_384, "rs1.", &|text| state.open(text, b"", &context, now).err());
        check(16_384, "rs2.", &|text| state.open(text, b"", &context, now).err());
    }
}
