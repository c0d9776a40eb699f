//! Windows, counts and scans of one described table.

use std::sync::Arc;
use std::time::Duration;

use handback_page::scalar;
use handback_page::{
    CollectionError, Columns, Fetch, Fetched, FieldPath, ItemText, Kind, Order, Places, Query, Row,
    Scalar, Schema, Sink, SortKey, Window,
};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection};

use super::dialect::Values;
use super::error::failure;
use super::plan::{self, PlaceColumn, Plan, Shape, Statement, Walk};
use super::plans::Plans;
use super::pool::Db;
use crate::sql::{Table, TableColumn, column_gone};

/// A table as it was described, and what does not change from page to page.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) table: Table,
    /// What callers see of it.
    pub(crate) schema: Arc<Schema>,
    pub(crate) items: Items,
    pub(crate) values: Values,
    /// The state of the source that places belong to, if they do not outlive it. It stands at the
    /// end of each place.
    pub(crate) edition: Option<i64>,
    pub(crate) require_index: bool,
    /// Whether what columns hold was found out by reading all of them. It may be another kind when
    /// the source has changed, and there may be nulls or none.
    pub(crate) kinds_are_guessed: bool,
    /// Whether something declared says that no two rows have the same key. Where only an operator
    /// says so, rows may come that do.
    pub(crate) key_is_proven: bool,
    internal: Schema,
    plans: Plans,
}

/// What an item is made of.
#[derive(Clone, Debug)]
pub(crate) enum Items {
    /// An object of this many columns, from the first on.
    Columns(usize),
    /// The text of one column, by its quoted name.
    Text(String),
}

impl Source {
    /// A table whose items are objects of all its columns.
    pub(crate) fn new(table: Table) -> Self {
        let items = Items::Columns(table.columns.len());
        let internal = table.schema();
        Self {
            schema: Arc::new(internal.clone()),
            internal,
            table,
            items,
            values: Values::Plain,
            edition: None,
            require_index: false,
            kinds_are_guessed: false,
            key_is_proven: true,
            plans: Plans::default(),
        }
    }

    /// The order, made total by the key of the table if callers do not know it. Which keys may be
    /// null is what this table says, whatever a caller has seen before; but where that is guessed, a
    /// place may be at nulls that are not there any more.
    pub(super) fn total_order(&self, order: &Order, place: Option<&[Scalar]>) -> Order {
        let place = place.filter(|_| self.kinds_are_guessed).unwrap_or_default();
        let places = place.iter().map(Some).chain(std::iter::repeat(None));
        let key = |(key, place): (&SortKey, Option<&Scalar>)| {
            let column = key.field.column().and_then(|name| self.table.column(name));
            let nullable = column.map_or(key.nullable, |column| column.column.nullable)
                || place.is_some_and(Scalar::is_null);
            SortKey { nullable, ..key.clone() }
        };
        self.internal.total_order(order.keys().iter().zip(places).map(key).collect())
    }

    pub(super) fn column(&self, path: &FieldPath) -> Result<&TableColumn, CollectionError> {
        path.column().and_then(|name| self.table.column(name)).ok_or_else(|| column_gone(path))
    }

