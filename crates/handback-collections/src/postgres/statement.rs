//! Statements for pages, counts and scans.

use handback_page::keyset::Segment;
use handback_page::{CollectionError, Order, Query, Scalar, Served, Window};

use super::branch::{Branch, Demand, branches};
use super::call::{Bound, Parameter, Statement};
use super::catalog::Layout;
use super::dialect::Postgres;
use super::plan::{Plan, order_by};
use super::rows::Selection;
use super::types::ALIAS;
use crate::sql::{Conditions, joined};

/// How the statement of a window tells what is on the other side.
///
/// The first column of a row is null if the table is not what it was when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// There is nothing: the window starts where the order starts.
    Nothing,
    /// There is something if there are rows: some were skipped.
    Skipped,
    /// There is something if the first row is the one at the place, of which the first column is
    /// true. If it is not, nothing is said.
    Place,
    /// Every row says so in its first column.
    Rows,
    /// The first row says so in its first column, and in the column of this number how many rows
    /// match.
    Head { total: Option<usize> },
}

/// The statement of a window. Its rows come nearest first, one more than asked for if there are
/// more.
#[derive(Debug)]
pub(super) struct PageStatement {
    pub(super) statement: Statement,
    pub(super) front: Front,
    /// Whether it is only by a row that a table is seen to be another.
    pub(super) is_checked: bool,
    pub(super) served: Served,
}

/// How a walk is to tell that something is on the other side of its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// It starts *at* the place. The row that was shown last is still there, most of the time, and
    /// is met again: that costs nothing. But there must not be two of them.
    Meet,
    /// It looks there, once it has found a row.
    Look,
}

/// The statement for a window of a query that fits. Without rows, it may leave open what is on the
/// other side.
pub(super) fn page(
    layout: &Layout,
    selection: &Selection,
    query: &Query,
    window: Window<'_>,
    probe: Probe,
) -> Result<PageStatement, CollectionError> {
    let mut builder = Builder::new(layout, query)?;
    let check = builder.check();
    let select = |flag: &str| match &check {
        Some(check) => format!("CASE WHEN {check} THEN {flag} END{}", selection.list),
        None => format!("{flag}{}", selection.list),
    };
    // One more tells whether there are more.
    let rows_max = window.limit().saturating_add(1);
    let (way, place) = start(window);
    let (sql, front) = match (window, probe) {
        (Window::Offset { offset, .. }, _) => {
            let front = if offset > 0 { Front::Skipped } else { Front::Nothing };
            (builder.offset(&select, &rows_max.to_string())?, front)
        }
        _ if place.is_none() => {
            let start = Start::behind(None);
            (builder.walk(&select, way, start, &rows_max.to_string())?, Front::Nothing)
        }
        (_, Probe::Meet) => {
            let limit = rows_max.saturating_add(1).to_string();
            (builder.walk(&select, way, Start::at(place), &limit)?, Front::Place)
        }
        (_, Probe::Look) => {
            let others = builder.others(way.reversed(), place)?;
            let select = |_: &str| select(&others);
            let start = Start::behind(place);
            (builder.walk(&select, way, start, &rows_max.to_string())?, Front::Rows)
        }
    };
    let (is_checked, served) = (check.is_some(), builder.plan.served());
    Ok(PageStatement { statement: builder.finish(sql), front, is_checked, served })
}

