//! The statements of a window, made once for all pages of a walk.

use handback_page::filter::{self, Filter};
use handback_page::keyset::{self, Segment, Test};
use handback_page::{CollectionError, Order, Query, Scalar, Schema, Served, Shape as SchemaShape};

use super::dialect::{Sqlite, adapted};
use super::source::{Items, Source};
use crate::sql::{Conditions, Serves, TableColumn, serves};

/// How many tests a search may have: each word is looked for in every text column of every row. As
/// many as 32 words, which is all that a request has, and the columns of the widest CSV file.
const MAX_SEARCH_TESTS: usize = 32 * 1024;

/// How many words a search may have on the narrowest table.
const MAX_WORDS: usize = 200;

/// Statements longer than this are not kept: callers choose their shape, and with a search of a wide
/// table one takes megabytes. All columns of the widest table are shorter.
pub(super) const KEPT_SQL_BYTES_MAX: usize = 256 * 1024;

/// Which way a window is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Walk<'a> {
    Forward(Option<&'a [Scalar]>),
    Backward(Option<&'a [Scalar]>),
    Offset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Forward,
    Backward,
    Offset,
}

impl<'a> Walk<'a> {
    pub(super) const fn split(self) -> (Way, Option<&'a [Scalar]>) {
        match self {
            Self::Forward(place) => (Way::Forward, place),
            Self::Backward(place) => (Way::Backward, place),
            Self::Offset => (Way::Offset, None),
        }
    }
}

/// What a plan is made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    pub(super) query: &'a Query,
    pub(super) columns: Option<&'a [String]>,
    pub(super) walk: Walk<'a>,
}

/// Statements, and what their parameters and columns are.
#[derive(Debug)]
pub(super) struct Plan {
    /// They find the rows of the window, one after the other.
    pub(super) walk: Vec<Statement>,
    /// They find whether there is anything behind the place.
    pub(super) probe: Vec<Statement>,
    /// The first statement starts with the row at the place, if it is still there, and this sort
    /// key is the same in it: the walk goes on behind it, and nothing has to be probed for.
    pub(super) starts_at: Option<usize>,
    /// The first parameters of every statement.
    pub(super) values: Vec<Scalar>,
    /// The result columns that make the item, from the first on.
    pub(super) members: Vec<Member>,
    /// The place in the order, key by key.
    pub(super) keys: Vec<PlaceColumn>,
    /// The value that the filter demands of a sort key.
    pub(super) fixed: Vec<Option<Scalar>>,
    pub(super) served: Served,
}

/// One statement. Its parameters are the plan's values, then these values of the place, then the
/// limit and the offset.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) place: Vec<usize>,
}

/// A column of the item.
#[derive(Debug)]
pub(super) struct Member {
    /// What is written before its value: `{"name":` or `,"name":`.
    pub(super) prefix: String,
    pub(super) name: String,
    /// Which sort key it is, if one.
    pub(super) key: Option<usize>,
}

/// A sort key.
#[derive(Debug)]
pub(super) struct PlaceColumn {
    /// The result column that has it.
    pub(super) result: usize,
    pub(super) name: String,
    pub(super) nullable: bool,
    /// Whether a member of the item is the same value.
    pub(super) is_member: bool,
}

impl Plan {
    pub(super) fn new(source: &Source, shape: Shape<'_>) -> Result<Self, CollectionError> {
        let (_, place) = shape.walk.split();
        let query = adapted_query(source, shape.query, place)?;
        let served = match serves(&source.table.indexes, &query) {
            Serves::Yes => Served::Directly,
            Serves::No { hint } if source.require_index => {
                return Err(CollectionError::NotIndexed { hint });
            }
            Serves::No { hint } => Served::ByScan { hint },
        };
        let selection = Selection::new(source, shape.columns, &query.order)?;
        let fixed = fixed_values(&query);
        let varying = Varying::new(&query.order, &fixed, place);
        let maker = Maker { source, query: &query, select: &selection.sql, varying };
        let by_index = served == Served::Directly;
        let starts_at = if by_index { maker.starts_at() } else { None };
        let (walk, probe) = maker.statements(shape.walk, by_index)?;
        let mut conditions = Conditions::<Sqlite>::new(&source.table);
        conditions.of_query(&query)?;
        let values = values(conditions);
        let Selection { members, keys, .. } = selection;
        Ok(Self { walk, probe, starts_at, values, members, keys, fixed, served })
    }

