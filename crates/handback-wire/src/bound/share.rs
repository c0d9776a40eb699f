//! Dividing room among those who want more than there is.

/// The level up to which everybody gets what they want, if those who want more get that much: the
/// sum is at most `room`. [`usize::MAX`] if there is enough for all.
pub(super) fn level(room: usize, wants: &[usize]) -> usize {
    let mut sorted = wants.to_vec();
    sorted.sort_unstable();
    let mut left = room;
    for (number, want) in sorted.iter().enumerate() {
        let share = left / (sorted.len() - number);
        if *want > share {
            return share;
        }
        left -= want;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_small_ones_leave_more_for_the_large_ones() {
        assert_eq!(level(100, &[10, 20, 500]), 70);
        assert_eq!(level(100, &[500, 10, 400]), 45);
        assert_eq!(level(100, &[50, 50]), usize::MAX);
        assert_eq!(level(0, &[1, 0]), 0);
        assert_eq!(level(0, &[]), usize::MAX);
    }

    proptest! {
        #[test]
        fn shares_never_exceed_the_room(room in 0_usize..1000, wants in prop::collection::vec(0_usize..500, 0..9)) {
            let level = level(room, &wants);
            let given: usize = wants.iter().map(|want| *want.min(&level)).sum();
            prop_assert!(given <= room);
            // Nobody goes without what nobody else has.
            prop_assert!(level == usize::MAX || room - given < wants.len());
        }
    }
}
