//! Failures as MCP-AQL writes them: a code of its registry, a message, and details.
//!
//! Messages go to people and to models. They name parameters, never the inside of the server: no
//! paths, no types of this program, no SQL. They also avoid words ending in "at" before a space,
//! which the conformance suite of the specification takes for a stack trace.

use handback_token::{Outside, Reason, Refused};
use serde_json::{Map, Value, json};

use crate::collection::CollectionError;
use crate::filter::FilterError;
use crate::schema::Column;

/// A code of the specification's registry, and the one of its operations document that the
/// registry lacks (`VALIDATION_ENDPOINT_MISMATCH`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// A required parameter is absent.
    MissingParam,
    /// A parameter is of the wrong type, out of range, or in the wrong company; also every fault of
    /// pagination.
    InvalidType,
    /// A parameter that the operation does not have.
    UnknownParam,
    /// The request is not UTF-8.
    InvalidEncoding,
    /// A size limit is passed.
    PayloadTooLarge,
    /// The operation belongs to another endpoint.
    EndpointMismatch,
    /// There is no such operation.
    NotFoundOperation,
    /// There is no such collection or element.
    NotFoundResource,
    /// The server could not do it.
    Internal,
}

impl Code {
    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingParam => "VALIDATION_MISSING_PARAM",
            Self::InvalidType => "VALIDATION_INVALID_TYPE",
            Self::UnknownParam => "VALIDATION_UNKNOWN_PARAM",
            Self::InvalidEncoding => "VALIDATION_INVALID_ENCODING",
            Self::PayloadTooLarge => "VALIDATION_PAYLOAD_TOO_LARGE",
            Self::EndpointMismatch => "VALIDATION_ENDPOINT_MISMATCH",
            Self::NotFoundOperation => "NOT_FOUND_OPERATION",
            Self::NotFoundResource => "NOT_FOUND_RESOURCE",
            Self::Internal => "INTERNAL_ERROR",
        }
    }

    /// Whether the caller can do something about it: what MCP's `isError` is the opposite of.
    #[must_use]
    pub const fn is_recoverable(self) -> bool {
        !matches!(self, Self::Internal)
    }
}

/// An operation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    code: Code,
    message: String,
    details: Map<String, Value>,
    inside: Option<Inside>,
}

/// What the audit is told and the caller is not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Inside {
    /// Why a cursor was refused.
    Cursor(Reason),
    /// A cursor opened, but its source has changed or dropped what it stands on.
    CursorOutlived,
    /// Why a handle was refused.
    Handle(&'static str),
    /// What the source of a collection said.
    Source(String),
}

impl Inside {
    /// Why something that came back was refused, as audit lines name it.
    #[must_use]
    pub const fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Cursor(reason) => Some(reason.as_str()),
            Self::CursorOutlived => Some("outlived"),
            Self::Handle(reason) => Some(reason),
            Self::Source(_) => None,
        }
    }
}

