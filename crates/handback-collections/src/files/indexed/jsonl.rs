//! Lines of JSON into an index.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};

use handback_page::{CollectionError, Column, Kind, Preset, Scalar};
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, Statement};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::build::{Filled, sql_name};
use super::collection::Progress;
use super::options::{FileOptions, MAX_JSONL_COLUMNS, MAX_LINE_BYTES};
use crate::files::source::{BYTE_ORDER_MARK, unreadable};
use crate::sqlite::{CONTAINER, encode, failure};

/// How deep arrays and objects may be nested: what `serde_json` takes.
const MAX_NESTING: usize = 127;

/// Between two reports of progress.
pub(super) const PROGRESS_BYTES: u64 = 1 << 20;

pub(super) fn fill(
    db: &Connection,
    file: &File,
    options: &FileOptions,
    progress: Progress<'_>,
) -> Result<Filled, CollectionError> {
    db.execute_batch("CREATE TABLE items(n INTEGER PRIMARY KEY, item TEXT NOT NULL, nested TEXT)")
        .map_err(|e| failure(&e))?;
    let total = file.metadata().map_err(|error| unreadable(&error))?.len();
    let mut lines = Lines::new(file);
    let mut filling = Filling { db, insert: None, columns: Columns::default(), items: 0 };
    let mut reported = 0;
    while let Some((number, line)) = lines.next()? {
        filling.add(number, line, options.key.as_deref())?;
        if lines.read_bytes - reported >= PROGRESS_BYTES {
            reported = lines.read_bytes;
            progress(reported, total);
        }
    }
    if let (0, Some(key)) = (filling.items, &options.key) {
        // Of an empty file, this is known.
        filling.column(key.clone())?;
    }
    drop(filling.insert);
    progress(total, total);
    let columns = filling.columns.into_schema(options.key.as_deref(), filling.items);
    Ok(Filled { columns, items: filling.items })
}

/// The lines of a file, with their numbers, without those that are blank.
struct Lines<'a> {
    reader: BufReader<&'a File>,
    number: u64,
    read_bytes: u64,
    line: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn new(file: &'a File) -> Self {
        let reader = BufReader::with_capacity(1 << 18, file);
        Self { reader, number: 0, read_bytes: 0, line: Vec::new() }
    }

    fn next(&mut self) -> Result<Option<(u64, &str)>, CollectionError> {
        let number = loop {
            self.line.clear();
            let limit = MAX_LINE_BYTES as u64 + 1;
            let read = (&mut self.reader)
                .take(limit)
                .read_until(b'\n', &mut self.line)
                .map_err(|error| unreadable(&error))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.read_bytes += read as u64;
            if read > MAX_LINE_BYTES {
                let (number, max) = (self.number, MAX_LINE_BYTES);
                let text = format!("line {number} is longer than {max} bytes");
                return Err(CollectionError::Damaged(text));
            }
            if self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
                self.line.drain(..BYTE_ORDER_MARK.len());
            }
            if !self.line.trim_ascii().is_empty() {
                break self.number;
            }
        };
        match std::str::from_utf8(self.line.trim_ascii()) {
            Ok(line) => Ok(Some((number, line))),
            Err(_) => Err(CollectionError::Damaged(format!("line {number} is not UTF-8"))),
        }
    }
}

struct Filling<'a> {
    db: &'a Connection,
    /// For as many columns as there are.
    insert: Option<Statement<'a>>,
    columns: Columns,
    items: u64,
}