    /// The rows of a window, in the transaction that `db` is in.
    pub(crate) fn fetch(
        &self,
        db: &Connection,
        fetch: &Fetch<'_>,
    ) -> Result<Fetched, CollectionError> {
        let (walk, place) = match fetch.window {
            Window::Forward { after, .. } => {
                let place = self.own_place(after)?;
                (Walk::Forward(place), place)
            }
            Window::Backward { before, .. } => {
                let place = self.own_place(before)?;
                (Walk::Backward(place), place)
            }
            Window::Offset { .. } => (Walk::Offset, None),
        };
        let shape = Shape { query: fetch.query, columns: fetch.columns, walk };
        let plan = self.plans.plan(self, shape)?;
        plan.check(place)?;
        if self.kinds_are_guessed {
            self.check_kinds(&plan, place.unwrap_or_default())?;
        }
        let reader = Reader { source: self, plan: &plan, db, place: place.unwrap_or_default() };
        let offset = match fetch.window {
            Window::Offset { offset, .. } => Some(i64::try_from(offset).unwrap_or(i64::MAX)),
            _ => None,
        };
        let Found { mut rows, more, met_place } =
            reader.rows(fetch.window.limit(), offset, fetch)?;
        let behind = match (offset, place) {
            (Some(0), _) | (None, None) => false,
            (Some(_), _) if !rows.is_empty() => true,
            _ => met_place || reader.probe()?,
        };
        let (more_before, more_after) = match fetch.window {
            Window::Backward { .. } => {
                rows.reverse();
                (more, behind)
            }
            Window::Forward { .. } | Window::Offset { .. } => (behind, more),
        };
        let total = match fetch.total {
            true => Some(self.count(db, fetch.query)?),
            false => None,
        };
        let columns = match self.items {
            Items::Columns(_) => Columns::Asked,
            Items::Text(_) => Columns::All,
        };
        let served = plan.served.clone();
        Ok(Fetched { rows, more_before, more_after, served, columns, total })
    }

    /// How many rows match.
    pub(crate) fn count(&self, db: &Connection, query: &Query) -> Result<u64, CollectionError> {
        let (sql, values) = plan::count(self, query)?;
        let mut statement = prepared(db, &sql)?;
        for (number, value) in values.iter().enumerate() {
            bind(&mut statement, number + 1, value)?;
        }
        let mut rows = statement.raw_query();
        let row = rows.next().map_err(|e| failure(&e))?;
        let count = row.map(|row| row.get::<_, i64>(0)).transpose().map_err(|e| failure(&e))?;
        Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }

    /// Gives every matching row to `sink`. SQLite has `time_limit` from row to row.
    pub(crate) fn scan(
        &self,
        db: &Db,
        query: &Query,
        time_limit: Duration,
        sink: Sink<'_>,
    ) -> Result<(), CollectionError> {
        let shape = Shape { query, columns: None, walk: Walk::Forward(None) };
        let plan = self.plans.plan(self, shape)?;
        let reader = Reader { source: self, plan: &plan, db: db.connection(), place: &[] };
        for statement in &plan.walk {
            // Without a limit.
            let mut prepared = reader.prepare(statement, Some(-1), None)?;
            let mut found = prepared.raw_query();
            db.extend(time_limit);
            while let Some(row) = found.next().map_err(|e| failure(&e))? {
                sink(reader.row(row)?)?;
                db.extend(time_limit);
            }
        }
        Ok(())
    }

    /// That the values of a place are still of the kinds of their columns: numbers and text have
    /// different orders.
    fn check_kinds(&self, plan: &Plan, place: &[Scalar]) -> Result<(), CollectionError> {
        for (key, value) in plan.keys.iter().zip(place) {
            let kind = self.table.column(&key.name).map(|column| &column.column.kind);
            let change = match (kind, value) {
                (Some(Kind::Text), Scalar::Int(_) | Scalar::Real(_)) => {
                    "held numbers, and holds text now"
                }
                (Some(Kind::Integer | Kind::Number), Scalar::Text(_)) => {
                    "held text, and holds numbers now"
                }
                _ => continue,
            };
            return Err(CollectionError::OtherType { column: key.name.clone(), change });
        }
        Ok(())
    }

    /// A caller's place without the edition, if it is of this one.
    fn own_place<'a>(
        &self,
        place: Option<&'a [Scalar]>,
    ) -> Result<Option<&'a [Scalar]>, CollectionError> {
        let (Some(place), Some(edition)) = (place, self.edition) else { return Ok(place) };
        match place.split_last() {
            Some((Scalar::Int(given), rest)) if *given == i128::from(edition) => Ok(Some(rest)),
            Some((Scalar::Int(_), _)) => Err(CollectionError::Changed),
            _ => Err(CollectionError::BadPlace),
        }
    }
}

