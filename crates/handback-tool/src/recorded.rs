//! Bytes of recorded outcomes, counted in what their callers hold.
//!
//! A long outcome is a held value, which counts. An outcome up to [`MAX_INLINE_OUTCOME_BYTES`] is in its row
//! of the journal. A write for each of these would make recorded calls slower by a half. So their bytes are
//! summed up in memory for each caller. A sum is written once it is large, and all sums every few minutes
//! and at the end. A crash forgets a megabyte of a caller at most.
//!
//! Outcomes of retries without a key do not count: they are forgotten within minutes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handback_identity::VerifiedPrincipal;
use handback_store::held::HeldStore;
use handback_store::journal::{COMMITTED_LIFE_MS, MAX_INLINE_OUTCOME_BYTES};
use handback_store::{Kv, Millis};

/// The store of held values, where the bytes count.
type Held = HeldStore<Arc<dyn Kv>>;

/// Bytes of a caller that are summed up before they are written.
const SUM_BYTES_MAX: u64 = 1 << 20;

/// Time for which small sums are not written: each of them is a row for a day.
const SUM_LIFE_MS: Millis = 10 * 60 * 1_000;

/// Bytes of a row of the journal beside its outcome, about.
const ROW_BYTES: u64 = 128;

/// Bytes that are recorded and not counted yet.
#[derive(Debug, Default)]
pub(crate) struct RecordedBytes(Mutex<Sums>);

#[derive(Debug, Default)]
struct Sums {
    /// By the binding of the caller. All of them are taken out every few minutes.
    callers: HashMap<String, Sum>,
    /// The time at which all sums were written.
    written_ms: Millis,
}

#[derive(Debug)]
struct Sum {
    principal: VerifiedPrincipal,
    bytes: u64,
}

impl RecordedBytes {
    /// Counts an outcome that was recorded for a caller. Blocks.
    pub(crate) fn add(
        &self,
        held: &Held,
        principal: &VerifiedPrincipal,
        outcome_bytes: usize,
        now: Millis,
    ) {
        if outcome_bytes > MAX_INLINE_OUTCOME_BYTES {
            return;
        }
        let binding = principal.binding();
        let full = {
            let mut sums = self.lock();
            let new = || Sum { principal: principal.clone(), bytes: 0 };
            let sum = sums.callers.entry(binding.clone()).or_insert_with(new);
            sum.bytes += outcome_bytes as u64 + ROW_BYTES;
            let is_full = sum.bytes >= SUM_BYTES_MAX;
            if is_full { sums.callers.remove(&binding) } else { None }
        };
        if let Some(sum) = full {
            sum.write(held, now);
        }
    }

    /// Writes all sums, if that was not done for some minutes. Blocks.
    pub(crate) fn write_due(&self, held: &Held, now: Millis) {
        let is_due = now >= self.lock().written_ms.saturating_add(SUM_LIFE_MS);
        if is_due {
            self.write_all(held, now);
        }
    }

    /// Writes all sums. Blocks.
    pub(crate) fn write_all(&self, held: &Held, now: Millis) {
        let callers = {
            let mut sums = self.lock();
            sums.written_ms = now;
            std::mem::take(&mut sums.callers)
        };
        for sum in callers.into_values() {
            sum.write(held, now);
        }
    }

    /// A panic elsewhere leaves the sums whole.
    fn lock(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sum {
    fn write(self, held: &Held, now: Millis) {
        let Self { principal, bytes } = self;
        let rng = &mut rand::rng();
        let counted = held.count_elsewhere(&principal, bytes, COMMITTED_LIFE_MS, rng, now);
        if let Err(error) = counted {
            tracing::warn!(%error, bytes, "recorded outcomes were not counted for their caller");
        }
    }
}

#[cfg(test)]
mod tests {
    use handback_identity::UnixPeers;
    use handback_store::MemoryStore;
    use handback_store::held::{HeldOptions, VALUE_COST_BYTES};

    use super::*;

    const NOW_MS: Millis = 1_800_000_000_000;

    #[test]
    fn small_sums_are_written_every_few_minutes_and_end_with_their_outcomes() {
        let kv: Arc<dyn Kv> = Arc::new(MemoryStore::new());
        let held: Held = HeldStore::new(kv, HeldOptions::new()).unwrap();
        let caller = UnixPeers::new("test").unwrap().principal(1);
        let used = |now| held.used_bytes(&caller, now).unwrap();
        let recorded = RecordedBytes::default();
        recorded.write_due(&held, NOW_MS);
        recorded.add(&held, &caller, 1_000, NOW_MS);
        recorded.add(&held, &caller, MAX_INLINE_OUTCOME_BYTES + 1, NOW_MS);
        recorded.write_due(&held, NOW_MS + SUM_LIFE_MS - 1);
        assert_eq!(used(NOW_MS), 0);
        recorded.write_due(&held, NOW_MS + SUM_LIFE_MS);
        assert_eq!(used(NOW_MS), 1_000 + ROW_BYTES + VALUE_COST_BYTES);
        assert!(recorded.lock().callers.is_empty(), "no caller is kept");
        held.sweep(100, NOW_MS + SUM_LIFE_MS + COMMITTED_LIFE_MS).unwrap();
        assert_eq!(used(NOW_MS + SUM_LIFE_MS + COMMITTED_LIFE_MS), 0);
    }
}
