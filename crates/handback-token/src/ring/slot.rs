//! One slot of a ring.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::key::MasterKey;
use crate::time::UnixTime;

/// How many slots a ring has: what the low half of a token's first byte can name.
pub const SLOTS: usize = 16;

/// The number of a slot, 0 to 15.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotNumber(u8);

impl SlotNumber {
    /// Slot 0.
    pub const FIRST: Self = Self(0);

    /// `None` above 15.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < SLOTS { Some(Self(number)) } else { None }
    }

    /// 0 to 15.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// All 16, ascending.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::FIRST.round()
    }

    /// All 16, beginning with this one and going round.
    pub(crate) fn round(self) -> impl Iterator<Item = Self> {
        (0..16).map(move |step| Self((self.0 + step) % 16))
    }

    pub(crate) const fn next(self) -> Self {
        Self((self.0 + 1) % 16)
    }

    /// The slot that a header byte names.
    pub(crate) const fn of_header(header: u8) -> Self {
        Self(header & 0x0f)
    }

    /// The header byte of this slot.
    pub(crate) const fn header(self, high_nibble: u8) -> u8 {
        (high_nibble << 4) | self.0
    }
}

impl fmt::Display for SlotNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SlotNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a slot's key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "a fourth state would change the key file's format")]
pub enum SlotState {
    /// Seals and opens.
    Active,
    /// Opens.
    Accepting,
    /// Opens only to answer `expired`.
    Retired,
}

impl SlotState {
    /// `active`, `accepting` or `retired`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Accepting => "accepting",
            Self::Retired => "retired",
        }
    }

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Active => 1,
            Self::Accepting => 2,
            Self::Retired => 3,
        }
    }
}

/// How a slot's tokens are protected. A slot has one mode, so that a token cannot choose its
/// algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "a third mode would change the wire format")]
pub enum Mode {
    /// Encrypted and authenticated with AES-256-GCM-SIV: nobody else can read the body. The default.
    Sealed,
    /// Authenticated with HMAC-SHA256: everybody can read the body. For places without AES-GCM-SIV.
    Signed,
}

impl Mode {
    /// `sealed` or `signed`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sealed => "sealed",
            Self::Signed => "signed",
        }
    }

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Signed => 1,
            Self::Sealed => 2,
        }
    }

    pub(crate) const fn algorithm(self) -> &'static str {
        match self {
            Self::Sealed => "aes-256-gcm-siv",
            Self::Signed => "hmac-sha256-128",
        }
    }
}

/// What may be shown of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotInfo {
    /// Its number.
    pub number: SlotNumber,
    /// What its key may do.
    pub state: SlotState,
    /// How its tokens are protected.
    pub mode: Mode,
    /// When it entered that state.
    pub since: UnixTime,
}

#[derive(Clone)]
pub(crate) struct Slot {
    pub(crate) key: MasterKey,
    pub(crate) state: SlotState,
    pub(crate) mode: Mode,
    pub(crate) since: UnixTime,
}

impl Slot {
    pub(super) const fn active(key: MasterKey, mode: Mode, since: UnixTime) -> Self {
        Self { key, state: SlotState::Active, mode, since }
    }

    pub(super) const fn accepting(key: MasterKey, mode: Mode, since: UnixTime) -> Self {
        Self { key, state: SlotState::Accepting, mode, since }
    }

    pub(super) const fn info(&self, number: SlotNumber) -> SlotInfo {
        SlotInfo { number, state: self.state, mode: self.mode, since: self.since }
    }
}
