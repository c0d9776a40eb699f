//! What a database says of one of its tables.

use std::collections::HashMap;

use handback_page::{Column, Kind, Nulls, Preset};
use rusqlite::Connection;

use super::dialect::Affinity;
use super::error::OpenError;
use super::options::Key;
use crate::sql::{Index, IndexColumn, Table, TableColumn, quoted};

/// A table or view, with its key chosen.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) table: Table,
    pub(super) is_view: bool,
    pub(super) proof: Proof,
}

/// What is declared of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// That it is unique, and none of its columns holds null.
    Whole,
    /// That it is unique; nulls are let in. SQLite does so in primary keys.
    ButForNulls,
    /// Nothing.
    Nothing,
}

/// Looks at `table`, whose name SQLite matches in either case.
pub(super) fn describe(db: &Connection, table: &str, key: &Key) -> Result<Described, OpenError> {
    let found = Found::read(db, table)?;
    let declared = found.columns(db)?;
    let rowid = found.rowid(db, &declared, key)?;
    let indexes = found.indexes(db, &declared, rowid.as_ref())?;
    let (key, proof) = found.choose_key(key, &declared, rowid.as_ref(), &indexes)?;
    let title = title(&declared);
    let mut columns: Vec<_> = declared
        .iter()
        .map(|column| {
            let is_key = key.contains(&column.name);
            let kind = match column.kind() {
                Kind::Blob if found.is_view => Kind::Any,
                kind => kind,
            };
            let preset = match kind {
                _ if is_key || title == Some(column.name.as_str()) => Preset::Minimal,
                Kind::Blob => Preset::Full,
                _ => Preset::Standard,
            };
            let nullable = column.nullable && !is_key;
            // The parts of a compound view have affinities of their own, which SQLite would apply to
            // each part alone: a value from one part would be compared otherwise in another.
            let (sign, affinity) =
                if found.is_view { ("+", Affinity::Blob) } else { ("", column.affinity) };
            TableColumn {
                sql_name: format!("{sign}{}", quoted(&column.name)),
                sql_type: affinity.name().to_owned(),
                column: Column { name: column.name.clone(), kind, nullable, preset },
            }
        })
        .collect();
    if let Some(Rowid::Hidden(name)) = &rowid {
        let (kind, preset) = (Kind::Integer, Preset::Minimal);
        let column = Column { name: name.clone(), kind, nullable: false, preset };
        let (sql_name, sql_type) = (quoted(name), Affinity::Integer.name().to_owned());
        columns.insert(0, TableColumn { column, sql_name, sql_type });
    }
    let name = format!("main.{}", quoted(&found.name));
    let indexes = indexes.into_iter().map(|usable| usable.index).collect();
    let table = Table { name, columns, key, indexes };
    Ok(Described { table, is_view: found.is_view, proof })
}

