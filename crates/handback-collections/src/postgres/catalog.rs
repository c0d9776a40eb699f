//! What the server says of a table or view.

use std::collections::BTreeMap;
use std::sync::Arc;

use handback_page::{Nulls, Order, Schema, SortKey};
use tokio_postgres::Row;

use super::error::Fault;
use super::pages::Pages;
use super::session::Session;
use super::settings::PostgresOptions;
use super::types::{self, Described, Field};
use crate::sql::{Index, IndexColumn, Table, quoted};

/// A table or view as it was looked at.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) table: Table,
    /// How each column of the table is read.
    pub(super) fields: Vec<Field>,
    pub(super) schema: Arc<Schema>,
    pub(super) relation: Relation,
    /// Whether nothing that is declared says that the key is one.
    pub(super) key_is_unproven: bool,
    /// What pages were made of it.
    pub(super) pages: Pages,
}

impl Layout {
    /// The order, with which of its keys may be null as this layout has it, whatever a caller has
    /// seen before.
    pub(super) fn order(&self, order: &Order) -> Order {
        let key = |key: &SortKey| {
            let column = key.field.column().and_then(|name| self.table.column(name));
            let nullable = column.map_or(key.nullable, |column| column.column.nullable);
            SortKey { nullable, ..key.clone() }
        };
        // It has the whole key already, unless that is another one by now.
        self.schema.total_order(order.keys().iter().map(key).collect())
    }
}

/// What pages are made of.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    pub(super) oid: u32,
    pub(super) sort: Sort,
    /// How many rows the server believes there are.
    pub(super) rows_estimated: Option<f64>,
    /// Whether tables inherit from it, by old style: their rows are among its own, but its keys do
    /// not hold for them.
    has_heirs: bool,
    has_columns: bool,
}

/// What sort of relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Table,
    Partitioned,
    View,
    MaterializedView,
    Foreign,
}

impl Sort {
    fn of(relkind: &str) -> Option<Self> {
        Some(match relkind {
            "r" => Self::Table,
            "p" => Self::Partitioned,
            "v" => Self::View,
            "m" => Self::MaterializedView,
            "f" => Self::Foreign,
            _ => return None,
        })
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Partitioned => "partitioned table",
            Self::View => "view",
            Self::MaterializedView => "materialized view",
            Self::Foreign => "foreign table",
        }
    }
}

/// Why there is no layout.
#[derive(Debug)]
pub(super) enum LookError {
    NotFound,
    /// The database user may not read one of its columns.
    Denied,
    NoKey {
        hint: String,
    },
    BadKey {
        hint: String,
    },
    Fault(Fault),
}

impl From<Fault> for LookError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<tokio_postgres::Error> for LookError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Fault(error.into())
    }
}

/// Looks at a table or view.
pub(super) async fn look(
    session: &Session,
    schema: &str,
    table: &str,
    options: &PostgresOptions,
) -> Result<Layout, LookError> {
    let relation = relation(session, schema, table).await?.ok_or(LookError::NotFound)?;
    let described = columns(session, relation.oid).await?;
    if described.is_empty() && relation.has_columns {
        return Err(LookError::Denied);
    }
    let indexes = indexes(session, relation.oid, &described).await?;
    let declared = if relation.has_heirs { None } else { declared_key(&indexes, &described) };
    let (key, key_is_unproven) = choose_key(options, declared, &described, relation.sort)?;
    let (columns, fields) = types::columns(&described, &key);
    let name = format!("{}.{}", quoted(schema), quoted(table));
    let indexes = indexes.into_iter().map(|found| found.index).collect();
    let table = Table { name, columns, key, indexes };
    let schema = Arc::new(table.schema());
    let pages = Pages::default();
    Ok(Layout { table, fields, schema, relation, key_is_unproven, pages })
}

