//! Filters, searches and segments as conditions with bound values.

use std::marker::PhantomData;

use handback_page::filter::Test;
use handback_page::keyset::{self, Segment};
use handback_page::{
    CollectionError, Direction, FieldPath, Filter, Nulls, Order, Query, Scalar, Search,
};

use super::{Dialect, Table, TableColumn, column_gone};

/// Text of conditions, and the values that are bound to its placeholders.
///
/// One builder makes all conditions of a statement, so that the placeholders are numbered
/// through.
#[derive(Debug)]
pub(crate) struct Conditions<'a, D> {
    table: &'a Table,
    parameters: Vec<(Scalar, String)>,
    dialect: PhantomData<D>,
}

impl<'a, D: Dialect> Conditions<'a, D> {
    pub(crate) const fn new(table: &'a Table) -> Self {
        Self { table, parameters: Vec::new(), dialect: PhantomData }
    }

    /// The values to bind, in the order of their numbers, each with the type of its column in the
    /// database's words (`""` for text of a search or pattern).
    pub(crate) fn into_parameters(self) -> Vec<(Scalar, String)> {
        self.parameters
    }

    /// How many values are bound so far.
    pub(crate) const fn bound(&self) -> usize {
        self.parameters.len()
    }

    /// What filter and search demand; nothing if they demand nothing.
    pub(crate) fn of_query(&mut self, query: &Query) -> Result<Option<String>, CollectionError> {
        let mut parts = Vec::new();
        if !query.filter.is_everything() {
            parts.push(self.filter(&query.filter, false)?);
        }
        parts.extend(self.search(&query.search));
        Ok((!parts.is_empty()).then(|| parts.join(" AND ")))
    }

    /// What a segment demands; nothing if it is everything.
    pub(crate) fn of_segment(
        &mut self,
        segment: &Segment<'_>,
        order: &Order,
    ) -> Result<Option<String>, CollectionError> {
        self.segment(segment, order, [">", "<"])
    }

    /// What a segment demands, with the value that it starts behind.
    pub(crate) fn of_segment_with_start(
        &mut self,
        segment: &Segment<'_>,
        order: &Order,
    ) -> Result<Option<String>, CollectionError> {
        self.segment(segment, order, [">=", "<="])
    }

    fn segment(
        &mut self,
        segment: &Segment<'_>,
        order: &Order,
        [greater, less]: [&'static str; 2],
    ) -> Result<Option<String>, CollectionError> {
        let mut parts = Vec::new();
        for (number, test) in &segment.tests {
            let key = order.keys().get(*number).ok_or(CollectionError::BadPlace)?;
            let column = self.column(&key.field)?;
            let name = &column.sql_name;
            let mut compare = |operator, value: &Scalar| {
                let operator = D::operator(column, operator);
                format!("{} {operator} {}", D::compared(column, value), self.bind(value, column))
            };
            parts.push(match test {
                keyset::Test::IsNull => format!("{name} IS NULL"),
                keyset::Test::NotNull => format!("{name} IS NOT NULL"),
                keyset::Test::Equal(value) => compare("=", value),
                keyset::Test::Greater(value) => compare(greater, value),
                keyset::Test::Less(value) => compare(less, value),
            });
        }
        Ok((!parts.is_empty()).then(|| parts.join(" AND ")))
    }

    /// `ORDER BY` for the keys of an order after the first `fixed` ones; nothing if none is left.
    ///
    /// Where nulls go is said only for a key that may hold some in these rows: a first key that is
    /// compared holds none, as each segment says.
    pub(crate) fn order_by(
        &self,
        order: &Order,
        segment: &Segment<'_>,
    ) -> Result<String, CollectionError> {
        let mut parts = Vec::new();
        for (number, key) in order.keys().iter().enumerate().skip(segment.fixed) {
            let column = self.column(&key.field)?;
            let mut part = column.sql_name.clone();
            if key.direction == Direction::Descending {
                part.push_str(" DESC");
            }
            if key.nullable && segment.tests.iter().all(|(tested, _)| *tested != number) {
                part.push_str(match key.nulls {
                    Nulls::First => " NULLS FIRST",
                    Nulls::Last => " NULLS LAST",
                });
            }
            parts.push(part);
        }
        Ok(if parts.is_empty() { String::new() } else { format!(" ORDER BY {}", parts.join(", ")) })
    }

    fn column(&self, path: &FieldPath) -> Result<&'a TableColumn, CollectionError> {
        let found = path.column().and_then(|name| self.table.column(name));
        found.ok_or_else(|| column_gone(path))
    }

    /// A placeholder for a value that a column is compared with.
    pub(crate) fn bind(&mut self, value: &Scalar, column: &TableColumn) -> String {
        self.parameters.push((value.clone(), column.sql_type.clone()));
        D::parameter(self.parameters.len(), column)
    }

