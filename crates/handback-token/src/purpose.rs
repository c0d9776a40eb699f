//! What tokens are for: cursor, request state, resume token.
//!
//! A purpose is a type, so that a cursor cannot be passed where request state is wanted. It fixes
//! the label of the derived key, the longest text, the longest life, and the head of the body.

use std::fmt;

use rand_core::CryptoRng;

use crate::encoding::Writer;
use crate::time::{CLOCK_SKEW_S, UnixTime};

/// A purpose of tokens: [`Cursor`], [`State`] or [`Resume`].
pub trait Purpose: sealed::Sealed + fmt::Debug {
    /// Label of the derived key and context field 1.
    const LABEL: &'static str;
    /// The longest text, in characters. Nothing longer is minted, nor decoded.
    const MAX_CHARS: usize;
    /// How long a token lives unless configured otherwise, in seconds.
    const DEFAULT_TTL_S: u32;
    /// The longest life that any configuration can give, in seconds.
    const MAX_LIFE_S: u32;
    /// What the body starts with.
    type Head: Head;
}

/// Where a walk over a collection goes on.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Cursor;

/// What an unfinished exchange must remember.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct State;

/// Which duplex, as whom, from which event.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Resume;

impl Purpose for Cursor {
    const LABEL: &'static str = "cursor";
    const MAX_CHARS: usize = 512;
    const DEFAULT_TTL_S: u32 = 15 * 60;
    const MAX_LIFE_S: u32 = 24 * 3600;
    type Head = NoHead;
}

impl Purpose for State {
    const LABEL: &'static str = "state";
    const MAX_CHARS: usize = 16 * 1024;
    const DEFAULT_TTL_S: u32 = 5 * 60;
    const MAX_LIFE_S: u32 = 3600;
    type Head = StateHead;
}

impl Purpose for Resume {
    const LABEL: &'static str = "resume";
    const MAX_CHARS: usize = 512;
    const DEFAULT_TTL_S: u32 = 15 * 60;
    const MAX_LIFE_S: u32 = 2 * 3600;
    type Head = ResumeHead;
}

/// The longest life of any token.
pub const LONGEST_LIFE_S: u32 = Cursor::MAX_LIFE_S;

/// How long a key must go on opening after it stopped sealing: the longest life, the minute by which
/// a token may be used late, and the minute by which the clock that made it may be ahead.
pub const RETIRE_AFTER_S: u64 = LONGEST_LIFE_S as u64 + 2 * CLOCK_SKEW_S;

const _: () = assert!(
    LONGEST_LIFE_S >= State::MAX_LIFE_S && LONGEST_LIFE_S >= Resume::MAX_LIFE_S,
    "no purpose outlives the longest life"
);

/// A random id that single use and cut-offs go by. Each round of an exchange has a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenId([u8; 16]);

impl TokenId {
    /// The 16 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
        let mut id = [0; 16];
        rng.fill_bytes(&mut id);
        Self(id)
    }
}

/// The head of a token's body. Sealed: the three purposes have all there are.
pub trait Head: sealed::Sealed + Clone + fmt::Debug + Sized {
    /// Its size in bytes.
    #[doc(hidden)]
    const BYTES: usize;
    /// The head of a token that follows no other.
    #[doc(hidden)]
    fn first<R: CryptoRng + ?Sized>(rng: &mut R, now: u32) -> Self;
    /// The head of the token that follows the one with this head; `None` if there can be none.
    #[doc(hidden)]
    fn next<R: CryptoRng + ?Sized>(&self, rng: &mut R) -> Option<Self>;
    /// When the exchange began, if the head says.
    #[doc(hidden)]
    fn born(&self) -> Option<u32>;
    /// Writes its bytes.
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "the trait is sealed; nobody else calls it")]
    fn write<'m>(&self, out: Writer<'m>) -> Writer<'m>;
    /// Reads it from the front of a body.
    #[doc(hidden)]
    fn read(body: &[u8]) -> Option<Self>;
}