/// The same, which leaves nothing open, and with `total` counts as well: one statement sees one
/// moment. The row in front of the others makes it dearer.
pub(super) fn exact_page(
    layout: &Layout,
    selection: &Selection,
    query: &Query,
    window: Window<'_>,
    total: bool,
) -> Result<PageStatement, CollectionError> {
    let mut builder = Builder::new(layout, query)?;
    let no_total = if total { ", NULL::bigint" } else { "" };
    let select = |_: &str| format!("NULL::boolean{}{no_total}", selection.list);
    let rows_max = window.limit().saturating_add(1).to_string();
    let (way, place) = start(window);
    let rows = match window {
        Window::Offset { .. } => builder.offset(&select, &rows_max)?,
        _ => builder.walk(&select, way, Start::behind(place), &rows_max)?,
    };
    let flag = match window {
        Window::Offset { offset: 1.., .. } => builder.any(),
        _ if place.is_some() => builder.others(way.reversed(), place)?,
        _ => "false".to_owned(),
    };
    let flag = match builder.check() {
        Some(check) => format!("CASE WHEN {check} THEN {flag} END"),
        None => flag,
    };
    let count = if total { format!(", ({})", builder.count()) } else { String::new() };
    let sql = format!("(SELECT {flag}{}{count}) UNION ALL ({rows})", selection.nulls);
    let front = Front::Head { total: total.then_some(selection.width + 1) };
    let served = builder.plan.served();
    Ok(PageStatement { statement: builder.finish(sql), front, is_checked: false, served })
}

/// Which way a window is read, and from what place on.
const fn start(window: Window<'_>) -> (Way, Option<&[Scalar]>) {
    match window {
        Window::Forward { after, .. } => (Way::Forwards, after),
        Window::Backward { before, .. } => (Way::Backwards, before),
        Window::Offset { .. } => (Way::Forwards, None),
    }
}

/// How many rows match.
pub(super) fn count(layout: &Layout, query: &Query) -> Result<Statement, CollectionError> {
    let builder = Builder::new(layout, query)?;
    let sql = builder.count();
    Ok(builder.finish(sql))
}

/// All rows that match, in order.
pub(super) fn scan(
    layout: &Layout,
    selection: &Selection,
    query: &Query,
) -> Result<Statement, CollectionError> {
    let builder = Builder::new(layout, query)?;
    let sql = format!(
        "SELECT NULL::boolean{} FROM {}{}{}",
        selection.list,
        builder.from,
        condition(&[&builder.filter]),
        builder.order_by_keys(Way::Forwards)?,
    );
    Ok(builder.finish(sql))
}

/// Whether the key has nulls, and whether it has anything twice.
pub(super) fn key_check(layout: &Layout) -> String {
    let key = layout.table.key.iter().filter_map(|name| layout.table.column(name));
    let key: Vec<_> = key.map(|column| column.sql_name.as_str()).collect();
    let null: Vec<_> = key.iter().map(|name| format!("{name} IS NULL")).collect();
    let from = format!("{} AS {ALIAS}", layout.table.name);
    format!(
        "SELECT EXISTS (SELECT 1 FROM {from} WHERE {}), \
         EXISTS (SELECT 1 FROM {from} GROUP BY {} HAVING count(*) > 1)",
        null.join(" OR "),
        key.join(", "),
    )
}

/// Which way the order of a query is read.
#[derive(Clone, Copy)]
enum Way {
    Forwards,
    Backwards,
}

impl Way {
    const fn reversed(self) -> Self {
        match self {
            Self::Forwards => Self::Backwards,
            Self::Backwards => Self::Forwards,
        }
    }
}

/// From where on.
#[derive(Clone, Copy)]
struct Start<'p> {
    /// From the start of the order, if there is none.
    place: Option<&'p [Scalar]>,
    /// Whether with what is at the place.
    inclusive: bool,
}

impl<'p> Start<'p> {
    const fn at(place: Option<&'p [Scalar]>) -> Self {
        Self { place, inclusive: true }
    }

    const fn behind(place: Option<&'p [Scalar]>) -> Self {
        Self { place, inclusive: false }
    }
}

/// What is selected in rows of which an expression says whether they are at the place.
type Select<'s> = &'s dyn Fn(&str) -> String;

struct Builder<'a> {
    layout: &'a Layout,
    conditions: Conditions<'a, Postgres>,
    /// Which parameters are values of the place, and of which key.
    of_place: Vec<(usize, usize)>,
    from: String,
    /// What filter and search demand, written once: all branches share its values.
    filter: Option<String>,
    order: Order,
    reversed: Order,
    plan: Plan,
}