impl Filling<'_> {
    fn add(&mut self, number: u64, line: &str, key: Option<&str>) -> Result<(), CollectionError> {
        let bad = |error: serde_json::Error| {
            let (column, text) = (error.column(), error.to_string());
            // What is JSON all the same has no kind of error of its own.
            let what = if text.starts_with("recursion limit exceeded") {
                format!("has arrays and objects in more than {MAX_NESTING} levels")
            } else if text.starts_with("number out of range") {
                "has a number that no double holds".to_owned()
            } else {
                "is not JSON".to_owned()
            };
            CollectionError::Damaged(format!("line {number} {what}, at column {column}"))
        };
        let mut nested = String::new();
        let mut values: Vec<(usize, SqlValue)> = Vec::new();
        if line.starts_with('{') {
            let Members(members) = serde_json::from_str(line).map_err(bad)?;
            for (name, value) in members {
                let Some(column) = self.column(name)? else {
                    collect_text(&value, &mut nested);
                    continue;
                };
                if !matches!(value, Value::String(_)) {
                    collect_text(&value, &mut nested);
                }
                values.extend(stored(&value).map(|value| (column, value)));
            }
        } else {
            collect_text(&serde_json::from_str::<Value>(line).map_err(bad)?, &mut nested);
        }
        if let Some(key) = key {
            let column = self.columns.by_name.get(key);
            if column.is_none_or(|column| values.iter().all(|(number, _)| number != column)) {
                return Err(CollectionError::Damaged(format!("line {number} has no '{key}'")));
            }
        }
        self.insert(number, line, nested, values).map_err(|e| failure(&e))?;
        self.items += 1;
        Ok(())
    }

    fn insert(
        &mut self,
        number: u64,
        line: &str,
        nested: String,
        values: Vec<(usize, SqlValue)>,
    ) -> rusqlite::Result<()> {
        let statement = match &mut self.insert {
            Some(statement) => statement,
            none => {
                let count = self.columns.list.len();
                let names: String = (0..count).map(|n| format!(", {}", sql_name(n))).collect();
                let marks = ", ?".repeat(count);
                let sql =
                    format!("INSERT INTO items(n, item, nested{names}) VALUES (?, ?, ?{marks})");
                none.insert(self.db.prepare(&sql)?)
            }
        };
        statement.raw_bind_parameter(1, i64::try_from(number).unwrap_or(i64::MAX))?;
        statement.raw_bind_parameter(2, line)?;
        statement.raw_bind_parameter(3, (!nested.is_empty()).then_some(nested))?;
        for (column, value) in values {
            statement.raw_bind_parameter(column + 4, &value)?;
            if let Some(column) = self.columns.list.get_mut(column) {
                column.met(&value, number);
            }
        }
        statement.raw_execute()?;
        statement.clear_bindings();
        Ok(())
    }

    /// The number of the column of a member, unless there are enough columns already.
    fn column(&mut self, name: String) -> Result<Option<usize>, CollectionError> {
        if let Some(number) = self.columns.by_name.get(&name) {
            return Ok(Some(*number));
        }
        let number = self.columns.list.len();
        if number == MAX_JSONL_COLUMNS {
            return Ok(None);
        }
        self.insert = None;
        let sql = format!("ALTER TABLE items ADD COLUMN {}", sql_name(number));
        self.db.execute_batch(&sql).map_err(|e| failure(&e))?;
        self.columns.by_name.insert(name.clone(), number);
        self.columns.list.push(Met { name, is_text: false, items: 0, last: 0 });
        Ok(Some(number))
    }
}

#[derive(Default)]
struct Columns {
    list: Vec<Met>,
    by_name: HashMap<String, usize>,
}

/// A member, as far as it was met.
struct Met {
    name: String,
    /// Whether its first value was text.
    is_text: bool,
    /// In how many items it had a value.
    items: u64,
    /// The line in which it was met last.
    last: u64,
}

impl Met {
    fn met(&mut self, value: &SqlValue, line: u64) {
        if self.items == 0 {
            self.is_text = matches!(value, SqlValue::Text(_));
        }
        // The same member may be there twice.
        if self.last != line {
            self.items += 1;
            self.last = line;
        }
    }
}

impl Columns {
    fn into_schema(self, key: Option<&str>, items: u64) -> Vec<Column> {
        let named = |name: &str| self.by_name.get(name).copied();
        let title = named("name")
            .or_else(|| named("title"))
            .or_else(|| self.list.iter().position(|met| met.is_text));
        let mut minimal = [key.and_then(named), named("id"), title];
        if minimal == [None; 3] {
            // Something has to tell what it is.
            minimal = [Some(0), None, None];
        }
        let column = |(number, met): (usize, Met)| Column {
            name: met.name,
            kind: Kind::Any,
            nullable: met.items < items,
            preset: match minimal.contains(&Some(number)) {
                true => Preset::Minimal,
                false => Preset::Standard,
            },
        };
        self.list.into_iter().enumerate().map(column).collect()
    }
}

/// A member as the index keeps it; nothing if it is null.
fn stored(value: &Value) -> Option<SqlValue> {
    let Some(scalar) = Scalar::from_json(value) else {
        return Some(SqlValue::Blob(CONTAINER.to_vec()));
    };
    match encode(scalar) {
        Scalar::Null => None,
        Scalar::Bool(truth) => Some(SqlValue::Blob(vec![truth.into()])),
        Scalar::Decimal(decimal) => Some(SqlValue::Real(decimal.nearest())),
        Scalar::Int(int) => Some(i64::try_from(int).map_or_else(
            |_| {
                #[expect(clippy::cast_precision_loss, reason = "documented: compared as doubles")]
                SqlValue::Real(int as f64)
            },
            SqlValue::Integer,
        )),
        Scalar::Real(real) => Some(SqlValue::Real(real)),
        Scalar::Text(text) => Some(SqlValue::Text(text)),
        Scalar::Blob(bytes) => Some(SqlValue::Blob(bytes)),
    }
}

/// All text in a value, each on a line: words of a search have no line breaks in them.
fn collect_text(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            out.push_str(text);
            out.push('\n');
        }
        Value::Array(values) => values.iter().for_each(|value| collect_text(value, out)),
        Value::Object(members) => members.values().for_each(|value| collect_text(value, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The members of an object, in their order.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}
