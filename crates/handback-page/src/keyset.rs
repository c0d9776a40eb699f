//! From a place in an order to conditions that an index serves.
//!
//! What comes after a place is cut into [`Segment`]s, the nearest first: items that share all but
//! the last key with the place, then items that share all but the last two, and so on, with nulls
//! in segments of their own. Each segment is a run of equalities, then at most one comparison: the
//! shape that a B-tree answers by one seek, whatever the directions are and wherever nulls go. The
//! usual row comparison `(a, b) > (?, ?)` can do neither mixed directions nor nulls, and the usual
//! chain of ORs makes databases scan.

use crate::order::{Direction, Nulls, Order};
use crate::scalar::Scalar;

/// What a sort key must be.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "every dialect has to say each of them")]
pub enum Test<'a> {
    /// Equal to a value that is not null.
    Equal(&'a Scalar),
    /// Null.
    IsNull,
    /// Not null.
    NotNull,
    /// Greater than a value.
    Greater(&'a Scalar),
    /// Less than a value.
    Less(&'a Scalar),
}

/// A run of items in an order: those for which all tests hold.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "dialects take it apart")]
pub struct Segment<'a> {
    /// The number of a sort key and what it must be, ascending by number.
    pub tests: Vec<(usize, Test<'a>)>,
    /// How many leading sort keys are the same in all items of the segment: sorting goes by the
    /// rest.
    pub fixed: usize,
}

/// The segments that follow `from` in `order`, nearest first; without `from`, all items.
///
/// `inclusive` puts the place itself in front. To read backwards, give the reversed order.
#[must_use]
pub fn segments<'a>(
    order: &Order,
    from: Option<&'a [Scalar]>,
    inclusive: bool,
) -> Vec<Segment<'a>> {
    match from {
        None => from_the_start(order),
        Some(place) => after(order, place, inclusive),
    }
}

fn from_the_start<'a>(order: &Order) -> Vec<Segment<'a>> {
    let all = Segment { tests: vec![], fixed: 0 };
    let Some(first) = order.keys().first() else { return vec![all] };
    if !first.nullable {
        return vec![all];
    }
    let some = Segment { tests: vec![(0, Test::NotNull)], fixed: 0 };
    let null = Segment { tests: vec![(0, Test::IsNull)], fixed: 1 };
    match first.nulls {
        Nulls::First => vec![null, some],
        Nulls::Last => vec![some, null],
    }
}

fn after<'a>(order: &Order, place: &'a [Scalar], inclusive: bool) -> Vec<Segment<'a>> {
    let same = |upto: usize| -> Vec<(usize, Test<'a>)> {
        place
            .iter()
            .take(upto)
            .enumerate()
            .map(|(number, value)| {
                (number, if value.is_null() { Test::IsNull } else { Test::Equal(value) })
            })
            .collect()
    };
    let mut segments = Vec::new();
    if inclusive {
        segments.push(Segment { tests: same(place.len()), fixed: place.len() });
    }
    for (number, (key, value)) in order.keys().iter().zip(place).enumerate().rev() {
        let mut push = |test, fixed| {
            let mut tests = same(number);
            tests.push((number, test));
            segments.push(Segment { tests, fixed });
        };
        if value.is_null() {
            if key.nulls == Nulls::First {
                push(Test::NotNull, number);
            }
            continue;
        }
        match key.direction {
            Direction::Ascending => push(Test::Greater(value), number),
            Direction::Descending => push(Test::Less(value), number),
        }
        if key.nullable && key.nulls == Nulls::Last {
            push(Test::IsNull, number + 1);
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;
    use crate::order::SortKey;
    use crate::schema::FieldPath;

    fn holds(test: Test<'_>, value: &Scalar) -> bool {
        match test {
            Test::Equal(other) => !value.is_null() && value.order(other).is_eq(),
            Test::IsNull => value.is_null(),
            Test::NotNull => !value.is_null(),
            Test::Greater(other) => !value.is_null() && value.order(other).is_gt(),
            Test::Less(other) => !value.is_null() && value.order(other).is_lt(),
        }
    }

    fn any_value() -> impl Strategy<Value = Scalar> {
        prop_oneof![Just(Scalar::Null), (0i128..3).prop_map(Scalar::Int)]
    }

    fn any_key() -> impl Strategy<Value = SortKey> {
        (any::<bool>(), any::<bool>()).prop_map(|(descending, nulls_first)| SortKey {
            field: FieldPath::name("x"),
            direction: if descending { Direction::Descending } else { Direction::Ascending },
            nulls: if nulls_first { Nulls::First } else { Nulls::Last },
            nullable: true,
        })
    }

    proptest! {
        #[test]
        fn segments_are_what_follows_in_order_without_overlap(
            keys in prop::collection::vec(any_key(), 1..4),
            rows in prop::collection::vec(prop::collection::vec(any_value(), 3), 0..40),
            place in prop::option::of(prop::collection::vec(any_value(), 3)),
            inclusive in any::<bool>(),
        ) {
            let order = Order::new(keys);
            let count = order.keys().len();
            let place = place.map(|place| place.into_iter().take(count).collect::<Vec<_>>());
            let segments = segments(&order, place.as_deref(), inclusive);
            let mut rows: Vec<Vec<Scalar>> =
                rows.into_iter().map(|row| row.into_iter().take(count).collect()).collect();
            rows.sort_by(|a, b| order.order(a, b));
            let mut concatenated = Vec::new();
            for segment in &segments {
                let inside = |row: &&Vec<Scalar>| {
                    segment.tests.iter().all(|(key, test)| holds(*test, &row[*key]))
                };
                concatenated.extend(rows.iter().filter(inside));
            }
            let expected: Vec<_> = rows
                .iter()
                .filter(|row| match &place {
                    None => true,
                    Some(place) => match order.order(row, place) {
                        Ordering::Greater => true,
                        Ordering::Equal => inclusive,
                        Ordering::Less => false,
                    },
                })
                .collect();
            prop_assert_eq!(concatenated, expected);
        }
    }

    #[test]
    fn a_key_without_nulls_needs_one_segment() {
        let key = SortKey {
            field: FieldPath::name("id"),
            direction: Direction::Ascending,
            nulls: Nulls::Last,
            nullable: false,
        };
        let order = Order::new(vec![key]);
        assert_eq!(segments(&order, None, false).len(), 1);
        let place = [Scalar::Int(7)];
        let found = segments(&order, Some(&place), false);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].tests, [(0, Test::Greater(&place[0]))]);
    }
}
