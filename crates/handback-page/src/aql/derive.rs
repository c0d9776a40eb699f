//! Held values that are made of others.

use handback_token::Handle;
use rand_core::CryptoRng;
use serde_json::{Value, json};

use super::engine::{self, Call, own_failure};
use super::failure::{Failure, shortened};
use super::own::{NewOwn, OwnValue};
use super::params::Params;
use crate::collection::CollectionError;
use crate::edits::{EditError, Edits, MAX_EDITS};
use crate::json::{
    self, InMemory, MAX_OPERATIONS, MAX_TAKEN_APART, OperationFault, Patch, PatchError, Pointer,
};
use crate::scalar::write_text;

/// Bytes of a value that others are derived from, and of those: both are in memory at once.
pub const MAX_DERIVED_BYTES: usize = 64 << 20;

/// Makes a held value of another one, and says what it is called.
pub(crate) fn answer(
    call: &Call<'_>,
    params: &Params,
    rng: &mut dyn CryptoRng,
) -> Result<Value, Failure> {
    let name = params.text("element_type").unwrap_or_default();
    let change = Change::of(params)?;
    if !Handle::is_handle_shaped(name) {
        return Err(Failure::invalid_type("element_type", "handle of a held value", "other name"));
    }
    let own = call.own.ok_or_else(|| Failure::not_found("collection", name))?;
    let source = own.value(engine::handle(name)?).map_err(|error| own_failure(error, name))?;
    let failed = |error| Failure::collection(error, name, None);
    let derived = change.apply(&source, &failed)?;
    let OwnValue { kind, note, .. } = &source;
    let new = NewOwn { kind, note, bytes: derived.as_bytes() };
    let entry = own.hold(new, rng).map_err(failed)?;
    Ok(json!({
        "handle": entry.handle.to_string(),
        "kind": entry.kind,
        "bytes": entry.bytes,
        "expires_at": entry.until.as_secs(),
    }))
}

/// What is to be changed.
enum Change {
    /// A text, or the string at a place of a JSON value.
    Edits {
        edits: Edits,
        path: Option<Pointer>,
    },
    Patch(Patch),
}

impl Change {
    fn of(params: &Params) -> Result<Self, Failure> {
        let path = params.text("path");
        match (params.get("edits"), params.get("patch")) {
            (Some(edits), None) => {
                let edits = Edits::read(edits).map_err(edit_failure)?;
                let read = |path: &str| path.parse().map_err(|_| not_a_pointer("path"));
                Ok(Self::Edits { edits, path: path.map(read).transpose()? })
            }
            (None, Some(patch)) if path.is_none() => {
                let patch = match patch {
                    Value::Object(_) => Patch::read(&json!([patch])),
                    patch => Patch::read(patch),
                };
                patch.map(Self::Patch).map_err(patch_failure)
            }
            (None, Some(_)) => {
                let hint = "The operations of a patch have paths of their own";
                Err(Failure::invalid_type("path", "nothing beside 'patch'", "string")
                    .with_hint(hint))
            }
            (Some(_), Some(_)) => {
                Err(Failure::invalid_type("patch", "nothing beside 'edits'", "patch"))
            }
            (None, None) => {
                let missing = Failure::missing_param("edits", params.operation.name());
                Err(missing.with_hint("Give 'edits' of text, or a 'patch' of JSON"))
            }
        }
    }

    /// The changed value.
    fn apply(
        &self,
        source: &OwnValue,
        failed: &dyn Fn(CollectionError) -> Failure,
    ) -> Result<String, Failure> {
        let size = source.bytes.size_bytes();
        let limit = MAX_DERIVED_BYTES as u64;
        if size > limit {
            return Err(Failure::too_large("source_size", limit, Some(size), "bytes"));
        }
        let text = source.bytes.read(0..size).map_err(failed)?.into_owned();
        let text = String::from_utf8(text)
            .map_err(|_| failed(CollectionError::Damaged("the text is not UTF-8".to_owned())))?;
        let is_text = source.kind.starts_with("text/");
        match self {
            Self::Edits { edits, path: None } if is_text => {
                edits.apply(&text, MAX_DERIVED_BYTES).map_err(edit_failure)
            }
            Self::Edits { path: Some(_), .. } if is_text => {
                Err(Failure::invalid_type("path", "path into held JSON", "path into held text"))
            }
            Self::Edits { edits, path } => {
                let whole = Pointer::whole();
                edit_string(&text, edits, path.as_ref().unwrap_or(&whole), failed)
            }
            Self::Patch(_) if is_text => {
                Err(Failure::invalid_type("patch", "patch of held JSON", "patch of held text")
                    .with_hint("Use 'edits'"))
            }
            Self::Patch(patch) => {
                patch.apply(&text, MAX_DERIVED_BYTES).map_err(|error| match error {
                    PatchError::NotJson { what, offset } => {
                        failed(CollectionError::Damaged(format!("{what} at byte {offset}")))
                    }
                    error => patch_failure(error),
                })
            }
        }
    }
}

