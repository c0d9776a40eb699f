//! What is kept for a while: of the last ones that were used, so many.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by their keys. When there is no room, the one that was not used for longest goes.
#[derive(Debug)]
pub(crate) struct Kept<K, V> {
    max: usize,
    /// Counts uses.
    now: u64,
    values: HashMap<K, (u64, V)>,
}

impl<K: Clone + Eq + Hash, V: Clone> Kept<K, V> {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, now: 0, values: HashMap::new() }
    }

    /// The value of this key, which is used by that.
    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        self.now += 1;
        let (used, value) = self.values.get_mut(key)?;
        *used = self.now;
        Some(value.clone())
    }

    /// Keeps a value.
    pub(crate) fn put(&mut self, key: K, value: V) {
        self.now += 1;
        if self.values.len() >= self.max && !self.values.contains_key(&key) {
            let oldest = self.values.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.values.remove(&oldest);
            }
        }
        self.values.insert(key, (self.now, value));
    }

    /// Takes out the value that was not used for longest, of those that fit.
    pub(crate) fn take_oldest(&mut self, fits: impl Fn(&K, &V) -> bool) -> Option<V> {
        let fitting = self.values.iter().filter(|(key, (_, value))| fits(key, value));
        let oldest = fitting.min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone())?;
        self.values.remove(&oldest).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::Kept;

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let mut kept = Kept::new(2);
        kept.put("a", 1);
        kept.put("b", 2);
        assert_eq!(kept.get(&"a"), Some(1));
        kept.put("c", 3);
        assert_eq!([kept.get(&"a"), kept.get(&"b"), kept.get(&"c")], [Some(1), None, Some(3)]);
        kept.put("c", 4);
        assert_eq!([kept.get(&"a"), kept.get(&"c")], [Some(1), Some(4)]);
    }

    #[test]
    fn takes_the_oldest_value_that_fits() {
        let mut kept = Kept::new(3);
        for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
            kept.put(key, value);
        }
        assert_eq!(kept.get(&"a"), Some(1));
        assert_eq!(kept.take_oldest(|key, _| *key != "b"), Some(3));
        assert_eq!(kept.take_oldest(|_, value| *value > 2), None);
        assert_eq!([kept.get(&"a"), kept.get(&"b"), kept.get(&"c")], [Some(1), Some(2), None]);
    }
}
