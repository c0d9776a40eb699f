//! Values by JSON pointer: `get_element` with `pointer`, and `element_type` with one behind a handle.

use handback_token::Handle;
use serde_json::{Map, Value};

use super::answer::{Answer, Body, Warning};
use super::engine::{Call, DATA_ENVELOPE_BYTES, Engine};
use super::failure::Failure;
use super::params::Params;
use super::piece::{self, Rest};
use super::room::Room;
use crate::excerpt::{Excerpt, Extent, Located};
use crate::json::Pointer;

/// Bytes of a piece when no number is given: what is read at a glance.
const PIECE_BYTES: u64 = 65_536;

/// No piece is shorter: the longest character has as many bytes.
const SHORTEST_PIECE_BYTES: usize = 4;

/// What stands between a handle and a pointer, as in references to held values.
const SEPARATOR: char = '#';

/// Whether a request is about a pointer.
pub(crate) fn is_by_pointer(params: &Params) -> bool {
    params.text("pointer").is_some()
}

/// The piece that a request asks for, if it asks for one: what fits of it is shown.
pub(crate) fn extent(params: &Params, room: Room) -> Option<Extent> {
    let (from, length) = (params.size("from"), params.size("length"));
    if from.is_none() && length.is_none() {
        return None;
    }
    let length = usize::try_from(length.unwrap_or(PIECE_BYTES)).unwrap_or(usize::MAX);
    let max_bytes = length.min(room.bytes).max(SHORTEST_PIECE_BYTES);
    Some(Extent::Piece { from: from.unwrap_or(0), max_bytes })
}

/// A name and what is behind it: `HANDLE#/items` has two parts.
pub(crate) fn parts(name: &str) -> (&str, Option<&str>) {
    match name.split_once(SEPARATOR) {
        Some((name, pointer)) => (name, Some(pointer)),
        None => (name, None),
    }
}

/// A pointer that a parameter has.
pub(crate) fn pointer(param_name: &str, text: &str) -> Result<Pointer, Failure> {
    text.parse().map_err(|error| {
        Failure::invalid_type(param_name, "JSON pointer", "other text").with_hint(format!(
            "{error}: write '/' and a name or number for each level, or nothing for the whole"
        ))
    })
}

impl Engine {
    /// Answers `get_element` with `pointer`.
    pub(crate) fn get_at(
        &self,
        call: &Call<'_>,
        params: &Params,
        room: Room,
    ) -> Result<Answer, Failure> {
        let room = room.without(DATA_ENVELOPE_BYTES);
        let pointer = asked(params)?;
        let (name, collection) = self.find(call, params)?;
        let found = |extent| {
            let located = collection.value_at(&pointer, extent);
            match located.map_err(|error| Failure::collection(error, name, None))? {
                Located::Found(found) => Ok(found),
                Located::Nothing => Err(Failure::not_found("value", &pointer.to_string())),
                Located::NotJson => {
                    let expected = "nothing: the collection is no JSON value";
                    Err(Failure::invalid_type("pointer", expected, "string"))
                }
            }
        };
        let too_large = |found: &Excerpt| {
            let hint = how_to_go_on(name, &pointer, found);
            Failure::value_too_large(room.limit, found.kind, found.size_bytes, hint)
        };
        let answer = |data, warnings| Answer::new(params.operation, Body::Data(data), warnings);
        if let Some(extent) = extent(params, room) {
            let found = found(extent)?;
            let text = found.text.as_deref().unwrap_or_default();
            let data = piece::piece(&found, text, room).ok_or_else(|| too_large(&found))?;
            return Ok(answer(data, vec![]));
        }
        let whole = found(Extent::Whole { max_bytes: room.bytes })?;
        let text = whole.text.as_ref().map(|text| match whole.kind {
            "text" => Value::from(text.as_str()).to_string(),
            _ => text.clone(),
        });
        let cost = text.as_ref().map_or(usize::MAX, |text| room.cost(text));
        match text {
            Some(text) if cost <= room.bytes => return Ok(answer(text, vec![])),
            _ if !room.is_clients => return Err(too_large(&whole)),
            _ => {}
        }
        // In a batch, what would fit into an answer of its own is not taken apart.
        let most = room.whole().without(DATA_ENVELOPE_BYTES).bytes;
        if cost <= most || (cost == usize::MAX && whole.size_bytes <= most as u64) {
            return Err(too_large(&whole));
        }
        let first = found(Extent::Piece { from: 0, max_bytes: room.bytes })?;
        let text = first.text.as_deref().unwrap_or_default();
        let at = Map::from_iter([("pointer".to_owned(), pointer.to_string().into())]);
        let rest = Rest::get(name, at, None);
        let data = piece::excerpt(first.kind, first.size_bytes, text, &rest, room);
        let data = data.ok_or_else(|| too_large(&first))?;
        let hint = how_to_go_on(name, &pointer, &first);
        Ok(answer(data, vec![Warning::excerpt("data", &hint)]))
    }
}

/// The pointer that a request has.
fn asked(params: &Params) -> Result<Pointer, Failure> {
    let others = params.given(&["id", "fields", "preset"]);
    if !others.is_empty() {
        let message = "Cannot use 'pointer' with 'id', 'fields' or 'preset'";
        let given = [&["pointer"], others.as_slice()].concat();
        let hint = "Use 'pointer' alone: it may lead into an element";
        return Err(Failure::combination(message, "conflicting parameters", &given, hint));
    }
    pointer("pointer", params.text("pointer").unwrap_or_default())
}

/// What to do about a value that is too large.
fn how_to_go_on(name: &str, pointer: &Pointer, found: &Excerpt) -> String {
    let pieces = "read its text in pieces with 'from' and 'length'";
    let (handle, _) = parts(name);
    match found.kind {
        "array" | "object" if Handle::is_handle_shaped(handle) => {
            format!("List it with 'element_type' {handle}{SEPARATOR}{pointer}, or {pieces}")
        }
        "array" | "object" => format!("Go deeper with 'pointer', or {pieces}"),
        _ => format!("Ask once more to {pieces}"),
    }
}