    /// Whether it is short enough to be kept.
    pub(super) fn is_kept(&self) -> bool {
        let mut statements = self.walk.iter().chain(&self.probe);
        statements.all(|statement| statement.sql.len() <= KEPT_SQL_BYTES_MAX)
    }
}

/// `SELECT count(*)` of a query, and its values.
pub(super) fn count(
    source: &Source,
    query: &Query,
) -> Result<(String, Vec<Scalar>), CollectionError> {
    let query = adapted_query(source, query, None)?;
    let mut conditions = Conditions::<Sqlite>::new(&source.table);
    let condition = conditions.of_query(&query)?;
    let condition = condition.map_or(String::new(), |condition| format!(" WHERE {condition}"));
    Ok((format!("SELECT count(*) FROM {}{condition}", source.table.name), values(conditions)))
}

/// The query in the words of this table.
fn adapted_query(
    source: &Source,
    query: &Query,
    place: Option<&[Scalar]>,
) -> Result<Query, CollectionError> {
    let columns = source.table.columns.iter().filter(|column| column.column.is_searchable());
    let words_max = MAX_WORDS.min(MAX_SEARCH_TESTS / columns.count().max(1));
    if query.search.words().len() > words_max {
        let (unit, limit) = ("words over this many columns", words_max as u64);
        return Err(CollectionError::TooLarge { what: "search", unit, limit });
    }
    Ok(Query {
        filter: adapted(&query.filter, source.values),
        search: query.search.clone(),
        order: source.total_order(&query.order, place),
    })
}

fn values(conditions: Conditions<'_, Sqlite>) -> Vec<Scalar> {
    conditions.into_parameters().into_iter().map(|(value, _)| value).collect()
}

/// Where a segment starts.
#[derive(Clone, Copy)]
enum Start {
    At,
    Behind,
}

#[derive(Clone, Copy)]
enum Limit {
    Plain,
    WithOffset,
}

/// The values that the filter demands of the sort keys.
fn fixed_values(query: &Query) -> Vec<Option<Scalar>> {
    fn demanded<'f>(filter: &'f Filter, name: &str) -> Option<&'f Scalar> {
        match filter {
            Filter::All(filters) => filters.iter().find_map(|filter| demanded(filter, name)),
            Filter::Field(path, test) if path.column() == Some(name) => match test {
                filter::Test::Equal(value) => Some(value),
                filter::Test::In(values) => match values.as_slice() {
                    [value] => Some(value),
                    _ => None,
                },
                filter::Test::IsNull => Some(&Scalar::Null),
                _ => None,
            },
            _ => None,
        }
    }
    let keys = query.order.keys().iter();
    keys.map(|key| demanded(&query.filter, key.field.first()).cloned()).collect()
}

/// An order without the keys that are the same in all rows, and in the place: without them there
/// are fewer segments, and none that is looked for in vain.
struct Varying {
    order: Order,
    /// Which keys of the order they are.
    numbers: Vec<usize>,
    place: Option<Vec<Scalar>>,
}

impl Varying {
    fn new(order: &Order, fixed: &[Option<Scalar>], place: Option<&[Scalar]>) -> Self {
        let varies = |number: &usize| match (fixed.get(*number), place) {
            (Some(Some(_)), None) => false,
            (Some(Some(value)), Some(place)) => place.get(*number) != Some(value),
            _ => true,
        };
        let numbers: Vec<_> = (0..order.keys().len()).filter(varies).collect();
        let keys = numbers.iter().filter_map(|number| order.keys().get(*number)).cloned().collect();
        // What it makes total has no key: nothing is added.
        let order = Schema::new(vec![], vec![], SchemaShape::Closed).total_order(keys);
        let place = place
            .map(|place| numbers.iter().filter_map(|number| place.get(*number)).cloned().collect());
        Self { order, numbers, place }
    }

