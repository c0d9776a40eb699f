//! Sealing and opening tokens.
//!
//! A [`Sealer`] holds the derived keys of a ring. [`Sealer::bind`] hashes the context once per call;
//! the [`Bound`] sealer then opens what came in and seals what goes out. Wire forms and the order of
//! the checks are in `docs/spec/tokens.md`, sections 5 and 6.
//!
//! ```
//! use handback_token::{Caller, Context, Cursor, KeyRing, Mode, Operation, Sealer, UnixTime};
//!
//! let mut rng = rand::rng();
//! let now = UnixTime::from_secs(1_800_000_000);
//! let ring = KeyRing::generate(&mut rng, Mode::Sealed, now);
//! let sealer = Sealer::new(&ring, Default::default())?;
//!
//! let alice = Caller::dangerous_identified("https://id.example", "alice");
//! let context = Context::new(alice, Operation::Call).name("orders.search");
//! let bound = sealer.bind::<Cursor>(&context)?;
//! let first = bound.seal(&mut rng, now, b"after row 20")?;
//!
//! let opened = bound.open(first.as_str(), now)?;
//! assert_eq!(opened.payload(), b"after row 20");
//! let second = bound.seal_after(&opened, &mut rng, now, b"after row 40")?;
//!
//! let bob = Caller::dangerous_identified("https://id.example", "bob");
//! let other = Context::new(bob, Operation::Call).name("orders.search");
//! assert!(sealer.bind::<Cursor>(&other)?.open(second.as_str(), now).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The alternatives that were rejected: carrying the context and comparing it after opening (a
//! comparison can be forgotten, and the token is four times as long); a random 12-byte nonce (14
//! more characters); trying every key of the ring (the header names the slot).

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand_core::CryptoRng;

use crate::context::{Context, ContextDigest, ContextError, ContextPrefix};
use crate::crypto::{self, Form, PurposeKey, Salt, TAG_BYTES};
use crate::encoding::{self, Writer};
use crate::fingerprint::TokenFingerprint;
use crate::purpose::{Cursor, Head as _, Purpose, Resume, State};
use crate::refusal::{Reason, Refused};
use crate::ring::{KeyRing, Mode, SLOTS, SlotNumber, SlotState};
use crate::time::{CLOCK_SKEW_S, UnixTime};

/// What a [`Sealer`] is told besides its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal with `..Default::default()`")]
pub struct SealerConfig {
    /// Context field 2; the ring's id if there is none. Replicas that share a ring share this.
    pub audience: Option<String>,
    /// How long cursors live, in seconds: 1 to 86,400.
    pub cursor_ttl_s: u32,
    /// How long request state lives, in seconds: 1 to 3,600.
    pub state_ttl_s: u32,
    /// How long resume tokens live, in seconds: 1 to 7,200.
    pub resume_ttl_s: u32,
}

impl Default for SealerConfig {
    fn default() -> Self {
        Self {
            audience: None,
            cursor_ttl_s: Cursor::DEFAULT_TTL_S,
            state_ttl_s: State::DEFAULT_TTL_S,
            resume_ttl_s: Resume::DEFAULT_TTL_S,
        }
    }
}

/// The derived keys of a ring, ready to seal and open.
pub struct Sealer {
    audience: String,
    active: SlotNumber,
    cursor: PurposeKeys,
    state: PurposeKeys,
    resume: PurposeKeys,
}

struct PurposeKeys {
    ttl_s: u32,
    context: ContextPrefix,
    slots: [Option<(SlotState, PurposeKey)>; SLOTS],
    tally: Tally,
}

/// How often something was sealed and opened. It is written by every call, so it has a line of the
/// cache to itself: keys are only read.
#[derive(Default)]
#[repr(align(64))]
struct Tally {
    sealed: AtomicU64,
    opened: AtomicU64,
}

/// How many tokens of one purpose a [`Sealer`] has sealed, and how many it has opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tallied {
    /// Tokens that were sealed.
    pub sealed: u64,
    /// Tokens that came back and opened.
    pub opened: u64,
}

