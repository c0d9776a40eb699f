//! The key ring: master keys in 16 numbered slots.
//!
//! | state | seals | opens |
//! |---|---|---|
//! | active | yes | yes |
//! | accepting | no | yes |
//! | retired | no | only to answer `expired` |
//!
//! A rotation that loses no token: [`add`](KeyRing::add) a key as accepting on every replica,
//! [`promote`](KeyRing::promote) it on every replica, [`retire`](KeyRing::retire) the old one once
//! the longest life of a token has passed, and [drop](KeyRing::drop_slot) it when nothing is wrapped
//! under it any more. Slot numbers go round, so that a number is reused as late as possible.
//!
//! The ring lives in a [key file](mod@file), in [`HANDBACK_KEYS`](source), or is made from one secret.

pub mod file;
mod slot;
pub mod source;
mod text;
mod wrap;

use std::fmt;

use rand_core::CryptoRng;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::encoding;
use crate::key::MasterKey;
use crate::purpose::RETIRE_AFTER_S;
use crate::time::UnixTime;

pub(crate) use slot::Slot;
pub use slot::{Mode, SLOTS, SlotInfo, SlotNumber, SlotState};
pub use text::{MAX_KEY_FILE_BYTES, ParseRingError};
pub use wrap::{DataKey, SigningSeed, UnwrapError, Wrappable, WrappedKey};

/// The random id of a ring, which is also the default audience of its tokens.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RingId([u8; 16]);

impl RingId {
    /// The 16 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for RingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encoding::encode(&self.0))
    }
}

impl fmt::Debug for RingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RingId({self})")
    }
}

/// Master keys in numbered slots, exactly one of them active.
#[derive(Clone)]
pub struct KeyRing {
    id: RingId,
    generation: u64,
    next_slot: SlotNumber,
    slots: [Option<Slot>; SLOTS],
}

/// When a slot may be retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way to retire a key")]
pub enum Retire {
    /// Only when no token made under it can still be alive.
    AfterLongestLife,
    /// At once, because the key is compromised: its tokens answer `expired` from now on.
    Immediately,
}

