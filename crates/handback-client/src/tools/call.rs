//! What is asked of a tool.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Bytes of arguments at most: a server takes no more.
pub const MAX_ARGUMENTS_BYTES: usize = 4 << 20;

/// The argument that a cursor goes into, over MCP.
const CURSOR_ARGUMENT: &str = "__cursor";

/// The arguments of a call: a JSON object, sent as it was written.
#[derive(Clone, Debug)]
pub struct Arguments(Box<RawValue>);

/// Arguments that are none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("arguments are one JSON object of at most 4 MiB{}", .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
#[non_exhaustive]
pub struct BadArguments(Option<String>);

impl Arguments {
    /// Reads arguments.
    ///
    /// # Errors
    ///
    /// [`BadArguments`] if it is not one JSON object, or too long.
    pub fn parse(text: &str) -> Result<Self, BadArguments> {
        if text.len() > MAX_ARGUMENTS_BYTES {
            return Err(BadArguments(None));
        }
        let object: Box<RawValue> =
            serde_json::from_str(text).map_err(|why| BadArguments(Some(why.to_string())))?;
        match object.get().starts_with('{') {
            true => Ok(Self(object)),
            false => Err(BadArguments(None)),
        }
    }

    /// As they were written.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    pub(super) const fn raw(&self) -> &RawValue {
        &self.0
    }

    /// With a cursor among them.
    pub(super) fn with_cursor(&self, cursor: &str) -> Box<RawValue> {
        let inside = self.get().strip_prefix('{').unwrap_or_default().trim_start();
        let comma = if inside == "}" { "" } else { "," };
        let text = format!("{{\"{CURSOR_ARGUMENT}\":{}{comma}{inside}", Value::from(cursor));
        RawValue::from_string(text).unwrap_or_else(|_| self.0.clone())
    }
}

impl Default for Arguments {
    fn default() -> Self {
        Self(RawValue::from_string("{}".to_owned()).unwrap_or_default())
    }
}

/// A call: of a tool, or on with one.
#[derive(Clone, Debug)]
#[must_use]
pub struct Call {
    pub(super) tool: String,
    pub(super) arguments: Arguments,
    pub(super) continuation: Option<Continuation>,
    pub(super) key: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum Continuation {
    Cursor(String),
    State { state: String, answers: Map<String, Value> },
}

impl Call {
    /// The first call of a tool.
    pub fn new(tool: impl Into<String>, arguments: Arguments) -> Self {
        Self { tool: tool.into(), arguments, continuation: None, key: None }
    }

    /// Goes on at a cursor. Over MCP the arguments are those of the first page; elsewhere they travel
    /// in the cursor, and the ones here are not sent.
    pub fn cursor(mut self, cursor: impl Into<String>) -> Self {
        self.continuation = Some(Continuation::Cursor(cursor.into()));
        self
    }

    /// Answers what was asked, by name: `{"action":"accept","content":{…}}` for a form. The arguments
    /// are those of the call that asked.
    pub fn answers(mut self, state: impl Into<String>, answers: Map<String, Value>) -> Self {
        self.continuation = Some(Continuation::State { state: state.into(), answers });
        self
    }

    /// What makes a retry the same call: 1 to 255 printable ASCII characters without spaces.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The name of the tool.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Whether it has an idempotency key.
    #[must_use]
    pub const fn is_keyed(&self) -> bool {
        self.key.is_some()
    }

    /// Whether it goes on with something.
    #[must_use]
    pub const fn goes_on(&self) -> bool {
        self.continuation.is_some()
    }

    pub(super) fn at(&self) -> Option<&str> {
        match &self.continuation {
            Some(Continuation::Cursor(cursor)) => Some(cursor),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_goes_among_the_arguments_and_leaves_them_as_they_are() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Arguments::parse(text).unwrap().with_cursor("c\"").get(), expected);
        };
        check("{}", r#"{"__cursor":"c\""}"#);
        check("{ }", r#"{"__cursor":"c\""}"#);
        check(r#"{ "a":1.50 }"#, r#"{"__cursor":"c\"","a":1.50 }"#);
        check(r#"{"{":{}}"#, r#"{"__cursor":"c\"","{":{}}"#);
    }

    #[test]
    fn arguments_are_one_object() {
        assert!(Arguments::parse(" {} ").is_ok());
        for bad in ["", "[]", "1", "{} {}", "{\"a\":}", "null"] {
            assert!(Arguments::parse(bad).is_err(), "{bad}");
        }
        assert!(Arguments::parse(&format!("{{\"a\":\"{}\"}}", "x".repeat(4 << 20))).is_err());
    }
}