/// What a caller learns of a handle that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleRefusal {
    /// It was the caller's.
    Expired,
    /// It is not the caller's, or nobody's.
    Invalid,
    /// Its checksum is wrong.
    Mistyped,
    /// It was revoked: told as if it were not the caller's.
    Revoked,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>, details: Value) -> Self {
        let Value::Object(details) = details else { unreachable!("details are an object") };
        Self { code, message: message.into(), details, inside: None }
    }

    /// The code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The details.
    #[must_use]
    pub const fn details(&self) -> &Map<String, Value> {
        &self.details
    }

    /// What the audit is told and the caller is not.
    #[must_use]
    pub const fn inside(&self) -> Option<&Inside> {
        self.inside.as_ref()
    }

    /// The member `error` of an answer.
    pub(crate) fn to_value(&self, with_details: bool) -> Value {
        let mut error = json!({"code": self.code.as_str(), "message": self.message});
        if with_details
            && !self.details.is_empty()
            && let Value::Object(members) = &mut error
        {
            members.insert("details".to_owned(), Value::Object(self.details.clone()));
        }
        error
    }

    pub(crate) fn missing_param(name: &str, operation: &str) -> Self {
        Self::new(
            Code::MissingParam,
            format!("Missing required parameter '{name}'"),
            json!({"param_name": name, "operation": operation}),
        )
    }

    pub(crate) fn invalid_type(name: &str, expected: &str, actual: &str) -> Self {
        Self::new(
            Code::InvalidType,
            format!("Parameter '{name}' expected '{expected}', got '{actual}'"),
            json!({"param_name": name, "expected_type": expected, "actual_type": actual}),
        )
    }

    /// Parameters that do not go together.
    pub(crate) fn combination(message: &str, actual: &str, provided: &[&str], hint: &str) -> Self {
        Self::new(
            Code::InvalidType,
            message,
            json!({
                "param_name": "pagination",
                "expected_type": "valid pagination combination",
                "actual_type": actual,
                "provided": provided,
                "hint": hint,
            }),
        )
    }

    pub(crate) fn unknown_param(operation: &str, unknown: &[&str], valid: &[&str]) -> Self {
        let shown: Vec<String> =
            unknown.iter().take(MAX_SHOWN).map(|name| shortened(name)).collect();
        let mut message =
            format!("Unknown parameter(s) for operation '{operation}': {}", shown.join(", "));
        let snake = unknown.iter().map(|name| snake_case(name));
        let meant: Vec<String> = snake.filter(|name| valid.contains(&name.as_str())).collect();
        if !meant.is_empty() {
            message.push_str(&format!(". Did you mean {}?", meant.join(", ")));
        }
        let details =
            json!({"operation": operation, "unknown_params": shown, "valid_params": valid});
        Self::new(Code::UnknownParam, message, details)
    }

    pub(crate) fn too_large(limit_type: &str, limit: u64, actual: Option<u64>, unit: &str) -> Self {
        let mut details = json!({"limit_type": limit_type, "limit_value": limit, "unit": unit});
        if let (Some(actual), Value::Object(members)) = (actual, &mut details) {
            members.insert("actual_value".to_owned(), actual.into());
        }
        let message =
            format!("Size limit exceeded: '{limit_type}' has a maximum of {limit} {unit}");
        Self::new(Code::PayloadTooLarge, message, details)
    }

    /// An answer that has more bytes than `limit`, or, in a batch, than are left of it.
    pub(crate) fn answer_too_large(limit: usize, actual: Option<usize>) -> Self {
        let actual = actual.filter(|actual| *actual > limit).map(|actual| actual as u64);
        Self::too_large("response_size", limit as u64, actual, "bytes")
    }

    /// A numbered page that would have to be cut: the next number would not go on where it ends.
    pub(crate) fn page_too_large(limit: usize) -> Self {
        let mut failure = Self::answer_too_large(limit, None);
        let hint = "Ask for a smaller 'page_size' or fewer 'fields', or walk with 'first' and \
                    'after': those pages are cut between items and lose none";
        failure.details.insert("hint".to_owned(), hint.into());
        failure
    }

    pub(crate) fn not_found(resource_type: &str, id: &str) -> Self {
        let id = shortened(id);
        Self::new(
            Code::NotFoundResource,
            format!("No {resource_type} '{id}'"),
            json!({"resource_type": resource_type, "resource_id": id}),
        )
    }

    /// A name that the collection does not have.
    pub(crate) fn unknown_field(param_name: &str, name: &str, valid: &[&str]) -> Self {
        let name = shortened(name);
        let mut failure = Self::invalid_type(param_name, "name of a column", "unknown name");
        failure.message = format!("Parameter '{param_name}' names an unknown column '{name}'");
        failure.with_names(valid)
    }

    /// A column that is there, and has values without an order.
    pub(crate) fn unordered_field(param_name: &str, column: &Column, valid: &[&str]) -> Self {
        let name = shortened(&column.name);
        let actual = format!("column of type {}", column.kind.name());
        let mut failure = Self::invalid_type(param_name, "column with an order", &actual);
        failure.message =
            format!("Parameter '{param_name}' names the column '{name}', which has no order");
        failure.with_names(valid)
    }

    fn with_names(mut self, valid: &[&str]) -> Self {
        let valid: Vec<_> =
            valid.iter().take(MAX_VALID_NAMES).map(|name| shortened(name)).collect();
        self.details.insert("valid_names".to_owned(), json!(valid));
        self
    }

    /// A cursor that is refused: told apart outside as little as tokens are.
    pub(crate) fn cursor(param_name: &str, refused: Refused) -> Self {
        let failure = Self::cursor_outside(param_name, refused.outside());
        Self { inside: Some(Inside::Cursor(refused.reason())), ..failure }
    }

    /// A cursor whose place is gone with the state of the source that it belongs to.
    pub(crate) fn cursor_outlived(param_name: &str) -> Self {
        let failure = Self::cursor_outside(param_name, Outside::Expired);
        Self { inside: Some(Inside::CursorOutlived), ..failure }
    }

    fn cursor_outside(param_name: &str, outside: Outside) -> Self {
        let actual = match outside {
            Outside::Expired => "expired cursor",
            _ => "invalid cursor",
        };
        let mut failure = Self::invalid_type(param_name, "cursor", actual);
        failure.details.insert(
            "hint".to_owned(),
            format!("Start again without '{param_name}', with the same filter and sort").into(),
        );
        failure
    }

    /// A handle that gives no collection. Nothing of it is repeated: refusals of one kind are equal.
    pub(crate) fn handle(refusal: HandleRefusal) -> Self {
        let reason = match refusal {
            HandleRefusal::Expired => "expired_handle",
            HandleRefusal::Invalid => "unknown_handle",
            HandleRefusal::Mistyped => "mistyped_handle",
            HandleRefusal::Revoked => "revoked",
        };
        let (actual, hint) = match refusal {
            HandleRefusal::Expired => {
                ("expired handle", "Make the call that gave the handle once more")
            }
            HandleRefusal::Invalid | HandleRefusal::Revoked => {
                ("invalid handle", "List the collections to see what can be read")
            }
            HandleRefusal::Mistyped => {
                ("mistyped handle", "Copy the handle again: a character of it is another one")
            }
        };
        let mut failure = Self::invalid_type("element_type", "collection", actual);
        failure.details.insert("hint".to_owned(), hint.into());
        Self { inside: Some(Inside::Handle(reason)), ..failure }
    }

    /// What a collection answered, as far as a caller may know it. `cursor` names the parameter
    /// that held the place, if there was one.
    pub(crate) fn collection(error: CollectionError, name: &str, cursor: Option<&str>) -> Self {
        let inside = Some(Inside::Source(error.to_string()));
        let failure = match error {
            CollectionError::Changed => match cursor {
                Some(param_name) => return Self::cursor_outlived(param_name),
                None => Self::unavailable(name, "the source changed while it was read"),
            },
            CollectionError::OtherType { ref column, change } => match cursor {
                Some(param_name) => {
                    let mut failure = Self::cursor_outlived(param_name);
                    let column = shortened(column);
                    failure.details.insert(
                        "hint".to_owned(),
                        format!(
                            "Column '{column}' {change}: start again without '{param_name}', with \
                             the same filter and sort"
                        )
                        .into(),
                    );
                    return failure;
                }
                None => Self::unavailable(name, "the source changed while it was read"),
            },
            CollectionError::BadPlace => match cursor {
                Some(param_name) => return Self::cursor(param_name, Reason::Malformed.into()),
                None => Self::unavailable(name, "unexpected place"),
            },
            CollectionError::BadValue { field, expected } => {
                let actual = "value out of range or malformed";
                Self::invalid_type(&format!("filter.{field}"), &expected, actual)
            }
            CollectionError::NotIndexed { hint } => {
                let mut failure = Self::invalid_type(
                    "sort",
                    "order served by an index",
                    "order without an index",
                );
                failure.details.insert("hint".to_owned(), cut_hint(&hint).into());
                failure
            }
            CollectionError::Gone(_) => Self::not_found("collection", name),
            CollectionError::ColumnGone { ref column } => column_gone(name, column),
            CollectionError::TooLarge { what, limit, unit } => {
                let (kind, hint) = match what {
                    "snapshot" => ("snapshot_size", None),
                    "held value" => ("held_size", None),
                    "search" => ("search_words", None),
                    "statement" => ("statement_size", None),
                    "an item" => {
                        ("item_size", Some("Read parts of it: get_element with 'pointer'"))
                    }
                    "an offset" => ("offset", Some("Walk with 'first' and 'after', or filter")),
                    _ => ("response_size", None),
                };
                let failure = Self::too_large(kind, limit, None, unit);
                match hint {
                    Some(hint) => failure.with_hint(hint),
                    None => failure,
                }
            }
            // Each cause has another remedy. No path, address or statement is in the text.
            CollectionError::Unavailable(text) => {
                let why = format!("the source is not available: {}", cut_hint(&text));
                Self::unavailable(name, &why)
            }
            // What it is and where: nobody else can put it right.
            CollectionError::Damaged(text) => {
                let why = format!("the source holds something unreadable: {}", cut_hint(&text));
                Self::unavailable(name, &why)
            }
            CollectionError::NothingAt(pointer) => {
                let pointer = shortened(&pointer.to_string());
                Self::unavailable(name, &format!("there is no value under '{pointer}'"))
            }
            CollectionError::Refused(_) => {
                Self::unavailable(name, "the source did not take the question")
            }
        };
        Self { inside, ..failure }
    }

    /// Only what it is.
    pub(crate) fn without_details(mut self) -> Self {
        self.details.clear();
        self
    }

    /// With what to do about it.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.details.insert("hint".to_owned(), hint.into().into());
        self
    }

    /// A value by pointer that has more bytes than fit.
    pub(crate) fn value_too_large(limit: usize, kind: &str, bytes: u64, hint: String) -> Self {
        let mut failure = Self::too_large("response_size", limit as u64, Some(bytes), "bytes");
        failure.details.insert("kind".to_owned(), kind.into());
        failure.with_hint(hint)
    }

    fn unavailable(name: &str, why: &str) -> Self {
        Self::new(
            Code::Internal,
            format!("Collection '{name}': {why}"),
            json!({"upstream_error": why}),
        )
    }

    pub(crate) fn internal(what: &str, inside: String) -> Self {
        let failure = Self::new(Code::Internal, format!("Internal error: {what}"), json!({}));
        Self { inside: Some(Inside::Source(inside)), ..failure }
    }

    pub(crate) fn filter(error: FilterError, valid: &[&str]) -> Self {
        match error {
            FilterError::Invalid { param_name, expected, actual } => {
                Self::invalid_type(&shortened(&param_name), &expected, &actual)
            }
            FilterError::UnknownField { name } => {
                let param_name = format!("filter.{}", shortened(&name));
                Self::unknown_field(&param_name, &name, valid)
            }
            FilterError::TooLarge { what, limit, actual } => {
                let unit = if what == "nesting_depth" { "levels" } else { "elements" };
                Self::too_large(what, limit as u64, Some(actual as u64), unit)
            }
        }
    }
}

