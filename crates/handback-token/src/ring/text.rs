//! The ring as text: `docs/spec/tokens.md`, section 12.

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{KeyRing, Mode, RingId, SLOTS, Slot, SlotNumber, SlotState};
use crate::encoding::{self, Object};
use crate::key::{KeyError, MasterKey};
use crate::time::UnixTime;

/// The longest text of a ring. A full one has about 2,500 bytes.
pub const MAX_KEY_FILE_BYTES: usize = 16 * 1024;

const FORMAT: &str = "handback-keys/1";

/// What every JSON reader can hold exactly.
pub(super) const MAX_GENERATION: u64 = (1 << 53) - 1;

/// Generic over what a slot is read as and written as.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RingText<S> {
    format: String,
    id: String,
    generation: u64,
    next_slot: u8,
    slots: Vec<S>,
}

#[derive(Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
#[serde(deny_unknown_fields)]
struct SlotText {
    slot: u8,
    #[zeroize(skip)]
    state: SlotState,
    #[zeroize(skip)]
    mode: Mode,
    since: u64,
    key: String,
}

impl KeyRing {
    /// Reads a ring from the text of a key file or of `HANDBACK_KEYS`.
    ///
    /// # Errors
    ///
    /// [`ParseRingError`]: a ring is whole or it is refused. The error never shows a key.
    pub fn parse(text: &str) -> Result<Self, ParseRingError> {
        if text.len() > MAX_KEY_FILE_BYTES {
            return Err(ParseRingError::TooLong { bytes: text.len() });
        }
        let Object(read): Object<RingText<Object<SlotText>>> =
            serde_json::from_str(text).map_err(|error| ParseRingError::Syntax {
                line: error.line(),
                column: error.column(),
            })?;
        if read.format != FORMAT {
            return Err(ParseRingError::Format);
        }
        let id = encoding::decode_array(&read.id).map(RingId).ok_or(ParseRingError::Id)?;
        if !(1..=MAX_GENERATION).contains(&read.generation) {
            return Err(ParseRingError::Generation);
        }
        let next_slot = SlotNumber::new(read.next_slot)
            .ok_or(ParseRingError::SlotNumber { number: read.next_slot })?;
        let mut slots = [const { None }; SLOTS];
        for Object(slot) in &read.slots {
            let number = SlotNumber::new(slot.slot)
                .ok_or(ParseRingError::SlotNumber { number: slot.slot })?;
            let key = MasterKey::from_text(&slot.key)
                .map_err(|source| ParseRingError::Key { slot: number, source })?;
            let place = slots.get_mut(number.index()).expect("slot numbers are below 16");
            let since = UnixTime::from_secs(slot.since);
            if place.replace(Slot { key, state: slot.state, mode: slot.mode, since }).is_some() {
                return Err(ParseRingError::Repeated { slot: number });
            }
        }
        let ring = Self { id, generation: read.generation, next_slot, slots };
        let active = ring.occupied().filter(|(_, slot)| slot.state == SlotState::Active).count();
        if active != 1 {
            return Err(ParseRingError::Active { slots: active });
        }
        if ring.has_equal_keys() {
            return Err(ParseRingError::EqualKeys);
        }
        Ok(ring)
    }

    /// The ring as text, keys included: what a key file holds, and what `HANDBACK_KEYS` takes.
    #[must_use]
    pub fn dangerous_to_text(&self) -> Zeroizing<String> {
        let text = RingText {
            format: FORMAT.to_owned(),
            id: self.id.to_string(),
            generation: self.generation,
            next_slot: self.next_slot.get(),
            slots: self
                .occupied()
                .map(|(number, slot)| SlotText {
                    slot: number.get(),
                    state: slot.state,
                    mode: slot.mode,
                    since: slot.since.as_secs(),
                    key: slot.key.dangerous_reveal().as_str().to_owned(),
                })
                .collect(),
        };
        // Large enough from the start: a buffer that grows leaves copies behind.
        let mut out = Zeroizing::new(Vec::with_capacity(MAX_KEY_FILE_BYTES));
        serde_json::to_writer(&mut *out, &text).expect("plain members always serialise");
        let out = std::str::from_utf8(&out).expect("JSON is UTF-8");
        Zeroizing::new(out.to_owned())
    }
}