impl Sealer {
    /// Derives the keys of `ring` for every purpose.
    ///
    /// # Errors
    ///
    /// [`SealerError`] if a TTL is zero or above its purpose's maximum, or the audience is empty or
    /// too long to be bound.
    pub fn new(ring: &KeyRing, config: SealerConfig) -> Result<Self, SealerError> {
        let audience = config.audience.unwrap_or_else(|| ring.id().to_string());
        Ok(Self {
            active: ring.active(),
            cursor: PurposeKeys::derive::<Cursor>(ring, &audience, config.cursor_ttl_s)?,
            state: PurposeKeys::derive::<State>(ring, &audience, config.state_ttl_s)?,
            resume: PurposeKeys::derive::<Resume>(ring, &audience, config.resume_ttl_s)?,
            audience,
        })
    }

    /// What context field 2 holds.
    #[must_use]
    pub fn audience(&self) -> &str {
        &self.audience
    }

    /// The earliest second at which a cursor that ends then was made: it says when it ends, to the
    /// minute, and not when it was born.
    #[must_use]
    pub const fn cursor_born_after(&self, expires_at: UnixTime) -> UnixTime {
        let longest = self.cursor.ttl_s as u64 + ROUNDING_S;
        UnixTime::from_secs(expires_at.as_secs().saturating_sub(longest))
    }

    /// How long request state is good.
    #[must_use]
    pub const fn state_life(&self) -> Duration {
        Duration::from_secs(self.state.ttl_s as u64)
    }

    /// How many tokens of a purpose it has sealed and opened so far.
    #[must_use]
    pub fn tallied<P: KeyedPurpose>(&self) -> Tallied {
        let Tally { sealed, opened } = &P::keys(self).tally;
        Tallied { sealed: sealed.load(Ordering::Relaxed), opened: opened.load(Ordering::Relaxed) }
    }

    /// Binds the context of one call. What the bound sealer seals opens under this context only.
    ///
    /// # Errors
    ///
    /// [`ContextError`] if a field is too long.
    pub fn bind<P: KeyedPurpose>(
        &self,
        context: &Context<'_>,
    ) -> Result<Bound<'_, P>, ContextError> {
        Ok(Bound {
            keys: P::keys(self),
            active: self.active,
            context: context.digest_after(&P::keys(self).context)?,
            identified: context.is_identified(),
            purpose: PhantomData,
        })
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("audience", &self.audience)
            .field("active", &self.active)
            .finish_non_exhaustive()
    }
}

impl PurposeKeys {
    fn derive<P: Purpose>(ring: &KeyRing, audience: &str, ttl_s: u32) -> Result<Self, SealerError> {
        let bytes = audience.len();
        let context = match ContextPrefix::new(P::LABEL, audience) {
            Ok(context) if !audience.is_empty() => context,
            _ => return Err(SealerError::Audience { bytes }),
        };
        if !(1..=P::MAX_LIFE_S).contains(&ttl_s) {
            return Err(SealerError::Ttl {
                purpose: P::LABEL,
                seconds: ttl_s,
                max_s: P::MAX_LIFE_S,
            });
        }
        let mut slots = [const { None }; SLOTS];
        for (number, slot) in ring.occupied() {
            let key = PurposeKey::derive(&slot.key, slot.mode, P::LABEL);
            if let Some(place) = slots.get_mut(number.index()) {
                *place = Some((slot.state, key));
            }
        }
        Ok(Self { ttl_s, context, slots, tally: Tally::default() })
    }

    fn slot(&self, number: SlotNumber) -> Option<&(SlotState, PurposeKey)> {
        self.slots.get(number.index())?.as_ref()
    }
}

/// A purpose for which a [`Sealer`] holds keys: all of them.
pub trait KeyedPurpose: Purpose {
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "the trait is sealed; nobody else names the type")]
    fn keys(sealer: &Sealer) -> &PurposeKeys;
}

#[expect(private_interfaces, reason = "as above")]
impl KeyedPurpose for Cursor {
    fn keys(sealer: &Sealer) -> &PurposeKeys {
        &sealer.cursor
    }
}

#[expect(private_interfaces, reason = "as above")]
impl KeyedPurpose for State {
    fn keys(sealer: &Sealer) -> &PurposeKeys {
        &sealer.state
    }
}

