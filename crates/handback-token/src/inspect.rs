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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::counter;
    use crate::{Caller, Context, Cursor, KeyRing, Operation, Sealer, SealerConfig};

    const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

    fn token(mode: Mode, caller: Caller<'_>) -> String {
        let rng = &mut rand::rng();
        let sealer =
            Sealer::new(&KeyRing::generate(rng, mode, NOW), SealerConfig::default()).unwrap();
        let context = Context::new(caller, Operation::Call);
        let bound = sealer.bind::<Cursor>(&context).unwrap();
        bound.seal(rng, NOW, b"payload").unwrap().into_string()
    }

    #[test]
    fn shows_the_body_of_a_signed_token_and_only_the_length_of_a_sealed_one() {
        let alice = Caller::dangerous_identified("i", "alice");
        let signed = inspect(&token(Mode::Signed, alice)).unwrap();
        let exp = UnixTime::from_secs(1_800_000_900);
        assert_eq!((signed.mode, signed.slot.get(), signed.salt.len()), (Mode::Signed, 0, 0));
        assert_eq!(signed.readable, Some((exp, b"payload".to_vec())));
        assert_eq!(signed.body_bytes, 7);
        let sealed = inspect(&token(Mode::Sealed, alice)).unwrap();
        assert_eq!((sealed.mode, sealed.body_bytes, sealed.readable), (Mode::Sealed, 7, None));
        assert_eq!(sealed.salt, [0]);
        assert_eq!(inspect(&token(Mode::Sealed, Caller::UNAUTHENTICATED)).unwrap().salt.len(), 4);
    }

    #[test]
    fn nothing_past_the_cap_is_decoded() {
        let text = "A".repeat(State::MAX_CHARS + 1);
        let decoded = counter::count(|| assert_eq!(inspect(&text), Err(Reason::TooLong)));
        assert_eq!(decoded, 0);
        assert_eq!(inspect(&text[1..]), Err(Reason::Malformed));
        assert_eq!(inspect(""), Err(Reason::Malformed));
    }
}
