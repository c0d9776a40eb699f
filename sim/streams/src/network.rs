//! A network that loses, repeats and reorders.

use rand::RngExt as _;
use rand::rngs::StdRng;

/// What is on its way, with when it arrives.
#[derive(Debug)]
pub(crate) struct Network<T> {
    under_way: Vec<(u64, u64, T)>,
    sent: u64,
}

const LOST_PERCENT: u32 = 6;
const REPEATED_PERCENT: u32 = 6;
const DELAY_MAX: u64 = 6;

impl<T: Clone> Network<T> {
    pub(crate) const fn new() -> Self {
        Self { under_way: Vec::new(), sent: 0 }
    }

    pub(crate) fn send(&mut self, tick: u64, message: T, rng: &mut StdRng) {
        if rng.random_range(0..100) < LOST_PERCENT {
            return;
        }
        let copies = 1 + u32::from(rng.random_range(0..100) < REPEATED_PERCENT);
        for _ in 0..copies {
            self.sent += 1;
            let arrives = tick + rng.random_range(1..=DELAY_MAX);
            self.under_way.push((arrives, self.sent, message.clone()));
        }
    }

    /// What arrives now.
    pub(crate) fn arrived(&mut self, tick: u64) -> Vec<T> {
        let (mut now, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.under_way).into_iter().partition(|(at, _, _)| *at <= tick);
        self.under_way = later;
        now.sort_by_key(|(at, order, _)| (*at, *order));
        now.into_iter().map(|(_, _, message)| message).collect()
    }

    /// A cut: everything that is on its way is lost.
    pub(crate) fn cut(&mut self) {
        self.under_way.clear();
    }
}
