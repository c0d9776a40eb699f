//! Bytes of a principal that are stored elsewhere, and count here.

use bytes::Bytes;
use handback_identity::VerifiedPrincipal;
use rand_core::CryptoRng;

use super::error::HeldError;
use super::options::Allowance;
use super::row::{Name, Place, Row, Space, State};
use super::store::{HeldStore, MAX_LIFE_MS, put};
use super::usage::{RowChange, cost};
use crate::owner::owner_tag;
use crate::{Kv, Millis};

/// The kind of rows that only count.
const ELSEWHERE_KIND: &str = "elsewhere";

impl<S: Kv> HeldStore<S> {
    /// Counts bytes for a principal that are stored elsewhere, such as outcomes in rows of the journal, for
    /// as long as they live. They count also where there is no room: they are stored already.
    ///
    /// # Errors
    ///
    /// [`HeldError`]; then nothing is counted.
    pub fn count_elsewhere<R: CryptoRng + ?Sized>(
        &self,
        principal: &VerifiedPrincipal,
        bytes: u64,
        life: Millis,
        rng: &mut R,
        now: Millis,
    ) -> Result<(), HeldError> {
        let mut id = [0; 16];
        rng.fill_bytes(&mut id);
        let end = now.saturating_add(life.min(MAX_LIFE_MS));
        let row = Row {
            state: State::Held,
            place: Place::Store,
            is_metered: true,
            size: 0,
            charged: cost(bytes),
            created: now,
            end,
            last_end: end,
            idle_ms: 0,
            binding: principal.binding(),
            kind: ELSEWHERE_KIND.to_owned(),
            note: Bytes::new(),
        };
        let name = Name::new(owner_tag(principal), Space::Spill, id);
        let change = RowChange {
            name: &name,
            old: None,
            change: put(&row),
            charged: (0, row.charged),
            allowance: Allowance::Unlimited,
            beside: Vec::new(),
        };
        self.shared.change_row(change, true, now)
    }
}
