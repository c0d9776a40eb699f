//! Which index has the order of a query, and what `ORDER BY` must say for it to be used.

use std::fmt;

use handback_page::{Direction, Nulls, Query, Served};

use super::catalog::{Layout, Sort};
use super::types::ALIAS;
use crate::sql::{Index, Serves, fixed_columns, quoted, serves};

/// How rows are found in their order.
#[derive(Debug)]
pub(super) enum Plan {
    /// By an index; what it sorts by, so read that rows come in the order of the query.
    Index(Vec<Term>),
    /// By reading what matches, and sorting it.
    Sorted { hint: String },
}

/// One term of `ORDER BY`, or of an index.
#[derive(Clone, Debug)]
pub(super) struct Term {
    name: String,
    descending: bool,
    nulls: Nulls,
}

impl Plan {
    pub(super) fn new(layout: &Layout, query: &Query) -> Self {
        let fixed = fixed_columns(&query.filter);
        let is_fixed = |name: &str| fixed.contains(&name);
        if query.order.keys().iter().all(|key| is_fixed(key.field.first())) {
            // One row at most: an item that is asked for by its key.
            return Self::Index(vec![]);
        }
        let one = |index: &&Index| serves(std::slice::from_ref(*index), query) == Serves::Yes;
        match layout.table.indexes.iter().find(one) {
            Some(index) => Self::Index(terms(index, query)),
            None => Self::Sorted { hint: hint(layout, query) },
        }
    }

    pub(super) fn served(&self) -> Served {
        match self {
            Self::Index(_) => Served::Directly,
            Self::Sorted { hint } => Served::ByScan { hint: hint.clone() },
        }
    }
}

/// `ORDER BY` for these terms, or for their reverse.
pub(super) fn order_by(terms: &[Term], backwards: bool) -> String {
    if terms.is_empty() {
        return String::new();
    }
    let terms: Vec<_> = terms
        .iter()
        .map(|term| if backwards { term.reversed().to_string() } else { term.to_string() })
        .collect();
    format!(" ORDER BY {}", terms.join(", "))
}

/// What the index sorts by, as far as the query sorts by it. Columns in front that the filter fixes
/// are among it: the planner does not conclude anything from `IS NULL`.
fn terms(index: &Index, query: &Query) -> Vec<Term> {
    let keys = query.order.keys();
    let key_of = |name: &str| keys.iter().find(|key| key.field.column() == Some(name));
    let fixed = fixed_columns(&query.filter);
    let reads_backwards = index
        .columns
        .iter()
        .filter(|column| !fixed.contains(&column.name.as_str()))
        .find_map(|column| {
            let key = key_of(&column.name)?;
            Some(column.descending != (key.direction == Direction::Descending))
        })
        .unwrap_or(false);
    let used = index.columns.iter().rposition(|column| key_of(&column.name).is_some());
    let used = index.columns.iter().take(used.map_or(0, |last| last + 1));
    used.map(|column| {
        let name = format!("{ALIAS}.{}", quoted(&column.name));
        let term = Term { name, descending: column.descending, nulls: column.nulls };
        if reads_backwards { term.reversed() } else { term }
    })
    .collect()
}

/// What would help.
fn hint(layout: &Layout, query: &Query) -> String {
    if layout.relation.sort == Sort::View {
        return "a view has no indexes of its own: unless those of its tables serve this order, \
            every page sorts it"
            .to_owned();
    }
    let keys = query.order.keys();
    let mut fixed = fixed_columns(&query.filter);
    fixed.retain(|name| keys.iter().all(|key| key.field.first() != *name));
    fixed.sort_unstable();
    fixed.dedup();
    let fixed = fixed.iter().map(|name| spelled(name));
    // An index is read from either end: the one that is shorter to say.
    let backwards = keys.first().is_some_and(|key| key.direction == Direction::Descending);
    let sorted = keys.iter().enumerate().map(|(number, key)| {
        let key = if backwards { key.reversed() } else { key.clone() };
        let descending = key.direction == Direction::Descending;
        let usual = if descending { Nulls::First } else { Nulls::Last };
        // Nulls of the first key are read for themselves, wherever they are.
        let matters = key.nullable && number > 0 && key.nulls != usual;
        let nulls = match (matters, key.nulls) {
            (false, _) => "",
            (true, Nulls::First) => " nulls first",
            (true, Nulls::Last) => " nulls last",
        };
        let direction = if descending { " desc" } else { "" };
        format!("{}{direction}{nulls}", spelled(key.field.first()))
    });
    let columns: Vec<_> = fixed.chain(sorted).collect();
    format!("an index on ({}) would serve this order", columns.join(", "))
}

/// A name as people write it.
fn spelled(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.to_owned() } else { quoted(name) }
}

impl Term {
    fn reversed(&self) -> Self {
        let nulls = match self.nulls {
            Nulls::First => Nulls::Last,
            Nulls::Last => Nulls::First,
        };
        Self { name: self.name.clone(), descending: !self.descending, nulls }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.descending { " DESC" } else { "" };
        let nulls = match self.nulls {
            Nulls::First => " NULLS FIRST",
            Nulls::Last => " NULLS LAST",
        };
        write!(f, "{}{direction}{nulls}", self.name)
    }
}
