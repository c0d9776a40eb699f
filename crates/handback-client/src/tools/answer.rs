//! What a tool gives.

use serde_json::Value;
use serde_json::value::RawValue;

/// What a call gave.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// It is done, or a page of it.
    Given(Given),
    /// It wants to know something first.
    Asks(Asks),
    /// The tool says that it failed.
    Failed(Failed),
}

/// A result, or a page.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Given {
    /// As the server wrote it. Over MCP a page is the array of its items, as on the other surfaces.
    pub result: Box<RawValue>,
    /// Where the next page is, if there is one.
    pub next_cursor: Option<String>,
    /// Whether it is the answer to an earlier call with the same key.
    pub is_replay: bool,
}

/// Questions.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Asks {
    /// By their names.
    pub questions: Vec<(String, Question)>,
    /// What goes back with the answers, as it is.
    pub state: String,
}

/// A question.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Question {
    /// To fill in.
    Form {
        /// For people.
        message: String,
        /// The schema of the content of an answer.
        schema: Value,
    },
    /// To do something at an address.
    Url {
        /// For people.
        message: String,
        /// Where.
        url: String,
    },
    /// Something else, such as a completion of a model, as the server wrote it.
    Other(Value),
}

/// A tool that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failed {
    /// For people.
    pub message: String,
    /// More, as the server wrote it.
    pub data: Option<Box<RawValue>>,
    /// Whether it is the answer to an earlier call with the same key.
    pub is_replay: bool,
}

/// What a tool tells on its way.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// How far it is.
    Progress {
        /// So far.
        done: f64,
        /// Of so much.
        total: Option<f64>,
        /// For people.
        message: Option<String>,
    },
    /// A line of a log.
    Log {
        /// How important it is.
        level: String,
        /// What it says.
        data: Value,
    },
    /// A page of a walk came.
    Page {
        /// How many came by now.
        pages: u32,
        /// How many bytes they have.
        bytes: u64,
    },
    /// The call is tried again.
    Again {
        /// Why.
        why: String,
    },
}

/// The tools that a server lists.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolList {
    /// The tools, by name.
    pub tools: Vec<ToolInfo>,
    /// Sentences about upstreams of a gateway that are not there, so that their tools may be missing.
    pub unavailable: Vec<String>,
}

/// A tool, as a server describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The schema of its arguments.
    pub input_schema: Value,
    /// All of it, as the server wrote it.
    pub text: Box<RawValue>,
}