impl<'a> Builder<'a> {
    fn new(layout: &'a Layout, query: &Query) -> Result<Self, CollectionError> {
        let mut conditions = Conditions::new(&layout.table);
        let filter = conditions.of_query(query)?;
        let (order, reversed) = (query.order.clone(), query.order.reversed());
        let from = format!("{} AS {ALIAS}", layout.table.name);
        Ok(Self {
            layout,
            conditions,
            of_place: vec![],
            from,
            filter,
            order,
            reversed,
            plan: Plan::new(layout, query),
        })
    }

    fn count(&self) -> String {
        format!("SELECT count(*) FROM {}{}", self.from, condition(&[&self.filter]))
    }

    fn finish(self, sql: String) -> Statement {
        let parameters = self.conditions.into_parameters().into_iter().enumerate();
        let parameters = parameters.map(|(number, (value, sql_type))| {
            let of_place = self.of_place.iter().find(|(parameter, _)| *parameter == number);
            let value = match of_place {
                Some((_, key)) => Bound::OfPlace(*key),
                None => Bound::Value(value),
            };
            Parameter { value, sql_type }
        });
        Statement { sql, parameters: parameters.collect() }
    }

    /// That columns which are sorted by, and of which the layout says that they hold no nulls, still
    /// hold none: else the rows would not be all that there are. The key is no such column: without
    /// it there is no collection. By number, the server finds a column in next to no time.
    fn check(&self) -> Option<String> {
        let Layout { table, fields, relation, .. } = self.layout;
        let trusted = self.order.keys().iter().filter(|key| !key.nullable);
        let names = trusted.filter_map(|key| key.field.column());
        let names = names.filter(|name| table.key.iter().all(|key| key != name));
        let checks: Vec<_> = names
            .filter_map(|name| table.columns.iter().position(|column| column.column.name == name))
            .filter_map(|position| fields.get(position))
            .map(|field| {
                format!(
                    "(SELECT attnotnull FROM pg_catalog.pg_attribute WHERE attrelid = {} AND \
                     attnum = {})",
                    relation.oid, field.number,
                )
            })
            .collect();
        (!checks.is_empty()).then(|| checks.join(" AND "))
    }

    fn order(&self, way: Way) -> &Order {
        match way {
            Way::Forwards => &self.order,
            Way::Backwards => &self.reversed,
        }
    }

    /// The rows from a place on.
    fn walk(
        &mut self,
        select: Select<'_>,
        way: Way,
        start: Start<'_>,
        limit: &str,
    ) -> Result<String, CollectionError> {
        let branches = self.branches(select, way, start, limit)?;
        Ok(match branches.as_slice() {
            [only] => only.clone(),
            _ => format!("SELECT * FROM ({}) s LIMIT {limit}", union(&branches)),
        })
    }

    /// Whether anything is at a place, or follows it.
    fn others(&mut self, way: Way, from: Option<&[Scalar]>) -> Result<String, CollectionError> {
        if let Plan::Sorted { .. } = self.plan {
            let found = self.alternatives(way, Start::at(from))?;
            let condition = condition(&[&self.filter, &found]);
            return Ok(format!("EXISTS (SELECT 1 FROM {}{condition})", self.from));
        }
        // `LIMIT` makes each branch start at the place; `EXISTS` by itself would start anywhere.
        let branches = self.branches(&|_| "1".to_owned(), way, Start::at(from), "1")?;
        Ok(format!("EXISTS (SELECT 1 FROM ({}) s)", union(&branches)))
    }

    /// Whether anything matches.
    fn any(&self) -> String {
        format!("EXISTS (SELECT 1 FROM {}{})", self.from, condition(&[&self.filter]))
    }

