//! Filters: which items match.
//!
//! Truth has two values: a test of a member that is null or missing is false, and `not` turns that
//! into true. Only `is_null` asks for null itself.

mod parse;

use std::borrow::Cow;

use crate::scalar::Scalar;
use crate::schema::FieldPath;

pub(crate) use parse::json_type;
pub use parse::{FilterError, MAX_FILTER_DEPTH, MAX_FILTER_NODES, MAX_IN_VALUES};

/// A tree of tests, checked against the schema of its collection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every dialect has to say each of them")]
pub enum Filter {
    /// All of these hold. An empty list holds.
    All(Vec<Self>),
    /// One of these holds. An empty list does not hold.
    Any(Vec<Self>),
    /// This does not hold.
    Not(Box<Self>),
    /// A member passes a test.
    Field(FieldPath, Test),
}

/// What a member must be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every dialect has to say each of them")]
pub enum Test {
    /// Equal to a value that is not null.
    Equal(Scalar),
    /// Below a value of the same kind.
    Less(Scalar),
    /// Below or equal to a value of the same kind.
    LessOrEqual(Scalar),
    /// Above a value of the same kind.
    Greater(Scalar),
    /// Above or equal to a value of the same kind.
    GreaterOrEqual(Scalar),
    /// Equal to one of these, none of which is null.
    In(Vec<Scalar>),
    /// Text that has this text in it, by case; or a list that has this value in it.
    Contains(Scalar),
    /// Text that starts with this text, by case.
    StartsWith(String),
    /// Null, or missing.
    IsNull,
}

/// A member of an item, as a filter sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "collections make it")]
pub enum Member<'a> {
    /// A single value; null if the member is missing.
    Scalar(Cow<'a, Scalar>),
    /// A list, with its members that are single values: of a long one, those that the filter asks for.
    List(Cow<'a, [Scalar]>),
    /// An object.
    Object,
}

impl Member<'_> {
    /// The same, for as long as this one is there.
    pub(crate) fn borrowed(&self) -> Member<'_> {
        match self {
            Self::Scalar(value) => Member::Scalar(Cow::Borrowed(value)),
            Self::List(values) => Member::List(Cow::Borrowed(values)),
            Self::Object => Member::Object,
        }
    }
}

impl Filter {
    /// Matches everything.
    pub const EVERYTHING: Self = Self::All(Vec::new());

    /// Whether it matches everything.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        matches!(self, Self::All(filters) if filters.iter().all(Self::is_everything))
    }

    /// Whether an item matches whose members `lookup` finds.
    pub fn matches<'a>(&self, lookup: &dyn Fn(&FieldPath) -> Member<'a>) -> bool {
        match self {
            Self::All(filters) => filters.iter().all(|filter| filter.matches(lookup)),
            Self::Any(filters) => filters.iter().any(|filter| filter.matches(lookup)),
            Self::Not(filter) => !filter.matches(lookup),
            Self::Field(path, test) => test.holds(&lookup(path)),
        }
    }

    /// Calls `visit` with every member that is tested.
    pub fn for_each_field<'a>(&'a self, visit: &mut dyn FnMut(&'a FieldPath, &'a Test)) {
        match self {
            Self::All(filters) | Self::Any(filters) => {
                filters.iter().for_each(|filter| filter.for_each_field(visit));
            }
            Self::Not(filter) => filter.for_each_field(visit),
            Self::Field(path, test) => visit(path, test),
        }
    }
}

impl Test {
    /// Whether a member passes.
    #[must_use]
    pub fn holds(&self, member: &Member<'_>) -> bool {
        let value = match member {
            Member::Scalar(value) => value.as_ref(),
            Member::List(values) => {
                return matches!(self, Self::Contains(wanted) if values.contains(wanted));
            }
            Member::Object => return false,
        };
        if value.is_null() {
            return matches!(self, Self::IsNull);
        }
        let compare = |other: &Scalar| (value.rank() == other.rank()).then(|| value.order(other));
        match self {
            Self::Equal(other) => value == other,
            Self::Less(other) => compare(other).is_some_and(std::cmp::Ordering::is_lt),
            Self::LessOrEqual(other) => compare(other).is_some_and(std::cmp::Ordering::is_le),
            Self::Greater(other) => compare(other).is_some_and(std::cmp::Ordering::is_gt),
            Self::GreaterOrEqual(other) => compare(other).is_some_and(std::cmp::Ordering::is_ge),
            Self::In(others) => others.contains(value),
            Self::Contains(Scalar::Text(part)) => {
                matches!(value, Scalar::Text(text) if text.contains(part.as_str()))
            }
            Self::Contains(_) | Self::IsNull => false,
            Self::StartsWith(start) => {
                matches!(value, Scalar::Text(text) if text.starts_with(start.as_str()))
            }
        }
    }
}
