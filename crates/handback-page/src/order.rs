//! Orders: by which members items are sorted, and how two places in the order compare.

use std::cmp::Ordering;

use crate::scalar::Scalar;
use crate::schema::FieldPath;

/// Which way a sort key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there are two ways")]
pub enum Direction {
    /// Small values first.
    Ascending,
    /// Large values first.
    Descending,
}

/// Where items without a value go, whichever way the key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there are two ends")]
pub enum Nulls {
    /// Before all others.
    First,
    /// After all others: the default.
    Last,
}

/// One key of an order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "collections take it apart")]
pub struct SortKey {
    /// Sorted by this member.
    pub field: FieldPath,
    /// Which way.
    pub direction: Direction,
    /// Where nulls go.
    pub nulls: Nulls,
    /// Whether there can be nulls.
    pub nullable: bool,
}

impl SortKey {
    /// The same key, read from its end.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self {
            field: self.field.clone(),
            direction: match self.direction {
                Direction::Ascending => Direction::Descending,
                Direction::Descending => Direction::Ascending,
            },
            nulls: match self.nulls {
                Nulls::First => Nulls::Last,
                Nulls::Last => Nulls::First,
            },
            nullable: self.nullable,
        }
    }

    /// How two values compare under this key.
    #[must_use]
    pub fn order(&self, a: &Scalar, b: &Scalar) -> Ordering {
        match (a.is_null(), b.is_null(), self.nulls) {
            (true, true, _) => Ordering::Equal,
            (true, false, Nulls::First) | (false, true, Nulls::Last) => Ordering::Less,
            (true, false, Nulls::Last) | (false, true, Nulls::First) => Ordering::Greater,
            (false, false, _) => match self.direction {
                Direction::Ascending => a.order(b),
                Direction::Descending => a.order(b).reverse(),
            },
        }
    }
}

/// A total order of a collection's items: it ends in the collection's key. Empty where items have
/// no key and are read in the order of their file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order(Vec<SortKey>);

impl Order {
    pub(crate) fn new(keys: Vec<SortKey>) -> Self {
        Self(keys)
    }

    /// The keys, the first one most significant.
    #[must_use]
    pub fn keys(&self) -> &[SortKey] {
        &self.0
    }

    /// The same order, read from its end.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self(self.0.iter().map(SortKey::reversed).collect())
    }

    /// How two places compare: one value per key each.
    #[must_use]
    pub fn order(&self, a: &[Scalar], b: &[Scalar]) -> Ordering {
        self.0
            .iter()
            .zip(a.iter().zip(b))
            .map(|(key, (a, b))| key.order(a, b))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}
