//! Statements for pages, counts and scans.

use handback_page::keyset::Segment;
use handback_page::{CollectionError, Order, Query, Scalar, Served, Window};

use super::branch::branches;
use super::catalog::Layout;
use super::dialect::Postgres;
use super::plan::{Plan, order_by};
use super::rows::Selection;
use super::types::ALIAS;
use crate::sql::{Conditions, joined};

/// A statement, and its values with the types of their columns.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) parameters: Vec<(Scalar, String)>,
}

/// The statement of a window. Its rows come nearest first, one more than asked for if there are
/// more; in front of them, if `has_head`, one that says whether there is anything on the other
/// side (null, if the table is not what it was), and, in the column behind all others, how many
/// rows match.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) statement: Statement,
    pub(super) has_head: bool,
    /// The number of the column that has the total.
    pub(super) total: Option<usize>,
    pub(super) served: Served,
}

/// The statement for a window of a query that fits. With `total`, it also counts: one statement
/// sees one moment.
pub(super) fn page(
    layout: &Layout,
    selection: &Selection,
    query: &Query,
    window: Window<'_>,
    total: bool,
) -> Result<Page, CollectionError> {
    let mut builder = Builder::new(layout, query)?;
    let no_total = if total { ", NULL::bigint" } else { "" };
    let select = format!("NULL::boolean{}{no_total}", selection.list);
    let limit = window.limit().saturating_add(1).to_string();
    let (rows, flag) = match window {
        Window::Forward { after, .. } => {
            let rows = builder.walk(&select, Way::Forwards, after, &limit)?;
            (rows, builder.others(Way::Backwards, after)?)
        }
        Window::Backward { before, .. } => {
            let rows = builder.walk(&select, Way::Backwards, before, &limit)?;
            (rows, builder.others(Way::Forwards, before)?)
        }
        Window::Offset { offset, .. } => builder.offset(&select, offset, &limit)?,
    };
    let check = builder.check();
    let has_head = flag.is_some() || check.is_some() || total;
    let sql = if has_head {
        let flag = flag.unwrap_or_else(|| "false".to_owned());
        let flag = match check {
            Some(check) => format!("CASE WHEN {check} THEN {flag} END"),
            None => flag,
        };
        let total = if total { format!(", ({})", builder.count()) } else { String::new() };
        format!("(SELECT {flag}{}{total}) UNION ALL ({rows})", selection.nulls)
    } else {
        rows
    };
    let served = builder.plan.served();
    let statement = Statement { sql, parameters: builder.conditions.into_parameters() };
    let total = total.then_some(selection.width + 1);
    Ok(Page { statement, has_head, total, served })
}

