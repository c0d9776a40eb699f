//! Whether an index serves an order, so that a page costs the same at every depth.

use handback_page::filter::Test;
use handback_page::{Direction, Filter, Nulls, Order, Query};

/// An index, as its database described it. Partial indexes and indexes on expressions are left
/// out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) columns: Vec<IndexColumn>,
    pub(crate) unique: bool,
}

/// One column of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexColumn {
    pub(crate) name: String,
    pub(crate) descending: bool,
    /// Where nulls are, read forwards.
    pub(crate) nulls: Nulls,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Serves {
    /// An index has this order after the columns that the filter fixes.
    Yes,
    /// None has; this one would.
    No { hint: String },
}

/// Whether one of the indexes serves the order of a query.
pub(crate) fn serves(indexes: &[Index], query: &Query) -> Serves {
    let fixed = fixed_columns(&query.filter);
    if indexes.iter().any(|index| serves_one(index, &fixed, &query.order)) {
        return Serves::Yes;
    }
    let sorted = query.order.keys().iter().map(|key| key.field.first());
    let names: Vec<_> = fixed
        .iter()
        .copied()
        .filter(|name| query.order.keys().iter().all(|key| key.field.first() != *name))
        .chain(sorted)
        .collect();
    Serves::No { hint: format!("an index on ({}) would serve this order", names.join(", ")) }
}

/// Columns that the filter makes equal to one value in all rows.
pub(crate) fn fixed_columns(filter: &Filter) -> Vec<&str> {
    match filter {
        Filter::All(filters) => filters.iter().flat_map(fixed_columns).collect(),
        Filter::Field(path, Test::Equal(_) | Test::IsNull) => path.column().into_iter().collect(),
        Filter::Field(path, Test::In(values)) if values.len() == 1 => {
            path.column().into_iter().collect()
        }
        _ => vec![],
    }
}

fn serves_one(index: &Index, fixed: &[&str], order: &Order) -> bool {
    let is_fixed = |name: &str| fixed.contains(&name);
    let mut columns = index.columns.iter().skip_while(|column| is_fixed(&column.name)).peekable();
    let mut backwards = None;
    for (number, key) in order.keys().iter().enumerate() {
        let name = key.field.first();
        if is_fixed(name) {
            // The same in all rows: an index may have it here or not.
            columns.next_if(|column| column.name == name);
            continue;
        }
        let Some(column) = columns.next_if(|column| column.name == name) else { return false };
        let reversed = column.descending != (key.direction == Direction::Descending);
        if *backwards.get_or_insert(reversed) != reversed {
            return false;
        }
        // The first key's nulls are a segment of their own; later ones must be where the index
        // has them.
        let nulls_read_first = (column.nulls == Nulls::First) != reversed;
        if number > 0 && key.nullable && nulls_read_first != (key.nulls == Nulls::First) {
            return false;
        }
    }
    true
}

impl std::fmt::Display for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns: Vec<_> = self
            .columns
            .iter()
            .map(|column| {
                format!("{}{}", column.name, if column.descending { " desc" } else { "" })
            })
            .collect();
        write!(f, "({}){}", columns.join(", "), if self.unique { " unique" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use handback_page::{Column, FieldPath, Kind, Preset, Scalar, Schema, Search, Shape, SortKey};

    use super::*;

    fn index(columns: &[&str]) -> Index {
        let columns = columns
            .iter()
            .map(|text| {
                let (name, descending) =
                    text.strip_prefix('-').map_or((*text, false), |name| (name, true));
                let nulls = if descending { Nulls::Last } else { Nulls::First };
                IndexColumn { name: name.into(), descending, nulls }
            })
            .collect();
        Index { columns, unique: false }
    }

    fn query(filter: &[&str], order: &[&str]) -> Query {
        let column = |name: &str| Column {
            name: name.into(),
            kind: Kind::Any,
            nullable: true,
            preset: Preset::Full,
        };
        let schema = Schema::new(
            vec![column("a"), column("b"), column("id")],
            vec!["id".into()],
            Shape::Closed,
        );
        let keys = order
            .iter()
            .map(|text| {
                let (name, direction) = text
                    .strip_prefix('-')
                    .map_or((*text, Direction::Ascending), |name| (name, Direction::Descending));
                let nullable = name.ends_with('?');
                let field = FieldPath::name(name.trim_end_matches('?'));
                SortKey { field, direction, nulls: Nulls::Last, nullable }
            })
            .collect();
        let filters = filter
            .iter()
            .map(|name| Filter::Field(FieldPath::name(*name), Test::Equal(Scalar::Int(1))))
            .collect();
        Query {
            filter: Filter::All(filters),
            search: Search::default(),
            order: schema.total_order(keys),
        }
    }

    #[track_caller]
    fn check(indexes: &[&[&str]], filter: &[&str], order: &[&str], expected: bool) {
        let indexes: Vec<_> = indexes.iter().map(|columns| index(columns)).collect();
        let found = serves(&indexes, &query(filter, order));
        assert_eq!(found == Serves::Yes, expected, "{found:?}");
    }

    #[test]
    fn an_index_serves_its_own_order_in_both_directions() {
        check(&[&["id"]], &[], &[], true);
        check(&[&["id"]], &[], &["-id"], true);
        check(&[&["-id"]], &[], &[], true);
        check(&[&["a", "id"]], &[], &["a"], true);
        check(&[&["a", "id"]], &[], &["-a"], true);
        check(&[&["a", "id"]], &[], &["a", "-id"], false);
        check(&[&["a", "-id"]], &[], &["a", "-id"], true);
        check(&[&["a"]], &[], &["a"], false);
        check(&[&["id"]], &[], &["a"], false);
        check(&[&["b", "a", "id"]], &[], &["a"], false);
    }

    #[test]
    fn columns_that_the_filter_fixes_may_come_first() {
        check(&[&["b", "id"]], &["b"], &[], true);
        check(&[&["id"]], &["b"], &[], true);
        check(&[&["b", "a", "id"]], &["b"], &["a"], true);
        check(&[&["b", "a", "id"]], &["a", "b"], &["a"], true);
        check(&[&["b", "a", "id"]], &["a"], &["b"], false);
    }

    #[test]
    fn nulls_matter_behind_the_first_key() {
        check(&[&["a", "id"]], &[], &["a?"], true);
        check(&[&["b", "a", "id"]], &[], &["b", "a?"], false);
        check(&[&["b", "a", "id"]], &[], &["-b", "-a?"], true);
        // Also where the filter fixes the keys before: only the very first key's are apart.
        check(&[&["b", "a", "id"]], &["b"], &["b", "a?"], false);
        check(&[&["b", "a", "id"]], &["b"], &["a?"], true);
    }

    #[test]
    fn the_hint_names_an_index_that_would_serve() {
        let query = query(&["b"], &["a"]);
        let Serves::No { hint } = serves(&[], &query) else { panic!("nothing serves") };
        assert_eq!(hint, "an index on (b, a, id) would serve this order");
        assert_eq!(serves(&[index(&["b", "a", "id"])], &query), Serves::Yes);
    }
}
