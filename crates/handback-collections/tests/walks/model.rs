//! Rows, conditions and orders, the simple way.

use std::cmp::Ordering;

use proptest::prelude::*;
use serde_json::{Value, json};

/// A row of five columns, of which `id` is the key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) id: i64,
    pub(crate) a: Option<i64>,
    pub(crate) b: Option<String>,
    pub(crate) c: Option<f64>,
    /// Never null, few values: ties.
    pub(crate) d: i64,
}

/// What happens between two pages.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Insert(Row),
    Delete(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Sort {
    column: char,
    descending: bool,
    nulls_first: bool,
}

impl Sort {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "field": name(self.column),
            "order": if self.descending { "desc" } else { "asc" },
            "nulls": if self.nulls_first { "first" } else { "last" },
        })
    }
}

fn name(column: char) -> String {
    if column == 'i' { "id".to_owned() } else { column.to_string() }
}

#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Everything,
    /// `a`, `d` or `id`, an operator, a number.
    Number(char, &'static str, i64),
    /// `c`, an operator, a double.
    Double(&'static str, f64),
    /// `b`, an operator, a text.
    Text(&'static str, String),
    IsNull(char, bool),
    Among(char, Vec<i64>),
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
}

impl Condition {
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Everything => json!({}),
            Self::Number(column, operator, value) => json!({name(*column): {*operator: value}}),
            Self::Double(operator, value) => json!({"c": {*operator: value}}),
            Self::Text(operator, value) => json!({"b": {*operator: value}}),
            Self::IsNull(column, is) => json!({name(*column): {"is_null": is}}),
            Self::Among(column, values) => json!({name(*column): {"in": values}}),
            Self::All(inner) => json!({"and": inner.iter().map(Self::to_json).collect::<Value>()}),
            Self::Any(inner) => json!({"or": inner.iter().map(Self::to_json).collect::<Value>()}),
            Self::Not(inner) => json!({"not": inner.to_json()}),
        }
    }

    fn holds(&self, row: &Row) -> bool {
        fn compare<T: PartialOrd>(found: Option<T>, operator: &str, wanted: &T) -> bool {
            let Some(found) = found else { return operator == "ne" };
            match operator {
                "eq" => found == *wanted,
                "ne" => found != *wanted,
                "lt" => found < *wanted,
                "lte" => found <= *wanted,
                "gt" => found > *wanted,
                "gte" => found >= *wanted,
                _ => unreachable!(),
            }
        }
        let number = |column: char| match column {
            'a' => row.a,
            'd' => Some(row.d),
            _ => Some(row.id),
        };
        match self {
            Self::Everything => true,
            Self::Number(column, operator, value) => compare(number(*column), operator, value),
            Self::Double(operator, value) => compare(row.c, operator, value),
            Self::Text("contains", part) => row.b.as_ref().is_some_and(|b| b.contains(part)),
            Self::Text("starts_with", part) => row.b.as_ref().is_some_and(|b| b.starts_with(part)),
            Self::Text(operator, value) => compare(row.b.as_ref(), operator, &value),
            Self::IsNull(column, is) => {
                let null = match column {
                    'a' => row.a.is_none(),
                    'b' => row.b.is_none(),
                    'c' => row.c.is_none(),
                    _ => false,
                };
                null == *is
            }
            Self::Among(column, values) => number(*column).is_some_and(|n| values.contains(&n)),
            Self::All(inner) => inner.iter().all(|condition| condition.holds(row)),
            Self::Any(inner) => inner.iter().any(|condition| condition.holds(row)),
            Self::Not(inner) => !inner.holds(row),
        }
    }
}

/// The ids of the rows that match, in order.
pub(crate) fn select(rows: &[Row], sort: &[Sort], condition: &Condition) -> Vec<i64> {
    let mut found: Vec<&Row> = rows.iter().filter(|row| condition.holds(row)).collect();
    found.sort_by(|x, y| {
        let by_sort = sort.iter().map(|key| compare(x, y, key)).find(|order| order.is_ne());
        by_sort.unwrap_or_else(|| {
            let ids = x.id.cmp(&y.id);
            if sort.last().is_some_and(|key| key.descending) { ids.reverse() } else { ids }
        })
    });
    found.into_iter().map(|row| row.id).collect()
}