/// A column of the query that the collection does not have any more.
fn column_gone(collection: &str, column: &str) -> Failure {
    let (collection, column) = (shortened(collection), shortened(column));
    let mut failure = Failure::invalid_type("column", "name of a column", "unknown name");
    failure.message = format!("Collection '{collection}' has no column '{column}' any more");
    failure.with_hint("Introspect the collection for its columns, and start again without a cursor")
}

/// How many names of a caller are repeated in a message.
const MAX_SHOWN: usize = 10;

/// How many names of columns are told to who used one that is none.
const MAX_VALID_NAMES: usize = 100;

/// How many characters of a hint are told: it has names of columns in it, as long as they are.
const MAX_HINT_CHARS: usize = 1000;

/// A hint that fits into every answer.
pub(super) fn cut_hint(hint: &str) -> &str {
    let end = hint.char_indices().nth(MAX_HINT_CHARS).map(|(end, _)| end);
    end.and_then(|end| hint.get(..end)).unwrap_or(hint)
}

/// How many characters of a caller's text are repeated in a message.
const MAX_SHOWN_CHARS: usize = 64;

/// A caller's text, cut for a message. Control characters become spaces.
pub(crate) fn shortened(text: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = text.chars().take(MAX_SHOWN_CHARS).map(clean).collect();
    if text.chars().nth(MAX_SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars().take(MAX_SHOWN_CHARS) {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_camel_case_name_gets_a_suggestion() {
        let failure = Failure::unknown_param("list_elements", &["pageSize"], &["page_size"]);
        assert_eq!(
            failure.message(),
            "Unknown parameter(s) for operation 'list_elements': pageSize. Did you mean page_size?"
        );
    }

    #[test]
    fn why_a_source_is_not_available_is_told() {
        for why in ["the table is locked", "the statement took too long"] {
            let error = CollectionError::Unavailable(why.to_owned());
            let failure = Failure::collection(error, "orders", Some("after")).to_value(true);
            let told = format!("the source is not available: {why}");
            assert_eq!(failure["code"], "INTERNAL_ERROR");
            assert_eq!(failure["details"], json!({"upstream_error": told}));
            assert_eq!(failure["message"], format!("Collection 'orders': {told}"));
        }
    }

    #[test]
    fn callers_text_is_repeated_in_part() {
        let long = "x".repeat(1000);
        let failure = Failure::not_found("collection", &long);
        assert!(failure.message().chars().count() < 100);
        assert_eq!(shortened("a\u{1b}[31m\nb"), "a [31m b");
    }
}
