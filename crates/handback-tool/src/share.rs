//! Limits for all callers, of which each identified caller may use only a share.
//!
//! A limit that is counted for the whole server protects the server. Without a share, one caller
//! reaches it alone, and every other caller is refused. A [`Quota`] counts both: the total, and the part
//! of each caller. Every [`Charge`] gives its amount back when it is dropped.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handback_identity::{VerifiedPrincipal, binding};

/// The part of a limit that one caller may use: one in N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(NonZeroU32);

impl Share {
    /// All of it: mode `none` and standard streams, where all requests come from one caller.
    pub const WHOLE: Self = Self(NonZeroU32::MIN);
    /// The default, an eighth: eight busy callers fit, and one caller still has more than it needs.
    pub const ONE_IN: u32 = 8;

    /// One part in `parts`; 0 is 1.
    #[must_use]
    pub fn one_in(parts: u32) -> Self {
        Self(NonZeroU32::new(parts).unwrap_or(NonZeroU32::MIN))
    }

    /// The part of a limit: at least 1.
    #[must_use]
    pub fn of(self, limit: u64) -> u64 {
        (limit / u64::from(self.0.get())).max(1)
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::one_in(Self::ONE_IN)
    }
}

/// The part of a quota that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a quota has these two parts")]
pub enum Exhausted {
    /// The caller's own share.
    Caller,
    /// The total of all callers.
    Total,
}

impl Exhausted {
    /// Its name in the audit and in metrics.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Caller => "caller_share",
            Self::Total => "server_limit",
        }
    }

    /// The code of the error that the caller gets.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Caller => "CALLER_SHARE",
            Self::Total => "SERVER_LIMIT",
        }
    }

    /// The sentence that the caller gets. It says nothing of other callers.
    #[must_use]
    pub fn sentence(self, resource: &str) -> String {
        match self {
            Self::Caller => format!("the caller's share of {resource} is used up"),
            Self::Total => format!("the server has as many {resource} as it may have"),
        }
    }
}

/// Counts a resource for all callers and for each.
///
/// Clones count together.
#[derive(Clone, Debug)]
pub struct Quota {
    counts: Arc<Mutex<Counts>>,
    total: u64,
    per_caller: u64,
}

#[derive(Debug, Default)]
struct Counts {
    sum: u64,
    callers: HashMap<String, u64>,
}

impl Quota {
    /// A quota of `total` units, of which one identified caller may use its share.
    #[must_use]
    pub fn new(total: u64, share: Share) -> Self {
        Self { counts: Arc::default(), total, per_caller: share.of(total) }
    }

    /// The most that all callers together may use.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The most that one identified caller may use.
    #[must_use]
    pub const fn per_caller(&self) -> u64 {
        self.per_caller
    }

    /// The units that a caller uses now.
    #[must_use]
    pub fn used_by(&self, caller: &VerifiedPrincipal) -> u64 {
        self.used_by_stored(&caller.binding())
    }

    /// The same, for the stored binding of an owner.
    #[must_use]
    pub fn used_by_stored(&self, binding: &str) -> u64 {
        lock(&self.counts).callers.get(binding).copied().unwrap_or_default()
    }

    /// The units that all callers together use now.
    #[must_use]
    pub fn used(&self) -> u64 {
        lock(&self.counts).sum
    }

    /// The most that the owner with this stored binding may use.
    #[must_use]
    pub fn limit_of_stored(&self, binding: &str) -> u64 {
        if binding::is_unauthenticated(binding) { self.total } else { self.per_caller }
    }

    /// Counts `amount` units for a caller until the charge is dropped.
    ///
    /// # Errors
    ///
    /// The caller's share or the total would be exceeded. Nothing is counted then.
    pub fn charge(&self, caller: &VerifiedPrincipal, amount: u64) -> Result<Charge, Exhausted> {
        self.charge_stored(&caller.binding(), amount)
    }

    /// The same, for something that was stored with the binding of its owner.
    ///
    /// # Errors
    ///
    /// As [`Quota::charge`].
    pub fn charge_stored(&self, binding: &str, amount: u64) -> Result<Charge, Exhausted> {
        let limit = self.limit_of_stored(binding);
        let mut charge =
            Charge { quota: self.clone(), binding: binding.to_owned(), limit, amount: 0 };
        charge.grow(amount)?;
        Ok(charge)
    }
}