async fn relation(
    session: &Session,
    schema: &str,
    table: &str,
) -> Result<Option<Relation>, LookError> {
    let rows = session.look(RELATION, &[&schema, &table]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let Some(sort) = Sort::of(row.try_get(1)?) else { return Ok(None) };
    let rows_estimated = Some(row.try_get::<_, f64>(2)?).filter(|rows| *rows >= 0.0);
    let has_heirs = sort == Sort::Table && row.try_get(3)?;
    let has_columns = row.try_get(4)?;
    Ok(Some(Relation { oid: row.try_get(0)?, sort, rows_estimated, has_heirs, has_columns }))
}

const RELATION: &str = "\
SELECT c.oid, c.relkind::text, c.reltuples::float8, \
    EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhparent = c.oid), \
    EXISTS (SELECT 1 FROM pg_attribute a \
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) \
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
WHERE n.nspname = $1 AND c.relname = $2";

async fn columns(session: &Session, relation: u32) -> Result<Vec<Described>, LookError> {
    let rows = session.look(COLUMNS, &[&relation]).await?;
    rows.iter().map(|row| Ok(described(row)?)).collect()
}

fn described(row: &Row) -> Result<Described, tokio_postgres::Error> {
    Ok(Described {
        name: row.try_get(0)?,
        not_null: row.try_get(1)?,
        type_name: row.try_get(2)?,
        system_type: row.try_get(3)?,
        is_enum: row.try_get(4)?,
        is_ordered: row.try_get(5)?,
        number: row.try_get(6)?,
    })
}

/// The columns that may be read, each with the type under its domains. A type is ordered if the
/// B-tree's operators for it (or for the type that it is the same as, such as `inet` for `cidr`)
/// have the usual names and are where a statement finds them.
const COLUMNS: &str = "\
WITH RECURSIVE base (attnum, type) AS ( \
    SELECT a.attnum, a.atttypid FROM pg_attribute a \
    WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped \
        AND has_column_privilege($1, a.attnum, 'SELECT') \
    UNION ALL \
    SELECT b.attnum, y.typbasetype FROM base b JOIN pg_type y ON y.oid = b.type \
    WHERE y.typtype = 'd') \
SELECT a.attname, a.attnotnull, format_type(y.oid, -1), \
    CASE WHEN n.nspname = 'pg_catalog' THEN y.typname END, y.typtype = 'e', \
    y.typtype IN ('b', 'e') AND COALESCE(o.plain, false), a.attnum \
FROM base b \
JOIN pg_attribute a ON a.attrelid = $1 AND a.attnum = b.attnum \
JOIN pg_type y ON y.oid = b.type AND y.typtype <> 'd' \
JOIN pg_namespace n ON n.oid = y.typnamespace \
LEFT JOIN LATERAL ( \
    SELECT f.opcfamily, f.opcintype FROM pg_opclass f JOIN pg_am m ON m.oid = f.opcmethod \
    WHERE m.amname = 'btree' AND f.opcdefault AND ( \
        f.opcintype = y.oid \
        OR y.typtype = 'e' AND f.opcintype = 'anyenum'::regtype \
        OR EXISTS (SELECT 1 FROM pg_cast k WHERE k.castsource = y.oid \
            AND k.casttarget = f.opcintype AND k.castmethod = 'b' AND k.castcontext = 'i')) \
    ORDER BY f.opcintype = y.oid DESC, f.opcintype LIMIT 1) f ON true \
LEFT JOIN LATERAL ( \
    SELECT array_agg(p.oprname::text ORDER BY s.amopstrategy) = '{<,<=,=,>=,>}' \
        AND bool_and(q.nspname = 'pg_catalog' OR q.nspname = n.nspname AND y.typtype = 'b') \
        AND min(q.nspname) = max(q.nspname) \
    FROM pg_amop s JOIN pg_operator p ON p.oid = s.amopopr \
        JOIN pg_namespace q ON q.oid = p.oprnamespace \
    WHERE s.amopfamily = f.opcfamily AND s.amoppurpose = 's' \
        AND s.amoplefttype = f.opcintype AND s.amoprighttype = f.opcintype) o (plain) ON true \
ORDER BY a.attnum";

/// An index, and what decides whether it makes a key.
struct Found {
    index: Index,
    primary: bool,
    immediate: bool,
}

/// The indexes, the primary key's first, then by name. Each is cut in front of the first column
/// that is not in the order of its type and collation, or may not be read.
async fn indexes(
    session: &Session,
    relation: u32,
    described: &[Described],
) -> Result<Vec<Found>, LookError> {
    let mut found: BTreeMap<i64, Found> = BTreeMap::new();
    let mut cut = Vec::new();
    for row in session.look(INDEXES, &[&relation]).await? {
        let number: i64 = row.try_get(0)?;
        let entry = found.entry(number).or_insert(Found {
            index: Index { columns: vec![], unique: row.try_get(1)? },
            primary: row.try_get(2)?,
            immediate: row.try_get(3)?,
        });
        let name: String = row.try_get(4)?;
        let (plain, descending, nulls_first): (bool, bool, bool) =
            (row.try_get(5)?, row.try_get(6)?, row.try_get(7)?);
        if !plain || described.iter().all(|column| column.name != name) {
            cut.push(number);
            entry.index.unique = false;
        }
        if !cut.contains(&number) {
            let nulls = if nulls_first { Nulls::First } else { Nulls::Last };
            entry.index.columns.push(IndexColumn { name, descending, nulls });
        }
    }
    Ok(found.into_values().filter(|found| !found.index.columns.is_empty()).collect())
}

const INDEXES: &str = "\
SELECT dense_rank() OVER (ORDER BY i.indisprimary DESC, c.relname), \
    i.indisunique, i.indisprimary, i.indimmediate, a.attname, \
    o.opcdefault AND i.indcollation[k.n - 1] = a.attcollation, \
    (i.indoption[k.n - 1] & 1) <> 0, (i.indoption[k.n - 1] & 2) <> 0 \
FROM pg_index i \
JOIN pg_class c ON c.oid = i.indexrelid \
JOIN pg_am m ON m.oid = c.relam AND m.amname = 'btree' \
CROSS JOIN LATERAL generate_series(1, i.indnkeyatts::int) k (n) \
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k.n - 1] \
JOIN pg_opclass o ON o.oid = i.indclass[k.n - 1] \
WHERE i.indrelid = $1 AND i.indisvalid AND i.indislive AND i.indpred IS NULL \
    AND i.indexprs IS NULL \
ORDER BY 1, k.n";

/// The primary key, else the shortest unique index of columns without nulls.
fn declared_key(indexes: &[Found], described: &[Described]) -> Option<Vec<String>> {
    let fits = |name: &str| {
        described
            .iter()
            .find(|column| column.name == name)
            .is_some_and(|column| column.not_null && is_comparable(column))
    };
    let keys = indexes.iter().filter(|found| {
        found.index.unique
            && found.immediate
            && found.index.columns.iter().all(|column| fits(&column.name))
    });
    let key = keys.min_by_key(|found| (!found.primary, found.index.columns.len()))?;
    Some(key.index.columns.iter().map(|column| column.name.clone()).collect())
}

fn is_comparable(described: &Described) -> bool {
    types::column(described, true).0.column.is_comparable()
}

/// The key, and whether it has yet to be shown that it is one.
fn choose_key(
    options: &PostgresOptions,
    declared: Option<Vec<String>>,
    described: &[Described],
    sort: Sort,
) -> Result<(Vec<String>, bool), LookError> {
    let Some(given) = &options.key else {
        let hint = || match sort {
            Sort::Table | Sort::Partitioned => "a primary key, or a unique index of columns that \
                are not null, would tell them apart; or name the columns that do"
                .to_owned(),
            _ => {
                format!("a {} declares no key: name the columns that tell them apart", sort.name())
            }
        };
        return Ok((declared.ok_or_else(|| LookError::NoKey { hint: hint() })?, false));
    };
    if given.is_empty() {
        return Err(LookError::BadKey { hint: "it has no columns".to_owned() });
    }
    let mut not_null = true;
    for name in given {
        let Some(column) = described.iter().find(|column| column.name == *name) else {
            return Err(LookError::BadKey { hint: format!("there is no column '{name}'") });
        };
        if !is_comparable(column) {
            let hint = format!("values of column '{name}' have no order");
            return Err(LookError::BadKey { hint });
        }
        not_null &= column.not_null;
    }
    let contains_declared =
        declared.is_some_and(|declared| declared.iter().all(|name| given.contains(name)));
    Ok((given.clone(), !(contains_declared && not_null)))
}