/// The tables and views that can be read.
pub(super) fn names(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = db.prepare(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type <> 'shadow' \
         AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Under what name rows can be asked for by their rowid.
#[derive(Debug)]
enum Rowid {
    /// A column: `INTEGER PRIMARY KEY`.
    Column(String),
    /// A name that no column has.
    Hidden(String),
}

impl Rowid {
    fn name(&self) -> &str {
        match self {
            Self::Column(name) | Self::Hidden(name) => name,
        }
    }
}

struct Found {
    name: String,
    is_view: bool,
    without_rowid: bool,
    strict: bool,
}

struct Declared {
    name: String,
    declared_type: String,
    affinity: Affinity,
    nullable: bool,
    in_primary_key: bool,
    collation: Option<String>,
}

impl Found {
    fn read(db: &Connection, table: &str) -> Result<Self, OpenError> {
        let found = db.query_row(
            "SELECT name, type, wr, strict FROM pragma_table_list \
             WHERE schema = 'main' AND name = ?1 COLLATE NOCASE \
             AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
            [table],
            |row| {
                Ok(Self {
                    name: row.get(0)?,
                    is_view: row.get::<_, String>(1)? == "view",
                    without_rowid: row.get(2)?,
                    strict: row.get(3)?,
                })
            },
        );
        match found {
            Err(rusqlite::Error::QueryReturnedNoRows) => {
                Err(OpenError::NoTable { table: table.to_owned(), others: names(db)? })
            }
            found => Ok(found?),
        }
    }

    /// Its columns. Those that a virtual table hides are left out; generated ones are columns like
    /// others.
    fn columns(&self, db: &Connection) -> Result<Vec<Declared>, OpenError> {
        let mut statement = db.prepare(
            "SELECT name, type, \"notnull\", pk > 0 FROM pragma_table_xinfo(?1, 'main') \
             WHERE hidden <> 1 ORDER BY cid",
        )?;
        let columns = statement.query_map([&self.name], |row| {
            let declared_type: String = row.get(1)?;
            let not_null: bool = row.get(2)?;
            let in_primary_key: bool = row.get(3)?;
            Ok(Declared {
                name: row.get(0)?,
                affinity: Affinity::of_declared(&declared_type, self.strict),
                declared_type,
                nullable: !(not_null || (self.without_rowid && in_primary_key)),
                in_primary_key,
                collation: None,
            })
        })?;
        let mut columns = columns.collect::<rusqlite::Result<Vec<_>>>()?;
        for column in columns.iter_mut().filter(|_| !self.is_view) {
            let (_, collation, ..) =
                db.column_metadata(Some("main"), self.name.as_str(), column.name.as_str())?;
            column.collation = collation.map(|name| name.to_string_lossy().to_uppercase());
        }
        let alias = self.rowid_alias(db, &columns)?;
        if let Some(alias) = alias.and_then(|alias| columns.get_mut(alias)) {
            alias.nullable = false;
        }
        Ok(columns)
    }

    /// The number of the column that is another name of the rowid: the only column of a primary
    /// key that no index is kept for, since the table itself is sorted by it.
    fn rowid_alias(
        &self,
        db: &Connection,
        columns: &[Declared],
    ) -> Result<Option<usize>, OpenError> {
        let mut keys = columns.iter().enumerate().filter(|(_, column)| column.in_primary_key);
        let (Some((number, column)), None) = (keys.next(), keys.next()) else { return Ok(None) };
        if self.is_view
            || self.without_rowid
            || !column.declared_type.eq_ignore_ascii_case("INTEGER")
        {
            return Ok(None);
        }
        let sql = "SELECT 1 FROM pragma_index_list(?1, 'main') WHERE origin = 'pk'";
        Ok((!db.prepare(sql)?.exists([&self.name])?).then_some(number))
    }

    fn rowid(
        &self,
        db: &Connection,
        columns: &[Declared],
        key: &Key,
    ) -> Result<Option<Rowid>, OpenError> {
        if let Some(alias) = self.rowid_alias(db, columns)?.and_then(|alias| columns.get(alias)) {
            return Ok(Some(Rowid::Column(alias.name.clone())));
        }
        if *key != Key::Rowid {
            return Ok(None);
        }
        let free = ["rowid", "_rowid_", "oid"]
            .into_iter()
            .find(|name| columns.iter().all(|column| !column.name.eq_ignore_ascii_case(name)));
        match free {
            Some(name) if self.has_rowid() => Ok(Some(Rowid::Hidden(name.to_owned()))),
            _ => Err(OpenError::NoRowid { table: self.name.clone() }),
        }
    }

    const fn has_rowid(&self) -> bool {
        !self.is_view && !self.without_rowid
    }

    /// The indexes that can serve an order: neither partial, nor on expressions, nor sorted by
    /// another collation than comparisons with the column are.
    fn indexes(
        &self,
        db: &Connection,
        columns: &[Declared],
        rowid: Option<&Rowid>,
    ) -> Result<Vec<Usable>, OpenError> {
        let collations: HashMap<_, _> = columns
            .iter()
            .map(|column| (column.name.as_str(), column.collation.as_deref()))
            .collect();
        let mut indexes = Vec::new();
        if let Some(rowid) = rowid {
            let name = rowid.name().to_owned();
            let unique_columns = Some(vec![name.clone()]);
            let column = IndexColumn { name, descending: false, nulls: Nulls::First };
            let index = Index { columns: vec![column], unique: true };
            indexes.push(Usable { index, unique_columns, is_primary: true });
        }
        let mut list = db.prepare(
            "SELECT name, \"unique\", origin FROM pragma_index_list(?1, 'main') \
             WHERE NOT partial ORDER BY origin = 'pk' DESC, seq",
        )?;
        let listed = list.query_map([&self.name], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?, row.get::<_, String>(2)?))
        })?;
        for listed in listed.collect::<rusqlite::Result<Vec<_>>>()? {
            let (name, unique, origin) = listed;
            let is_table_itself = self.without_rowid && origin == "pk";
            let parts = index_parts(db, &name, is_table_itself)?;
            let usable = usable(&parts, unique, rowid, &collations);
            indexes.extend(usable.map(|usable| Usable { is_primary: origin == "pk", ..usable }));
        }
        Ok(indexes)
    }

    /// The key, and what is declared of it.
    fn choose_key(
        &self,
        key: &Key,
        columns: &[Declared],
        rowid: Option<&Rowid>,
        indexes: &[Usable],
    ) -> Result<(Vec<String>, Proof), OpenError> {
        let not_null = |names: &[String]| {
            columns.iter().filter(|column| names.contains(&column.name)).all(|c| !c.nullable)
        };
        let mut unique = indexes.iter().filter_map(|usable| usable.unique_columns.as_ref());
        match (key, rowid) {
            (Key::Columns(names), _) => {
                let unknown =
                    names.iter().find(|name| columns.iter().all(|column| column.name != **name));
                if names.is_empty() || unknown.is_some() {
                    let column = unknown.cloned().unwrap_or_default();
                    return Err(OpenError::NoKeyColumn { column });
                }
                let proven = not_null(names)
                    && unique.any(|unique| unique.iter().all(|name| names.contains(name)));
                Ok((names.clone(), if proven { Proof::Whole } else { Proof::Nothing }))
            }
            (Key::Declared | Key::Rowid, Some(rowid)) => {
                Ok((vec![rowid.name().to_owned()], Proof::Whole))
            }
            (Key::Declared | Key::Rowid, None) => {
                let whole = unique.find(|unique| not_null(unique)).map(|key| (key, Proof::Whole));
                let primary = || {
                    let primary = indexes.iter().find(|usable| usable.is_primary)?;
                    Some((primary.unique_columns.as_ref()?, Proof::ButForNulls))
                };
                let found = whole.or_else(primary);
                found.map(|(key, proof)| (key.clone(), proof)).ok_or_else(|| OpenError::NoKey {
                    table: self.name.clone(),
                    has_rowid: self.has_rowid(),
                })
            }
        }
    }
}

