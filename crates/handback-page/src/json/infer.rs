//! What the first items of a document say about the others.

use super::collection::JsonItems;
use super::listing::Items;
use super::pick;
use super::scan::{Scan, Stop};
use crate::collection::CollectionError;
use crate::schema::{Column, FieldPath, Kind, Preset, Schema, Shape};

/// So many items are looked at.
const MAX_ITEMS: usize = 200;

/// Once items of so many bytes were looked at, no more are.
const MAX_BYTES: usize = 1 << 20;

/// So many columns are named. Others can be asked for all the same.
const MAX_COLUMNS: usize = 200;

/// The columns of the first items, in the order in which they appear.
///
/// Other items may have other members, and other kinds of values in the same members: the schema is
/// open, and its columns hold anything.
pub(super) fn schema(
    items: &JsonItems,
    path: Option<&FieldPath>,
) -> Result<Schema, CollectionError> {
    let name = path.map(FieldPath::to_string);
    let key = name.as_deref();
    let mut seen = Seen::default();
    seen.columns.extend(key.map(|key| Member { name: key.to_owned(), is_text: false }));
    let mut bytes = 0;
    for number in (0..items.count()).take(MAX_ITEMS) {
        let text = match items.text(number) {
            // It has members like the others, or nobody will see them.
            Err(CollectionError::TooLarge { .. }) => continue,
            text => text?,
        };
        seen.look_at(&text).map_err(|_| CollectionError::Changed)?;
        bytes += text.len();
        if bytes > MAX_BYTES {
            break;
        }
    }
    let minimal = seen.minimal(key);
    let columns = seen.columns.into_iter().enumerate().map(|(number, column)| Column {
        kind: Kind::Any,
        nullable: key != Some(column.name.as_str()),
        preset: if minimal.contains(&number) { Preset::Minimal } else { Preset::Standard },
        name: column.name,
    });
    let columns = columns.collect();
    let schema = Schema::new(columns, name.into_iter().collect(), Shape::Open).with_cheap_counts();
    Ok(match path {
        Some(path) => schema.with_key_path(path.clone()),
        None => schema,
    })
}

#[derive(Default)]
struct Seen {
    columns: Vec<Member>,
}

struct Member {
    name: String,
    /// Whether its first value is text.
    is_text: bool,
}

impl Seen {
    fn look_at(&mut self, item: &str) -> Result<(), Stop> {
        let scan = Scan::whole(item.as_bytes());
        let mut at = 0;
        if scan.byte(at)? != b'{' {
            return Ok(());
        }
        loop {
            at = scan.space(at + 1);
            if scan.byte(at)? == b'}' {
                return Ok(());
            }
            let (name_end, value) = scan.member(at)?;
            let name = pick::unquoted(scan.slice(at, name_end));
            let is_known = self.columns.iter().any(|column| column.name == name);
            if !is_known && self.columns.len() < MAX_COLUMNS {
                let is_text = scan.byte(value)? == b'"';
                self.columns.push(Member { name: name.into_owned(), is_text });
            }
            at = scan.space(scan.value(value, 0, &mut ())?);
            if scan.byte(at)? == b'}' {
                return Ok(());
            }
        }
    }

    /// The numbers of the columns that are enough to know which item it is: its key, its id, and
    /// what it is called.
    fn minimal(&self, key: Option<&str>) -> Vec<usize> {
        let named = |name: &str| self.columns.iter().position(|column| column.name == name);
        let called = named("name")
            .or_else(|| named("title"))
            .or_else(|| self.columns.iter().position(|column| column.is_text));
        let mut minimal: Vec<_> =
            [key.and_then(named), named("id"), called].into_iter().flatten().collect();
        if minimal.is_empty() && !self.columns.is_empty() {
            minimal.push(0);
        }
        minimal
    }
}