    /// The rows behind so many; the offset is bound as if it were the first value of a place.
    fn offset(&mut self, select: Select<'_>, limit: &str) -> Result<String, CollectionError> {
        self.of_place.push((self.conditions.bound(), 0));
        let skipped = format!("{}::bigint", self.conditions.bind_text(""));
        let upto = format!("{limit} + {skipped}");
        let branches = self.branches(select, Way::Forwards, Start::behind(None), &upto)?;
        Ok(format!("SELECT * FROM ({}) s LIMIT {limit} OFFSET {skipped}", union(&branches)))
    }

    /// What gives the rows from a place on, one after the other.
    fn branches(
        &mut self,
        select: Select<'_>,
        way: Way,
        start: Start<'_>,
        limit: &str,
    ) -> Result<Vec<String>, CollectionError> {
        let Plan::Index(terms) = &self.plan else {
            return Ok(vec![self.sorted(select, way, start, limit)?]);
        };
        let order_by = order_by(terms, matches!(way, Way::Backwards));
        let order = self.order(way).clone();
        let mut found = Vec::new();
        for branch in branches(self.layout, &order, start.place, start.inclusive) {
            let Demand { condition: demanded, at_place } = self.demand(&branch, &order)?;
            let (select, from) = (select(&at_place), &self.from);
            let condition = condition(&[&self.filter, &demanded]);
            found.push(format!("SELECT {select} FROM {from}{condition}{order_by} LIMIT {limit}"));
        }
        Ok(found)
    }

    fn demand(&mut self, branch: &Branch<'_>, order: &Order) -> Result<Demand, CollectionError> {
        self.of_place.extend((self.conditions.bound()..).zip(branch.keys()));
        branch.demand(&mut self.conditions, self.layout, order)
    }

    /// All branches at once.
    fn sorted(
        &mut self,
        select: Select<'_>,
        way: Way,
        start: Start<'_>,
        limit: &str,
    ) -> Result<String, CollectionError> {
        let (mut alternatives, mut at_place) = (None, "false".to_owned());
        if start.place.is_some() {
            alternatives = self.alternatives(way, start)?;
        }
        if start.place.is_some() && start.inclusive {
            let order = self.order(way).clone();
            let place = Branch::place(&order, start.place);
            if let Some(condition) = self.demand(&place, &order)?.condition {
                // A comparison with null is neither true nor false.
                at_place = format!("({condition}) IS TRUE");
            }
        }
        let condition = condition(&[&self.filter, &alternatives]);
        let order_by = self.order_by_keys(way)?;
        let select = select(&at_place);
        Ok(format!("SELECT {select} FROM {}{condition}{order_by} LIMIT {limit}", self.from))
    }

    /// That a row is in one of the branches.
    fn alternatives(
        &mut self,
        way: Way,
        start: Start<'_>,
    ) -> Result<Option<String>, CollectionError> {
        let order = self.order(way).clone();
        let mut parts = Vec::new();
        for branch in branches(self.layout, &order, start.place, start.inclusive) {
            match self.demand(&branch, &order)?.condition {
                Some(part) => parts.push(format!("({part})")),
                None => return Ok(None),
            }
        }
        if parts.is_empty() {
            return Ok(Some("false".to_owned()));
        }
        Ok(Some(joined(&parts, "OR")))
    }

    fn order_by_keys(&self, way: Way) -> Result<String, CollectionError> {
        self.conditions.order_by(self.order(way), &Segment { tests: vec![], fixed: 0 })
    }
}

/// `WHERE` with all of these.
fn condition(parts: &[&Option<String>]) -> String {
    let parts: Vec<_> = parts.iter().filter_map(|part| part.as_deref()).collect();
    if parts.is_empty() { String::new() } else { format!(" WHERE {}", parts.join(" AND ")) }
}

fn union(branches: &[String]) -> String {
    if branches.is_empty() {
        return "SELECT WHERE false".to_owned();
    }
    let branches: Vec<_> = branches.iter().map(|branch| format!("({branch})")).collect();
    branches.join(" UNION ALL ")
}
