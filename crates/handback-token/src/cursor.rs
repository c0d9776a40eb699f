//! Cursors for tools that make their own.
//!
//! A [`CursorIssuer`] is bound to one call: to its caller, tool, arguments and audience. A tool
//! cannot issue a cursor for anything else, nor open one of anybody else, and never sees a key.
//! The tokens are native ones; ATD's own bytes are in `compat`.

use rand_core::CryptoRng;

use crate::crypto::Salt;
use crate::purpose::{Cursor, Purpose as _};
use crate::refusal::{Outside, Reason, Refused};
use crate::sealer::{Bound, SealError};
use crate::time::UnixTime;

/// The longest cursor, in characters: it fits headers, JSON arguments and log lines.
pub const MAX_CURSOR_BYTES: usize = Cursor::MAX_CHARS;

/// The largest state of a tool inside a cursor, in bytes. It fits for every context: what a cursor is
/// bound to takes no room in it.
pub const MAX_OPAQUE_STATE_BYTES: usize = 256;

/// Code of an expired cursor.
pub const ERR_CURSOR_EXPIRED: u16 = 1020;

/// Code of an invalid cursor.
pub const ERR_CURSOR_INVALID: u16 = 1021;

const _: () = assert!(
    1 + 4 + 4 + 16 + MAX_PAGE_INDEX_BYTES + MAX_OPAQUE_STATE_BYTES <= MAX_CURSOR_BYTES * 3 / 4,
    "256 bytes of state fit, whatever the form and the page"
);

/// What a cursor carries.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CursorPayload {
    /// Which page it leads on from; the first cursor of a walk has 1.
    pub page_index: u32,
    /// Where the tool goes on: at most [`MAX_OPAQUE_STATE_BYTES`].
    pub opaque_state: Vec<u8>,
    /// The salt of the cursor that this one follows.
    follows: Option<Salt>,
}

impl CursorPayload {
    /// The first cursor of a walk.
    #[must_use]
    pub fn first(opaque_state: impl Into<Vec<u8>>) -> Self {
        Self { page_index: 1, opaque_state: opaque_state.into(), follows: None }
    }

    /// The cursor that follows this one.
    #[must_use]
    pub fn next(&self, opaque_state: impl Into<Vec<u8>>) -> Self {
        Self {
            page_index: self.page_index.saturating_add(1),
            opaque_state: opaque_state.into(),
            follows: self.follows,
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MAX_PAGE_INDEX_BYTES + self.opaque_state.len());
        write_page_index(&mut bytes, self.page_index);
        bytes.extend_from_slice(&self.opaque_state);
        bytes
    }

    fn from_bytes(bytes: &[u8], salt: Salt) -> Option<Self> {
        let (page_index, opaque_state) = read_page_index(bytes)?;
        if opaque_state.len() > MAX_OPAQUE_STATE_BYTES {
            return None;
        }
        Some(Self { page_index, opaque_state: opaque_state.to_vec(), follows: Some(salt) })
    }
}

/// Issues and verifies the cursors of one call.
#[derive(Debug)]
#[must_use]
pub struct CursorIssuer<'s> {
    bound: Bound<'s, Cursor>,
    now: UnixTime,
}

impl<'s> CursorIssuer<'s> {
    /// The issuer of the call that `bound` is bound to, at the time of that call.
    pub const fn new(bound: Bound<'s, Cursor>, now: UnixTime) -> Self {
        Self { bound, now }
    }

    /// Makes the text of a cursor.
    ///
    /// # Errors
    ///
    /// [`CursorError::OpaqueStateTooLarge`] if the state is longer than [`MAX_OPAQUE_STATE_BYTES`].
    pub fn issue<R: CryptoRng + ?Sized>(
        &self,
        rng: &mut R,
        payload: &CursorPayload,
    ) -> Result<String, CursorError> {
        if payload.opaque_state.len() > MAX_OPAQUE_STATE_BYTES {
            return Err(CursorError::OpaqueStateTooLarge(payload.opaque_state.len()));
        }
        let salt = payload.follows.map_or(Salt::FIRST, Salt::next);
        let token = self.bound.seal_salted(rng, self.now, &payload.to_bytes(), salt)?;
        Ok(token.into_string())
    }