fn compare(x: &Row, y: &Row, key: &Sort) -> Ordering {
    fn nulls<T>(
        x: Option<T>,
        y: Option<T>,
        key: &Sort,
        order: impl Fn(&T, &T) -> Ordering,
    ) -> Ordering {
        match (x, y) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) if key.nulls_first => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) if key.nulls_first => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(x), Some(y)) if key.descending => order(&y, &x),
            (Some(x), Some(y)) => order(&x, &y),
        }
    }
    match key.column {
        'a' => nulls(x.a, y.a, key, i64::cmp),
        'b' => nulls(x.b.as_ref(), y.b.as_ref(), key, |x, y| x.as_bytes().cmp(y.as_bytes())),
        'c' => nulls(x.c, y.c, key, |x, y| x.partial_cmp(y).unwrap()),
        'd' => nulls(Some(x.d), Some(y.d), key, i64::cmp),
        _ => nulls(Some(x.id), Some(y.id), key, i64::cmp),
    }
}

fn numbers() -> impl Strategy<Value = i64> {
    prop_oneof![-3i64..4, Just(i64::MAX), Just(i64::MIN), Just(9_007_199_254_740_993)]
}

fn doubles() -> impl Strategy<Value = f64> {
    prop_oneof![(-4i32..5).prop_map(|n| f64::from(n) / 2.0), Just(1e300), Just(-1e-300), Just(0.1)]
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[abAB]{0,2}",
        Just("é".to_owned()),
        Just("'; --".to_owned()),
        Just("a%_".to_owned())
    ]
}

fn row() -> impl Strategy<Value = Row> {
    let a = prop::option::weighted(0.7, -2i64..3);
    let b = prop::option::weighted(0.7, texts());
    let c = prop::option::weighted(0.7, doubles());
    (-50i64..50, a, b, c, 0i64..3).prop_map(|(id, a, b, c, d)| Row { id, a, b, c, d })
}

pub(crate) fn rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(row(), 0..40).prop_map(|rows| {
        let mut distinct: Vec<Row> = Vec::new();
        for row in rows {
            if distinct.iter().all(|known| known.id != row.id) {
                distinct.push(row);
            }
        }
        distinct
    })
}

pub(crate) fn changes() -> impl Strategy<Value = Vec<Vec<Change>>> {
    let change =
        prop_oneof![row().prop_map(Change::Insert), (0usize..1000).prop_map(Change::Delete),];
    prop::collection::vec(prop::collection::vec(change, 0..4), 0..12)
}

pub(crate) fn sort() -> impl Strategy<Value = Vec<Sort>> {
    let key = (prop::sample::select(vec!['a', 'b', 'c', 'd', 'i']), any::<bool>(), any::<bool>())
        .prop_map(|(column, descending, nulls_first)| Sort { column, descending, nulls_first });
    prop::collection::vec(key, 0..4).prop_map(|keys| {
        let mut distinct: Vec<Sort> = Vec::new();
        for key in keys {
            if distinct.iter().all(|known| known.column != key.column) {
                distinct.push(key);
            }
        }
        distinct
    })
}

pub(crate) fn condition() -> impl Strategy<Value = Condition> {
    let comparison = || prop::sample::select(vec!["eq", "ne", "lt", "lte", "gt", "gte"]);
    let text_operator =
        prop::sample::select(vec!["eq", "ne", "lt", "gte", "contains", "starts_with"]);
    let number_column = || prop::sample::select(vec!['a', 'd', 'i']);
    let leaf = prop_oneof![
        3 => Just(Condition::Everything),
        2 => (number_column(), comparison(), numbers())
            .prop_map(|(column, operator, value)| Condition::Number(column, operator, value)),
        1 => (comparison(), doubles()).prop_map(|(operator, value)| Condition::Double(operator, value)),
        2 => (text_operator, texts()).prop_map(|(operator, value)| Condition::Text(operator, value)),
        1 => (prop::sample::select(vec!['a', 'b', 'c', 'd']), any::<bool>())
            .prop_map(|(column, is)| Condition::IsNull(column, is)),
        1 => (number_column(), prop::collection::vec(numbers(), 0..4))
            .prop_map(|(column, values)| Condition::Among(column, values)),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Condition::All),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Condition::Any),
            inner.prop_map(|condition| Condition::Not(Box::new(condition))),
        ]
    })
}
