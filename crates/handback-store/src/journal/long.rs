//! Outcomes that are too long for a row.

use bytes::Bytes;
use handback_identity::VerifiedPrincipal;
use rand_core::CryptoRng;

use super::book::Journal;
use super::error::JournalError;
use super::request::CallRequest;
use super::reservation::Reservation;
use super::row::{MAX_INLINE_OUTCOME_BYTES, Outcome};
use crate::held::{HeldError, HeldStore, NewValue, SpillId};
use crate::{Kv, Millis};

/// How much longer a blob lives than its row: it is written before, and a commit may take tries.
const BLOB_MARGIN_MS: Millis = 60 * 60 * 1_000;

impl<S: Kv> Journal<S> {
    /// As [`commit`](Self::commit), however long the outcome: what does not fit into the row is held
    /// for the caller beside it. It counts towards what the caller may hold, and is kept also where
    /// there is no room, since the work is done: [`HeldStore::may_owe`] is asked before that.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit), and [`JournalError::Held`].
    pub fn commit_any<T: Kv, R: CryptoRng + ?Sized>(
        &self,
        reservation: &mut Reservation,
        principal: &VerifiedPrincipal,
        outcome: Bytes,
        held: &HeldStore<T>,
        rng: &mut R,
        now: Millis,
    ) -> Result<(), JournalError> {
        if outcome.len() <= MAX_INLINE_OUTCOME_BYTES {
            return self.commit(reservation, Outcome::Bytes(outcome), now);
        }
        let life = reservation.name.kind.committed_life() + BLOB_MARGIN_MS;
        let new = NewValue::new("outcome").fixed_life(life).owed();
        let id = held.spill(principal, new, &outcome, rng, now)?;
        self.commit(reservation, Outcome::Blob(id.to_bytes()), now)
    }

    /// Takes away what came of a call, wherever it is: for whoever chose its key, and uses it no more. A
    /// call that is under way, or whose end is not known, stays as it is.
    ///
    /// # Errors
    ///
    /// [`JournalError`]. What is left then ends with its time.
    pub fn forget<T: Kv>(
        &self,
        request: &CallRequest,
        principal: &VerifiedPrincipal,
        held: &HeldStore<T>,
        now: Millis,
    ) -> Result<(), JournalError> {
        if let Some(Outcome::Blob(id)) = self.remove_committed(request, now)? {
            // The row may be written behind. After a crash it must not lead to what is gone.
            self.kv.settle()?;
            held.remove_spill(SpillId::from_bytes(id), principal, now)?;
        }
        Ok(())
    }

    /// The bytes of an outcome, wherever they are.
    ///
    /// # Errors
    ///
    /// [`JournalError::Held`] if they cannot be read, are gone, or are more than `max_bytes`.
    pub fn outcome_bytes<T: Kv>(
        &self,
        outcome: &Outcome,
        principal: &VerifiedPrincipal,
        held: &HeldStore<T>,
        max_bytes: usize,
        now: Millis,
    ) -> Result<Bytes, JournalError> {
        let id = match outcome {
            Outcome::Bytes(bytes) => return Ok(bytes.clone()),
            Outcome::Blob(id) => SpillId::from_bytes(*id),
        };
        let found = held.look_up_spill(id, principal, now)?.found().ok_or(HeldError::Gone)?;
        let whole = held.read(&found, now)?.read_whole(max_bytes)?;
        Ok(Bytes::from(whole.ok_or(JournalError::TooLong)?))
    }
}