    /// Opens a cursor that came back.
    ///
    /// # Errors
    ///
    /// [`CursorError::Expired`] or [`CursorError::Invalid`].
    pub fn verify(&self, cursor: &str) -> Result<CursorPayload, CursorError> {
        let opened = self.bound.open(cursor, self.now)?;
        CursorPayload::from_bytes(opened.payload(), opened.salt())
            .ok_or_else(|| Refused::from(Reason::Malformed).into())
    }
}

/// A cursor that cannot be issued, or does not verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CursorError {
    /// It was good once. The call can be made again from the start.
    #[error("cursor expired")]
    Expired(Refused),
    /// Forged, edited, foreign or malformed.
    #[error("cursor invalid")]
    Invalid(Refused),
    /// The state is larger than [`MAX_OPAQUE_STATE_BYTES`].
    #[error("a state of {0} bytes is too large for a cursor, which holds 256")]
    OpaqueStateTooLarge(usize),
    /// It cannot be issued for another reason.
    #[error("cursor not issued")]
    NotIssued(#[source] SealError),
}

impl CursorError {
    /// The code on the wire: [`ERR_CURSOR_EXPIRED`] or [`ERR_CURSOR_INVALID`].
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::Expired(_) => ERR_CURSOR_EXPIRED,
            Self::Invalid(_) | Self::OpaqueStateTooLarge(_) | Self::NotIssued(_) => {
                ERR_CURSOR_INVALID
            }
        }
    }

    /// The exact reason of a refusal, for the audit.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        match self {
            Self::Expired(refused) | Self::Invalid(refused) => Some(refused.reason()),
            Self::OpaqueStateTooLarge(_) | Self::NotIssued(_) => None,
        }
    }
}

impl From<Refused> for CursorError {
    fn from(refused: Refused) -> Self {
        match refused.outside() {
            Outside::Expired => Self::Expired(refused),
            Outside::Invalid => Self::Invalid(refused),
        }
    }
}

impl From<SealError> for CursorError {
    fn from(error: SealError) -> Self {
        Self::NotIssued(error)
    }
}

const MAX_PAGE_INDEX_BYTES: usize = 5;

/// Unsigned LEB128: seven bits a byte, the lowest first.
fn write_page_index(out: &mut Vec<u8>, mut index: u32) {
    for _ in 0..MAX_PAGE_INDEX_BYTES {
        let [.., low] = index.to_be_bytes();
        index >>= 7;
        if index == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Reads a minimal LEB128 integer of 32 bits; gives the rest too.
fn read_page_index(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut index: u64 = 0;
    for (place, &byte) in bytes.iter().enumerate().take(MAX_PAGE_INDEX_BYTES) {
        index |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            let minimal = byte != 0 || place == 0;
            let (_, rest) = bytes.split_at(place + 1);
            return u32::try_from(index).ok().filter(|_| minimal).map(|index| (index, rest));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn page_indexes_survive(index: u32, rest in proptest::collection::vec(any::<u8>(), 0..8)) {
            let mut bytes = Vec::new();
            write_page_index(&mut bytes, index);
            bytes.extend_from_slice(&rest);
            prop_assert_eq!(read_page_index(&bytes), Some((index, rest.as_slice())));
        }

        #[test]
        fn a_page_index_has_one_form(bytes in proptest::collection::vec(any::<u8>(), 0..8)) {
            if let Some((index, rest)) = read_page_index(&bytes) {
                let mut again = Vec::new();
                write_page_index(&mut again, index);
                again.extend_from_slice(rest);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn refuses_page_indexes_that_are_cut_long_or_not_minimal() {
        for bytes in [
            &[][..],
            &[0x80],
            &[0x80, 0x00],
            &[0xff, 0xff, 0xff, 0xff, 0x1f],
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x00],
            &[0xff; 6],
        ] {
            assert_eq!(read_page_index(bytes), None, "{bytes:x?}");
        }
    }
}