    /// A placeholder for text.
    pub(crate) fn bind_text(&mut self, text: &str) -> String {
        self.parameters.push((Scalar::Text(text.to_owned()), String::new()));
        D::text_parameter(self.parameters.len())
    }

    /// A filter that holds, or, if `negated`, does not. Negation is pushed down to the tests, where
    /// `IS NOT TRUE` makes two truth values of SQL's three.
    fn filter(&mut self, filter: &Filter, negated: bool) -> Result<String, CollectionError> {
        Ok(match filter {
            Filter::Not(filter) => self.filter(filter, !negated)?,
            Filter::All(filters) => self.join(filters, negated, !negated)?,
            Filter::Any(filters) => self.join(filters, negated, negated)?,
            Filter::Field(path, test) => {
                let condition = self.test(path, test)?;
                if negated { format!("({condition}) IS NOT TRUE") } else { condition }
            }
        })
    }

    fn join(
        &mut self,
        filters: &[Filter],
        negated: bool,
        all: bool,
    ) -> Result<String, CollectionError> {
        let parts = filters
            .iter()
            .map(|filter| self.filter(filter, negated))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(match (parts.is_empty(), all) {
            (true, true) => "1 = 1".to_owned(),
            (true, false) => "1 = 0".to_owned(),
            (false, true) => joined(&parts, "AND"),
            (false, false) => joined(&parts, "OR"),
        })
    }

    fn test(&mut self, path: &FieldPath, test: &Test) -> Result<String, CollectionError> {
        let column = self.column(path)?;
        let name = &column.sql_name;
        let mut compare = |operator, value: &Scalar| {
            let (compared, operator) = (D::compared(column, value), D::operator(column, operator));
            let condition = format!("{compared} {operator} {}", self.bind(value, column));
            match D::same_kind(name, value) {
                Some(kind) => format!("({condition} AND {kind})"),
                None => condition,
            }
        };
        Ok(match test {
            Test::Less(value) => compare("<", value),
            Test::LessOrEqual(value) => compare("<=", value),
            Test::Greater(value) => compare(">", value),
            Test::GreaterOrEqual(value) => compare(">=", value),
            Test::Equal(value) => {
                let equal = D::operator(column, "=");
                format!("{} {equal} {}", D::compared(column, value), self.bind(value, column))
            }
            Test::In(values) if values.is_empty() => "1 = 0".to_owned(),
            Test::In(values) => {
                let mut sides = values.iter().map(|value| D::compared(column, value));
                let compared = sides.find(|side| side != name).unwrap_or_else(|| name.clone());
                let places: Vec<_> = values.iter().map(|value| self.bind(value, column)).collect();
                format!("{compared} IN ({})", places.join(", "))
            }
            Test::Contains(Scalar::Text(text)) => {
                let parameter = self.bind_text(text);
                D::contains(name, &parameter)
            }
            Test::Contains(_) => "1 = 0".to_owned(),
            Test::StartsWith(text) => {
                let parameter = self.bind_text(text);
                D::starts_with(name, &parameter)
            }
            Test::IsNull => format!("{name} IS NULL"),
        })
    }

    /// That one of the words occurs in one of the text columns.
    fn search(&mut self, search: &Search) -> Option<String> {
        if search.is_empty() {
            return None;
        }
        let is_searchable = |column: &&TableColumn| column.column.is_searchable();
        let columns: Vec<_> = self.table.columns.iter().filter(is_searchable).collect();
        if columns.is_empty() {
            return Some("1 = 0".to_owned());
        }
        let words: Vec<_> = search.words().iter().map(|word| self.bind_text(word)).collect();
        let groups: Vec<_> =
            columns.iter().map(|column| D::finds(&column.sql_name, &words)).collect();
        Some(joined(&groups, "OR"))
    }
}

/// So many parts are written one after the other.
const CHAIN_MAX: usize = 8;

/// All parts with `operator` between them, in parentheses: a tree that is about as deep as the
/// number of its parts has bits. A chain of some hundred parts, which databases read as a tree that
/// leans to one side, is deeper than what SQLite takes.
pub(crate) fn joined(parts: &[String], operator: &str) -> String {
    if parts.len() <= CHAIN_MAX {
        return format!("({})", parts.join(&format!(" {operator} ")));
    }
    let (left, right) = parts.split_at(parts.len() / 2);
    format!("({} {operator} {})", joined(left, operator), joined(right, operator))
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn many_parts_are_a_flat_tree() {
        let parts: Vec<_> = (0..1000).map(|number| format!("p{number}")).collect();
        assert_eq!(joined(&parts[..3], "OR"), "(p0 OR p1 OR p2)");
        let text = joined(&parts, "AND");
        let depth = text.chars().scan(0_i32, |depth, c| {
            *depth += i32::from(c == '(') - i32::from(c == ')');
            Some(*depth)
        });
        assert!(depth.max().unwrap() <= 9);
        let names = text.split(" AND ").map(|part| part.trim_matches(['(', ')']));
        assert!(names.eq(parts.iter()));
    }
}