impl Plan {
    /// Whether it is a place of this order, with values that SQLite has.
    fn check(&self, place: Option<&[Scalar]>) -> Result<(), CollectionError> {
        let Some(place) = place else { return Ok(()) };
        let fits = |(value, key): (&Scalar, &PlaceColumn)| match value {
            Scalar::Null => key.nullable,
            Scalar::Bool(_) | Scalar::Decimal(_) => false,
            Scalar::Int(int) => i64::try_from(*int).is_ok(),
            Scalar::Real(real) => !real.is_nan(),
            Scalar::Text(_) | Scalar::Blob(_) => true,
        };
        if place.len() == self.keys.len() && place.iter().zip(&self.keys).all(fits) {
            Ok(())
        } else {
            Err(CollectionError::BadPlace)
        }
    }
}

/// How many rows room is made for in advance.
const ROWS_EXPECTED_MAX: usize = 1024;

/// How many bytes of items room is made for in advance.
const BYTES_EXPECTED_MAX: usize = 64 * 1024;

/// What a walk found.
struct Found {
    rows: Vec<Row>,
    /// Whether there are more.
    more: bool,
    /// Whether the row at the place is still there.
    met_place: bool,
}

struct Reader<'a> {
    source: &'a Source,
    plan: &'a Plan,
    db: &'a Connection,
    place: &'a [Scalar],
}

