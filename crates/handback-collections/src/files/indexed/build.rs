//! The index of a file: how it is written and read.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use handback_page::{CollectionError, Column, Kind, Nulls, Preset, Schema, Shape};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};
use sha2::{Digest as _, Sha256};

use super::collection::Progress;
use super::options::FileOptions;
use super::{csv, jsonl};
use crate::files::source::Stamp;
use crate::sql::{Index, IndexColumn, Table, TableColumn};
use crate::sqlite::{Affinity, Items, Source, Values, failure};

/// Indexes that were written by another version are made anew.
const FORMAT: &str = "handback file index 3";

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Jsonl,
    Csv,
}

impl Format {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
        }
    }
}

/// What was found in a file.
#[derive(Debug, Default)]
pub(super) struct Filled {
    pub(super) columns: Vec<Column>,
    pub(super) items: u64,
}

/// The name of a column in the index: names of members may differ by case only.
pub(super) fn sql_name(number: usize) -> String {
    format!("\"c{number}\"")
}

/// Writes the index of `file` to the database at `path`, which is empty.
pub(super) fn write(
    file: &File,
    stamp: &Stamp,
    format: Format,
    options: &FileOptions,
    path: &Path,
    progress: Progress<'_>,
) -> Result<(), CollectionError> {
    let db = Connection::open(path).map_err(|e| failure(&e))?;
    let sql = |sql: &str| db.execute_batch(sql).map_err(|e| failure(&e));
    // Nobody else sees the file before it is whole, and half a file is never used.
    sql(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN",
    )?;
    let filled = match format {
        Format::Jsonl => jsonl::fill(&db, file, options, progress)?,
        Format::Csv => csv::fill(&db, file, options, progress)?,
    };
    add_indexes(&db, &filled.columns, options)?;
    sql("CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL);
         CREATE TABLE columns(
             number INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL,
             nullable INTEGER NOT NULL, minimal INTEGER NOT NULL)")?;
    let save = || -> rusqlite::Result<()> {
        let insert = "INSERT INTO meta(name, value) VALUES (?1, ?2)";
        let items = filled.items.to_string();
        for (name, value) in [("format", FORMAT), ("stamp", &stamp.text()), ("items", &items)] {
            db.execute(insert, (name, value))?;
        }
        let mut insert = db.prepare("INSERT INTO columns VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for (number, column) in (0_i64..).zip(&filled.columns) {
            let minimal = column.preset == Preset::Minimal;
            insert.execute((number, &column.name, column.kind.name(), column.nullable, minimal))?;
        }
        Ok(())
    };
    save().map_err(|e| failure(&e))?;
    sql("COMMIT")?;
    db.close().map_err(|(_, e)| failure(&e))?;
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| {
        CollectionError::Unavailable(format!("the index cannot be written: {}", error.kind()))
    })
}

fn add_indexes(
    db: &Connection,
    columns: &[Column],
    options: &FileOptions,
) -> Result<(), CollectionError> {
    let name_of = |name: &str| {
        let number = columns.iter().position(|column| column.name == name);
        number.map(sql_name).ok_or_else(|| CollectionError::Damaged(format!("no column '{name}'")))
    };
    let mut last = "n".to_owned();
    if let Some(key) = &options.key {
        last = name_of(key)?;
        let made = db.execute_batch(&format!("CREATE UNIQUE INDEX k ON items({last})"));
        made.map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => {
                CollectionError::Damaged(format!("the key '{key}' is not unique"))
            }
            _ => failure(&error),
        })?;
    }
    for (number, names) in options.indexes.iter().enumerate() {
        let mut parts = names.iter().map(|name| name_of(name)).collect::<Result<Vec<_>, _>>()?;
        parts.push(last.clone());
        let sql = format!("CREATE INDEX i{number} ON items({})", parts.join(", "));
        db.execute_batch(&sql).map_err(|e| failure(&e))?;
    }
    Ok(())
}

/// An index that was read.
#[derive(Clone, Debug)]
pub(super) struct Indexed {
    /// The state of the file that it is of.
    pub(super) stamp: String,
    pub(super) items: u64,
    pub(super) source: Arc<Source>,
}