/// How many rows match.
pub(super) fn count(layout: &Layout, query: &Query) -> Result<Statement, CollectionError> {
    let builder = Builder::new(layout, query)?;
    let sql = builder.count();
    Ok(Statement { sql, parameters: builder.conditions.into_parameters() })
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
    Ok(Statement { sql, parameters: builder.conditions.into_parameters() })
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

struct Builder<'a> {
    layout: &'a Layout,
    conditions: Conditions<'a, Postgres>,
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

    /// That columns which are sorted by, and of which the layout says that they hold no nulls, still
    /// hold none: else the rows would not be all that there are. The key is no such column: without
    /// it there is no collection.
    fn check(&mut self) -> Option<String> {
        let key = &self.layout.table.key;
        let trusted = self.order.keys().iter().filter(|key| !key.nullable);
        let names = trusted.filter_map(|key| key.field.column());
        let names: Vec<_> = names.filter(|name| key.iter().all(|key| key != name)).collect();
        if names.is_empty() {
            return None;
        }
        let (oid, count) = (self.layout.relation.oid, names.len());
        let names: Vec<_> = names.iter().map(|name| self.conditions.bind_text(name)).collect();
        Some(format!(
            "(SELECT count(*) FROM pg_catalog.pg_attribute WHERE attrelid = {oid} AND attnotnull \
             AND attname IN ({})) = {count}",
            names.join(", "),
        ))
    }

    fn order(&self, way: Way) -> &Order {
        match way {
            Way::Forwards => &self.order,
            Way::Backwards => &self.reversed,
        }
    }

    /// The rows that follow a place.
    fn walk(
        &mut self,
        select: &str,
        way: Way,
        from: Option<&[Scalar]>,
        limit: &str,
    ) -> Result<String, CollectionError> {
        let branches = self.branches(select, way, from, false, limit)?;
        Ok(match branches.as_slice() {
            [only] => only.clone(),
            _ => format!("SELECT * FROM ({}) s LIMIT {limit}", union(&branches)),
        })
    }

    /// Whether anything is at a place, or follows it.
    fn others(
        &mut self,
        way: Way,
        from: Option<&[Scalar]>,
    ) -> Result<Option<String>, CollectionError> {
        if from.is_none() {
            return Ok(None);
        }
        if let Plan::Sorted { .. } = self.plan {
            let found = self.alternatives(way, from, true)?;
            let condition = condition(&[&self.filter, &found]);
            return Ok(Some(format!("EXISTS (SELECT 1 FROM {}{condition})", self.from)));
        }
        // `LIMIT` makes each branch start at the place; `EXISTS` by itself would start anywhere.
        let branches = self.branches("1", way, from, true, "1")?;
        Ok(Some(format!("EXISTS (SELECT 1 FROM ({}) s)", union(&branches))))
    }

    fn offset(
        &mut self,
        select: &str,
        offset: u64,
        limit: &str,
    ) -> Result<(String, Option<String>), CollectionError> {
        // So that a limit can be added to it.
        let offset = offset.min(1 << 62);
        let skipped = format!("{}::bigint", self.conditions.bind_text(&offset.to_string()));
        let upto = format!("{limit} + {skipped}");
        let branches = self.branches(select, Way::Forwards, None, false, &upto)?;
        let rows = format!("SELECT * FROM ({}) s LIMIT {limit} OFFSET {skipped}", union(&branches));
        let condition = condition(&[&self.filter]);
        let flag = format!("EXISTS (SELECT 1 FROM {}{condition})", self.from);
        Ok((rows, (offset > 0).then_some(flag)))
    }

    /// What gives the rows that follow a place, one after the other.
    fn branches(
        &mut self,
        select: &str,
        way: Way,
        from: Option<&[Scalar]>,
        inclusive: bool,
        limit: &str,
    ) -> Result<Vec<String>, CollectionError> {
        let Plan::Index(terms) = &self.plan else {
            return Ok(vec![self.sorted(select, way, from, inclusive, limit)?]);
        };
        let order_by = order_by(terms, matches!(way, Way::Backwards));
        let order = self.order(way).clone();
        let mut found = Vec::new();
        for branch in branches(self.layout, &order, from, inclusive) {
            let demanded = branch.condition(&mut self.conditions, self.layout, &order)?;
            let condition = condition(&[&self.filter, &demanded]);
            let from = &self.from;
            found.push(format!("SELECT {select} FROM {from}{condition}{order_by} LIMIT {limit}"));
        }
        Ok(found)
    }

    /// All branches at once.
    fn sorted(
        &mut self,
        select: &str,
        way: Way,
        from: Option<&[Scalar]>,
        inclusive: bool,
        limit: &str,
    ) -> Result<String, CollectionError> {
        let alternatives = match from {
            Some(_) => self.alternatives(way, from, inclusive)?,
            None => None,
        };
        let condition = condition(&[&self.filter, &alternatives]);
        let order_by = self.order_by_keys(way)?;
        Ok(format!("SELECT {select} FROM {}{condition}{order_by} LIMIT {limit}", self.from))
    }

    /// That a row is in one of the branches.
    fn alternatives(
        &mut self,
        way: Way,
        from: Option<&[Scalar]>,
        inclusive: bool,
    ) -> Result<Option<String>, CollectionError> {
        let order = self.order(way).clone();
        let mut parts = Vec::new();
        for branch in branches(self.layout, &order, from, inclusive) {
            match branch.condition(&mut self.conditions, self.layout, &order)? {
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