impl<'a> Reader<'a> {
    /// At most `limit` rows, less if they are longer than the budget.
    fn rows(
        &self,
        limit: usize,
        offset: Option<i64>,
        asked: &Fetch<'_>,
    ) -> Result<Found, CollectionError> {
        let mut limit = limit;
        let expected = limit.min(ROWS_EXPECTED_MAX);
        // All items in one text, cut apart at the end.
        let length = self.plan.item_length().saturating_mul(expected).min(BYTES_EXPECTED_MAX);
        let mut page = Vec::with_capacity(length);
        let mut ends = Vec::with_capacity(expected);
        let mut places: Vec<Vec<Scalar>> = Vec::with_capacity(expected);
        let mut last_place = Vec::with_capacity(self.plan.keys.len() + 1);
        let (mut more, mut met_place) = (false, false);
        let mut starts_at = self.plan.starts_at;
        'walk: for statement in &self.plan.walk {
            // One more than wanted tells whether there are more; and the one at the place.
            let wanted = limit - ends.len() + 1 + usize::from(starts_at.is_some());
            let wanted = i64::try_from(wanted).unwrap_or(i64::MAX);
            let mut prepared = self.prepare(statement, Some(wanted), offset)?;
            let mut rows = prepared.raw_query();
            while let Some(row) = rows.next().map_err(|e| failure(&e))? {
                if starts_at.take().is_some_and(|key| self.is_at_place(row, key)) {
                    met_place = true;
                    continue;
                }
                if ends.len() == limit {
                    more = true;
                    break 'walk;
                }
                // The place of the last row so far is kept aside: it may be the last of all.
                self.write_row(row, &mut page, &mut last_place)?;
                places.push(match asked.places {
                    Places::Ends if !ends.is_empty() => Vec::new(),
                    Places::All | Places::Ends => last_place.clone(),
                });
                ends.push(page.len());
                if page.len() > asked.budget_bytes {
                    limit = ends.len();
                }
            }
            starts_at = None;
        }
        if let Some(last) = places.last_mut() {
            *last = last_place;
        }
        let page = json(page)?;
        let rows = ItemText::parts(&page, ends).zip(places);
        let rows = rows.map(|(item, place)| Row { item, place }).collect();
        Ok(Found { rows, more, met_place })
    }

    /// Whether a row of the first statement is the one at the place.
    fn is_at_place(&self, row: &rusqlite::Row<'_>, key: usize) -> bool {
        let found = self.plan.keys.get(key).and_then(|column| row.get_ref(column.result).ok());
        let found = match found {
            Some(ValueRef::Integer(int)) => Scalar::Int(int.into()),
            Some(ValueRef::Real(real)) => Scalar::Real(real),
            _ => return false,
        };
        self.place.get(key) == Some(&found)
    }

    /// Whether there is anything behind the place.
    fn probe(&self) -> Result<bool, CollectionError> {
        for statement in &self.plan.probe {
            let mut prepared = self.prepare(statement, None, None)?;
            if prepared.raw_query().next().map_err(|e| failure(&e))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn prepare(
        &self,
        statement: &Statement,
        limit: Option<i64>,
        offset: Option<i64>,
    ) -> Result<CachedStatement<'a>, CollectionError> {
        let mut prepared = prepared(self.db, &statement.sql)?;
        let mut number = 0;
        for value in &self.plan.values {
            number += 1;
            bind(&mut prepared, number, value)?;
        }
        for key in &statement.place {
            number += 1;
            bind(&mut prepared, number, self.place.get(*key).ok_or(CollectionError::BadPlace)?)?;
        }
        for value in [limit, offset].into_iter().flatten() {
            number += 1;
            prepared.raw_bind_parameter(number, value).map_err(|e| failure(&e))?;
        }
        Ok(prepared)
    }

    fn row(&self, row: &rusqlite::Row<'_>) -> Result<Row, CollectionError> {
        let mut item = Vec::with_capacity(self.plan.item_length());
        let mut place = Vec::with_capacity(self.plan.keys.len() + 1);
        self.write_row(row, &mut item, &mut place)?;
        Ok(Row { item: json(item)?.into(), place })
    }

    /// Appends the JSON of a row, in bytes, as most texts need no look at their characters; and
    /// replaces what is in `place` by its place.
    fn write_row(
        &self,
        row: &rusqlite::Row<'_>,
        out: &mut Vec<u8>,
        place: &mut Vec<Scalar>,
    ) -> Result<(), CollectionError> {
        place.clear();
        place.resize(self.plan.keys.len(), Scalar::Null);
        match &self.source.items {
            Items::Columns(_) => self.write_members(row, out, place)?,
            Items::Text(_) => {
                if let ValueRef::Text(bytes) = value(row, 0)? {
                    out.extend_from_slice(self.text(row, bytes, "item")?.as_bytes());
                }
            }
        }
        for (key, scalar) in self.plan.keys.iter().zip(place.iter_mut()) {
            if !key.is_member {
                *scalar = self.key_value(row, key, value(row, key.result)?)?;
            }
        }
        place.extend(self.source.edition.map(|edition| Scalar::Int(edition.into())));
        Ok(())
    }

    /// Appends the JSON of an object of columns, and notes in `place` the values that are sort keys:
    /// asking SQLite for them once more would cost as much as writing them.
    fn write_members(
        &self,
        row: &rusqlite::Row<'_>,
        out: &mut Vec<u8>,
        place: &mut [Scalar],
    ) -> Result<(), CollectionError> {
        for (number, member) in self.plan.members.iter().enumerate() {
            out.extend_from_slice(member.prefix.as_bytes());
            let value = value(row, number)?;
            match value {
                ValueRef::Null => out.extend_from_slice(b"null"),
                ValueRef::Integer(int) => write_integer(int, out),
                ValueRef::Real(real) => write_real(real, out),
                ValueRef::Text(bytes) if scalar::is_plain_ascii(bytes) => {
                    out.reserve(bytes.len() + 2);
                    out.push(b'"');
                    out.extend_from_slice(bytes);
                    out.push(b'"');
                }
                ValueRef::Text(bytes) => {
                    let text = self.text(row, bytes, &member.name)?;
                    write_with(out, |out| scalar::write_text(text, out));
                }
                ValueRef::Blob(bytes) => write_with(out, |out| scalar::write_blob(bytes, out)),
            }
            let Some(key) = member.key else { continue };
            if let (Some(key), Some(scalar)) = (self.plan.keys.get(key), place.get_mut(key)) {
                *scalar = self.key_value(row, key, value)?;
            }
        }
        out.extend_from_slice(if self.plan.members.is_empty() { b"{}" } else { b"}" });
        Ok(())
    }

    /// The value of a sort key, for a place.
    fn key_value(
        &self,
        row: &rusqlite::Row<'_>,
        key: &PlaceColumn,
        value: ValueRef<'_>,
    ) -> Result<Scalar, CollectionError> {
        Ok(match value {
            ValueRef::Null if !key.nullable => {
                let text = format!("column '{}' of the order holds null", key.name);
                return Err(CollectionError::Damaged(text));
            }
            ValueRef::Null => Scalar::Null,
            ValueRef::Integer(int) => Scalar::Int(int.into()),
            ValueRef::Real(real) => Scalar::Real(real),
            ValueRef::Blob(bytes) => Scalar::Blob(bytes.to_vec()),
            ValueRef::Text(bytes) => Scalar::Text(self.text(row, bytes, &key.name)?.to_owned()),
        })
    }

    /// The text of a column of a row.
    fn text<'r>(
        &self,
        row: &rusqlite::Row<'_>,
        bytes: &'r [u8],
        column: &str,
    ) -> Result<&'r str, CollectionError> {
        std::str::from_utf8(bytes).map_err(|_| {
            let row = self.name_of(row);
            let text = format!("column '{column}' of the row {row} holds text that is not UTF-8");
            CollectionError::Damaged(text)
        })
    }

    /// What a row is told by: its key.
    #[cold]
    fn name_of(&self, row: &rusqlite::Row<'_>) -> String {
        /// How many characters of a value are told.
        const SHOWN_CHARS: usize = 64;
        let is_key = |key: &&PlaceColumn| self.source.table.key.contains(&key.name);
        let shown = self.plan.keys.iter().filter(is_key).map(|key| {
            let mut text = String::new();
            match row.get_ref(key.result) {
                Ok(ValueRef::Integer(int)) => scalar::write_integer(int.into(), &mut text),
                Ok(ValueRef::Real(real)) => scalar::write_real(real, &mut text),
                Ok(ValueRef::Text(bytes)) => match std::str::from_utf8(bytes) {
                    Ok(value) => scalar::write_text(value, &mut text),
                    Err(_) => scalar::write_blob(bytes, &mut text),
                },
                Ok(ValueRef::Blob(bytes)) => scalar::write_blob(bytes, &mut text),
                Ok(ValueRef::Null) | Err(_) => text.push_str("null"),
            }
            let end = text.char_indices().nth(SHOWN_CHARS).map(|(end, _)| end);
            if let Some(end) = end {
                text.truncate(end);
                text.push('…');
            }
            format!("{} = {text}", key.name)
        });
        format!("({})", shown.collect::<Vec<_>>().join(", "))
    }
}

