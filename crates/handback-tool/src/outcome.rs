//! What a call gives.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::input::Inputs;

/// What a tool gives. Positions and state are plain: the pipeline seals them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is done, and this is the result.
    Done(Content),
    /// One page of it, and where the next one starts, if there is one.
    Page {
        /// The items of this page.
        items: Vec<Value>,
        /// Where the next page starts.
        next: Option<Position>,
    },
    /// The caller is asked something; with the answers, the tool is called again.
    NeedsInput {
        /// The questions.
        inputs: Inputs,
        /// What the tool wants to know again then.
        state: Value,
    },
}

impl Outcome {
    /// A result.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if it cannot be written as JSON.
    pub fn json(value: impl Serialize) -> Result<Self, ToolError> {
        let value = serde_json::to_value(value);
        Ok(Self::Done(Content::Value(value.map_err(|_| ToolError::new("the result is not JSON"))?)))
    }

    /// A result that is a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Done(Content::Text(text.into()))
    }

    /// A page; `next` is where the one after it starts.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if something of it cannot be written as JSON.
    pub fn page<T: Serialize>(
        items: impl IntoIterator<Item = T>,
        next: Option<Position>,
    ) -> Result<Self, ToolError> {
        let items: Result<_, _> = items.into_iter().map(serde_json::to_value).collect();
        Ok(Self::Page { items: items.map_err(|_| ToolError::new("an item is not JSON"))?, next })
    }

    /// A page; `next` is what [`Position::read`] gives where the one after it starts.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if something of it cannot be written as JSON.
    pub fn page_then<T: Serialize, P: Serialize>(
        items: impl IntoIterator<Item = T>,
        next: Option<P>,
    ) -> Result<Self, ToolError> {
        Self::page(items, next.as_ref().map(Position::of).transpose()?)
    }

    /// Asks back. What the tool wants to know again comes to it by
    /// [`CallContext::request_state`](crate::CallContext::request_state).
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the state cannot be written as JSON.
    pub fn needs_input<T: Serialize>(inputs: Inputs, state: &T) -> Result<Self, ToolError> {
        let state = serde_json::to_value(state);
        let state = state.map_err(|_| ToolError::new("the state of the exchange is not JSON"))?;
        Ok(Self::NeedsInput { inputs, state })
    }
}

/// What a tool returns.
pub type ToolResult = Result<Outcome, ToolError>;

/// A result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// A JSON value.
    Value(Value),
    /// A text.
    Text(String),
    /// The `result` of the protocol, ready made: of MCP for tools that relay, or that give images
    /// and links. It is an object.
    Result(Value),
    /// The bytes of a JSON text.
    #[serde(with = "raw")]
    Raw(Bytes),
    /// Something held: the text of its handle.
    Held(String),
}

/// Bytes of a JSON text inside a JSON text: as a string, which can hold all of them.
pub(crate) mod raw {
    use bytes::Bytes;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &Bytes, out: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => out.serialize_str(text),
            Err(_) => Err(serde::ser::Error::custom("not UTF-8")),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        Ok(String::deserialize(from)?.into())
    }
}

/// A plain place in a walk: what the tool of a page needs to find the next one. The caller gets it
/// sealed.
#[derive(Clone, PartialEq, Eq)]
pub struct Position(Vec<u8>);

impl Position {
    /// A place that is written as JSON.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if it cannot be.
    pub fn of<T: Serialize>(value: &T) -> Result<Self, ToolError> {
        let bytes = serde_json::to_vec(value);
        bytes.map(Self).map_err(|_| ToolError::new("the position is not JSON"))
    }

    /// A place that is these bytes.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The place that [`of`](Self::of) wrote.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if it is none of this type: an older version of the tool may have written it.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        let read = serde_json::from_slice(&self.0);
        read.map_err(|_| ToolError::new("the position is of another version").nothing_happened())
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// As base64url: a position may be any bytes.
impl Serialize for Position {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&URL_SAFE_NO_PAD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        URL_SAFE_NO_PAD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Position({} bytes)", self.0.len())
    }
}

/// A call that failed, as the tool says. The message is for the caller.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
    pub(crate) code: Option<i32>,
    pub(crate) has_no_effect: bool,
}

impl ToolError {
    /// A failure. It is the outcome of the call: a retry with the same key gets it again.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), data: None, code: None, has_no_effect: false }
    }

    /// With more for programs.
    #[must_use]
    pub fn data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// It is an error of the protocol, not a result: on MCP, one of JSON-RPC with this code.
    #[must_use]
    pub const fn code(mut self, code: i32) -> Self {
        self.code = Some(code);
        self
    }

    /// It failed before it did anything: the key is free for another try.
    #[must_use]
    pub const fn nothing_happened(mut self) -> Self {
        self.has_no_effect = true;
        self
    }

    /// What the caller is told.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}