/// Units of a [`Quota`] that count until this is dropped.
#[derive(Debug)]
#[must_use = "a charge that is dropped counts nothing"]
pub struct Charge {
    quota: Quota,
    binding: String,
    limit: u64,
    amount: u64,
}

impl Charge {
    /// The units counted by this charge.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Counts `more` units.
    ///
    /// # Errors
    ///
    /// The caller's share or the total would be exceeded. The charge stays as it was.
    pub fn grow(&mut self, more: u64) -> Result<(), Exhausted> {
        let mut counts = lock(&self.quota.counts);
        let own = counts.callers.get(&self.binding).copied().unwrap_or_default();
        let own = own.checked_add(more).filter(|own| *own <= self.limit);
        let sum = counts.sum.checked_add(more).filter(|sum| *sum <= self.quota.total);
        let own = own.ok_or(Exhausted::Caller)?;
        counts.sum = sum.ok_or(Exhausted::Total)?;
        if own > 0 {
            counts.callers.insert(self.binding.clone(), own);
        }
        drop(counts);
        self.amount += more;
        Ok(())
    }

    /// Gives units back; at most what this charge counts.
    pub fn shrink(&mut self, less: u64) {
        let less = less.min(self.amount);
        self.amount -= less;
        let mut counts = lock(&self.quota.counts);
        counts.sum -= less;
        let left = counts.callers.get_mut(&self.binding).map(|own| {
            *own -= less;
            *own
        });
        if left == Some(0) {
            counts.callers.remove(&self.binding);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(self.amount);
    }
}

/// A panic elsewhere cannot leave counts half changed: each change ends before anything can panic.
fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use handback_identity::UnixPeers;

    use super::*;

    fn caller(uid: u32) -> VerifiedPrincipal {
        UnixPeers::new("test").unwrap().principal(uid)
    }

    #[test]
    fn a_caller_at_its_share_leaves_the_rest_to_others() {
        let quota = Quota::new(16, Share::default());
        let (ada, bob) = (caller(1), caller(2));
        let first = quota.charge(&ada, 2).unwrap();
        assert_eq!(quota.charge(&ada, 1).unwrap_err(), Exhausted::Caller);
        let mut second = quota.charge(&bob, 1).unwrap();
        second.grow(1).unwrap();
        assert_eq!(second.grow(1).unwrap_err(), Exhausted::Caller);
        drop(first);
        assert_eq!((quota.used_by(&ada), quota.used_by(&bob)), (0, 2));
        assert!(quota.charge(&ada, 2).is_ok());
    }

    #[test]
    fn the_total_holds_for_all_callers_together() {
        let quota = Quota::new(8, Share::one_in(2));
        let _first = quota.charge(&caller(1), 4).unwrap();
        let _second = quota.charge(&caller(2), 3).unwrap();
        assert_eq!(quota.charge(&caller(3), 2).unwrap_err(), Exhausted::Total);
    }

    #[test]
    fn what_was_stored_counts_for_its_owner() {
        let quota = Quota::new(16, Share::default());
        let ada = caller(1);
        let _stored = quota.charge_stored(&ada.binding(), 2).unwrap();
        assert_eq!(quota.charge(&ada, 1).unwrap_err(), Exhausted::Caller);
        let nobody = VerifiedPrincipal::unauthenticated().binding();
        assert_eq!((quota.limit_of_stored(&nobody), quota.limit_of_stored("i\0s")), (16, 2));
        assert!(quota.charge_stored(&nobody, 14).is_ok());
        assert_eq!((quota.used_by(&ada), quota.used()), (2, 2));
    }

    #[test]
    fn a_share_is_a_part_and_never_nothing() {
        assert_eq!(Share::WHOLE.of(u64::MAX), u64::MAX);
        assert_eq!((Share::default().of(80), Share::default().of(3)), (10, 1));
        assert_eq!(Share::one_in(0), Share::WHOLE);
    }
}
