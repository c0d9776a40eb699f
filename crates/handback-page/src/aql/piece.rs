//! Values that are shown in part: a piece of their text, where it is, and how to read on.

use serde_json::{Map, Value, json};

use super::room::Room;
use crate::excerpt::{EXCERPT, Excerpt, LongItem};

/// Bytes of the text of one item on a page: enough to know what it is, and others fit beside it.
const ITEM_BYTES: usize = 4096;

/// How the rest of a value is read.
pub(crate) struct Rest {
    /// The key of an item, if it is not in its text.
    id: Option<u64>,
    /// Where it is in its document, if it is in one.
    pointer: Option<String>,
    /// The request that reads on, without the place where it starts; nothing, if there is none.
    request: Option<Value>,
    /// Where what the request reads starts: so many bytes of it are before what is shown.
    before: i64,
}

impl Rest {
    /// `get_element` of a collection with these parameters.
    pub(crate) fn get(name: &str, params: Map<String, Value>, pointer: Option<String>) -> Self {
        let request = json!({"operation": "get_element", "element_type": name, "params": params});
        Self { request: Some(request), ..Self::nowhere(pointer) }
    }

    /// Of an item that is too long to be read.
    pub(crate) fn of_long(name: &str, item: &LongItem, pointer: Option<String>) -> Self {
        let rest = Self { id: item.id, ..Self::nowhere(pointer) };
        let Some((at, next)) = &item.read_on else { return rest };
        let at = Map::from_iter([("pointer".to_owned(), at.to_string().into())]);
        let shown = item.text().len() as u64;
        let before = 0_i64.saturating_add_unsigned(*next).saturating_sub_unsigned(shown);
        Self { id: rest.id, before, ..Self::get(name, at, rest.pointer) }
    }

    /// No request reaches it.
    pub(crate) const fn nowhere(pointer: Option<String>) -> Self {
        Self { id: None, pointer, request: None, before: 0 }
    }

    fn from(&self, next: u64) -> Option<Value> {
        let mut request = self.request.clone()?;
        *request.get_mut("params")?.as_object_mut()?.entry("from").or_insert(Value::Null) =
            next.saturating_add_signed(self.before).into();
        Some(request)
    }
}

/// A piece of a text, with where it is and where the next one starts: as long as fits.
pub(crate) fn piece(found: &Excerpt, text: &str, room: Room) -> Option<String> {
    let write = |text: &str| {
        let next = found.from + text.len() as u64;
        let mut piece = Map::new();
        piece.insert("kind".to_owned(), found.kind.into());
        piece.insert("bytes".to_owned(), found.size_bytes.into());
        piece.insert("from".to_owned(), found.from.into());
        piece.insert("text".to_owned(), text.into());
        if next < found.size_bytes {
            piece.insert("next".to_owned(), next.into());
        }
        Value::Object(piece).to_string()
    };
    fitted(text, room, write)
}

/// What is shown of a value that does not fit: as long as fits.
pub(crate) fn excerpt(
    kind: &str,
    size_bytes: u64,
    text: &str,
    rest: &Rest,
    room: Room,
) -> Option<String> {
    let write = |text: &str| {
        let next = text.len() as u64;
        let mut shown = Map::new();
        shown.insert("kind".to_owned(), kind.into());
        shown.insert("bytes".to_owned(), size_bytes.into());
        shown.extend(rest.id.map(|id| ("id".to_owned(), id.into())));
        shown.extend(rest.pointer.iter().map(|at| ("pointer".to_owned(), at.as_str().into())));
        shown.insert("text".to_owned(), text.into());
        shown.insert("next".to_owned(), next.into());
        shown.extend(rest.from(next).map(|request| ("read_on".to_owned(), request)));
        json!({EXCERPT: shown}).to_string()
    };
    fitted(text, room, write)
}

/// The same for one item among others.
pub(crate) fn item_excerpt(item: &str, rest: &Rest, room: Room) -> Option<String> {
    let shown = item.get(..item.floor_char_boundary(ITEM_BYTES)).unwrap_or_default();
    excerpt(kind(item), item.len() as u64, shown, rest, room)
}

/// The same for an item that is too long to be read.
pub(crate) fn long_excerpt(item: &LongItem, rest: &Rest, room: Room) -> Option<String> {
    excerpt(item.start.kind, item.start.size_bytes, item.text(), rest, room)
}

/// What a JSON value is, by its first byte.
pub(crate) fn kind(json: &str) -> &'static str {
    crate::excerpt::kind(json.as_bytes().first().copied())
}

/// What is written with as much of a text as fits; nothing, if not one character of it does.
fn fitted(text: &str, room: Room, write: impl Fn(&str) -> String) -> Option<String> {
    let room = room.without(room.cost(&write("")) + NUMBERS_BYTES);
    let end = room.fitting(text);
    (end > 0 || text.is_empty()).then(|| write(text.get(..end).unwrap_or_default()))
}

/// What the two numbers that say where a text ends may have more than if there is none of it.
const NUMBERS_BYTES: usize = 40;
