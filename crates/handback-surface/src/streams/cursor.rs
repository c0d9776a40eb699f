//! Cursors by which shared caches tell one wait from the next.

/// Seconds of an interval.
const INTERVAL_S: u64 = 20;

/// The first interval starts here, says the protocol: 9 October 2024.
const EPOCH_S: u64 = 1_728_432_000;

/// A cursor that a client holds already is passed by at most an hour.
const JITTER_INTERVALS: u64 = 3600 / INTERVAL_S;

/// The cursor of a response, later than the one that the client sent. `random` chooses by how much.
pub(super) fn next(now_ms: u64, sent: Option<&str>, random: u64) -> String {
    let current = (now_ms / 1000).saturating_sub(EPOCH_S) / INTERVAL_S;
    let cursor = match sent.and_then(|sent| sent.parse::<u64>().ok()) {
        Some(sent) if sent >= current => sent.saturating_add(1 + random % JITTER_INTERVALS),
        _ => current,
    };
    cursor.to_string()
}

#[cfg(test)]
mod tests {
    use super::next;

    #[test]
    fn cursors_only_go_forward() {
        let now = (1_728_432_000 + 20 * 100) * 1000;
        assert_eq!(next(now, None, 0), "100");
        assert_eq!(next(now, Some("99"), 0), "100");
        assert_eq!(next(now, Some("100"), 0), "101");
        assert_eq!(next(now, Some("100"), 179), "280");
        assert_eq!(next(now, Some("100"), 180), "101");
        assert_eq!(next(now, Some("x"), 0), "100");
        assert_eq!(next(0, Some("18446744073709551615"), 5), "18446744073709551615");
    }
}
