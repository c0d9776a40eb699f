//! How long to wait before the next attempt.

use std::time::Duration;

use rand::{Rng, RngExt as _};

/// The longest wait that a server can ask for: a wrong hint must not stop a client for good.
const HINT_MAX: Duration = Duration::from_secs(600);

/// Waits that double, with jitter, so that clients which were cut together do not come together.
///
/// ```
/// use std::time::Duration;
/// use handback_client::Backoff;
///
/// let backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(5) };
/// let wait = backoff.wait(0, None, &mut rand::rng());
/// assert!(wait >= Duration::from_millis(50) && wait <= Duration::from_millis(100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to a back-off")]
pub struct Backoff {
    /// The first wait at most.
    pub first: Duration,
    /// Every wait at most.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(200), max: Duration::from_secs(30) }
    }
}

impl Backoff {
    /// The wait after so many attempts that failed: between half of it and all of it. If the other
    /// end gave a hint, not less than that, and up to a quarter more.
    pub fn wait<R: Rng + ?Sized>(
        &self,
        attempts: u32,
        hint: Option<Duration>,
        rng: &mut R,
    ) -> Duration {
        let full = self.first.saturating_mul(1_u32.checked_shl(attempts).unwrap_or(u32::MAX));
        let wait = full.min(self.max).mul_f64(rng.random_range(0.5..=1.0));
        let hint = hint.map(|hint| hint.min(HINT_MAX).mul_f64(rng.random_range(1.0..=1.25)));
        hint.map_or(wait, |hint| hint.max(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_hints_are_kept() {
        let rng = &mut rand::rng();
        let backoff =
            Backoff { first: Duration::from_millis(100), max: Duration::from_millis(1000) };
        for (attempts, full) in [(0, 100), (1, 200), (3, 800), (4, 1000), (31, 1000), (99, 1000)] {
            for _ in 0..50 {
                let wait = backoff.wait(attempts, None, rng);
                let full = Duration::from_millis(full);
                assert!(wait >= full / 2 && wait <= full, "{attempts}: {wait:?}");
                let hint = Duration::from_secs(3);
                let wait = backoff.wait(attempts, Some(hint), rng);
                assert!(wait >= hint && wait <= hint.mul_f64(1.25), "{attempts}: {wait:?}");
            }
        }
        let wait = backoff.wait(0, Some(Duration::MAX), rng);
        assert!(wait <= HINT_MAX.mul_f64(1.25));
    }
}