#[expect(private_interfaces, reason = "as above")]
impl KeyedPurpose for Resume {
    fn keys(sealer: &Sealer) -> &PurposeKeys {
        &sealer.resume
    }
}

/// A [`Sealer`] bound to the context of one call.
#[must_use]
pub struct Bound<'s, P> {
    keys: &'s PurposeKeys,
    active: SlotNumber,
    context: ContextDigest,
    identified: bool,
    purpose: PhantomData<P>,
}

impl<P: Purpose> Bound<'_, P> {
    /// Opens a token that came back.
    ///
    /// # Errors
    ///
    /// [`Refused`], with the first of the checks that failed.
    pub fn open(&self, text: &str, now: UnixTime) -> Result<Opened<P>, Refused> {
        if text.len() > P::MAX_CHARS {
            return Err(Reason::TooLong.into());
        }
        let mut token = encoding::decode(text).ok_or(Reason::Malformed)?;
        let (form, slot) = Form::of(&token).ok_or(Reason::Malformed)?;
        let (state, key) = self.keys.slot(slot).ok_or(Reason::UnknownSlot)?;
        if form.mode() != key.mode() {
            return Err(Reason::Malformed.into());
        }
        let (exp, body) =
            crypto::open(key, form, &self.context, &mut token).ok_or(Reason::NotOpened)?;
        if *state == SlotState::Retired {
            return Err(Reason::RetiredKey.into());
        }
        let salt = Salt::of(form, &token);
        let head = token.get(body.clone()).and_then(P::Head::read).ok_or(Reason::Malformed)?;
        let opened = Opened {
            payload: body.start + P::Head::BYTES..body.end,
            token,
            head,
            exp,
            salt,
            slot,
            purpose: PhantomData,
        };
        opened.check_time(now)?;
        self.keys.tally.opened.fetch_add(1, Ordering::Relaxed);
        Ok(opened)
    }

    /// Seals a token that follows no other.
    ///
    /// # Errors
    ///
    /// [`SealError::TooLarge`] if the payload does not fit, [`SealError::Clock`] if `now` does not
    /// fit a token.
    pub fn seal<R: CryptoRng + ?Sized>(
        &self,
        rng: &mut R,
        now: UnixTime,
        payload: &[u8],
    ) -> Result<Token, SealError> {
        self.seal_salted(rng, now, payload, Salt::FIRST)
    }

    /// Seals the token that follows `opened`: the next page, the next round, the next generation.
    ///
    /// # Errors
    ///
    /// As [`seal`](Self::seal), and [`SealError::LifeOver`] if the exchange is as old as its purpose
    /// allows or has no further generation.
    pub fn seal_after<R: CryptoRng + ?Sized>(
        &self,
        opened: &Opened<P>,
        rng: &mut R,
        now: UnixTime,
        payload: &[u8],
    ) -> Result<Token, SealError> {
        let head = opened.head.next(rng).ok_or(SealError::LifeOver)?;
        self.mint(rng, now, &head, payload, opened.salt.next())
    }

    /// As [`seal`](Self::seal), with the salt of a cursor that follows another one.
    pub(crate) fn seal_salted<R: CryptoRng + ?Sized>(
        &self,
        rng: &mut R,
        now: UnixTime,
        payload: &[u8],
        short_salt: Salt,
    ) -> Result<Token, SealError> {
        let born = u32::try_from(now.as_secs()).map_err(|_| SealError::Clock)?;
        let head = P::Head::first(rng, born);
        self.mint(rng, now, &head, payload, short_salt)
    }

    /// The largest payload that fits a token of this context.
    #[must_use]
    pub fn payload_capacity(&self) -> usize {
        let overhead = self.form().overhead() + P::Head::BYTES;
        (P::MAX_CHARS * 3 / 4).saturating_sub(overhead)
    }

    fn mint<R: CryptoRng + ?Sized>(
        &self,
        rng: &mut R,
        now: UnixTime,
        head: &P::Head,
        payload: &[u8],
        short_salt: Salt,
    ) -> Result<Token, SealError> {
        let capacity = self.payload_capacity();
        if payload.len() > capacity {
            return Err(SealError::TooLarge { bytes: payload.len(), capacity });
        }
        let exp = self.expiry(now, head)?;
        let form = self.form();
        let salt = match form {
            Form::Signed => Salt::None,
            Form::SealedShort => short_salt,
            Form::SealedLong => Salt::random(rng),
        };
        let len = form.overhead() + P::Head::BYTES + payload.len();
        let mut stack = [0; Cursor::MAX_CHARS * 3 / 4];
        let mut heap = Vec::new();
        let token = match stack.get_mut(..len) {
            Some(token) => token,
            None => {
                heap.resize(len, 0);
                heap.as_mut_slice()
            }
        };
        let front = crypto::begin(Writer(token), form, self.active, salt, exp);
        head.write(front).put(payload).put(&[0; TAG_BYTES]).done();
        crypto::seal(self.active_key(), form, &self.context, token);
        self.keys.tally.sealed.fetch_add(1, Ordering::Relaxed);
        Ok(Token(encoding::encode(token)))
    }

    fn expiry(&self, now: UnixTime, head: &P::Head) -> Result<u32, SealError> {
        let latest = now.plus(u64::from(P::MAX_LIFE_S)).as_secs();
        let wanted = now.plus(u64::from(self.keys.ttl_s)).as_secs();
        let exp = match head.born() {
            Some(born) => {
                let end = u64::from(born) + u64::from(P::MAX_LIFE_S);
                if now.as_secs() >= end {
                    return Err(SealError::LifeOver);
                }
                wanted.min(end)
            }
            None => {
                let rounded = wanted.div_ceil(ROUNDING_S).saturating_mul(ROUNDING_S);
                if rounded <= latest { rounded } else { latest / ROUNDING_S * ROUNDING_S }
            }
        };
        u32::try_from(exp).map_err(|_| SealError::Clock)
    }

    fn form(&self) -> Form {
        match self.active_key().mode() {
            Mode::Signed => Form::Signed,
            Mode::Sealed if P::Head::BYTES == 0 && self.identified => Form::SealedShort,
            Mode::Sealed => Form::SealedLong,
        }
    }

    fn active_key(&self) -> &PurposeKey {
        let (_, key) = self.keys.slot(self.active).expect("a ring always has its active slot");
        key
    }
}

