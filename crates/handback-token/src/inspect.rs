//! What anybody can see of a token, without a key.

use crate::crypto::{Form, Salt, TAG_BYTES};
use crate::encoding;
use crate::purpose::{Purpose as _, State};
use crate::refusal::Reason;
use crate::ring::{Mode, SlotNumber};
use crate::time::UnixTime;

/// What a token shows of itself. None of it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Visible {
    /// Signed or sealed.
    pub mode: Mode,
    /// The key slot that it names.
    pub slot: SlotNumber,
    /// Its salt; empty for signed tokens.
    pub salt: Vec<u8>,
    /// Bytes of its body, head included.
    pub body_bytes: usize,
    /// Expiry and body of a signed token. A sealed one shows neither.
    pub readable: Option<(UnixTime, Vec<u8>)>,
}

/// Looks at a token of any purpose from outside.
///
/// # Errors
///
/// [`Reason::TooLong`] or [`Reason::Malformed`].
pub fn inspect(text: &str) -> Result<Visible, Reason> {
    if text.len() > State::MAX_CHARS {
        return Err(Reason::TooLong);
    }
    let token = encoding::decode(text).ok_or(Reason::Malformed)?;
    let (form, slot) = Form::of(&token).ok_or(Reason::Malformed)?;
    let readable = match form.mode() {
        Mode::Sealed => None,
        Mode::Signed => {
            let shown = token.get(1..token.len() - TAG_BYTES).unwrap_or_default();
            let (exp, body) = shown.split_first_chunk().ok_or(Reason::Malformed)?;
            Some((UnixTime::from(u32::from_be_bytes(*exp)), body.to_vec()))
        }
    };
    Ok(Visible {
        mode: form.mode(),
        slot,
        salt: Salt::of(form, &token).as_slice().to_vec(),
        body_bytes: token.len() - form.overhead(),
        readable,
    })
}
