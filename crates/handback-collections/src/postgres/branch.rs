//! From the segments behind a place to fewer: runs of them that are one row comparison.
//!
//! `(a = 5 AND id > 7)`, then `(a > 5)`, is `(a, id) > (5, 7)`: one seek instead of two, and nothing
//! that tempts the planner to read in the order of `id` alone and skip all rows with another `a`.
//! That works where keys go the same way and no nulls come in between; other segments stay as they
//! are.

use handback_page::keyset::{Segment, Test, segments};
use handback_page::{CollectionError, Order, Scalar};

use super::catalog::Layout;
use super::dialect::Postgres;
use super::types::schema_of_operators;
use crate::sql::{Conditions, Dialect, TableColumn};

/// Some of what follows a place, in one piece of an order.
#[derive(Debug)]
pub(super) struct Branch<'a> {
    /// What keys before those of the row must be; or any other tests, without a row.
    same: Segment<'a>,
    row: Option<RowTest<'a>>,
}

/// That keys, taken together, come after values.
#[derive(Debug)]
struct RowTest<'a> {
    first: usize,
    values: Vec<&'a Scalar>,
    greater: bool,
    or_equal: bool,
}

/// What follows `from` in `order`, nearest first, as [`segments`] has it.
pub(super) fn branches<'a>(
    layout: &Layout,
    order: &Order,
    from: Option<&'a [Scalar]>,
    inclusive: bool,
) -> Vec<Branch<'a>> {
    let mut found: Vec<Branch<'a>> = Vec::new();
    for segment in segments(order, from, inclusive) {
        let Some(branch) = Branch::comparing(&segment) else {
            found.push(Branch { same: segment, row: None });
            continue;
        };
        if let Some(before) = found.last_mut()
            && before.takes(&branch, layout, order)
        {
            before.same = branch.same;
            continue;
        }
        found.push(branch);
    }
    found
}

impl<'a> Branch<'a> {
    /// A segment that ends in a comparison.
    fn comparing(segment: &Segment<'a>) -> Option<Self> {
        let ((first, test), same) = segment.tests.split_last()?;
        let (value, greater) = match test {
            Test::Greater(value) => (*value, true),
            Test::Less(value) => (*value, false),
            Test::Equal(_) | Test::IsNull | Test::NotNull => return None,
        };
        let row = RowTest { first: *first, values: vec![value], greater, or_equal: false };
        Some(Self { same: Segment { tests: same.to_vec(), fixed: *first }, row: Some(row) })
    }

    /// Makes room for the segment that follows this one, if the two are one row comparison.
    fn takes(&mut self, next: &Self, layout: &Layout, order: &Order) -> bool {
        let Some(next) = &next.row else { return false };
        let Some(row) = &mut self.row else {
            // The place itself: all keys are the same, and the next segment has the last one.
            let Some((last, Test::Equal(_))) = self.same.tests.last() else { return false };
            let is_place = self.same.fixed == order.keys().len() && *last == next.first;
            if is_place {
                let values = next.values.clone();
                self.row = Some(RowTest { or_equal: true, values, ..*next });
            }
            return is_place;
        };
        let joins = next.first + 1 == row.first && next.greater == row.greater;
        // An operator by its full name would be that of all keys.
        let columns = order.keys().iter().skip(next.first).take(row.values.len() + 1);
        let is_plain = columns
            .filter_map(|key| layout.table.column(key.field.column()?))
            .all(|column| schema_of_operators(&column.sql_type).is_none());
        if joins && is_plain {
            row.values.splice(0..0, next.values.iter().copied());
            row.first = next.first;
        }
        joins && is_plain
    }

    /// As a condition; nothing if it is everything.
    pub(super) fn condition(
        &self,
        conditions: &mut Conditions<'_, Postgres>,
        layout: &Layout,
        order: &Order,
    ) -> Result<Option<String>, CollectionError> {
        let same = conditions.of_segment(&self.same, order)?;
        let Some(row) = &self.row else { return Ok(same) };
        let columns = order.keys().iter().skip(row.first).zip(&row.values).map(|(key, value)| {
            let column = key.field.column().and_then(|name| layout.table.column(name));
            column.map(|column| (column, *value)).ok_or_else(|| {
                CollectionError::Gone("the table has other columns than before".to_owned())
            })
        });
        let columns: Vec<(&TableColumn, &Scalar)> = columns.collect::<Result<_, _>>()?;
        let operator = match (row.greater, row.or_equal) {
            (true, false) => ">",
            (true, true) => ">=",
            (false, false) => "<",
            (false, true) => "<=",
        };
        let values: Vec<_> =
            columns.iter().map(|(column, value)| conditions.bind(value, column)).collect();
        let compared = match (columns.as_slice(), values.as_slice()) {
            ([(column, _)], [value]) => {
                format!("{} {} {value}", column.sql_name, Postgres::operator(column, operator))
            }
            _ => {
                let names: Vec<_> =
                    columns.iter().map(|(column, _)| column.sql_name.as_str()).collect();
                format!("({}) {operator} ({})", names.join(", "), values.join(", "))
            }
        };
        Ok(Some(match same {
            Some(same) => format!("{same} AND {compared}"),
            None => compared,
        }))
    }
}