/// Reads what an index says of itself; nothing if it is of another version.
pub(super) fn read(
    db: &Connection,
    format: Format,
    options: &FileOptions,
) -> rusqlite::Result<Option<Indexed>> {
    let meta = |name: &str| {
        let sql = "SELECT value FROM meta WHERE name = ?1";
        db.query_row(sql, [name], |row| row.get::<_, String>(0)).optional()
    };
    let (Some(found), Some(stamp), Some(items)) = (meta("format")?, meta("stamp")?, meta("items")?)
    else {
        return Ok(None);
    };
    if found != FORMAT {
        return Ok(None);
    }
    let mut statement =
        db.prepare("SELECT name, kind, nullable, minimal FROM columns ORDER BY number")?;
    let columns = statement.query_map([], |row| {
        let (kind, minimal): (String, bool) = (row.get(1)?, row.get(3)?);
        Ok(Column {
            name: row.get(0)?,
            kind: match kind.as_str() {
                "integer" => Kind::Integer,
                "number" => Kind::Number,
                "string" => Kind::Text,
                _ => Kind::Any,
            },
            nullable: row.get(2)?,
            preset: if minimal { Preset::Minimal } else { Preset::Standard },
        })
    })?;
    let columns = columns.collect::<rusqlite::Result<Vec<_>>>()?;
    let source = Arc::new(source(columns, format, options, edition(&stamp)));
    Ok(Some(Indexed { stamp, items: items.parse().unwrap_or_default(), source }))
}

/// The state of a file as it stands in places: the same after a restart.
fn edition(stamp: &str) -> i64 {
    let hash = Sha256::digest(stamp.as_bytes());
    let bytes = hash.first_chunk::<8>().copied().unwrap_or_default();
    i64::from_be_bytes(bytes)
}

fn source(columns: Vec<Column>, format: Format, options: &FileOptions, edition: i64) -> Source {
    let hidden = |name: &str| {
        let mut name = name.to_owned();
        while columns.iter().any(|column| column.name == name) {
            name.push('_');
        }
        name
    };
    let (line, nested) = (hidden("line"), hidden("nested text"));
    let last = options.key.clone().unwrap_or_else(|| line.clone());
    let up =
        |name: &str| IndexColumn { name: name.to_owned(), descending: false, nulls: Nulls::First };
    let index = |names: &[String], unique| Index {
        columns: names.iter().map(|name| up(name)).collect(),
        unique,
    };
    let mut indexes = vec![index(std::slice::from_ref(&line), true)];
    indexes.extend(options.key.iter().map(|key| index(&[key.clone(), line.clone()], true)));
    indexes.extend(options.indexes.iter().map(|names| {
        let names: Vec<_> = names.iter().chain([&last]).cloned().collect();
        index(&names, false)
    }));
    let shown = columns.len();
    let key: Vec<_> = options.key.iter().cloned().collect();
    let schema = Schema::new(columns.clone(), key, Shape::Closed).with_guessed_kinds();
    let none = Affinity::Blob.name();
    let mut columns: Vec<_> = columns
        .into_iter()
        .enumerate()
        .map(|(number, column)| TableColumn {
            column,
            sql_name: sql_name(number),
            sql_type: none.to_owned(),
        })
        .collect();
    let mut hide = |name: String, kind, sql_name: &str| {
        let preset = Preset::Full;
        let column = Column { name, kind, nullable: false, preset };
        let (sql_name, sql_type) = (sql_name.to_owned(), none.to_owned());
        columns.push(TableColumn { column, sql_name, sql_type });
    };
    hide(line, Kind::Integer, "n");
    if format == Format::Jsonl {
        hide(nested, Kind::Text, "nested");
    }
    let table = Table { name: "items".to_owned(), columns, key: vec![last], indexes };
    let mut source = Source::new(table);
    source.schema = Arc::new(schema);
    (source.items, source.values) = match format {
        Format::Jsonl => (Items::Text("item".to_owned()), Values::Json),
        Format::Csv => (Items::Columns(shown), Values::Plain),
    };
    source.kinds_are_guessed = true;
    source.edition = options.key.is_none().then_some(edition);
    source.require_index = options.sqlite.require_index;
    source
}
