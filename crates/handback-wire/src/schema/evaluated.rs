//! Members and items that keywords evaluated, for `unevaluatedProperties` and `unevaluatedItems`.

/// Members, or items, of one value that were evaluated.
#[derive(Clone, Debug, Default)]
pub(super) struct Evaluated {
    all: bool,
    bits: Vec<u64>,
}

impl Evaluated {
    pub(super) fn all(&mut self) {
        self.all = true;
    }

    pub(super) fn add(&mut self, index: usize) {
        let word = index / 64;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        if let Some(bits) = self.bits.get_mut(word) {
            *bits |= 1 << (index % 64);
        }
    }

    pub(super) fn has(&self, index: usize) -> bool {
        let word = self.bits.get(index / 64).copied().unwrap_or_default();
        self.all || word & (1 << (index % 64)) != 0
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.all |= other.all;
        if self.bits.len() < other.bits.len() {
            self.bits.resize(other.bits.len(), 0);
        }
        for (own, other) in self.bits.iter_mut().zip(&other.bits) {
            *own |= other;
        }
    }

    /// Steps that merging costs.
    pub(super) const fn steps(&self) -> u64 {
        self.bits.len() as u64 / 8
    }
}