/// The expiry of cursors is rounded up to the minute, so that the same page minted again is the
/// same text.
const ROUNDING_S: u64 = 60;

impl<P> fmt::Debug for Bound<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound").field("identified", &self.identified).finish_non_exhaustive()
    }
}

/// A token that opened. Only [`Bound::open`] makes one.
#[derive(Clone)]
#[must_use]
pub struct Opened<P: Purpose> {
    token: Vec<u8>,
    payload: std::ops::Range<usize>,
    head: P::Head,
    exp: u32,
    salt: Salt,
    slot: SlotNumber,
    purpose: PhantomData<P>,
}

impl<P: Purpose> Opened<P> {
    /// What was sealed.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.token.get(self.payload.clone()).unwrap_or_default()
    }

    /// The head of the body: id, birth and generation, where the purpose has them.
    #[must_use]
    pub const fn head(&self) -> &P::Head {
        &self.head
    }

    /// The second at which it expires.
    #[must_use]
    pub fn expires_at(&self) -> UnixTime {
        self.exp.into()
    }

    /// The key slot that it was made under.
    #[must_use]
    pub const fn slot(&self) -> SlotNumber {
        self.slot
    }

    pub(crate) const fn salt(&self) -> Salt {
        self.salt
    }

    fn check_time(&self, now: UnixTime) -> Result<(), Reason> {
        let life = u64::from(P::MAX_LIFE_S);
        let expires = self.expires_at();
        let born = self.head.born().map(UnixTime::from);
        if now >= expires.plus(CLOCK_SKEW_S)
            || born.is_some_and(|born| now >= born.plus(life + CLOCK_SKEW_S))
        {
            return Err(Reason::Expired);
        }
        if expires > now.plus(life + CLOCK_SKEW_S)
            || born.is_some_and(|born| born > now.plus(CLOCK_SKEW_S))
        {
            return Err(Reason::TooFar);
        }
        Ok(())
    }
}

