//! Values by JSON pointer: `get_element` with `pointer`, and `element_type` with one behind a handle.

use handback_token::Handle;
use serde_json::{Value, json};

use super::answer::{Answer, Body};
use super::engine::{Call, DATA_ENVELOPE_BYTES, Engine};
use super::failure::Failure;
use super::params::Params;
use crate::excerpt::{Excerpt, Extent, Located};
use crate::json::Pointer;

/// Bytes of a piece when no number is given: what is read at a glance.
const PIECE_BYTES: u64 = 65_536;

/// No piece is shorter: the longest character has as many bytes.
const SHORTEST_PIECE_BYTES: usize = 4;

/// As many bytes a character of a text may take in JSON, at most, for one of its own.
const ESCAPED_BYTES: usize = 6;

/// What stands between a handle and a pointer, as in references to held values.
const SEPARATOR: char = '#';

/// Parameters that are about pointers.
const PARAMS: [&str; 3] = ["pointer", "from", "length"];

/// Whether a request is about pointers.
pub(crate) fn is_by_pointer(params: &Params) -> bool {
    !params.given(&PARAMS).is_empty()
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
        budget: usize,
    ) -> Result<Answer, Failure> {
        let asked = asked(params, budget.saturating_sub(DATA_ENVELOPE_BYTES))?;
        let (name, collection) = self.find(call, params)?;
        let located = collection.value_at(&asked.pointer, asked.extent);
        let found = match located.map_err(|error| Failure::collection(error, name, None))? {
            Located::Found(found) => found,
            Located::Nothing => {
                return Err(Failure::not_found("value", &asked.pointer.to_string()));
            }
            Located::NotJson => {
                let expected = "nothing: the collection is no JSON value";
                return Err(Failure::invalid_type("pointer", expected, "string"));
            }
        };
        let limit = self.settings.limits.response_bytes;
        let too_large = |found: &Excerpt| {
            let hint = how_to_go_on(name, &asked.pointer, found);
            Failure::value_too_large(limit, found.kind, found.size_bytes, hint)
        };
        let data = match (asked.extent, &found.text) {
            (Extent::Whole { .. }, Some(text)) if found.kind == "text" => {
                Value::from(text.as_str()).to_string()
            }
            (Extent::Whole { .. }, Some(text)) => text.clone(),
            (Extent::Piece { .. }, Some(text)) => piece(&found, text),
            (_, None) => return Err(too_large(&found)),
        };
        if data.len() > asked.limit {
            return Err(too_large(&found));
        }
        Ok(Answer::new(params.operation, Body::Data(data), vec![]))
    }
}

/// What a request asks for.
struct Asked {
    pointer: Pointer,
    extent: Extent,
    limit: usize,
}

fn asked(params: &Params, limit: usize) -> Result<Asked, Failure> {
    let Some(text) = params.text("pointer") else {
        let given = params.given(&PARAMS);
        let message = "Cannot use 'from' or 'length' without 'pointer'";
        let hint = "Add 'pointer', or leave them out";
        return Err(Failure::combination(message, "incomplete parameters", &given, hint));
    };
    let others = params.given(&["id", "fields", "preset"]);
    if !others.is_empty() {
        let message = "Cannot use 'pointer' with 'id', 'fields' or 'preset'";
        let given = [&["pointer"], others.as_slice()].concat();
        let hint = "Use 'pointer' alone: it may lead into an element";
        return Err(Failure::combination(message, "conflicting parameters", &given, hint));
    }
    let pointer = pointer("pointer", text)?;
    let extent = match (params.size("from"), params.size("length")) {
        (None, None) => Extent::Whole { max_bytes: limit },
        (from, length) => {
            let length = usize::try_from(length.unwrap_or(PIECE_BYTES)).unwrap_or(usize::MAX);
            let max_bytes = length.min(limit / ESCAPED_BYTES).max(SHORTEST_PIECE_BYTES);
            Extent::Piece { from: from.unwrap_or(0), max_bytes }
        }
    };
    Ok(Asked { pointer, extent, limit })
}

/// A piece of a text, with where it is and where the next one starts.
fn piece(found: &Excerpt, text: &str) -> String {
    let next = found.from + text.len() as u64;
    let mut piece = json!({
        "kind": found.kind,
        "bytes": found.size_bytes,
        "from": found.from,
        "text": text,
    });
    if let Value::Object(members) = &mut piece
        && next < found.size_bytes
    {
        members.insert("next".to_owned(), next.into());
    }
    piece.to_string()
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