/// A text that is not a ring. Shows where, never what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseRingError {
    /// Longer than [`MAX_KEY_FILE_BYTES`].
    #[error("the keys take {bytes} bytes, at most 16384 are read")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Not JSON, or with other members than a ring has.
    #[error("the keys are not in the format of a key ring (line {line}, column {column})")]
    Syntax {
        /// Where.
        line: usize,
        /// Where.
        column: usize,
    },
    /// Another format or version.
    #[error("the keys are not of format handback-keys/1")]
    Format,
    /// The id is not that of a ring.
    #[error("the ring's id is not 16 bytes in base64url")]
    Id,
    /// The generation is 0 or too large.
    #[error("the ring's generation is not between 1 and 9007199254740991")]
    Generation,
    /// A slot number above 15.
    #[error("there is no key slot {number}, the last is 15")]
    SlotNumber {
        /// The number.
        number: u8,
    },
    /// A slot appears twice.
    #[error("key slot {slot} appears twice")]
    Repeated {
        /// The slot.
        slot: SlotNumber,
    },
    /// Not exactly one slot is active.
    #[error("{slots} key slots are active, it must be exactly one")]
    Active {
        /// How many are.
        slots: usize,
    },
    /// Two slots have the same key.
    #[error("two key slots hold the same key")]
    EqualKeys,
    /// A slot's key is not usable.
    #[error("key slot {slot} has no usable key")]
    Key {
        /// The slot.
        slot: SlotNumber,
        /// What is wrong with it.
        source: KeyError,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_ring_survives_its_text() {
        let rng = &mut rand::rng();
        let mut ring = KeyRing::generate(rng, Mode::Sealed, UnixTime::from_secs(5));
        ring.rotate(rng, Mode::Signed, UnixTime::from_secs(7)).unwrap();
        let text = ring.dangerous_to_text();
        let back = KeyRing::parse(&text).unwrap();
        assert_eq!(back.fingerprint(), ring.fingerprint());
        assert_eq!(back.dangerous_to_text(), text);
    }

    #[test]
    fn nothing_past_the_bound_is_read() {
        let text = " ".repeat(MAX_KEY_FILE_BYTES + 1);
        let bytes = text.len();
        assert_eq!(KeyRing::parse(&text).unwrap_err(), ParseRingError::TooLong { bytes });
        let at_bound = KeyRing::parse(&text[1..]).unwrap_err();
        assert!(matches!(at_bound, ParseRingError::Syntax { .. }), "{at_bound:?}");
    }

    #[test]
    fn arrays_do_not_pass_for_objects() {
        let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, UnixTime::from_secs(5));
        let key = ring.dangerous_reveal(SlotNumber::FIRST).unwrap();
        let slot = format!(r#"[0,"active","sealed",5,"{}"]"#, key.as_str());
        let id = ring.id();
        for text in [
            format!(r#"["handback-keys/1","{id}",1,1,[{slot}]]"#),
            format!(
                r#"{{"format":"handback-keys/1","id":"{id}","generation":1,"next_slot":1,"slots":[{slot}]}}"#
            ),
        ] {
            let error = KeyRing::parse(&text).unwrap_err();
            assert!(matches!(error, ParseRingError::Syntax { .. }), "{error:?}");
        }
    }

    #[test]
    fn errors_show_no_key() {
        let rng = &mut rand::rng();
        let ring = KeyRing::generate(rng, Mode::Sealed, UnixTime::from_secs(5));
        let text = ring.dangerous_to_text();
        let secret = ring.dangerous_reveal(SlotNumber::FIRST).unwrap();
        let (front, back) = secret.split_at(20);
        for edited in [
            text.replace(secret.as_str(), front),
            text.replace(front, "!!!!!!!!!!!!!!!!!!!!"),
            text.replace("\"key\"", "\"keys\""),
            text.replace(&format!("\"{}\"", secret.as_str()), &format!("\"{}", secret.as_str())),
        ] {
            let error = KeyRing::parse(&edited).unwrap_err();
            let mut shown = format!("{error} {error:?}");
            if let Some(source) = std::error::Error::source(&error) {
                shown += &source.to_string();
            }
            assert!(!shown.contains(front) && !shown.contains(back), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,400}") {
            let _ = KeyRing::parse(&text);
        }

        #[test]
        fn a_ring_with_one_byte_changed_is_refused_or_whole(at in 0usize..400, byte in 32u8..127) {
            let rng = &mut rand::rng();
            let ring = KeyRing::generate(rng, Mode::Sealed, UnixTime::from_secs(5));
            let mut text = ring.dangerous_to_text().as_bytes().to_vec();
            if let Some(place) = text.get_mut(at) {
                *place = byte;
            }
            if let Ok(read) = KeyRing::parse(std::str::from_utf8(&text).unwrap()) {
                prop_assert_eq!(read.slots().count(), 1);
            }
        }
    }
}