struct IndexPart {
    /// None for an expression, and for the rowid.
    name: Option<String>,
    is_rowid: bool,
    descending: bool,
    collation: Option<String>,
    /// Whether it was declared, and not appended by SQLite to find the row.
    declared: bool,
}

fn index_parts(
    db: &Connection,
    index: &str,
    is_table_itself: bool,
) -> rusqlite::Result<Vec<IndexPart>> {
    // The primary key of a table without rowid has all other columns behind it: that is the table.
    let mut statement = db.prepare(
        "SELECT name, cid, \"desc\", coll, key FROM pragma_index_xinfo(?1, 'main') \
         WHERE key OR NOT ?2 ORDER BY seqno",
    )?;
    let parts = statement.query_map((index, is_table_itself), |row| {
        Ok(IndexPart {
            name: row.get(0)?,
            is_rowid: row.get::<_, i64>(1)? == -1,
            descending: row.get(2)?,
            collation: row.get(3)?,
            declared: row.get(4)?,
        })
    })?;
    parts.collect()
}

/// An index that can serve an order.
struct Usable {
    index: Index,
    /// The columns that it makes unique: not those that SQLite appended to find the row.
    unique_columns: Option<Vec<String>>,
    /// Whether it is that of the primary key.
    is_primary: bool,
}

fn usable(
    parts: &[IndexPart],
    unique: bool,
    rowid: Option<&Rowid>,
    collations: &HashMap<&str, Option<&str>>,
) -> Option<Usable> {
    let mut columns = Vec::new();
    for part in parts {
        let name = match (&part.name, part.is_rowid, rowid) {
            (_, true, Some(rowid)) => rowid.name().to_owned(),
            // Sorted by something that has no name here: of no use, but no harm either.
            (_, true, None) => break,
            (Some(name), false, _) => name.clone(),
            (None, false, _) => return None,
        };
        let compared_by = collations.get(name.as_str()).copied().flatten();
        let sorted_by = part.collation.as_deref().map(str::to_uppercase);
        if !part.is_rowid && sorted_by.as_deref() != compared_by {
            return None;
        }
        let nulls = if part.descending { Nulls::Last } else { Nulls::First };
        columns.push(IndexColumn { name, descending: part.descending, nulls });
    }
    let declared = parts.iter().filter(|part| part.declared).count();
    let names = columns.iter().take(declared).map(|column| column.name.clone());
    let unique_columns = unique.then(|| names.collect());
    Some(Usable { index: Index { columns, unique }, unique_columns, is_primary: false })
}

impl Declared {
    fn kind(&self) -> Kind {
        let declared = self.declared_type.to_ascii_uppercase();
        let word = declared.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        match self.affinity {
            Affinity::Text => Kind::Text,
            Affinity::Integer => Kind::Integer,
            Affinity::Real => Kind::Number,
            Affinity::Blob if declared.contains("BLOB") => Kind::Blob,
            Affinity::Blob => Kind::Any,
            // Every other name has this affinity as well: DATE, BOOLEAN, JSON, UUID, even STRING.
            Affinity::Numeric if matches!(word, "NUMERIC" | "DECIMAL" | "NUMBER" | "NUM") => {
                Kind::Number
            }
            Affinity::Numeric => Kind::Any,
        }
    }
}

/// The column that says what an item is called.
fn title(columns: &[Declared]) -> Option<&str> {
    let named = |name: &str| columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
    named("name")
        .or_else(|| named("title"))
        .or_else(|| columns.iter().find(|column| column.affinity == Affinity::Text))
        .map(|column| column.name.as_str())
}