impl KeyRing {
    /// A ring with one random key.
    pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R, mode: Mode, now: UnixTime) -> Self {
        let mut id = [0; 16];
        rng.fill_bytes(&mut id);
        Self::of_one(RingId(id), Slot::active(MasterKey::generate(rng), mode, now))
    }

    /// The ring of a secret that replicas share: every replica with this secret has this ring.
    ///
    /// It cannot be rotated without changing the secret on all of them; a key file can.
    #[must_use]
    pub fn from_secret(secret: &MasterKey, mode: Mode) -> Self {
        Self::from_secret_of(secret, "secret", mode)
    }

    pub(crate) fn from_secret_of(secret: &MasterKey, origin: &str, mode: Mode) -> Self {
        let id = secret.derive("ring-id", origin);
        let (id, _rest) = id.split_first_chunk().expect("16 of 32 bytes");
        let master = MasterKey::from_bytes(secret.derive("slot-0", origin).as_slice())
            .expect("derived keys have 32 bytes that are not all equal");
        Self::of_one(RingId(*id), Slot::active(master, mode, UnixTime::from_secs(0)))
    }

    fn of_one(id: RingId, slot: Slot) -> Self {
        let mut slots = [const { None }; SLOTS];
        let [first, ..] = &mut slots;
        *first = Some(slot);
        Self { id, generation: 1, next_slot: SlotNumber::FIRST.next(), slots }
    }

    /// The random id.
    #[must_use]
    pub const fn id(&self) -> RingId {
        self.id
    }

    /// One more at every change.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The slot that seals.
    #[must_use]
    pub fn active(&self) -> SlotNumber {
        self.occupied()
            .find(|(_, slot)| slot.state == SlotState::Active)
            .map(|(number, _)| number)
            .expect("every constructor and every change leaves exactly one active slot")
    }

    /// What may be shown of every slot that is not empty.
    pub fn slots(&self) -> impl Iterator<Item = SlotInfo> + '_ {
        self.occupied().map(|(number, slot)| slot.info(number))
    }

    /// What may be shown of one slot.
    #[must_use]
    pub fn slot(&self, number: SlotNumber) -> Option<SlotInfo> {
        self.get(number).map(|slot| slot.info(number))
    }

    /// The master key of a slot, as text. Whoever reads it can make and open its tokens.
    #[must_use]
    pub fn dangerous_reveal(&self, number: SlotNumber) -> Option<Zeroizing<String>> {
        self.get(number).map(|slot| slot.key.dangerous_reveal())
    }

    /// 16 hexadecimal digits by which people see that two replicas have the same ring.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut input = Vec::new();
        encoding::push_lp(&mut input, b"handback/v1/ring");
        input.extend_from_slice(&self.id.0);
        input.extend_from_slice(&self.generation.to_be_bytes());
        for (number, slot) in self.occupied() {
            input.extend_from_slice(&[number.get(), slot.state.code(), slot.mode.code()]);
            let check = slot.key.derive("check", "none");
            input.extend(check.iter().take(8));
        }
        let digest = Sha256::digest(&input);
        encoding::hex(digest.split_at(8).0)
    }

    /// Adds a random key as accepting, in the next free slot.
    ///
    /// # Errors
    ///
    /// [`RingError::Full`] if there is no free slot.
    pub fn add<R: CryptoRng + ?Sized>(
        &mut self,
        rng: &mut R,
        mode: Mode,
        now: UnixTime,
    ) -> Result<SlotNumber, RingError> {
        let number = self.free_slot().ok_or(RingError::Full)?;
        self.count_change()?;
        self.put(number, Slot::accepting(MasterKey::generate(rng), mode, now));
        self.next_slot = number.next();
        Ok(number)
    }

    /// Makes an accepting slot the active one; the active one becomes accepting.
    ///
    /// # Errors
    ///
    /// [`RingError::Empty`] or [`RingError::NotAccepting`].
    pub fn promote(&mut self, number: SlotNumber, now: UnixTime) -> Result<(), RingError> {
        let slot = self.get(number).ok_or(RingError::Empty(number))?;
        if slot.state != SlotState::Accepting {
            return Err(RingError::NotAccepting(number));
        }
        self.count_change()?;
        self.enter(self.active(), SlotState::Accepting, now);
        self.enter(number, SlotState::Active, now);
        Ok(())
    }

    /// Adds a key and promotes it: a rotation for a ring that only one process uses.
    ///
    /// # Errors
    ///
    /// [`RingError::Full`] if there is no free slot.
    pub fn rotate<R: CryptoRng + ?Sized>(
        &mut self,
        rng: &mut R,
        mode: Mode,
        now: UnixTime,
    ) -> Result<SlotNumber, RingError> {
        let mut changed = self.clone();
        let number = changed.add(rng, mode, now)?;
        changed.promote(number, now)?;
        *self = changed;
        Ok(number)
    }

    /// Retires an accepting slot: its tokens answer `expired`.
    ///
    /// # Errors
    ///
    /// [`RingError::Empty`], [`RingError::NotAccepting`], or [`RingError::TooSoon`] if tokens that
    /// were made under it may still be alive.
    pub fn retire(
        &mut self,
        number: SlotNumber,
        when: Retire,
        now: UnixTime,
    ) -> Result<(), RingError> {
        let slot = self.get(number).ok_or(RingError::Empty(number))?;
        if slot.state != SlotState::Accepting {
            return Err(RingError::NotAccepting(number));
        }
        let safe_at = slot.since.plus(RETIRE_AFTER_S);
        if when == Retire::AfterLongestLife && now < safe_at {
            return Err(RingError::TooSoon { slot: number, safe_at });
        }
        self.count_change()?;
        self.enter(number, SlotState::Retired, now);
        Ok(())
    }

    /// Empties a retired slot. `wrapped` is everything that is wrapped under this ring.
    ///
    /// # Errors
    ///
    /// [`RingError::Empty`], [`RingError::NotRetired`], or [`RingError::Wraps`] if something is still
    /// wrapped under it: that would be lost.
    pub fn drop_slot<'w>(
        &mut self,
        number: SlotNumber,
        wrapped: impl IntoIterator<Item = &'w WrappedKey>,
    ) -> Result<(), RingError> {
        let slot = self.get(number).ok_or(RingError::Empty(number))?;
        if slot.state != SlotState::Retired {
            return Err(RingError::NotRetired(number));
        }
        if wrapped.into_iter().any(|key| key.slot() == number) {
            return Err(RingError::Wraps(number));
        }
        self.count_change()?;
        self.clear(number);
        Ok(())
    }

    /// Begins a new epoch: every key that still opens is retired, and a fresh one is active. Tokens
    /// of earlier starts answer `expired`.
    ///
    /// If the ring is full, one slot that wraps nothing is dropped: the one that has been retired
    /// longest, or else the oldest that still opened.
    ///
    /// # Errors
    ///
    /// [`RingError::Full`] if every slot but the active one still wraps something.
    ///
    /// # Security
    ///
    /// Only for a ring that nobody else uses: replicas that share it would expire each other's
    /// tokens. [`source::LoadedRing::begin_epoch`] checks that.
    pub fn begin_epoch<'w, R: CryptoRng + ?Sized>(
        &mut self,
        rng: &mut R,
        mode: Mode,
        now: UnixTime,
        wrapped: impl IntoIterator<Item = &'w WrappedKey>,
    ) -> Result<SlotNumber, RingError> {
        let held: Vec<SlotNumber> = wrapped.into_iter().map(WrappedKey::slot).collect();
        let mut changed = self.clone();
        if changed.free_slot().is_none() {
            let is_active = |slot: &Slot| slot.state == SlotState::Active;
            let (dropped, _) = changed
                .occupied()
                .filter(|(number, slot)| !is_active(slot) && !held.contains(number))
                // Retired ones first, then those that opened, each by age.
                .min_by_key(|(_, slot)| (slot.state != SlotState::Retired, slot.since))
                .ok_or(RingError::Full)?;
            changed.clear(dropped);
        }
        let fresh = changed.rotate(rng, mode, now)?;
        for number in SlotNumber::all() {
            let opens = changed.get(number).is_some_and(|slot| slot.state == SlotState::Accepting);
            if opens {
                changed.enter(number, SlotState::Retired, now);
            }
        }
        *self = changed;
        Ok(fresh)
    }

    fn count_change(&mut self) -> Result<(), RingError> {
        if self.generation >= text::MAX_GENERATION {
            return Err(RingError::Generation);
        }
        self.generation += 1;
        Ok(())
    }

    /// Empty slots are passed over; numbers ascend.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = (SlotNumber, &Slot)> {
        SlotNumber::all()
            .zip(&self.slots)
            .filter_map(|(number, slot)| Some((number, slot.as_ref()?)))
    }

    pub(crate) fn get(&self, number: SlotNumber) -> Option<&Slot> {
        self.slots.get(number.index())?.as_ref()
    }

    fn free_slot(&self) -> Option<SlotNumber> {
        self.next_slot.round().find(|&number| self.get(number).is_none())
    }

    fn put(&mut self, number: SlotNumber, slot: Slot) {
        if let Some(place) = self.slots.get_mut(number.index()) {
            *place = Some(slot);
        }
    }

    fn clear(&mut self, number: SlotNumber) {
        if let Some(place) = self.slots.get_mut(number.index()) {
            *place = None;
        }
    }

    fn enter(&mut self, number: SlotNumber, state: SlotState, now: UnixTime) {
        if let Some(Some(slot)) = self.slots.get_mut(number.index()) {
            slot.state = state;
            slot.since = now;
        }
    }

    /// Whether two slots hold the same key.
    fn has_equal_keys(&self) -> bool {
        self.occupied().any(|(a, one)| {
            self.occupied().any(|(b, other)| a != b && bool::from(one.key.ct_eq(&other.key)))
        })
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing")
            .field("id", &self.id)
            .field("generation", &self.generation)
            .field("fingerprint", &self.fingerprint())
            .field("slots", &self.slots().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// A change that the ring does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// All 16 slots are taken.
    #[error("all 16 key slots are taken: retire and drop one first")]
    Full,
    /// There is no key in the slot.
    #[error("key slot {0} is empty")]
    Empty(SlotNumber),
    /// Only an accepting slot can be promoted or retired.
    #[error("key slot {0} is not accepting")]
    NotAccepting(SlotNumber),
    /// Only a retired slot can be dropped.
    #[error("key slot {0} is not retired")]
    NotRetired(SlotNumber),
    /// Tokens of the slot may still be alive.
    #[error("tokens of key slot {slot} may be alive until {}", safe_at.as_secs())]
    TooSoon {
        /// The slot.
        slot: SlotNumber,
        /// When the last of them has expired.
        safe_at: UnixTime,
    },
    /// The generation cannot be counted further: a new ring is needed.
    #[error("the key ring was changed as often as it can be")]
    Generation,
    /// A stored key is wrapped under the slot.
    #[error("key slot {0} still wraps a stored key: wrap that again under the active slot first")]
    Wraps(SlotNumber),
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);
    const LATER: UnixTime = UnixTime::from_secs(1_800_000_000 + RETIRE_AFTER_S);

    fn ring() -> KeyRing {
        KeyRing::generate(&mut rand::rng(), Mode::Sealed, NOW)
    }

    fn slot(number: u8) -> SlotNumber {
        SlotNumber::new(number).unwrap()
    }

    fn states(ring: &KeyRing) -> Vec<(u8, SlotState)> {
        ring.slots().map(|info| (info.number.get(), info.state)).collect()
    }

    #[test]
    fn a_rotation_goes_through_its_states_and_round_the_slots() {
        let (mut ring, rng) = (ring(), &mut rand::rng());
        assert_eq!(ring.generation(), 1);
        let one = ring.add(rng, Mode::Sealed, NOW).unwrap();
        assert_eq!(states(&ring), [(0, SlotState::Active), (1, SlotState::Accepting)]);
        assert_eq!((ring.active(), ring.generation()), (slot(0), 2));
        ring.promote(one, NOW).unwrap();
        assert_eq!(states(&ring), [(0, SlotState::Accepting), (1, SlotState::Active)]);
        assert_eq!((ring.active(), ring.generation()), (one, 3));
        ring.retire(slot(0), Retire::AfterLongestLife, LATER).unwrap();
        assert_eq!(states(&ring), [(0, SlotState::Retired), (1, SlotState::Active)]);
        assert_eq!(ring.generation(), 4);
        ring.drop_slot(slot(0), []).unwrap();
        assert_eq!(states(&ring), [(1, SlotState::Active)]);
        assert_eq!(ring.generation(), 5);
        for expected in (2..16).chain([0]) {
            assert_eq!(ring.add(rng, Mode::Sealed, NOW), Ok(slot(expected)));
        }
        assert_eq!(ring.add(rng, Mode::Sealed, NOW), Err(RingError::Full));
        assert_eq!(ring.rotate(rng, Mode::Sealed, NOW), Err(RingError::Full));
    }

    #[test]
    fn a_number_is_reused_as_late_as_possible() {
        let (mut ring, rng) = (ring(), &mut rand::rng());
        for round in 1..40u8 {
            let expected = slot(if round % 15 == 0 { 15 } else { round % 15 });
            assert_eq!(ring.add(rng, Mode::Sealed, NOW), Ok(expected), "round {round}");
            ring.retire(expected, Retire::Immediately, NOW).unwrap();
            ring.drop_slot(expected, []).unwrap();
        }
    }

    #[test]
    fn slot_numbers_read_as_numbers() {
        assert_eq!(format!("{} {:?}", slot(7), slot(15)), "7 15");
        assert_eq!(SlotNumber::new(16), None);
    }

    #[test]
    fn refuses_changes_that_skip_a_state() {
        let (mut ring, rng) = (ring(), &mut rand::rng());
        assert_eq!(ring.promote(slot(0), NOW), Err(RingError::NotAccepting(slot(0))));
        assert_eq!(ring.promote(slot(3), NOW), Err(RingError::Empty(slot(3))));
        assert_eq!(
            ring.retire(slot(0), Retire::Immediately, NOW),
            Err(RingError::NotAccepting(slot(0)))
        );
        assert_eq!(ring.retire(slot(3), Retire::Immediately, NOW), Err(RingError::Empty(slot(3))));
        assert_eq!(ring.drop_slot(slot(0), []), Err(RingError::NotRetired(slot(0))));
        assert_eq!(ring.drop_slot(slot(3), []), Err(RingError::Empty(slot(3))));
        ring.rotate(rng, Mode::Sealed, NOW).unwrap();
        assert_eq!(ring.drop_slot(slot(0), []), Err(RingError::NotRetired(slot(0))));
        ring.retire(slot(0), Retire::Immediately, NOW).unwrap();
        assert_eq!(ring.promote(slot(0), NOW), Err(RingError::NotAccepting(slot(0))));
    }

    #[test]
    fn a_key_is_not_retired_while_its_tokens_may_be_alive() {
        let (mut ring, rng) = (ring(), &mut rand::rng());
        ring.rotate(rng, Mode::Sealed, NOW).unwrap();
        let just_before = UnixTime::from_secs(LATER.as_secs() - 1);
        assert_eq!(
            ring.retire(slot(0), Retire::AfterLongestLife, just_before),
            Err(RingError::TooSoon { slot: slot(0), safe_at: LATER })
        );
        ring.clone().retire(slot(0), Retire::Immediately, just_before).unwrap();
        ring.retire(slot(0), Retire::AfterLongestLife, LATER).unwrap();
    }

    #[test]
    fn a_slot_that_wraps_something_is_not_dropped() {
        let (mut ring, rng) = (ring(), &mut rand::rng());
        let data = DataKey::generate(rng);
        let old = ring.wrap(rng, "store", &data).unwrap();
        ring.rotate(rng, Mode::Sealed, NOW).unwrap();
        ring.retire(slot(0), Retire::Immediately, NOW).unwrap();
        assert_eq!(ring.drop_slot(slot(0), [&old]), Err(RingError::Wraps(slot(0))));
        let new = ring.rewrap::<DataKey, _>(rng, "store", &old).unwrap();
        ring.drop_slot(slot(0), [&new]).unwrap();
    }

    #[test]
    fn an_epoch_retires_everything_that_opened() {
        let (mut ring, rng) = (ring(), &mut rand::rng());
        ring.add(rng, Mode::Sealed, NOW).unwrap();
        let fresh = ring.begin_epoch(rng, Mode::Signed, NOW, []).unwrap();
        assert_eq!(
            states(&ring),
            [(0, SlotState::Retired), (1, SlotState::Retired), (2, SlotState::Active)]
        );
        assert_eq!((ring.active(), ring.slot(fresh).unwrap().mode), (fresh, Mode::Signed));
    }

    #[test]
    fn epochs_go_on_for_ever_but_never_drop_what_wraps() {
        let (mut ring, rng) = (ring(), &mut rand::rng());
        let old = ring.wrap(&mut rand::rng(), "store", &DataKey::generate(rng)).unwrap();
        for start in 1..60 {
            let now = NOW.plus(start);
            ring.begin_epoch(rng, Mode::Sealed, now, [&old]).unwrap();
            assert!(ring.slot(slot(0)).is_some());
        }
        assert_eq!(ring.slots().count(), SLOTS);
        let all: Vec<WrappedKey> = SlotNumber::all()
            .map(|number| WrappedKey::parse(&old.in_slot_for_tests(number)).unwrap())
            .collect();
        let before = ring.fingerprint();
        assert_eq!(ring.begin_epoch(rng, Mode::Sealed, NOW, &all), Err(RingError::Full));
        assert_eq!(ring.fingerprint(), before, "a refused epoch changes nothing");
    }

    #[test]
    fn an_epoch_begins_on_a_full_ring_of_keys_that_open() {
        let (mut ring, rng) = (ring(), &mut rand::rng());
        for _ in 1..SLOTS {
            ring.add(rng, Mode::Sealed, NOW).unwrap();
        }
        let active = ring.active();
        let fresh = ring.begin_epoch(rng, Mode::Sealed, NOW, []).unwrap();
        assert_eq!(ring.slots().count(), SLOTS);
        assert_eq!(ring.slot(active).unwrap().state, SlotState::Retired, "the active one is kept");
        let others = ring.slots().filter(|slot| slot.number != fresh);
        assert!(others.into_iter().all(|slot| slot.state == SlotState::Retired));
    }

    #[test]
    fn an_epoch_drops_a_retired_key_before_one_that_opens() {
        let (mut ring, rng) = (ring(), &mut rand::rng());
        ring.rotate(rng, Mode::Sealed, NOW).unwrap();
        for _ in 2..SLOTS {
            ring.add(rng, Mode::Sealed, NOW).unwrap();
        }
        ring.retire(slot(0), Retire::Immediately, LATER).unwrap();
        assert_eq!(ring.begin_epoch(rng, Mode::Sealed, LATER, []), Ok(slot(0)));
    }

    #[test]
    fn a_ring_is_never_changed_to_what_could_not_be_read_again() {
        let rng = &mut rand::rng();
        let last = ring()
            .dangerous_to_text()
            .replace("\"generation\":1,", "\"generation\":9007199254740990,");
        let mut ring = KeyRing::parse(&last).unwrap();
        assert_eq!(ring.rotate(rng, Mode::Sealed, NOW), Err(RingError::Generation));
        assert_eq!(ring.dangerous_to_text().as_str(), last, "a refused change changes nothing");
        ring.add(rng, Mode::Sealed, NOW).unwrap();
        assert!(KeyRing::parse(&ring.dangerous_to_text()).is_ok());
        assert_eq!(ring.promote(slot(1), NOW), Err(RingError::Generation));
        assert_eq!(ring.add(rng, Mode::Sealed, NOW), Err(RingError::Generation));
        assert_eq!(ring.retire(slot(1), Retire::Immediately, NOW), Err(RingError::Generation));
        assert_eq!(ring.begin_epoch(rng, Mode::Sealed, NOW, []), Err(RingError::Generation));
        assert!(KeyRing::parse(&ring.dangerous_to_text()).is_ok());
    }

    #[test]
    fn the_fingerprint_changes_with_every_change() {
        let (mut ring, rng) = (ring(), &mut rand::rng());
        let mut seen = vec![ring.fingerprint()];
        ring.add(rng, Mode::Sealed, NOW).unwrap();
        seen.push(ring.fingerprint());
        ring.promote(slot(1), NOW).unwrap();
        seen.push(ring.fingerprint());
        ring.retire(slot(0), Retire::Immediately, NOW).unwrap();
        seen.push(ring.fingerprint());
        ring.drop_slot(slot(0), []).unwrap();
        seen.push(ring.fingerprint());
        let distinct: std::collections::HashSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len());
        assert_eq!(ring.fingerprint(), ring.clone().fingerprint());
    }

    #[test]
    fn debug_prints_no_key() {
        let ring = ring();
        let secret = ring.dangerous_reveal(slot(0)).unwrap();
        let shown = format!("{ring:?} {ring:#?}");
        assert!(!shown.contains(secret.as_str()));
        assert!(shown.contains(&ring.fingerprint()) && shown.contains(&ring.id().to_string()));
        assert!(ring.dangerous_reveal(slot(1)).is_none());
    }

    #[test]
    fn a_secret_gives_the_same_ring_everywhere_and_origins_differ() {
        let secret = MasterKey::generate(&mut rand::rng());
        let ring = KeyRing::from_secret(&secret, Mode::Sealed);
        assert_eq!(ring.fingerprint(), KeyRing::from_secret(&secret, Mode::Sealed).fingerprint());
        let other = KeyRing::from_secret_of(&secret, "atd", Mode::Sealed);
        assert_ne!(ring.id(), other.id());
        assert_ne!(ring.dangerous_reveal(slot(0)), other.dangerous_reveal(slot(0)));
    }
}
