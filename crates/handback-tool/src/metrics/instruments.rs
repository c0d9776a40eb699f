//! Numbers that many threads add to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, number: u64) {
        // Nothing else is read on the strength of it.
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// How many there are.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The upper ends of buckets, in microseconds: from what a good gateway takes to the longest that
/// anybody waits for a tool.
pub(crate) const BOUNDS_US: [u64; 18] = [
    50,
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    10_000_000,
    60_000_000,
    300_000_000,
];

/// How long things took: how many of them fell between which bounds, and their sum.
#[derive(Debug, Default)]
pub struct Histogram {
    /// The last one is for what is beyond all bounds.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    /// Adds one.
    pub fn observe(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let place = BOUNDS_US.partition_point(|bound| *bound < micros);
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(micros, Ordering::Relaxed);
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// How many were within each bound, with the bound in microseconds; the last one has none.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bounds = BOUNDS_US.iter().copied().map(Some).chain([None]);
        let mut sum = 0;
        bounds.zip(&self.buckets).map(move |(bound, bucket)| {
            sum += bucket.load(Ordering::Relaxed);
            (bound, sum)
        })
    }

    /// The sum of all, in microseconds.
    pub(crate) fn sum_us(&self) -> u64 {
        self.sum_us.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_within_its_bound_and_all_above() {
        let histogram = Histogram::default();
        let times = [0, 50, 51, 1_000, 300_000_000, 300_000_001];
        for micros in times {
            histogram.observe(Duration::from_micros(micros));
        }
        let within: Vec<_> = histogram.cumulative().collect();
        let of = |bound| within.iter().find(|(other, _)| *other == bound).unwrap().1;
        assert_eq!((of(Some(50)), of(Some(100)), of(Some(500)), of(Some(1_000))), (2, 3, 3, 4));
        assert_eq!((of(Some(300_000_000)), of(None)), (5, 6));
        assert_eq!((histogram.count(), histogram.sum_us()), (6, times.iter().sum()));
        assert!(BOUNDS_US.is_sorted());
    }
}
