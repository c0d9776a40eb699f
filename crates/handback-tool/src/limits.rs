//! How much one caller may have under way, and how fast it may call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use handback_identity::VerifiedPrincipal;

use crate::request::Refusal;

/// Calls of one caller under way at a time.
pub const IN_FLIGHT_MAX: usize = 64;

/// Questions of one caller under way at a time that are no calls: clients ask for a few lists at once.
pub const QUESTIONS_MAX: usize = 64;

/// Subscriptions of one caller at a time: a client has one.
pub const LISTENERS_MAX: usize = 16;

/// How fast one caller may call: a bucket of `burst` calls, which fills at `per_second`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Rate {
    /// Calls per second in the long run; 0 is 1.
    pub per_second: u32,
    /// Calls at once after a pause; 0 is 1.
    pub burst: u32,
}

impl Rate {
    /// Calls per second: more than any agent makes, and less than would hold up others.
    pub const PER_SECOND: u32 = 1_000;
    /// Calls at once: a walk over a large collection.
    pub const BURST: u32 = 5_000;
}

impl Default for Rate {
    fn default() -> Self {
        Self { per_second: Self::PER_SECOND, burst: Self::BURST }
    }
}

/// Callers whose rate is remembered at a time. Whoever has paused is forgotten first.
const CALLERS_MAX: usize = 10_000;

/// Counts how fast each caller calls.
#[derive(Debug)]
pub(crate) struct Rates {
    rate: Rate,
    buckets: Mutex<HashMap<String, Bucket>>,
}

/// What is left for a caller.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    calls: f64,
    at: Instant,
}

impl Bucket {
    fn filled(self, rate: Rate, now: Instant) -> Self {
        let gained =
            now.saturating_duration_since(self.at).as_secs_f64() * f64::from(rate.per_second);
        Self { calls: (self.calls + gained).min(f64::from(rate.burst)), at: now }
    }
}

impl Rates {
    pub(crate) fn new(rate: Rate) -> Self {
        let rate = Rate { per_second: rate.per_second.max(1), burst: rate.burst.max(1) };
        Self { rate, buckets: Mutex::default() }
    }

    /// Counts a call, or refuses it. A call that is refused does not count.
    pub(crate) fn take(&self, principal: &VerifiedPrincipal, now: Instant) -> Result<(), Refusal> {
        let binding = principal.binding();
        let mut buckets = lock(&self.buckets);
        let full = Bucket { calls: f64::from(self.rate.burst), at: now };
        let mut bucket = buckets.get(&binding).map_or(full, |known| known.filled(self.rate, now));
        if bucket.calls < 1.0 {
            return Err(Refusal::TooFast);
        }
        bucket.calls -= 1.0;
        if buckets.len() >= CALLERS_MAX && !buckets.contains_key(&binding) {
            self.forget(&mut buckets, now);
        }
        buckets.insert(binding, bucket);
        Ok(())
    }

    /// Makes room: first of those whose bucket is full, who lose nothing by it.
    fn forget(&self, buckets: &mut HashMap<String, Bucket>, now: Instant) {
        let burst = f64::from(self.rate.burst);
        buckets.retain(|_, bucket| bucket.filled(self.rate, now).calls < burst);
        if buckets.len() < CALLERS_MAX {
            return;
        }
        let fullest = buckets.iter().max_by(|(_, one), (_, other)| {
            let left = |bucket: &Bucket| bucket.filled(self.rate, now).calls;
            left(one).total_cmp(&left(other))
        });
        if let Some(binding) = fullest.map(|(binding, _)| binding.clone()) {
            buckets.remove(&binding);
        }
    }
}

/// Counts the calls of each caller.
#[derive(Debug)]
pub(crate) struct Places {
    max: usize,
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

/// A call that counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    taken: Arc<Mutex<HashMap<String, usize>>>,
    binding: String,
}

impl Places {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, taken: Arc::default() }
    }

    pub(crate) fn take(&self, principal: &VerifiedPrincipal) -> Result<Place, Refusal> {
        let binding = principal.binding();
        let mut taken = lock(&self.taken);
        let count = taken.entry(binding.clone()).or_default();
        if *count >= self.max {
            return Err(Refusal::Busy);
        }
        *count += 1;
        Ok(Place { taken: Arc::clone(&self.taken), binding })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        if let Some(count) = taken.get_mut(&self.binding) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.binding);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use handback_identity::UnixPeers;

    use super::*;

    #[test]
    fn a_bucket_empties_and_fills_and_is_of_one_caller() {
        let rates = Rates::new(Rate { per_second: 10, burst: 3 });
        let peers = UnixPeers::new("test").unwrap();
        let (alice, bob, start) = (peers.principal(1), peers.principal(2), Instant::now());
        let take = |who, after_ms| rates.take(who, start + Duration::from_millis(after_ms));
        for _ in 0..3 {
            take(&alice, 0).unwrap();
        }
        assert_eq!(take(&alice, 0), Err(Refusal::TooFast));
        assert_eq!(take(&alice, 99), Err(Refusal::TooFast), "what is refused does not count");
        take(&bob, 99).unwrap();
        take(&alice, 101).unwrap();
        assert_eq!(take(&alice, 102), Err(Refusal::TooFast));
        for _ in 0..3 {
            take(&alice, 10_000).unwrap();
        }
        assert_eq!(take(&alice, 10_000), Err(Refusal::TooFast), "no more than a burst is saved");
    }

    #[test]
    fn more_callers_than_are_remembered_push_out_who_paused() {
        let rates = Rates::new(Rate { per_second: 1, burst: 2 });
        let (peers, start) = (UnixPeers::new("test").unwrap(), Instant::now());
        let greedy = peers.principal(0);
        rates.take(&greedy, start).unwrap();
        rates.take(&greedy, start).unwrap();
        for uid in 1..=u32::try_from(CALLERS_MAX).unwrap() + 10 {
            rates.take(&peers.principal(uid), start).unwrap();
        }
        assert_eq!(rates.take(&greedy, start), Err(Refusal::TooFast));
        assert!(lock(&rates.buckets).len() <= CALLERS_MAX);
    }

    #[test]
    fn a_place_is_free_again_when_its_call_is_over() {
        let places = Places::new(2);
        let nobody = VerifiedPrincipal::unauthenticated();
        let one = places.take(&nobody).unwrap();
        let _two = places.take(&nobody).unwrap();
        assert_eq!(places.take(&nobody).unwrap_err(), Refusal::Busy);
        drop(one);
        let _three = places.take(&nobody).unwrap();
        assert_eq!(places.take(&nobody).unwrap_err(), Refusal::Busy);
    }
}