impl Plan {
    /// How long an item may well become: names, and some bytes per value.
    fn item_length(&self) -> usize {
        self.members.iter().map(|member| member.prefix.len() + 16).sum()
    }
}

/// Appends what is written to a text.
fn write_with(out: &mut Vec<u8>, write: impl FnOnce(&mut String)) {
    let mut text = String::new();
    write(&mut text);
    out.extend_from_slice(text.as_bytes());
}

/// The items of a page as text, which they are.
fn json(page: Vec<u8>) -> Result<String, CollectionError> {
    String::from_utf8(page).map_err(|_| CollectionError::Damaged("text is not UTF-8".to_owned()))
}

/// As [`scalar::write_real`] does.
fn write_real(real: f64, out: &mut Vec<u8>) {
    if real.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(real).as_bytes());
    } else {
        write_with(out, |out| scalar::write_real(real, out));
    }
}

/// As [`scalar::write_integer`] does, in a third of the time: a page is mostly integers and text.
fn write_integer(int: i64, out: &mut Vec<u8>) {
    const MAX_SAFE: u64 = 9_007_199_254_740_991;
    let mut rest = int.unsigned_abs();
    if rest > MAX_SAFE {
        return write_with(out, |out| scalar::write_integer(int.into(), out));
    }
    let mut digits = [b'0'; 16];
    let mut unused = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
        unused -= 1;
        if rest == 0 {
            break;
        }
    }
    if int < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(digits.get(unused..).unwrap_or(b"0"));
}