/// A JSON document with one of its strings edited. The rest stays as it is, to the byte.
fn edit_string(
    document: &str,
    edits: &Edits,
    path: &Pointer,
    failed: &dyn Fn(CollectionError) -> Failure,
) -> Result<String, Failure> {
    let found = json::locate(&InMemory::new(document, 0), path).map_err(failed)?;
    let nothing = || Failure::invalid_type("path", "place in the held value", "nothing there");
    let found = found.ok_or_else(nothing)?;
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let (start, end) = (place(found.start), place(found.end));
    let slice = |from: usize, to: usize| document.get(from..to).unwrap_or_default();
    let Ok(text) = serde_json::from_str::<String>(slice(start, end)) else {
        return Err(Failure::invalid_type("path", "path of a string", "path of another value")
            .with_hint("Give the 'path' of a string in it, or use 'patch'"));
    };
    let text = edits.apply(&text, MAX_DERIVED_BYTES).map_err(edit_failure)?;
    let mut derived = String::with_capacity(document.len() + text.len());
    derived.push_str(slice(0, start));
    write_text(&text, &mut derived);
    derived.push_str(slice(end, document.len()));
    if derived.len() > MAX_DERIVED_BYTES { Err(too_large()) } else { Ok(derived) }
}

fn too_large() -> Failure {
    Failure::too_large("derived_size", MAX_DERIVED_BYTES as u64, None, "bytes")
}

fn not_a_pointer(param_name: &str) -> Failure {
    Failure::invalid_type(param_name, "JSON pointer", "other text")
        .with_hint("'' is the whole value, '/a/0' the first element of its member 'a'")
}

fn edit_failure(error: EditError) -> Failure {
    match error {
        EditError::NotEdits => {
            let expected = format!("1 to {MAX_EDITS} edits");
            Failure::invalid_type("edits", &expected, "another number of them")
        }
        EditError::Member { number, member } => {
            let expected = match member.as_str() {
                "old" => "string with something in it",
                "new" => "string",
                "count" => "integer from 1, or 'all'",
                _ => "'old', 'new' and 'count'",
            };
            let param_name = format!("edits[{number}].{}", shortened(&member));
            Failure::invalid_type(&param_name, expected, "missing, unknown or other value")
        }
        EditError::Count { number, expected, found } => {
            let param_name = format!("edits[{number}].old");
            let expected = match expected {
                None => "text occurring in the value".to_owned(),
                Some(expected) => format!("text occurring {expected} times"),
            };
            let actual = format!("text occurring {found} times");
            let hint = match found {
                0 => "Copy the text as it is, with its spaces and line ends",
                _ => "Give more of what is around it, or say in 'count' how often it occurs",
            };
            Failure::invalid_type(&param_name, &expected, &actual).with_hint(hint)
        }
        EditError::TooLarge { .. } => too_large(),
    }
}

fn patch_failure(error: PatchError) -> Failure {
    match error {
        PatchError::Operation { number, fault } => operation_failure(number, &fault),
        PatchError::TooLarge { .. } => too_large(),
        PatchError::TooDeep => Failure::too_large("nesting_depth", 128, None, "levels"),
        PatchError::TooMany => {
            Failure::too_large("array_elements", MAX_TAKEN_APART as u64, None, "elements")
        }
        PatchError::NotAPatch | PatchError::NotJson { .. } => {
            let expected = format!("array of at most {MAX_OPERATIONS} operations");
            Failure::invalid_type("patch", &expected, "other value")
        }
    }
}

fn operation_failure(number: usize, fault: &OperationFault) -> Failure {
    let (member, expected, actual) = match fault {
        OperationFault::NotAnObject => ("", "object", "other value"),
        OperationFault::UnknownOp => {
            ("op", "one of add, remove, replace, move, copy, test", "other text")
        }
        OperationFault::Member(member) => (*member, "value", "missing or of another type"),
        OperationFault::Pointer(member, _) => {
            return not_a_pointer(&format!("patch[{number}].{member}"));
        }
        OperationFault::Nothing(member) => (*member, "place in the held value", "nothing there"),
        OperationFault::NoPlace => {
            ("path", "number of an element or '-'", "other text, or a number beyond the end")
        }
        OperationFault::Whole => ("path", "part of the held value", "all of it"),
        OperationFault::IntoItself => ("path", "place outside of 'from'", "place inside of it"),
        OperationFault::TestFailed => ("value", "value in this place", "another value"),
    };
    let dot = if member.is_empty() { "" } else { "." };
    Failure::invalid_type(&format!("patch[{number}]{dot}{member}"), expected, actual)
}
