//! What an upstream does wrong: counted, and told of ever more rarely.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// So many things in a row that are no messages, and the upstream speaks another language.
const MALFORMED_IN_A_ROW_MAX: u32 = 100;

/// So many lines in a row that do not even look like messages. Many programs print something to their
/// standard output by the way; one that prints nothing else is no server.
const CHATTER_IN_A_ROW_MAX: u32 = 10_000;

/// The faults of one upstream on one line.
#[derive(Debug)]
pub(super) struct Faults {
    upstream: String,
    in_a_row: AtomicU32,
    chatter_in_a_row: AtomicU32,
    counts: [AtomicU64; Fault::COUNT],
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Bytes that are no message.
    Malformed,
    /// An answer that nobody waits for.
    Unasked,
    /// A message that nobody takes, or takes fast enough.
    Dropped,
    /// A message that is larger than it may be.
    TooLarge,
}

impl Fault {
    const COUNT: usize = 4;

    const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "something that is no message",
            Self::Unasked => "an answer that nobody waits for",
            Self::Dropped => "a message that nobody takes",
            Self::TooLarge => "a message that is too large",
        }
    }
}

impl Faults {
    pub(super) fn new(upstream: &str) -> Self {
        let (in_a_row, chatter_in_a_row) = (AtomicU32::new(0), AtomicU32::new(0));
        let (upstream, counts) = (upstream.to_owned(), Default::default());
        Self { upstream, in_a_row, chatter_in_a_row, counts }
    }

    /// The name of the upstream.
    pub(super) fn upstream(&self) -> &str {
        &self.upstream
    }

    /// A message was one.
    pub(super) fn good(&self) {
        for in_a_row in [&self.in_a_row, &self.chatter_in_a_row] {
            // Most of the time it is zero, and is only read.
            if in_a_row.load(Ordering::Relaxed) != 0 {
                in_a_row.store(0, Ordering::Relaxed);
            }
        }
    }

    /// A message was none. Says whether that was one too many.
    pub(super) fn malformed(&self) -> bool {
        self.note(Fault::Malformed);
        self.in_a_row.fetch_add(1, Ordering::Relaxed) + 1 >= MALFORMED_IN_A_ROW_MAX
    }

    /// A line was something that a program prints by the way. Says whether that was one too many.
    pub(super) fn chatter(&self) -> bool {
        self.note(Fault::Malformed);
        self.chatter_in_a_row.fetch_add(1, Ordering::Relaxed) + 1 >= CHATTER_IN_A_ROW_MAX
    }

    /// Counts a fault, and tells of the first, the second, the fourth, the eighth one.
    pub(super) fn note(&self, fault: Fault) {
        let Some(count) = self.counts.get(fault as usize) else { return };
        let count = count.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            tracing::warn!(upstream = %self.upstream, count, "it sent {}", fault.name());
        }
    }

    /// How often a fault was noted.
    #[cfg(test)]
    pub(super) fn count(&self, fault: Fault) -> u64 {
        self.counts.get(fault as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_message_in_between_forgives() {
        let faults = Faults::new("x");
        for _ in 0..3 {
            for _ in 1..MALFORMED_IN_A_ROW_MAX {
                assert!(!faults.malformed());
            }
            faults.good();
        }
        for _ in 1..MALFORMED_IN_A_ROW_MAX {
            assert!(!faults.malformed());
        }
        assert!(faults.malformed());
        assert_eq!(faults.count(Fault::Malformed), u64::from(4 * MALFORMED_IN_A_ROW_MAX) - 3);
    }

    #[test]
    fn what_is_printed_by_the_way_is_not_what_is_malformed() {
        let faults = Faults::new("x");
        for _ in 1..CHATTER_IN_A_ROW_MAX {
            assert!(!faults.chatter());
        }
        assert!(!faults.malformed());
        faults.good();
        assert!(!faults.chatter());
        for _ in 2..CHATTER_IN_A_ROW_MAX {
            assert!(!faults.chatter());
        }
        assert!(faults.chatter());
    }
}