    /// The last key, if its value in the place is a number: two of them are the same if SQLite says
    /// so, which of text only its collation knows.
    fn starts_at(&self) -> Option<usize> {
        let value = self.place.as_ref()?.last()?;
        let last = *self.numbers.last()?;
        matches!(value, Scalar::Int(_) | Scalar::Real(_)).then_some(last)
    }
}

struct Maker<'a> {
    source: &'a Source,
    query: &'a Query,
    select: &'a str,
    varying: Varying,
}

impl Maker<'_> {
    /// The key by which the walk may start with the row at the place. That there is one such row at
    /// most must be sure: of several, all but one would come again on every page.
    fn starts_at(&self) -> Option<usize> {
        if self.source.key_is_proven { self.varying.starts_at() } else { None }
    }

    fn statements(
        &self,
        walk: Walk<'_>,
        by_index: bool,
    ) -> Result<(Vec<Statement>, Vec<Statement>), CollectionError> {
        let order = &self.varying.order;
        let all = [Segment { tests: vec![], fixed: 0 }];
        let place = self.varying.place.as_deref();
        let order = match walk {
            Walk::Forward(_) => order.clone(),
            Walk::Backward(_) => order.reversed(),
            Walk::Offset => {
                let walk = self.walk(order, &all, Start::Behind, Limit::WithOffset)?;
                return Ok((vec![walk], vec![self.probe(order, &all)?]));
            }
        };
        let segments = keyset::segments(&order, place, false);
        let reversed = order.reversed();
        let behind = match place {
            Some(_) => keyset::segments(&reversed, place, true),
            None => vec![],
        };
        if by_index {
            let each = |(number, segment)| {
                // The nearest segment comes first, and compares the last key.
                let is_first = number == 0 && self.starts_at().is_some();
                let start = if is_first { Start::At } else { Start::Behind };
                self.walk(&order, std::slice::from_ref(segment), start, Limit::Plain)
            };
            let probe = |segment| self.probe(&reversed, std::slice::from_ref(segment));
            let walk = segments.iter().enumerate().map(each).collect::<Result<_, _>>()?;
            return Ok((walk, behind.iter().map(probe).collect::<Result<_, _>>()?));
        }
        let segments = if place.is_some() { segments.as_slice() } else { &all };
        let walk = self.walk(&order, segments, Start::Behind, Limit::Plain)?;
        let probe = match behind.as_slice() {
            [] => vec![],
            behind => vec![self.probe(&reversed, behind)?],
        };
        Ok((vec![walk], probe))
    }

    fn walk(
        &self,
        order: &Order,
        segments: &[Segment<'_>],
        start: Start,
        limit: Limit,
    ) -> Result<Statement, CollectionError> {
        let (condition, place, bound) = self.condition(order, segments, start)?;
        let conditions = Conditions::<Sqlite>::new(&self.source.table);
        let order_by = match segments {
            [segment] => conditions.order_by(order, segment)?,
            _ => conditions.order_by(order, &Segment { tests: vec![], fixed: 0 })?,
        };
        let limit = match limit {
            Limit::Plain => format!(" LIMIT ?{}", bound + 1),
            Limit::WithOffset => format!(" LIMIT ?{} OFFSET ?{}", bound + 1, bound + 2),
        };
        let table = &self.source.table.name;
        let sql = format!("SELECT {} FROM {table}{condition}{order_by}{limit}", self.select);
        Ok(Statement { sql, place })
    }

    fn probe(&self, order: &Order, segments: &[Segment<'_>]) -> Result<Statement, CollectionError> {
        let (condition, place, _) = self.condition(order, segments, Start::Behind)?;
        let sql = format!("SELECT 1 FROM {}{condition} LIMIT 1", self.source.table.name);
        Ok(Statement { sql, place })
    }

    /// `WHERE` of the query and one of the segments, which values of the place are bound, and how
    /// many values in all.
    fn condition(
        &self,
        order: &Order,
        segments: &[Segment<'_>],
        start: Start,
    ) -> Result<(String, Vec<usize>, usize), CollectionError> {
        let mut conditions = Conditions::<Sqlite>::new(&self.source.table);
        let mut parts: Vec<String> = conditions.of_query(self.query)?.into_iter().collect();
        let mut alternatives = Vec::with_capacity(segments.len());
        let mut place = Vec::new();
        for segment in segments {
            alternatives.extend(match start {
                Start::At => conditions.of_segment_with_start(segment, order)?,
                Start::Behind => conditions.of_segment(segment, order)?,
            });
            place.extend(segment.tests.iter().filter_map(|(number, test)| match test {
                Test::Equal(_) | Test::Greater(_) | Test::Less(_) => {
                    self.varying.numbers.get(*number).copied()
                }
                Test::IsNull | Test::NotNull => None,
            }));
        }
        match alternatives.as_slice() {
            [] => {}
            [only] => parts.push(only.clone()),
            several => {
                let several: Vec<_> = several.iter().map(|part| format!("({part})")).collect();
                parts.push(format!("({})", several.join(" OR ")));
            }
        }
        let sql = if parts.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", parts.join(" AND "))
        };
        Ok((sql, place, conditions.into_parameters().len()))
    }
}

/// What is selected: the members of the item, then the sort keys that are not among them.
struct Selection {
    sql: String,
    members: Vec<Member>,
    keys: Vec<PlaceColumn>,
}

impl Selection {
    fn new(
        source: &Source,
        asked: Option<&[String]>,
        order: &Order,
    ) -> Result<Self, CollectionError> {
        let mut selected: Vec<&str> = Vec::new();
        let mut members = Vec::new();
        let shown: Vec<&TableColumn> = match &source.items {
            Items::Columns(shown) => source.table.columns.iter().take(*shown).collect(),
            Items::Text(sql_name) => {
                selected.push(sql_name);
                members.push(Member { prefix: String::new(), name: "item".to_owned(), key: None });
                vec![]
            }
        };
        for column in shown {
            let name = &column.column.name;
            if asked.is_some_and(|asked| !asked.contains(name)) {
                continue;
            }
            let mut prefix = if members.is_empty() { "{" } else { "," }.to_owned();
            handback_page::scalar::write_text(name, &mut prefix);
            prefix.push(':');
            members.push(Member { prefix, name: name.clone(), key: None });
            selected.push(&column.sql_name);
        }
        let mut keys = Vec::with_capacity(order.keys().len());
        for (number, key) in order.keys().iter().enumerate() {
            let column = source.column(&key.field)?;
            let found = selected.iter().position(|name| *name == column.sql_name);
            let result = found.unwrap_or(selected.len());
            if found.is_none() {
                selected.push(&column.sql_name);
            }
            let member = match source.items {
                Items::Columns(_) => members.get_mut(result).filter(|member| member.key.is_none()),
                Items::Text(_) => None,
            };
            let is_member = member.is_some();
            if let Some(member) = member {
                member.key = Some(number);
            }
            let name = column.column.name.clone();
            keys.push(PlaceColumn { result, name, nullable: key.nullable, is_member });
        }
        // A key there always is, but an order of a file may have none.
        let sql = if selected.is_empty() { "1".to_owned() } else { selected.join(", ") };
        Ok(Self { sql, members, keys })
    }
}

#[cfg(test)]
mod tests {
    use handback_page::filter::Test;
    use handback_page::{Direction, FieldPath, Nulls, Search, SortKey};
    use rusqlite::Connection;

    use super::super::introspect;
    use super::super::options::Key;
    use super::*;

    const COLUMNS: [&str; 4] = ["id", "a", "b", "c"];

    fn source(indexes: &[&str]) -> (Connection, Source) {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b TEXT NOT NULL, c)").unwrap();
        for (number, columns) in indexes.iter().enumerate() {
            db.execute_batch(&format!("CREATE INDEX i{number} ON t({columns})")).unwrap();
        }
        let described = introspect::describe(&db, "t", &Key::Declared).unwrap();
        (db, Source::new(described.table))
    }

    /// All orders by up to two columns.
    fn orders(source: &Source) -> Vec<Order> {
        let mut keys = Vec::new();
        for name in COLUMNS {
            for direction in [Direction::Ascending, Direction::Descending] {
                for nulls in [Nulls::First, Nulls::Last] {
                    let nullable = source.schema.column(name).unwrap().nullable;
                    keys.push(SortKey { field: FieldPath::name(name), direction, nulls, nullable });
                }
            }
        }
        let mut orders = vec![source.schema.total_order(vec![])];
        for first in &keys {
            orders.push(source.schema.total_order(vec![first.clone()]));
            for second in keys.iter().filter(|second| second.field != first.field) {
                orders.push(source.schema.total_order(vec![first.clone(), second.clone()]));
            }
        }
        orders
    }

    fn steps(db: &Connection, sql: &str) -> Vec<String> {
        let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let mut rows = statement.raw_query();
        let mut steps = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            steps.push(row.get(3).unwrap());
        }
        steps
    }

    /// Every statement of an order that is said to be served starts in the middle of an index, and
    /// sorts nothing.
    #[test]
    fn what_is_said_to_be_served_is_neither_scanned_nor_sorted() {
        let filters = [
            Filter::EVERYTHING,
            Filter::Field(FieldPath::name("a"), Test::Equal(Scalar::Int(1))),
            Filter::Field(FieldPath::name("c"), Test::IsNull),
        ];
        let mut served = 0;
        for indexes in [
            &[][..],
            &["a"],
            &["a, b"],
            &["a DESC, b, id DESC"],
            &["b, c", "c"],
            &["c, a, b"],
            &["a, c, id", "b DESC"],
        ] {
            let (db, source) = source(indexes);
            for (order, filter) in orders(&source)
                .into_iter()
                .flat_map(|order| filters.iter().map(move |f| (order.clone(), f)))
            {
                // Of a row that the filter lets through.
                let is_null = *filter == filters[2];
                let value = |key: &SortKey| match key.field.first() {
                    "b" => Scalar::Text("x".into()),
                    "c" if is_null => Scalar::Null,
                    _ => Scalar::Int(1),
                };
                let place: Vec<_> = order.keys().iter().map(value).collect();
                let query = Query { filter: filter.clone(), search: Search::default(), order };
                for walk in
                    [Walk::Forward(Some(&place)), Walk::Backward(Some(&place)), Walk::Forward(None)]
                {
                    let shape = Shape { query: &query, columns: None, walk };
                    let plan = Plan::new(&source, shape).unwrap();
                    if plan.served != Served::Directly {
                        continue;
                    }
                    served += 1;
                    for statement in plan.walk.iter().chain(&plan.probe) {
                        let steps = steps(&db, &statement.sql);
                        // With a filter, SQLite may prefer an index for that, and sort what it
                        // finds; or not see that a column in the middle of the index is the same
                        // in all rows, and sort by what is behind it.
                        let filtered = !query.filter.is_everything();
                        let is_allowed = |step: &String| {
                            filtered && (step.contains("(a=?") || step.contains("(c=?"))
                        };
                        let sorts = !steps.iter().any(is_allowed)
                            && steps.iter().any(|step| {
                                step.contains("TEMP B-TREE FOR ORDER BY")
                                    || (!filtered && step.contains("TEMP B-TREE"))
                            });
                        let scans = steps.iter().any(|step| step.starts_with("SCAN"));
                        let from_start = matches!(walk, Walk::Forward(None));
                        assert!(
                            !sorts && (!scans || from_start),
                            "{indexes:?} {} {steps:?}",
                            statement.sql
                        );
                    }
                }
            }
        }
        assert!(served > 100, "{served}");
    }
}
