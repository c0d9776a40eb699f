//! How much may be sent again, to whom.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Bytes that are sent again to one caller, in a minute: what a client needs that was cut many
/// times, and little for a server.
const BYTES_PER_MINUTE: u64 = 64 << 20;

const MINUTE_MS: u64 = 60_000;

/// Callers that are remembered. Those that were not heard of for a minute are forgotten.
const CALLERS_MAX: usize = 10_000;

/// Counts what is sent again.
#[derive(Debug, Default)]
pub(super) struct Replays(Mutex<HashMap<String, Bucket>>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Bytes that may still be sent.
    left: u64,
    /// When that was so, in milliseconds since 1970.
    at: u64,
}

impl Replays {
    /// Takes so many bytes from what a caller has left. If that is not enough, tells in how many
    /// milliseconds it will be.
    pub(super) fn take(&self, owner: &str, bytes: u64, now: u64) -> Result<(), u64> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= CALLERS_MAX {
            buckets.retain(|_, bucket| now.saturating_sub(bucket.at) < MINUTE_MS);
        }
        let full = Bucket { left: BYTES_PER_MINUTE, at: now };
        let bucket = buckets.entry(owner.to_owned()).or_insert(full);
        let gained = BYTES_PER_MINUTE * now.saturating_sub(bucket.at).min(MINUTE_MS) / MINUTE_MS;
        bucket.left = (bucket.left + gained).min(BYTES_PER_MINUTE);
        bucket.at = now.max(bucket.at);
        match bucket.left.checked_sub(bytes) {
            Some(left) => {
                bucket.left = left;
                Ok(())
            }
            None => {
                let missing = bytes.min(BYTES_PER_MINUTE) - bucket.left.min(bytes);
                Err(missing * MINUTE_MS / BYTES_PER_MINUTE + 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_comes_back_with_time() {
        let replays = Replays::default();
        assert_eq!(replays.take("a", BYTES_PER_MINUTE, 1000), Ok(()));
        assert_eq!(replays.take("b", 1, 1000), Ok(()));
        let wait = replays.take("a", 1 << 20, 1000).unwrap_err();
        assert!((900..1000).contains(&wait), "{wait}");
        assert!(replays.take("a", 1 << 20, 1000 + wait / 2).is_err());
        assert_eq!(replays.take("a", 1 << 20, 1000 + wait), Ok(()));
        // A clock that goes back gives nothing.
        assert!(replays.take("a", 1 << 20, 0).is_err());
        assert!(replays.take("a", 1 << 20, 1000 + wait).is_err());
    }
}
