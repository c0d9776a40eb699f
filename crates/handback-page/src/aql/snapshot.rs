//! Snapshots: what matched on the first page of a walk, copied to the shelf.
//!
//! | bytes | meaning |
//! |---|---|
//! | 4 | how long what follows is, big endian |
//! | so many | what names and presets of `fields` mean, as JSON: the columns of the collection; and what was not copied |
//! | the rest | the items: a JSON array |
//!
//! Items that are too long to be read are not copied.
//!
//! The copy needs nothing of the collection any more: a walk goes on when its table is dropped.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use handback_token::UnixTime;
use serde_json::{Value, json};

use crate::collection::{Collection, CollectionError, Query, Unread};
use crate::json::{ByteSource, JsonCollection, JsonOptions};
use crate::schema::{Column, FieldPath, Kind, Preset, Schema, Shape};
use crate::shelf::{Shelf, ShelfId};

/// A snapshot that can be read.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The items, in the order in which they were found.
    pub(crate) items: Arc<JsonCollection>,
    /// What names and presets mean.
    pub(crate) schema: Arc<Schema>,
    /// What was not copied.
    pub(crate) unread: Unread,
}

/// Where a snapshot goes.
pub(crate) struct Room<'a> {
    pub(crate) shelf: &'a dyn Shelf,
    pub(crate) id: ShelfId,
    pub(crate) now: UnixTime,
    pub(crate) until: UnixTime,
    pub(crate) limit_bytes: u64,
}

/// Copies what matches.
pub(crate) fn take(
    collection: &dyn Collection,
    schema: &Schema,
    query: &Query,
    room: &Room<'_>,
) -> Result<(), CollectionError> {
    let limit = room.limit_bytes;
    let too_large = || CollectionError::TooLarge { what: "snapshot", unit: "bytes", limit };
    let head = head(schema, &collection.unread(None));
    let length = u32::try_from(head.len()).map_err(|_| too_large())?;
    let mut writer = room.shelf.put(room.id, room.now, room.until)?;
    writer.write(&length.to_be_bytes())?;
    writer.write(head.as_bytes())?;
    let mut written = head.len() as u64;
    let mut separator = b"[";
    collection.scan(query, &mut |row| {
        if row.item.as_long().is_some() {
            return Ok(());
        }
        written += row.item.len() as u64 + 1;
        if written > limit {
            return Err(too_large());
        }
        writer.write(separator)?;
        separator = b",";
        writer.write(row.item.as_bytes())
    })?;
    writer.write(if separator == b"[" { b"[]" } else { b"]" })?;
    writer.finish()
}

impl Snapshot {
    /// Reads and indexes what [`take`] wrote.
    pub(crate) fn open(bytes: Arc<dyn ByteSource>) -> Result<Self, CollectionError> {
        let start = LENGTH_BYTES as u64;
        if bytes.size_bytes() < start {
            return Err(unreadable());
        }
        let length = bytes.read(0..start)?;
        let length = length.first_chunk::<LENGTH_BYTES>().ok_or_else(unreadable)?;
        let end = start + u64::from(u32::from_be_bytes(*length));
        if end > bytes.size_bytes() {
            return Err(unreadable());
        }
        let head = bytes.read(start..end)?.into_owned();
        let head: Value = serde_json::from_slice(&head).map_err(|_| unreadable())?;
        let schema = Arc::new(schema(&head).ok_or_else(unreadable)?);
        let items = JsonCollection::open(Rest { bytes, start: end }, JsonOptions::new())?;
        Ok(Self { items: Arc::new(items), schema, unread: unread(&head) })
    }
}

const LENGTH_BYTES: usize = 4;

fn unreadable() -> CollectionError {
    CollectionError::Damaged("a snapshot is not what was put on the shelf".to_owned())
}

fn head(schema: &Schema, unread: &Unread) -> String {
    let columns = schema.columns().iter().map(|column| {
        let path = schema.member_path(&column.name);
        json!([column.name, column.preset as u8, path.parts()])
    });
    let is_open = schema.shape() == Shape::Open;
    let Unread { count, first, limit_bytes } = unread;
    json!({
        "open": is_open,
        "columns": columns.collect::<Vec<_>>(),
        "unread": {"count": count, "first": first, "limit_bytes": limit_bytes},
    })
    .to_string()
}

/// What was not copied: nothing, if the snapshot is of an earlier version.
fn unread(head: &Value) -> Unread {
    let member = |name: &str| head.get("unread").and_then(|unread| unread.get(name));
    let number = |name: &str| member(name).and_then(Value::as_u64).unwrap_or_default();
    let first = member("first").and_then(Value::as_array).into_iter().flatten();
    Unread {
        count: number("count"),
        first: first.filter_map(Value::as_u64).collect(),
        limit_bytes: number("limit_bytes"),
    }
}

/// What is needed of a schema to select members: it knows neither types nor the key.
fn schema(head: &Value) -> Option<Schema> {
    let shape = if head.get("open")?.as_bool()? { Shape::Open } else { Shape::Closed };
    let mut columns = Vec::new();
    let mut nested = None;
    for column in head.get("columns")?.as_array()? {
        let name = column.get(0)?.as_str()?.to_owned();
        let preset = match column.get(1)?.as_u64()? {
            0 => Preset::Minimal,
            1 => Preset::Standard,
            _ => Preset::Full,
        };
        let parts: Option<Vec<_>> = column
            .get(2)?
            .as_array()?
            .iter()
            .map(|part| part.as_str().map(str::to_owned))
            .collect();
        nested = nested.or_else(|| parts.filter(|parts| parts.len() > 1));
        columns.push(Column { name, kind: Kind::Any, nullable: true, preset });
    }
    let schema = Schema::new(columns, vec![], shape).with_cheap_counts();
    Some(match nested {
        Some(parts) => schema.with_key_path(FieldPath::from_parts(parts)),
        None => schema,
    })
}

/// The bytes of a source from some place on.
#[derive(Debug)]
struct Rest {
    bytes: Arc<dyn ByteSource>,
    start: u64,
}

impl ByteSource for Rest {
    fn size_bytes(&self) -> u64 {
        self.bytes.size_bytes() - self.start
    }

    fn edition(&self) -> u64 {
        self.bytes.edition()
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError> {
        self.bytes.read(range.start + self.start..range.end + self.start)
    }
}