impl<P: Purpose> fmt::Debug for Opened<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("purpose", &P::LABEL)
            .field("payload_bytes", &self.payload.len())
            .field("head", &self.head)
            .field("exp", &self.exp)
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}

/// A token that goes out. `Debug` shows its fingerprint only.
#[derive(Clone, PartialEq, Eq)]
#[must_use]
pub struct Token(String);

impl Token {
    /// The text to hand out.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text to hand out.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    /// What stands for it in audit lines.
    #[must_use]
    pub fn fingerprint(&self) -> TokenFingerprint {
        TokenFingerprint::of(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.fingerprint())
    }
}

/// A token that cannot be minted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The payload does not fit. What is larger belongs into a store, under an id.
    #[error("a payload of {bytes} bytes does not fit a token, which holds {capacity}")]
    TooLarge {
        /// Length of the payload.
        bytes: usize,
        /// What would fit.
        capacity: usize,
    },
    /// The exchange is as old as its purpose allows, or has no further generation.
    #[error("the exchange is at the end of its life")]
    LifeOver,
    /// The time does not fit 32 bits of seconds.
    #[error("the clock is outside of what a token can say")]
    Clock,
}

/// A configuration that no [`Sealer`] is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealerError {
    /// A TTL is zero or above the maximum.
    #[error("a {purpose} lives 1 to {max_s} seconds, not {seconds}")]
    Ttl {
        /// Whose TTL.
        purpose: &'static str,
        /// What was asked for.
        seconds: u32,
        /// What is possible.
        max_s: u32,
    },
    /// The audience is empty or too long.
    #[error("an audience has 1 to 65536 bytes, not {bytes}")]
    Audience {
        /// Its length.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Caller, Operation};
    use crate::encoding::counter;

    const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

    fn sealer() -> Sealer {
        let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, NOW);
        Sealer::new(&ring, SealerConfig::default()).unwrap()
    }

    fn refused<P: KeyedPurpose>(sealer: &Sealer, text: &str) -> Reason {
        let context = Context::new(Caller::UNAUTHENTICATED, Operation::Call);
        sealer.bind::<P>(&context).unwrap().open(text, NOW).unwrap_err().reason()
    }

    #[test]
    fn what_is_sealed_and_opened_is_counted() {
        let (sealer, mut rng) = (sealer(), rand::rng());
        let context = Context::new(Caller::UNAUTHENTICATED, Operation::Call);
        let bound = sealer.bind::<Cursor>(&context).unwrap();
        let token = bound.seal(&mut rng, NOW, b"1").unwrap();
        let opened = bound.open(token.as_str(), NOW).unwrap();
        let _next = bound.seal_after(&opened, &mut rng, NOW, b"2").unwrap();
        assert!(bound.open("AAAA", NOW).is_err());
        assert!(bound.seal(&mut rng, NOW, &[0; 10_000]).is_err());
        assert_eq!(sealer.tallied::<Cursor>(), Tallied { sealed: 2, opened: 1 });
        assert_eq!(sealer.tallied::<State>(), Tallied::default());
    }

    #[test]
    fn nothing_past_the_cap_is_decoded() {
        fn check<P: KeyedPurpose>(sealer: &Sealer) {
            for len in [P::MAX_CHARS + 1, P::MAX_CHARS * 2, 10_000_000] {
                let text = "A".repeat(len);
                let decoded = counter::count(|| {
                    assert_eq!(refused::<P>(sealer, &text), Reason::TooLong);
                });
                assert_eq!(decoded, 0, "{} of {len} characters", P::LABEL);
            }
            let text = "A".repeat(P::MAX_CHARS);
            let decoded = counter::count(|| {
                assert_eq!(refused::<P>(sealer, &text), Reason::Malformed);
            });
            assert_eq!(decoded, P::MAX_CHARS);
        }
        let sealer = sealer();
        check::<Cursor>(&sealer);
        check::<State>(&sealer);
        check::<Resume>(&sealer);
    }

    #[test]
    fn a_cursor_is_never_taken_for_younger_than_it_is() {
        let sealer = sealer();
        let context = Context::new(Caller::UNAUTHENTICATED, Operation::List);
        // At the start of a minute, within it, and at its end.
        for seconds in [0, 1, 59, 60] {
            let now = NOW.plus(seconds);
            let bound = sealer.bind::<Cursor>(&context).unwrap();
            let cursor = bound.seal(&mut rand::rng(), now, b"x").unwrap();
            let opened = bound.open(cursor.as_str(), now).unwrap();
            let born = sealer.cursor_born_after(opened.expires_at());
            assert!(born <= now && now < born.plus(2 * ROUNDING_S), "{born:?} {now:?}");
        }
    }

    #[test]
    fn a_sealer_refuses_ttls_and_audiences_that_make_no_sense() {
        let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, NOW);
        let default = SealerConfig::default;
        for config in [
            SealerConfig { cursor_ttl_s: 0, ..default() },
            SealerConfig { cursor_ttl_s: Cursor::MAX_LIFE_S + 1, ..default() },
            SealerConfig { state_ttl_s: 0, ..default() },
            SealerConfig { state_ttl_s: State::MAX_LIFE_S + 1, ..default() },
            SealerConfig { resume_ttl_s: 0, ..default() },
            SealerConfig { resume_ttl_s: u32::MAX, ..default() },
        ] {
            let error = Sealer::new(&ring, config.clone()).unwrap_err();
            assert!(matches!(error, SealerError::Ttl { .. }), "{config:?}");
        }
        for audience in [String::new(), "a".repeat(crate::MAX_CONTEXT_FIELD_BYTES + 1)] {
            let bytes = audience.len();
            let config = SealerConfig { audience: Some(audience), ..default() };
            assert_eq!(Sealer::new(&ring, config).unwrap_err(), SealerError::Audience { bytes });
        }
        let longest = "a".repeat(crate::MAX_CONTEXT_FIELD_BYTES);
        let config = SealerConfig { audience: Some(longest.clone()), ..default() };
        assert_eq!(Sealer::new(&ring, config).unwrap().audience(), longest);
        let sealer = Sealer::new(&ring, default()).unwrap();
        assert_eq!(sealer.audience(), ring.id().to_string());
    }

    #[test]
    fn the_defaults_are_those_that_are_documented() {
        let config = SealerConfig::default();
        assert_eq!((config.cursor_ttl_s, config.state_ttl_s, config.resume_ttl_s), (900, 300, 900));
        assert_eq!(
            (Cursor::MAX_LIFE_S, State::MAX_LIFE_S, Resume::MAX_LIFE_S),
            (86_400, 3600, 7200)
        );
        assert_eq!((Cursor::MAX_CHARS, State::MAX_CHARS, Resume::MAX_CHARS), (512, 16_384, 512));
    }

    #[test]
    fn the_capacity_is_exact() {
        let context = Context::new(Caller::UNAUTHENTICATED, Operation::Call);
        let sealer = sealer();
        let bound = sealer.bind::<Resume>(&context).unwrap();
        let capacity = bound.payload_capacity();
        let token = bound.seal(&mut rand::rng(), NOW, &vec![0; capacity]).unwrap();
        assert_eq!(token.as_str().len(), Resume::MAX_CHARS);
        assert_eq!(
            bound.seal(&mut rand::rng(), NOW, &vec![0; capacity + 1]),
            Err(SealError::TooLarge { bytes: capacity + 1, capacity })
        );
    }

    #[test]
    fn resume_tokens_count_generations_up_to_their_last() {
        let context = Context::new(Caller::UNAUTHENTICATED, Operation::Duplex);
        let sealer = sealer();
        let bound = sealer.bind::<Resume>(&context).unwrap();
        let rng = &mut rand::rng();
        let mut token = bound.seal(rng, NOW, b"event 1").unwrap();
        for generation in 0..5 {
            let opened = bound.open(token.as_str(), NOW).unwrap();
            assert_eq!(opened.head().generation(), generation);
            assert_eq!(opened.head().born_at(), NOW);
            token = bound.seal_after(&opened, rng, NOW, b"event 2").unwrap();
            let next = bound.open(token.as_str(), NOW).unwrap();
            assert_ne!(next.head().id(), opened.head().id());
        }
    }
}