/// A statement, from those that are kept if it is short; a long one drives out the others, so that
/// there are never many of them.
fn prepared<'db>(db: &'db Connection, sql: &str) -> Result<CachedStatement<'db>, CollectionError> {
    if sql.len() > plan::KEPT_SQL_BYTES_MAX {
        db.flush_prepared_statement_cache();
    }
    db.prepare_cached(sql).map_err(|error| failure(&error))
}

fn value<'r>(row: &'r rusqlite::Row<'_>, number: usize) -> Result<ValueRef<'r>, CollectionError> {
    row.get_ref(number).map_err(|e| failure(&e))
}

fn bind(
    statement: &mut rusqlite::Statement<'_>,
    number: usize,
    value: &Scalar,
) -> Result<(), CollectionError> {
    let value = match value {
        Scalar::Null => ValueRef::Null,
        Scalar::Bool(truth) => ValueRef::Integer((*truth).into()),
        Scalar::Int(int) => {
            ValueRef::Integer(i64::try_from(*int).map_err(|_| CollectionError::BadPlace)?)
        }
        Scalar::Real(real) => ValueRef::Real(*real),
        // Neither filters nor places have one here.
        Scalar::Decimal(_) => return Err(CollectionError::BadPlace),
        Scalar::Text(text) => ValueRef::Text(text.as_bytes()),
        Scalar::Blob(bytes) => ValueRef::Blob(bytes),
    };
    statement
        .raw_bind_parameter(number, ToSqlOutput::Borrowed(value))
        .map_err(|error| failure(&error))
}

/// A value of a JSON member as a table keeps it, which has neither truth values nor NaN nor decimals:
/// these, bytes, and whatever is no single value are blobs, told apart by their first byte.
pub(crate) fn encode(value: Scalar) -> Scalar {
    match value {
        // SQLite would make null of it.
        Scalar::Real(real) if real.is_nan() => Scalar::Blob(NAN.to_vec()),
        Scalar::Bool(truth) => Scalar::Blob(vec![truth.into()]),
        Scalar::Blob(bytes) => tagged(3, &bytes),
        Scalar::Decimal(decimal) => tagged(5, decimal.as_str().as_bytes()),
        other => other,
    }
}

fn tagged(tag: u8, bytes: &[u8]) -> Scalar {
    Scalar::Blob([&[tag], bytes].concat())
}

/// What [`encode`] would make of an array or object.
pub(crate) const CONTAINER: &[u8] = &[2];

/// What [`encode`] makes of NaN.
const NAN: &[u8] = &[4];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_as_everywhere() {
        let powers = (0..19).map(|exponent| 10_i64.pow(exponent));
        let near = powers.chain([0, 1 << 53, i64::MAX]).flat_map(|int| [int - 1, int]);
        for int in near.flat_map(|int| [int, -int]).chain([i64::MIN]) {
            let (mut ours, mut theirs) = (Vec::from(b"x"), String::from("x"));
            write_integer(int, &mut ours);
            scalar::write_integer(int.into(), &mut theirs);
            assert_eq!(json(ours).unwrap(), theirs);
        }
    }

    #[test]
    fn reals_are_written_as_everywhere() {
        let finite = [0.0, -0.0, 0.1, 1e21, -1.5e-7, f64::MAX, f64::MIN_POSITIVE];
        for real in finite.into_iter().chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]) {
            let (mut ours, mut theirs) = (Vec::from(b"x"), String::from("x"));
            write_real(real, &mut ours);
            scalar::write_real(real, &mut theirs);
            assert_eq!(json(ours).unwrap(), theirs);
        }
    }
}