/// Cursors have no head: the same page minted again is the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoHead;

/// Head of request state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHead {
    id: TokenId,
    born: u32,
}

/// Head of a resume token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeHead {
    state: StateHead,
    generation: u32,
}

impl StateHead {
    /// This round's id.
    #[must_use]
    pub const fn id(&self) -> TokenId {
        self.id
    }

    /// When the first round was minted.
    #[must_use]
    pub fn born_at(&self) -> UnixTime {
        self.born.into()
    }
}

impl ResumeHead {
    /// This token's id.
    #[must_use]
    pub const fn id(&self) -> TokenId {
        self.state.id
    }

    /// When the first token of the duplex was minted.
    #[must_use]
    pub fn born_at(&self) -> UnixTime {
        self.state.born_at()
    }

    /// 0 for the first token of a duplex, then one more each time.
    #[must_use]
    pub const fn generation(&self) -> u32 {
        self.generation
    }
}

impl Head for NoHead {
    const BYTES: usize = 0;

    fn first<R: CryptoRng + ?Sized>(_rng: &mut R, _now: u32) -> Self {
        Self
    }

    fn next<R: CryptoRng + ?Sized>(&self, _rng: &mut R) -> Option<Self> {
        Some(Self)
    }

    fn born(&self) -> Option<u32> {
        None
    }

    #[expect(private_interfaces, reason = "as above")]
    fn write<'m>(&self, out: Writer<'m>) -> Writer<'m> {
        out
    }

    fn read(_body: &[u8]) -> Option<Self> {
        Some(Self)
    }
}

impl Head for StateHead {
    const BYTES: usize = 16 + 4;

    fn first<R: CryptoRng + ?Sized>(rng: &mut R, now: u32) -> Self {
        Self { id: TokenId::generate(rng), born: now }
    }

    fn next<R: CryptoRng + ?Sized>(&self, rng: &mut R) -> Option<Self> {
        Some(Self { id: TokenId::generate(rng), born: self.born })
    }

    fn born(&self) -> Option<u32> {
        Some(self.born)
    }

    #[expect(private_interfaces, reason = "as above")]
    fn write<'m>(&self, out: Writer<'m>) -> Writer<'m> {
        out.put(&self.id.0).put(&self.born.to_be_bytes())
    }

    fn read(body: &[u8]) -> Option<Self> {
        let (id, rest) = body.split_first_chunk()?;
        let born = rest.first_chunk()?;
        Some(Self { id: TokenId(*id), born: u32::from_be_bytes(*born) })
    }
}

impl Head for ResumeHead {
    const BYTES: usize = StateHead::BYTES + 4;

    fn first<R: CryptoRng + ?Sized>(rng: &mut R, now: u32) -> Self {
        Self { state: StateHead::first(rng, now), generation: 0 }
    }

    fn next<R: CryptoRng + ?Sized>(&self, rng: &mut R) -> Option<Self> {
        let generation = self.generation.checked_add(1)?;
        Some(Self { state: self.state.next(rng)?, generation })
    }

    fn born(&self) -> Option<u32> {
        self.state.born()
    }

    #[expect(private_interfaces, reason = "as above")]
    fn write<'m>(&self, out: Writer<'m>) -> Writer<'m> {
        self.state.write(out).put(&self.generation.to_be_bytes())
    }

    fn read(body: &[u8]) -> Option<Self> {
        let state = StateHead::read(body)?;
        let generation = body.get(StateHead::BYTES..)?.first_chunk()?;
        Some(Self { state, generation: u32::from_be_bytes(*generation) })
    }
}

mod sealed {
    /// Nobody else can add a purpose.
    #[expect(unnameable_types, reason = "this is what seals the traits")]
    pub trait Sealed {}
    impl Sealed for super::Cursor {}
    impl Sealed for super::State {}
    impl Sealed for super::Resume {}
    impl Sealed for super::NoHead {}
    impl Sealed for super::StateHead {}
    impl Sealed for super::ResumeHead {}
}
