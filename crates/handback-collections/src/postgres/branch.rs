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
use crate::sql::{Conditions, Dialect, TableColumn, column_gone};

/// Some of what follows a place, in one piece of an order.
#[derive(Debug)]
pub(super) struct Branch<'a> {
    /// What keys before those of the row must be; or any other tests, without a row.
    same: Segment<'a>,
    row: Option<RowTest<'a>>,
    /// Whether it is the place alone.
    is_place: bool,
}

/// That keys, taken together, come after values.
#[derive(Debug)]
struct RowTest<'a> {
    first: usize,
    values: Vec<&'a Scalar>,
    greater: bool,
    or_equal: bool,
}

/// A branch in SQL.
#[derive(Debug)]
pub(super) struct Demand {
    /// What its rows must be; nothing if it has all.
    pub(super) condition: Option<String>,
    /// Which of its rows are at the place. By the words of the server: what its types and
    /// collations take for the same, nobody else knows.
    pub(super) at_place: String,
}

/// What follows `from` in `order`, nearest first, as [`segments`] has it.
pub(super) fn branches<'a>(
    layout: &Layout,
    order: &Order,
    from: Option<&'a [Scalar]>,
    inclusive: bool,
) -> Vec<Branch<'a>> {
    let mut found: Vec<Branch<'a>> = Vec::new();
    for (number, segment) in segments(order, from, inclusive).into_iter().enumerate() {
        let Some(branch) = Branch::comparing(&segment) else {
            let is_place = inclusive && from.is_some() && number == 0;
            found.push(Branch { same: segment, row: None, is_place });
            continue;
        };
        if let Some(before) = found.last_mut()
            && before.takes(&branch, layout, order)
        {
            before.same = branch.same;
            before.is_place = false;
            continue;
        }
        found.push(branch);
    }
    found
}

impl<'a> Branch<'a> {
    /// A place alone.
    pub(super) fn place(order: &Order, place: Option<&'a [Scalar]>) -> Self {
        let tests = place.into_iter().flatten().enumerate().map(|(number, value)| {
            (number, if value.is_null() { Test::IsNull } else { Test::Equal(value) })
        });
        let same = Segment { tests: tests.collect(), fixed: order.keys().len() };
        Self { same, row: None, is_place: true }
    }

    /// A segment that ends in a comparison.
    fn comparing(segment: &Segment<'a>) -> Option<Self> {
        let ((first, test), same) = segment.tests.split_last()?;
        let (value, greater) = match test {
            Test::Greater(value) => (*value, true),
            Test::Less(value) => (*value, false),
            Test::Equal(_) | Test::IsNull | Test::NotNull => return None,
        };
        let row = RowTest { first: *first, values: vec![value], greater, or_equal: false };
        let same = Segment { tests: same.to_vec(), fixed: *first };
        Some(Self { same, row: Some(row), is_place: false })
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

    /// The keys whose values in the place its condition binds, in the order in which it does.
    pub(super) fn keys(&self) -> impl Iterator<Item = usize> {
        let same = self.same.tests.iter().filter_map(|(number, test)| match test {
            Test::Equal(_) | Test::Greater(_) | Test::Less(_) => Some(*number),
            Test::IsNull | Test::NotNull => None,
        });
        let row = self.row.iter().flat_map(|row| row.first..row.first + row.values.len());
        same.chain(row)
    }

    /// As conditions with bound values.
    pub(super) fn demand(
        &self,
        conditions: &mut Conditions<'_, Postgres>,
        layout: &Layout,
        order: &Order,
    ) -> Result<Demand, CollectionError> {
        let same = conditions.of_segment(&self.same, order)?;
        let Some(row) = &self.row else {
            return Ok(Demand { condition: same, at_place: self.is_place.to_string() });
        };
        let columns = order.keys().iter().skip(row.first).zip(&row.values).map(|(key, value)| {
            let column = key.field.column().and_then(|name| layout.table.column(name));
            column.map(|column| (column, *value)).ok_or_else(|| column_gone(&key.field))
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
        let compare = |operator| match (columns.as_slice(), values.as_slice()) {
            ([(column, _)], [value]) => {
                format!("{} {} {value}", column.sql_name, Postgres::operator(column, operator))
            }
            _ => {
                let names: Vec<_> =
                    columns.iter().map(|(column, _)| column.sql_name.as_str()).collect();
                format!("({}) {operator} ({})", names.join(", "), values.join(", "))
            }
        };
        let compared = compare(operator);
        let condition = Some(match same {
            Some(same) => format!("{same} AND {compared}"),
            None => compared,
        });
        let at_place = if row.or_equal { compare("=") } else { "false".to_owned() };
        Ok(Demand { condition, at_place })
    }
}
