//! Numbers that are the same on every machine.

/// SplitMix64: the same seed gives the same data, whatever version of whatever crate is there.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0, below `end`. The modulo prefers small ones by less than anybody sees.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    pub(crate) const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Mostly small numbers: the smaller one of two.
    pub(crate) fn low(&mut self, end: u64) -> u64 {
        self.below(end).min(self.below(end))
    }

    pub(crate) const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of a list, which is not empty.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T
    where
        &'a T: Default,
    {
        let number = usize::try_from(self.below(list.len() as u64)).unwrap_or_default();
        list.get(number).copied().unwrap_or_default()
    }

    /// Hexadecimal digits.
    pub(crate) fn hex(&mut self, digits: usize) -> String {
        let all = format!("{:016x}", self.number());
        all.get(..digits).unwrap_or(&all).to_owned()
    }
}
